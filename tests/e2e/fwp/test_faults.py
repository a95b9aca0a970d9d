"""Where Faktory itself breaks, as we have seen it, Anew does not."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faktory_wire import FaktoryWire

from .conftest import Open
from .jobs import compact, failed, fetch, figures, instant, job, length, mutate, push


def test_info_while_queues_come_and_go(connect: Open, queue: str) -> None:
    """Faktory's process ends: INFO walks its map of queues without a lock."""
    asking, pushing, removing = [connect() for _ in range(2)], connect(), connect()

    def ask(wire: FaktoryWire) -> None:
        for _ in range(100):
            assert figures(wire)["total_queues"] >= 0

    def come() -> None:
        for number in range(200):
            push(pushing, f"{queue}-{number}", number)

    def go() -> None:
        for number in range(200):
            removing.expect(f"QUEUE REMOVE {queue}-{number}")

    with ThreadPoolExecutor(4) as pool:
        for done in [*(pool.submit(ask, wire) for wire in asking), pool.submit(come), pool.submit(go)]:
            done.result(timeout=60)


def test_a_push_with_a_retry_changes_no_later_default(wire: FaktoryWire, queue: str) -> None:
    """In Faktory it does, for PUSH and PUSHB alike."""
    push(wire, queue, 1, retry=0)
    push(wire, queue, 2)
    wire.expect(f"PUSHB {compact([job(queue, 3)])}", "${}")
    assert [fetch(wire, queue)["retry"] for _ in range(3)] == [0, 25, 25]


def test_pushes_at_one_moment_keep_each_its_retry(connect: Open, queue: str) -> None:
    """In Faktory some are stored with one another's."""
    producers = [connect() for _ in range(4)]

    def produce(number: int) -> None:
        lines = [f"PUSH {compact(job(queue, number, args=[number], retry=number))}" for _ in range(100)]
        producers[number].send("\r\n".join(lines))
        assert [producers[number].read() for _ in lines] == ["+OK"] * len(lines)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(produce, range(4)))
    got = [fetch(producers[0], queue) for _ in range(400)]
    assert [one["retry"] for one in got] == [one["args"][0] for one in got]


@pytest.mark.parametrize("count", [309, 310, 1_000, 100_000_000])
def test_a_wait_after_very_many_retries_is_a_year_at_most(wire: FaktoryWire, queue: str, count: int) -> None:
    """In Faktory the wait is negative from the 311th retry on, so that the job runs again at every look."""
    failure = {"retry_count": count, "remaining": 5, "failed_at": "2026-01-02T03:04:05Z"}
    jid = push(wire, queue, retry=200_000_000, failure=failure)
    fetch(wire, queue)
    wire.expect(f"FAIL {compact({'jid': jid})}")
    mutate(wire, "requeue", "retries", jids=[jid])
    failure = fetch(wire, queue)["failure"]
    ahead = instant(str(failure["next_at"])) - time.time()
    # (c ** 4 + 15 seconds for c = 310 are 9,235,210,015 s, 293 years; the cap is 365 days)
    assert 364 * 86_400 < ahead < 366 * 86_400
    assert failure["retry_count"] == count + 1


def test_a_job_goes_to_nobody_who_has_left(connect: Open, queue: str) -> None:
    """In Faktory the FETCH of a client that has gone goes on for two seconds and takes what comes."""
    wire = connect()
    for number in range(20):
        leaving = connect()
        leaving.send(f"FETCH {queue}")
        leaving.close()
        push(wire, queue, number)
        assert fetch(wire, queue)["args"] == [number]
    assert length(wire, queue) == 0


def test_large_numbers_keep_their_digits(wire: FaktoryWire, queue: str) -> None:
    """Faktory rounds those beyond 2^53."""
    args = [2**53 + 1, -(2**63), 10**30 + 7, 0.1, 3.0]
    push(wire, queue, args=args, custom={"n": 2**64 + 1})
    got = wire.say(f"FETCH {queue}")
    assert '"args":[9007199254740993,-9223372036854775808,1000000000000000000000000000007,0.1,3.0]' in got
    assert '"n":18446744073709551617' in got


def test_a_sorted_set_drops_nothing_that_is_equal(wire: FaktoryWire, queue: str) -> None:
    """Two dead jobs of one jid are two."""
    before = figures(wire)["sets"]["dead"]
    for _ in range(2):
        failed(wire, queue, retry=-1, created_at="2026-01-02T03:04:05Z")
    assert figures(wire)["sets"]["dead"] == before + 2
