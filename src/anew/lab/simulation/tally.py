"""Counts the calls of a simulation and makes its outcome of them, in plain Python.

This is the meaning of every number in an `Outcome`; `anew.lab.simulation.tally_arrays` counts the same faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from anew.lab.rhythm import Silence, even_second, silence, silence_unit_ms
from anew.lab.simulation.outcome import (
    SHOWN_JOBS,
    SHOWN_RETRIES,
    Downstream,
    Fresh,
    Load,
    Outcome,
    RetryOutcome,
    Times,
    bin_width_ms,
    percentile,
)
from anew.lab.simulation.scenario import Scenario
from anew.units import MINUTE_MS, SECOND_MS


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
        wasted: The same for those whose callers had given up.
    """

    due: Sequence[int]
    offered: Sequence[int]
    taken: Sequence[int]
    served: Sequence[int]
    done: Sequence[int]
    wasted: Sequence[int]


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

    def peaks(self) -> tuple[int, int, Silence | None]:
        """Give the calls of the fullest second and of the fullest minute, and how much is silence."""

    def histogram(
        self, instants: Sequence[int], bin_ms: int, bins: int, until_ms: int | None = None
    ) -> list[int]:
        """Count any instants in so many bins; what lies beyond, or later than ``until_ms``, does not count."""


class PlainTally:
    """A tally in plain Python; keeps every instant."""

    def __init__(self) -> None:
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

    def peaks(self) -> tuple[int, int, Silence | None]:
        """Give the calls of the fullest second and of the fullest minute, and how much is silence."""
        if not self._instants:
            return 0, 0, None
        seconds = Counter(instant // SECOND_MS for instant in self._all())
        minutes = Counter(instant // MINUTE_MS for instant in self._all())
        first = min(row[0] for row in self._instants.values())
        unit = silence_unit_ms(first, self.last_ms)
        filled = {instant // unit for instant in self._all()}
        return max(seconds.values()), max(minutes.values()), silence(first, self.last_ms, len(filled))

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


def outcome(
    scenario: Scenario,
    tally: Tally,
    *,
    succeeded: int,
    dead: int,
    took_ms: Times | None,
    last_ms: int,
    dots: Iterable[Sequence[int]],
    passage: Passage | None = None,
    fresh: Fresh | None = None,
) -> Outcome:
    """Put an outcome together.

    Args:
        scenario: What was simulated.
        tally: All calls after first failures.
        succeeded: Jobs of the herd that succeeded.
        dead: Jobs of the herd that died.
        took_ms: How long the successes took.
        last_ms: When the last job of the herd ended.
        dots: Instants of the first jobs.
        passage: What went through the downstream, if it was limited.
        fresh: What became of fresh calls.
    """
    end_ms = tally.last_ms if passage is None else _end_ms(scenario, tally, passage)
    bin_ms = bin_width_ms(end_ms)
    bins = _bins(scenario, end_ms, bin_ms)
    counts, by_retry = tally.load(bin_ms)
    second, minute, silent = tally.peaks()
    lines = tally.lines()
    first_ms = min((line.earliest_ms for line in lines), default=0)
    waiting = scenario.jobs - succeeded - dead
    return Outcome(
        jobs=scenario.jobs,
        succeeded=succeeded,
        dead=dead,
        waiting=waiting,
        calls=tally.calls,
        herd_calls=tally.calls - (fresh.retries if fresh else 0),
        wasted=tally.calls - sum(line.succeeded for line in lines),
        retries=tuple(lines),
        load=Load(bin_ms, _closed(counts, bins)),
        by_retry=tuple(_closed(row, bins) for row in by_retry),
        peak_second=second,
        peak_minute=minute,
        even_second=even_second(tally.calls, first_ms, tally.last_ms),
        silence=silent,
        success_ms=took_ms,
        through_ms=None if waiting else last_ms,
        dots=tuple(tuple(job) for job in dots)[:SHOWN_JOBS],
        downstream=None if passage is None else _downstream(tally, passage, bin_ms, bins, scenario.end_ms),
        fresh=fresh,
    )


def times(took_ms: Iterable[int]) -> Times | None:
    """Give the percentiles of how long successes took."""
    ordered = sorted(took_ms)
    if not ordered:
        return None
    return Times(*(percentile(ordered, share) for share in (0.5, 0.95, 0.99, 1.0)))


def _end_ms(scenario: Scenario, tally: Tally, passage: Passage) -> int:
    """Give how far the bins reach: to the last call that began or was due, and to the last work or answer before the horizon."""
    done_ms = max(max(passage.done, default=0), max(passage.served, default=0))
    if scenario.end_ms is not None:
        done_ms = min(done_ms, scenario.end_ms)
    return max(tally.last_ms, max(passage.offered, default=0), max(passage.due, default=0), done_ms)


def _bins(scenario: Scenario, end_ms: int, bin_ms: int) -> int:
    """Give how many bins reach to an instant: past it, but where it is the horizon only to it, so that none lies beyond."""
    whole, rest = divmod(end_ms, bin_ms)
    return whole if end_ms == scenario.end_ms and whole and not rest else whole + 1


def _closed(counts: Sequence[int], bins: int) -> tuple[int, ...]:
    """Count what lies exactly at the end of the last bin to that bin."""
    if len(counts) <= bins:
        return tuple(counts)
    return (*counts[: bins - 1], sum(counts[bins - 1 :]))


def _downstream(tally: Tally, passage: Passage, bin_ms: int, bins: int, horizon_ms: int | None) -> Downstream:
    def begun(instants: Sequence[int]) -> tuple[int, ...]:
        return _closed(tally.histogram(instants, bin_ms, bins + 1), bins)

    def ended(milliseconds: Sequence[int]) -> list[int]:
        # Work and answers may come later than any call; the millisecond that begins with the horizon is beyond it.
        return tally.histogram(milliseconds, bin_ms, bins, None if horizon_ms is None else horizon_ms - 1)

    offered = begun(passage.offered)
    return Downstream(
        bin_ms=bin_ms,
        offered=offered,
        served=tuple(ended(passage.served)),
        wasted=tuple(ended(passage.wasted)),
        backlog=_inside(begun(passage.taken), ended(passage.done)),
        held=_inside(begun(passage.due), offered),
    )


def _inside(came: Sequence[int], went: Sequence[int]) -> tuple[int, ...]:
    """Count at the end of each bin who has come and not gone."""
    level, levels = 0, []
    for more, less in zip(came, went, strict=True):
        level += more - less
        levels.append(level)
    return tuple(levels)
