"""Each kind of panel on matplotlib's axes. Imported only where figures are drawn.

Axes run from 0 to 1 and the values are placed by `Scale`, so that a figure has the ticks that the terminal has.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from statistics import median
from typing import Any, assert_never

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from anew.lab.charts.axes import (
    Scale,
    count_label,
    count_scale,
    count_ticks,
    mean_label,
    retry_ticks,
)
from anew.lab.charts.colours import policy_colour, retry_colours
from anew.lab.charts.pictures import Band, BandLine, Dots, Heat, Histogram, Load, Panel
from anew.lab.charts.scales import (
    Tick,
    band_name,
    band_scale,
    herd_scale,
    load_scale,
    outage_mark,
    time_ticks,
    with_outage,
)
from anew.lab.charts.sheet import LETTER, Box, Theme, bare, mark, mark_outage, name

_DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (1, 1.5)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1.5)),
    (0, (8, 1.5, 1, 1.5, 1, 1.5)),
)
_SINCE = "time since the first failure"
_FRINGE = 1.03
"""How far the text of a tick may reach beyond an axis, in lengths of the axis."""

_SEEN, _ASIDE = 0.8 / 72, 4 / 72
"""Inches of a load: the least height of a column with a call, and the distance from the axis to the first column."""


def plot(
    sheet: Figure,
    panel: Panel,
    box: Box,
    theme: Theme,
    *,
    log: bool,
    labelled: bool,
    last: bool,
    peers: Sequence[Panel],
) -> None:
    """Draw a panel.

    Args:
        sheet: The figure.
        panel: What to draw.
        box: Where.
        theme: The colours.
        log: The axis of durations counts in powers.
        labelled: The panel says whose it is.
        last: It stands in the lowest row, which names the axis below for all.
        peers: All panels of the picture: heats have one measure of strength.
    """
    label = "" if labelled is False or isinstance(panel, (Band, Load)) else panel.label
    if label:
        height = sheet.get_figheight()
        place = ((box.left) / sheet.get_figwidth(), (box.bottom + box.height + 0.22) / height)
        sheet.text(*place, label, color=theme.ink, fontsize=9.5, fontweight="bold", va="bottom")
    match panel:
        case Band():
            _band(sheet, panel, box, theme, log)
        case Dots():
            _dots(sheet, panel, box, theme, log, _SINCE if last else "")
        case Heat():
            heats = [one for one in peers if isinstance(one, Heat)]
            _heat(sheet, panel, box, theme, heats, last=last)
        case Histogram():
            _histogram(sheet, panel, box, theme)
        case Load():
            _load(sheet, panel, box, theme)
        case _:
            assert_never(panel)


def _band(sheet: Figure, band: Band, box: Box, theme: Theme, log: bool) -> None:
    several = len(band.lines) > 1
    margin = max(len(line.label) for line in band.lines) * LETTER + 0.1 if several else 0.0
    axes = box._replace(width=box.width - margin).axes(sheet)
    scale = band_scale(band, log=log)
    retries = max((len(line.points) for line in band.lines), default=1)
    across = Scale(1.0, float(max(retries, 2)))
    ends = [
        _one_band(axes, line, place, across, scale, theme, several=several)
        for place, line in enumerate(band.lines)
    ]
    bare(axes, theme)
    ticks = [Tick(across.at(n), str(n)) for n in retry_ticks(retries, 12)]
    mark(axes, ticks, time_ticks(scale, 8))
    name(axes, theme, "retry", band_name(band))
    # A pinch of room, so that points on the frame are whole.
    axes.set_xlim(-0.012, 1.012)
    if several:
        _end_labels(axes, theme, [line.label for line in band.lines], ends, box.height)


def _one_band(
    axes: Axes, line: BandLine, place: int, across: Scale, scale: Scale, theme: Theme, *, several: bool
) -> tuple[float, float]:
    """Draw one policy; gives its last point."""
    marks = [
        (across.at(point.retry), *(scale.at(ms) for ms in (point.earliest_ms, point.latest_ms, middle)))
        for point, middle in zip(line.points, line.middles_ms, strict=True)
        if point.earliest_ms is not None and point.latest_ms is not None and middle is not None
    ]
    if not marks:
        return 1.0, 0.0
    x, low, high, middles = ([mark[column] for mark in marks] for column in range(4))
    colour = policy_colour(place, dark=theme.dark)
    axes.fill_between(x, low, high, color=colour, alpha=0.32 if theme.dark else 0.2, linewidth=0)
    dashes = _DASHES[place % len(_DASHES)] if several else "-"
    dot = 3.2 if len(marks) <= 30 else 0.0
    axes.plot(
        x, middles, color=colour, linewidth=1.6, linestyle=dashes, marker="o", markersize=dot, clip_on=False
    )
    return x[-1], middles[-1]


def _end_labels(
    axes: Axes, theme: Theme, labels: Sequence[str], ends: Sequence[tuple[float, float]], height: float
) -> None:
    """Write each label where its line ends; those at the right edge apart from each other."""
    edge = sorted((n for n in range(len(labels)) if ends[n][0] > 0.85), key=lambda n: (-ends[n][1], n))
    heights = apart([ends[place][1] for place in edge], 0.17 / height)
    where = {place: (1.012, y) for place, y in zip(edge, heights, strict=True)}
    for place, label in enumerate(labels):
        axes.annotate(
            label, where.get(place, ends[place]), (8, 0), "data", "offset points",
            color=policy_colour(place, dark=theme.dark), fontsize=9, va="center", fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Give falling heights in [0, 1] at least a gap from each other, as near to the wanted ones as it goes."""
    found: list[float] = []
    for height in wanted:
        found.append(min(height, found[-1] - gap) if found else height)
    floor = 0.0
    for place in range(len(found) - 1, -1, -1):
        found[place] = max(found[place], floor)
        floor = found[place] + gap
    return found


