"""What has happened among topics, counted in the store, since several processes deliver: one row a counter and its label.

Histograms are counters too, one a bucket, and one for the sum.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

from anew.engine.batch import Batch

SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30)
"""Upper bounds of the buckets of an attempt's duration."""

LATENCIES: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200, 86_400)
"""Upper bounds of the buckets of the time from publication to delivery, seconds."""

RETRIES: Final = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 100)
"""Upper bounds of the buckets of how many retries a delivery has needed."""

SUM: Final = "sum"
MOST_TOPICS: Final = 500
"""Topics with a label of their own."""


class Tally:
    """Counts of one transaction, written at its end."""

    def __init__(self) -> None:
        self._found: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, *labels: str, by: int = 1) -> None:
        """Count something."""
        self._found[name, "\x1f".join(labels)] += by

    def observe(self, name: str, value: float, bounds: tuple[float, ...]) -> None:
        """Count a value in its bucket; the sum is kept in thousandths."""
        self.add(name, str(bisect_left(bounds, value)))
        self.add(name, SUM, by=round(value * 1_000))

    def write(self, batch: Batch) -> None:
        """Add what was counted to what is stored."""
        if self._found:
            batch.store.topics.count([(*key, n) for key, n in self._found.items()])
            self._found.clear()
