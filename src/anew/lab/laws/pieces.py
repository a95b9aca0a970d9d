"""Laws of a few pieces, exact: none, windows, dice, steps, redraws, and what a clamp piles up at the ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from anew.lab.laws.shapes import FEW, Law, mixed


class Piece(NamedTuple):
    """A part of a law: any value in ``[low, high)``, or so many equally likely ones, ``low`` the first.

    Args:
        weight: Share of all values that fall here.
        low: The lowest value.
        high: The open end; for a die, one face further than the highest.
        faces: 0: any real value. m: the values ``low + j * (high - low) / m``, j = 0 ... m - 1.
    """

    weight: float
    low: float
    high: float
    faces: int = 0

    @classmethod
    def atom(cls, weight: float, value: float) -> Piece:
        """Give a piece that is one value."""
        return cls(weight, value, value, 1)

    @property
    def step(self) -> float:
        """Give the distance of a die's values."""
        return (self.high - self.low) / self.faces

    @property
    def top(self) -> float:
        """Give the highest value, or the least upper bound."""
        return self.low + (self.faces - 1) * self.step if self.faces else self.high

    def highest_upto(self, x: float) -> float:
        """Give the highest value that is at most x, which is not below ``low``."""
        if not self.faces:
            return min(self.high, x)
        face = math.floor((x - self.low) / self.step * (1 + 1e-15)) if self.faces > 1 else 0
        return self.low + min(face, self.faces - 1) * (self.step if self.faces > 1 else 0.0)

    def below(self, x: float) -> float:
        """Give the share of this piece's values that are below x."""
        low, high, faces = self.low, self.high, self.faces
        if not faces:
            return 0.0 if x <= low else 1.0 if x >= high else (x - low) / (high - low)
        if x <= low:
            return 0.0
        if x > self.top:
            return 1.0
        return min(math.ceil((x - low) / self.step * (1 - 1e-15)), faces) / faces

    def held(self, floor: float, ceil: float) -> Iterator[Piece]:
        """Give the pieces that are left when no value may leave ``[floor, ceil]``."""
        if self.low >= floor and (self.high <= ceil or self.top <= ceil):
            yield self
            return
        under, over = self.below(floor), 1 - self.below(ceil)
        if under:
            yield Piece.atom(self.weight * under, floor)
        inner = self.weight * (1 - under - over)
        if inner > 0 and not self.faces:
            yield Piece(inner, max(self.low, floor), min(self.high, ceil))
        elif inner > 0:
            first, last = round(under * self.faces), round((1 - over) * self.faces)
            step = self.step
            yield Piece(inner, self.low + first * step, self.low + last * step, last - first)
        if over:
            yield Piece.atom(self.weight * over, ceil)

    def centred(self) -> Piece:
        """Give the piece moved so far that its middle is the mean of its values cut to whole milliseconds."""
        by = (self.low + (self.top if self.faces else self.high)) / 2 - self.moments()[0]
        return self._replace(low=self.low - by, high=self.high - by)

    def moments(self) -> tuple[float, float]:
        """Give mean and variance of the values cut to whole milliseconds."""
        low, high, faces = self.low, self.high, self.faces
        if not faces:
            return _uniform(low, high)
        step = self.step
        if float(low).is_integer() and step.is_integer():
            return low + step * (faces - 1) / 2, step * step * (faces * faces - 1) / 12
        if step < 1:
            return _uniform(low, high)
        if faces <= FEW:
            values = [math.floor(low + (high - low) * face / faces) for face in range(faces)]
            mean = sum(values) / faces
            return mean, sum((value - mean) ** 2 for value in values) / faces
        return low + step * (faces - 1) / 2 - 0.5, step * step * (faces * faces - 1) / 12


def _uniform(low: float, high: float) -> tuple[float, float]:
    """Give mean and variance of the whole part of a number that lies anywhere in ``[low, high)``."""
    whole = math.floor(low)
    # Reckoned from the whole number below, so that nothing large cancels.
    a, b = low - whole, high - whole
    if b <= 1:
        return whole, 0.0
    n = math.floor(b)
    first = n * (n - 1) / 2 + n * (b - n)
    second = (n - 1) * n * (2 * n - 1) / 6 + n * n * (b - n)
    mean = first / (b - a)
    return whole + mean, max(second / (b - a) - mean * mean, 0.0)


class Mixture(Law):
    """A law of a few pieces, exact: none, windows, dice, steps, redraws, and what a clamp piles up at the ends."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces = tuple(pieces)
        self.earliest_ms = math.floor(min(piece.low for piece in self.pieces))
        self.latest_ms = max(_last(piece) for piece in self.pieces)
        self.mean_ms, self.sd_ms = mixed((piece.weight, *piece.moments()) for piece in self.pieces)

    def below(self, ms: float) -> float:
        """Give the share of values below ``ms``."""
        return sum(piece.weight * piece.below(ms) for piece in self.pieces)

    def percentile(self, percent: float) -> int:
        """Give the lowest value that at least so many percent of all values do not exceed."""
        if len(self.pieces) > 1:
            return super().percentile(percent)
        low, high, faces = self.pieces[0][1:]
        share = percent / 100 - 1e-12
        if faces:
            face = min(max(math.ceil(share * faces) - 1, 0), faces - 1)
            return math.floor(low + (high - low) * face / faces)
        return min(max(math.ceil(low + share * (high - low)) - 1, self.earliest_ms), self.latest_ms)


def _last(piece: Piece) -> int:
    top = piece.top
    return math.floor(top) if piece.faces else max(math.floor(piece.low), math.ceil(top) - 1)
