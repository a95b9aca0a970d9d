"""What every picture shows, as plain data: the terminal, the files and the page in the browser draw the same.

Small herds are drawn by the engine's own decisions, one by one; large ones by their vectorised form, which decides the
same to the millisecond and needs NumPy (without it they are drawn one by one as well).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from anew.backoff import Policy
from anew.lab.chance import phase
from anew.lab.charts.bins import wait_edges
from anew.lab.charts.bounds import (
    MAX_BINS,
    MAX_DOTS,
    MAX_INSTANTS,
    MAX_RETRIES,
    checked_seed,
    retries_of_herds,
    shown_retries,
    whole,
)
from anew.lab.charts.loads import Seconds, columns, crowded, edges, seconds
from anew.lab.charts.pictures import Band, BandLine, BandPoint, Dots, Heat, Histogram, Load, LoadLine
from anew.lab.explain import explain
from anew.lab.named import Named
from anew.lab.waves import (
    ABSENT,
    Wave,
    ends,
    greatest,
    instants,
    tally,
    waits_between,
    waves,
)
from anew.units import SECOND_MS, format_duration_short, refused

if TYPE_CHECKING:
    from anew.lab.simulation.scenario import Scenario

PHASE_ROWS: Final = 64
"""Rows of a heat whose rows are the jobs."""


def curve_band(policies: Sequence[Named], retries: int | None = None) -> Band:
    """Give each policy's nominal, earliest, latest and mean wait, retry by retry.

    Args:
        policies: The policies.
        retries: Retries to show; None: as many as each policy has, 25 where it has no end.
    """
    return Band(tuple(band_line(name, _points(policy, retries)) for name, policy in policies))


def band_line(name: str, points: tuple[BandPoint, ...]) -> BandLine:
    """Give the line of a policy through its waits: the mean, or where any of them has none that can be told, the nominal."""
    # One line, one meaning: it does not change from mean to nominal on its way.
    known = all(point.mean_ms is not None for point in points)
    return BandLine(name, points, "mean" if known else "nominal")


def line_words(band: Band) -> str:
    """Say what the lines of a band are, to be read after "the line is"."""
    other = [line.label for line in band.lines if line.line == "nominal"]
    if not other:
        return "the mean"
    nominal = "the curve's wait without jitter, as its mean cannot be told"
    return nominal if len(other) == len(band.lines) else f"the mean; that of {', '.join(other)} is {nominal}"


def _points(policy: Policy, retries: int | None) -> tuple[BandPoint, ...]:
    # The waits of each retry are shown, no percentiles, which cost as much as all the rest.
    rows = explain(policy, shown_retries(policy, retries), percentiles=()).rows
    return tuple(
        BandPoint(row.retry, row.nominal_ms, row.earliest_ms, row.latest_ms, row.mean_ms) for row in rows
    )


def dots(
    named: Named,
    jobs: int = 100,
    retries: int | None = None,
    seed: int = 1,
    *,
    outage_ms: int | None = None,
) -> Dots:
    """Give when each job of a herd retries, all of them having failed at 0.

    Args:
        named: The policy.
        jobs: Jobs, at most 100,000 dots in all.
        retries: Retries to show; None: as many as the policy has, 25 where it has no end.
        seed: Chance.
        outage_ms: Calls fail until then, and the first one after it succeeds; None: they always fail.

    Raises:
        InvalidInput: A number is out of bounds.
    """
    checked_seed(seed)
    whole("jobs", jobs, 1, MAX_DOTS, "the jobs of the herd")
    count = shown_retries(named.policy, retries)
    whole("jobs", jobs, 1, max(1, MAX_DOTS // max(count, 1)), f"no more than {MAX_DOTS:,} dots in all")
    rows = tuple(_until(instants(named.policy, job, count, seed), outage_ms) for job in range(jobs))
    first = sorted(row[0] for row in rows if row and row[0])
    last = max((row[-1] for row in rows if row), default=0)
    # Of the first retries a twentieth may be held to the start of an axis: one early bird must not stretch it.
    most = max(map(len, rows)) if outage_ms is not None else count
    return Dots(named.label, most, rows, first[len(first) // 20] if first else 0, last, outage_ms)


def _until(row: tuple[int, ...], outage_ms: int | None) -> tuple[int, ...]:
    """Give a job's retries up to the first that succeeds."""
    return row if outage_ms is None else row[: bisect_left(row, outage_ms) + 1]


