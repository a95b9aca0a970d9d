"""The law of the last retry: of the sum of all waits, or of what a deadline leaves of it.

Where one number decides a job's life, exactly; where waits owe each other nothing, value by value, on a grid where
values are too many, or by the central limit theorem beyond a few hundred; ``decorrelated`` as a chain; ``slices``
telescopes. What is left (dither, slices at a ceiling, memory and a deadline together) is walked for a thousand jobs side
by side.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from anew.backoff import Decorrelated, Even, NoJitter, Policy, Slices
from anew.backoff.windows import Windowed
from anew.lab.laws.chain_deviation import chain_deviation
from anew.lab.laws.chained import chained, chained_until, deviation
from anew.lab.laws.chains import front
from anew.lab.laws.deadlines import deadlined
from anew.lab.laws.independent import summed
from anew.lab.laws.pieces import Mixture, Piece
from anew.lab.laws.shapes import Function, Law, Table, tabled
from anew.lab.laws.sums import normal
from anew.lab.laws.totals import MANY, blocks, ends, moments
from anew.lab.laws.wait import law
from anew.lab.laws.walks import (
    MAX_STEPS,
    evenly,
    last_instant,
    monotone_parts,
    one_wait,
    side_by_side,
    walkable,
)

_PLAIN_STEPS: Final = 200_000
_LAST_SLICE: Final = 1_000
# The latest sum in means, from which on a walk does not meet those who make the deviation.
_LONG_TAIL: Final = 20
_WHOLE: Final = (0.0, math.nextafter(1.0, 0.0))


def last_law(policy: Policy) -> Law | None:
    """Give the law of the time from the first failure to the last retry, runs taking no time.

    Args:
        policy: A policy that asks no custom function and ends: by its limit, its phases or its deadline.

    Returns:
        The law; None where a deadline comes only after more waits than can be walked.
    """
    if policy.deadline_ms is None:
        return _law(policy)
    if policy.retries is not None:
        free = dataclasses.replace(policy, deadline_ms=None)
        if ends(free)[1] <= policy.deadline_ms:
            return _law(free)
    return _until_deadline(policy)


def _law(policy: Policy) -> Law:
    """Give the law of the sum of all waits, no deadline."""
    retries = policy.retries or 0
    jitter = policy.jitter
    match jitter:
        case Decorrelated():
            return _chain(policy, retries)
        case Slices():
            return _telescoped(policy, retries)
        case Even() if jitter.dither and retries <= MANY:
            return tabled([float(at) for at in side_by_side(policy, retries, retries)], cut=False)
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
        return chained_until(policy, retries, steps)
    if isinstance(jitter, Slices) or (isinstance(jitter, Even) and jitter.dither):
        return tabled([float(end) for end in side_by_side(policy, retries, steps)], cut=False)
    return _of_one_number(policy, retries, steps)


def _of_one_number(policy: Policy, retries: int, steps: int) -> Law:
    """Give the law where one number for life decides, or none."""
    if policy.deadline_ms is None and retries > MANY:
        found = list(blocks(policy, retries))

        def summed(number: float) -> float:
            return math.fsum(count * one_wait(policy, retry, number) for retry, count in found)

        return Function(summed, [_WHOLE], moments(policy, retries)[0], jumps=_jumps(policy))

    def value(number: float) -> float:
        return float(last_instant(policy, retries, number)[0])

    parts = monotone_parts(policy, retries, steps)
    if parts is None:
        return tabled([float(at) for at in evenly(policy, retries, steps)], cut=False)
    if len(parts) > 1:
        return _parted(value, parts, max(walkable(steps) // 4, 16))
    mean = None if policy.deadline_ms is not None else moments(policy, retries)[0]
    return Function(value, parts, mean, jumps=_jumps(policy))


def _jumps(policy: Policy) -> bool:
    """Tell whether the number for life throws dice."""
    jitter = policy.jitter
    return isinstance(jitter, Windowed) and bool(jitter.faces or jitter.step_ms or jitter.cut_ms)


def _parted(value: Callable[[float], float], parts: Sequence[tuple[float, float]], points: int) -> Law:
    """Give the law of a function that rises in each part and falls between them, straight between points."""
    pieces = []
    for low, high in parts:
        count = max(math.ceil(points * (high - low)), 2)
        marks = [value(low + (high - low) * index / count) for index in range(count + 1)]
        share = (high - low) / count
        pieces += [Piece(share, a, b) if b > a else Piece.atom(share, a) for a, b in pairwise(marks)]
    return Mixture(pieces)


# -- the two that remember


def _chain(policy: Policy, retries: int) -> Law:
    if retries == 1:
        found = law(policy, 1)
        assert found is not None
        return found
    mean = moments(policy, retries)[0]
    if retries <= MANY:
        joined = chained(policy, retries)
        joined.mean_ms = mean
        if ends(policy)[1] > _LONG_TAIL * mean:
            joined.sd_ms = chain_deviation(policy, retries)
        return joined
    # Long after it has settled, a chain adds the same variance with every retry.
    half, whole = (deviation(policy, waits) ** 2 for waits in (MANY // 2, MANY))
    variance = whole + (retries - MANY) * max(whole - half, 0.0) / (MANY // 2)
    return Table(normal(mean, math.sqrt(variance), *ends(policy)), cut=False)


def _telescoped(policy: Policy, retries: int) -> Law:
    """Give the law of the last instant of ``slices``: one draw of its curve, unless a clamp has come between."""
    unit, ceil = policy.nominal(1) / 1.4, policy.highest_ms
    longest = (front(retries) - front(max(retries - 2, 0))) * unit
    if not unit or (retries < _LAST_SLICE and longest <= ceil and not policy.floor_ms):
        return Function(
            lambda number: float(int(front(retries - 1 + number) * unit)) if unit else 0.0, [_WHOLE]
        )
    # From some retry on, the ceiling is all there is.
    varied = next((k for k in range(1, _LAST_SLICE) if front(k) * unit > ceil * 1e5), _LAST_SLICE)
    varied = min(varied, retries)
    rest = (retries - varied) * ceil
    return tabled([float(at + rest) for at in side_by_side(policy, varied, varied)], cut=False)
