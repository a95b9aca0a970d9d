"""Plain counters of what the engine has done, read by the metrics page."""

from __future__ import annotations

from bisect import bisect_left

from msgspec import Struct, field
from msgspec.structs import replace

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


class Stats(Struct):
    """What has happened since the start."""

    enqueued: int = 0
    taken: int = 0
    completed: int = 0
    failed: int = 0
    died: int = 0
    corrupt: int = 0
    released: int = 0
    lapsed: int = 0
    expired: int = 0
    promoted: int = 0
    reaped: int = 0
    stale: int = 0
    retries: list[int] = field(default_factory=lambda: [0] * (MOST_ATTEMPTS + 1))
    batch_size: Histogram = field(default_factory=lambda: Histogram(BATCH_BOUNDS))
    commit_ms: Histogram = field(default_factory=lambda: Histogram(COMMIT_BOUNDS_MS))

    def count_retry(self, attempt: int) -> None:
        """Count one retry that an attempt's failure has led to."""
        self.retries[min(attempt, MOST_ATTEMPTS)] += 1

    def mark(self) -> Stats:
        """Give what `reset` needs to forget what is counted from here on; the histograms are shared, and stay counted."""
        return replace(self, retries=self.retries.copy())

    def reset(self, mark: Stats) -> None:
        """Forget what was counted since a mark, because it did not last."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(mark, name))
