"""INFO, QUEUE and FLUSH: checklist 73 to 80."""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from tests.e2e.client import Client
from tests.e2e.server import ServerProcess
from tests.faktory_wire import FaktoryWire

from .conftest import Open
from .jobs import LATER, ack, failed, fetch, figures, length, mutate, push, push_many, sets, totals


def test_fwp_73_what_info_says(empty: FaktoryWire) -> None:
    info = empty.ask("INFO whatever")
    task = {"cycles": int, "enqueued": int, "size": int, "wall_time_sec": float}
    held = {"size": int, "reaped": int}
    assert shape(info) == {
        "now": str,
        "server_utc_time": str,
        "faktory": {
            "queues": {},
            "sets": dict.fromkeys(("scheduled", "retries", "dead", "working"), int),
            "tasks": {"Scheduled": task, "Retries": task, "Dead": task, "Busy": held, "Workers": held},
            "total_failures": int,
            "total_processed": int,
            "total_enqueued": int,
            "total_queues": int,
        },
        "server": {
            "description": str,
            "faktory_version": str,
            "uptime": int,
            "connections": int,
            "command_count": int,
            "used_memory_mb": int,
        },
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", info["now"])
    assert re.fullmatch(r"\d\d:\d\d:\d\d UTC", info["server_utc_time"])
    assert info["server"]["faktory_version"] == "1.10.0"


def shape(value: object) -> object:
    return {key: shape(item) for key, item in value.items()} if isinstance(value, dict) else type(value)


def test_fwp_73_connections_and_commands_are_counted(connect: Open) -> None:
    wire = connect()
    before = wire.ask("INFO")["server"]
    connect().expect("nonsense", "-ERR unknown command nonsense")
    after = wire.ask("INFO")["server"]
    assert after["connections"] == before["connections"] + 1
    assert after["command_count"] == before["command_count"] + 1


def test_fwp_74_drained_queues_stay_listed(empty: FaktoryWire, queue: str) -> None:
    push_many(empty, f"{queue}a", 3)
    push_many(empty, f"{queue}b", 2)
    found = figures(empty)
    assert (found["total_enqueued"], found["total_queues"]) == (5, 2)
    for _ in range(2):
        ack(empty, fetch(empty, f"{queue}b")["jid"])
    found = figures(empty)
    assert found["queues"] == {f"{queue}a": 3, f"{queue}b": 0}
    assert (found["total_enqueued"], found["total_queues"]) == (3, 2)


def test_fwp_74_a_queue_is_listed_with_its_first_ready_job(empty: FaktoryWire, queue: str) -> None:
    push(empty, queue, at=LATER)
    assert figures(empty)["queues"] == {}
    mutate(empty, "requeue", "scheduled")
    fetch(empty, queue)
    assert figures(empty)["queues"] == {queue: 0}


def test_fwp_75_an_unknown_queue_is_not_paused(wire: FaktoryWire, queue: str) -> None:
    wire.expect(f"QUEUE PAUSE {queue}")
    push(wire, queue)
    assert fetch(wire, queue)["args"] == [1]


def test_fwp_76_subcommands_in_any_case(connect: Open, queue: str) -> None:
    wire, waiting = connect(), connect()
    push(wire, queue)
    wire.expect(f"QUEUE pause {queue}")
    waiting.send(f"FETCH {queue}")
    assert waiting.read() == "$-1"
    wire.expect(f"QUEUE Resume {queue}")
    fetch(wire, queue)
    wire.expect("QUEUE UNPAUSE *", "-ERR no such QUEUE subcommand: UNPAUSE")
    wire.expect("QUEUE list x", "-ERR no such QUEUE subcommand: LIST")


def test_fwp_77_remove_drops_jobs_and_name(empty: FaktoryWire, queue: str) -> None:
    for number in (1, 2, 3):
        push(empty, queue, number)
    failed(empty, f"{queue}x", 9)
    jid = fetch(empty, queue)["jid"]
    push(empty, queue, 4, at=LATER)
    empty.expect(f"QUEUE PAUSE {queue}")
    empty.expect(f"QUEUE REMOVE {queue}")
    assert length(empty, queue) is None
    assert sets(empty) == (1, 1, 0, 1)
    ack(empty, jid)
    assert totals(empty) == (2, 1)
    push(empty, queue, 5)
    assert fetch(empty, queue)["args"] == [5]


def test_fwp_78_a_star_means_all_known_queues(connect: Open, queue: str) -> None:
    empty, waiting = connect(), connect()
    empty.expect("FLUSH")
    for name in ("a", "b"):
        push(empty, queue + name)
    empty.expect("QUEUE PAUSE *")
    waiting.send(f"FETCH {queue}a {queue}b")
    assert waiting.read() == "$-1"
    empty.expect("QUEUE RESUME *")
    fetch(empty, f"{queue}a", f"{queue}b")
    empty.expect("QUEUE REMOVE *")
    assert figures(empty)["queues"] == {}


@pytest.mark.parametrize("named", [True, False])
def test_fwp_78_queues_that_only_http_has_filled(
    fwp_server: ServerProcess, empty: FaktoryWire, connect: Open, queue: str, named: bool
) -> None:
    meant = queue if named else "*"
    with closing(Client(fwp_server.address)) as http:
        http.enqueue(queue)
        empty.expect(f"QUEUE PAUSE {meant}")
        assert connect().say(f"FETCH {queue}") == "$-1"
        empty.expect(f"QUEUE RESUME {meant}")
        ack(empty, fetch(empty, queue)["jid"])
        empty.expect(f"QUEUE REMOVE {meant}")  # else it stays listed, and the next pause tells nothing
        http.enqueue(queue)
        empty.expect(f"QUEUE PAUSE {meant}")
        empty.expect(f"QUEUE REMOVE {meant}")
        assert (length(empty, queue), http.count(queue=queue)) == (None, 0)
        http.enqueue(queue)
        fetch(empty, queue)


def test_fwp_79_latency(empty: FaktoryWire, queue: str) -> None:
    empty.expect("QUEUE LATENCY default", '${"default":0}')
    empty.expect("QUEUE LATENCY *", "-ERR QUEUE LATENCY does not support wildcards")
    empty.expect("QUEUE LATENCY", "${}")
    push(empty, queue)
    first = later = 0
    while not first < later:  # the clock goes on by itself
        first, later = later, empty.ask(f"QUEUE LATENCY {queue}")[queue]
    assert 0 < later < 60


def test_fwp_80_flush(empty: FaktoryWire, queue: str) -> None:
    failed(empty, queue, 1)
    failed(empty, queue, 2, retry=-1)
    push(empty, queue, 3, at=LATER)
    push(empty, queue, 4)
    jid = fetch(empty, queue)["jid"]
    push(empty, queue, 5)
    empty.expect("FLUSH")
    found = figures(empty)
    assert (sets(empty), totals(empty), found["queues"]) == ((0, 0, 0, 0), (0, 0), {})
    ack(empty, jid)
    empty.expect(f'FAIL {{"jid":"{jid}"}}', f"-ERR Job not found {jid}")
    assert totals(empty) == (0, 0)
    push(empty, queue, 6)
    assert fetch(empty, queue)["args"] == [6]
