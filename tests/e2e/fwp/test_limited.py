"""Limits of queues and cron entries, named in the settings."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.command import anew, anew_json
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


def test_a_limit_and_a_pause_are_seen_in_the_list_of_queues(tmp_path: Path, connect: Open) -> None:
    (tmp_path / "anew.toml").write_text(TABLES.partition("[[")[0])
    server = ServerProcess(tmp_path / "data", fwp_port=0, config=tmp_path / "anew.toml")
    wire = connect(to=url_of(*server.address_of("fwp"), None))
    push(wire, "slow", jid="slow-one")
    push(wire, "plain", jid="plain-one")
    assert (
        anew(server.address, "queues", "pause", "plain", "empty").stdout
        == "plain is paused\nempty is paused\n"
    )
    assert fetched(wire, "plain") is None
    each, empty, plain, slow = anew_json(server.address, "queues")["queues"]
    assert [queue["name"] for queue in (each, empty, plain, slow)] == ["each", "empty", "plain", "slow"]
    assert [queue["paused"] for queue in (each, empty, plain, slow)] == [False, True, True, False]
    assert slow["limit"] == {"concurrency": 1, "worker": None, "timeout_ms": 45_000, "rate": None}
    assert plain["limit"] is None
    lines = anew(server.address, "queues").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["QUEUE", "each", "empty", "plain", "slow"]
    assert [line.rpartition("   ")[2].strip() for line in lines[1:]] == [
        "1 a worker",
        "paused",
        "paused",
        "1 at a time",
    ]
    said = anew(server.address, "queues", "resume", "plain", "plane").stdout
    assert said == "plain is resumed\nplane was not paused\n"
    assert fetched(wire, "plain") == "plain-one"
    assert anew_json(server.address, "queues", "resume", "empty", "slow") == {"resumed": ["empty"]}
    server.close()


def test_a_cron_entry_pushes_its_job_under_an_id_of_its_own(connect: Open, limited: str) -> None:
    wire = connect(to=limited)
    jobs = [wire.ask("FETCH ticks") for _ in range(2)]
    assert [(job["jobtype"], job["args"], job["retry"]) for job in jobs] == [("Tick", [1], 25)] * 2
    assert jobs[0]["jid"] != jobs[1]["jid"]


def test_the_entries_are_listed_with_their_next_fires_and_their_last(tmp_path: Path, connect: Open) -> None:
    yearly = '[[fwp.cron]]\nschedule = "@yearly"\ntimezone = "UTC"\njob = {type = "Yearly"}\n'
    (tmp_path / "anew.toml").write_text(TABLES + yearly)
    server = ServerProcess(tmp_path / "data", fwp_port=0, config=tmp_path / "anew.toml")
    began = datetime.now(UTC)
    connect(to=url_of(*server.address_of("fwp"), None)).ask("FETCH ticks")
    tick, year = anew_json(server.address, "cron", "list")["crons"]
    assert (tick["name"], tick["timezone"], tick["paused"]) == ("Tick * * * * * *", None, False)
    assert tick["last_fired_at"] < tick["next_at"]
    assert year == {
        "group": "faktory",
        "name": "Yearly @yearly",
        "schedule": "@yearly",
        "timezone": "UTC",
        "paused": False,
        "next_at": datetime(began.year + 1, 1, 1, tzinfo=UTC).timestamp() * 1000,
        "last_fired_at": None,
    }
    heading, first, second = anew(server.address, "cron", "list").stdout.splitlines()
    assert heading.split() == ["GROUP", "ENTRY", "SCHEDULE", "ZONE", "NEXT", "LAST"]
    assert first.startswith("faktory  Tick * * * * * *  * * * * * *  -     ")
    assert second.startswith("faktory  Yearly @yearly    @yearly      UTC   in ")
    server.close()


def test_without_entries_the_list_says_where_they_stand(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", fwp_port=0)
    said = anew(server.address, "cron", "list").stdout
    assert (
        said
        == "No cron entries: they stand in anew.toml, under [[fwp.cron]], or come from Python applications.\n"
    )
    server.close()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[[fwp.cron]]\nschedule = "61 * * * *"\n[fwp.cron.job]\ntype = "T"\n', "61"),
        ('[[fwp.cron]]\nschedule = "* * * * *"\n[fwp.cron.job]\ntype = "T"\nqueue = "a b"\n', "expected letters, digits"),
        ('[[fwp.cron]]\nschedule = "* * * * *"\n[fwp.cron.job]\ntype = "T"\ncustom = {unique_for = -1}\n', "[fwp] cron[1].job: "),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_is_refused_at_the_start(tmp_path: Path, table: str, said: str) -> None:
    (tmp_path / "anew.toml").write_text(table)
    ended = run(
        "serve", "--config", str(tmp_path / "anew.toml"), "--root-dir", str(tmp_path / "data"), "--port", "0"
    )
    assert ended.returncode == 2
    assert said in ended.stderr


def test_a_key_of_faktorys_files_that_has_no_effect_is_logged_at_the_start_and_at_sighup(
    tmp_path: Path,
) -> None:
    file = tmp_path / "conf.d" / "throttles.toml"
    file.parent.mkdir()
    file.write_text("[throttles]\nslow = { concurrency = 1, burst = 5 }\n")
    server = ServerProcess(tmp_path / "data", fwp_port=0, faktory_dir=tmp_path)
    said = "a key of Faktory's settings is not known and has no effect"
    (record,) = [json.loads(line) for line in server.output if said in line]
    assert (record["level"], record["fields"]["key"]) == ("WARN", f"{file}: [throttles].slow.burst")
    file.write_text("[throttles]\nslow = { concurrency = 1, brust = 5 }\n")
    server.process_signal(signal.SIGHUP)
    assert server.await_record(said)["key"] == f"{file}: [throttles].slow.brust"
    server.close()


RELOADED = "cron entries and throttles were read again"
KEPT = "the settings cannot be read again; cron entries and throttles stay as they were"


def test_sighup_replaces_limits_and_entries_and_a_bad_file_changes_nothing(
    tmp_path: Path, connect: Open
) -> None:
    file = tmp_path / "anew.toml"
    file.write_text("[fwp.throttles]\nslow = { concurrency = 1, timeout = 45 }\n")
    server = ServerProcess(tmp_path / "data", fwp_port=0, config=file)
    wire = connect(to=url_of(*server.address_of("fwp"), None))
    for number in range(5):
        push(wire, "slow", jid=f"slow-job-{number}")
    assert [fetched(wire, "slow") for _ in range(2)] == ["slow-job-0", None]

    file.write_text(
        '[fwp.throttles]\nslow = { concurrency = 2, timeout = 45 }\n[[fwp.cron]]\nschedule = "x"\n'
    )
    server.process_signal(signal.SIGHUP)
    assert "anew.toml" in server.await_record(KEPT)["reason"]
    assert fetched(wire, "slow") is None

    file.write_text(
        TABLES.replace("concurrency = 1", "concurrency = 3") + '[server]\nheartbeat-interval = "7s"\n'
    )
    server.process_signal(signal.SIGHUP)
    told = server.await_record(RELOADED)
    assert (told["cron_written"], told["cron_removed"], told["throttles"]) == (1, 0, 2)
    told = server.await_record("other settings have changed; they count at the next start")
    assert told["settings"] == "heartbeat-interval"
    assert [fetched(wire, "slow") for _ in range(3)] == ["slow-job-1", "slow-job-2", None]
    assert wire.ask("FETCH ticks")["jobtype"] == "Tick"

    file.write_text("")
    server.process_signal(signal.SIGHUP)
    told = server.await_record(RELOADED)
    assert (told["cron_written"], told["cron_removed"], told["throttles"]) == (0, 1, 0)
    assert fetched(wire, "slow") == "slow-job-3"
    assert server.terminate() == 0
    (complaint,) = server.new_complaints()
    assert KEPT in complaint
    server.close()


def test_sighup_without_the_protocol_leaves_the_server_running(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", no_fwp=True)
    server.process_signal(signal.SIGHUP)
    server.await_record(
        "no settings are read again: cron entries and throttles belong to the Faktory Work Protocol, which is off"
    )
    assert server.terminate() == 0
    server.close()
