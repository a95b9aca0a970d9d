"""Counts the calls of a simulation in NumPy arrays: what `PlainTally` counts, without keeping a call. Needs NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anew.lab.rhythm import FINE_MS, Silence, silence, silence_unit_ms
from anew.lab.simulation.outcome import SHOWN_RETRIES, RetryOutcome, Times, bin_width_ms, nearest_rank
from anew.lab.simulation.tally_late import Counts, LateCalls
from anew.units import MINUTE_MS, SECOND_MS

_DENSE_S: Final = 60 * 2**18
"""Seconds that have a cell each, half a year of them; of later ones only those with a call are kept."""

_MINUTE_S: Final = MINUTE_MS // SECOND_MS


class ArrayTally:
    """A tally that keeps counts per second, and counts in bins that widen as the calls reach farther."""

    def __init__(self) -> None:
        self.last_ms = 0
        self.calls = 0
        self._lines: list[RetryOutcome] = []
        self._seconds = np.zeros(0, dtype=np.int32)
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
        seconds, counts = _runs(row // SECOND_MS, earliest // SECOND_MS, latest // SECOND_MS)
        self._keep(seconds, counts)
        if self._bin_ms % SECOND_MS:
            self._bin(retry, row // self._bin_ms, None)
        else:
            self._bin(retry, seconds // (self._bin_ms // SECOND_MS), counts)

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

    def peaks(self) -> tuple[int, int, Silence | None]:
        """Give the calls of the fullest second and of the fullest minute, and how much is silence."""
        if not self._lines:
            return 0, 0, None
        per_minute = self._seconds.reshape(-1, _MINUTE_S).sum(axis=1, dtype=np.int64)
        unit_ms = silence_unit_ms(self._first_ms, self.last_ms)
        filled, last = self._filled(per_minute, unit_ms)
        late_second, late_minute, late_filled = self._late.peaks(max(unit_ms // SECOND_MS, 1), last)
        if unit_ms >= SECOND_MS:
            filled += late_filled
        return (
            max(int(self._seconds.max(initial=0)), late_second),
            max(int(per_minute.max(initial=0)), late_minute),
            silence(self._first_ms, self.last_ms, filled),
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

    def _filled(self, per_minute: Counts, unit_ms: int) -> tuple[int, int]:
        """Give how many bins of a unit have a call, but for the late ones, and the last of them (-1: none)."""
        if unit_ms < SECOND_MS:
            assert self._fine is not None
            return len(np.unique((np.flatnonzero(self._fine) + self._fine_ms) // unit_ms)), -1
        if unit_ms == SECOND_MS:
            # Late seconds are other ones.
            return int(np.count_nonzero(self._seconds)), -1
        bins = np.unique(np.flatnonzero(per_minute) // (unit_ms // MINUTE_MS))
        return len(bins), int(bins[-1]) if len(bins) else -1

    def _keep(self, seconds: Counts, counts: Counts) -> None:
        late = int(np.searchsorted(seconds, _DENSE_S))
        if late < len(seconds):
            some = counts[late:] > 0
            self._late.add(seconds[late:][some], counts[late:][some])
            seconds, counts = seconds[:late], counts[:late]
        if late == 0:
            return
        last = int(seconds[-1])
        if last >= len(self._seconds):
            # In whole minutes, at least doubled, so that a long schedule is not copied at every retry.
            size = min(_DENSE_S, max(2 * len(self._seconds), (last // _MINUTE_S + 1) * _MINUTE_S))
            grown = np.zeros(size, dtype=np.int32)
            grown[: len(self._seconds)] = self._seconds
            self._seconds = grown
        self._seconds[seconds] += counts.astype(np.int32)

    def _bin(self, retry: int, cells: Counts, weights: Counts | None) -> None:
        slot = min(retry, SHOWN_RETRIES + 1)
        size = self.last_ms // self._bin_ms + 1
        found = np.bincount(cells, weights=weights, minlength=size).astype(np.int64)
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


def _runs(seconds: Counts, first: int, last: int) -> tuple[Counts, Counts]:
    """Give the distinct seconds in order, and how many calls each has; or all from first to last, if that is shorter."""
    if last - first < 4 * len(seconds) + 64:
        seconds -= first
        return np.arange(first, last + 1), np.bincount(seconds, minlength=last - first + 1)
    return np.unique(seconds, return_counts=True)


def _fitted(row: Counts, size: int) -> Counts:
    """Give a row of another length, cut off or filled up with zeros."""
    if len(row) >= size:
        return row[:size]
    return np.concatenate([row, np.zeros(size - len(row), dtype=np.int64)])
