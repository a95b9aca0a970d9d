"""Counts the calls of a simulation in NumPy arrays: what `PlainTally` counts, without keeping a call. Needs NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anew.lab.rhythm import FINE_MS, MINUTE_TICKS, SECOND_TICKS, TICK_MS, silence, silence_unit_ms
from anew.lab.simulation.outcome import SHOWN_RETRIES, RetryOutcome, Times, bin_width_ms, nearest_rank
from anew.lab.simulation.peaks import Fullest
from anew.lab.simulation.tally import Peaks, Returning
from anew.lab.simulation.tally_late import Counts, LateCalls
from anew.units import MINUTE_MS, SECOND_MS

_DENSE: Final = MINUTE_TICKS * 2**15
"""Ticks that have a cell each, three weeks of them (79 MB, of which what is not written to takes none); of later ones only
those with a call are kept."""

_CROWDED: Final = 0.5
"""Calls on each tick, on average, from which all ticks from the first to the last are counted at once."""

_SPARSE: Final = 8
"""Late ticks, on average, from one with a call to the next, beyond which these are sorted."""

_ONES: Final = np.ones(2**16, dtype=np.int32)


class ArrayTally:
    """A tally that keeps counts per tenth of a second, and counts in bins that widen as the calls reach farther.

    Args:
        outage_ms: When the outage ends; 0: there is none.
    """

    def __init__(self, outage_ms: int = 0) -> None:
        self._outage_ms = outage_ms
        # Calls of the minute after the outage, and those before its end in the tick in which it ends.
        self._first_minute = 0
        self._refused = 0
        self.last_ms = 0
        self.calls = 0
        self._lines: list[RetryOutcome] = []
        self._cells = np.zeros(_DENSE, dtype=np.int32)
        self._late = LateCalls()
        self._first_ms = 0
        # Which milliseconds have a call, so many before and behind the first that came; None: they lie too far apart.
        self._fine: NDArray[np.bool_] | None = np.zeros(2 * FINE_MS, dtype=np.bool_)
        self._fine_ms = 0
        self._bin_ms = 1
        # One row per shown retry, and one for all later ones.
        self._rows: dict[int, Counts] = {}

    def add(self, retry: int, instants: Sequence[int] | Counts, succeeded: int) -> None:
        """Count the calls of one retry."""
        row = np.asarray(instants, dtype=np.int64)
        earliest, latest = int(row.min()), int(row.max())
        self._lines.append(
            RetryOutcome(retry, len(row), succeeded, earliest, _median(row, earliest, latest), latest)
        )
        self._mark(row, earliest, latest)
        self.calls += len(row)
        self.last_ms = max(self.last_ms, latest)
        self._widen(bin_width_ms(self.last_ms))
        self._meet(row, earliest, latest)
        ticks = row // TICK_MS
        first, last = earliest // TICK_MS, latest // TICK_MS
        if last < _DENSE and _CROWDED * (last - first) <= len(row):
            ticks -= first
            counts = np.bincount(ticks)
            self._cells[first : last + 1] += counts.astype(np.int32)
            self._bin(retry, row, lambda width: _gathered(first, counts, width))
        else:
            self._scatter(ticks, last)
            self._bin(retry, row, lambda width: np.bincount(ticks // width))

    def lines(self) -> list[RetryOutcome]:
        """Give one line per retry."""
        return sorted(self._lines, key=lambda line: line.retry)

    def load(self, bin_ms: int) -> tuple[list[int], list[list[int]]]:
        """Give the calls per bin: all, and those of each of the first retries."""
        self._widen(bin_ms)
        bins = self.last_ms // bin_ms + 1
        rows = {slot: _fitted(row, bins) for slot, row in self._rows.items()}
        total = sum(rows.values(), np.zeros(bins, dtype=np.int64)).tolist() if rows else []
        shown = min(SHOWN_RETRIES, max((line.retry for line in self._lines), default=0))
        return total, [rows[retry].tolist() if retry in rows else [0] * bins for retry in range(1, shown + 1)]

    def peaks(self) -> Peaks:
        """Give the peak second and the peak minute, of all calls and of those after the outage, and how much is silence."""
        outage_ms = self._outage_ms
        if not self._lines:
            return Peaks(0, 0, None, Returning(0, 0, 0) if outage_ms else None)
        minutes = min(self.last_ms // MINUTE_MS + 1, _DENSE // MINUTE_TICKS)
        cells = self._cells[: minutes * MINUTE_TICKS]
        per_minute = cells.reshape(-1, MINUTE_TICKS).sum(axis=1, dtype=np.int64)
        unit_ms = silence_unit_ms(self._first_ms, self.last_ms)
        filled, last = self._filled(cells, per_minute, unit_ms)
        whole, after = Fullest(), Fullest(outage_ms // TICK_MS, self._refused)
        sought = (whole, after) if outage_ms else (whole,)
        for fullest in sought:
            fullest.dense(cells, per_minute)
        for ticks, counts in self._late.pieces():
            for fullest in sought:
                fullest.add(ticks, counts)
            if unit_ms >= SECOND_MS:
                # A piece may end in the middle of a unit.
                units = np.unique(ticks // (unit_ms // TICK_MS))
                filled += int(np.count_nonzero(units > last))
                last = int(units[-1])
        return Peaks(
            whole.second,
            whole.minute,
            silence(self._first_ms, self.last_ms, filled),
            Returning(after.second, after.minute, self._first_minute) if outage_ms else None,
        )

    def histogram(
        self, instants: Sequence[int] | Counts, bin_ms: int, bins: int, until_ms: int | None = None
    ) -> list[int]:
        """Count any instants in so many bins."""
        row = np.asarray(instants, dtype=np.int64)
        cells = (row if until_ms is None else row[row <= until_ms]) // bin_ms
        found: list[int] = np.bincount(cells[cells < bins], minlength=bins).tolist()
        return found

    def _mark(self, row: Counts, earliest: int, latest: int) -> None:
        """Note which milliseconds have a call, unless the calls lie too far apart for that to matter."""
        if not self.calls:
            self._first_ms, self._fine_ms = earliest, earliest - FINE_MS
        self._first_ms = min(self._first_ms, earliest)
        if max(self.last_ms, latest) - self._first_ms >= FINE_MS:
            self._fine = None
        elif self._fine is not None:
            self._fine[row - self._fine_ms] = True

    def _meet(self, row: Counts, earliest: int, latest: int) -> None:
        """Count the calls about the end of the outage that no cell tells apart."""
        end_ms = self._outage_ms
        tick_ms = end_ms // TICK_MS * TICK_MS
        if not end_ms or latest < tick_ms or earliest >= end_ms + MINUTE_MS:
            return
        self._first_minute += _between(row, end_ms, end_ms + MINUTE_MS)
        if tick_ms < end_ms:
            self._refused += _between(row, tick_ms, end_ms)

    def _filled(self, cells: NDArray[np.int32], per_minute: Counts, unit_ms: int) -> tuple[int, int]:
        """Give how many bins of a unit have a call, but for the late ones, and the last of them (-1: none)."""
        if unit_ms < SECOND_MS:
            assert self._fine is not None
            return len(np.unique((np.flatnonzero(self._fine) + self._fine_ms) // unit_ms)), -1
        if unit_ms == SECOND_MS:
            # Late seconds are other ones; and these lie within less than an hour.
            since = cells[self._first_ms // SECOND_MS * SECOND_TICKS :]
            return int(since.reshape(-1, SECOND_TICKS).any(axis=1).sum()), -1
        bins = np.unique(np.flatnonzero(per_minute) // (unit_ms // MINUTE_MS))
        return len(bins), int(bins[-1]) if len(bins) else -1

    def _scatter(self, ticks: Counts, last: int) -> None:
        """Count ticks one by one: less work than to count all from the first to the last, where these are many."""
        if last >= _DENSE:
            early = ticks < _DENSE
            self._late.add(*_runs(ticks[~early]))
            ticks = ticks[early]
        for start in range(0, len(ticks), len(_ONES)):
            some = ticks[start : start + len(_ONES)]
            # With a number in place of an array of ones it takes twenty times as long.
            np.add.at(self._cells, some, _ONES[: len(some)])

    def _bin(self, retry: int, row: Counts, gathered: Callable[[int], Counts]) -> None:
        slot = min(retry, SHOWN_RETRIES + 1)
        size = self.last_ms // self._bin_ms + 1
        width, rest = divmod(self._bin_ms, TICK_MS)
        found = _fitted(np.bincount(row // self._bin_ms) if rest else gathered(width), size)
        known = self._rows.get(slot)
        self._rows[slot] = found if known is None else found + _fitted(known, size)

    def _widen(self, bin_ms: int) -> None:
        factor = bin_ms // self._bin_ms
        if factor <= 1:
            return
        for slot, row in self._rows.items():
            self._rows[slot] = np.add.reduceat(row, np.arange(0, len(row), factor))
        self._bin_ms = bin_ms


def times_of(took_ms: Counts) -> Times | None:
    """Give the percentiles of how long successes took."""
    if not len(took_ms):
        return None
    places = [nearest_rank(len(took_ms), share) for share in (0.5, 0.95, 0.99, 1.0)]
    ordered = np.partition(took_ms, places)
    return Times(*(int(ordered[place]) for place in places))


def _median(row: Counts, earliest: int, latest: int) -> int:
    if earliest == latest:
        return earliest
    place = (len(row) - 1) // 2
    return int(np.partition(row, place)[place])


def _between(row: Counts, low_ms: int, high_ms: int) -> int:
    return int(np.count_nonzero((row >= low_ms) & (row < high_ms)))


def _runs(ticks: Counts) -> tuple[Counts, Counts]:
    """Give the distinct ticks in order, and how many calls each has."""
    first = int(ticks.min())
    if int(ticks.max()) - first > _SPARSE * len(ticks):
        return np.unique(ticks, return_counts=True)
    counts = np.bincount(ticks - first)
    places = np.flatnonzero(counts)
    return places + first, counts[places]


def _gathered(first: int, counts: Counts, width: int) -> Counts:
    """Give the calls in each bin of so many ticks from 0 on, of neighbouring ticks from a first one on."""
    bins = np.arange(first // width, (first + len(counts) - 1) // width + 1)
    found = np.zeros(int(bins[-1]) + 1, dtype=np.int64)
    found[bins] = np.add.reduceat(counts, np.maximum(bins * width - first, 0))
    return found


def _fitted(row: Counts, size: int) -> Counts:
    """Give a row of another length, cut off or filled up with zeros."""
    if len(row) >= size:
        return row[:size]
    return np.concatenate([row, np.zeros(size - len(row), dtype=np.int64)])
