"""Rules about jobs that fail together: how far the jitter keeps them apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from anew.backoff import CEILING_MS, Decorrelated, Even, Full, Slices
from anew.backoff.windows import Windowed
from anew.lab.laws.shapes import Mixture, Piece
from anew.lab.laws.wait import windowed
from anew.lab.lint.facts import Facts
from anew.lab.lint.finding import Context, Severity, listed, rule
from anew.units import HOUR_MS, MINUTE_MS, counted, format_duration, format_duration_about

MANY: Final = 10
"""From so many jobs on it matters that they come back together."""

CROWD: Final = 100
"""So many calls at the same instant are a blow, however small a part of the herd they are."""

_PILE: Final = 0.1
_THIN: Final = 0.01
_SHRINKS: Final = 0.2
_HALVED: Final = 0.75
_A_HAIR: Final = 1e-6
"""What a product of floats may lack: 3,000 jobs on 30 faces are 100 on each."""
_DOUBLING: Final = {"exponential": {"base": "1s"}}


@rule("no-jitter", Severity.WARNING, {"curve": _DOUBLING, "cap": "10m", "limit": 12})
def no_jitter(facts: Facts, context: Context) -> Iterator[str]:
    """Jobs that failed together come back together at every retry, and can bring down a service that has just recovered."""
    if context.jobs < MANY or not any(row.latest_ms for row in facts.rows):
        return
    if all(reach.latest == reach.earliest for reach in facts.reaches):
        yield f"{_jobs(context)} that fail together come back in the same instant at each retry; {_apart(facts)}"


def _apart(facts: Facts) -> str:
    """Say how to come by a jitter; there may be one that does nothing."""
    jitter = facts.policy.jitter
    if isinstance(jitter, Even) and not jitter.spread:
        return "leave the spread of even at its 1"
    if isinstance(jitter, Windowed) and jitter.since > len(facts.rows):
        return f"the jitter begins with retry {jitter.since:,} only: lower since"
    return "add a jitter (even)"


@rule("few-faces", Severity.WARNING, {"curve": _DOUBLING, "jitter": {"add": {"by": "1s", "faces": 4}}})
def few_faces(facts: Facts, context: Context) -> Iterator[str]:
    """When a wait can take only a few values, many jobs share each of them: a tenth of all jobs, or a hundred and more."""
    jitter = facts.policy.jitter
    found = max(_few(facts), key=lambda few: few[1], default=None)
    if found is None or not isinstance(jitter, Windowed):
        return
    faces, share, retry = found
    together = int(context.jobs * share + _A_HAIR)
    if together >= MANY and (together >= CROWD or together >= _PILE * context.jobs):
        name = "faces" if jitter.faces else "step" if jitter.step_ms else "cut"
        todo = f"without {name} there are as many as milliseconds"
        if not facts.wrote("jitter"):
            # The die is the preset's own: who wrote no word of it can leave none out.
            todo = "a jitter beside the preset, such as full or even, has as many as milliseconds"
        # Where a cut leaves a rest, the last value is rarer than the others.
        instant = "each instant" if math.isclose(share * faces, 1) else "an instant"
        yield (
            f"retry {retry} has {counted(faces, 'possible wait')}: of {_jobs(context)} that fail together some "
            f"{together:,} share {instant}; {todo}"
        )


def _few(facts: Facts) -> Iterator[tuple[int, float, int]]:
    """Give the waits that can take few values: how many, the share of the likeliest, and the retry.

    What floor or ceil holds is left to the rules about them: it is not the die's doing.
    """
    jitter, policy = facts.policy.jitter, facts.policy
    if not isinstance(jitter, Windowed):
        return
    for row, nominal, reach in zip(facts.rows, facts.nominals, facts.reaches, strict=True):
        low, high = jitter.ends(row.retry, policy.place(row.retry)[1], nominal)
        if high > low and policy.floor_ms <= reach.earliest and reach.latest <= policy.highest_ms:
            found = few_values(windowed(jitter, low, high))
            if found is not None:
                yield *found, row.retry


@rule("ceil-hides-jitter", Severity.WARNING, {"curve": _DOUBLING, "jitter": {"above": 0.5}, "ceil": "20s"})
def ceil_hides_jitter(facts: Facts, context: Context) -> Iterator[str]:
    """Waits above ceil all become exactly ceil, so those jobs come back together; cap limits the wait before the jitter instead."""
    ceil = facts.policy.ceil_ms
    if ceil is None or ceil == facts.policy.floor_ms:
        return
    shares = [1 - law.cdf(ceil - 1) for law in facts.laws]
    where = f"wait exactly ceil, {format_duration(ceil)}; {_no_ceil(facts)}"
    yield from _piles(facts, context, shares, where)


def _no_ceil(facts: Facts) -> str:
    jitter = facts.policy.jitter
    if isinstance(jitter, Decorrelated | Slices):
        return "use even with a cap"  # What they make of a wait passes every cap: without a ceil they have no end.
    return "use cap" if isinstance(jitter, Even) else "use cap, or even"


@rule("floor-hides-jitter", Severity.WARNING, {"curve": _DOUBLING, "jitter": "full", "floor": "5s"})
def floor_hides_jitter(facts: Facts, context: Context) -> Iterator[str]:
    """Waits below floor all become exactly floor, so those jobs come back together."""
    floor = facts.policy.floor_ms
    if floor in (0, facts.policy.ceil_ms):
        return
    shares = [law.cdf(floor) for law in facts.laws]
    where = f"wait exactly floor, {format_duration(floor)}; raise the curve instead"
    yield from _piles(facts, context, shares, where)


@rule("thin-jitter", Severity.INFO, {"curve": _DOUBLING, "jitter": {"add": "1s"}, "limit": 12})
def thin_jitter(facts: Facts, context: Context) -> Iterator[str]:
    """When the jitter is small compared with the wait, jobs that failed together still return in one burst."""
    jitter = facts.policy.jitter
    if context.jobs < MANY or not isinstance(jitter, Windowed) or jitter.source == "job":
        return
    widths = [facts.hold(reach.latest) - facts.hold(reach.earliest) for reach in facts.reaches]
    thin = [
        (row.retry, width, wait)
        for row, width, wait in zip(facts.rows, widths, facts.held, strict=True)
        if wait >= MINUTE_MS and 0 < width < _THIN * wait
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
                f"minute of the hour; {_escape(facts, wait)}"
            )


def _escape(facts: Facts, wait: int) -> str:
    policy = facts.policy
    jitter = policy.jitter
    if isinstance(jitter, Even) and not jitter.detune and wait == policy.effective_cap_ms:
        return "leave detune at its 1/18"
    if any(reach.latest > reach.earliest for reach in facts.reaches):
        if wait == policy.ceil_ms:
            remembers = isinstance(jitter, Decorrelated | Slices)
            return f"let the jitter act: {_no_ceil(facts) if remembers else 'use cap in place of ceil'}"
        if wait == policy.floor_ms:
            return "let the jitter act: lower floor"
    less = "wait a little less (57m for 1h)"
    return less if isinstance(jitter, Even) else f"{less}, or add a jitter"


@rule("decorrelated-without-ceil", Severity.WARNING, {"curve": {"constant": "1s"}, "jitter": "decorrelated"})
def decorrelated_without_ceil(facts: Facts, context: Context) -> Iterator[str]:
    """Decorrelated jitter multiplies the previous wait, so without a ceil the waits grow without bound."""
    jitter, rows = facts.policy.jitter, facts.rows
    if isinstance(jitter, Decorrelated) and facts.policy.ceil_ms is None and jitter.times > 1 and rows:
        latest = rows[-1].latest_ms
        if latest:
            yield f"there is no ceil: retry {rows[-1].retry} may wait {format_duration(latest)}; give the policy a ceil"


@rule("waits-shrink", Severity.INFO, {"curve": _DOUBLING, "jitter": "full", "cap": "1h"})
def waits_shrink(facts: Facts, context: Context) -> Iterator[str]:
    """When later waits are often shorter than earlier ones, the jitter cancels much of the curve's growth."""
    share, retry = max(_shrinking(facts), key=lambda found: found[0], default=(0.0, 0))
    if share >= _SHRINKS:
        yield (
            f"in up to {share * 100:.0f} % of cases (at retry {retry}) a wait is shorter than the one before, "
            "though the curve grows; even keeps each job's waits in order"
        )


