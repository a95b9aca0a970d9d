"""Rules about jobs that fail together: how far the jitter keeps them apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from anew.backoff import CEILING_MS, Decorrelated, Even, Full
from anew.backoff.windows import Windowed
from anew.lab.lint.facts import Facts
from anew.lab.lint.finding import Context, Severity, rule
from anew.units import HOUR_MS, MINUTE_MS, counted, format_duration

MANY: Final = 10
"""From so many jobs on it matters that they come back together."""

CROWD: Final = 100
"""So many calls at the same instant are a blow, however small a part of the herd they are."""

_PILE: Final = 0.1
_THIN: Final = 0.01
_SHRINKS: Final = 0.2
_DOUBLING: Final = {"exponential": {"base": "1s"}}


@rule("no-jitter", Severity.WARNING, {"curve": _DOUBLING, "cap": "10m", "limit": 12})
def no_jitter(facts: Facts, context: Context) -> Iterator[str]:
    """Jobs that failed together come back together at every retry, and can bring down a service that has just recovered."""
    if context.jobs < MANY or not any(facts.nominals):
        return
    if all(reach.latest == reach.earliest for reach in facts.reaches):
        yield f"{_jobs(context)} that fail together come back in the same instant at each retry; add a jitter (even)"


@rule("few-faces", Severity.WARNING, {"curve": _DOUBLING, "jitter": {"add": {"by": "1s", "faces": 4}}})
def few_faces(facts: Facts, context: Context) -> Iterator[str]:
    """When a wait can take only a few values, many jobs share each of them: a tenth of all jobs, or a hundred and more."""
    jitter, policy = facts.policy.jitter, facts.policy
    if not isinstance(jitter, Windowed):
        return
    unit = jitter.step_ms or jitter.cut_ms
    few = []
    for row, nominal in zip(facts.rows, facts.nominals, strict=True):
        low, high = jitter.ends(row.retry, policy.place(row.retry)[1], nominal)
        faces = jitter.faces or (max(1, int((high - low) // unit)) if unit else None)
        if high > low and faces is not None:
            few.append((faces, row.retry))
    if not few:
        return
    faces, retry = min(few)
    together = context.jobs // faces
    if together >= MANY and (together >= CROWD or together >= _PILE * context.jobs):
        name = "faces" if jitter.faces else "step" if jitter.step_ms else "cut"
        todo = f"without {name} there are as many as milliseconds"
        if not facts.wrote("jitter"):
            # The die is the preset's own: who wrote no word of it can leave none out.
            todo = "a jitter beside the preset, such as full or even, has as many as milliseconds"
        yield (
            f"retry {retry} has {counted(faces, 'possible wait')}: of {_jobs(context)} that fail together some "
            f"{together:,} share each instant; {todo}"
        )


@rule("ceil-hides-jitter", Severity.WARNING, {"curve": _DOUBLING, "jitter": {"above": 0.5}, "ceil": "20s"})
def ceil_hides_jitter(facts: Facts, context: Context) -> Iterator[str]:
    """Waits above ceil all become exactly ceil, so those jobs come back together; cap limits the wait before the jitter instead."""
    ceil = facts.policy.ceil_ms
    if ceil is None or ceil == facts.policy.floor_ms:
        return
    shares = [1 - law.cdf(ceil - 1) for law in facts.laws]
    yield from _piles(facts, context, shares, f"wait exactly ceil, {format_duration(ceil)}; use cap, or even")


@rule("floor-hides-jitter", Severity.WARNING, {"curve": _DOUBLING, "jitter": "full", "floor": "5s"})
def floor_hides_jitter(facts: Facts, context: Context) -> Iterator[str]:
    """Waits below floor all become exactly floor, so those jobs come back together."""
    floor = facts.policy.floor_ms
    if floor in (0, facts.policy.ceil_ms):
        return
    shares = [law.cdf(floor) for law in facts.laws]
    yield from _piles(
        facts, context, shares, f"wait exactly floor, {format_duration(floor)}; raise the curve instead"
    )


@rule("thin-jitter", Severity.INFO, {"curve": _DOUBLING, "jitter": {"add": "1s"}, "limit": 12})
def thin_jitter(facts: Facts, context: Context) -> Iterator[str]:
    """When the jitter is small compared with the wait, jobs that failed together still return in one burst."""
    jitter = facts.policy.jitter
    if context.jobs < MANY or not isinstance(jitter, Windowed) or jitter.source == "job":
        return
    thin = [
        (row.retry, reach.latest - reach.earliest, nominal)
        for row, reach, nominal in zip(facts.rows, facts.reaches, facts.nominals, strict=True)
        if nominal >= MINUTE_MS and 0 < reach.latest - reach.earliest < _THIN * nominal
    ]
    if thin:
        retry, width, wait = thin[-1]
        yield (
            f"retry {retry} spreads {_jobs(context)} over {format_duration(int(width))} of a wait of "
            f"{format_duration(int(wait))}; even spreads them over all of it"
        )


@rule("resonance", Severity.WARNING, {"curve": _DOUBLING, "cap": "1h", "jitter": {"even": {"detune": 0}}})
def resonance(facts: Facts, context: Context) -> Iterator[str]:
    """Waits of whole hours bring a job back at the same minute of the hour each time, which may be just when a backup runs."""
    fixed = [row.earliest_ms for row in facts.rows if row.earliest_ms == row.latest_ms]
    for wait in sorted({ms for ms in fixed if ms}):
        if wait % HOUR_MS == 0 and wait < CEILING_MS and fixed.count(wait) >= 3:
            yield (
                f"{fixed.count(wait)} retries wait exactly {format_duration(wait)}, so a job comes back at the same "
                f"minute of the hour; {_escape(facts)}"
            )


def _escape(facts: Facts) -> str:
    jitter = facts.policy.jitter
    if isinstance(jitter, Even) and facts.policy.cap_ms is not None:
        return "leave detune at its 1/18"
    if isinstance(jitter, Even):
        return "wait a little less (57m for 1h)"
    if any(reach.latest > reach.earliest for reach in facts.reaches):
        return "let the jitter act: use cap in place of ceil"
    return "wait a little less (57m for 1h), or add a jitter"


@rule("decorrelated-without-ceil", Severity.WARNING, {"curve": {"constant": "1s"}, "jitter": "decorrelated"})
def decorrelated_without_ceil(facts: Facts, context: Context) -> Iterator[str]:
    """Decorrelated jitter multiplies the previous wait, so without a ceil the waits grow without bound."""
    jitter, rows = facts.policy.jitter, facts.rows
    if isinstance(jitter, Decorrelated) and facts.policy.ceil_ms is None and jitter.times > 1 and rows:
        latest = format_duration(rows[-1].latest_ms or 0)
        yield f"there is no ceil: retry {rows[-1].retry} may wait {latest}; give the policy a ceil"


@rule("waits-shrink", Severity.INFO, {"curve": _DOUBLING, "jitter": "full", "cap": "1h"})
def waits_shrink(facts: Facts, context: Context) -> Iterator[str]:
    """When later waits are often shorter than earlier ones, the jitter cancels much of the curve's growth."""
    jitter = facts.policy.jitter
    share, retry = 0.0, 0
    if isinstance(jitter, Decorrelated):
        share, retry = (1 / jitter.times if jitter.times > 1 else 0.0), 2
    elif isinstance(jitter, Windowed) and jitter.source != "job":
        share, retry = max(_shrinking(facts), key=lambda found: found[0], default=(0.0, 0))
    if share >= _SHRINKS and len(facts.rows) > 1:
        yield (
            f"in up to {share * 100:.0f} % of cases (at retry {retry}) a wait is shorter than the one before, "
            "though the curve grows; even keeps each job's waits in order"
        )


