"""When waiting jobs come back: bars over time, in which a herd shows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from anew.jobs import State
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, counted, format_duration

MOST: Final = 20_000
"""Waiting jobs of either kind that a calendar counts."""

BARS: Final = 48
"""The most steps that it has."""

_STEPS: Final = (
    *(n * SECOND_MS for n in (1, 2, 5, 10, 30)),
    *(n * MINUTE_MS for n in (1, 2, 5, 10, 30)),
    *(n * HOUR_MS for n in (1, 2, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 7, 14)),
)


class Bar(NamedTuple):
    """The jobs that come due in one step.

    Attributes:
        at: Its number, from 0.
        first: Jobs that have not failed.
        again: Jobs that are tried again.
        words: When that is, and how many they are.
    """

    at: int
    first: int
    again: int
    words: str


class Calendar(NamedTuple):
    """Bars over time.

    Attributes:
        step_ms: How long a step is.
        steps: How many there are, empty ones too.
        bars: Those with jobs, in order.
        tallest: The most jobs of one step.
        end: When the last step ends, from now.
        words: What it shows, in a sentence.
    """

    step_ms: int
    steps: int
    bars: Sequence[Bar]
    tallest: int
    end: str
    words: str


def step_for(span_ms: int) -> int:
    """Choose the shortest step that shows so long a time in no more than `BARS` steps; what comes later stands in the last one."""
    return next((step for step in _STEPS if span_ms < step * BARS), _STEPS[-1])


def calendar(counts: Iterable[tuple[int, State, int]], step_ms: int, *, whole: bool) -> Calendar:
    """Draw a calendar.

    Args:
        counts: Step, state and jobs.
        step_ms: How long a step is.
        whole: All waiting jobs are in the counts.
    """
    steps: dict[int, dict[State, int]] = {}
    for step, state, jobs in counts:
        at = steps.setdefault(min(step, BARS - 1), {})
        at[state] = at.get(state, 0) + jobs
    bars = [_bar(at, steps[at], step_ms) for at in sorted(steps)]
    tallest = max(bars, key=lambda bar: bar.first + bar.again, default=None)
    if tallest is None:
        return Calendar(step_ms, BARS, (), 0, "", "No job waits for its time.")
    words = f"Each bar is {format_duration(step_ms)}. Most come {tallest.words}."
    if not whole:
        words += f" Only the next {MOST:,} are counted."
    steps_shown = bars[-1].at + 1
    end = f"in {format_duration(steps_shown * step_ms)}"
    return Calendar(step_ms, steps_shown, bars, tallest.first + tallest.again, end, words)


def _bar(at: int, states: dict[State, int], step_ms: int) -> Bar:
    first, again = states.get(State.SCHEDULED, 0), states.get(State.RETRYING, 0)
    if at == 0:
        when = f"within {format_duration(step_ms)}"
    elif at == BARS - 1:
        when = f"in {format_duration(at * step_ms)} or later"
    else:
        when = f"in {format_duration(at * step_ms)} to {format_duration((at + 1) * step_ms)}"
    failed = (
        f", {again:,} of them after a failure" if again and first else ", after a failure" if again else ""
    )
    return Bar(at, first, again, f"{when}: {counted(first + again, 'job')}{failed}")
