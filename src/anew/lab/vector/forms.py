"""The arithmetic of each jitter on columns of numbers, in the order of operations of the jitter's own. Needs NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anew.backoff.chance import Draws
from anew.backoff.even import Even
from anew.backoff.kinds import CEILING_MS
from anew.backoff.policy import Policy
from anew.backoff.stateful import LAST_SLICE, Decorrelated
from anew.backoff.windows import Windowed

Floats: TypeAlias = NDArray[np.float64]
Millis: TypeAlias = NDArray[np.int64]
Row: TypeAlias = "tuple[float, ...]"
Drawn: TypeAlias = "tuple[Floats, Floats | None]"


class Chance(Protocol):
    """What one retry of many jobs may use of chance; asked only for what the policy's jitter needs.

    ``len()`` gives the number of jobs. All numbers lie in [0, 1).
    """

    def __len__(self) -> int:
        """Give the number of jobs."""

    def fresh(self) -> Floats:
        """Give a fresh number for each job: what ``Draws.rng`` gives. A second call gives others."""

    def hashed(self) -> Floats:
        """Give for each job the number of this retry: what ``Draws.hashed`` gives."""

    def lifelong(self) -> Floats:
        """Give for each job the number that it keeps: what ``Draws.lifelong`` gives."""


def _none(policy: Policy, row: Row, chance: Chance, carry: Floats | None) -> Drawn:
    wait = np.empty(len(chance))
    wait[:] = row[0]
    return wait, None


def _number(policy: Policy, chance: Chance) -> Floats:
    assert isinstance(policy.jitter, Windowed)
    match policy.jitter.source:
        case "rng":
            return chance.fresh()
        case "job":
            return chance.lifelong()
    return chance.hashed()


def _window(policy: Policy, row: Row, chance: Chance, carry: Floats | None) -> Drawn:
    low, high, top, _, _ = row
    if low == high:
        return _none(policy, row, chance, carry)
    wait = _number(policy, chance) * (high - low)
    wait += low
    np.minimum(wait, top, out=wait)
    return wait, None


def _faces(policy: Policy, row: Row, chance: Chance, carry: Floats | None) -> Drawn:
    low, high, _, faces, step = row
    if low == high:
        return _none(policy, row, chance, carry)
    face = np.floor(_number(policy, chance) * faces)
    np.minimum(face, faces - 1.0, out=face)
    assert isinstance(policy.jitter, Windowed)
    if policy.jitter.step_ms is not None:
        face *= step
    else:
        face *= high - low
        face /= faces
    face += low
    return face, None


def _cut_down(policy: Policy, row: Row, chance: Chance, carry: Floats | None) -> Drawn:
    low, high = row[:2]
    if low == high:
        return _none(policy, row, chance, carry)
    assert isinstance(policy.jitter, Windowed)
    unit = float(policy.jitter.cut_ms or 1)
    wait = _number(policy, chance) * (high - low)
    wait //= unit
    wait *= unit
    wait += low
    return wait, None


def _redraw(policy: Policy, row: Row, chance: Chance, carry: Floats | None) -> Drawn:
    wait, _ = _window(policy, row, chance, carry)
    low, high = row[:2]
    assert isinstance(policy.jitter, Windowed)
    longest = float(policy.jitter.redraw_ms or 0)
    start = max(low, longest)
    if not high > start:
        # Nothing can reach so far; and a window without width draws nothing, not even once more.
        return wait, None
    again = longest / 2 + (wait - start) / (high - start) * (longest / 2)
    np.minimum(again, math.nextafter(longest, 0.0), out=again)
    return np.where(wait >= longest, again, wait), None


def _even(policy: Policy, row: Row, chance: Chance, carry: Floats | None) -> Drawn:
    jitter = policy.jitter
    assert isinstance(jitter, Even)
    before, nominal, after, top, first = row
    if jitter.spread:
        x = chance.lifelong() - 0.5
        x *= jitter.spread
        x += 0.5
    else:
        x = np.full(len(chance), 0.5)
    wait = _slide_first(x, nominal, after) if first else _slide(x, before, nominal, after)
    np.minimum(wait, top, out=wait)
    if jitter.dither:
        wait += wait * jitter.dither * (chance.hashed() - 0.5)
    return wait, None


def _slide_first(x: Floats, nominal: float, after: float) -> Floats:
    wait = 0.5 * x
    wait *= x
    wait *= after - nominal
    wait += (0.5 + x) * nominal
    return wait


def _slide(x: Floats, before: float, nominal: float, after: float) -> Floats:
    down = 1 - x
    down *= down
    down *= before - nominal
    up = x * x
    up *= after - nominal
    down += up
    down *= 0.5
    down += nominal
    return down


def _decorrelated(policy: Policy, row: Row, chance: Chance, carry: Floats | None) -> Drawn:
    assert isinstance(policy.jitter, Decorrelated)
    nominal, first = row
    known = np.full(len(chance), first) if carry is None else carry
    if not (known.min(initial=1.0) > 0 and known.max(initial=1.0) <= CEILING_MS):
        known = np.where((known > 0) & (known <= CEILING_MS), known, first)
    high = policy.jitter.times * known
    wait = chance.fresh() * (high - nominal)
    wait += nominal
    # Hardly ever: rounding has reached the open end, or the window has no width and what was drawn is void.
    ended = wait >= high
    if ended.any():
        wait = np.where(ended, np.where(high > nominal, np.nextafter(high, nominal), nominal), wait)
    return wait, np.minimum(wait, CEILING_MS)


def _slices(policy: Policy, row: Row, chance: Chance, carry: Floats | None) -> Drawn:
    k, unit = row
    number = chance.fresh()
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
        wait[index] = _slice(policy, int(k), float(number[index]), float(known[index]))
    return wait, number.copy()


def _slice(policy: Policy, k: int, number: float, carry: float) -> float:
    draws = Draws(lambda: number)
    return policy.jitter.draw(k, k, policy.nominal(k), policy.nominal, draws, carry).wait


def _front(t: Floats) -> Floats:
    front: Floats = np.tanh(np.sqrt(4 * t))
    front *= np.exp2(t)
    return front


FORMS: Final[dict[str, Callable[[Policy, Row, Chance, Floats | None], Drawn]]] = {
    "none": _none,
    "window": _window,
    "faces": _faces,
    "cut": _cut_down,
    "redraw": _redraw,
    "even": _even,
    "decorrelated": _decorrelated,
    "slices": _slices,
}