def _shrinking(facts: Facts) -> Iterator[tuple[float, int]]:
    """Give for each pair of neighbours on a growing curve how often the later wait is the shorter, and its retry.

    Only where waits are independent. A job with one number for life keeps its place; what `decorrelated` and `slices`
    make of a wait hangs on the one before, and grows by itself, not by the curve.
    """
    jitter = facts.policy.jitter
    if not isinstance(jitter, Windowed) or jitter.source == "job":
        return
    pairs = zip(facts.held, facts.held[1:], facts.laws, facts.laws[1:], facts.rows[1:], strict=False)
    for before, after, first, second, row in pairs:
        if after > before and isinstance(first, Mixture) and isinstance(second, Mixture):
            yield round(is_shorter(second, first), 4), row.retry


@rule("full-halves-window", Severity.INFO, {"curve": _DOUBLING, "jitter": "full", "limit": 8})
def full_halves_window(facts: Facts, context: Context) -> Iterator[str]:
    """Full jitter waits half as long as the curve on average, so the same limit gives up in half the time."""
    policy = facts.policy
    if not isinstance(policy.jitter, Full) or policy.retries is None or len(facts.laws) < 2:
        return
    laws = facts.laws
    if policy.deadline_ms is not None and sum(facts.held) >= policy.deadline_ms:
        return  # The deadline gives up, not the limit, and shorter waits make it more retries.
    most = math.inf if policy.jitter.redraw_ms is None else policy.jitter.redraw_ms
    whole = math.fsum(min(wait, most) for wait in facts.held[: len(laws)])
    mean = math.fsum(law.mean_ms for law in laws)
    if mean > _HALVED * whole:
        return
    first = "the first " if len(laws) < policy.retries else ""
    yield (
        f"{first}{len(laws):,} retries take {format_duration_about(mean)} on average, not the "
        f"{format_duration_about(whole)} of the curve, and {_shortest(policy.jitter, policy.floor_ms)}; raise limit for "
        "the whole window, or use even"
    )


