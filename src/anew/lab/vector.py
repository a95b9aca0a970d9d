"""The waits of many jobs at once, equal to the millisecond to what `next_wait` decides for each. Needs NumPy.

Curves are evaluated once per retry, by the policy itself, and the arithmetic of every jitter is done in the same order
of the same operations, so the floats are the same. Where that cannot be had (`slices` uses tanh, which NumPy rounds
in its own way), the few waits so near to a whole millisecond that the last bits could matter are drawn again, one by
one. A jitter that this module does not know is drawn one by one altogether: slower, never different.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anew.backoff.chance import Draws
from anew.backoff.curves import CustomFailed
from anew.backoff.decide import Exhausted, Previous, fallback, next_wait
from anew.backoff.even import Even
from anew.backoff.fields import Piece
from anew.backoff.kinds import CEILING_MS
from anew.backoff.policy import Policy
from anew.backoff.stateful import LAST_SLICE, Decorrelated, Slices, slices_unit
from anew.backoff.windows import UpTo, Windowed

__all__ = ["Chance", "Floats", "Millis", "Waits", "waits"]


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


def waits(
    policy: Policy, retry: int, chance: Chance, carry: Floats | None = None
) -> tuple[Millis, Floats | None]:
    """Give the wait before one retry for many jobs. Limit, phases' end and deadline are the caller's business.

    Args:
        policy: The law. A user's own function is asked once for all jobs.
        retry: Which retry, 1 = first, the same for all jobs.
        chance: The jobs' chance.
        carry: What this gave as its second result at the retry before; None at the first. NaN: no carry.

    Returns:
        Whole milliseconds in [0, 365 d], one per job, and what the next retry's call needs.
    """
    return Waits(policy).one(retry, chance, carry)


class Waits:
    """A policy's waits, its rows (what a retry's jitter depends on) computed once and kept.

    Args:
        policy: The law.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._form = FORMS.get(_kind(policy))
        self._rows: dict[int, Row | None] = {}

    def one(self, retry: int, chance: Chance, carry: Floats | None = None) -> tuple[Millis, Floats | None]:
        """Give the waits of many jobs at the same retry; see `waits`."""
        row = self._row(retry)
        if row is None or self._form is None:
            return one_by_one(self.policy, retry, chance, carry)
        return self._cut(*self._form(self.policy, row, chance, carry))

    def _row(self, retry: int) -> Row | None:
        if self._form is None:
            return None
        if retry not in self._rows:
            self._rows[retry] = _row(self.policy, retry)
        return self._rows[retry]

    def _cut(self, wait: Floats, carry: Floats | None) -> tuple[Millis, Floats | None]:
        """Clamp, then round down to whole milliseconds, as `next_wait` does."""
        low, high = self.policy.floor_ms, self.policy.highest_ms
        np.minimum(wait, float(high), out=wait)
        np.maximum(wait, float(low), out=wait)
        if carry is not None:
            np.minimum(carry, float(high), out=carry)
        return wait.astype(np.int64), carry


def _kind(policy: Policy) -> str:
    """Name the arithmetic of a policy's jitter."""
    jitter = policy.jitter
    if not isinstance(jitter, Windowed):
        return type(jitter).name if isinstance(jitter, Piece) else ""
    if jitter.faces is not None or jitter.step_ms is not None:
        return "faces"
    return "cut" if jitter.cut_ms is not None else "redraw" if jitter.redraw_ms is not None else "window"


def _row(policy: Policy, retry: int) -> Row | None:
    """Give what the jitter of one retry depends on; None if jobs must be asked one by one."""
    try:
        nominal = policy.nominal(retry)
        k = retry if policy.curve is not None else policy.place(retry)[1]
        return _numbers(policy, retry, k, nominal, policy.nominal)
    except CustomFailed:
        if isinstance(policy.jitter, Decorrelated):
            # Whether the function's first wait matters depends on what each job carries.
            return None
    nominal = fallback(policy, retry)
    if isinstance(policy.jitter, UpTo):
        return (nominal, nominal, nominal, 1.0, 0.0)
    return _numbers(policy, retry, retry, nominal, lambda other: fallback(policy, other))


