"""Limits of keys: who may start, who is blocked at once, and who goes into line again."""

from __future__ import annotations

import pytest

from anew.jobs.codec import LAST_INSTANT, LimitKey
from anew.jobs.key_limits import (
    OPEN,
    Gate,
    KeyLimit,
    Place,
    full_at,
    held_back,
    may_start,
    throttle_of,
    to_unblock,
)
from anew.jobs.limits import FULL, Bucket, Grant, Throttle, rate

NOW = 1_700_000_000_000
TEN_A_MINUTE = rate(10, 60_000, 3)


def limit(throttle: Throttle, bucket: Bucket = FULL, gate: Gate = OPEN) -> KeyLimit:
    return KeyLimit("customer 7", throttle, bucket, gate=gate)


@pytest.mark.parametrize(("running", "number"), [(0, 2), (1, 1), (2, 0), (5, 0)])
def test_concurrency_leaves_what_does_not_run(running: int, number: int) -> None:
    allowed = may_start(limit(Throttle(concurrency=2)), running, 9, NOW)
    assert (allowed.number, allowed.again_at) == (number, None)


def test_a_rate_lets_its_burst_start_and_says_when_the_next_one_may() -> None:
    """Ten a minute is one in 6 s: a bucket that three have emptied holds one again 6 s later, and three after 18 s."""
    allowed = may_start(limit(Throttle(rate=TEN_A_MINUTE)), 0, 9, NOW)
    assert (allowed.number, allowed.again_at) == (3, NOW + 6_000)
    drawn = limit(Throttle(rate=TEN_A_MINUTE), allowed.bucket)
    assert may_start(drawn, 0, 9, NOW + 5_999).number == 0
    assert may_start(drawn, 0, 9, NOW + 6_000).number == 1
    assert full_at(drawn, NOW) == NOW + 18_000
    assert full_at(drawn, NOW + 18_000) is None


def test_of_both_the_lower_one_holds_and_what_runs_says_no_time() -> None:
    both = limit(Throttle(concurrency=1, rate=TEN_A_MINUTE))
    assert may_start(both, 0, 9, NOW).number == 1
    assert may_start(both, 1, 9, NOW).number == 0
    assert may_start(both, 1, 9, NOW).again_at is None


@pytest.mark.parametrize(("running", "number"), [(0, 1), (1, 0), (3, 0)])
def test_while_it_is_found_out_whether_what_they_call_works_one_runs_at_a_time(
    running: int, number: int
) -> None:
    probing = limit(Throttle(concurrency=5), gate=Gate(probing=True))
    allowed = may_start(probing, running, 9, NOW)
    assert (allowed.number, allowed.again_at) == (number, None)


def test_a_closed_gate_lets_nobody_start_and_says_until_when() -> None:
    closed = limit(Throttle(concurrency=2), gate=Gate(NOW + 5))
    assert may_start(closed, 0, 9, NOW + 4) == Grant(0, FULL, NOW + 5)
    assert may_start(closed, 0, 9, NOW + 5) == Grant(2, FULL, None)
    for_good = limit(Throttle(concurrency=2), gate=Gate(LAST_INSTANT))
    assert may_start(for_good, 0, 9, NOW) == Grant(0, FULL, None)


def test_a_key_without_a_rate_is_always_full() -> None:
    assert full_at(limit(Throttle(concurrency=1)), NOW) is None


@pytest.mark.parametrize(
    ("new", "in_line", "first_blocked", "held"),
    [
        ([(5, 1), (5, 2), (5, 3)], [(5, 1), (5, 2)], None, [3]),
        ([(5, 1), (5, 2), (1, 3)], [(1, 3), (5, 1)], None, [2]),
        ([(5, 8), (5, 9)], [(5, 1), (5, 8)], None, [9]),
        ([(5, 1), (5, 2)], [], None, [1, 2]),
        ([(5, 8), (4, 9)], [(4, 9), (5, 8)], (5, 3), [8]),
        ([], [(5, 1)], None, []),
    ],
)
def test_a_new_job_is_blocked_behind_others_and_never_before_them(
    new: list[Place], in_line: list[Place], first_blocked: Place | None, held: list[int]
) -> None:
    assert held_back(new, in_line, first_blocked) == held


@pytest.mark.parametrize(
    ("blocked", "unblocked", "free", "chosen"),
    [
        ([(5, 1), (5, 2)], [], 1, [1]),
        ([(5, 4)], [(5, 1)], 1, []),
        ([(1, 4)], [(5, 1)], 1, [4]),
        ([(5, 4), (5, 6)], [(5, 1), (5, 5)], 3, [4]),
    ],
)
def test_the_first_of_a_queue_are_in_its_line(
    blocked: list[Place], unblocked: list[Place], free: int, chosen: list[int]
) -> None:
    assert to_unblock(blocked, unblocked, free) == chosen


def test_bounds_come_with_the_job() -> None:
    assert throttle_of(LimitKey("a", 2, (10, 60_000, 3))) == Throttle(concurrency=2, rate=TEN_A_MINUTE)
    assert throttle_of(LimitKey("a", 2)) == Throttle(concurrency=2)
