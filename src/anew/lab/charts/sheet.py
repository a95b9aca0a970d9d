"""A figure's sheet: where panels stand on it, and what several kinds of them draw alike. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anew.lab.charts.scales import Tick

LETTER: Final = 0.078
"""Inches a letter takes, in the size of labels."""


class Box(NamedTuple):
    """Where a panel stands: inches from the sheet's left and bottom, and its size."""

    left: float
    bottom: float
    width: float
    height: float

    def axes(self, sheet: Figure) -> Axes:
        """Make axes there."""
        width, height = sheet.get_size_inches()
        return sheet.add_axes(
            (self.left / width, self.bottom / height, self.width / width, self.height / height)
        )


def mark_outage(axes: Axes, theme: Theme, mark: Tick | None, width: float, *, told: bool = True) -> None:
    """Shade the time until an outage's end, and say below the axis what it is.

    Args:
        axes: The axes, whose time runs from 0 to 1.
        theme: The colours.
        mark: Where the outage ends, and its name; None: there is none.
        width: The axes' width in inches.
        told: Its name is written; axes below each other need it once.
    """
    if mark is None:
        return
    axes.axvspan(0, mark.place, color=theme.faint, alpha=0.1, linewidth=0, zorder=0)
    if mark.place < 1:
        axes.axvline(mark.place, color=theme.ink, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1.5)
    if not told:
        return
    half = len(mark.text) / 2 * LETTER / width
    side = "left" if mark.place < half else "right" if mark.place > 1 - half else "center"
    axes.annotate(
        mark.text, (mark.place, 0), (0, -18), "data", "offset points",
        color=theme.ink, fontsize=8.5, ha=side, va="top", annotation_clip=False,
    )  # fmt: skip
    # The axis' own name makes room.
    axes.xaxis.labelpad = 14


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

SETTINGS: Final[Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    # Text stays text: it can be searched, copied and read aloud.
    "svg.fonttype": "none",
    # Names inside the file that would otherwise be drawn by lot.
    "svg.hashsalt": "anew",
    "path.simplify": False,
    # A dollar sign in a policy's name begins no formula.
    "text.parse_math": False,
}
"""What every figure sets, for as long as it is drawn: keys of matplotlib, which are a type of their own there."""


def bare(axes: Axes, theme: Theme, *, grid: str = "y") -> None:
    """Leave two quiet axes, and lines across to read values by.

    Args:
        axes: The axes.
        theme: The colours.
        grid: Which ticks get lines: ``x``, ``y`` or "" for none.
    """
    axes.set_facecolor(theme.ground)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(theme.faint)
        axes.spines[side].set_linewidth(0.7)
    axes.tick_params(colors=theme.faint, length=3, width=0.7, labelsize=8.5)
    axes.set_axisbelow(True)
    if grid == "y":
        axes.yaxis.grid(True, color=theme.grid, linewidth=0.7)
    elif grid == "x":
        axes.xaxis.grid(True, color=theme.grid, linewidth=0.7)


def mark(axes: Axes, across: Sequence[Tick], up: Sequence[Tick]) -> None:
    """Put ticks on both axes, whose values run from 0 to 1."""
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_xticks([tick.place for tick in across], [tick.text for tick in across])
    axes.set_yticks([tick.place for tick in up], [tick.text for tick in up])


def name(axes: Axes, theme: Theme, across: str, up: str) -> None:
    """Name the axes where they are read: the one at its right end, the other above it, nothing turned on its side."""
    axes.set_xlabel(across, loc="right", color=theme.faint, fontsize=8.5)
    if up:
        axes.annotate(
            up, (0, 1), (0, 6), "axes fraction", "offset points", color=theme.faint, fontsize=8.5, ha="left"
        )


def titled(figure: Figure, theme: Theme, title: str, caption: str, left: float) -> None:
    """Write a title above and a caption below.

    Args:
        figure: The figure.
        theme: The colours.
        title: In bold.
        caption: May be "".
        left: Where both begin, as a share of the figure's width.
    """
    height = figure.get_figheight()
    figure.text(left, 1 - 0.16 / height, title, color=theme.ink, fontsize=12.5, fontweight="bold", va="top")
    if caption:
        figure.text(left, 0.12 / height, caption, color=theme.faint, fontsize=8.5, va="bottom")
