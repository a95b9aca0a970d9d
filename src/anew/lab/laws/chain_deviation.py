"""The deviation of a sum of ``decorrelated`` waits, reckoned backwards from the last retry.

Without a low ceiling a few jobs in a million wait for very long, and the deviation is theirs: no walk of a few thousand
jobs meets them. So for every wait before, on a geometric grid, mean and variance of what is still to come are told: after
the last retry nothing, and before each retry what follows from those after it, by the law of total variance.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

from anew.backoff import Decorrelated, Policy

_CELLS: Final = 200


def chain_deviation(policy: Policy, retries: int) -> float:
    """Give the standard deviation of the sum of the first waits in milliseconds; 0.5 % off at most where tails are long.

    Args:
        policy: A policy with the jitter ``decorrelated``; its deadline is left aside.
        retries: How many waits.
    """
    jitter = policy.jitter
    assert isinstance(jitter, Decorrelated)
    times, ceil = jitter.times, float(policy.highest_ms)
    curve = [policy.nominal(retry) for retry in range(1, retries + 1)]
    start = min(curve[0], ceil)
    lowest = max(min((wait for wait in curve if wait > 0), default=1.0), 1e-3)
    points = [lowest * (max(ceil / lowest, 1.0) ** (index / _CELLS)) for index in range(_CELLS + 1)]
    waits = [max(point, policy.floor_ms) for point in points]
    # Of what is still to come, for each wait before; at first that is the start.
    mean, variance = [0.0] * len(points), [0.0] * len(points)
    for nominal in reversed(curve):
        then = [wait + to_come for wait, to_come in zip(waits, mean, strict=True)]
        further = _Expected(points, nominal, variance)
        sums, squares = _Expected(points, nominal, then), _Expected(points, nominal, then, squared=True)
        highs = [times * point for point in points]
        mean = [sums.up_to(high) for high in highs]
        variance = [
            max(squares.up_to(high) - middle * middle, 0.0) + further.up_to(high)
            for high, middle in zip(highs, mean, strict=True)
        ]
    index, part = _place(points, start)
    return math.sqrt(variance[index] + part * (variance[index + 1] - variance[index]))


class _Expected:
    """The expected value of a function of a wait, or of its square, where the wait lies anywhere in a window.

    Args:
        points: Rising; the last one is the ceiling.
        nominal: Where the window begins.
        values: The function at the points; between them it is a straight line.
        squared: Whether its square is meant.
    """

    def __init__(
        self, points: Sequence[float], nominal: float, values: Sequence[float], *, squared: bool = False
    ) -> None:
        self._points, self._values, self._squared = points, values, squared
        self._nominal, self._last = nominal, self._area(values[-1], values[-1])
        cells = zip(pairwise(points), pairwise(values), strict=True)
        self._areas = [*accumulate(((b - a) * self._area(x, y) for (a, b), (x, y) in cells), initial=0.0)]
        value = self._read(*_place(points, nominal))
        self._least, self._under = self._area(value, value), self._upto(nominal)

    def _area(self, x: float, y: float) -> float:
        """Give the mean over a straight line from one value to another."""
        return (x * x + x * y + y * y) / 3 if self._squared else (x + y) / 2

    def _read(self, index: int, part: float) -> float:
        return self._values[index] + part * (self._values[index + 1] - self._values[index])

    def _upto(self, to: float) -> float:
        """Give the area from the first point on; below it the function is what it is there."""
        first = self._values[0]
        if to <= self._points[0]:
            return (to - self._points[0]) * self._area(first, first)
        index, part = _place(self._points, to)
        width = part * (self._points[index + 1] - self._points[index])
        return self._areas[index] + width * self._area(self._values[index], self._read(index, part))

    def up_to(self, high: float) -> float:
        """Give the expected value where the window ends here; what is beyond the last point is as good as there."""
        ceil = self._points[-1]
        if high <= self._nominal or self._nominal >= ceil:
            return self._least
        area = self._upto(min(high, ceil)) - self._under
        return (area + max(high - ceil, 0.0) * self._last) / (high - self._nominal)


def _place(points: Sequence[float], at: float) -> tuple[int, float]:
    """Give the cell in which a number lies, and where in it, from 0 to 1."""
    index = min(max(bisect_right(points, at) - 1, 0), len(points) - 2)
    width = points[index + 1] - points[index]
    return index, min(max((at - points[index]) / width, 0.0), 1.0) if width else 0.0
