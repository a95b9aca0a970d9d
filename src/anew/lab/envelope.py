"""Operational time: a clock that turns the falling retry rate of any policy into a flat one. Needs NumPy.

Let C_k be the sum of the first k mean waits. The envelope M is the monotone cubic through (C_k, k), k = 0 ... K, that
goes on in a straight line. At the instant t the herd has come M(t) *gaps* far: in each gap every job retries about
once, early and late, on any curve, so that figures taken over gaps can be compared.

Source of the cubic: F. N. Fritsch, J. Butland, "A method for constructing local monotone piecewise cubic
interpolants", SIAM J. Sci. Stat. Comput. 5, 1984 (weighted harmonic mean of the slopes on either side; one-sided
three-point slopes at the ends, held back where they would break the monotony).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anew.errors import InvalidInput

Floats: TypeAlias = NDArray[np.float64]
Millis: TypeAlias = NDArray[np.int64]


class Envelope:
    """The smooth clock of one policy.

    Args:
        means_ms: The mean wait before each retry, the first retry first; each above 0, milliseconds.

    Raises:
        InvalidInput: There is no wait, or one is not above 0: time stands still there, and has no inverse.
    """

    __slots__ = ("_cubic", "retries", "slopes", "times_ms")

    def __init__(self, means_ms: Sequence[float] | Floats) -> None:
        waits = [float(wait) for wait in means_ms]
        if not waits:
            raise InvalidInput("means_ms: 0 waits are not valid; expected at least 1", field="means_ms")
        for index, wait in enumerate(waits):
            if not (0 < wait < math.inf):
                field = f"means_ms[{index}]"
                raise InvalidInput(
                    f"{field}: {wait:g} is not valid; expected a mean wait above 0 ms",
                    field=field,
                    value=wait,
                )
        self.retries: int = len(waits)
        self.times_ms: Floats = np.concatenate(([0.0], np.cumsum(waits)))
        """C_0 = 0 to C_K: when the average job makes its k-th retry, milliseconds."""
        self.slopes: Floats = monotone_slopes(self.times_ms, np.arange(len(waits) + 1, dtype=np.float64))
        """The rate of the herd at each of these, gaps per millisecond."""
        width = np.diff(self.times_ms)
        low, high = self.slopes[:-1], self.slopes[1:]
        # Hermite's cubic of each piece as powers of the time since its beginning; the last piece is the straight line.
        self._cubic: tuple[Floats, ...] = (
            self.slopes,
            np.append((3 / width - 2 * low - high) / width, 0.0),
            np.append((low + high - 2 / width) / width**2, 0.0),
        )

    def gaps(self, instants_ms: ArrayLike) -> Floats:
        """Give M(t), the operational time of instants, of the same shape.

        Args:
            instants_ms: Milliseconds after the first failure, >= 0.
        """
        at = np.asarray(instants_ms, dtype=np.float64)
        piece = np.searchsorted(self.times_ms[1:], at, side="right")
        since = at - self.times_ms[piece]
        slope, square, cube = self._cubic
        gaps: Floats = cube[piece]
        for power in (square, slope):
            gaps *= since
            gaps += power[piece]
        gaps *= since
        gaps += piece
        return gaps


def monotone_slopes(x: Floats, y: Floats) -> Floats:
    """Give the slopes of the monotone cubic (PCHIP) at its points.

    Args:
        x: Strictly increasing, at least two.
        y: Values at them.
    """
    step = np.diff(x)
    rise = np.diff(y) / step
    if len(rise) == 1:
        return np.array([rise[0], rise[0]])
    slopes = np.zeros(len(x))
    before, after = rise[:-1], rise[1:]
    one_way = before * after > 0
    weight_before, weight_after = 2 * step[1:] + step[:-1], step[1:] + 2 * step[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (weight_before + weight_after) / (weight_before / before + weight_after / after)
    slopes[1:-1] = np.where(one_way, mean, 0.0)
    slopes[0] = _end_slope(step[0], step[1], rise[0], rise[1])
    slopes[-1] = _end_slope(step[-1], step[-2], rise[-1], rise[-2])
    return slopes


def _end_slope(near: float, far: float, rise: float, next_rise: float) -> float:
    slope = ((2 * near + far) * rise - near * next_rise) / (near + far)
    if slope * rise <= 0:
        return 0.0
    return 3 * rise if rise * next_rise <= 0 and abs(slope) > 3 * abs(rise) else slope


def mean_waits(blocks: Iterable[Millis]) -> Floats:
    """Give the mean wait before each retry of a herd that comes in blocks.

    Args:
        blocks: Instants, each of shape (retries, jobs), milliseconds.

    Returns:
        Milliseconds, one per retry.

    Raises:
        InvalidInput: There is no job.
    """
    total: Floats | None = None
    jobs = 0
    for block in blocks:
        # Sums of integers stay exact, so that a policy without jitter gets its own waits back to the bit.
        part = block.sum(axis=1).astype(np.float64)
        total = part if total is None else total + part
        jobs += block.shape[1]
    if total is None or not jobs:
        raise InvalidInput("blocks: 0 jobs are not valid; expected at least 1", field="blocks")
    return np.diff(total / jobs, prepend=0.0)
