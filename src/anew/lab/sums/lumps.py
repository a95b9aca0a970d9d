"""The law of a number that takes single values, each with a share of its own, and may lie anywhere besides."""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from anew.lab.laws.pieces import Piece
from anew.lab.laws.shapes import Law, mixed
from anew.lab.laws.tabulated import Tabulated

_LAST_BITS = 1e-12
# Windows narrower than that, in milliseconds, are taken as one value: densities would drown in rounding.
_NARROW = 0.1


class Lumps(Law):
    """A law that jumps at whole milliseconds: lumps, exact, and what is spread between them.

    Args:
        lumps: Whole milliseconds with their shares, in order.
        spread: What lies anywhere, as windows side by side, in order. Weights of both together add up to 1, or are made to.
        cut: Whether what lies anywhere is yet to be cut to whole milliseconds.
    """

    __slots__ = ("_below", "_part", "_spread", "_values")

    def __init__(
        self, lumps: Iterable[tuple[int, float]], spread: Sequence[Piece] = (), *, cut: bool = False
    ) -> None:
        values, shares = _apart(lumps)
        part = math.fsum(piece.weight for piece in spread)
        total = math.fsum(shares) + part
        self._values = values
        self._below = [share / total for share in accumulate(shares, initial=0.0)]
        self._spread = Tabulated(spread, cut=cut) if part > 0 else None
        self._part = part / total
        parts = [(1 - self._part, *_moments(values, shares))] if values else []
        ends = values[:1] + values[-1:]
        if self._spread is not None:
            parts.append((self._part, self._spread.mean_ms, self._spread.sd_ms**2))
            ends += [self._spread.earliest_ms, self._spread.latest_ms]
        self.earliest_ms, self.latest_ms = min(ends), max(ends)
        self.mean_ms, self.sd_ms = mixed(parts)

    def below(self, ms: float) -> float:
        """Give the share of values below ``ms``."""
        share = self._below[bisect_left(self._values, ms)]
        return share if self._spread is None else share + self._part * self._spread.below(ms)

    def percentile(self, percent: float) -> int:
        """Give the lowest value that at least so many percent of all values do not exceed."""
        if self._spread is not None:
            return super().percentile(percent)
        index = bisect_left(self._below, percent / 100 - _LAST_BITS, 1)
        return self._values[min(index, len(self._values)) - 1]

    def reached_by(self, percent: float) -> int:
        """Give the highest value that at least so many percent of all values reach or exceed."""
        if self._spread is not None:
            return self.highest(percent)
        index = bisect_right(self._below, 1 - percent / 100 + _LAST_BITS)
        return self._values[min(index, len(self._values)) - 1]


def overlaid(pieces: Iterable[Piece]) -> Law:
    """Give the law of windows that may lie over each other, yet to be cut to milliseconds, and of single values.

    Args:
        pieces: Windows, and pieces of one value. Weights add up to anything.
    """
    lumps: dict[int, float] = {}
    changes: list[tuple[float, float]] = []
    for weight, low, high, faces in pieces:
        if faces or high - low < _NARROW:
            lumps[int(low)] = lumps.get(int(low), 0.0) + weight
        else:
            changes += ((low, weight / (high - low)), (high, -weight / (high - low)))
    changes.sort()
    density, spread = 0.0, []
    for (low, change), (high, _) in pairwise(changes):
        density += change
        spread.append(Piece(max(density, 0.0) * (high - low), low, high))
    return Lumps(sorted(lumps.items()), spread, cut=True) if lumps else Tabulated(spread)


def _apart(lumps: Iterable[tuple[int, float]]) -> tuple[list[int], list[float]]:
    kept = [lump for lump in lumps if lump[1] > 0]
    return [value for value, _ in kept], [share for _, share in kept]


def _moments(values: Sequence[int], shares: Sequence[float]) -> tuple[float, float]:
    """Give mean and variance of values with their shares, which add up to anything."""
    total, first = math.fsum(shares), values[0]
    # Reckoned from the first value, so that nothing large cancels.
    above = [float(value - first) for value in values]
    weighed = list(map(operator.mul, above, shares))
    mean = math.fsum(weighed) / total
    variance = math.fsum(map(operator.mul, above, weighed)) / total - mean * mean
    return first + mean, max(variance, 0.0)
