"""What the browser draws, as plain data: points, bins and colours, no more of them than a screen can show."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from anew.lab.charts.colours import (
    POLICY_COLOURS,
    POLICY_COLOURS_DARK,
    RETRY_COLOURS_DARK,
    RETRY_COLOURS_LIGHT,
)
from anew.lab.charts.waves import ABSENT, tally
from anew.units import SECOND_MS
from anew.web.cards import LETTERS
from anew.web.herds import DOTS, Herd, Seconds, greatest, least

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


def curves(herds: Sequence[Herd]) -> list[dict[str, Any]]:
    """Give each policy's waits, retry by retry; None where they cannot be told beforehand."""
    return [
        {
            "key": herd.key,
            "label": herd.label,
            "nominal": [row.nominal_ms for row in herd.explained.rows],
            "earliest": [row.earliest_ms for row in herd.explained.rows],
            "latest": [row.latest_ms for row in herd.explained.rows],
        }
        for herd in herds
    ]


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


def edges(first: int, last: int, bins: int, *, log: bool) -> list[float]:
    """Give where bins of time begin and end."""
    if log:
        return [first * (last / first) ** (place / bins) for place in range(bins + 1)]
    return [last * place / bins for place in range(bins + 1)]


def dots(herd: Herd, until_ms: int) -> list[list[int]]:
    """Give the retries of the first jobs, a list for each job, up to an instant."""
    jobs = min(len(herd.waves[0]), DOTS) if herd.waves else 0
    columns = [[int(ms) for ms in wave[:jobs]] for wave in herd.waves]
    return [
        [column[job] for column in columns if column[job] != ABSENT and column[job] <= until_ms]
        for job in range(jobs)
    ]


def heat(herd: Herd, bounds: Sequence[float], *, log: bool) -> list[list[int]]:
    """Count the retries in each bin of time, a row for each retry; what lies behind the last bin is left out.

    Args:
        herd: The herd.
        bounds: As `edges` gives them.
        log: They are equally far apart on an axis of powers.
    """
    if not herd.waves:
        return []
    if isinstance(herd.waves[0], list):
        # The outermost bins of a tally also take what lies beyond them: one more at the end takes it instead.
        wide = [*bounds, float("inf")]
        return [tally(wave, wide, None, 1)[0][:-1] for wave in herd.waves]
    import numpy as np

    bins, rows = len(bounds) - 1, len(herd.waves)
    table = np.stack(herd.waves)
    if log:
        # The first bin also takes what comes before it: an axis of powers has no place for 0.
        places = np.log(np.maximum(table, bounds[0]) / bounds[0]) * (bins / math.log(bounds[-1] / bounds[0]))
    else:
        places = table * (bins / bounds[-1])
    # The last instant closes the last bin.
    places[table == round(bounds[-1])] = bins - 0.5
    inside = (table != ABSENT) & (places >= 0) & (places < bins)
    numbers = places.astype(np.int64) + np.arange(rows)[:, None] * bins
    counted: list[list[int]] = (
        np.bincount(numbers[inside], minlength=rows * bins).reshape(rows, bins).tolist()
    )
    return counted


def load_edges(first: int, last: int, *, log: bool) -> list[float]:
    """Give where bins for calls per second begin and end: on whole seconds, so that each is a second or more.

    A rate that is counted over less makes a crowd out of a few calls in the same millisecond. Where all is over within a
    second, tenths of that time take its place.

    Args:
        first: Where an axis of powers begins; it has no place for 0, so its first bin is drawn from there and reaches back
            to 0 all the same.
        last: What lies at or before it is in a bin.
        log: The bins are equally far apart on an axis of powers, as far as whole seconds allow.
    """
    unit = SECOND_MS if last >= SECOND_MS else max(-(-last // 10), 1)
    end = (last // unit + 1) * unit
    if not log:
        width = -(-end // (BINS * unit)) * unit
        return [float(place * width) for place in range(-(-end // width) + 1)]
    inner = {math.ceil(bound / unit) * unit for bound in edges(first, last, BINS, log=True)}
    bounds = [*map(float, sorted(bound for bound in inner if bound < end)), float(end)]
    if len(bounds) > 2 and end - bounds[-2] < (bounds[-2] - bounds[-3]) / 2:
        # The instant after the last call would be a bin of its own, far narrower than those before.
        del bounds[-2]
    return bounds if first >= unit and len(bounds) > 1 else [bounds[0] / 2, *bounds]


def load_counts(herd: Herd, bounds: Sequence[float]) -> list[int]:
    """Count all of a herd's retries between bounds; the first bin reaches back to 0, what lies behind the last is left out."""
    if any(bound % SECOND_MS for bound in bounds[1:]):
        rows = [tally(wave, [*bounds, math.inf], None, 1)[0][:-1] for wave in herd.waves]
        return [sum(column) for column in zip(*rows, strict=True)]
    before = _before(herd.seconds, [round(bound) // SECOND_MS for bound in bounds[1:]])
    return [after - until for until, after in pairwise([0, *before])]


def _before(seconds: Seconds, marks: Sequence[int]) -> list[int]:
    """Tell how many calls come before each of some seconds."""
    if isinstance(seconds, list):
        return [bisect_left(seconds, mark) for mark in marks]
    import numpy as np

    # Of the same type, lest the whole array be copied to be compared.
    found: list[int] = seconds.searchsorted(np.asarray(marks, dtype=seconds.dtype)).tolist()
    return found


def rates(counts: Sequence[int], bounds: Sequence[float]) -> list[float]:
    """Give calls per second in each bin; the first reaches back to 0."""
    return [
        round(count * 1_000 / (high - low), 6) if high > low else 0.0
        for count, low, high in zip(counts, [0.0, *bounds[1:]], bounds[1:], strict=False)
    ]


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
    margin = max((high - low) // 20, 1)
    if log:
        bounds = edges(max(low, high // 1_000_000, 1), high * 2, HISTOGRAM_BINS, log=True)
    else:
        first = max(low - margin, 0)
        bounds = [
            first + (high + margin - first) * place / HISTOGRAM_BINS for place in range(HISTOGRAM_BINS + 1)
        ]
    lines = []
    for key, waits in drawn.items():
        (counts,) = tally(waits, bounds, None, 1)
        lines.append({"key": key, "shares": [round(count / len(waits), 6) for count in counts]})
    return {"edges": bounds, "lines": lines, "log": log}
