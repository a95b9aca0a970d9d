"""The figures of docs/evenness.md beside those that `anew.lab.evenness` has: pure functions of instants. Needs NumPy."""

import math
from typing import Final

import numpy as np

from anew.lab.evenness import Bins, Clock, deviation
from anew.lab.vector import Floats, Millis
from anew.units import HOUR_MS, MINUTE_MS, SECOND_MS

BINS: Final = (4, 16, 64, 256)
"""Bins per gap."""

_FINEST: Final = BINS[-1]


class Yardstick:
    """What the herds of one policy are held against: its clock, and its trend.

    Args:
        mean: Instants of a large herd; the clock is built of it.
        trend: Another one, independent of it and of what will be measured.
        window: First gap, and the gap after the last.
    """

    def __init__(self, mean: Millis, trend: Millis, window: tuple[int, int]) -> None:
        self.clock = Clock.of(mean)
        self.first, self.end = window
        self.bins = {each: Bins(self.clock, trend, window, each) for each in BINS}
        passed = np.concatenate(([0.0], np.cumsum(self.bins[_FINEST].trend)))
        self._passed: Floats = passed / passed[-1]
        self._share: Floats = np.diff(passed[::_FINEST])

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


def measure(instants: Millis, yardstick: Yardstick) -> dict[str, float]:
    """Measure one herd.

    Args:
        instants: Milliseconds after the first failure, shape (retries, jobs), growing from retry to retry.
        yardstick: Of the same policy and the same number of retries.

    Returns:
        What `deviations` gives, and by bins per gap B: ``cvB`` and ``pkB`` (error and peak of `Bins.load`), ``idleB`` (share of
        bins without any retry). ``disc``: mean over the gaps of the largest ``|share of the jobs seen in the gap's
        first part u - b u|``, where b is the share that the trend expects in the whole gap, close to 1. ``ks``:
        Kolmogorov-Smirnov distance of all instants in the window from the trend. ``empty_hours``: share of hours
        without a retry, from the first failure to the mean of the last retry but one. ``worst_second`` and
        ``worst_minute``: the largest count in one, divided by the jobs.
    """
    jobs = instants.shape[1]
    gaps = yardstick.clock.gaps(instants).ravel()
    found = deviations(instants)
    for each, bins in yardstick.bins.items():
        found[f"cv{each}"], found[f"pk{each}"] = bins.load(gaps, jobs)
        found[f"idle{each}"] = float(np.mean(bins.counts(gaps) == 0))
    found["disc"], found["ks"] = yardstick.distances(gaps, jobs)
    return found | {
        "empty_hours": empty_share(instants, HOUR_MS, float(yardstick.clock.times_ms[-2])),
        "worst_second": worst_bin(instants, SECOND_MS) / jobs,
        "worst_minute": worst_bin(instants, MINUTE_MS) / jobs,
    }


def deviations(instants: Millis) -> dict[str, float]:
    """Give what a policy costs in deviation; shares are fractions of 1.

    Returns:
        ``rsd``, see `deviation`; ``max``: the largest ``|wait / mean - 1|`` over jobs and k >= 2; ``window_rsd``: the
        standard deviation of a job's last instant, divided by its mean; ``shrink``: the share of consecutive waits of
        which the later one is shorter. With a single retry, whose wait alone is none of the later ones, all but the
        third are 0.
    """
    waits = np.diff(instants, axis=0, prepend=0)
    later, total = waits[1:], instants[-1]
    mean = later.mean(axis=1)[:, None]
    spread = {
        "max": float(np.max(np.abs(later - mean) / np.where(mean > 0, mean, 1.0), initial=0.0)),
        "shrink": float(np.mean(later < waits[:-1])) if len(later) else 0.0,
    }
    return {"rsd": deviation(instants), "window_rsd": _ratio(total.std(), total.mean())} | spread


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