def _dots(sheet: Figure, dots: Dots, box: Box, theme: Theme, log: bool, across: str) -> None:
    axes = box.axes(sheet)
    jobs = len(dots.instants_ms)
    scale = herd_scale(dots, log=log)
    palette = retry_colours(dots.retries, dark=theme.dark)
    size = max(1.5, min(14.0, (box.height * 72 / max(jobs, 1)) ** 2 * 2.2))
    free = -1.0
    for place in range(dots.retries):
        wave = [(scale.at(row[place]), job) for job, row in enumerate(dots.instants_ms) if len(row) > place]
        if not wave:
            break
        x = [at for at, _ in wave]
        y = [1 - (job + 0.5) / jobs for _, job in wave]
        axes.scatter(x, y, s=size, color=palette[place], linewidths=0, clip_on=False)
        middle = median(x)
        if middle >= free:
            axes.annotate(
                str(place + 1), (middle, 1), (0, 4), "data", "offset points",
                color=palette[place], fontsize=8.5, fontweight="bold", ha="center",
            )  # fmt: skip
            free = middle + (len(str(place + 1)) + 0.5) * LETTER / box.width
    bare(axes, theme, grid="x")
    up = [Tick(1 - 0.5 / jobs, "job 1")] + ([Tick(0.5 / jobs, f"{jobs:,}")] if jobs > 1 else [])
    ticks = time_ticks(scale, max(2, round(box.width / 0.75)))
    mark(axes, with_outage(ticks, dots.outage_ms, scale, LETTER / box.width), up)
    axes.tick_params(axis="y", length=0)
    name(axes, theme, across, "")
    mark_outage(axes, theme, outage_mark(dots.outage_ms, scale), box.width)


