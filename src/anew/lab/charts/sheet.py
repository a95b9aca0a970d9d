"""A figure's sheet: where panels stand on it, and what several kinds of them draw alike. Needs matplotlib."""

from __future__ import annotations

from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anew.lab.charts.scales import Tick
from anew.lab.charts.theme import Theme

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
