"""The two jitters that remember: their laws from retry to retry.

``decorrelated``: the law of the wait before is held as masses in the cells of a geometric grid, and each retry spreads
every cell evenly over what it may become. ``slices``: two numbers decide a wait; 987 pairs stand for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from anew.backoff.stateful import front
from anew.lab.laws.pieces import Mixture, Piece
from anew.lab.laws.shapes import Law
from anew.lab.laws.tabulated import Tabulated, tabled

_CELLS: Final = 400
_SAME: Final = 1e-12
_LEAST: Final = 1e-3
"""Milliseconds that make no difference, and by which nothing is divided."""

_NOTHING: Final = 1e-280
"""Shorter waits reach no millisecond in hundreds of retries, and what is divided by them is no number any more."""

# A Fibonacci lattice: pairs (j/n, j*m/n mod 1) that fill the square evenly, and each side with n different numbers.
_PAIRS: Final = 987
_TURN: Final = 610
_KNOTS: Final = 330


def _least_of(curve: Sequence[float]) -> float:
    """Give what makes no difference; beside a first wait that is shorter itself, and yet may grow, a thousandth of that."""
    start = next((wait for wait in curve if wait > 0), 1.0)
    return _LEAST if start > _LEAST else max(start * _LEAST, _NOTHING)


def lowest_of(curve: Sequence[float]) -> float:
    """Give the shortest wait that need be told from none, in ms: the curve's, or 1 where it falls back to nothing."""
    least = _least_of(curve)
    lowest = min((wait for wait in curve if wait > least), default=1.0)
    return min(lowest, 1.0) if any(wait <= least for wait in curve[1:]) else lowest


class Carried:
    """The law of what ``decorrelated`` carries: masses in geometric cells, and a lump at the ceiling.

    Args:
        curve: The nominal waits, from the first on.
        times: How many times the wait before a wait may be.
        ceil: No wait is longer.
        cells: Cells of the grid.
    """

    def __init__(self, curve: Sequence[float], times: float, ceil: float, cells: int = _CELLS) -> None:
        start = curve[0]
        self.times, self.ceil, self._least = times, float(ceil), _least_of(curve)
        lowest = min(lowest_of(curve), self.ceil / 2) or 1.0
        ratio = (self.ceil / lowest) ** (1 / cells) if self.ceil > lowest else 2.0
        self.edges = [lowest * ratio**index for index in range(cells)] + [self.ceil]
        self.middles = [(a + b) / 2 for a, b in pairwise(self.edges)]
        self.masses = [0.0] * cells
        # Values that are met exactly: the first wait before, the nominal wait, the ceiling.
        self.lumps: dict[float, float] = {min(start, self.ceil): 1.0}
        self._settled: float | None = None
        self._law: Law | None = None

    def step(self, nominal: float) -> None:
        """Go on by one retry with this nominal wait."""
        if self._settled == nominal:
            return
        before, lumps = self.masses, self.lumps
        pairs = [(self.times * x, mass) for x, mass in zip(self.middles, before, strict=True) if mass > 1e-15]
        pairs = sorted([*pairs, *((self.times * x, mass) for x, mass in lumps.items())], reverse=True)
        self.lumps = {}
        if nominal >= self.ceil:
            self._lump(self.ceil, 1.0)
            self.masses = [0.0] * len(before)
        else:
            self._lump(nominal, math.fsum(mass for high, mass in pairs if high - nominal <= self._least))
            wide = [(high, mass) for high, mass in pairs if high - nominal > self._least]
            self.masses = self._spread(nominal, wide)
        self._law = None
        moved = max(abs(a - b) for a, b in zip(before, self.masses, strict=True))
        # Settled for this nominal wait alone: after another one the chain has to be walked on.
        same = moved < _SAME and lumps.keys() == self.lumps.keys()
        self._settled = nominal if same else None

    def _lump(self, value: float, mass: float) -> None:
        if mass > 0:
            self.lumps[value] = self.lumps.get(value, 0.0) + mass

    def _spread(self, nominal: float, pairs: list[tuple[float, float]]) -> list[float]:
        """Spread each mass over ``[nominal, high)``; ``pairs`` come with the highest first."""
        masses, density, index = [0.0] * len(self.middles), 0.0, 0
        edges, ceil = self.edges, self.ceil
        over = 0.0
        while index < len(pairs) and pairs[index][0] >= ceil:
            high, mass = pairs[index]
            over += mass * (high - ceil) / (high - nominal)
            density += mass / (high - nominal)
            index += 1
        self._lump(ceil, over)
        for cell in range(len(masses) - 1, -1, -1):
            low, top = max(edges[cell], nominal), edges[cell + 1]
            if top <= nominal:
                break
            mass = density * (top - low)
            while index < len(pairs) and pairs[index][0] > low:
                high, part = pairs[index]
                mass += part * (high - low) / (high - nominal)
                density += part / (high - nominal)
                index += 1
            masses[cell] = mass
        if nominal < edges[0]:
            # Below the grid all is as good as nominal.
            self._lump(nominal, density * (edges[0] - nominal) + math.fsum(part for _, part in pairs[index:]))
        return masses

    def law(self, floor: float) -> Law:
        """Give the law of the wait, held to the policy's floor."""
        if self._law is None:
            whole = [Piece(mass, value, value) for value, mass in self.lumps.items()]
            cells = zip(self.edges, self.edges[1:], self.masses, strict=False)
            parts = [*(Piece(mass, a, b) for a, b, mass in cells if mass > 0), *whole]
            parts.sort(key=lambda part: (part.low, part.high))
            self._law = Tabulated(_parted(_floored(parts, floor) if parts[0].low < floor else parts))
        return self._law


