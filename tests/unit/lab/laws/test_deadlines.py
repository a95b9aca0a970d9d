"""What a deadline leaves of waits that owe each other nothing, by hand arithmetic."""

from __future__ import annotations

import pytest

from anew.backoff import Policy
from anew.lab.laws.outlive import Window, window


def window_of(**fields: object) -> Window:
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


def test_a_die_too_fine_for_the_grid_is_not_moved() -> None:
    """25 throws of 30 faces, 133 1/3 ms apart and cut to milliseconds: 25 * (14.5 * 400/3 - 1/3) ms in the middle."""
    found = window_of(
        curve={"constant": 0},
        jitter={"add": {"by": "4s", "faces": 30}},
        limit=25,
        deadline="1m",
        on_deadline="clip",
    )
    assert found.outlived_by(50) == pytest.approx(48_325, abs=70)
