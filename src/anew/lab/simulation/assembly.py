"""Puts the outcome of a simulation together: what was counted, on axes that all of it shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anew.lab.rhythm import (
    even_second,
)
from anew.lab.simulation.outcome import (
    SHOWN_JOBS,
    Downstream,
    Fresh,
    Load,
    Outcome,
    Times,
    bin_width_ms,
    percentile,
)
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.tally import Passage, Tally


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
    peaks = tally.peaks()
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
        peak_second=peaks.second,
        peak_minute=peaks.minute,
        peak_second_after=peaks.after and peaks.after.second,
        peak_minute_after=peaks.after and peaks.after.minute,
        first_minute_after=peaks.after and peaks.after.first_minute,
        even_second=even_second(tally.calls, first_ms, tally.last_ms),
        silence=peaks.silence,
        success_ms=took_ms,
        through_ms=None if waiting else last_ms,
        dots=tuple(tuple(job) for job in dots)[:SHOWN_JOBS],
        downstream=None if passage is None else _downstream(scenario, tally, passage, bin_ms, bins),
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


def _downstream(scenario: Scenario, tally: Tally, passage: Passage, bin_ms: int, bins: int) -> Downstream:
    horizon_ms = scenario.end_ms

    def begun(instants: Sequence[int]) -> tuple[int, ...]:
        return _closed(tally.histogram(instants, bin_ms, bins + 1), bins)

    def ended(milliseconds: Sequence[int]) -> list[int]:
        # Work and answers may come later than any call; the millisecond that begins with the horizon is beyond it.
        return tally.histogram(milliseconds, bin_ms, bins, None if horizon_ms is None else horizon_ms - 1)

    offered = begun(passage.offered)
    held = _inside(begun(passage.due), offered)
    return Downstream(
        bin_ms=bin_ms,
        offered=offered,
        served=tuple(ended(passage.served)),
        abandoned=tuple(ended(passage.abandoned)),
        backlog=_inside(begun(passage.taken), ended(passage.done)),
        held=held,
        most_backlog=passage.most_backlog,
        most_held=0 if scenario.workers is None else _most_inside(passage.due, passage.offered),
    )


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
