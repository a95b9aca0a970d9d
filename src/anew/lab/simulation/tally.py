"""Counts the calls of a simulation, in plain Python.

This is the meaning of every number in an `Outcome`; `anew.lab.simulation.tally_arrays` counts the same faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Protocol

from anew.lab.rhythm import (
    MINUTE_TICKS,
    SECOND_TICKS,
    TICK_MS,
    Silence,
    most_within,
    silence,
    silence_unit_ms,
)
from anew.lab.simulation.outcome import (
    SHOWN_RETRIES,
    RetryOutcome,
)
from anew.units import MINUTE_MS


@dataclass
class Ends:
    """How the jobs of a herd ended.

    Attributes:
        took_ms: From first failure to success, one per success.
        last_ms: When the last job ended, if one did.
    """

    succeeded: int = 0
    dead: int = 0
    took_ms: list[int] = field(default_factory=list)
    last_ms: int = 0

    def success(self, at: int, since: int) -> None:
        """Count a success."""
        self.succeeded += 1
        self.took_ms.append(at - since)
        self.last_ms = max(self.last_ms, at)

    def death(self, at: int) -> None:
        """Count a death."""
        self.dead += 1
        self.last_ms = max(self.last_ms, at)


@dataclass(frozen=True)
class Passage:
    """What went through the downstream: instants, one list each, in any order.

    Attributes:
        due: When each call should have begun, those too that found no worker before the horizon.
        offered: When each began.
        taken: When each that was not refused began.
        served: In which millisecond each was answered in time; on the stroke of one it was the one before.
        done: In which millisecond the work for each that was not refused was done.
        abandoned: The same for those whose callers had given up.
        most_backlog: The most calls at any time that were taken and not done.
    """

    due: Sequence[int]
    offered: Sequence[int]
    taken: Sequence[int]
    served: Sequence[int]
    done: Sequence[int]
    abandoned: Sequence[int]
    most_backlog: int


class Returning(NamedTuple):
    """The calls at or after the end of the outage.

    Attributes:
        second: Their peak second.
        minute: Their peak minute.
        first_minute: Those of the first 60 s.
    """

    second: int
    minute: int
    first_minute: int


class Peaks(NamedTuple):
    """Where calls crowd, and where none comes.

    Attributes:
        second: Most calls in any second that begins on a tenth of a second.
        minute: Most calls in any 60 s that begin so.
        silence: How much is silence.
        after: The calls at or after the end of the outage; None without one.
    """

    second: int
    minute: int
    silence: Silence | None
    after: Returning | None


class Tally(Protocol):
    """Counts calls, retry by retry."""

    last_ms: int
    calls: int

    def add(self, retry: int, instants: Sequence[int], succeeded: int) -> None:
        """Count the calls of one retry; each retry comes once, and not without a call."""

    def lines(self) -> list[RetryOutcome]:
        """Give one line per retry."""

    def load(self, bin_ms: int) -> tuple[list[int], list[list[int]]]:
        """Give the calls per bin: all, and those of each of the first retries."""

    def peaks(self) -> Peaks:
        """Give the peak second and the peak minute, of all calls and of those after the outage, and how much is silence."""

    def histogram(
        self, instants: Sequence[int], bin_ms: int, bins: int, until_ms: int | None = None
    ) -> list[int]:
        """Count any instants in so many bins; what lies beyond, or later than ``until_ms``, does not count."""


class PlainTally:
    """A tally in plain Python; keeps every instant.

    Args:
        outage_ms: When the outage ends; 0: there is none.
    """

    def __init__(self, outage_ms: int = 0) -> None:
        self._outage_ms = outage_ms
        self.last_ms = 0
        self.calls = 0
        self._instants: dict[int, list[int]] = {}
        self._succeeded: dict[int, int] = {}

    def add(self, retry: int, instants: Sequence[int], succeeded: int) -> None:
        """Count the calls of one retry."""
        self._instants[retry] = sorted(instants)
        self._succeeded[retry] = succeeded
        self.last_ms = max(self.last_ms, self._instants[retry][-1])
        self.calls += len(instants)

    def lines(self) -> list[RetryOutcome]:
        """Give one line per retry."""
        return [
            RetryOutcome(
                retry=retry,
                calls=len(row),
                succeeded=self._succeeded[retry],
                earliest_ms=row[0],
                median_ms=row[(len(row) - 1) // 2],
                latest_ms=row[-1],
            )
            for retry, row in sorted(self._instants.items())
        ]

    def load(self, bin_ms: int) -> tuple[list[int], list[list[int]]]:
        """Give the calls per bin: all, and those of each of the first retries."""
        bins = self.last_ms // bin_ms + 1
        shown = min(SHOWN_RETRIES, max(self._instants, default=0))
        return (
            self.histogram(self._all(), bin_ms, bins) if self._instants else [],
            [self.histogram(self._instants.get(retry, ()), bin_ms, bins) for retry in range(1, shown + 1)],
        )

    def peaks(self) -> Peaks:
        """Give the peak second and the peak minute, of all calls and of those after the outage, and how much is silence."""
        outage_ms, after = self._outage_ms, None
        if outage_ms:
            late = [instant for instant in self._all() if instant >= outage_ms]
            first_minute = sum(instant < outage_ms + MINUTE_MS for instant in late)
            after = Returning(*_fullest(late), first_minute)
        if not self._instants:
            return Peaks(0, 0, None, after)
        first = min(row[0] for row in self._instants.values())
        unit = silence_unit_ms(first, self.last_ms)
        filled = {instant // unit for instant in self._all()}
        return Peaks(*_fullest(self._all()), silence(first, self.last_ms, len(filled)), after)

    def histogram(
        self, instants: Sequence[int], bin_ms: int, bins: int, until_ms: int | None = None
    ) -> list[int]:
        """Count any instants in so many bins."""
        counts = [0] * bins
        for instant in instants:
            if instant // bin_ms < bins and (until_ms is None or instant <= until_ms):
                counts[instant // bin_ms] += 1
        return counts

    def _all(self) -> list[int]:
        return list(chain.from_iterable(self._instants.values()))


def _fullest(instants: Iterable[int]) -> tuple[int, int]:
    """Give the peak second and the peak minute."""
    ticks = sorted(instant // TICK_MS for instant in instants)
    return most_within(ticks, SECOND_TICKS), most_within(ticks, MINUTE_TICKS)
