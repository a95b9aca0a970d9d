"""Limits of queues and cron entries, named in the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import ServerProcess, run
from tests.faktory_wire import FaktoryWire
from tests.fwp_clients.servers import url_of

from .conftest import Open
from .jobs import push

TABLES = """
[fwp.throttles]
slow = { concurrency = 1, timeout = 45 }
each = { worker = 1, timeout = 45 }

[[fwp.cron]]
schedule = "* * * * * *"
  [fwp.cron.job]
  type = "Tick"
  queue = "ticks"
  args = [1]
"""


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with limits and a cron entry."""
    folder = tmp_path_factory.mktemp("limited")
    (folder / "anew.toml").write_text(TABLES)
    server = ServerProcess(folder / "data", fwp_port=0, config=folder / "anew.toml")
    yield url_of(*server.address_of("fwp"), None)
    server.close()
    assert not server.new_complaints()


def fetched(wire: FaktoryWire, *queues: str) -> str | None:
    """The jid of the job that a FETCH gives."""
    job = wire.ask(f"FETCH {' '.join(queues)}")
    return None if job is None else str(job["jid"])


def test_fwp_100_a_saturated_queue_acts_empty_until_an_ack(connect: Open, limited: str) -> None:
    one, other = connect(to=limited), connect(to=limited)
    push(one, "slow", jid="slow-one")
    push(one, "slow", jid="slow-two")
    push(one, "plain", jid="plain-one")
    assert fetched(one, "slow") == "slow-one"
    assert fetched(other, "slow", "plain") == "plain-one"
    assert fetched(other, "slow") is None
    one.expect('ACK {"jid":"slow-one"}')
    assert fetched(other, "slow") == "slow-two"


def test_fwp_100_a_limit_of_each_worker_leaves_others_their_own(connect: Open, limited: str) -> None:
    ada, bob = connect(to=limited, wid="ada"), connect(to=limited, wid="bob")
    for jid in ("each-one", "each-two", "each-three"):
        push(ada, "each", jid=jid)
    assert fetched(ada, "each") == "each-one"
    assert fetched(bob, "each") == "each-two"
    assert fetched(ada, "each") is None


def test_a_cron_entry_pushes_its_job_under_an_id_of_its_own(connect: Open, limited: str) -> None:
    wire = connect(to=limited)
    jobs = [wire.ask("FETCH ticks") for _ in range(2)]
    assert [(job["jobtype"], job["args"], job["retry"]) for job in jobs] == [("Tick", [1], 25)] * 2
    assert jobs[0]["jid"] != jobs[1]["jid"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[[fwp.cron]]\nschedule = "61 * * * *"\n[fwp.cron.job]\ntype = "T"\n', "61"),
        ('[[fwp.cron]]\nschedule = "* * * * *"\n[fwp.cron.job]\ntype = "T"\nqueue = "a b"\n', "expected letters, digits"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_is_refused_at_the_start(tmp_path: Path, table: str, said: str) -> None:
    (tmp_path / "anew.toml").write_text(table)
    ended = run(
        "serve", "--config", str(tmp_path / "anew.toml"), "--root-dir", str(tmp_path / "data"), "--port", "0"
    )
    assert ended.returncode == 2
    assert said in ended.stderr
