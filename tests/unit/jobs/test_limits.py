"""Limits: throttles, rates, pause."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anew.errors import InvalidInput
from anew.jobs.limits import (
    FULL,
    Bucket,
    Grant,
    Origin,
    Rate,
    Throttle,
    checked,
    grant,
    merged,
    rate,
    returned,
    startable,
)

from .helpers import NOW

# -- throttles


@pytest.mark.parametrize(
    ("throttle", "in_use", "by_worker", "expected"),
    [
        (Throttle(), 1_000, 1_000, 10),
        (Throttle(concurrency=3), 0, 0, 3),
        (Throttle(concurrency=3), 2, 0, 1),
        (Throttle(concurrency=3), 3, 0, 0),
        (Throttle(concurrency=3), 5, 0, 0),  # lowered below what runs
        (Throttle(concurrency=30), 0, 0, 10),
        (Throttle(per_worker=2), 50, 0, 2),
        (Throttle(per_worker=2), 50, 1, 1),
        (Throttle(per_worker=2), 50, 2, 0),
        (Throttle(concurrency=3, per_worker=2), 2, 0, 1),
        (Throttle(concurrency=3, per_worker=2), 0, 1, 1),
        (Throttle(concurrency=0), 0, 0, 0),
        (Throttle(concurrency=0), 4, 4, 0),
    ],
)
def test_how_many_may_start(throttle: Throttle, in_use: int, by_worker: int, expected: int) -> None:
    """Checklist 100 of Faktory's protocol: a saturated queue gives nothing, as an empty one."""
    assert startable(throttle, 10, in_use, by_worker) == expected


def test_a_throttle_that_can_be_is_given_back() -> None:
    throttle = Throttle(concurrency=0, timeout_ms=1)
    assert checked(throttle) is throttle


@pytest.mark.parametrize(
    ("throttle", "field"),
    [
        (Throttle(timeout_ms=45_000), "throttle"),
        (Throttle(concurrency=-1), "concurrency"),
        (Throttle(per_worker=-1), "worker"),
        (Throttle(concurrency=3, timeout_ms=0), "timeout"),
        (Throttle(rate=Rate(0, 1_000, 1)), "rate count"),
        (Throttle(rate=Rate(1, 0, 1)), "rate period"),
        (Throttle(rate=Rate(1, 1_000, 0)), "rate burst"),
    ],
)
def test_a_throttle_that_cannot_be_is_refused(throttle: Throttle, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked(throttle)
    assert caught.value.field == field


# -- rates


def test_a_full_bucket_gives_its_burst_and_then_one_each_interval() -> None:
    """Five a second: five at once, then one each 200 ms."""
    five = rate(5, 1_000)
    first = grant(five, FULL, 8, NOW)
    assert (first.number, first.again_at) == (5, NOW + 200)
    assert grant(five, first.bucket, 1, NOW + 199).number == 0
    second = grant(five, first.bucket, 3, NOW + 200)
    assert (second.number, second.again_at) == (1, NOW + 400)


def test_a_burst_of_one_spreads_the_starts() -> None:
    """Three a second, one at a time: a token is there after 333.3 ms, so 334, and what ran in beyond it is not kept."""
    three = rate(3, 1_000, burst=1)
    bucket, starts = FULL, []
    for at in range(NOW, NOW + 2_001):
        answer = grant(three, bucket, 1, at)
        bucket = answer.bucket
        starts += [at - NOW] * answer.number
    assert starts == [0, 334, 668, 1002, 1336, 1670]


def test_nothing_is_wanted() -> None:
    assert grant(rate(1, 1_000), FULL, 0, NOW) == Grant(0, Bucket(0, NOW), None)


def test_a_clock_set_back_delays_by_what_is_missing_at_most() -> None:
    one = rate(1, 60_000)
    spent = grant(one, FULL, 1, NOW)
    earlier = NOW - 10 * 365 * 86_400_000
    back = grant(one, spent.bucket, 1, earlier)
    assert (back.number, back.again_at) == (0, earlier + 60_000)
    assert grant(one, back.bucket, 1, earlier + 60_000).number == 1
    five = rate(5, 60_000)
    assert grant(five, grant(five, FULL, 1, NOW).bucket, 5, earlier).number == 4


def test_a_rate_that_was_changed_holds_at_once() -> None:
    spent = grant(rate(100, 1_000), FULL, 100, NOW).bucket
    answer = grant(rate(1, 1_000), spent, 1, NOW)
    assert (answer.number, answer.again_at) == (0, NOW + 1_000)


def test_starts_that_did_not_happen_are_given_back() -> None:
    five = rate(5, 1_000)
    taken = grant(five, FULL, 5, NOW).bucket
    assert grant(five, returned(five, taken, 2), 5, NOW).number == 2
    assert returned(five, FULL, 3) == FULL


@pytest.mark.parametrize(
    ("arguments", "field"), [((0, 1), "rate count"), ((1, 0), "rate period"), ((1, 1, 0), "rate burst")]
)
def test_a_rate_that_cannot_be_is_refused(arguments: tuple[int, ...], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        rate(*arguments)
    assert caught.value.field == field


@given(
    st.integers(1, 50),
    st.integers(1, 5_000),
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 30)), max_size=60),
)
def test_no_period_has_more_starts_than_burst_and_rate_allow(
    count: int, per_ms: int, burst: int, asks: list[tuple[int, int]]
) -> None:
    limit, bucket, now = rate(count, per_ms, burst), FULL, NOW
    starts: list[tuple[int, int]] = []
    for passed, wanted in asks:
        now += passed
        answer = grant(limit, bucket, wanted, now)
        bucket = answer.bucket
        starts.append((now, answer.number))
        assert 0 <= answer.number <= wanted
        if answer.again_at is not None:
            assert grant(limit, bucket, 1, answer.again_at - 1).number == 0
            assert grant(limit, bucket, 1, answer.again_at).number == 1
    for i, (begin, _) in enumerate(starts):
        for end, _ in starts[i:]:
            within = sum(number for at, number in starts if begin <= at <= end)
            assert within <= burst + (end - begin) * count // per_ms


# -- who has set what


def test_each_side_replaces_its_own_limits_and_the_configuration_wins() -> None:
    config, program = Throttle(concurrency=1), Throttle(concurrency=2, origin=Origin.PROGRAM)
    stored = {"a": config, "b": program}
    assert merged(stored, {"c": Throttle(concurrency=3)}, Origin.CONFIG) == {
        "b": program,
        "c": Throttle(concurrency=3),
    }
    assert merged(stored, {"b": Throttle(concurrency=4)}, Origin.CONFIG) == {"b": Throttle(concurrency=4)}
    assert merged(stored, {"a": Throttle(concurrency=5)}, Origin.PROGRAM) == {"a": config}
    assert merged(stored, {}, Origin.PROGRAM) == {"a": config}


def test_a_rate_alone_is_a_limit() -> None:
    assert checked(Throttle(rate=rate(1, 1_000))) == Throttle(rate=rate(1, 1_000))
