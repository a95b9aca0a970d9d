"""Laws of a number of whole milliseconds: of windows and dice, of ``even``, and of values that were drawn.

All answer the same questions (mean, standard deviation, percentiles, share up to a value). Waits are cut down to
whole milliseconds, and so are the answers: the mean of "anything in [0, 10 ms)" is 4.5 ms.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from anew.lab.waves import Wave

FEW: Final = 256
"""Below this many possible values, cutting to milliseconds is calculated value by value; above, it takes half a
millisecond from the mean, to within a thousandth."""

# Nodes and weights of Gauss and Legendre on [0, 1]: three points are exact up to degree 5, eight up to 15.
GAUSS_3: Final = ((0.5 - math.sqrt(0.15), 5 / 18), (0.5, 4 / 9), (0.5 + math.sqrt(0.15), 5 / 18))
GAUSS_8: Final = tuple(
    (0.5 + side * node / 2, weight / 2)
    for node, weight in (
        (0.1834346424956498, 0.3626837833783620),
        (0.5255324099163290, 0.3137066458778873),
        (0.7966664774136267, 0.2223810344533745),
        (0.9602898564975363, 0.1012285362903763),
    )
    for side in (-1, 1)
)


class Law:
    """What is known of a number of milliseconds beforehand: its lowest and highest value, mean and standard deviation."""

    earliest_ms: int
    latest_ms: int
    mean_ms: float
    sd_ms: float

    def cdf(self, ms: float) -> float:
        """Give the share of values that are at most so many milliseconds."""
        if ms < self.earliest_ms:
            return 0.0
        return 1.0 if ms >= self.latest_ms else min(max(self.below(math.floor(ms) + 1), 0.0), 1.0)

    def below(self, ms: float) -> float:
        """Give the share of values, before they are cut to whole milliseconds, that lie below ``ms``."""
        raise NotImplementedError

    def percentile(self, percent: float) -> int:
        """Give the lowest value that at least so many percent of all values do not exceed.

        Args:
            percent: 0 to 100; 0 gives the lowest value, 100 the highest.
        """
        # A share such as 0.05 has no exact binary form: without leave for the last bits, a step may be missed.
        share = percent / 100 - 1e-12
        return self.earliest_ms + bisect_left(range(self.earliest_ms, self.latest_ms), share, key=self.cdf)


def mixed(parts: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """Give mean and standard deviation of a mixture of parts: weight, mean and variance of each."""
    known = list(parts)
    mean = math.fsum(weight * value for weight, value, _ in known)
    variance = math.fsum(weight * (spread + (value - mean) ** 2) for weight, value, spread in known)
    return mean, math.sqrt(max(variance, 0.0))


# ---- laws of a few pieces, exact: none, windows, dice, steps, redraws, and what a clamp piles up at the ends


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

    @property
    def last(self) -> int:
        """Give the highest value cut to whole milliseconds."""
        return math.floor(self.top) if self.faces else max(math.floor(self.low), math.ceil(self.high) - 1)

    def highest_upto(self, ms: int) -> float:
        """Give the highest value that is at most so many milliseconds once it is cut to whole ones; the lowest is."""
        if not self.faces:
            return min(self.high, ms)
        face = math.ceil((ms + 1 - self.low) / self.step * (1 - 1e-15)) - 1 if self.faces > 1 else 0
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

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces = tuple(pieces)
        self.earliest_ms = math.floor(min(piece.low for piece in self.pieces))
        self.latest_ms = max(piece.last for piece in self.pieces)
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


# ---- the law of ``even``: a wait that slides along a curve with one number, exact


class Slide(Law):
    """The law of ``a + b*p + c*p**2`` for p anywhere in [0, 1), shaken and held: `even`, exact.

    Args:
        a: The constant.
        b: The slope.
        c: The bend.
        dither: Share of the shake: times a number in ``[1 - dither/2, 1 + dither/2)``.
        floor: No value is lower.
        ceil: No value is higher.
    """

    def __init__(self, a: float, b: float, c: float, *, dither: float, floor: float, ceil: float) -> None:
        self._a, self._b, self._c, self._dither = a, b, c, dither
        shakes = [(1 + dither * (x - 0.5), weight) for x, weight in GAUSS_8] if dither else [(1.0, 1.0)]
        turn = -b / (2 * c) if c else 0.0
        values = [self.at(p) for p in (0.0, 1.0, min(max(turn, 0.0), 1.0))]
        low, high = min(values) * (1 - dither / 2), max(values) * (1 + dither / 2)
        self.earliest_ms = math.floor(min(max(low, floor), ceil))
        self.latest_ms = math.floor(min(max(high, floor), ceil))
        parts = [
            (weight * share, scale * mean, scale * scale * variance)
            for scale, weight in shakes
            for share, mean, variance in self._parts(floor / scale, ceil / scale)
        ]
        self.mean_ms, self.sd_ms = mixed(parts)
        if self.latest_ms - self.earliest_ms < FEW:
            shares = pairwise([0.0, *map(self.cdf, range(self.earliest_ms, self.latest_ms + 1))])
            each = enumerate(shares, self.earliest_ms)
            self.mean_ms, self.sd_ms = mixed((share - before, ms, 0.0) for ms, (before, share) in each)
        else:
            self.mean_ms -= 0.5 * (1 - self.below(floor) - (1 - self.below(ceil)))

    def at(self, p: float) -> float:
        """Give the value, unshaken, at p."""
        return self._a + p * (self._b + p * self._c)

    def percentile(self, percent: float) -> int:
        """Give the lowest value that at least so many percent of all values do not exceed."""
        if self._dither or min(self._b, self._b + 2 * self._c) < 0:
            return super().percentile(percent)
        value = self.at(min(max(percent / 100, 0.0), 1.0))
        return min(max(math.ceil(value) - 1, self.earliest_ms), self.latest_ms)

    def below(self, ms: float) -> float:
        """Give the share of values below ``ms``."""
        least, most = 1 - self._dither / 2, 1 + self._dither / 2
        found = 0.0
        for a, b in pairwise([0.0, *sorted({*self._roots(ms / most), *self._roots(ms / least)}), 1.0]):
            middle = self.at((a + b) / 2)
            if middle * most < ms:  # however it is shaken
                found += b - a
            elif middle * least < ms:
                shares = ((ms / self.at(a + (b - a) * x) - least, weight) for x, weight in GAUSS_8)
                found += (b - a) * sum(weight * share for share, weight in shares) / self._dither
        return found

    def _roots(self, x: float) -> list[float]:
        """Give the places in (0, 1) where the value is x, in order."""
        a, b, c = self._a - x, self._b, self._c
        inner = b * b - 4 * a * c
        if inner < 0:
            return []
        q = -(b + math.copysign(math.sqrt(inner), b)) / 2
        roots = [top / bottom for top, bottom in ((q, c), (a, q)) if bottom]
        return sorted({root for root in roots if 0 < root < 1})

    def _parts(self, floor: float, ceil: float) -> Iterator[tuple[float, float, float]]:
        """Give weight, mean and variance of each stretch of p, unshaken, between the places where the clamp bites."""
        cuts = [0.0, *sorted((*self._roots(floor), *self._roots(ceil))), 1.0]
        for a, b in pairwise(cuts):
            middle = self.at((a + b) / 2)
            if not floor <= middle <= ceil:
                yield b - a, min(max(middle, floor), ceil), 0.0
                continue
            values = [(self.at(a + (b - a) * node), weight) for node, weight in GAUSS_3]
            mean = sum(weight * value for value, weight in values)
            yield b - a, mean, sum(weight * (value - mean) ** 2 for value, weight in values)


# ---- laws of values that were drawn


class Drawn(Law):
    """What some drawn values tell of their law.

    Args:
        values: In order, in whole milliseconds; a list or an array, not empty.
    """

    def __init__(self, values: Wave) -> None:
        self._values = values
        self.earliest_ms, self.latest_ms = int(values[0]), int(values[-1])
        if isinstance(values, list):
            self.mean_ms, self.sd_ms = statistics.fmean(values), statistics.pstdev(values)
        else:
            self.mean_ms, self.sd_ms = float(values.mean()), float(values.std())

    def below(self, ms: float) -> float:
        """Give the share of values below ``ms``."""
        return bisect_left(self._values, ms) / len(self._values)

    def percentile(self, percent: float) -> int:
        """Give the lowest value that at least so many percent of all values do not exceed."""
        return int(self._values[max(math.ceil(len(self._values) * percent / 100 - 1e-9) - 1, 0)])
