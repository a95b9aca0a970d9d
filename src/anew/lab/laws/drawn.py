"""Laws of values that were drawn."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from anew.lab.laws.shapes import Law


class Drawn(Law):
    """What some drawn values tell of their law.

    Args:
        values: In order, in whole milliseconds; a list or an array, not empty.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Sequence[int]) -> None:
        self._values = values
        self.earliest_ms, self.latest_ms = int(values[0]), int(values[-1])
        self.mean_ms, self.sd_ms = mean_and_sd(values)

    def below(self, ms: float) -> float:
        """Give the share of values below ``ms``."""
        return bisect_left(self._values, ms) / len(self._values)

    def percentile(self, percent: float) -> int:
        """Give the lowest value that at least so many percent of all values do not exceed."""
        return nearest_rank(self._values, percent)


def mean_and_sd(values: Sequence[int]) -> tuple[float, float]:
    """Give mean and standard deviation of some values, in a list or in an array."""
    array: Any = values
    if hasattr(array, "mean"):
        return float(array.mean()), float(array.std())
    return statistics.fmean(values), statistics.pstdev(values)


def nearest_rank(ordered: Sequence[int], percent: float) -> int:
    """Give the lowest of some values that so many percent of them do not exceed."""
    return int(ordered[max(math.ceil(len(ordered) * percent / 100 - 1e-9) - 1, 0)])
