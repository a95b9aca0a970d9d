"""MUTATE: checklist 81 to 88."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import Client
from tests.e2e.server import ServerProcess
from tests.faktory_wire import FaktoryWire
from tests.fwp_clients.servers import url_of

from .jobs import LATER, compact, failed, fetch, figures, mutate, push, sets

KINDS = ("apple", "pear", "apple*")
SETS = ("scheduled", "retries", "dead")


def fill(wire: FaktoryWire, queue: str, target: str) -> list[str]:
    """Put three jobs in a set, of each kind one; gives their jids."""
    jids = []
    for number, kind in enumerate(KINDS, 1):
        fields: dict[str, Any] = {"jobtype": kind, "args": [kind]}
        if target == "scheduled":
            jids.append(push(wire, queue, number, at=LATER, **fields))
        else:
            jids.append(failed(wire, queue, number, retry=-1 if target == "dead" else 25, **fields))
    return jids


def left(wire: FaktoryWire, target: str) -> int:
    return sets(wire)[SETS.index(target)]


def ready(wire: FaktoryWire) -> int:
    return int(figures(wire)["total_enqueued"])


@pytest.mark.parametrize("target", SETS)
@pytest.mark.parametrize("cmd", ["clear", "discard", "kill", "requeue"])
def test_fwp_81_85_each_command_on_each_set(empty: FaktoryWire, queue: str, cmd: str, target: str) -> None:
    fill(empty, queue, target)
    mutate(empty, cmd, target)
    dead = 3 if cmd == "kill" else 0
    assert (sets(empty), ready(empty)) == ((0, 0, dead, 0), 3 if cmd == "requeue" else 0)
    empty.expect(f'MUTATE {{"cmd":"{cmd}","target":"{target}","filter":{{}}}}')


FILTERS: tuple[tuple[int, Callable[[list[str]], dict[str, Any]]], ...] = (
    (1, lambda jids: {"jids": jids[:1]}),
    (2, lambda jids: {"jids": [jids[0], jids[2], "unknown-1"]}),
    (0, lambda jids: {"jids": ["unknown-1"]}),
    (1, lambda jids: {"jids": jids[:1], "jobtype": "pear"}),  # 82
    (1, lambda jids: {"jids": jids[1:2], "regexp": "nothing"}),  # 82
    (1, lambda jids: {"jobtype": "pear"}),
    (1, lambda jids: {"jobtype": "apple*"}),  # 83: exact; in Faktory it is a pattern
    (0, lambda jids: {"jobtype": "pea"}),
    (3, lambda jids: {"regexp": "*"}),
    (0, lambda jids: {"regexp": "pear"}),
    (1, lambda jids: {"regexp": '*"args":["pear"]*'.replace("[", r"\[").replace("]", r"\]")}),  # 84
    (0, lambda jids: {"regexp": '*"args":["pear"]*'}),
    (1, lambda jids: {"regexp": '*"jobtype":"?ea[qr]"*'}),
    (1, lambda jids: {"regexp": '*"jobtype":"[^a]*'}),
    (1, lambda jids: {"regexp": "*", "jobtype": "pear"}),
    (0, lambda jids: {"regexp": '*"args":?"apple*', "jobtype": "pear"}),  # 83: both
    (3, lambda jids: {"jids": [], "regexp": "", "jobtype": ""}),  # 85
    (3, lambda jids: {"strange": 1}),
)


@pytest.mark.parametrize("target", SETS)
@pytest.mark.parametrize("number", range(len(FILTERS)))
def test_fwp_82_83_84_filters(empty: FaktoryWire, queue: str, target: str, number: int) -> None:
    count, chosen = FILTERS[number]
    jids = fill(empty, queue, target)
    mutate(empty, "requeue", target, **chosen(jids))
    assert (left(empty, target), ready(empty)) == (3 - count, count)


@pytest.mark.parametrize("cmd", ["discard", "kill", "requeue"])
def test_fwp_82_many_jids(empty: FaktoryWire, queue: str, cmd: str) -> None:
    """More than a statement of the store may have values."""
    jids = fill(empty, queue, "scheduled")
    mutate(empty, cmd, "scheduled", jids=[*(f"unknown-{n}" for n in range(50_000)), *jids[:2]])
    assert left(empty, "scheduled") == 1


def test_fwp_84_a_pattern_meets_the_failure_too(empty: FaktoryWire, queue: str) -> None:
    fill(empty, queue, "retries")
    failed(empty, queue, 9)
    mutate(empty, "discard", "retries", regexp='*"message":"m","errtype":"E","retry_count":0*')
    assert left(empty, "retries") == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"cmd":"x","target":"dead"}', "unknown mutate operation"),
        ('{"cmd":"CLEAR","target":"dead"}', "unknown mutate operation"),
        ('{"cmd":"x","target":"x"}', "unknown mutate operation"),
        ('{"cmd":"clear","target":"x"}', "invalid target for mutation command"),
        ('{"cmd":"clear","target":"working"}', "invalid target for mutation command"),
    ],
)
def test_fwp_86_what_is_no_mutation(empty: FaktoryWire, queue: str, text: str, error: str) -> None:
    push(empty, queue, at=LATER)
    empty.expect(f"MUTATE {text}", f"-ERR {error}")
    empty.expect("MUTATE", "-ERR invalid format")
    assert left(empty, "scheduled") == 1


def test_fwp_86_spaces_in_its_json(empty: FaktoryWire, queue: str) -> None:
    """Faktory refuses them."""
    push(empty, queue, at=LATER)
    empty.expect('MUTATE {"cmd": "clear", "target": "scheduled"}')
    assert left(empty, "scheduled") == 0


def test_fwp_87_killed_before_its_time_it_has_no_failure(empty: FaktoryWire, queue: str) -> None:
    jid = push(empty, queue, at=LATER)
    mutate(empty, "kill", "scheduled", jids=[jid])
    assert sets(empty) == (0, 0, 1, 0)
    mutate(empty, "requeue", "dead", jids=[jid])
    got = fetch(empty, queue)
    assert (got["at"], "failure" in got, "enqueued_at" in got) == (LATER, False, False)


def test_fwp_88_requeued_it_keeps_its_failure(empty: FaktoryWire, queue: str) -> None:
    jid = failed(empty, queue)
    mutate(empty, "requeue", "retries")
    assert empty.ask("INFO")["faktory"]["queues"] == {queue: 1}
    got = fetch(empty, queue)
    assert (got["jid"], got["failure"]["message"], got["failure"]["retry_count"]) == (jid, "m", 0)


def test_a_job_of_another_door_is_named_by_its_public_id(
    empty: FaktoryWire, fwp_server: ServerProcess, queue: str
) -> None:
    client = Client(fwp_server.address)
    job_id = client.enqueue(queue, ready_at=4_000_000_000_000)["id"]
    client.close()
    other = push(empty, queue, at=LATER)
    mutate(empty, "requeue", "scheduled", jids=[job_id])
    assert fetch(empty, queue)["jid"] == job_id
    empty.expect(f"ACK {compact({'jid': job_id})}")
    mutate(empty, "discard", "scheduled", jids=[job_id, other])
    assert sets(empty) == (0, 0, 0, 0)


def test_a_change_of_many_and_a_flush_are_logged(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", fwp_port=0)
    try:
        with FaktoryWire.open(url_of(*server.address_of("fwp"), None)) as wire:
            fill(wire, "queue", "retries")
            mutate(wire, "kill", "retries", jobtype="apple")
            logged = server.await_record("jobs changed together")
            assert (logged["change"], logged["jobs"], logged["type"]) == ("kill", 1, "apple")
            wire.expect("FLUSH")
            logged = server.await_record("jobs changed together")
            assert (logged["change"], logged["jobs"]) == ("deleted", 3)
    finally:
        server.close()