def _heat(sheet: Figure, heat: Heat, box: Box, theme: Theme, peers: Sequence[Heat], *, last: bool) -> None:
    import numpy as np

    axes = box.axes(sheet)
    rows = len(heat.counts)
    own, most = (max(max(row) for one in some for row in one.counts) or 1 for some in ([heat], peers))
    cells = np.zeros((rows, len(heat.counts[0]), 4))
    for row, (counts, colour) in enumerate(
        zip(heat.counts, retry_colours(rows, dark=theme.dark), strict=True)
    ):
        cells[row, :, :3] = to_rgb(colour)
        # The square root keeps what is rare in sight.
        share = np.sqrt(np.asarray(counts) / most)
        cells[row, :, 3] = np.where(share > 0, 0.2 + 0.8 * share, 0.0)
    axes.imshow(cells, extent=(0, 1, 0, 1), aspect="auto", interpolation="nearest")
    bare(axes, theme, grid="")
    scale = Scale(heat.edges_ms[0], heat.edges_ms[-1], heat.log)
    up = [Tick(1 - (n - 0.5) / rows, str(n)) for n in retry_ticks(rows, 14)]
    ticks = time_ticks(scale, max(2, round(box.width / 0.75)))
    mark(axes, with_outage(ticks, heat.outage_ms, scale, LETTER / box.width), up)
    together = f"at most {count_label(own)} of {count_label(heat.jobs)} jobs in one cell"
    axes.annotate(
        together,
        (1, 1),
        (0, 6),
        "axes fraction",
        "offset points",
        color=theme.faint,
        fontsize=8.5,
        ha="right",
    )
    name(axes, theme, _SINCE if last else "", "retry")
    mark_outage(axes, theme, outage_mark(heat.outage_ms, scale), box.width)


def _histogram(sheet: Figure, histogram: Histogram, box: Box, theme: Theme) -> None:
    axes = box.axes(sheet)
    scale = Scale(histogram.edges_ms[0], histogram.edges_ms[-1])
    peak = count_scale([max(histogram.counts, default=0) * 1.05])
    edges = [scale.at(edge) for edge in histogram.edges_ms]
    heights = [peak.at(count) for count in histogram.counts]
    axes.stairs(heights, edges, fill=True, color=policy_colour(0, dark=theme.dark), linewidth=0)
    bare(axes, theme)
    mark(axes, time_ticks(scale, 9), [Tick(peak.at(n), count_label(n)) for n in count_ticks(peak, 5)])
    name(axes, theme, f"wait before retry {histogram.retry}", f"of {count_label(histogram.jobs)} waits")
    mean = scale.at(histogram.mean_ms)
    axes.axvline(mean, color=theme.ink, linewidth=1)
    axes.annotate(
        f"mean {mean_label(histogram.mean_ms)}", (mean, 1), (0, 4), "data", "offset points",
        color=theme.ink, fontsize=8.5, ha="center",
    )  # fmt: skip


def _load(sheet: Figure, load: Load, box: Box, theme: Theme) -> None:
    peak = count_scale([max(line.peak for line in load.lines) * 1.08])
    scale, later = load_scale(load), load.edges_ms[0] > 0
    gap = 0.42 if len(load.lines) > 1 else 0.0
    height = (box.height - gap * (len(load.lines) - 1)) / len(load.lines)
    edges = [scale.at(edge) for edge in load.edges_ms]
    for place, line in enumerate(load.lines):
        bottom = box.bottom + box.height - height - place * (height + gap)
        axes = Box(box.left, bottom, box.width, height).axes(sheet)
        # A gap where nobody calls: an outline would be there, too.
        heights = [max(peak.at(count), _SEEN / height) if count else nan for count in line.heights]
        colour = policy_colour(place, dark=theme.dark)
        axes.stairs(heights, edges, fill=True, facecolor=colour, edgecolor=colour, linewidth=0.3)
        bare(axes, theme)
        last = place == len(load.lines) - 1
        times = time_ticks(scale, 7 if later else 10, exact=later)
        across = with_outage(times, load.outage_ms, scale, LETTER / box.width)
        mark(
            axes,
            across if last else [Tick(tick.place, "") for tick in across],
            [Tick(peak.at(n), count_label(n)) for n in count_ticks(peak, 6 if height > 1.1 else 5)],
        )
        axes.set_xlim(-_ASIDE / box.width, 1.0)
        name(axes, theme, _SINCE if last else "", "calls a second" if place == 0 else "")
        if across and across[-1].place + len(across[-1].text) / 2 * LETTER / box.width > _FRINGE:
            axes.get_xticklabels()[-1].set_horizontalalignment("right")
        mark_outage(axes, theme, outage_mark(load.outage_ms, scale), box.width, told=last)
        axes.annotate(
            f"{line.label}: at most {count_label(line.peak)}", (1, 1), (0, 4), "axes fraction",
            "offset points", color=colour, fontsize=9, fontweight="bold", ha="right",
        )  # fmt: skip
