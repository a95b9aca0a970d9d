"""Decorrelated jitter and Polly's slices, which remember the draw before."""

import math
from random import Random
from statistics import median

import pytest

from anew.backoff import Draws, Policy, Previous, Wait, next_wait, preset
from anew.lab import explain

from .helpers import make_draws, make_policy, spans, wait_ms

SLICES = {"curve": {"exponential": {"base": "1s"}}, "jitter": "slices", "limit": None}


def chain(policy: Policy, draws: Draws, count: int) -> list[int]:
    """A job's waits one after the other, what is to be carried being carried."""
    waits: list[int] = []
    previous: Previous | None = None
    for retry in range(1, count + 1):
        wait = next_wait(policy, retry, draws, previous=previous)
        assert isinstance(wait, Wait)
        previous = Previous(wait.carry)
        waits.append(wait.wait_ms)
    return waits


def test_decorrelated_reaches_three_times_the_wait_before() -> None:
    policy = preset("aws_decorrelated")
    assert chain(policy, make_draws(0.5), 4) == [2_000, 3_500, 5_750, 9_125]
    assert chain(policy, make_draws(0.0), 4) == [1_000] * 4
    assert chain(policy, make_draws(math.nextafter(1, 0)), 5) == [2_999, 8_999, 20_000, 20_000, 20_000]


def test_the_reachable_range_of_1_s_to_20_s() -> None:
    assert spans(preset("aws_decorrelated"), 5) == ["1-3", "1-9", "1-20", "1-20", "1-20"]


def test_what_is_carried_is_not_cut_to_milliseconds() -> None:
    wait = next_wait(preset("aws_decorrelated", base="1ms"), 1, make_draws(0.3))
    assert isinstance(wait, Wait)
    assert wait.wait_ms == 1
    assert wait.carry == pytest.approx(1.6)


@pytest.mark.parametrize("carry", [None, math.nan, -1.0, math.inf, 0.0])
def test_without_a_usable_carry_decorrelated_starts_from_the_beginning(carry: float | None) -> None:
    policy = preset("aws_decorrelated")
    assert wait_ms(policy, 9, make_draws(0.5), previous=Previous(carry)) == 2_000


def test_decorrelated_medians_grow_far_slower_than_doubling() -> None:
    """From 15 s the medians of 4,000 jobs follow 30, 47, 69, 94, 124, 158, 200, 248, 303, 367 s."""
    policy = preset("aws_decorrelated", base="15s", ceil="365d")
    chains = [chain(policy, Draws(Random(seed).random), 10) for seed in range(4_000)]
    found = [median(waits) / 1000 for waits in zip(*chains, strict=True)]
    assert found == pytest.approx([30, 47, 69, 94, 124, 158, 200, 248, 303, 367], rel=0.06)


def test_decorrelated_piles_up_at_its_ceiling() -> None:
    """In the steady state 41 % of the waits of 1 s to 20 s are exactly 20 s, and 28 % of 15 s to 1 h."""
    for policy, share in [
        (preset("aws_decorrelated"), 0.41),
        (preset("aws_decorrelated", base="15s", ceil="1h"), 0.28),
    ]:
        waits = chain(policy.with_limit(None), Draws(Random(4).random), 20_000)[1_000:]
        assert waits.count(policy.ceil_ms or 0) / len(waits) == pytest.approx(share, abs=0.02)


def front(t: float) -> float:
    """Polly's curve, written down again."""
    return math.pow(2, t) * math.tanh(2 * math.sqrt(t))


def test_the_reachable_range_of_slices_for_one_second() -> None:
    policy = Policy.from_json(SLICES)
    latest = [row.latest_ms for row in explain(policy, 10).rows]
    assert latest == pytest.approx(
        [1_377, 2_837, 4_326, 8_584, 17_150, 34_290, 68_570, 137_100, 274_300, 548_600], rel=5e-4
    )
    assert {row.earliest_ms for row in explain(policy, 10).rows} == {0}


def test_slices_telescope() -> None:
    """The sum of three waits is F(2 + U) / 1.4: 2.84 s to 5.70 s for one second, the documented 3 retries."""
    rows = explain(Policy.from_json(SLICES | {"limit": 3})).rows
    assert rows[-1].window_earliest_ms == pytest.approx(2_840, abs=5)
    assert rows[-1].window_latest_ms == pytest.approx(5_700, abs=5)
    for number in (0.0, 0.3, 0.999):
        total = sum(chain(Policy.from_json(SLICES), make_draws(number), 6))
        assert total == pytest.approx(front(5 + number) / 1.4 * 1000, abs=6)


def test_slices_of_random_numbers_stay_inside_their_slices() -> None:
    for seed in range(200):
        draws = Draws(Random(seed).random)
        waits = chain(Policy.from_json(SLICES), draws, 8)
        numbers = Random(seed)
        instant = 0
        for k, wait in enumerate(waits):
            instant += wait
            assert instant == pytest.approx(front(k + numbers.random()) / 1.4 * 1000, abs=k + 1.01)


@pytest.mark.parametrize("carry", [None, math.nan, -0.1, 1.0, 45_000.0])
def test_a_lost_carry_puts_the_slice_before_at_its_middle(carry: float | None) -> None:
    wait = wait_ms(Policy.from_json(SLICES), 3, make_draws(0.25), previous=Previous(carry))
    assert wait == math.floor((front(2.25) - front(1.5)) / 1.4 * 1000)


def test_slices_never_overflow() -> None:
    policy = Policy.from_json(SLICES)
    for retry in (40, 1_000, 1_001, 1_024, 1_025, 10**9):
        assert wait_ms(policy, retry, make_draws(0.5), previous=Previous(0.5)) == 31_536_000_000
    assert explain(policy, 2_000).rows[-1].latest_ms == 31_536_000_000


def test_a_base_of_zero_stays_zero() -> None:
    policy = Policy.from_json(SLICES | {"curve": {"exponential": {"base": 0}}})
    assert [wait_ms(policy, k, make_draws(0.5)) for k in (1, 2, 5_000)] == [0, 0, 0]


def test_a_wait_that_the_failure_asks_for_leaves_the_carry_alone() -> None:
    policy = make_policy(jitter="decorrelated")
    wait = next_wait(policy, 2, make_draws(), previous=Previous(12_345.5), override_ms=1_000)
    assert isinstance(wait, Wait)
    assert (wait.wait_ms, wait.carry) == (1_000, 12_345.5)


def test_slices_that_meet_the_ceiling_are_bounded_by_their_parts() -> None:
    policy = Policy.from_json(SLICES | {"ceil": "5s", "limit": 8})
    last = explain(policy).rows[-1]
    assert last.window_earliest_ms is not None
    assert last.window_latest_ms is not None
    for seed in range(300):
        total = sum(chain(policy, Draws(Random(seed).random), 8))
        assert last.window_earliest_ms <= total <= last.window_latest_ms
