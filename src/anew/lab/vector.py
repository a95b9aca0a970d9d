"""The waits of many jobs at once, equal to the millisecond to what `next_wait` decides for each. Needs NumPy.

Curves are evaluated once per retry, by the policy itself, and the arithmetic of every jitter is done in the same order
of the same operations, so the floats are the same. Where that cannot be had (`slices` uses tanh, which NumPy rounds
in its own way), the few waits so near to a whole millisecond that the last bits could matter are drawn again, one by
one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anew.backoff.chance import Draws
from anew.backoff.curves import CustomFailed
from anew.backoff.decide import fallback
from anew.backoff.even import Even, slide
from anew.backoff.jitter import Jitter, NoJitter, Nominal
from anew.backoff.kinds import CEILING_MS
from anew.backoff.policy import Policy
from anew.backoff.stateful import LAST_SLICE, Decorrelated, Slices, slices_unit
from anew.backoff.windows import UpTo, Windowed
from anew.lab import chance

Floats: TypeAlias = NDArray[np.float64]
Millis: TypeAlias = NDArray[np.int64]
Drawn: TypeAlias = "tuple[Floats, Floats | None]"
"""The waits of many jobs before they are held and cut, and what the jitter remembers of each."""


@dataclass(slots=True)
class HerdChance:
    """The chance of some jobs of a herd, given by their numbers, at one retry, by `anew.lab.chance`."""

    seed: int
    jobs: NDArray[np.uint64]
    retry: int
    phases: Floats | None = None
    """The jobs' numbers for life, where they are known already."""
    kind: chance.PhaseKind = "seq"

    def fresh(self) -> Floats:
        """Give a fresh number for each job: no jitter needs a second one."""
        return chance.numbers(self.seed, chance.WAIT, self.jobs, self.retry)

    def hashed(self) -> Floats:
        """Give the number of each job and this retry."""
        return chance.numbers(self.seed, chance.HASH, self.jobs, self.retry)

    def lifelong(self) -> Floats:
        """Give each job's number for life."""
        return chance.phases(self.kind, self.seed, self.jobs) if self.phases is None else self.phases


class Waits:
    """A policy's waits; what a retry's jitter depends on is calculated once and kept.

    Args:
        policy: The law. Limit, phases' end and deadline are the caller's business. A user's own function is asked once
            for all jobs.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._form = functools.cache(functools.partial(_form, policy))

    def one(self, retry: int, luck: HerdChance, carry: Floats | None = None) -> tuple[Millis, Floats | None]:
        """Give the wait before one retry for many jobs.

        Args:
            carry: What this gave as its second result at the retry before; None at the first. NaN: no carry.

        Returns:
            Whole milliseconds in [0, 365 d], one per job, and what the next retry's call needs.
        """
        wait, carry = self._form(retry)(luck, carry)
        # Clamp, then round down to whole milliseconds, as `next_wait` does.
        low, high = self.policy.floor_ms, self.policy.highest_ms
        np.minimum(wait, float(high), out=wait)
        np.maximum(wait, float(low), out=wait)
        if carry is not None:
            np.minimum(carry, float(high), out=carry)
        return wait.astype(np.int64), carry


Form: TypeAlias = Callable[[HerdChance, "Floats | None"], Drawn]
"""The arithmetic of one retry: from chance, and what is remembered of the retry before, to waits."""


def _form(policy: Policy, retry: int) -> Form:
    """Give the arithmetic of a retry; where the user's own function fails, with the curve that serves in its place."""
    try:
        nominal = policy.nominal(retry)
        k = retry if policy.curve is not None else policy.place(retry)[1]
        return _of_jitter(policy, policy.jitter, retry, k, nominal, policy.nominal)
    except CustomFailed:
        jitter = NoJitter() if isinstance(policy.jitter, UpTo) else policy.jitter
        curve = functools.partial(fallback, policy)
        return _of_jitter(policy, jitter, retry, retry, curve(retry), curve)


def _of_jitter(policy: Policy, jitter: Jitter, retry: int, k: int, nominal: float, curve: Nominal) -> Form:
    match jitter:
        case Windowed():
            low, high = jitter.ends(retry, k, nominal)
            return (
                functools.partial(_window, jitter, low, high) if high > low else functools.partial(_all, low)
            )
        case Even():
            return functools.partial(_even, jitter, *_even_row(retry, nominal, curve))
        case Decorrelated():
            return functools.partial(_decorrelated, jitter.times, nominal, _first(policy))
        case Slices():
            return functools.partial(_slices, policy, k, slices_unit(curve(1)))
    return functools.partial(_all, nominal)


def _first(policy: Policy) -> float:
    try:
        return policy.nominal(1)
    except CustomFailed:
        return fallback(policy, 1)


