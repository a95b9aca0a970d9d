"""Plain counters of what the engine has done, read by the metrics page."""

from __future__ import annotations

from bisect import bisect_left

BATCH_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
COMMIT_BOUNDS_MS = (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 250, 1_000)
MOST_ATTEMPTS = 26
"""Retries are counted by attempt up to this one; all later ones share the last counter."""


class Histogram:
    """Counts of values up to each bound, with their sum.

    Args:
        bounds: Upper bounds in rising order; one more bucket takes what lies above.
    """

    __slots__ = ("bounds", "buckets", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.total += value
        self.buckets[bisect_left(self.bounds, value)] += 1


class Stats:
    """What has happened since the start."""

    __slots__ = (
        "batch_size",
        "commit_ms",
        "completed",
        "corrupt",
        "died",
        "enqueued",
        "expired",
        "failed",
        "lapsed",
        "promoted",
        "reaped",
        "released",
        "retries",
        "stale",
        "taken",
    )

    def __init__(self) -> None:
        self.enqueued = 0
        self.taken = 0
        self.completed = 0
        self.failed = 0
        self.died = 0
        self.corrupt = 0
        self.released = 0
        self.lapsed = 0
        self.expired = 0
        self.promoted = 0
        self.reaped = 0
        self.stale = 0
        self.retries = [0] * (MOST_ATTEMPTS + 1)
        self.batch_size = Histogram(BATCH_BOUNDS)
        self.commit_ms = Histogram(COMMIT_BOUNDS_MS)

    def count_retry(self, attempt: int) -> None:
        """Count one retry that an attempt's failure has led to."""
        self.retries[min(attempt, MOST_ATTEMPTS)] += 1

    def mark(self) -> tuple[int, ...]:
        """Give what `reset` needs to forget what is counted from here on; commits and batch sizes stay counted."""
        return (
            self.enqueued,
            self.taken,
            self.completed,
            self.failed,
            self.died,
            self.released,
            self.promoted,
            self.reaped,
            self.corrupt,
            self.lapsed,
            self.expired,
            self.stale,
            *self.retries,
        )

    def reset(self, mark: tuple[int, ...]) -> None:
        """Forget what was counted since a mark, because it did not last."""
        self.enqueued, self.taken, self.completed, self.failed = mark[:4]
        self.died, self.released, self.promoted, self.reaped, self.corrupt, self.lapsed = mark[4:10]
        self.expired, self.stale = mark[10:12]
        self.retries[:] = mark[12:]
