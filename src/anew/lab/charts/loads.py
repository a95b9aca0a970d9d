"""The load: calls a second in columns, each as high as the fullest second behind it, so that no peak looks low."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from anew.lab.rhythm import SECOND_TICKS, TICK_MS
from anew.lab.waves import Wave, greatest, places
from anew.units import SECOND_MS

COLUMNS: Final = 240
"""Columns across the picture, but for one more where an outage ends."""

_CROWDED: Final = 0.05
"""What lies in so small a part of the time, a linear axis hides in a corner."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """The whole seconds after the first failure that have a call, the first first, and how many calls each has."""

    at: Wave
    calls: Wave
    fullest: Wave
    """The most calls in any ten tenths of a second in a row that begin in it."""


def seconds(calls: Wave) -> Seconds:
    """Count calls, which come in order, by the second."""
    if isinstance(calls, list):
        counted = Counter(ms // SECOND_MS for ms in calls)
        most: dict[int, int] = {}
        ticks = [ms // TICK_MS for ms in calls]
        for place, tick in enumerate(ticks):
            within = bisect_left(ticks, tick + SECOND_TICKS) - place
            most[tick // SECOND_TICKS] = max(most.get(tick // SECOND_TICKS, 0), within)
        return Seconds([*counted], [*counted.values()], [*most.values()])  # in order, as the calls are
    import numpy as np

    ticks_of = calls // TICK_MS
    begun = _changes(ticks_of)
    different = ticks_of[begun]
    ends = np.append(begun, len(ticks_of))[different.searchsorted(different + SECOND_TICKS)]
    each = different // SECOND_TICKS
    first = _changes(each)
    if not len(first):
        return Seconds(each, each, each)
    found = np.diff(begun[first], append=len(ticks_of))
    return Seconds(each[first], found, np.maximum.reduceat(ends - begun, first))


def _changes(ordered: Wave) -> Any:
    """Give the place of each value's first one."""
    import numpy as np

    return np.flatnonzero(np.diff(ordered, prepend=-1))


def crowded(course: Seconds, last_ms: int) -> bool:
    """Tell whether calls crowd at the very beginning, so that an axis of powers shows more.

    It is asked where calls meet the most others, not where most calls are: the stampede of the first seconds is the whole
    picture even where a trickle of hours brings more calls in all. So each call counts as often as there are calls in its
    second, and half of that sum lies in the first twentieth of the time. A crowd that comes later, such as the one at an
    outage's end, is best seen on a linear axis.
    """
    met = list(accumulate(int(calls) ** 2 for calls in course.calls))
    if not met:
        return False
    middle = int(course.at[bisect_left(met, met[-1] / 2)])
    return middle + 1 <= _CROWDED * (last_ms // SECOND_MS + 1)


def edges(
    first_ms: int, last_ms: int, *, log: bool, outage_ms: int | None = None, from_ms: int = 0
) -> list[int]:
    """Give the seconds in which columns begin, and in which the last one ends.

    Args:
        first_ms: Up to here an axis that counts in powers is even.
        last_ms: The last instant shown.
        log: The axis counts in powers.
        outage_ms: A column begins where the outage ends: what meets the service is not mixed with what it refused.
        from_ms: The first instant shown; 0 where the axis counts in powers.
    """
    begin, end = from_ms // SECOND_MS, last_ms // SECOND_MS + 1
    if log:
        first = min(max(first_ms / SECOND_MS, 1.0), end)
        # As a single column the even part would be full from 0 on, before any call comes.
        even = min(int(first), COLUMNS // 4)
        powers = COLUMNS - even
        marks = {round(first * (end / first) ** (place / powers)) for place in range(powers + 1)}
        marks |= {*range(0, int(first), -(-int(first) // even))}
    else:
        step = -(-(end - begin) // COLUMNS)
        marks = {*range(begin, end + step, step)}  # the last one is as wide as the others
    returns = -(-(outage_ms or 0) // SECOND_MS)
    return sorted(marks | {returns} if begin < returns < end else marks)


def columns(course: Seconds, edges: Sequence[int]) -> tuple[list[int], list[float]]:
    """Give of each column the calls of its fullest second, and its calls a second on average."""
    places_of = places(course.at, edges)
    peaks, means = [], []
    for (low, high), (start, end) in zip(pairwise(edges), pairwise(places_of), strict=True):
        calls = course.calls[start:end]
        peaks.append(max(greatest(course.fullest[start:end]), 0))
        means.append(round((sum(calls) if isinstance(calls, list) else int(calls.sum())) / (high - low), 6))
    return peaks, means
