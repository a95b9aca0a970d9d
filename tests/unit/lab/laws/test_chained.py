"""Sums of waits that hang on the wait before, by hand arithmetic; and the numbers with which jobs are walked."""

from __future__ import annotations

import math

import pytest

from anew.backoff import Policy
from anew.lab.laws.chain_deviation import chain_deviation
from anew.lab.laws.even_numbers import numbers, ordered
from anew.lab.laws.outlive import Window, window


def decorrelated(**fields: object) -> Policy:
    return Policy.from_json({"curve": {"constant": "1s"}, "jitter": "decorrelated", **fields})


def window_of(policy: Policy) -> Window:
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
    assert chain_deviation(decorrelated(), 2) == pytest.approx(exact, rel=2e-3)


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
    assert found.mean_ms == pytest.approx(total, rel=3e-3)


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
