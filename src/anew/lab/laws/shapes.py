"""Laws of a number of whole milliseconds: what all can tell, and those given by a function.

All answer the same questions (mean, standard deviation, percentiles, share up to a value). Waits are cut down to
whole milliseconds, and so are the answers: the mean of "anything in [0, 10 ms)" is 4.5 ms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

FEW: Final = 256
"""Below this many possible values, cutting to milliseconds is reckoned value by value; above, it takes half a
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

_EIGHTHS: Final = [((eighth + node) / 8, weight / 8) for eighth in range(8) for node, weight in GAUSS_3]
_EVEN: Final = 840


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

    def reached_by(self, percent: float) -> int:
        """Give the highest value that at least so many percent of all values reach or exceed.

        Where the law has no jumps, that is the percentile from the other end.

        Args:
            percent: 0 to 100; 100 gives the lowest value.
        """
        return self.percentile(100 - percent)

    def highest(self, percent: float) -> int:
        """Look for what `reached_by` gives between the lowest and the highest value: right for laws that jump, too."""
        low, high = self.earliest_ms, self.latest_ms + 1
        share = percent / 100 - 1e-12
        while high - low > 1:
            middle = (low + high) // 2
            if 1 - self.below(middle) >= share:
                low = middle
            else:
                high = middle
        return low


def mixed(parts: Iterable[tuple[float, float, float]]) -> tuple[float, float]:
    """Give mean and standard deviation of a mixture of parts: weight, mean and variance of each."""
    known = list(parts)
    mean = math.fsum(weight * value for weight, value, _ in known)
    variance = math.fsum(weight * (spread + (value - mean) ** 2) for weight, value, spread in known)
    return mean, math.sqrt(max(variance, 0.0))


class Function(Law):
    """The law of a function of one number anywhere in [0, 1) that never falls inside each of its parts; exact.

    Args:
        value: The function, in whole milliseconds.
        parts: Where its monotone parts begin and end, in order; the last one ends just below 1.
        mean_ms: Its expected value, if that is known more exactly than from samples.
        jumps: Whether it stands still but for jumps, as where the number throws a die.
    """

    __slots__ = ("_nudge", "_parts", "_value")

    def __init__(
        self,
        value: Callable[[float], float],
        parts: Sequence[tuple[float, float]],
        mean_ms: float | None = None,
        *,
        jumps: bool = False,
    ) -> None:
        self._value, self._parts = value, parts
        # A percentile may fall on a jump: then the lowest value is asked for, or the highest.
        self._nudge = 1e-12 if jumps else 0.0
        self.earliest_ms = int(min(value(low) for low, _ in parts))
        self.latest_ms = int(max(value(high) for _, high in parts))
        # Where it jumps, quadrature misses steps; this many points divide evenly into most dice's faces.
        nodes = [((index + 0.5) / _EVEN, 1 / _EVEN) for index in range(_EVEN)] if jumps else _EIGHTHS
        samples = [
            ((high - low) * weight, value(low + (high - low) * node), 0.0)
            for low, high in parts
            for node, weight in nodes
        ]
        mean, self.sd_ms = mixed(samples)
        self.mean_ms = mean if mean_ms is None else mean_ms

    def below(self, ms: float) -> float:
        """Give the share of values below ``ms``."""
        return sum(self._reached(low, high, ms) - low for low, high in self._parts)

    def _reached(self, low: float, high: float, ms: float) -> float:
        if self._value(low) >= ms:
            return low
        if self._value(high) < ms:
            return high
        while high - low > (self._nudge or 1e-9):
            middle = (low + high) / 2
            low, high = (middle, high) if self._value(middle) < ms else (low, middle)
        return high

    def percentile(self, percent: float) -> int:
        """Give the lowest value that at least so many percent of all values do not exceed."""
        if len(self._parts) == 1:
            return int(self._value(min(max(percent / 100 - self._nudge, 0.0), self._parts[0][1])))
        return super().percentile(percent)

    def reached_by(self, percent: float) -> int:
        """Give the highest value that at least so many percent of all values reach or exceed."""
        if len(self._parts) > 1 or not self._nudge:
            return self.percentile(100 - percent)
        return int(self._value(min(max(1 - percent / 100 + self._nudge, 0.0), self._parts[0][1])))
