"""How evenly a herd that fails together, and at every retry, comes back, and what that costs in deviation. Needs NumPy.

Instants are whole milliseconds after the first failure, of shape (retries, jobs). The load is measured in operational time, a
clock that turns the falling retry rate of any policy into a flat one. Let C_k be the sum of the first k mean waits. The
clock is the monotone cubic through (C_k, k), k = 0 ... K, that goes on in a straight line. At the instant t the herd has
come M(t) *gaps* far: in each gap every job retries about once, early and late, on any curve. A herd is compared with
the *trend*: what the same policy's herd makes on average over one gap. So waves and noise count, and a slow drift of the
whole does not.

What the figures mean and what known policies come to is in docs/evenness.md.

Source of the cubic: F. N. Fritsch, J. Butland, "A method for constructing local monotone piecewise cubic
interpolants", SIAM J. Sci. Stat. Comput. 5, 1984 (weighted harmonic mean of the slopes on either side). The first gap and
the last are never measured, so the slopes at the ends are simply those of the chords.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from anew.errors import InvalidInput
from anew.lab.vector import Floats, Millis


class Clock:
    """The operational time of one policy.

    Args:
        means_ms: The mean wait before each retry, the first retry first; each above 0, milliseconds.

    Raises:
        InvalidInput: A wait is not above 0: time stands still there, and has no inverse.
    """

    def __init__(self, means_ms: Sequence[float] | Floats) -> None:
        waits = np.asarray(means_ms, dtype=np.float64)
        if not (waits > 0).all():
            raise InvalidInput(
                "means_ms: a wait of nothing is not valid; expected mean waits above 0 ms", field="means_ms"
            )
        self.times_ms: Floats = np.concatenate(([0.0], np.cumsum(waits)))
        """C_0 = 0 to C_K: when the average job makes its k-th retry, milliseconds."""
        before, after = waits[:-1], waits[1:]
        inner = 3 * (before + after) / ((2 * after + before) * before + (after + 2 * before) * after)
        slopes: Floats = np.concatenate((1 / waits[:1], inner, 1 / waits[-1:]))
        low, high = slopes[:-1], slopes[1:]
        # Hermite's cubic of each piece as powers of the time since its beginning; the last piece is the straight line.
        self._cubic: tuple[Floats, ...] = (
            slopes,
            np.append((3 / waits - 2 * low - high) / waits, 0.0),
            np.append((low + high - 2 / waits) / waits**2, 0.0),
        )

    @classmethod
    def of(cls, instants: Millis) -> Clock:
        """Build the clock of a large herd's policy."""
        # Sums of integers stay exact, so that a policy without jitter gets its own waits back to the bit.
        return cls(np.diff(instants.sum(axis=1) / instants.shape[1], prepend=0.0))

    def gaps(self, instants_ms: ArrayLike) -> Floats:
        """Give M(t), the operational time of instants in ms after the first failure, of the same shape."""
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


class Bins:
    """A gap is cut into bins; what a policy's herd makes on average of those from one gap to another is the trend.

    Args:
        clock: The policy's clock.
        herd: Instants of many jobs, independent of those that the clock is built of and of those that are measured.
        window: The first gap, and the gap after the last.
        each: Bins per gap, an even number.
    """

    def __init__(self, clock: Clock, herd: Millis, window: tuple[int, int], each: int) -> None:
        self._window, self._each = window, each
        counts = self._counts(clock.gaps(herd), 0, len(herd)) / herd.shape[1]
        # Over exactly one gap: half a gap before to half a gap after a bin's start.
        average = np.convolve(counts, np.full(each, 1 / each), "same")
        self.trend: Floats = average[window[0] * each : window[1] * each]
        """Expected retries per bin and job."""

    def counts(self, gaps: Floats) -> Floats:
        """Count a herd's retries, given in operational time."""
        return self._counts(gaps, *self._window)

    def _counts(self, gaps: Floats, first: int, end: int) -> Floats:
        places = np.floor((gaps.ravel() - first) * self._each).astype(np.int64)
        size = (end - first) * self._each
        inside = places[(places >= 0) & (places < size)]
        return np.bincount(inside, minlength=size).astype(np.float64)

    def load(self, gaps: Floats, jobs: int) -> tuple[float, float]:
        """Give the error of a herd's load and its peak.

        Returns:
            The rms difference of the counts from the trend, divided by the mean trend: a Poisson stream of N calls per gap
            has ``sqrt(each / N)``. And the largest count divided by the trend there.
        """
        counts, expected = self.counts(gaps), self.trend * jobs
        error = np.sqrt(np.mean((counts - expected) ** 2)) / expected.mean()
        return float(error), float(np.max(counts[expected > 0] / expected[expected > 0], initial=0.0))


def deviation(instants: Millis) -> float:
    """Give the standard deviation of a wait over the jobs, divided by its mean; averaged over the retries from the second on."""
    later = np.diff(instants, axis=0)
    mean = later.mean(axis=1)
    return float(np.mean(later.std(axis=1) / np.where(mean > 0, mean, 1.0))) if len(later) else 0.0
