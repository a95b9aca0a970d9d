"""The law of the last retry: of the sum of all waits, or of what a deadline leaves of it.

Where one number decides a job's life, exactly; where waits are independent, value by value, on a grid where
values are too many, or by the central limit theorem beyond a few hundred; ``decorrelated`` as a chain; ``slices``
telescopes. What is left (dither, slices at a ceiling, memory and a deadline together) is walked for a thousand jobs side
by side.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Final, NamedTuple

from anew.backoff import CEILING_MS, Decorrelated, Even, NoJitter, Policy, Slices
from anew.backoff.stateful import LAST_SLICE, front, slices_unit
from anew.backoff.windows import Windowed
from anew.lab.laws.pieces import Mixture, Piece
from anew.lab.laws.shapes import Function, Law
from anew.lab.laws.tabulated import Tabulated, tabled
from anew.lab.laws.wait import law as law_of
from anew.lab.sums.deadlines import deadlined
from anew.lab.sums.decorrelated import decorrelated, decorrelated_until
from anew.lab.sums.even_numbers import numbers
from anew.lab.sums.grid import normal
from anew.lab.sums.independent import summed
from anew.lab.sums.moments import MANY, blocks, ends, moments
from anew.lab.sums.walks import (
    MAX_STEPS,
    evenly,
    last_instant,
    monotone_parts,
    one_wait,
    side_by_side,
    walkable,
)

_PLAIN_STEPS: Final = 200_000
# Waits of ``decorrelated`` that are walked; beyond, a sum is normal unless the latest one is so many means away.
_WALKED: Final = 1_500
_LONG_TAIL: Final = 20
# Numbers for life that are asked where a retry takes long, and jobs that stand for these and for dither.
_KNOTS, _DITHERED = 128, 1_024
_WHOLE: Final = (0.0, math.nextafter(1.0, 0.0))


class Last(NamedTuple):
    """When the last retry comes.

    Args:
        law: The law of its time after the first failure.
        mean_ms: Its mean, which may be known more exactly than from the law.
        sd_ms: Its standard deviation, likewise.
        ends: Its earliest and latest value.
        walked: They are those of some thousand jobs that stand for all: a few of many more may lie beyond.
    """

    law: Law
    mean_ms: float
    sd_ms: float
    ends: tuple[int, int]
    walked: bool = False


def last(policy: Policy) -> Last | None:
    """Give the law of the time from the first failure to the last retry, runs taking no time.

    Args:
        policy: A policy that asks no custom function and ends: by its limit, its phases or its deadline.

    Returns:
        The law; None where it could only be told from more waits than can be walked.
    """
    deadline, free = policy.deadline_ms, dataclasses.replace(policy, deadline_ms=None)
    bounds = ends(free) if policy.retries is not None else None
    if bounds is not None and (deadline is None or bounds[1] <= deadline):
        found = _law(free)
        if found is None:
            return None
        walked = isinstance(policy.jitter, Decorrelated)
        mean, sd = moments(free, policy.retries or 0) if walked else (found.mean_ms, found.sd_ms)
        return Last(found, mean, sd, bounds)
    found = _until_deadline(policy)
    if found is None:
        return None
    walked = isinstance(found, Tabulated) or isinstance(policy.jitter, Even) or _is_of_jobs(policy.jitter)
    latest = (
        min((bounds or (0, CEILING_MS))[1], deadline or 0) if walked else min(found.latest_ms, deadline or 0)
    )
    # A law that was moved to its exact mean may reach a little beyond what can be.
    return Last(found, found.mean_ms, found.sd_ms, (max(found.earliest_ms, 0), latest), walked)


def _is_of_jobs(jitter: object) -> bool:
    return isinstance(jitter, Windowed) and jitter.source == "job"


def _law(policy: Policy) -> Law | None:
    """Give the law of the sum of all waits, no deadline."""
    retries = policy.retries or 0
    jitter = policy.jitter
    match jitter:
        case Decorrelated():
            return _decorrelated(policy, retries)
        case Slices():
            return _telescoped(policy, retries)
        case Even() if jitter.dither:
            return _dithered(policy, jitter, retries)
        case Windowed() if jitter.source != "job":
            return summed(policy, retries)
        case _:
            return _of_one_number(policy, retries, retries)


def _until_deadline(policy: Policy) -> Law | None:
    """Give the law of the last retry before the deadline."""
    jitter, retries = policy.jitter, policy.retries if policy.retries is not None else MAX_STEPS + 1
    if isinstance(jitter, Windowed) and jitter.source != "job":
        return deadlined(policy, retries)
    # The lowest numbers leave room for the most retries.
    most = _PLAIN_STEPS if isinstance(jitter, NoJitter) else MAX_STEPS
    at, steps = last_instant(policy, most + 1 if policy.retries is None else min(retries, most + 1), 0.0)
    if steps > most:
        return None
    if isinstance(jitter, NoJitter):
        return Mixture([Piece.atom(1.0, float(at))])
    if isinstance(jitter, Decorrelated):
        return decorrelated_until(policy, retries)
    if isinstance(jitter, Slices) or (isinstance(jitter, Even) and jitter.dither):
        return tabled([float(end) for end in side_by_side(policy, retries, steps)], cut=False)
    return _of_one_number(policy, retries, steps)


def _of_one_number(policy: Policy, retries: int, steps: int) -> Law:
    """Give the law where one number for life decides, or none."""
    if policy.deadline_ms is None and retries > MANY:
        found = list(blocks(policy, retries))

        def summed(number: float) -> float:
            return math.fsum(count * one_wait(policy, retry, number) for retry, count in found)

        if _falls(policy):
            return tabled(sorted(summed((index + 0.5) / _KNOTS) for index in range(_KNOTS)), cut=False)
        return Function(summed, [_WHOLE], moments(policy, retries)[0], jumps=_jumps(policy))

    def value(number: float) -> float:
        return float(last_instant(policy, retries, number)[0])

    parts = [_WHOLE] if _rises(policy, retries) else monotone_parts(policy, retries, steps)
    if parts is None:
        return tabled([float(at) for at in evenly(policy, retries, steps)], cut=False)
    if len(parts) > 1:
        return _parted(value, parts, max(walkable(steps) // 4, 16))
    mean = None if policy.deadline_ms is not None else moments(policy, retries)[0]
    return Function(value, parts, mean, jumps=_jumps(policy))


def _rises(policy: Policy, retries: int) -> bool:
    """Tell whether each wait of ``even`` rises with the number, and so their sum: where the curve never falls it does."""
    if not isinstance(policy.jitter, Even) or policy.deadline_ms is not None:
        return False
    return all(a <= b for a, b in pairwise(policy.nominal(retry) for retry in range(1, retries + 2)))


def _jumps(policy: Policy) -> bool:
    """Tell whether the number for life throws dice."""
    jitter = policy.jitter
    return isinstance(jitter, Windowed) and bool(jitter.faces or jitter.step_ms or jitter.cut_ms)


def _falls(policy: Policy) -> bool:
    """Tell whether a higher number for life may mean shorter waits: it is drawn again, for one in between."""
    return isinstance(policy.jitter, Windowed) and policy.jitter.redraw_ms is not None


def _parted(value: Callable[[float], float], parts: Sequence[tuple[float, float]], points: int) -> Law:
    """Give the law of a function that rises in each part and falls between them, straight between points."""
    pieces = []
    for low, high in parts:
        count = max(math.ceil(points * (high - low)), 2)
        marks = [value(low + (high - low) * index / count) for index in range(count + 1)]
        share = (high - low) / count
        pieces += [Piece(share, a, b) if b > a else Piece.atom(share, a) for a, b in pairwise(marks)]
    return Mixture(pieces)


def _dithered(policy: Policy, jitter: Even, retries: int) -> Law:
    """Give the law of ``even`` with dither: walked, or, of very many waits, without it and then normally scattered."""
    if retries <= MANY:
        return tabled([float(at) for at in side_by_side(policy, retries, retries)], cut=False)
    plain = dataclasses.replace(policy, jitter=dataclasses.replace(jitter, dither=0.0))
    without = _of_one_number(plain, retries, retries)
    ends = [float(without.percentile(100 * index / _KNOTS)) for index in range(_KNOTS + 1)]
    waits = ((count, one_wait(plain, retry, 0.5)) for retry, count in blocks(plain, retries))
    # Each wait is scattered evenly over this share of itself.
    sd = jitter.dither * math.sqrt(math.fsum(count * wait * wait for count, wait in waits) / 12)
    normal_law, scattered = NormalDist(), []
    for index, number in enumerate(numbers(1, _DITHERED)):
        knot = index * _KNOTS // _DITHERED
        part = index * _KNOTS / _DITHERED - knot
        scattered.append(ends[knot] + part * (ends[knot + 1] - ends[knot]) + sd * normal_law.inv_cdf(number))
    return tabled(sorted(scattered), cut=False)


# -- the two that remember


def _decorrelated(policy: Policy, retries: int) -> Law | None:
    """Give the law of a sum of ``decorrelated`` waits; None where they are too many and not as good as normal."""
    if retries == 1:
        return law_of(policy, 1)
    if retries <= _WALKED:
        return decorrelated(policy, retries)
    if len({policy.nominal(retry) for retry, _ in blocks(policy, retries)}) > MANY:
        return None
    mean, sd = moments(policy, retries)
    earliest, latest = ends(policy)
    if mean - 4 * sd < earliest or latest > _LONG_TAIL * mean:
        return None
    return Tabulated(normal(mean, sd, earliest, latest), cut=False)


def _telescoped(policy: Policy, retries: int) -> Law:
    """Give the law of the last instant of ``slices``: one draw of its curve, unless a clamp has come between."""
    unit, ceil = slices_unit(policy.nominal(1)), policy.highest_ms
    longest = (front(retries) - front(max(retries - 2, 0))) * unit
    if not unit or (retries < LAST_SLICE and longest <= ceil and not policy.floor_ms):
        return Function(
            lambda number: float(int(front(retries - 1 + number) * unit)) if unit else 0.0, [_WHOLE]
        )
    # From some retry on, the ceiling is all there is.
    varied = next((k for k in range(1, LAST_SLICE) if front(k) * unit > ceil * 1e5), LAST_SLICE)
    varied = min(varied, retries)
    rest = (retries - varied) * ceil
    return tabled([float(at + rest) for at in side_by_side(policy, varied, varied)], cut=False)
