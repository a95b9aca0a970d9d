"""How evenly a herd comes back, and what that costs in deviation: pure functions of instants. Needs NumPy.

Instants are whole milliseconds after the first failure, of shape (retries, jobs). All load figures are taken in
operational time (`anew.lab.envelope`): bins of 1/B gap inside a window of whole gaps that leaves the edges out.
They are compared with the *trend*: what the same policy's herd makes on average over one gap. So waves and noise
count, and a slow drift of the whole does not.

What they mean and what known policies come to is in docs/evenness.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import numpy as np

from anew.errors import InvalidInput
from anew.lab.envelope import Envelope, Floats, Millis, mean_waits
from anew.units import HOUR_MS, MINUTE_MS, SECOND_MS, refused, shown

BINS: Final = (4, 16, 64, 256)
"""Bins per gap; each divides the last."""

_FINEST: Final = BINS[-1]
_MAX_GAPS: Final = 10_000


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one herd. Shares are fractions of 1.

    Args:
        rsd: Standard deviation of a wait over the jobs, divided by its mean; averaged over the retries from k = 2 on.
        max: The largest ``|wait / mean - 1|`` over jobs and k >= 2.
        window_rsd: Standard deviation of a job's last instant, divided by its mean.
        shrink: Share of consecutive waits of which the later one is shorter.
        cv: By bins per gap B: rms difference of the counts in the bins from the trend, divided by the mean trend.
            A Poisson stream of N calls per gap has ``sqrt(B / N)``.
        peak: By B: the largest count divided by the trend there.
        idle: By B: share of bins without any retry.
        disc: Mean over the gaps of the largest ``|share of the jobs seen in the gap's first part u - b u|``, where b
            is the share that the trend expects in the whole gap, close to 1.
        ks: Kolmogorov-Smirnov distance of all instants in the window from the trend.
        empty_hours: Share of hours without a retry, from the first failure to the mean of the last retry but one.
        worst_second: The largest count in one second, divided by the jobs.
        worst_minute: The same for a minute.
    """

    rsd: float
    max: float
    window_rsd: float
    shrink: float
    cv: dict[int, float]
    peak: dict[int, float]
    idle: dict[int, float]
    disc: float
    ks: float
    empty_hours: float
    worst_second: float
    worst_minute: float

    def flat(self) -> dict[str, float]:
        """Give all figures under one name each: ``rsd``, ``cv16``, ``pk64``, ``idle16``, ..."""
        flat: dict[str, float] = {}
        for name, value in msgspec.structs.asdict(self).items():
            if isinstance(value, dict):
                flat |= {("pk" if name == "peak" else name) + str(bins): part for bins, part in value.items()}
            else:
                flat[name] = value
        return flat


class Yardstick:
    """What the herds of one policy are held against: its clock, and its trend.

    Args:
        envelope: The clock.
        trend_blocks: Instants of many jobs (200,000 are plenty), in blocks of shape (retries, jobs).
        window: First gap, and the gap after the last.

    Raises:
        InvalidInput: The window does not lie inside the retries, or a block has another number of retries.
    """

    __slots__ = ("_passed", "_share", "end", "envelope", "first", "trend")

    def __init__(self, envelope: Envelope, trend_blocks: Iterable[Millis], window: tuple[int, int]) -> None:
        self.envelope = envelope
        self.first, self.end = _window(window, envelope.retries)
        fine = np.zeros(envelope.retries * _FINEST)
        jobs = 0
        for block in trend_blocks:
            _check(block, envelope.retries)
            fine += _counts(envelope.gaps(block), 0, envelope.retries)
            jobs += block.shape[1]
        if not jobs:
            raise InvalidInput(
                "trend_blocks: 0 jobs are not valid; expected at least 1", field="trend_blocks"
            )
        fine /= jobs
        self.trend: dict[int, Floats] = {bins: self._smooth(_coarse(fine, bins), bins) for bins in BINS}
        """Expected retries per bin and job inside the window, by bins per gap."""
        passed = np.concatenate(([0.0], np.cumsum(self.trend[_FINEST])))
        self._passed: Floats = passed / passed[-1]
        self._share: Floats = np.diff(passed[::_FINEST])

    @classmethod
    def of(
        cls, mean_blocks: Iterable[Millis], trend_blocks: Iterable[Millis], window: tuple[int, int]
    ) -> Yardstick:
        """Build clock and trend from two large herds, independent of each other and of what will be measured."""
        return cls(Envelope(mean_waits(mean_blocks)), trend_blocks, window)

    def _smooth(self, counts: Floats, bins: int) -> Floats:
        """Average over exactly one gap: for an even number of bins, half a gap before to half a gap after its start."""
        average = np.convolve(counts, np.full(bins, 1 / bins), "same")
        return average[self.first * bins : self.end * bins]

    def counts(self, gaps: Floats) -> dict[int, Floats]:
        """Count a herd's retries, given in operational time, in the bins of the window, by bins per gap."""
        fine = _counts(gaps, self.first, self.end)
        return {bins: _coarse(fine, bins) for bins in BINS}

    def distances(self, gaps: Floats, jobs: int) -> tuple[float, float]:
        """Give ``disc`` and ``ks`` of a herd.

        Args:
            gaps: Its instants in operational time.
            jobs: How many jobs they are of.
        """
        inside = np.sort(gaps[(gaps >= self.first) & (gaps < self.end)])
        if not inside.size:
            return 1.0, 1.0
        edges = np.searchsorted(inside, np.arange(self.first, self.end + 1))
        parts = (
            _distance((inside[low:high] - gap) * share, jobs, share)
            for gap, low, high, share in zip(
                range(self.first, self.end), edges[:-1], edges[1:], self._share, strict=True
            )
        )
        grid = self.first + np.arange(len(self._passed)) / _FINEST
        ks = _distance(np.interp(inside, grid, self._passed), inside.size, 1.0)
        return math.fsum(parts) / (self.end - self.first), ks


