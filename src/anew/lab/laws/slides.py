"""The law of ``even``: a wait that slides along a curve with one number, exact."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from anew.lab.laws.shapes import FEW, GAUSS_3, GAUSS_8, Law, mixed


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

    __slots__ = ("_a", "_b", "_c", "_dither")

    def __init__(self, a: float, b: float, c: float, *, dither: float, floor: float, ceil: float) -> None:
        self._a, self._b, self._c, self._dither = a, b, c, dither
        shakes = [(1 + dither * (x - 0.5), weight) for x, weight in GAUSS_8] if dither else [(1.0, 1.0)]
        low, high = self._range(dither)
        self.earliest_ms = math.floor(min(max(low, floor), ceil))
        self.latest_ms = math.floor(min(max(high, floor), ceil))
        parts = [
            (weight * share, scale * mean, scale * scale * variance)
            for scale, weight in shakes
            for share, mean, variance in self._parts(floor / scale, ceil / scale)
        ]
        self.mean_ms, self.sd_ms = mixed(parts)
        if self.latest_ms - self.earliest_ms < FEW:
            self._count(low, high, floor, ceil)
        else:
            self.mean_ms -= 0.5 * (1 - self.below(floor) - (1 - self.below(ceil)))

    def _count(self, low: float, high: float, floor: float, ceil: float) -> None:
        shares = [self.cdf(ms) for ms in range(self.earliest_ms, self.latest_ms + 1)]
        each = [share - before for share, before in zip(shares, [0.0, *shares], strict=False)]
        self.mean_ms, self.sd_ms = mixed(
            (share, float(self.earliest_ms + index), 0.0) for index, share in enumerate(each)
        )

    def at(self, p: float) -> float:
        """Give the value, unshaken, at p."""
        return self._a + p * (self._b + p * self._c)

    def percentile(self, percent: float) -> int:
        """Give the lowest value that at least so many percent of all values do not exceed."""
        if self._dither or min(self._b, self._b + 2 * self._c) < 0:
            return super().percentile(percent)
        value = self.at(min(max(percent / 100, 0.0), 1.0))
        return min(max(math.ceil(value) - 1, self.earliest_ms), self.latest_ms)

    def _range(self, dither: float) -> tuple[float, float]:
        turn = -self._b / (2 * self._c) if self._c else 0.0
        values = [self.at(p) for p in (0.0, 1.0, min(max(turn, 0.0), 1.0))]
        return min(values) * (1 - dither / 2), max(values) * (1 + dither / 2)

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