def on_one_axis(panels: Sequence[Dots]) -> tuple[Dots, ...]:
    """Give the same panels with one time axis, which holds all their dots."""
    begin = min((panel.begin_ms for panel in panels if panel.begin_ms), default=0)
    end = max((panel.end_ms for panel in panels), default=0)
    return tuple(msgspec.structs.replace(panel, begin_ms=begin, end_ms=end) for panel in panels)


def heat(
    policies: Sequence[Named],
    jobs: int = 1_000,
    retries: int | None = None,
    seed: int = 1,
    *,
    rows: Literal["retry", "phase"] = "retry",
    bins: int = 240,
    log: bool = True,
    outage_ms: int | None = None,
) -> tuple[Heat, ...]:
    """Give how many retries of a herd fall into each bin of time, the same bins for all policies.

    Args:
        policies: The policies.
        jobs: Jobs of each, all failing at 0; at most 25 million retries in all.
        retries: Retries to show; None: as many as the policy has, 25 where it has no end.
        seed: Chance.
        rows: A row for each retry, or the jobs in up to 64 rows by their number for life.
        bins: Bins of time, 1 to 2,000.
        log: Bins that are equally wide on an axis of powers; else of equal duration, beginning at 0.
        outage_ms: Calls fail until then, and the first one after it succeeds; None: they always fail.

    Raises:
        InvalidInput: A number is out of bounds.
    """
    whole("bins", bins, 1, MAX_BINS, "the bins of time")
    checked_seed(seed)
    counts = [retries_of_herds(policy, jobs, retries, len(policies)) for _, policy in policies]
    herds = [
        _made(waves(policy, jobs, count, seed), outage_ms)
        for (_, policy), count in zip(policies, counts, strict=True)
    ]
    spans = [ends(found) for found in herds]
    edges = bin_edges(min(first for first, _ in spans), max(last for _, last in spans), bins, log)
    return tuple(
        Heat(label, jobs, rows, edges, _rows(found, rows, edges, jobs, seed), log, outage_ms)
        for (label, _), found in zip(policies, herds, strict=True)
    )


def _rows(
    found: Sequence[Wave], rows: Literal["retry", "phase"], edges: Sequence[float], jobs: int, seed: int
) -> tuple[tuple[int, ...], ...]:
    by_retry = rows == "retry"
    counts = [_flat(wave, edges) for wave in found] if by_retry else _by_phase(found, edges, jobs, seed)
    return tuple(map(tuple, counts))


def _by_phase(found: Sequence[Wave], edges: Sequence[float], jobs: int, seed: int) -> list[list[int]]:
    height = min(PHASE_ROWS, jobs)
    order = sorted(range(jobs), key=lambda job: phase("seq", seed, job))
    groups = [0] * jobs
    for rank, job in enumerate(order):
        groups[job] = rank * height // jobs
    counts = [[0] * (len(edges) - 1) for _ in range(height)]
    for wave in found:
        for row, more in zip(counts, tally(wave, edges, groups, height), strict=True):
            row[:] = map(int.__add__, row, more)
    return counts


def _made(found: Sequence[Wave], outage_ms: int | None) -> list[Wave]:
    """Give the waves of which each job makes only the calls up to the first one that succeeds.

    Args:
        found: A herd's waves, as if every call failed.
        outage_ms: Calls fail until then, and succeed from then on; None: they always fail.

    Returns:
        The same waves, `ABSENT` where a call is not made any more; those without any call are left out at the end.
    """
    if outage_ms is None or not found:
        return list(found)
    kept: list[Wave] = [found[0]]
    for before, wave in pairwise(found):
        now = _still(before, wave, outage_ms)
        if greatest(now) == ABSENT:
            break
        kept.append(now)
    return kept


def _still(before: Wave, wave: Wave, outage_ms: int) -> Wave:
    if isinstance(wave, list):
        return [ms if last < outage_ms else ABSENT for last, ms in zip(before, wave, strict=True)]
    import numpy as np

    # An instant that a deadline forbids is as early as can be: what follows it is forbidden as well.
    alive: Wave = np.where(np.asarray(before) < outage_ms, wave, ABSENT)
    return alive


def _flat(wave: Wave, edges: Sequence[float]) -> list[int]:
    return tally(wave, edges, None, 1)[0]


