"""FETCH: checklist 38 to 47. What waits for two seconds waits side by side."""

from __future__ import annotations

import json
import time

import pytest

from tests.faktory_wire import FaktoryWire

from .conftest import Open
from .jobs import ack, fail, fetch, figures, length, push, sets

LONG_ENOUGH_S = 1.9
"""An empty FETCH waits for at least so long."""


def test_fwp_38_a_fetch_names_a_queue(wire: FaktoryWire) -> None:
    wire.expect("FETCH", "-ERR must call fetch with at least one queue")


def test_deliveries_to_webhooks_are_not_fetched(wire: FaktoryWire, queue: str) -> None:
    wire.expect(
        f"FETCH {queue} $deliveries",
        "-ERR queue must not be '$deliveries', which holds deliveries to webhooks",
    )


def test_fwp_39_44_45_nothing_comes_for_two_seconds(connect: Open, queue: str) -> None:
    """An empty queue, the empty name, an unknown queue, a paused one with and without others beside it, a quiet worker."""
    wire = connect()
    push(wire, queue)
    wire.expect(f"QUEUE PAUSE {queue}")
    began = time.monotonic()
    waiting = {name: connect() for name in (f"{queue}-unknown", f"{queue}-x  {queue}-y", "", queue)}
    for name, one in waiting.items():
        one.send(f"FETCH {name}")
    beside = f"{queue}-beside"
    push(wire, beside, 2)
    assert fetch(wire, queue, beside)["args"] == [2]
    assert [one.read() for one in waiting.values()] == ["$-1"] * 4
    assert LONG_ENOUGH_S < time.monotonic() - began < 6  # the protocol says 3; the machine may be busy
    assert length(wire, f"{queue}-unknown") is None
    assert length(wire, queue) == 1
    wire.expect(f"QUEUE RESUME {queue}")
    assert fetch(wire, queue)["args"] == [1]


def test_fwp_40_queues_strictly_in_order(wire: FaktoryWire, queue: str) -> None:
    first, second = f"{queue}a", f"{queue}b"
    for number, name in enumerate((second, second, first, first), 1):
        push(wire, name, number)
    assert [fetch(wire, first, second)["args"] for _ in range(4)] == [[3], [4], [1], [2]]


def test_fwp_41_a_push_to_the_second_queue_wakes_a_fetch(connect: Open, queue: str) -> None:
    waiting, wire = connect(), connect()
    waiting.send(f"FETCH {queue}a {queue}b")
    began = time.monotonic()
    push(wire, f"{queue}b")
    assert json.loads(waiting.read()[1:])["queue"] == f"{queue}b"
    assert time.monotonic() - began < LONG_ENOUGH_S  # the protocol says 100 ms; the machine may be busy


def test_fwp_42_of_two_that_wait_the_earlier_gets_the_job(connect: Open, queue: str) -> None:
    earlier, later, wire = connect(), connect(), connect()
    earlier.send(f"FETCH\r\nFETCH {queue}")
    earlier.read()  # the first line's error: the second has arrived, too
    later.send(f"FETCH {queue}")
    push(wire, queue)
    assert json.loads(earlier.read()[1:])["args"] == [1]
    assert later.read() == "$-1"


def test_fwp_43_a_producer_may_work(wire: FaktoryWire, queue: str) -> None:
    for number in (1, 2):
        push(wire, queue, number)
    ack(wire, fetch(wire, queue)["jid"])
    fail(wire, fetch(wire, queue)["jid"])


def test_fwp_46_a_fetched_job_is_reserved(empty: FaktoryWire, queue: str) -> None:
    push(empty, queue)
    assert (length(empty, queue), sets(empty)[3]) == (1, 0)
    fetch(empty, queue)
    assert (length(empty, queue), sets(empty)[3]) == (0, 1)
    assert figures(empty)["tasks"]["Busy"]["size"] == 1


@pytest.mark.parametrize("fields", [{}, {"reserve_for": 0, "backtrace": 0, "custom": None, "failure": None}])
def test_fwp_47_what_a_fetched_job_says(wire: FaktoryWire, queue: str, fields: dict[str, object]) -> None:
    push(wire, queue, **fields)
    got = wire.say(f"FETCH {queue}")
    assert " " not in got
    names = ["retry", "jid", "queue", "jobtype", "created_at", "enqueued_at", "args"]
    assert list(json.loads(got[1:])) == names
