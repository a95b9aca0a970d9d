"""What Faktory sells: unique jobs, tracking, batches, expiry. (Throttles and cron: `test_limited`.)"""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import pytest

from tests.e2e.server import ServerProcess
from tests.faktory_wire import FaktoryWire
from tests.fwp_clients.servers import url_of

from .conftest import Open
from .jobs import ack, compact, job, push

NOT_UNIQUE = "-NOTUNIQUE Job not unique"


def fetch(wire: FaktoryWire, queue: str) -> dict[str, Any]:
    """A job that must be there."""
    found: dict[str, Any] = wire.ask(f"FETCH {queue}")
    return found


def new_batch(
    wire: FaktoryWire, queue: str, *, callbacks: tuple[str, ...] = ("success", "complete"), **members: Any
) -> str:
    """A batch whose callbacks go to a queue; gives its id."""
    jobs = {name: {"jobtype": name, "args": [], "queue": queue} for name in callbacks}
    return wire.say(f"BATCH NEW {compact(jobs | members)}").removeprefix("$")


def states(wire: FaktoryWire, bid: str) -> tuple[int, int, int, str, str]:
    """A batch's counters and how far its callbacks are."""
    status = wire.ask(f"BATCH STATUS {bid}")
    return (status["total"], status["pending"], status["failed"], status["complete_st"], status["success_st"])


def test_fwp_94_a_second_identical_job_is_refused_until_the_first_is_done(
    wire: FaktoryWire, queue: str
) -> None:
    custom = {"unique_for": 60}
    push(wire, queue, 1, args=[{"a": 1, "b": 2}], custom=custom)
    same = job(queue, 2, args=[{"b": 2, "a": 1}], custom=custom)
    assert wire.say(f"PUSH {compact(same)}") == NOT_UNIQUE
    assert json.loads(wire.say(f"PUSHB {compact([same])}").removeprefix("$")) == {same["jid"]: NOT_UNIQUE[1:]}
    push(wire, queue, 3, args=[{"a": 1, "b": 2}])  # without unique_for it is not even looked at
    push(wire, queue, 4, args=[{"a": 1, "b": 3}], custom=custom)
    ack(wire, fetch(wire, queue)["jid"])
    push(wire, queue, 5, args=[{"a": 1, "b": 2}], custom=custom)


def test_fwp_94_until_start_means_until_it_is_fetched(wire: FaktoryWire, queue: str) -> None:
    custom = {"unique_for": 60, "unique_until": "start"}
    push(wire, queue, 1, args=[], custom=custom)
    assert wire.say(f"PUSH {compact(job(queue, 2, args=[], custom=custom))}") == NOT_UNIQUE
    fetch(wire, queue)
    push(wire, queue, 3, args=[], custom=custom)


