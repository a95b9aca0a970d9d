"""Laws given by a table: windows side by side, each with its share."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from anew.lab.laws.pieces import Piece
from anew.lab.laws.shapes import Law, mixed


class Tabulated(Law):
    """A law given by windows that lie side by side: what quadrature, a chain or a sum of laws comes to.

    Args:
        windows: In the order of their values; one of no width is a single value. Weights add up to 1, or are made to.
        cut: Whether values are yet to be cut to whole milliseconds.
    """

    __slots__ = ("_highs", "_lows", "_shares")

    def __init__(self, windows: Iterable[Piece], *, cut: bool = True) -> None:
        kept = [piece for piece in windows if piece.weight > 0]
        total = math.fsum(piece.weight for piece in kept)
        self._lows = [piece.low for piece in kept]
        self._highs = [piece.high for piece in kept]
        self._shares = [0.0, *accumulate(piece.weight / total for piece in kept)]
        self.earliest_ms, self.latest_ms = math.floor(kept[0].low), math.floor(kept[-1].high)
        half = 0.5 if cut else 0.0
        self.mean_ms, self.sd_ms = mixed(
            (
                piece.weight / total,
                (piece.low + piece.high) / 2 - (half if piece.high > piece.low else 0.0),
                (piece.high - piece.low) ** 2 / 12,
            )
            for piece in kept
        )

    def below(self, ms: float) -> float:
        """Give the share of values below ``ms``."""
        index = bisect_left(self._highs, ms)
        if index == len(self._highs):
            return 1.0
        low, high, start = self._lows[index], self._highs[index], self._shares[index]
        if ms <= low:
            return start
        return start + (self._shares[index + 1] - start) * (ms - low) / (high - low)

    def percentile(self, percent: float) -> int:
        """Give the lowest value that at least so many percent of all values do not exceed."""
        share = percent / 100
        index = min(max(bisect_left(self._shares, share - 1e-12) - 1, 0), len(self._lows) - 1)
        start, end = self._shares[index], self._shares[index + 1]
        part = min(max((share - start) / (end - start), 0.0), 1.0)
        return math.floor(self._lows[index] + part * (self._highs[index] - self._lows[index]))


def tabled(values: Sequence[float], *, cut: bool = True, knots: int = 512) -> Tabulated:
    """Give the law of equally likely values, drawn out between neighbours.

    Args:
        values: In order.
        cut: Whether they are yet to be cut to whole milliseconds.
        knots: Windows at most.
    """
    count = len(values)
    every = max(1, count // knots)
    marks = [*range(0, count - 1, every), count - 1]
    if len(marks) == 1:
        return Tabulated([Piece(1.0, values[0], values[0])], cut=cut)
    return Tabulated([Piece(b - a, values[a], values[b]) for a, b in pairwise(marks)], cut=cut)
