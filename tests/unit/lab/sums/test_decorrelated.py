"""Sums of waits that hang on the wait before, by hand arithmetic; and the numbers with which jobs are walked."""

from __future__ import annotations

import math

import pytest

from anew.backoff import Draws, Policy, Previous, Wait, next_wait
from anew.lab.sums import decorrelated as module
from anew.lab.sums.even_numbers import numbers, ordered
from anew.lab.sums.moments import moments
from anew.lab.sums.outlive import LastRetry, window


def decorrelated(**fields: object) -> Policy:
    return Policy.from_json({"curve": {"constant": "1s"}, "jitter": "decorrelated", **fields})


def window_of(policy: Policy) -> LastRetry:
    found = window(policy)
    assert found is not None
    return found


def test_two_waits_by_hand() -> None:
    """The first is w in [1, 3) s, the second lies in [1, 3w): below 3 s together is the integral of (2 - w) / (3w - 1) / 2
    from 1 to 2, which is (5/9 ln(5/2) - 1/3) / 2."""
    below = (5 / 9 * math.log(5 / 2) - 1 / 3) / 2
    assert window_of(decorrelated(limit=2)).outlives(3_000) == pytest.approx(1 - below, abs=5e-4)


def test_single_values_are_not_blurred() -> None:
    """The curve gives 0, 1, 2 s: nothing thrice is nothing, so the second wait is 1 s; the third lies in [2, 3) s."""
    curve = {"power": {"exponent": 1}}
    two, three = (
        window_of(Policy.from_json({"curve": curve, "jitter": "decorrelated", "limit": n})) for n in (2, 3)
    )
    assert (two.outlives(1_000), two.outlives(1_001)) == (1, 0)
    assert three.outlives(3_000) == 1
    assert three.outlives(3_500) == pytest.approx(0.5, abs=1e-6)


def test_a_ceiling_gathers_single_values() -> None:
    """Two waits of at most 2 s: w in [1, 3) s is cut off at 2 s, half of all; from there [1, 6) s, cut off with 4/5."""
    found = window_of(decorrelated(limit=2, ceil="2s"))
    assert found.outlives(4_000) == pytest.approx(1 / 2 * 4 / 5, abs=1e-3)
    assert found.outlives(3_999) - found.outlives(4_000) < 2e-3


def test_a_first_wait_is_a_window_to_the_millisecond() -> None:
    found = window_of(decorrelated(limit=1, jitter={"decorrelated": 1.5}))
    assert found.outlives(1_499) == pytest.approx(1 / 500, abs=1e-9)


def test_the_deviation_of_two_waits_by_hand() -> None:
    """In s: the mean given the first is 1/2 + 5/2 w, of variance 25/4 * 1/3; the mean of (3w - 1)**2 / 12 is 28/12."""
    exact = 1_000 * math.sqrt(25 / 12 + 28 / 12)
    assert moments(decorrelated(), 2)[1] == pytest.approx(exact, rel=2e-3)


def test_the_deviation_of_nine_waits_without_a_ceiling() -> None:
    """Moments of wait and sum, carried on exactly: E[w'] = (c + 3w) / 2, E[w'**2] = (c**2 + 3cw + 9w**2) / 3."""
    c = 15_000.0
    wait, wait_squared, total, squared, product = c, c * c, 0.0, 0.0, 0.0
    for _ in range(9):
        after, after_squared = (c + 3 * wait) / 2, (c * c + 3 * c * wait + 9 * wait_squared) / 3
        carried = (c * total + 3 * product) / 2
        squared, product = squared + 2 * carried + after_squared, carried + after_squared
        total, wait, wait_squared = total + after, after, after_squared
    policy = decorrelated(curve={"constant": "15s"}, limit=9)
    found = window_of(policy)
    assert found.sd_ms == pytest.approx(math.sqrt(squared - total * total), rel=0.01)
    assert found.mean_ms == pytest.approx(total, rel=1e-3)


def test_hundreds_of_waits_are_as_skew_as_they_are() -> None:
    """Twice the wait before, up to an hour: 200,000 drawn jobs have 1,910 s at 1 %, 4,334 s at 50 %, and a mean of 7,241 s
    with a standard error of 21 s. No normal law has that."""
    policy = decorrelated(jitter={"decorrelated": 2}, ceil="1h", limit=401)
    found = window_of(policy)
    assert found.percentile(1) == pytest.approx(1_910_000, rel=0.02)
    assert found.percentile(50) == pytest.approx(4_334_000, rel=0.02)
    assert found.mean_ms == pytest.approx(7_241_000, rel=0.01)
    assert window(policy.with_limit(1_501)) is None


def test_thousands_of_waits_that_have_long_settled_are_normal() -> None:
    """A ceiling of 20 s: each wait adds as much to the mean and to the variance as the one before."""
    four, five = (window_of(decorrelated(ceil="20s", limit=limit)) for limit in (4_000, 5_000))
    six = window_of(decorrelated(ceil="20s", limit=6_000))
    assert six.mean_ms - five.mean_ms == pytest.approx(five.mean_ms - four.mean_ms, rel=1e-4)
    assert six.sd_ms**2 - five.sd_ms**2 == pytest.approx(five.sd_ms**2 - four.sd_ms**2, rel=1e-3)
    # Of a normal law 15.87 % lie above the mean and one deviation.
    assert five.outlives(round(five.mean_ms + five.sd_ms)) == pytest.approx(0.1587, abs=1e-3)


@pytest.mark.parametrize(
    "fields",
    [
        {"ceil": "4s"},
        {"floor": "2s", "ceil": "5s"},
        {"curve": {"table": ["0s", "1s", "30s", "2s"]}, "jitter": {"decorrelated": 1.5}},
    ],
    ids=str,
)
def test_jobs_walk_as_the_engine_lets_them(
    fields: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job with known numbers: where it is after each wait is what the engine's own decisions add up to."""
    drawn = [0.9, 0.2, 0.999, 0.5, 0.0, 0.7]
    monkeypatch.setattr(module, "numbers", lambda retry, count: [drawn[retry - 1]] * count)
    policy, numbers_of_one = decorrelated(**fields), iter(drawn)
    walked, previous, at = module.Walk(policy, jobs=1), None, 0
    for retry in range(1, 7):
        walked.step()
        wait = next_wait(
            policy, retry, Draws(lambda: next(numbers_of_one), b"job"), previous=previous, beyond_limit=True
        )
        assert isinstance(wait, Wait)
        previous, at = Previous(wait.carry), at + wait.wait_ms
        if wait.draw is None:
            # No window, no number asked for: the walk has passed over its own.
            next(numbers_of_one)
        assert walked.passed == [at]


def test_numbers_leave_no_gaps() -> None:
    """Golden steps: of any ten neighbours each fifth of [0, 1) gets one to three."""
    found = numbers(7, 1_000)
    assert all(0 <= number < 1 for number in found)
    for start in range(0, 990, 37):
        fifths = [int(number * 5) for number in found[start : start + 10]]
        assert all(1 <= fifths.count(fifth) <= 3 for fifth in range(5))


def test_jobs_are_ordered_by_time_then_in_groups_by_memory() -> None:
    passed = [5, 1, 9, 3, 7, 2, 8, 4, 6]
    remembered = [0.2, 0.3, 0.9, 0.1, 0.5, 0.2, 0.7, 0.6, 0.4]
    # By time: 1 5 3 | 7 0 8 | 4 6 2 (jobs); in groups of three by memory, the second one downwards.
    assert ordered(passed, remembered) == [3, 5, 1, 7, 8, 0, 4, 6, 2]
    assert ordered([], []) == []
