"""A picture on matplotlib's axes. Imported only where figures are drawn.

Axes run from 0 to 1 and the values are placed by `Scale`, so that a figure has the ticks that the terminal has.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from statistics import median
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from anew.lab.charts.axes import (
    Scale,
    Tick,
    apart,
    band_name,
    band_places,
    band_scale,
    count_label,
    count_scale,
    count_ticks,
    herd_scale,
    load_scale,
    log_of,
    mean_label,
    outage_mark,
    retry_axis,
    retry_ticks,
    time_ticks,
    with_outage,
)
from anew.lab.charts.colours import policy_colour, retry_colours
from anew.lab.charts.pictures import Band, BandLine, Dots, Heat, Histogram, Load, Panel, Picture

_DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (1, 1.5)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1.5)),
    (0, (8, 1.5, 1, 1.5, 1, 1.5)),
)
_SINCE = "time since the first failure"

# ---- inches

_WIDTH: Final = 8.4
_DRAWN: Final = 7.3
"""What the axes side by side have of it, about, with `_BETWEEN` between them."""
_BETWEEN: Final = 0.75
_LETTER: Final = 0.078
"""A letter in the size of labels."""
_SEEN, _ASIDE = 0.8 / 72, 4 / 72
"""Of a load: the least height of a column with a call, and the distance from the axis to the first column."""


# ---- how figures look: a light and a dark ground, and axes without clutter


class Theme(NamedTuple):
    """The colours of everything that is no data."""

    ground: str
    ink: str
    faint: str
    grid: str
    dark: bool


LIGHT: Final = Theme(ground="#ffffff", ink="#1c2330", faint="#5d6675", grid="#e6e9ee", dark=False)
DARK: Final = Theme(ground="#14181d", ink="#e8ebf0", faint="#9aa4b2", grid="#2a3038", dark=True)


def settings(theme: Theme) -> Any:
    """Give what every figure sets, for as long as it is drawn: keys of matplotlib, which are a type of their own there."""
    ticks = {"color": theme.faint, "labelsize": 8.5, "major.size": 3, "major.width": 0.7}
    return {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 8.5,
        # Text stays text: it can be searched, copied and read aloud.
        "svg.fonttype": "none",
        # Names inside the file that would otherwise be drawn by lot.
        "svg.hashsalt": "anew",
        "path.simplify": False,
        # A dollar sign in a policy's name begins no formula.
        "text.parse_math": False,
        "text.color": theme.faint,
        "figure.facecolor": theme.ground,
        "axes.facecolor": theme.ground,
        "axes.edgecolor": theme.faint,
        "axes.labelcolor": theme.faint,
        "axes.linewidth": 0.7,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xaxis.labellocation": "right",
        **{f"{axis}tick.{key}": value for axis in "xy" for key, value in ticks.items()},
        "grid.color": theme.grid,
        "grid.linewidth": 0.7,
    }


class _Place(NamedTuple):
    """Where a panel stands: its axes, and about how many inches they have."""

    axes: Axes
    theme: Theme
    width: float
    height: float
    log: bool
    """Its axis of durations counts in powers."""
    last: bool
    """It stands in the lowest row, which names the axis below for all."""

    def frame(self, across: Sequence[Tick], up: Sequence[Tick], across_name: str, up_name: str) -> None:
        """Put ticks on both axes and name them where they are read: one at its right end, the other above it."""
        axes = self.axes
        axes.set_xlim(0.0, 1.0)
        axes.set_ylim(0.0, 1.0)
        axes.set_xticks([tick.place for tick in across], [tick.text for tick in across])
        axes.set_yticks([tick.place for tick in up], [tick.text for tick in up])
        axes.set_xlabel(across_name)
        self.above(0, up_name, 6, "left")

    def times(self, scale: Scale, outage_ms: int | None, *, exact: bool = False) -> list[Tick]:
        """Give the ticks of an axis of time, one of them where an outage ends."""
        ticks = time_ticks(scale, max(2, round(self.width / (1.04 if exact else 0.75))), exact=exact)
        return with_outage(ticks, outage_ms, scale, _LETTER / self.width)

    def above(self, x: float, text: str, points: float, side: str = "center", **style: Any) -> None:
        """Write a text above the axes, so many points from them."""
        self.axes.annotate(text, (x, 1), (0, points), textcoords="offset points", ha=side, **style)

    def mark_outage(self, mark: Tick | None, *, told: bool = True) -> None:
        """Shade the time until an outage's end, and say below the axis what it is; axes below each other need that once."""
        if mark is None:
            return
        self.axes.axvspan(0, mark.place, color=self.theme.faint, alpha=0.1, linewidth=0, zorder=0)
        if mark.place < 1:
            self.axes.axvline(
                mark.place, color=self.theme.ink, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1.5
            )
        if told:
            half = len(mark.text) / 2 * _LETTER / self.width
            side = "left" if mark.place < half else "right" if mark.place > 1 - half else "center"
            self.axes.annotate(
                mark.text, (mark.place, 0), (0, -18), textcoords="offset points",
                color=self.theme.ink, ha=side, va="top", annotation_clip=False,
            )  # fmt: skip
            # The axis' own name makes room.
            self.axes.xaxis.labelpad = 14


