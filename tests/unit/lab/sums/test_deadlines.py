"""What a deadline leaves of independent waits, by hand arithmetic."""

from __future__ import annotations

import pytest

from anew.backoff import Policy
from anew.lab.sums.outlive import LastRetry, window


def window_of(**fields: object) -> LastRetry:
    found = window(Policy.from_json(fields))
    assert found is not None
    return found


CLAMPED = {"curve": {"constant": "10s"}, "jitter": "full", "ceil": "3s", "limit": 2, "deadline": "5s"}
"""Anything below 10 s, cut off at 3 s: 3 s with the share 0.7, else anything below, 0.1 for each second."""


def test_values_that_a_ceiling_gathers_stay_single() -> None:
    """The last retry is at 3 s or later: the first wait is 3 s (0.7), or u below 3 s and both together 3 to 5 s, which is
    the integral of 0.1 (0.7 + 0.1 u) from 0 to 2 and of 0.1 * 0.2 from 2 to 3. At 3 s exactly: 0.7 whose second wait is
    above 2 s, 0.8."""
    found = window_of(**CLAMPED)
    assert found.outlives(3_000) == pytest.approx(0.7 + 0.16 + 0.02, abs=1e-3)
    assert found.outlives(3_001) == pytest.approx(0.7 + 0.16 + 0.02 - 0.7 * 0.8, abs=1e-3)


def test_clipped_they_come_at_the_deadline() -> None:
    """Both together above 5 s: twice 3 s, 3 s and above 2 s either way round, and 0.1 * 0.1 / 2 where both are above 2."""
    found = window_of(**CLAMPED, on_deadline="clip")
    over = 0.7 * 0.7 + 2 * 0.7 * 0.1 + 0.1 * 0.1 / 2
    assert found.outlives(5_000) == pytest.approx(over, abs=1e-3)


def test_a_narrow_law_far_away_is_not_blurred() -> None:
    """From 0.5 to 1 s, then 3 s again and again: the nineteenth of these comes between 57.5 and 58 s."""
    found = window_of(
        curve={"table": ["1s", "1h"]}, jitter={"below": 0.5}, ceil="3s", limit=25, deadline="1m"
    )
    assert found.outlives(57_500) == 1
    assert found.outlives(57_625) == pytest.approx(0.75, abs=5e-3)
    assert found.outlives(57_750) == pytest.approx(0.5, abs=5e-3)
    assert found.outlives(58_000) == pytest.approx(0, abs=5e-3)


def test_an_uneven_die_is_told_by_its_faces() -> None:
    """25 throws of 30 faces, 133 1/3 ms apart: 362.5 steps on average, so half of them come to 363 steps or more, 48,400 ms
    less what cutting takes off, 1/3 ms at each throw."""
    found = window_of(
        curve={"constant": 0},
        jitter={"add": {"by": "4s", "faces": 30}},
        limit=25,
        deadline="1m",
        on_deadline="clip",
    )
    assert found.outlived_by(50) == pytest.approx(48_392, abs=10)


def test_nobody_ends_longer_before_a_deadline_than_the_longest_wait() -> None:
    """Seven faces of 0 to 51 3/7 s, again and again for an hour, which is 420 steps of 8 4/7 s: so some meet it exactly."""
    found = window_of(curve={"constant": "1m"}, jitter={"full": {"faces": 7}}, deadline="1h", limit=None)
    assert found.outlives(3_600_000 - 51_429) == 1
    assert found.earliest_ms > 3_600_000 - 51_430
    # In steps t before the deadline the share is P(wait > t) / mean wait: (6 - t) / 7 / 3.
    assert found.outlives(3_600_000) == pytest.approx(6 / 21, abs=1e-3)
    assert found.mean_ms == pytest.approx(3_600_000 - 60_000 / 7 * (5 + 8 + 9 + 8 + 5) / 21, rel=1e-4)


def test_long_waits_before_short_ones_are_not_forgotten() -> None:
    """Two waits of 0.8 to 1.2 h fit into two hours for every other job, a third for none; the seconds after the fifth
    are met by nobody. Of those for whom two do not fit, three in four have the first after an hour or more."""
    phases = [{"curve": {"constant": "1h"}, "count": 5}, {"curve": {"constant": "1s"}}]
    found = window_of(phases=phases, jitter={"around": 0.2}, deadline="2h", limit=None)
    assert found.outlives(5_400_000) == pytest.approx(0.5, abs=2e-3)
    assert found.outlives(3_600_000) == pytest.approx(0.5 + 0.375, abs=2e-3)


def test_long_waits_that_fit_end_in_the_short_ones() -> None:
    """0 to 20 min, then seconds up to the half hour: all but a few have their last retry within a second of it."""
    phases = [{"curve": {"constant": "20m"}, "count": 1}, {"curve": {"constant": "1s"}}]
    found = window_of(phases=phases, jitter="full", deadline="30m", limit=None)
    assert found.outlives(1_799_000) == pytest.approx(1, abs=1e-3)
    # The time from the last retry to the deadline has the density 2 (1 - t) in seconds.
    assert found.outlives(1_799_500) == pytest.approx(0.75, abs=2e-3)


def test_a_limit_and_a_deadline_that_meet() -> None:
    """A thousand waits of 0.8 to 1.2 s, cut: 999.5 s, with a deviation of 0.4 s / sqrt(12) * sqrt(1000) = 3.65 s."""
    found = window_of(curve={"constant": "1s"}, jitter={"around": 0.2}, limit=1000, deadline="1000s")
    assert found.outlives(995_000) == pytest.approx(1 - 0.1091, abs=2e-3)
    assert found.latest_ms <= 1_000_000


def test_a_deadline_that_is_never_met_changes_no_end() -> None:
    free: dict[str, object] = {"curve": {"constant": "1m"}, "jitter": {"even": {"dither": 0.5}}, "limit": 5}
    with_one, without = window_of(**free, deadline="30d"), window_of(**free)
    assert (with_one.earliest_ms, with_one.latest_ms) == (without.earliest_ms, without.latest_ms)
