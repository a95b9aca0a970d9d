"""Percentiles and medians of what was measured. Pure."""

from collections.abc import Sequence
from typing import Any


def percentile(ordered: Sequence[int], share: float) -> int:
    """Tell the value at a share of a sorted sequence, by nearest rank from below.

    Args:
        ordered: Values in rising order; an empty sequence gives 0.
        share: From 0 (the least) to 1 (the greatest).
    """
    return ordered[int(share * (len(ordered) - 1))] if ordered else 0


def latencies(samples_ns: list[int]) -> dict[str, float]:
    """Sum up latencies: nanoseconds in; `p50_ms`, `p99_ms` and `max_ms` out."""
    ordered = sorted(samples_ns)
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
    return {name: round(percentile(ordered, share) / 1e6, 3) for name, share in shares.items()}


def median_row(rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """Pick the row whose `key` is the median (the lower of two), so that all its figures are of one run."""
    return sorted(rows, key=lambda row: row[key])[(len(rows) - 1) // 2]


def ratio(ours: float, theirs: float | None) -> str:
    """Write ours / theirs with two digits, or a dash where there is nothing to divide by."""
    return f"{ours / theirs:.2f}" if theirs else "-"
