"""ACK, FAIL and what follows: checklist 48 to 60. What takes longer is in tests/unit/fwp/test_service.py."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.e2e.client import Client
from tests.e2e.server import ServerProcess
from tests.faktory_wire import FaktoryWire

from .conftest import Open
from .jobs import ack, compact, fail, failed, fetch, instant, mutate, push, sets, totals


def again(wire: FaktoryWire, queue: str, jid: str) -> dict[str, Any]:
    """Make a job that has failed ready, and fetch it."""
    mutate(wire, "requeue", "retries", jids=[jid])
    return fetch(wire, queue)


def test_fwp_48_an_ack_counts_once(empty: FaktoryWire, queue: str) -> None:
    jid = push(empty, queue)
    fetch(empty, queue)
    for _ in range(2):
        ack(empty, jid)
        assert (totals(empty), sets(empty)) == ((1, 0), (0, 0, 0, 0))


def test_fwp_49_an_ack_of_an_unknown_job(empty: FaktoryWire) -> None:
    ack(empty, "never-seen")
    assert totals(empty) == (0, 0)


@pytest.mark.parametrize("text", ['{"jid":5}', '{"x":"y"}', '{"jid":"a","x":5}', "{", "[]", "x", "null", ""])
def test_fwp_50_an_ack_that_cannot_be_read(wire: FaktoryWire, text: str) -> None:
    wire.expect(f"ACK {text}", f"-ERR invalid ACK {text}")


def test_fwp_51_any_connection_acknowledges(connect: Open, queue: str) -> None:
    wire, other = connect(wid="one"), connect()
    jid = push(wire, queue)
    fetch(wire, queue)
    before = sets(wire)[3]
    ack(other, jid)
    assert sets(wire)[3] == before - 1


def test_fwp_51_reliability_17_but_not_of_what_another_worker_has(
    server: ServerProcess, connect: Open, queue: str
) -> None:
    wire, other = connect(wid="one"), connect(wid="two")
    jid = push(wire, queue)
    fetch(wire, queue)
    before = sets(wire)[3]
    ack(other, jid)
    other.expect(f"FAIL {compact({'jid': jid})}", f"-ERR Job not found {jid}")
    assert sets(wire)[3] == before
    ack(connect(wid="one"), jid)
    assert sets(wire)[3] == before - 1


def test_fwp_52_a_fail_counts(empty: FaktoryWire, queue: str) -> None:
    failed(empty, queue)
    assert (totals(empty), sets(empty)) == ((1, 1), (0, 1, 0, 0))


def test_fwp_53_a_fail_of_what_is_not_reserved(wire: FaktoryWire, queue: str) -> None:
    jid = push(wire, queue)
    wire.expect(f"FAIL {compact({'jid': jid})}", f"-ERR Job not found {jid}")
    for text in ("{}", '{"jid":""}', '{"jid":null}'):
        wire.expect(f"FAIL {text}", "-ERR missing JID")
    wire.expect("FAIL {", "-ERR invalid FAIL {")


def test_fwp_54_55_56_what_a_failed_job_tells(wire: FaktoryWire, queue: str) -> None:
    """The first three waits are c^4 + 15 + r(c + 1) seconds for c = 0, 1, 2 and an r from 0 to 29."""
    jid = push(wire, queue, retry=4)
    fetch(wire, queue)
    first_failed_at = ""
    for count, (shortest, longest) in enumerate(((15, 44), (16, 74), (31, 118))):
        began = time.time()
        fail(wire, jid, errtype="Oops", message=f"no {count}", backtrace=["a", "b"][:count])
        ended = time.time()
        failure = again(wire, queue, jid)["failure"]
        first_failed_at = first_failed_at or failure["failed_at"]
        assert began - shortest < instant(failure["next_at"]) - shortest < ended + longest
        assert began + shortest - 0.002 <= instant(failure.pop("next_at")) <= ended + longest + 0.002
        backtrace = {"backtrace": ["a", "b"][:count]} if count else {}
        assert failure == backtrace | {
            "failed_at": first_failed_at,
            "message": f"no {count}",
            "errtype": "Oops",
            "retry_count": count,
            "remaining": 4 - count,
        }
    assert abs(instant(first_failed_at) - datetime.now(UTC).timestamp()) < 60


def test_fwp_54_next_at_stays_when_the_job_is_requeued_or_dies(wire: FaktoryWire, queue: str) -> None:
    jid = failed(wire, queue, retry=1)
    next_at = again(wire, queue, jid)["failure"]["next_at"]
    assert instant(next_at) > time.time() + 10
    fail(wire, jid)
    mutate(wire, "requeue", "dead", jids=[jid])
    assert fetch(wire, queue)["failure"]["next_at"] == next_at


def test_fwp_57_retry_1_dies_of_the_second_failure(empty: FaktoryWire, queue: str) -> None:
    jid = failed(empty, queue, retry=1)
    assert sets(empty) == (0, 1, 0, 0)
    again(empty, queue, jid)
    fail(empty, jid)
    assert sets(empty) == (0, 0, 1, 0)


def test_fwp_57_retry_0_leaves_nothing(empty: FaktoryWire, queue: str) -> None:
    failed(empty, queue, retry=0)
    assert (sets(empty), totals(empty)) == ((0, 0, 0, 0), (1, 1))


@pytest.mark.parametrize("retry", [-1, -7])
def test_fwp_57_a_negative_retry_dies_at_once(empty: FaktoryWire, queue: str, retry: int) -> None:
    failed(empty, queue, retry=retry)
    assert sets(empty) == (0, 0, 1, 0)
    mutate(empty, "requeue", "dead")
    got = fetch(empty, queue)
    assert (got["retry"], got["failure"]["remaining"]) == (retry, retry)
    assert "next_at" not in got["failure"]


def test_fwp_58_texts_of_a_failure_are_cut(wire: FaktoryWire, queue: str) -> None:
    jid = push(wire, queue)
    fetch(wire, queue)
    fail(wire, jid)
    failure = again(wire, queue, jid)["failure"]
    assert (failure["errtype"], failure["message"], "backtrace" in failure) == ("unknown", "unknown", False)
    fail(wire, jid, errtype=" " + "e" * 101, message="é" * 501, backtrace=[f"line\n{n}" for n in range(51)])
    failure = again(wire, queue, jid)["failure"]
    assert (failure["errtype"], failure["message"]) == ("e" * 100, "é" * 500)
    assert failure["backtrace"] == [f"line\n{n}" for n in range(50)]
    fail(wire, jid, message="é" * 500 + "x", errtype="x" + "é" * 50, backtrace=[""])
    failure = again(wire, queue, jid)["failure"]
    assert (failure["errtype"], failure["backtrace"]) == ("x" + "é" * 49, [""])


def test_fwp_60_a_job_whose_time_comes_is_fetched(wire: FaktoryWire, queue: str) -> None:
    at = datetime.fromtimestamp(time.time() + 1, UTC)
    push(wire, queue, at=f"{at:%Y-%m-%dT%H:%M:%S.%f}Z")
    began = time.time()
    got = fetch(wire, queue)
    assert time.time() >= at.timestamp() - 0.002
    assert time.time() < began + 6
    assert instant(got["enqueued_at"]) >= at.timestamp() - 0.002


def test_a_record_says_which_worker_reported_the_failure(
    connect: Open, fwp_server: ServerProcess, queue: str
) -> None:
    failed(connect(wid="box-1"), queue)
    with closing(Client(fwp_server.address)) as http:
        (job,) = http.jobs(queue=queue)
        assert [record["worker"] for record in http.errors(job["id"])] == ["box-1"]
