"""A picture as a file: SVG or PNG, drawn by matplotlib, light or dark, byte for byte the same each time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

from anew.errors import NotSupported
from anew.lab.chance import has_numpy
from anew.lab.charts.pictures import Band, Dots, Heat, Histogram, Load, Panel, Picture
from anew.lab.charts.scales import log_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from anew.lab.charts.theme import Theme

_WIDTH: Final = 8.4
_DOTS_PER_INCH: Final = 150


def has_matplotlib() -> bool:
    """Tell whether figures can be drawn here: matplotlib draws them, and itself needs NumPy."""
    import importlib.util

    return has_numpy() and importlib.util.find_spec("matplotlib") is not None


def figure(picture: Picture, form: Literal["svg", "png"], *, dark: bool = False) -> bytes:
    """Draw a picture for a file.

    Args:
        picture: What to draw.
        form: ``svg`` or ``png``.
        dark: Light on a dark ground.

    Returns:
        The file's bytes; the same picture gives the same bytes with the same release of matplotlib.

    Raises:
        NotSupported: matplotlib is missing; says how to get it.
    """
    if not has_matplotlib():
        raise NotSupported("matplotlib is not installed, which draws the figures: pip install 'anew[lab]'")
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from anew.lab.charts.compact import compact
    from anew.lab.charts.theme import DARK, LIGHT, SETTINGS

    theme = DARK if dark else LIGHT
    with matplotlib.rc_context(SETTINGS):
        sheet = Figure(figsize=_size(picture), facecolor=theme.ground)
        FigureCanvasAgg(sheet)
        _compose(sheet, picture, theme)
        into = io.BytesIO()
        metadata: dict[str, Any] = {"Title": picture.title, "Creator": "anew lab"}
        if form == "svg":
            sheet.savefig(into, format="svg", facecolor=theme.ground, metadata=metadata | {"Date": None})
            return compact(into.getvalue().decode()).encode()
        told = {"Title": picture.title, "Software": None}
        sheet.savefig(into, format="png", dpi=_DOTS_PER_INCH, facecolor=theme.ground, metadata=told)
    return into.getvalue()


_TOP: Final = 0.62
_BOTTOM: Final = 0.62
_CAPTION: Final = 0.26
_MARGIN: Final = 0.25
_LEFT: Final = 0.8
_RIGHT: Final = 0.3
_BETWEEN: Final = (0.75, 0.92)
"""Inches between panels: across and down."""


def _panel_height(panel: Panel, alone: bool) -> float:
    match panel:
        case Band():
            return 4.0
        case Dots():
            return 3.8 if alone else 1.75
        case Heat():
            return 3.8 if alone else 2.6
        case Histogram():
            return 2.8
        case Load():
            return 2.8 if len(panel.lines) == 1 else 1.25 * len(panel.lines)
        case _:
            assert_never(panel)


def _rows(picture: Picture) -> list[Sequence[Panel]]:
    across = max(1, min(picture.columns, len(picture.panels)))
    return [picture.panels[start : start + across] for start in range(0, len(picture.panels), across)]


def _heights(picture: Picture) -> list[float]:
    alone = len(picture.panels) == 1
    return [max(_panel_height(panel, alone) for panel in row) for row in _rows(picture)]


def _size(picture: Picture) -> tuple[float, float]:
    heights = _heights(picture)
    caption = _CAPTION if picture.caption else 0.0
    height = _TOP + sum(heights) + _BETWEEN[1] * (len(heights) - 1) + _BOTTOM + caption + _head(picture)
    # Whole pixels, or the last row is half transparent.
    return _WIDTH, round(height * _DOTS_PER_INCH) / _DOTS_PER_INCH


def _head(picture: Picture) -> float:
    """Give the inches that the labels above the first row of panels need."""
    return 0.2 if len(picture.panels) > 1 else 0.12


def _compose(sheet: Figure, picture: Picture, theme: Theme) -> None:
    from anew.lab.charts import plots
    from anew.lab.charts.sheet import Box
    from anew.lab.charts.theme import titled

    titled(sheet, theme, picture.title, picture.caption, _MARGIN / _WIDTH)
    top = sheet.get_figheight() - _TOP - _head(picture)
    rows = _rows(picture)
    for row, height in zip(rows, _heights(picture), strict=True):
        width = (_WIDTH - _LEFT - _RIGHT - _BETWEEN[0] * (len(row) - 1)) / len(row)
        for place, panel in enumerate(row):
            left = _LEFT + place * (width + _BETWEEN[0])
            box = Box(left, top - height, width, height)
            plots.plot(
                sheet,
                panel,
                box,
                theme,
                log=log_of(picture),
                labelled=len(picture.panels) > 1,
                last=row is rows[-1],
                peers=picture.panels,
            )
        top -= height + _BETWEEN[1]
