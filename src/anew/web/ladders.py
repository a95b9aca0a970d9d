"""The steps of sliders: round durations and round counts, so that each step of a slider is a value that people would write."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, format_duration_short

_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 300, 500)
_SECONDS: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40, 45, 50)
_MINUTES: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 45, 50)
_HOURS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12, 15, 18)
_DAYS: Final = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 10, 14, 21, 30, 60, 90, 180, 365)

DURATIONS_MS: Final[tuple[int, ...]] = (
    0,
    *_MS,
    *(n * SECOND_MS for n in _SECONDS),
    *(int(n * MINUTE_MS) for n in _MINUTES),
    *(int(n * HOUR_MS) for n in _HOURS),
    *(int(n * DAY_MS) for n in _DAYS),
)
"""Durations from nothing to a year, in milliseconds."""

COUNTS: Final[tuple[int, ...]] = (
    *(digit * 10**power for power in range(6) for digit in (1, 2, 3, 5, 7)),
    1_000_000,
)
"""Counts from one to a million."""

LADDERS: Final[dict[str, tuple[str, ...]]] = {
    "duration": tuple(format_duration_short(ms) for ms in DURATIONS_MS),
    "count": tuple(map(str, COUNTS)),
}
"""What a slider writes at each of its steps."""

_VALUES: Final = {"duration": DURATIONS_MS, "count": COUNTS}


def place(ladder: str, value: float) -> int:
    """Give the step of a ladder that is nearest to a value.

    Args:
        ladder: One of `LADDERS`.
        value: Milliseconds, or a count.
    """
    steps = _VALUES[ladder]
    above = min(bisect_left(steps, value), len(steps) - 1)
    below = max(above - 1, 0)
    return above if steps[above] - value <= value - steps[below] else below


def steps_between(ladder: str, low: float, high: float) -> tuple[int, int]:
    """Give the first and the last step of a ladder that lie between two values."""
    steps = _VALUES[ladder]
    inside = [index for index, step in enumerate(steps) if low <= step <= high]
    return (inside[0], inside[-1]) if inside else (0, len(steps) - 1)
