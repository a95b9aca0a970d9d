"""When waiting jobs come back: steps that people read, and no more bars than fit."""

from __future__ import annotations

import pytest

from anew.jobs import State
from anew.web.dashboard.calendar import BARS, MOST, calendar, step_for

MINUTE = 60_000


@pytest.mark.parametrize(
    ("span_ms", "step_ms"),
    [
        (0, 1_000),
        (48_000 - 1, 1_000),
        (48_000, 2_000),
        (47 * MINUTE, MINUTE),
        (48 * MINUTE, 2 * MINUTE),
        (48 * 14 * 86_400_000, 14 * 86_400_000),
    ],
)
def test_a_step_is_the_shortest_that_shows_all(span_ms: int, step_ms: int) -> None:
    """48 steps of a second show 48 s; a job due at the end of them has no bar any more."""
    assert step_for(span_ms) == step_ms


def test_both_kinds_stand_in_one_bar() -> None:
    drawn = calendar(
        [(0, State.SCHEDULED, 5), (3, State.SCHEDULED, 1), (3, State.RETRYING, 1_007)], MINUTE, whole=True
    )
    assert [bar[:3] for bar in drawn.bars] == [(0, 5, 0), (3, 1, 1_007)]
    assert (drawn.steps, drawn.tallest, drawn.end) == (4, 1_008, "in 4 min")
    assert drawn.bars[0].words == "within 1 min: 5 jobs"
    assert (
        drawn.words
        == "Each bar is 1 min. Most come in 3 min to 4 min: 1,008 jobs, 1,007 of them after a failure."
    )


def test_what_comes_very_late_stands_in_the_last_bar() -> None:
    drawn = calendar([(BARS - 1, State.RETRYING, 1), (BARS + 900, State.RETRYING, 1)], MINUTE, whole=False)
    assert [bar[:3] for bar in drawn.bars] == [(47, 0, 2)]
    assert drawn.steps == BARS
    assert drawn.bars[0].words == "in 47 min or later: 2 jobs, after a failure"
    assert drawn.words.endswith(f"Only the next {MOST:,} are counted.")


def test_nothing_waits() -> None:
    drawn = calendar([], 1_000, whole=True)
    assert (drawn.bars, drawn.words) == ((), "No job waits for its time.")