def measure(instants: Millis, yardstick: Yardstick) -> Measures:
    """Measure one herd.

    Args:
        instants: Milliseconds after the first failure, shape (retries, jobs), growing from retry to retry.
        yardstick: Of the same policy and the same number of retries.

    Raises:
        InvalidInput: The instants do not have that shape.
    """
    _check(instants, yardstick.envelope.retries)
    jobs = instants.shape[1]
    gaps = yardstick.envelope.gaps(instants).ravel()
    counts = yardstick.counts(gaps)
    disc, ks = yardstick.distances(gaps, jobs)
    cv, peak, idle = {}, {}, {}
    for bins, count in counts.items():
        expected = yardstick.trend[bins] * jobs
        cv[bins] = float(np.sqrt(np.mean((count - expected) ** 2)) / expected.mean())
        peak[bins] = float(np.max(count[expected > 0] / expected[expected > 0], initial=0.0))
        idle[bins] = float(np.mean(count == 0))
    return Measures(
        **deviations(instants),
        cv=cv,
        peak=peak,
        idle=idle,
        disc=disc,
        ks=ks,
        empty_hours=empty_share(instants, HOUR_MS, float(yardstick.envelope.times_ms[-2])),
        worst_second=worst_bin(instants, SECOND_MS) / jobs,
        worst_minute=worst_bin(instants, MINUTE_MS) / jobs,
    )


def deviations(instants: Millis) -> dict[str, float]:
    """Give what a policy costs in deviation: ``rsd``, ``max``, ``window_rsd`` and ``shrink`` of `Measures`.

    With a single retry, whose wait alone is none of the later ones, the first two and the last are 0.
    """
    waits = np.diff(instants, axis=0, prepend=0)
    later = waits[1:]
    total = instants[-1]
    if not len(later):
        return {"rsd": 0.0, "max": 0.0, "window_rsd": _ratio(total.std(), total.mean()), "shrink": 0.0}
    mean = later.mean(axis=1)
    safe = np.where(mean > 0, mean, 1.0)
    return {
        "rsd": float(np.mean(later.std(axis=1) / safe)),
        "max": float(np.max(np.abs(later - mean[:, None]) / safe[:, None])),
        "window_rsd": _ratio(total.std(), total.mean()),
        "shrink": float(np.mean(later < waits[:-1])),
    }


def worst_bin(instants: Millis, bin_ms: int) -> int:
    """Give the largest number of retries in one bin of so many milliseconds, counted from the first failure."""
    bins = np.sort(instants.ravel()) // bin_ms
    edges = np.flatnonzero(np.diff(bins)) + 1
    return int(np.diff(edges, prepend=0, append=bins.size).max(initial=0))


def empty_share(instants: Millis, bin_ms: int, until_ms: float, *, closed: bool = False) -> float:
    """Give the share of bins without a retry between the first failure and an instant.

    Args:
        instants: Milliseconds.
        bin_ms: Width of a bin.
        until_ms: The end; the bin that it lies in counts as a whole one.
        closed: An instant exactly at the end belongs to the last bin; else it is left out.
    """
    bins = math.ceil(until_ms / bin_ms)
    if bins <= 0:
        return 0.0
    flat = instants.ravel()
    inside = flat[flat <= until_ms] if closed else flat[flat < until_ms]
    taken = np.unique(np.minimum(inside // bin_ms, bins - 1)).size
    return float(1 - taken / bins)


def longest_silence_ms(instants: Millis) -> int:
    """Give the longest time without any retry between the first failure and the last retry, in milliseconds."""
    return int(np.diff(np.sort(instants.ravel()), prepend=0).max(initial=0))


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _distance(places: Floats, total: float, end: float) -> float:
    """Give the largest difference between a straight line and the share of ``total`` that has come.

    Args:
        places: How far the line is when each comes, sorted.
        total: What their number is divided by.
        end: How far the line gets.
    """
    steps = np.arange(places.size + 1) / total
    above = np.max(steps[1:] - places, initial=0.0)
    below = np.max(places - steps[:-1], initial=0.0)
    return float(max(above, below, abs(end - steps[-1])))


def _counts(gaps: Floats, first: int, end: int) -> Floats:
    """Count operational times in the finest bins between two gaps."""
    places = np.floor((gaps.ravel() - first) * _FINEST).astype(np.int64)
    size = (end - first) * _FINEST
    inside = places[(places >= 0) & (places < size)]
    return np.bincount(inside, minlength=size).astype(np.float64)


def _coarse(fine: Floats, bins: int) -> Floats:
    coarse: Floats = fine.reshape(-1, _FINEST // bins).sum(axis=1)
    return coarse


def _window(window: tuple[int, int], retries: int) -> tuple[int, int]:
    first, end = window
    if not 0 <= first < end <= min(retries, _MAX_GAPS):
        expected = f"two whole numbers from 0 to the retries, which are {retries}, the first one lower"
        raise refused("window", window, expected)
    return first, end


def _check(instants: Any, retries: int) -> None:
    shape = getattr(instants, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != retries or shape[1] < 1:
        given = f"shape {shape}" if shape is not None else shown(instants)
        raise InvalidInput(
            f"instants: {given} is not valid; expected an array of {retries} retries by at least 1 job",
            field="instants",
            value=shape,
        )
    if instants.dtype.kind != "i" or (instants[0] < 0).any() or (np.diff(instants, axis=0) < 0).any():
        raise InvalidInput(
            "instants: they fall, are negative or no whole numbers; expected milliseconds that grow from retry to retry",
            field="instants",
        )
