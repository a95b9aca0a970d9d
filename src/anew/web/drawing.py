"""What the browser draws, as plain data: points, bins and colours, no more of them than a screen can show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from anew.lab.charts.bins import wait_edges
from anew.lab.charts.colours import (
    POLICY_COLOURS,
    POLICY_COLOURS_DARK,
    RETRY_COLOURS_DARK,
    RETRY_COLOURS_LIGHT,
)
from anew.lab.charts.data import band_line, bin_edges, line_words
from anew.lab.charts.link import LETTERS
from anew.lab.charts.pictures import Band, BandLine, BandPoint
from anew.lab.waves import ABSENT, greatest, tally
from anew.web.herds import DOTS, Herd, least

BINS: Final = 240
HISTOGRAM_BINS: Final = 60
_FAR: Final = 30
"""Waits that differ by more than so many times are shown on an axis of powers, if one is wanted."""

COLOURS: Final = {
    "light": {"retries": RETRY_COLOURS_LIGHT, "policies": dict(zip(LETTERS, POLICY_COLOURS, strict=False))},
    "dark": {
        "retries": RETRY_COLOURS_DARK,
        "policies": dict(zip(LETTERS, POLICY_COLOURS_DARK, strict=False)),
    },
}
"""What is drawn by day and by night; the style sheet has the policies' own colours too."""


def curves(lines: Mapping[str, BandLine]) -> dict[str, Any]:
    """Give each policy's waits, retry by retry, None where they cannot be told beforehand; and what the lines join."""
    drawn = [
        {
            "key": key,
            "label": line.label,
            "joins": line.line,
            "middle": [None if ms is None else round(ms) for ms in line.middles_ms],
            "nominal": [point.nominal_ms for point in line.points],
            "earliest": [point.earliest_ms for point in line.points],
            "latest": [point.latest_ms for point in line.points],
        }
        for key, line in lines.items()
    ]
    return {"curves": drawn, "line": line_words(Band(tuple(lines.values())))}


def line_of(herd: Herd) -> BandLine:
    """Give a policy's waits as the lab's charts have them."""
    points = tuple(
        BandPoint(row.retry, row.nominal_ms, row.earliest_ms, row.latest_ms, row.mean_ms)
        for row in herd.explained.rows
    )
    return band_line(herd.label, points)


def span(herds: Sequence[Herd], until_ms: int | None) -> tuple[int, int]:
    """Give where the time axis of all herds begins (on an axis of powers) and ends."""
    there = [herd for herd in herds if herd.waves]
    first, last = (
        min((one.early_ms for one in there), default=1),
        max((one.last_ms for one in there), default=2),
    )
    if until_ms:
        last = min(last, until_ms)
    last = max(last, 2)
    return min(first, max(last // 2, 1)), last


def dots(herd: Herd, until_ms: int) -> list[list[int]]:
    """Give the retries of the first jobs, a list for each job, up to an instant."""
    jobs = min(len(herd.waves[0]), DOTS) if herd.waves else 0
    columns = [[int(ms) for ms in wave[:jobs]] for wave in herd.waves]
    return [[ms for ms in row if ABSENT < ms <= until_ms] for row in zip(*columns, strict=True)]


def heat(herd: Herd, bounds: Sequence[float]) -> list[list[int]]:
    """Count the retries in each bin of time, a row for each retry; what lies behind the last bin is left out.

    Args:
        herd: The herd.
        bounds: As `bin_edges` gives them: a bin ends just before the next one begins, the last one with its own end.
            What comes before the first counts to it: an axis of powers has no place for 0.
    """
    if not herd.waves:
        return []
    # Instants are whole, and the end is one of them but for the rounding of a power.
    end = round(bounds[-1]) + 0.5
    if isinstance(herd.waves[0], list):
        # The outermost bins of a tally also take what lies beyond them: one more at the end takes it instead.
        return [tally(wave, [*bounds[:-1], end, math.inf], None, 1)[0][:-1] for wave in herd.waves]
    import numpy as np

    borders = np.array([ABSENT + 0.5, *bounds[1:-1], end])
    # In order the instants tell by themselves where each bin begins: faster than to ask each of many for its bin.
    table = np.sort(np.stack(herd.waves))
    counts: list[list[int]] = np.diff([calls.searchsorted(borders) for calls in table]).tolist()
    return counts


def histograms(herds: Sequence[Herd], retry: int, *, log: bool) -> dict[str, Any]:
    """Give how one retry's waits are spread, in the same bins for all policies; shares of the jobs.

    Args:
        herds: The herds.
        retry: Which retry.
        log: Bins of equal ratios, where the waits differ so much that equal ones would show nothing.
    """
    drawn = {herd.key: herd.waits(retry) for herd in herds if retry <= herd.retries}
    drawn = {key: waits for key, waits in drawn.items() if len(waits)}
    if not drawn:
        return {"edges": [], "lines": [], "log": False}
    low = min(least(waits) for waits in drawn.values())
    high = max(greatest(waits) for waits in drawn.values()) + 1
    log = log and high > _FAR * max(low, 1)
    if log:
        bounds: Sequence[float] = bin_edges(max(low, high // 1_000_000, 1), high * 2, HISTOGRAM_BINS, True)
    else:
        bounds = [max(edge, 0.0) for edge in wait_edges(list(drawn.values()), HISTOGRAM_BINS)]
    lines = []
    for key, waits in drawn.items():
        (counts,) = tally(waits, bounds, None, 1)
        lines.append({"key": key, "shares": [round(count / len(waits), 6) for count in counts]})
    return {"edges": bounds, "lines": lines, "log": log}
