"""Finds the peak second and the peak minute in counts per tick, wherever those begin. Needs NumPy."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from anew.lab.rhythm import MINUTE_TICKS, SECOND_TICKS
from anew.lab.simulation.tally_late import Counts

_MINUTES: Final = 64
"""Minutes that are added up at a time; so many ticks fit the cache."""


class Fullest:
    """The most calls in any second and in any minute that begins on a tick, of calls that come in order of time.

    Args:
        first: Ticks before this one do not count.
        less: So many calls of the first one do not, either.

    Attributes:
        second: The most calls in a second.
        minute: The most calls in a minute.
    """

    def __init__(self, first: int = 0, less: int = 0) -> None:
        self._first = first
        self._less = less
        # A window may begin in what was added before.
        self._tail = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        self.second = 0
        self.minute = 0

    def dense(self, cells: NDArray[np.int32], per_minute: Counts) -> None:
        """Add ticks from 0 on that have a cell each, in whole minutes, before any others.

        Args:
            cells: The calls in each.
            per_minute: The calls in each minute of them.
        """
        bound = per_minute + np.append(per_minute[1:], 0)
        for low in range(self._first // MINUTE_TICKS, len(per_minute), _MINUTES):
            # No second that begins in these minutes has more calls than one of them and the next.
            most = int(bound[low : low + _MINUTES].max())
            if most <= self.second:
                continue
            ticks = self._counted(cells, low * MINUTE_TICKS, (low + _MINUTES + 1) * MINUTE_TICKS)
            sums = np.concatenate(([0], np.cumsum(ticks, dtype=np.int64)))
            self.second = max(self.second, _most(sums, SECOND_TICKS))
            if most > self.minute:
                self.minute = max(self.minute, _most(sums, MINUTE_TICKS))
        self._keep(*_sparse(self._counted(cells, len(cells) - MINUTE_TICKS, len(cells)), len(cells)))

    def add(self, ticks: Counts, counts: Counts) -> None:
        """Add ticks with a call, each once, in order, behind all others."""
        place = int(ticks.searchsorted(self._first))
        ticks, counts = ticks[place:], counts[place:]
        if len(ticks) and ticks[0] == self._first:
            counts = np.concatenate((counts[:1] - self._less, counts[1:]))
        ticks = np.concatenate((self._tail[0], ticks))
        counts = np.concatenate((self._tail[1], counts))
        self.second = max(self.second, _most_within(ticks, counts, SECOND_TICKS))
        self.minute = max(self.minute, _most_within(ticks, counts, MINUTE_TICKS))
        self._keep(ticks, counts)

    def _keep(self, ticks: Counts, counts: Counts) -> None:
        if len(ticks):
            place = int(ticks.searchsorted(ticks[-1] - MINUTE_TICKS))
            self._tail = ticks[place:], counts[place:]

    def _counted(self, cells: NDArray[np.int32], low: int, high: int) -> NDArray[np.int32]:
        """Give a part of the cells as far as they count."""
        if self._first < low or high <= self._first:
            return cells[low : high if self._first < high else low]
        found = cells[self._first : high]
        if self._less:
            found = found.copy()
            found[:1] -= self._less
        return found


def _most(sums: Counts, width: int) -> int:
    """Give the most of so many neighbours, from the sums of all up to each; of all of them, if they are fewer."""
    if len(sums) <= width:
        return int(sums[-1])
    return int((sums[width:] - sums[:-width]).max())


def _most_within(ticks: Counts, counts: Counts, width: int) -> int:
    """Give the most calls in so many ticks in a row: of those with a call, each once, in order."""
    if not len(ticks):
        return 0
    # A window that begins in one bin of the width ends in the next at the latest: most begin where that cannot be enough.
    bins = ticks // width
    starts = np.flatnonzero(np.diff(bins, prepend=-1))
    inside = np.add.reduceat(counts, starts)
    follows = np.append(np.diff(bins[starts]) == 1, False)
    bound = inside + np.where(follows, np.append(inside[1:], 0), 0)
    most = int(inside.max())
    places = np.flatnonzero(np.repeat(bound > most, np.diff(starts, append=len(ticks))))
    if not len(places):
        return most
    sums = np.concatenate(([0], np.cumsum(counts)))
    ends = ticks.searchsorted(ticks[places] + width)
    return max(most, int((sums[ends] - sums[places]).max()))


def _sparse(cells: NDArray[np.int32], end: int) -> tuple[Counts, Counts]:
    """Give the last cells before an end as ticks with a call."""
    places = np.flatnonzero(cells)
    return places + (end - len(cells)), cells[places].astype(np.int64)