def _shrinking(facts: Facts) -> Iterator[tuple[float, int]]:
    """Give for each pair of neighbours on a growing curve how often the later wait is the shorter, and its retry."""
    pairs = zip(
        facts.nominals, facts.nominals[1:], facts.reaches, facts.reaches[1:], facts.rows[1:], strict=False
    )
    for before, after, first, second, row in pairs:
        if after > before:
            share = _below(second.earliest, second.latest, first.earliest, first.latest)
            yield round(share, 6), row.retry


def _below(low: float, high: float, other_low: float, other_high: float) -> float:
    """Give the chance that a number drawn evenly in [low, high) is below one drawn in [other_low, other_high)."""
    if not (high > low and other_high > other_low):
        return float(low < other_low) if high <= other_low else 0.0
    # P(X < y) is 0 below low, 1 above high and a straight line between: its mean over y.
    first, last = max(other_low, low), min(other_high, high)
    rising = (last - first) * ((first + last) / 2 - low) / (high - low) if last > first else 0.0
    return (rising + max(0.0, other_high - max(high, other_low))) / (other_high - other_low)


@rule("full-halves-window", Severity.INFO, {"curve": _DOUBLING, "jitter": "full", "limit": 8})
def full_halves_window(facts: Facts, context: Context) -> Iterator[str]:
    """Full jitter waits half as long as the curve on average, so the same limit gives up in half the time."""
    if isinstance(facts.policy.jitter, Full) and len(facts.rows) > 1:
        whole = int(sum(facts.nominals))
        yield (
            f"{len(facts.rows):,} retries take {format_duration(whole // 2)} on average, not the "
            f"{format_duration(whole)} of the curve, and any wait may be next to nothing; raise limit for the whole "
            "window, or use even"
        )


def _piles(facts: Facts, context: Context, shares: list[float], where: str) -> Iterator[str]:
    piled = [
        (row.retry, share)
        for row, reach, share in zip(facts.rows, facts.reaches, shares, strict=False)
        if share >= _PILE and reach.latest > reach.earliest
    ]
    if context.jobs < MANY or not piled:
        return
    first, last = piled[0][0], piled[-1][0]
    when = f"at retries {first} to {last}" if first < last else f"at retry {first}"
    if last == min(len(facts.rows), len(shares)):
        when = f"from retry {first} on"
    worst = max(share for _, share in piled)
    some = "all jobs" if worst > 0.995 else f"up to {worst * 100:.0f} % of the jobs"
    yield f"{when} {some} {where}"


def _jobs(context: Context) -> str:
    return f"{context.jobs:,} jobs"