def _numbers(policy: Policy, retry: int, k: int, nominal: float, curve: Callable[[int], float]) -> Row:
    jitter = policy.jitter
    match jitter:
        case Windowed():
            return _window_row(jitter, *jitter.ends(retry, k, nominal))
        case Even():
            return _even_row(retry, nominal, curve)
        case Decorrelated():
            return (nominal, curve(1))
        case Slices():
            return (float(k), slices_unit(curve(1)))
    return (nominal,)


def _window_row(jitter: Windowed, low: float, high: float) -> Row:
    """Give low, high, the highest value below high, and for a die its faces and their distance (0: any)."""
    if not high > low:
        return (low, low, low, 1.0, 0.0)
    faces, step = 1.0, 0.0
    if jitter.step_ms is not None:
        step = float(jitter.step_ms)
        faces = float(max(1, int((high - low) // jitter.step_ms)))
    elif jitter.faces is not None:
        faces = float(jitter.faces)
    return (low, high, math.nextafter(high, low), faces, step)


def _even_row(retry: int, nominal: float, curve: Callable[[int], float]) -> Row:
    before, after = curve(retry - 1) if retry > 1 else 0.0, curve(retry + 1)
    top = math.inf
    if before <= nominal <= after and before < after:
        top = math.nextafter(nominal + after / 2 if retry == 1 else (nominal + after) / 2, 0.0)
    return (before, nominal, after, top, float(retry == 1))


# ---- the arithmetic of each jitter on columns of numbers, in the order of operations of the jitter's own


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


# ---- the waits of many jobs, decided one by one: for jitters of which no arithmetic on columns is known. Needs NumPy


class _Cells(Draws, frozen=True, kw_only=True):
    """One job's draws out of the columns of all."""

    cell: Callable[[str], float]

    def lifelong(self) -> float:
        """Give the number that this job keeps."""
        return self.cell("lifelong")

    def hashed(self, retry: int) -> float:
        """Give the number of this job and this retry."""
        return self.cell("hashed")


class _Columns:
    """Columns of chance, fetched when the first job asks."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._fresh: list[list[float]] = []
        self._others: dict[str, list[float]] = {}

    def of(self, index: int) -> _Cells:
        """Give the draws of one job."""
        drawn = iter(range(2**31))
        return _Cells(
            rng=lambda: self._fresh_column(next(drawn))[index], cell=lambda name: self._column(name)[index]
        )

    def _fresh_column(self, number: int) -> list[float]:
        while len(self._fresh) <= number:
            self._fresh.append(self._chance.fresh().tolist())
        return self._fresh[number]

    def _column(self, name: str) -> list[float]:
        if name not in self._others:
            column = self._chance.lifelong() if name == "lifelong" else self._chance.hashed()
            self._others[name] = column.tolist()
        return self._others[name]


def one_by_one(
    policy: Policy, retry: int, chance: Chance, carry: Floats | None
) -> tuple[Millis, Floats | None]:
    """Ask `next_wait` about each job; arguments and results as of `anew.lab.vector.waits`."""
    endless = replace(policy, deadline_ms=None)
    columns = _Columns(chance)
    known = [math.nan] * len(chance) if carry is None else carry.tolist()
    given, kept = [], []
    for index, before in enumerate(known):
        previous = None if math.isnan(before) else Previous(before)
        wait = next_wait(endless, retry, columns.of(index), previous=previous, beyond_limit=True)
        assert not isinstance(wait, Exhausted)
        given.append(wait.wait_ms)
        kept.append(math.nan if wait.carry is None else wait.carry)
    return np.array(given, dtype=np.int64), np.array(kept) if not all(math.isnan(x) for x in kept) else None
