"""The load on the page: calls per second in columns as high as the fullest bin behind each, so that no wave looks low.

The rule is that of the lab's charts, and so is the function that keeps to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from anew.lab.charts.axes import Scale
from anew.lab.charts.loads import column_marks
from anew.lab.charts.pictures import Load
from anew.lab.simulation.outcome import bin_width_ms
from anew.units import DAY_MS, MINUTE_MS, SECOND_MS
from anew.web.herds import Herd, Seconds

COLUMNS: Final = 240
"""Columns across the picture, at most."""

Join: TypeAlias = Callable[[Sequence[int]], int]
"""Makes one of the numbers of some neighbouring bins."""

_NEAR_MS: Final = (30 * MINUTE_MS, 2 * DAY_MS)
"""Ends of further looks at the beginning, which show it more finely on an axis of powers."""


@dataclass(frozen=True, slots=True)
class Look:
    """Calls in equal bins, the first of which begins at 0.

    Attributes:
        end_ms: Calls before this instant are counted.
        bin_ms: The width of a bin.
        counts: Calls in each, up to the last bin with one.
        fullest: Of each, the calls of the fullest second that begins in it; None where only those of the bin are known.
    """

    end_ms: int
    bin_ms: int
    counts: Sequence[int]
    fullest: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """What is drawn of some policies, calls per second.

    Attributes:
        edges_ms: Where the columns begin and the last one ends; the first reaches back to 0.
        bins_ms: How wide the bins are of whose fullest the peak is, column by column.
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
    bins = -(-end_ms // bin_ms)
    if isinstance(seconds.at, list):
        return _plainly(seconds, end_ms, step, bins)
    import numpy as np

    few = int(seconds.at.searchsorted(bins * step))
    places = seconds.at[:few] // step
    first = np.flatnonzero(np.diff(places, prepend=-1))
    counts, fullest = np.zeros(bins, dtype=np.int64), np.zeros(bins, dtype=np.int64)
    if few:
        counts[places[first]] = np.add.reduceat(seconds.calls[:few], first)
        fullest[places[first]] = np.maximum.reduceat(seconds.fullest[:few], first)
    return Look(end_ms, bin_ms, counts.tolist(), fullest.tolist())


def _plainly(seconds: Seconds, end_ms: int, step: int, bins: int) -> Look:
    counts, fullest = [0] * bins, [0] * bins
    for second, calls, most in zip(seconds.at, seconds.calls, seconds.fullest, strict=True):
        place = int(second) // step
        if place < bins:
            counts[place] += int(calls)
            fullest[place] = max(fullest[place], int(most))
    return Look(end_ms, step * SECOND_MS, counts, fullest)


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
        looks = [_look(course, min(stop, last_ms + 1)) for course in courses]
        scale = Scale(max(float(start), axis.low), float(stop), log)
        least = 1 / (COLUMNS * (axis.at(stop) - axis.at(start)))
        _add(made, start, stop, bin_ms, looks, scale, least)
    made.edges_ms[0] = min(float(first_ms), made.edges_ms[1] - 1) if log else 0.0
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


def _cut(
    counts: Sequence[int], look: Look, start: int, stop: int, bin_ms: int, join: Join
) -> tuple[int, ...]:
    """Give the bins from one instant to another, so wide as all policies have them there."""
    factor = bin_ms // look.bin_ms
    wide = counts
    if factor > 1:
        wide = [join(counts[place : place + factor]) for place in range(0, len(counts), factor)]
    wide = wide[start // bin_ms : stop // bin_ms]
    return (*wide, *[0] * ((stop - start) // bin_ms - len(wide)))


def _add(
    made: Columns, start: int, stop: int, bin_ms: int, looks: Sequence[Look], scale: Scale, least: float
) -> None:
    """Add the columns of one stretch of time."""
    panel, bins = Load(1, bin_ms, (), start), (stop - start) // bin_ms
    marks = column_marks(panel, bins, scale, least)
    marks = marks if len(marks) > 1 else [0, bins]
    known = all(look.fullest is not None for look in looks)
    fine_ms = SECOND_MS if known else bin_ms
    made.edges_ms.extend(float(start + mark * bin_ms) for mark in marks[1:])
    made.bins_ms.extend([fine_ms] * (len(marks) - 1))
    for place, look in enumerate(looks):
        counts = _cut(look.counts, look, start, stop, bin_ms, sum)
        peaks = _cut(look.fullest or (), look, start, stop, bin_ms, max) if known else counts
        for low, high in pairwise(marks):
            made.peaks[place].append(round(max(peaks[low:high]) * SECOND_MS / fine_ms, 6))
            made.means[place].append(round(sum(counts[low:high]) * SECOND_MS / (bin_ms * (high - low)), 6))