# ---- the sheet


def sheet_of(picture: Picture, theme: Theme) -> Figure:
    """Draw a picture: its title, its panels row by row, its caption."""
    # Each line of a load has axes of its own.
    parts = [
        (panel, line)
        for panel in picture.panels
        for line in range(len(panel.lines) if isinstance(panel, Load) else 1)
    ]
    across = max(1, min(picture.columns, len(parts)))
    rows = [parts[start : start + across] for start in range(0, len(parts), across)]
    heights = [max(_height(panel, alone=len(picture.panels) == 1) for panel, _ in row) for row in rows]
    size = (_WIDTH, 0.6 + sum(heights) + 0.75 * len(rows))
    sheet = Figure(size, layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.12))
    margin = {"x": 0.25 / _WIDTH, "ha": "left"}
    sheet.suptitle(picture.title, color=theme.ink, fontsize=12.5, fontweight="bold", **margin)
    sheet.supxlabel(picture.caption, fontsize=8.5, **margin)
    grid = sheet.subplots(len(rows), across, squeeze=False, height_ratios=heights)
    width, log = (_DRAWN - _BETWEEN * (across - 1)) / across, log_of(picture)
    for number, (row, height) in enumerate(zip(rows, heights, strict=True)):
        for axes, (panel, line) in zip(grid[number], row, strict=False):
            place = _Place(axes, theme, width, height, log, last=number == len(rows) - 1)
            _draw(panel, line, place, picture)
        for axes in grid[number][len(row) :]:
            axes.set_axis_off()
    return sheet


def _height(panel: Panel, *, alone: bool) -> float:
    match panel:
        case Band():
            return 4.0
        case Dots():
            return 3.8 if alone else 1.75
        case Heat():
            return 3.8 if alone else 2.6
        case Load():
            return 2.8 if len(panel.lines) == 1 else 1.1
    return 2.8


def _draw(panel: Panel, line: int, place: _Place, picture: Picture) -> None:
    if len(picture.panels) > 1 and not isinstance(panel, Band | Load):
        style: dict[str, Any] = {"color": place.theme.ink, "fontsize": 9.5, "fontweight": "bold"}
        place.axes.set_title(panel.label, loc="left", pad=18, **style)
    match panel:
        case Band():
            _band(panel, place)
        case Dots():
            _dots(panel, place)
        case Heat():
            _heat(panel, place, [one for one in picture.panels if isinstance(one, Heat)])
        case Histogram():
            _histogram(panel, place)
        case Load():
            _load(panel, line, place)


# ---- each kind of panel


def _band(band: Band, place: _Place) -> None:
    several = len(band.lines) > 1
    scale = band_scale(band, log=place.log)
    across, ticks = retry_axis(band, 12)
    ends = [
        _one_band(place, line, number, across, scale, several=several)
        for number, line in enumerate(band.lines)
    ]
    place.axes.grid(axis="y")
    place.frame(ticks, time_ticks(scale, 8), "retry", band_name(band))
    # A pinch of room, so that points on the frame are whole.
    place.axes.set_xlim(-0.012, 1.012)
    if several:
        _end_labels(place, [line.label for line in band.lines], ends)


def _one_band(
    place: _Place, line: BandLine, number: int, across: Scale, scale: Scale, *, several: bool
) -> tuple[float, float]:
    """Draw one policy; gives its last point."""
    marks = band_places(line, across, scale)
    if not marks:
        return 1.0, 0.0
    x, low, high, middles = ([mark[column] for mark in marks] for column in range(4))
    colour, dark = policy_colour(number, dark=place.theme.dark), place.theme.dark
    place.axes.fill_between(x, low, high, color=colour, alpha=0.32 if dark else 0.2, linewidth=0)
    place.axes.plot(
        x, middles, color=colour, linewidth=1.6, linestyle=_DASHES[number % len(_DASHES)] if several else "-",
        marker="o", markersize=3.2 if len(marks) <= 30 else 0.0, clip_on=False,
    )  # fmt: skip
    return x[-1], middles[-1]