def _floored(pieces: list[Piece], floor: float) -> list[Piece]:
    """Hold windows to a floor: what lies below it becomes one value."""
    kept, under = [], 0.0
    for piece in pieces:
        share = 0.0
        if piece.high <= floor:
            share = 1.0
        elif piece.low < floor:
            share = (floor - piece.low) / (piece.high - piece.low)
        under += piece.weight * share
        if share < 1:
            kept.append(Piece(piece.weight * (1 - share), max(piece.low, floor), piece.high))
    return [Piece(under, floor, floor), *kept]


def _parted(pieces: list[Piece]) -> list[Piece]:
    """Part a window around a lump that lies inside it, so that all are in order."""
    parted: list[Piece] = []
    for piece in pieces:
        last = parted[-1] if parted else None
        if last is None or piece.low >= last.high or last.low == last.high:
            parted.append(piece)
            continue
        share = (piece.low - last.low) / (last.high - last.low)
        parted[-1] = Piece(last.weight * share, last.low, piece.low)
        parted += [piece, Piece(last.weight * (1 - share), piece.high, last.high)]
    return parted


class Fronts:
    """The laws of ``slices``: the wait is ``(F(k - 1 + U) - F(k - 2 + U before)) * unit``.

    Args:
        unit: What instants are multiplied with, `anew.backoff.stateful.slices_unit`.
        floor: No wait is shorter.
        ceil: No wait is longer.
    """

    def __init__(self, unit: float, floor: float, ceil: float) -> None:
        self._unit, self._floor, self._ceil = unit, floor, ceil
        self._before: tuple[int, list[float]] = (0, [0.0] * _PAIRS)

    def law(self, retry: int) -> Law:
        """Give the law of the wait before a retry."""
        unit, floor, ceil = self._unit, self._floor, self._ceil
        if not unit or front(retry - 1) * unit > ceil * 1e5:
            # A wait below the ceiling is a matter of one in ten thousand millions by now.
            return Mixture([Piece.atom(1.0, min(max(0.0, floor), ceil) if not unit else ceil)])
        ends, starts = self._fronts(retry), self._fronts(retry - 1)
        self._before = (retry, ends)
        waits = [end - starts[index * _TURN % _PAIRS] for index, end in enumerate(ends)]
        # The lattice leaves out the corners, where the shortest and the longest wait lie.
        waits += [0.0, (front(retry) - front(max(retry - 2, 0))) * unit]
        return tabled([min(max(wait, floor), ceil) for wait in sorted(waits)], knots=_KNOTS)

    def _fronts(self, retry: int) -> list[float]:
        """Give the instant of a retry for evenly spaced numbers; before the first it is 0."""
        if retry == self._before[0]:
            return self._before[1]
        if retry < 1:
            return [0.0] * _PAIRS
        return [front(retry - 1 + (index + 0.5) / _PAIRS) * self._unit for index in range(_PAIRS)]