@pytest.mark.parametrize(
    ("custom", "said"),
    [
        ({"unique_for": 0}, "-ERR unique_for: 0 is not valid; expected a positive number of seconds"),
        ({"unique_for": "1h"}, '-ERR unique_for: "1h" is not valid; expected a positive number of seconds'),
        ({"unique_for": 1, "unique_until": "end"}, "-ERR unique_until: 'end' is not valid; expected success or start"),
        ({"expires_in": -1}, "-ERR expires_in: -1 is not valid; expected a positive number of seconds"),
        ({"bid": "b-nothing"}, "-ERR no such batch b-nothing"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_and_nothing_is_stored(
    wire: FaktoryWire, queue: str, custom: dict[str, Any], said: str
) -> None:
    assert wire.say(f"PUSH {compact(job(queue, custom=custom))}") == said
    assert queue not in wire.ask("INFO")["faktory"]["queues"]


def test_fwp_95_progress_of_a_tracked_job_follows_it(wire: FaktoryWire, queue: str) -> None:
    assert wire.ask("TRACK GET nobody-knows") == {"jid": "nobody-knows", "state": "unknown", "updated_at": ""}
    jid = push(wire, queue, custom={"track": 1})

    def tracked() -> dict[str, Any]:
        found: dict[str, Any] = wire.ask(f"TRACK GET {jid}")
        assert found.pop("updated_at").endswith("Z")
        return found

    assert tracked() == {"jid": jid, "state": "enqueued"}
    fetch(wire, queue)
    assert tracked() == {"jid": jid, "state": "working"}
    wire.expect(f"TRACK SET {compact({'jid': jid, 'percent': 32, 'desc': 'a third'})}")
    assert tracked() == {"jid": jid, "percent": 32, "desc": "a third", "state": "working"}
    ack(wire, jid)
    assert tracked()["state"] == "success"


def test_fwp_96_a_batch_has_an_id_and_a_status(wire: FaktoryWire, queue: str) -> None:
    before = time.time_ns()
    bid = new_batch(wire, queue, description="mails")
    assert bid.startswith("b-")
    status = wire.ask(f"BATCH STATUS {bid}")
    date, _, fraction = status.pop("created_at").removesuffix("Z").partition(".")
    assert len(fraction) <= 3
    seconds = int(datetime.fromisoformat(f"{date}+00:00").timestamp())
    assert before < seconds * 10**9 + int(fraction.ljust(9, "0")) <= time.time_ns() + 10**6
    assert status == {
        "bid": bid, "description": "mails", "total": 0, "pending": 0, "failed": 0, "complete_st": "", "success_st": "",
    }  # fmt: skip
    child = new_batch(wire, queue, parent_bid=bid)
    assert wire.ask(f"BATCH STATUS {child}")["parent_bid"] == bid
    assert wire.say(f"BATCH OPEN {bid}") == f"${bid}"
    assert wire.say("BATCH OPEN b-none") == "-ERR no such batch b-none"
    assert wire.say("BATCH NEW {}") == "-ERR batch must have a success or complete callback"


def test_fwp_97_callbacks_are_there_before_the_answer_that_brings_them(wire: FaktoryWire, queue: str) -> None:
    bid = new_batch(wire, f"{queue}-cb")
    jids = [push(wire, queue, number, custom={"bid": bid}) for number in (1, 2)]
    wire.expect(f"BATCH COMMIT {bid}")
    for _ in jids:
        fetch(wire, queue)
    ack(wire, jids[0])
    assert states(wire, bid) == (2, 1, 0, "", "")
    ack(wire, jids[1])
    assert states(wire, bid) == (2, 0, 0, "1", "")
    complete = fetch(wire, f"{queue}-cb")
    assert (complete["jobtype"], complete["custom"]) == ("complete", {"_bid": bid, "_cb": "complete"})
    ack(wire, complete["jid"])
    assert states(wire, bid) == (2, 0, 0, "2", "1")
    ack(wire, fetch(wire, f"{queue}-cb")["jid"])
    assert states(wire, bid) == (2, 0, 0, "2", "2")


def test_fwp_98_an_empty_batch_fires_when_it_is_committed_and_not_before(
    wire: FaktoryWire, queue: str
) -> None:
    bid = new_batch(wire, queue, callbacks=("success",))
    assert states(wire, bid) == (0, 0, 0, "", "")
    wire.expect(f"BATCH COMMIT {bid}")
    assert states(wire, bid) == (0, 0, 0, "", "1")
    custom = fetch(wire, queue)["custom"]
    assert custom["_bid"] == bid
    assert "bid" not in custom


def test_fwp_98_a_failure_counts_and_a_batch_that_is_not_committed_fires_nothing(
    wire: FaktoryWire, queue: str
) -> None:
    bid = new_batch(wire, f"{queue}-cb")
    jid = push(wire, queue, custom={"bid": bid}, retry=0)
    fetch(wire, queue)
    wire.expect(f"FAIL {compact({'jid': jid, 'errtype': 'E', 'message': 'm'})}")
    assert states(wire, bid) == (1, 0, 1, "", "")
    wire.expect(f"BATCH COMMIT {bid}")
    assert states(wire, bid) == (1, 0, 1, "1", "")


def test_fwp_99_a_parent_waits_for_its_childs_success(wire: FaktoryWire, queue: str) -> None:
    parent = new_batch(wire, f"{queue}-parent", callbacks=("success",))
    child = new_batch(wire, f"{queue}-child", callbacks=("success",), parent_bid=parent)
    jid = push(wire, queue, custom={"bid": child})
    wire.expect(f"BATCH COMMIT {child}")
    wire.expect(f"BATCH COMMIT {parent}")
    fetch(wire, queue)
    ack(wire, jid)
    assert states(wire, parent) == (0, 0, 0, "", "")
    callback = fetch(wire, f"{queue}-child")
    assert callback["custom"]["_pbid"] == parent
    ack(wire, callback["jid"])
    assert states(wire, parent) == (0, 0, 0, "", "1")


def test_fwp_100_an_expired_job_is_passed_over_and_the_next_is_given(wire: FaktoryWire, queue: str) -> None:
    push(wire, queue, 1, custom={"expires_at": "2001-02-03T04:05:06Z"})
    second = push(wire, queue, 2, custom={"expires_in": 60})
    before = wire.ask("INFO")["faktory"]
    assert fetch(wire, queue)["jid"] == second
    after = wire.ask("INFO")["faktory"]
    assert (after["total_processed"], after["total_failures"]) == (
        before["total_processed"],
        before["total_failures"],
    )


def test_ties_hold_over_a_restart(connect: Open, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("kept") / "data"
    server = ServerProcess(root, fwp_port=0)
    wire = connect(to=url_of(*server.address_of("fwp"), None))
    bid = new_batch(wire, "cb", callbacks=("success",))
    jid = push(wire, "kept", 1, args=[], custom={"bid": bid, "unique_for": 600})
    wire.expect(f"BATCH COMMIT {bid}")
    fetch(wire, "kept")
    server.kill()
    server.close()
    server = ServerProcess(root, fwp_port=0)
    try:
        wire = connect(to=url_of(*server.address_of("fwp"), None))
        assert wire.say(f"PUSH {compact(job('kept', 2, args=[], custom={'unique_for': 600}))}") == NOT_UNIQUE
        ack(wire, jid)
        assert states(wire, bid) == (1, 0, 0, "", "1")
        assert fetch(wire, "cb")["custom"]["_bid"] == bid
    finally:
        server.close()


def test_fwp_93_without_these_parts_their_commands_say_so(
    connect: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = ServerProcess(tmp_path_factory.mktemp("oss") / "data", fwp_port=0, fwp_description="Faktory")
    try:
        wire = connect(to=url_of(*server.address_of("fwp"), None))
        tracking = "-ERR tracking subsystem is only available in Faktory Enterprise"
        batches = "-ERR batch subsystem is only available in Faktory Enterprise"
        assert [wire.say(line) for line in ("TRACK", "TRACK GET x")] == [tracking] * 2
        assert [wire.say(line) for line in ("BATCH", "BATCH NEW {}", "BATCH OPEN b-x")] == [batches] * 3
        for number in (1, 2):
            push(wire, "same", number, args=[], custom={"unique_for": 600})
    finally:
        server.close()
