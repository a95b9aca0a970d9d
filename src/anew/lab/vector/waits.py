"""The waits of many jobs at once, equal to the millisecond to what `next_wait` decides for each. Needs NumPy.

Curves are evaluated once per retry, by the policy itself, and the arithmetic of every jitter is done in the same order
of the same operations, so the floats are the same. Where that cannot be had (`slices` uses tanh, which NumPy rounds
in its own way), the few waits so near to a whole millisecond that the last bits could matter are drawn again, one by
one. A jitter that this module does not know is drawn one by one altogether: slower, never different.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from anew.backoff.curves import CustomFailed
from anew.backoff.decide import fallback
from anew.backoff.even import Even
from anew.backoff.fields import Piece
from anew.backoff.policy import Policy
from anew.backoff.stateful import Decorrelated, Slices, slices_unit
from anew.backoff.windows import UpTo, Windowed
from anew.lab.vector.forms import FORMS, Chance, Floats, Millis, Row
from anew.lab.vector.singly import one_by_one

__all__ = ["Chance", "Floats", "Millis", "Waits", "waits"]


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
