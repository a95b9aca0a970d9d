"""What the browser draws, as plain data: points, bins and colours, no more of them than a screen can show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from anew.lab.charts import loads
from anew.lab.charts.bins import wait_edges
from anew.lab.charts.colours import RETRY_COLOURS_DARK, RETRY_COLOURS_LIGHT
from anew.lab.charts.data import band_line, bin_edges, line_words
from anew.lab.charts.pictures import Band
from anew.lab.waves import ABSENT, Wave, early, greatest, tally
from anew.units import MINUTE_MS, SECOND_MS
from anew.web.lab.herds import Drawn, Herd, least

BINS: Final = 240
HISTOGRAM_BINS: Final = 60
_FAR: Final = 30
"""Waits that differ by more than so many times are shown on an axis of powers, if one is wanted."""

COLOURS: Final = {"light": RETRY_COLOURS_LIGHT, "dark": RETRY_COLOURS_DARK}
"""Of the retries, by day and by night; the policies' own are in the style sheet."""


def curves(herds: Sequence[Herd]) -> dict[str, Any]:
    """Give each policy's waits, retry by retry, None where they cannot be told beforehand; and what the lines join."""
    lines = [band_line(herd.label, herd.explained.rows) for herd in herds]
    drawn = [
        {
            "key": herd.key,
            "label": line.label,
            "joins": line.line,
            "middle": [None if ms is None else round(ms) for ms in line.middles_ms],
            "nominal": [point.nominal_ms for point in line.points],
            "earliest": [point.earliest_ms for point in line.points],
            "latest": [point.latest_ms for point in line.points],
        }
        for herd, line in zip(herds, lines, strict=True)
    ]
    return {"curves": drawn, "line": line_words(Band(tuple(lines)))}


def span(drawn: Sequence[Drawn], until_ms: int | None) -> tuple[int, int]:
    """Give up to where an axis of time that counts in powers is even, and where every axis of time ends.

    It is even up to the first call but for a hundredth of the jobs, so that one early bird does not stretch it; and up to
    a second at least where there is more than a minute to show.
    """
    there = [one.waves for one in drawn if one.waves]
    # Where the first retries come at once, it is those that do not.
    first = min((next((ms for wave in waves if (ms := early(wave))), 1) for waves in there), default=1)
    last = max((greatest(wave) for waves in there for wave in waves), default=2)
    last = max(min(last, until_ms or last), 2)
    return min(max(first, SECOND_MS if last > MINUTE_MS else 1), last // 2), last


def dots(rows: Sequence[Sequence[int]], until_ms: int) -> list[list[int]]:
    """Give the retries of the first jobs, a list for each job, up to an instant."""
    return [[ms for ms in row if ms <= until_ms] for row in rows]


def heat(waves: Sequence[Wave], bounds: Sequence[float]) -> list[list[int]]:
    """Count the retries in each bin of time, a row for each retry; what lies behind the last bin is left out.

    Args:
        bounds: As `bin_edges` gives them: a bin ends just before the next one begins, the last one with its own end.
            What comes before the first counts to it.
    """
    # Instants are whole, and the end is one of them but for the rounding of a power.
    end = round(bounds[-1]) + 0.5
    if waves and isinstance(waves[0], list):
        # The outermost bins of a tally also take what lies beyond them: one more at the end takes it instead.
        return [tally(wave, [*bounds[:-1], end, math.inf])[:-1] for wave in waves]
    import numpy as np

    borders = np.array([ABSENT + 0.5, *bounds[1:-1], end])
    # In order the instants tell by themselves where each bin begins: faster than to ask each of many for its bin.
    return [np.diff(np.sort(wave).searchsorted(borders)).tolist() for wave in waves]


def load(
    drawn: Sequence[Drawn], span: tuple[int, int], values: Mapping[str, Any], *, log: bool
) -> dict[str, Any]:
    """Give the calls of each policy over time, in columns of whole seconds."""
    outage = values["outage"]
    edges = loads.edges(*span, log=log, outage_ms=outage)
    lines = []
    for one in drawn:
        if one.waves:
            peaks, means = loads.columns(one.seconds, edges)
            in_time = None if one.served is None else loads.columns(one.served, edges)[0]
            lines.append(
                {"key": one.key, "label": one.label, "peaks": peaks, "means": means, "served": in_time}
            )
    ends = [edge * SECOND_MS for edge in edges]
    return {"edges": ends, "lines": lines, "capacity": values["capacity"], "outage": outage}


def histograms(herds: Sequence[Herd], retry: int, *, log: bool) -> dict[str, Any]:
    """Give how one retry's waits are spread, in the same bins for all policies; shares of the jobs.

    Args:
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
        bounds = bounds if low else [0.0, *bounds[1:]]  # to no wait at all
    else:
        bounds = [max(edge, 0.0) for edge in wait_edges(list(drawn.values()), HISTOGRAM_BINS)]
    lines = []
    for key, waits in drawn.items():
        counts = tally(waits, bounds)
        lines.append({"key": key, "shares": [round(count / len(waits), 6) for count in counts]})
    return {"edges": bounds, "lines": lines, "log": log}
