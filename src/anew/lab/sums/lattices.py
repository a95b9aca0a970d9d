"""Sums of waits that take single values: exact, share by share, as long as the values are not too many.

A sum of such waits lies on the lattice of their common step. Held as a list over that lattice, adding a die is a running
sum, however many faces it has; where the lattice is too fine for that and the values are few, they are held by name.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from anew.lab.sums.splits import Run, Split

POINTS: Final = 20_000
"""The most points of a lattice on which a sum is held, and the most sums held by name."""

EACH: Final = 3_600
"""Points that may be written for each wait on average: what a wait costs on the grid that takes over from there."""

# So many may be written in any case: a twentieth of a second's worth.
_ALWAYS: Final = 1_000_000
# A value by name takes twice as long as one of a list.
_BY_NAME: Final = 2
_NOTHING: Final = 1e-15
_ALL: Final = 2**31


class LatticeSum:
    """The shares of a sum of waits, value by value.

    Args:
        step: All values lie whole steps above the lowest: shares are held in a list. 0: they are held by name.
        start: The sum to begin with.
        most: No sum is higher; what would be is lost.
    """

    def __init__(self, step: int, start: int = 0, most: float = math.inf) -> None:
        self._step, self._most = step, most
        self._origin = start
        self._shares = [1.0]
        self._named = {start: 1.0}

    @property
    def share(self) -> float:
        """Give the share of all sums that are held."""
        return sum(self._shares if self._step else self._named.values())

    def add(self, runs: Sequence[Run]) -> None:
        """Add one wait; where its runs are not all of it, the shares grow less."""
        if not runs:
            self._shares, self._named = [], {}
        elif self._step and self._shares:
            self._spread(runs)
        elif not self._step:
            self._name(runs)

    def _spread(self, runs: Sequence[Run]) -> None:
        step, shares = self._step, self._shares
        low, high = min(run.start for run in runs), max(run.end for run in runs)
        total: list[float] = []
        size = len(shares) + (high - low) // step
        for run in sorted(runs, key=lambda run: -run.faces):
            moved = _diced(shares, run.step // step, run.faces, run.share)
            start = (run.start - low) // step
            if not total:
                total = [0.0] * start + moved + [0.0] * (size - start - len(moved))
                continue
            end = start + len(moved)
            total[start:end] = [a + b for a, b in zip(total[start:end], moved, strict=True)]
        self._origin += low
        if self._origin + (size - 1) * step > self._most:
            total = total[: max(int((self._most - self._origin) // step) + 1, 0)]
        self._shares = total

    def _name(self, runs: Sequence[Run]) -> None:
        total: dict[int, float] = {}
        for run in runs:
            for by in range(run.start, run.start + run.faces * max(run.step, 1), max(run.step, 1)):
                for value, share in self._named.items():
                    total[value + by] = total.get(value + by, 0.0) + share * run.share
        most = self._most
        self._named = {value: share for value, share in total.items() if value <= most}

    def items(self, above: float = -1) -> list[tuple[int, float]]:
        """Give the values with their shares, in order; those of no account are left out.

        Args:
            above: Only values above this one.
        """
        if not self._step:
            return sorted(item for item in self._named.items() if item[1] > _NOTHING and item[0] > above)
        origin, step, shares = self._origin, self._step, self._shares
        first = max(int((above - origin) // step) + 1, 0)
        values = range(origin + first * step, origin + step * len(shares), step)
        return [item for item in zip(values, shares[first:], strict=True) if item[1] > _NOTHING]

    def lost(self, runs: Sequence[Run], end: int) -> list[tuple[int, float]]:
        """Give the values that a next wait would carry beyond an end, with the shares for which it would."""
        late = self.items(above=end - max((run.end for run in runs), default=0))
        found = [0.0] * len(late)
        for share, start, step, faces in runs:
            # The highest face is so much above what is left; each step of that is a face that does not fit.
            over, each = start + (faces - 1) * step - end, step or 1
            counts = ((value + over + each - 1) // each for value, _ in late)
            found = [
                lost + share * (0 if count < 0 else faces if count > faces else count)
                for lost, count in zip(found, counts, strict=True)
            ]
        return [(value, part * lost) for (value, part), lost in zip(late, found, strict=True)]


def _diced(shares: list[float], stride: int, faces: int, share: float) -> list[float]:
    """Give the shares after adding a die: for each point, a sum over as many points a stride apart."""
    if faces == 1:
        return [share * old for old in shares]
    if stride == 1:
        sums = list(accumulate(map(share.__mul__, shares)))
        upper = sums + sums[-1:] * (faces - 1)
        return list(map(operator.sub, upper, [0.0] * faces + sums))
    moved = [0.0] * (len(shares) + stride * (faces - 1) if shares else 0)
    for first in range(min(stride, len(shares))):
        moved[first::stride] = _diced(shares[first::stride], 1, faces, share)
    return moved


def affordable(waits: Iterable[Split], most: float = math.inf) -> tuple[int, int]:
    """Tell how many waits can be added value by value before that takes too long.

    Args:
        waits: The waits; one without any single value ends a sum of single values, and costs nothing.
        most: No sum is higher.

    Returns:
        How many, from the first on, and the step to give to `LatticeSum`.
    """
    origin = step = width = written = runs_written = named = 0
    alike: dict[int, int] = {}
    others, names = 1, 1
    best = (0, 0)
    for index, (runs, _, _) in enumerate(waits, 1):
        if not runs:
            return (_ALL, best[1])
        low, values = min(run.start for run in runs), sum(run.faces for run in runs)
        step = math.gcd(step, *(run.start - low for run in runs), *(run.step for run in runs))
        origin += low
        span = max(run.end for run in runs) - low
        width += span
        held = max(min(width, most - origin), 0)
        written += int(min(width, held + span)) * len(runs)
        runs_written += len(runs)
        points = held // step + 1 if step else 1
        allowed = max(EACH * index, _ALWAYS)
        listed = points <= POINTS and written <= (allowed - runs_written) * step
        named += names * values
        # Dice with one step make few different sums, whatever their number.
        if len(runs) == 1:
            alike[runs[0].step] = alike.get(runs[0].step, 1) + values - 1
        else:
            others *= values
        names = min(others * math.prod(alike.values()), int(points))
        if listed or step == 0:
            best = (index, max(step, 1))
        elif names <= POINTS and _BY_NAME * named <= allowed:
            best = (index, 0)
        else:
            break
    return best


def common_step(waits: Iterable[Split]) -> int:
    """Give the step of the lattice on which a sum of waits lies; 0 where some of them lie anywhere."""
    step = 0
    for runs, windows, _ in waits:
        if windows:
            return 0
        step = math.gcd(step, *(run.start - runs[0].start for run in runs), *(run.step for run in runs))
    return step