def bin_edges(first: float, last: float, bins: int, log: bool) -> tuple[float, ...]:
    """Give where bins begin and end."""
    if not log:
        return tuple(last * place / bins for place in range(bins + 1))
    return tuple(first * (last / first) ** (place / bins) for place in range(bins + 1))


def histogram(named: Named, retry: int, jobs: int = 10_000, seed: int = 1, *, bins: int = 60) -> Histogram:
    """Give how one retry's waits are spread: drawn by the engine, as many as there are jobs.

    Args:
        named: The policy.
        retry: Which retry, 1 = the first, one that the policy allows.
        jobs: Waits to draw; at most 25 million with those of the retries before.
        seed: Chance.
        bins: Bins between the earliest and the latest wait, 1 to 2,000; up to twice as many where waits are diced in so few
            steps, that each may have its own.

    Raises:
        InvalidInput: A number is out of bounds, or the policy has no such retry.
    """
    most = MAX_RETRIES if named.policy.retries is None else min(MAX_RETRIES, named.policy.retries)
    whole("retry", retry, 1, most, f"a retry that {named.label} has")
    whole("bins", bins, 1, MAX_BINS, "the bins of waits")
    checked_seed(seed)
    retries_of_herds(named.policy, jobs, retry)
    found = waves(named.policy, jobs, retry, seed)
    drawn = waits_between(found[-1], found[-2] if retry > 1 else None)
    if not len(drawn):
        raise refused("retry", retry, f"a retry that comes before the deadline of {named.label}")
    edges = wait_edges([drawn], bins)
    counts = _flat(drawn, edges)
    return Histogram(
        named.label, retry, len(drawn), edges, tuple(counts), float(sum(map(int, drawn)) / len(drawn))
    )


def load(
    policies: Sequence[Named],
    scenario: Scenario,
    *,
    from_ms: int = 0,
    to_ms: int | None = None,
    log: bool | None = None,
) -> Load:
    """Give how many calls a second reach what is called, column by column, each policy meeting the same scenario.

    Args:
        policies: The policies.
        scenario: How many jobs fail, for how long, and so on.
        from_ms: Where to begin to look.
        to_ms: Where to stop; None: behind the last call.
        log: The axis counts in powers, from 0 on; None: if that shows more.

    Raises:
        InvalidInput: There is nothing to be seen there, or there are more than 25 million calls.
    """
    courses = [(label, seconds(_calls(policy, scenario))) for label, policy in policies]
    return load_of(courses, scenario, from_ms=from_ms, to_ms=to_ms, log=log)


def load_of(
    courses: Sequence[tuple[str, Seconds]],
    scenario: Scenario,
    *,
    from_ms: int = 0,
    to_ms: int | None = None,
    log: bool | None = None,
) -> Load:
    """Give the same as `load` of calls that are counted by the second, with their policies' labels."""
    if to_ms is not None and to_ms <= from_ms:
        after = format_duration_short(from_ms)
        raise refused("to", format_duration_short(to_ms), f"later than from, which is {after}")
    if log and from_ms:
        raise refused("log", log, "no axis of powers where from is later than 0, as powers count from 0")
    with_calls = [course.at for _, course in courses if len(course.at)]
    first = SECOND_MS * min((int(at[0]) for at in with_calls), default=0)
    last = SECOND_MS * max((int(at[-1]) for at in with_calls), default=0)
    if from_ms >= last + SECOND_MS:
        latest = format_duration_short(last)
        raise refused("from", format_duration_short(from_ms), f"at most {latest}, when the last call comes")
    end = last if to_ms is None else min(to_ms - 1, last)
    powers = not from_ms and any(crowded(course, end) for _, course in courses) if log is None else log
    outage_ms = scenario.outage_ms if scenario.success else None
    marks = edges(first, end, log=powers, outage_ms=outage_ms, from_ms=from_ms)
    drawn = [(label, *columns(course, marks)) for label, course in courses]
    lines = [LoadLine(label, tuple(peaks), tuple(means)) for label, peaks, means in drawn]
    return Load(scenario.jobs, tuple(edge * SECOND_MS for edge in marks), tuple(lines), powers, outage_ms)


def _calls(policy: Policy, scenario: Scenario) -> Wave:
    from anew.lab.simulation.record import Record
    from anew.lab.simulation.simulate import simulate

    record = Record.of(scenario)
    simulate(policy, scenario, max_calls=MAX_INSTANTS, record=record)
    return record.calls()
