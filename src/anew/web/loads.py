"""The load on the page: calls per second in columns as high as the fullest bin behind each, so that no wave looks low.

The rule is that of the lab's charts, and so is the function that keeps to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from anew.lab.charts.axes import Scale
from anew.lab.charts.loads import column_marks
from anew.lab.charts.pictures import Load
from anew.lab.simulation.outcome import bin_width_ms, widened
from anew.units import DAY_MS, MINUTE_MS, SECOND_MS
from anew.web.herds import Herd, Seconds

COLUMNS: Final = 240
"""Columns across the picture, at most."""

_NEAR_MS: Final = (30 * MINUTE_MS, 2 * DAY_MS)
"""Ends of further looks at the beginning, which show it more finely on an axis of powers."""


@dataclass(frozen=True, slots=True)
class Look:
    """Calls in equal bins, the first of which begins at 0.

    Attributes:
        end_ms: Calls before this instant are counted.
        bin_ms: The width of a bin.
        counts: Calls in each, up to the last bin with one.
    """

    end_ms: int
    bin_ms: int
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class Columns:
    """What is drawn of some policies, calls per second.

    Attributes:
        edges_ms: Where the columns begin and the last one ends; the first reaches back to 0.
        bins_ms: How wide the bins behind each column are.
        peaks: Of each policy, the rate in the fullest bin of each column.
        means: Of each policy, the rate over the whole of each column.
    """

    edges_ms: list[float]
    bins_ms: list[int]
    peaks: list[list[float]]
    means: list[list[float]]


def near_ends(last_ms: int, until_ms: int | None, *, log: bool) -> list[int]:
    """Give up to where a load that goes on for longer is also to be looked at, more finely; the earliest end first.

    Args:
        last_ms: The last call.
        until_ms: Where the picture ends; None: with the last call.
        log: Its axis counts in powers.
    """
    ends = set(_NEAR_MS if log else ())
    if until_ms:
        ends.add(until_ms + 1)
    return sorted(end for end in ends if 4 * end < last_ms)


def bare_looks(herd: Herd, until_ms: int | None, *, log: bool) -> tuple[Look, ...]:
    """Give the load of a herd whose every retry fails: all its retries, in bins of whole seconds."""
    whole = herd.last_ms + 1
    return tuple(_counted(herd.seconds, end) for end in [*near_ends(whole, until_ms, log=log), whole])


def _counted(seconds: Seconds, end_ms: int) -> Look:
    bin_ms = max(bin_width_ms(end_ms - 1), SECOND_MS)
    step = bin_ms // SECOND_MS
    marks = [number * step for number in range(1, -(-end_ms // bin_ms) + 1)]
    return Look(end_ms, bin_ms, [after - before for before, after in pairwise([0, *_before(seconds, marks)])])


def _before(seconds: Seconds, marks: Sequence[int]) -> list[int]:
    """Tell how many calls come before each of some seconds."""
    if isinstance(seconds, list):
        return [bisect_left(seconds, mark) for mark in marks]
    import numpy as np

    # Of the same type, lest the whole array be copied to be compared.
    found: list[int] = seconds.searchsorted(np.asarray(marks, dtype=seconds.dtype)).tolist()
    return found


def columns(courses: Sequence[Sequence[Look]], first_ms: int, last_ms: int, *, log: bool) -> Columns:
    """Give the columns in which the loads of some policies can be laid over each other.

    Args:
        courses: Of each policy its looks, the earliest end first; the last one shows all.
        first_ms: Where an axis of powers begins.
        last_ms: The last instant shown.
        log: The axis counts in powers.
    """
    made = Columns([0.0], [], [[] for _ in courses], [[] for _ in courses])
    if not courses:
        return made
    stretches = _stretches(courses, first_ms, last_ms)
    end = stretches[-1][1]
    axis = Scale(float(first_ms) if log else 0.0, float(end), log)
    for start, stop, bin_ms in stretches:
        counts = [_cut(_look(course, min(stop, last_ms + 1)), start, stop, bin_ms) for course in courses]
        scale = Scale(max(float(start), axis.low), float(stop), log)
        least = 1 / (COLUMNS * (axis.at(stop) - axis.at(start)))
        _add(made, start, bin_ms, counts, scale, least)
    made.edges_ms[0] = min(float(first_ms), made.edges_ms[1] / 2) if log else 0.0
    return made


def _stretches(courses: Sequence[Sequence[Look]], first_ms: int, last_ms: int) -> list[tuple[int, int, int]]:
    """Give stretches of time, each from where to where, and the bins that all policies have there."""
    ends = {look.end_ms for course in courses for look in course[:-1] if 2 * first_ms < look.end_ms < last_ms}
    bin_ms = _widest(courses, last_ms + 1)
    stop = -(-(last_ms + 1) // bin_ms) * bin_ms
    found = []
    for end in sorted(ends, reverse=True):
        if end % bin_ms == 0:
            found.append((end, stop, bin_ms))
            stop, bin_ms = end, _widest(courses, end)
    return [(0, stop, bin_ms), *reversed(found)]


def _widest(courses: Sequence[Sequence[Look]], end_ms: int) -> int:
    # Each width is a multiple of all that are narrower, so that the widest bins suit all.
    return max([SECOND_MS, *(_look(course, end_ms).bin_ms for course in courses)])


def _look(course: Sequence[Look], end_ms: int) -> Look:
    """Give the finest look that reaches so far."""
    return next((look for look in course if look.end_ms >= end_ms), course[-1])


def _cut(look: Look, start: int, stop: int, bin_ms: int) -> tuple[int, ...]:
    factor = bin_ms // look.bin_ms
    counts = look.counts if factor == 1 else widened(look.counts, factor)
    wide = counts[start // bin_ms : stop // bin_ms]
    return (*wide, *[0] * ((stop - start) // bin_ms - len(wide)))


def _add(
    made: Columns, start: int, bin_ms: int, counts: Sequence[Sequence[int]], scale: Scale, least: float
) -> None:
    """Add the columns of one stretch of time."""
    panel, bins = Load(1, bin_ms, (), start), len(counts[0])
    marks = column_marks(panel, bins, scale, least)
    marks = marks if len(marks) > 1 else [0, bins]
    made.edges_ms.extend(float(start + mark * bin_ms) for mark in marks[1:])
    made.bins_ms.extend([bin_ms] * (len(marks) - 1))
    seconds = bin_ms / SECOND_MS
    for place, line in enumerate(counts):
        columns = [line[low:high] for low, high in pairwise(marks)]
        made.peaks[place].extend(round(max(column) / seconds, 6) for column in columns)
        made.means[place].extend(round(sum(column) / (seconds * len(column)), 6) for column in columns)