def _even_row(retry: int, nominal: float, curve: Nominal) -> tuple[float, float, float, float, bool]:
    before, after = curve(retry - 1) if retry > 1 else 0.0, curve(retry + 1)
    top = math.inf
    if before <= nominal <= after and before < after:
        top = math.nextafter(nominal + after / 2 if retry == 1 else (nominal + after) / 2, 0.0)
    return before, nominal, after, top, retry == 1


# ---- the arithmetic of each jitter on columns of numbers, in the order of operations of the jitter's own


def _all(wait: float, luck: HerdChance, carry: Floats | None) -> Drawn:
    return np.full(len(luck.jobs), float(wait)), None


def _window(jitter: Windowed, low: float, high: float, luck: HerdChance, carry: Floats | None) -> Drawn:
    match jitter.source:
        case "rng":
            wait = luck.fresh()
        case "job":
            wait = luck.lifelong().copy()
        case _:
            wait = luck.hashed()
    if jitter.faces is not None or jitter.step_ms is not None:
        faces = jitter.faces or max(1, int((high - low) // (jitter.step_ms or 1)))
        wait *= faces
        np.floor(wait, out=wait)
        np.minimum(wait, faces - 1.0, out=wait)
        if jitter.step_ms is not None:
            wait *= jitter.step_ms
        else:
            wait *= high - low
            wait /= faces
        wait += low
        return wait, None
    wait *= high - low
    if jitter.cut_ms is not None:
        wait //= jitter.cut_ms
        wait *= jitter.cut_ms
        wait += low
        return wait, None
    wait += low
    np.minimum(wait, math.nextafter(high, low), out=wait)
    return wait if jitter.redraw_ms is None else _redrawn(wait, low, high, float(jitter.redraw_ms)), None


def _redrawn(wait: Floats, low: float, high: float, longest: float) -> Floats:
    start = max(low, longest)
    if not high > start:
        return wait  # Nothing can reach so far.
    again = longest / 2 + (wait - start) / (high - start) * (longest / 2)
    np.minimum(again, math.nextafter(longest, 0.0), out=again)
    return np.where(wait >= longest, again, wait)


def _even(
    jitter: Even,
    before: float,
    nominal: float,
    after: float,
    top: float,
    first: bool,
    luck: HerdChance,
    carry: Floats | None,
) -> Drawn:
    x: Any = (luck.lifelong() - 0.5) * jitter.spread + 0.5
    wait: Any = slide(x, before, nominal, after, first=first)  # written for one number, and the same for many
    np.minimum(wait, top, out=wait)
    if jitter.dither:
        wait += wait * jitter.dither * (luck.hashed() - 0.5)
    return wait, None


def _decorrelated(
    times: float, nominal: float, first: float, luck: HerdChance, carry: Floats | None
) -> Drawn:
    known = np.full(len(luck.jobs), first) if carry is None else carry
    if not (known.min(initial=1.0) > 0 and known.max(initial=1.0) <= CEILING_MS):
        known = np.where((known > 0) & (known <= CEILING_MS), known, first)
    high = times * known
    wait = luck.fresh() * (high - nominal)
    wait += nominal
    # Hardly ever: rounding has reached the open end, or the window has no width and what was drawn is void.
    ended = wait >= high
    if ended.any():
        wait = np.where(ended, np.where(high > nominal, np.nextafter(high, nominal), nominal), wait)
    return wait, np.minimum(wait, CEILING_MS)


def _slices(policy: Policy, k: int, unit: float, luck: HerdChance, carry: Floats | None) -> Drawn:
    number = luck.fresh()
    if k > LAST_SLICE:
        return np.full(len(number), float(CEILING_MS) if unit else 0.0), number.copy()
    known = np.full(len(number), np.nan) if carry is None else carry
    before = np.where((known >= 0) & (known < 1), known, 0.5)
    start = _front(k - 2 + before) if k > 1 else np.zeros(len(number))
    end = _front(k - 1 + number)
    with np.errstate(over="ignore"):
        wait = np.maximum(end - start, 0.0) * unit
        # Each function is off by a few units in its last place at most; 2**-48 is 16 of them.
        doubt = (end + start) * unit * 2.0**-48
    near = wait <= policy.highest_ms + 1.0
    unsure = near & (np.abs(wait - np.rint(np.where(near, wait, 0.0))) <= doubt)
    for index in np.flatnonzero(unsure).tolist():
        draws, remembered = Draws(functools.partial(float, number[index])), float(known[index])
        wait[index] = policy.jitter.draw(k, k, policy.nominal(k), policy.nominal, draws, remembered).wait
    return wait, number.copy()


def _front(t: Floats) -> Floats:
    front: Floats = np.tanh(np.sqrt(4 * t))
    front *= np.exp2(t)
    return front
