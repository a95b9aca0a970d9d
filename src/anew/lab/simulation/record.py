"""What happens in a simulation, kept call by call, and the outcome that is counted from it."""

from __future__ import annotations

import functools
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from anew.lab.rhythm import even_second, in_order, rhythm
from anew.lab.simulation.outcome import (
    SHOWN_DOTS,
    SHOWN_JOBS,
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
from anew.lab.waves import Wave, as_wave, greatest, places
from anew.units import MINUTE_MS

_column = functools.partial(array, "q")


@dataclass
class Ends:
    """How some jobs ended.

    Attributes:
        took_ms: From first failure to success, one per success.
        last_ms: When the last job ended, if one did.
    """

    succeeded: int = 0
    dead: int = 0
    took_ms: array[int] = field(default_factory=_column)
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


@dataclass
class Record:
    """What happened.

    Attributes:
        made: The instants of each retry's calls, in any order.
        good: How many of them succeeded.
        ends: How the herd's jobs ended.
        fresh_ends: How the fresh calls ended.
        fresh_calls: Fresh calls made.
        fresh_retries: Retries of those that failed.
        at_once: Those of them that succeeded at the first try.
        dots: The instants of each of the first jobs.
        due: When each call should have begun, those too that found no worker before the horizon; this and what follows
            is kept where calls meet in a queue.
        offered: When each began.
        served: In which millisecond each was answered in time; on the stroke of one it was the one before.
        done: In which millisecond the work for each that was not refused was done.
        abandoned: The same for those whose callers had given up.
        most_backlog: The most calls at any time that the downstream had taken in and not yet done.
    """

    made: dict[int, array[int] | Wave] = field(default_factory=dict)
    good: Counter[int] = field(default_factory=Counter)
    ends: Ends = field(default_factory=Ends)
    fresh_ends: Ends = field(default_factory=Ends)
    fresh_calls: int = 0
    fresh_retries: int = 0
    at_once: int = 0
    dots: list[list[int]] = field(default_factory=list)
    due: array[int] = field(default_factory=_column)
    offered: array[int] = field(default_factory=_column)
    served: array[int] = field(default_factory=_column)
    done: array[int] = field(default_factory=_column)
    abandoned: array[int] = field(default_factory=_column)
    most_backlog: int = 0

    @classmethod
    def of(cls, scenario: Scenario) -> Record:
        """Begin the record of a scenario."""
        return cls(dots=[[] for _ in range(min(scenario.jobs, SHOWN_JOBS))])

    def offer(self, instants: array[int]) -> None:
        """Count calls that begin when they are due."""
        self.due.extend(instants)
        self.offered.extend(instants)

    def retried(self, job: int, retry: int, at: int) -> None:
        """Count a retry that begins."""
        if (column := self.made.get(retry)) is None:
            column = self.made[retry] = _column()
        assert isinstance(column, array)
        column.append(at)
        self.show(job, at)

    def show(self, job: int, at: int) -> None:
        """Keep a retry's instant if it is one of those that are shown."""
        if job < len(self.dots) and len(self.dots[job]) < SHOWN_DOTS:
            self.dots[job].append(at)

    def calls(self) -> Wave:
        """Give the instants of all calls, the first first."""
        return in_order([as_wave(instants) for instants in self.made.values()])

    def outcome(self, scenario: Scenario) -> Outcome:
        """Count it all, on axes that all of it shares."""
        rows = {retry: as_wave(instants) for retry, instants in sorted(self.made.items())}
        bin_ms, bins = self._bins(scenario, max(map(greatest, rows.values()), default=0))
        calls = self.calls()
        found = rhythm(calls)
        reach = min(found.last_ms // bin_ms + 1, bins) if found.calls else 0
        second_after, minute_after, first_minute_after = _returning(calls, scenario.outage_ms)
        waiting = scenario.jobs - self.ends.succeeded - self.ends.dead
        return Outcome(
            jobs=scenario.jobs,
            succeeded=self.ends.succeeded,
            dead=self.ends.dead,
            waiting=waiting,
            calls=found.calls,
            herd_calls=found.calls - self.fresh_retries,
            wasted=found.calls - sum(self.good.values()),
            retries=tuple(_line(retry, in_order([row]), self.good[retry]) for retry, row in rows.items()),
            load=Load(bin_ms, _binned(calls, bin_ms, reach)),
            peak_second=found.peak_second,
            peak_minute=found.peak_minute,
            peak_second_after=second_after,
            peak_minute_after=minute_after,
            first_minute_after=first_minute_after,
            even_second=even_second(found.calls, found.first_ms, found.last_ms),
            silence=found.silence,
            success_ms=_times(self.ends.took_ms),
            through_ms=None if waiting else self.ends.last_ms,
            dots=tuple(tuple(job) for job in self.dots),
            downstream=self._downstream(scenario, bin_ms, bins) if scenario.coupled else None,
            fresh=self._fresh() if scenario.base_rate else None,
        )

    def _bins(self, scenario: Scenario, last_ms: int) -> tuple[int, int]:
        """Give the width of bins, and how many reach to all calls begun or due, and all work and answers before the horizon."""
        end_ms = last_ms
        if scenario.coupled:
            done_ms = max(max(self.done, default=0), max(self.served, default=0))
            if scenario.end_ms is not None:
                done_ms = min(done_ms, scenario.end_ms)
            end_ms = max(last_ms, max(self.offered, default=0), max(self.due, default=0), done_ms)
        bin_ms = bin_width_ms(end_ms)
        whole, rest = divmod(end_ms, bin_ms)
        # One past the end, but where that is the horizon only up to it, so that none lies beyond.
        return bin_ms, whole if end_ms == scenario.end_ms and whole and not rest else whole + 1

    def _downstream(self, scenario: Scenario, bin_ms: int, bins: int) -> Downstream:
        horizon_ms, outage_ms = scenario.end_ms, scenario.outage_ms

        def begun(instants: Sequence[int]) -> tuple[int, ...]:
            return _binned(in_order([as_wave(instants)]), bin_ms, bins)

        def ended(milliseconds: Sequence[int]) -> tuple[int, ...]:
            # Work and answers may come later than any call; the millisecond that begins with the horizon is beyond it.
            ordered = in_order([as_wave(milliseconds)])
            if horizon_ms is not None:
                ordered = ordered[: bisect_left(ordered, horizon_ms)]
            return _binned(ordered, bin_ms, bins)

        offered = begun(self.offered)
        taken = begun(array("q", (at for at in self.offered if at >= outage_ms)))
        return Downstream(
            bin_ms=bin_ms,
            offered=offered,
            served=ended(self.served),
            abandoned=ended(self.abandoned),
            backlog=_inside(taken, ended(self.done)),
            held=_inside(begun(self.due), offered),
            most_backlog=self.most_backlog,
            most_held=0 if scenario.workers is None else _most_inside(self.due, self.offered),
        )

    def _fresh(self) -> Fresh:
        ends = self.fresh_ends
        return Fresh(
            calls=self.fresh_calls,
            retries=self.fresh_retries,
            at_once=self.at_once,
            succeeded=ends.succeeded,
            dead=ends.dead,
            waiting=self.fresh_calls - ends.succeeded - ends.dead,
        )


def _returning(calls: Wave, outage_ms: int) -> tuple[int, int, int] | tuple[None, None, None]:
    """Give peak second, peak minute and the first minute of the calls at or after the end of an outage."""
    if not outage_ms:
        return None, None, None
    met = calls[bisect_left(calls, outage_ms) :]
    found = rhythm(met)
    return found.peak_second, found.peak_minute, bisect_left(met, outage_ms + MINUTE_MS)


def _line(retry: int, row: Wave, succeeded: int) -> RetryOutcome:
    median = int(row[(len(row) - 1) // 2])
    return RetryOutcome(retry, len(row), succeeded, int(row[0]), median, int(row[-1]))


def _times(took_ms: Sequence[int]) -> Times | None:
    """Give the percentiles of how long successes took."""
    ordered = in_order([as_wave(took_ms)])
    if not len(ordered):
        return None
    return Times(*(percentile(ordered, share) for share in (0.5, 0.95, 0.99, 1.0)))


def _binned(ordered: Wave, bin_ms: int, bins: int) -> tuple[int, ...]:
    """Count ordered instants per bin; what lies exactly at the end of the last bin belongs to it."""
    starts = places(ordered, range(0, bins * bin_ms, bin_ms))
    return tuple(end - start for start, end in pairwise([*starts, len(ordered)]))


def _inside(came: Sequence[int], went: Sequence[int]) -> tuple[int, ...]:
    """Count at the end of each bin who has come and not gone."""
    level, levels = 0, []
    for more, less in zip(came, went, strict=True):
        level += more - less
        levels.append(level)
    return tuple(levels)


def _most_inside(came: Sequence[int], went: Sequence[int]) -> int:
    """Give the most that had come and not gone at any time; whoever goes in the millisecond of coming does not count."""
    most, gone, leaving = 0, 0, sorted(went)
    for count, at in enumerate(sorted(came), 1):
        while gone < len(leaving) and leaving[gone] <= at:
            gone += 1
        most = max(most, count - gone)
    return most
