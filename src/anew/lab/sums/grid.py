"""Sums of independent waits: the law of the whole window, by convolution on a grid.

The share of sums up to each point of a grid is kept, a straight line between the points. Adding a wait that lies
anywhere in a window is then one running sum and two readings of it, whatever the window's width.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

from anew.lab.laws.pieces import Piece

CELLS: Final = 1_024
# Dice whose values lie closer than so many cells are taken as a window.
_COARSE: Final = 4


class Grid:
    """The shares of a sum up to each point of a grid.

    Args:
        origin: The sum to begin with.
        width: How far sums can lie above the lowest.
        cells: Cells of the grid.
    """

    def __init__(self, origin: float, width: float, cells: int = CELLS) -> None:
        self.origin = origin
        self.cell = width / cells or 1.0
        # Nowhere, as yet.
        self.shares = [0.0] * (cells + 1)

    @property
    def share(self) -> float:
        """Give the share of all sums that are held."""
        return self.shares[-1]

    def add(self, pieces: Sequence[Piece]) -> None:
        """Add one wait; the grid then begins at the lowest sum."""
        boxes = [box for piece in pieces for box in self._boxes(piece)]
        start = min(low for _, low, _ in boxes)
        self.origin += start
        if not self.shares[-1]:
            return
        sums = [0.0, *accumulate((a + b) / 2 for a, b in pairwise(self.shares))]
        total = [0.0] * len(self.shares)
        for weight, low, high in boxes:
            a, b = (low - start) / self.cell, (high - start) / self.cell
            if a >= len(total):
                continue
            if b - a < 1e-6:
                moved = self._moved(a)
                total = [old + weight * new for old, new in zip(total, moved, strict=True)]
                continue
            # The shares after adding anything between a and b cells.
            upper, lower, each = self._summed(sums, a), self._summed(sums, b), weight / (b - a)
            total = [old + each * (x - y) for old, x, y in zip(total, upper, lower, strict=True)]
        self.shares = total

    def keep(self, most: float) -> None:
        """Drop the sums above a bound."""
        at = (most - self.origin) / self.cell
        if at < len(self.shares) - 1:
            whole = max(math.floor(at), -1)
            low, high = self.shares[whole] if whole >= 0 else 0.0, self.shares[whole + 1]
            left = low + (high - low) * (at - whole) if at >= 0 else 0.0
            self.shares = [min(share, left) for share in self.shares]

    def receive(self, lumps: Sequence[tuple[int, float]], origin: float, pieces: Sequence[Piece]) -> None:
        """Take in the shares of sums that were held value by value until now.

        Args:
            lumps: These sums with their shares, in order, before they are added to.
            origin: The lowest of all sums before.
            pieces: What is added to them: windows, or dice that cannot be held any longer. The grid itself has had
                its whole wait added already.
        """
        start, cell, count = self.origin - origin, self.cell, len(self.shares)
        known = _Lumps([value - origin for value, _ in lumps], [share for _, share in lumps])
        total = self.shares
        for weight, low, high in (box for piece in pieces for box in self._boxes(piece)):
            if low > start + cell * count:
                continue
            if high - low < 1e-6 * cell:
                part = known.upto(start - low, cell, count)
                total = [old + weight * new for old, new in zip(total, part, strict=True)]
                continue
            each = weight / (high - low)
            upper = known.areas(start - low, cell, count)
            lower = known.areas(start - high, cell, count)
            total = [old + each * (x - y) for old, x, y in zip(total, upper, lower, strict=True)]
        self.shares = total

    def _boxes(self, piece: Piece) -> list[tuple[float, float, float]]:
        """Give a piece as windows and single values: weight, low end, high end."""
        weight, low, high, faces = piece
        if not faces or high == low:
            return [(weight, low, high)]
        step = piece.step
        if step < _COARSE * self.cell and faces > 1:
            return [(weight, low - step / 2, high - step / 2)]
        return [(weight / faces, low + face * step, low + face * step) for face in range(faces)]

    def _moved(self, by: float) -> list[float]:
        """Give the shares moved up by so many cells."""

        def between(part: float) -> list[float]:
            left = 1 - part
            return [high * left + low * part for low, high in pairwise(self.shares)]

        return _pushed(self.shares, by, between)

    def _summed(self, sums: list[float], by: float) -> list[float]:
        """Give the running sum of the shares, read so many cells further down; exact between the points."""

        def between(part: float) -> list[float]:
            left = 1 - part
            b = left * left / 2
            a = left - b
            each = zip(sums, self.shares, self.shares[1:], strict=False)
            return [total + a * low + b * high for total, low, high in each]

        return _pushed(sums, by, between)

    def pieces(self) -> list[Piece]:
        """Give the law as windows; a share that is there at the first point already is a single value."""
        first = [Piece(self.shares[0], self.origin, self.origin)] if self.shares[0] > 0 else []
        points = pairwise(self.shares)
        return first + [
            Piece(high - low, self.origin + index * self.cell, self.origin + (index + 1) * self.cell)
            for index, (low, high) in enumerate(points)
            if high > low
        ]


class _Lumps:
    """Single values in order, read at evenly spaced points: so many from a start on, a cell apart."""

    def __init__(self, values: Sequence[float], shares: Sequence[float]) -> None:
        self._values = values
        self._shares = [*accumulate(shares, initial=0.0)]
        self._weighed = [*accumulate(map(operator.mul, values, shares), initial=0.0)]

    def _runs(self, start: float, cell: float, count: int) -> Iterator[tuple[int, int, int]]:
        """Give runs of points with as many lumps up to them: the first, the one after the last, how many lumps."""
        point = index = 0
        while point < count:
            index = bisect_right(self._values, start + point * cell, index)
            end = count
            if index < len(self._values):
                end = min(max(math.ceil((self._values[index] - start) / cell), point + 1), count)
            yield point, end, index
            point = end

    def upto(self, start: float, cell: float, count: int) -> list[float]:
        """Give the share of lumps up to each point."""
        shares = self._shares
        return [shares[index] for a, b, index in self._runs(start, cell, count) for _ in range(a, b)]

    def areas(self, start: float, cell: float, count: int) -> list[float]:
        """Give the area under that up to each point."""
        found: list[float] = []
        for a, b, index in self._runs(start, cell, count):
            share = self._shares[index]
            first, slope = start * share - self._weighed[index], cell * share
            found += [first + slope * point for point in range(a, b)]
        return found


def _pushed(values: list[float], by: float, between: Callable[[float], list[float]]) -> list[float]:
    """Give as many values, pushed up by so many cells, from 0 on.

    Args:
        values: One for each point.
        by: How far.
        between: Gives the values that lie so far, as a part of a cell, before the second point, the third and so on.
    """
    whole = min(math.floor(by), len(values))
    part = by - math.floor(by)
    if part < 1e-9:
        return ([0.0] * whole + values)[: len(values)]
    return ([0.0] * (whole + 1) + between(part))[: len(values)]


def normal(mean: float, sd: float, earliest: float, latest: float) -> list[Piece]:
    """Give the law of a sum of very many waits, by the central limit theorem, inside its bounds."""
    if sd <= 0 or latest <= earliest:
        return [Piece(1.0, mean, mean)]
    points = [min(max(mean + sd * (index - 400) / 50, earliest), latest) for index in range(801)]
    shares = [(1 + math.erf((index - 400) / 50 / math.sqrt(2))) / 2 for index in range(801)]
    return [
        Piece(b - a, low, high)
        for low, high, a, b in zip(points, points[1:], shares, shares[1:], strict=False)
    ]
