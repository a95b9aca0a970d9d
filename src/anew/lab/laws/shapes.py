"""Laws of a number of whole milliseconds: what all can tell.

All answer the same questions (mean, standard deviation, percentiles, share up to a value). Waits are cut down to
whole milliseconds, and so are the answers: the mean of "anything in [0, 10 ms)" is 4.5 ms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

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
    """What is known of a number of milliseconds beforehand.

    Args:
        earliest_ms: The lowest value.
        latest_ms: The highest value.
        mean_ms: The expected value.
        sd_ms: The standard deviation.
    """

    __slots__ = ("earliest_ms", "latest_ms", "mean_ms", "sd_ms")

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
        low, high = self.earliest_ms - 1, self.latest_ms
        # A share such as 0.05 has no exact binary form: without leave for the last bits, a step may be missed.
        share = percent / 100 - 1e-12
        while high - low > 1:
            middle = (low + high) // 2
            if self.cdf(middle) >= share:
                high = middle
            else:
                low = middle
        return high


def mixed(parts: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """Give mean and standard deviation of a mixture of parts: weight, mean and variance of each."""
    known = list(parts)
    mean = math.fsum(weight * value for weight, value, _ in known)
    variance = math.fsum(weight * (spread + (value - mean) ** 2) for weight, value, spread in known)
    return mean, math.sqrt(max(variance, 0.0))
