"""What a load's drawings share: their axis of time, and columns that nobody overlooks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from anew.lab.charts.axes import Scale
from anew.lab.charts.pictures import Load

_CROWDED: Final = 0.05
"""What lies in so small a part of the time, a linear axis hides in a corner."""


def load_scale(load: Load, *, log: bool) -> Scale:
    """Give the axis of time that holds all bins of a load.

    Args:
        load: What to draw.
        log: Count in powers; the axis begins at 0 all the same, and is nearly linear within the first bin. A load that is
            looked at from later on has no such axis: far from 0 powers are as good as linear.
    """
    high = float(load.from_ms + _bins(load) * load.bin_ms)
    if log and not load.from_ms:
        return Scale(0.0, high, log, float(load.bin_ms))
    return Scale(float(load.from_ms), high)


def crowded(load: Load) -> bool:
    """Tell whether a policy's calls crowd at the very beginning, so that an axis of powers shows more.

    It is asked where calls meet the most others, not where most calls are: the stampede of the first seconds is the whole
    picture even where a trickle of hours brings more calls in all. So each call counts as often as there are calls in its
    bin, and half of that sum lies in the first twentieth of the time. A crowd that comes later, such as the one at an
    outage's end, is best seen on a linear axis.
    """
    if load.from_ms:
        return False
    return any(_middle_bin(line.counts) + 1 <= _CROWDED * _bins(load) for line in load.lines)


def _bins(load: Load) -> int:
    return max((len(line.counts) for line in load.lines), default=0) or 1


def _middle_bin(counts: Sequence[int]) -> int:
    """Give the bin up to which half of all meetings have happened."""
    met = [count * count for count in counts]
    half = sum(met) / 2
    return next((place for place, come in enumerate(accumulate(met)) if come >= half), len(counts))


def load_edge(load: Load, number: int) -> int:
    """Give where a bin begins, in ms; the one behind the last is where that ends."""
    return load.from_ms + number * load.bin_ms


def load_columns(
    load: Load, counts: Sequence[int], scale: Scale, least: float
) -> tuple[list[float], list[int]]:
    """Give the columns to draw: bins that are too narrow to be seen share one, as high as the highest of them.

    So the height of a column always is a count of calls in one bin, and no peak gets lost between two pixels.

    Args:
        load: Whose bins they are.
        counts: Calls in each bin.
        scale: The axis of time.
        least: The least width of a column, as a share of the axis.

    Returns:
        Where the columns begin and the last one ends, as places on the axis; and the height of each, in calls.
    """
    marks = column_marks(load, len(counts), scale, least)
    if len(marks) == 1:
        return [0.0, least], [max(counts, default=0)]
    edges = [0.0, *(scale.at(load_edge(load, mark)) for mark in marks[1:])]
    return edges, [max(counts[low:high]) for low, high in pairwise(marks)]


def column_marks(load: Load, bins: int, scale: Scale, least: float) -> list[int]:
    """Give the bins that columns begin with, and the one behind the last; 0 alone where all are too narrow for a column.

    Args:
        load: Whose bins they are.
        bins: How many.
        scale: The axis of time.
        least: The least width of a column, as a share of the axis.
    """
    marks, place = [0], 0.0
    while True:
        # A hair less will do: the places of equal bins differ in their last digits.
        end = _reaching(load, marks[-1] + 1, bins, place + least * (1 - 1e-9), scale)
        if end > bins:
            break
        marks.append(end)
        place = scale.at(load_edge(load, end))
    if len(marks) > 1:
        marks[-1] = bins  # the rest is too narrow for a column of its own
    return marks


def _reaching(load: Load, first: int, bins: int, place: float, scale: Scale) -> int:
    """Give the first bin from ``first`` on that begins at a place on the axis or behind it; one more than there are if none."""
    number = int((scale.value(min(place, 1.0)) - load.from_ms) // load.bin_ms)
    number = min(max(number, first), bins + 1)
    # The place may be a last digit off.
    while number > first and scale.at(load_edge(load, number - 1)) >= place:
        number -= 1
    while number <= bins and scale.at(load_edge(load, number)) < place:
        number += 1
    return number