def _shortest(jitter: Full, floor_ms: int) -> str:
    if floor_ms:
        return f"a wait may be as short as floor, {format_duration(floor_ms)}"
    since = f" from retry {jitter.since} on" if jitter.since > 1 else ""
    return f"any wait{since} may be next to nothing"


def _piles(facts: Facts, context: Context, shares: list[float], where: str) -> Iterator[str]:
    piled = [
        (row.retry, share)
        for row, reach, share in zip(facts.rows, facts.reaches, shares, strict=False)
        if share >= _PILE and reach.latest > reach.earliest
    ]
    if context.jobs < MANY or not piled:
        return
    retries = [retry for retry, _ in piled]
    first, last = retries[0], retries[-1]
    when = f"at {'retries' if first < last else 'retry'} {listed(retries)}"
    if last - first == len(piled) - 1 and last == min(len(facts.rows), len(shares)):
        when = f"from retry {first} on"
    worst = max(share for _, share in piled)
    some = "all jobs" if worst > 0.995 else f"up to {worst * 100:.0f} % of the jobs"
    yield f"{when} {some} {where}"


def _jobs(context: Context) -> str:
    return f"{context.jobs:,} jobs"


# ---- chances that take two waits, or all the values of one: which is the shorter, and how many fall on one value


_NODES: Final = 128
"""Values that stand for a window, or for a die with more faces: two windows are off by a ten-thousandth at most."""


def is_shorter(one: Mixture, other: Mixture) -> float:
    """Give the chance that a wait is shorter than another one, both in whole milliseconds, independent of each other."""
    return math.fsum(
        piece.weight * math.fsum(one.below(math.floor(value)) for value in values) / len(values)
        for piece in other.pieces
        for values in [_values(piece)]
    )


def _values(piece: Piece) -> list[float]:
    if 0 < piece.faces <= _NODES:
        return [piece.low + face * piece.step for face in range(piece.faces)]
    return [piece.low + (node + 0.5) / _NODES * (piece.high - piece.low) for node in range(_NODES)]


def few_values(pieces: Iterable[Piece]) -> tuple[int, float] | None:
    """Give how many values there are and the share of the likeliest; None if they are as many as milliseconds."""
    found = [*pieces]
    # A die's values that are less than a millisecond apart fall together again where waits are cut.
    if any(piece.faces == 0 or (piece.faces > 1 and piece.step < 1) for piece in found):
        return None
    return sum(piece.faces for piece in found), max(piece.weight / piece.faces for piece in found)