def _end_labels(place: _Place, labels: Sequence[str], ends: Sequence[tuple[float, float]]) -> None:
    """Write each label where its line ends; those at the right edge apart from each other."""
    edge = sorted((n for n in range(len(labels)) if ends[n][0] > 0.85), key=lambda n: (-ends[n][1], n))
    heights = apart([ends[number][1] for number in edge], 0.17 / place.height)
    where = {number: (1.012, y) for number, y in zip(edge, heights, strict=True)}
    for number, label in enumerate(labels):
        place.axes.annotate(
            label, where.get(number, ends[number]), (8, 0), textcoords="offset points", fontsize=9,
            color=policy_colour(number, dark=place.theme.dark), va="center", fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def _dots(dots: Dots, place: _Place) -> None:
    jobs = len(dots.instants_ms)
    scale = herd_scale(dots, log=place.log)
    palette = retry_colours(dots.retries, dark=place.theme.dark)
    size = min(4.2, max(1.4, place.height * 72 / max(jobs, 1) * 1.7))
    free = -1.0
    for number in range(dots.retries):
        wave = [(scale.at(row[number]), job) for job, row in enumerate(dots.instants_ms) if len(row) > number]
        if not wave:
            break
        # Lines of hardly any length with round ends: in an SVG a path of many dots is half as long as a mark for each.
        x = [at for instant, _ in wave for at in (instant, instant + 1e-5, nan)]
        y = [1 - (job + 0.5) / jobs for _, job in wave for _ in range(3)]
        place.axes.plot(
            x, y, color=palette[number], linewidth=size, solid_capstyle="round", snap=False, clip_on=False
        )
        middle = median(at for at, _ in wave)
        if middle >= free:
            place.above(middle, str(number + 1), 4, color=palette[number], fontweight="bold")
            free = middle + (len(str(number + 1)) + 0.5) * _LETTER / place.width
    place.axes.grid(axis="x")
    up = [Tick(1 - 0.5 / jobs, "job 1")] + ([Tick(0.5 / jobs, f"{jobs:,}")] if jobs > 1 else [])
    place.frame(place.times(scale, dots.outage_ms), up, _SINCE if place.last else "", "")
    place.axes.tick_params(axis="y", length=0)
    place.mark_outage(outage_mark(dots.outage_ms, scale))


def _heat(heat: Heat, place: _Place, peers: Sequence[Heat]) -> None:
    import numpy as np

    rows = len(heat.counts)
    # Heats have one measure of strength.
    own, most = (max(max(row) for one in some for row in one.counts) or 1 for some in ([heat], peers))
    cells = np.zeros((rows, len(heat.counts[0]), 4))
    cells[:, :, :3] = [[to_rgb(colour)] for colour in retry_colours(rows, dark=place.theme.dark)]
    # The square root keeps what is rare in sight.
    share = np.sqrt(np.asarray(heat.counts) / most)
    cells[:, :, 3] = np.where(share > 0, 0.2 + 0.8 * share, 0.0)
    place.axes.imshow(cells, extent=(0, 1, 0, 1), aspect="auto", interpolation="nearest")
    scale = Scale(heat.edges_ms[0], heat.edges_ms[-1], heat.log)
    up = [Tick(1 - (n - 0.5) / rows, str(n)) for n in retry_ticks(rows, 14)]
    place.frame(place.times(scale, heat.outage_ms), up, _SINCE if place.last else "", "retry")
    place.above(1, f"at most {count_label(own)} of {count_label(heat.jobs)} jobs in one cell", 6, "right")
    place.mark_outage(outage_mark(heat.outage_ms, scale))


def _histogram(histogram: Histogram, place: _Place) -> None:
    scale = Scale(histogram.edges_ms[0], histogram.edges_ms[-1])
    peak = count_scale([max(histogram.counts, default=0) * 1.05])
    edges = [scale.at(edge) for edge in histogram.edges_ms]
    heights = [peak.at(count) for count in histogram.counts]
    colour = policy_colour(0, dark=place.theme.dark)
    place.axes.stairs(heights, edges, fill=True, color=colour, linewidth=0)
    place.axes.grid(axis="y")
    place.frame(
        time_ticks(scale, 9),
        [Tick(peak.at(n), count_label(n)) for n in count_ticks(peak, 5)],
        f"wait before retry {histogram.retry}",
        f"of {count_label(histogram.jobs)} waits",
    )
    mean = scale.at(histogram.mean_ms)
    place.axes.axvline(mean, color=place.theme.ink, linewidth=1)
    place.above(mean, f"mean {mean_label(histogram.mean_ms)}", 4, color=place.theme.ink)


def _load(load: Load, number: int, place: _Place) -> None:
    line, colour = load.lines[number], policy_colour(number, dark=place.theme.dark)
    peak = count_scale([max(line.peak for line in load.lines) * 1.08])
    scale, later = load_scale(load), load.edges_ms[0] > 0
    edges = [scale.at(edge) for edge in load.edges_ms]
    # A gap where nobody calls: an outline would be there, too.
    heights = [max(peak.at(count), _SEEN / place.height) if count else nan for count in line.heights]
    place.axes.stairs(heights, edges, fill=True, facecolor=colour, edgecolor=colour, linewidth=0.3)
    place.axes.grid(axis="y")
    place.frame(
        place.times(scale, load.outage_ms, exact=later),
        [Tick(peak.at(n), count_label(n)) for n in count_ticks(peak, 6 if len(load.lines) == 1 else 5)],
        _SINCE if place.last else "",
        "calls a second" if number == 0 else "",
    )
    place.axes.tick_params(labelbottom=place.last)
    place.axes.set_xlim(-_ASIDE / place.width, 1.0)
    place.mark_outage(outage_mark(load.outage_ms, scale), told=place.last)
    most = f"{line.label}: at most {count_label(line.peak)}"
    place.above(1, most, 4, "right", color=colour, fontsize=9, fontweight="bold")
