"""A picture as a file: SVG or PNG, drawn by matplotlib, light or dark, byte for byte the same each time."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never

from anew.errors import NotSupported
from anew.lab.chance import has_numpy
from anew.lab.charts.pictures import Band, Dots, Heat, Histogram, Load, Panel, Picture
from anew.lab.charts.scales import log_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from anew.lab.charts.sheet import Theme

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

    from anew.lab.charts.sheet import DARK, LIGHT, SETTINGS

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
    from anew.lab.charts.sheet import Box, titled

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


# ---- makes an SVG small: a herd has thousands of dots, a load thousands of steps, and matplotlib writes a line for each


_DOT: Final = re.compile(r'\s*<defs>\s*<path id="(\w+)" d="M 0 ([\d.]+) \nC [^"]*"/>\s*</defs>')
"""A circle about the origin: its name and its radius."""

_USES: Final = re.compile(
    r'<use xlink:href="#(?P<dot>\w+)" [^>]*style="fill: (?P<colour>#\w{6})"/>'
    r'(?:\s*<use xlink:href="#(?P=dot)" [^>]*style="fill: (?P=colour)"/>)*'
)
_PLACE: Final = re.compile(r'x="([-\d.]+)" y="([-\d.]+)"')
_LINES: Final = re.compile(
    r"M (?P<first>[-\d.]+ [-\d.]+) \n(?P<others>(?:L [-\d.]+ [-\d.]+ \n){3,})(?P<end>z?)\n?"
)


def compact(svg: str) -> str:
    """Write the same picture in fewer bytes.

    Args:
        svg: What matplotlib wrote.

    Returns:
        The dots of one retry as one path of points with round ends; steps as steps across and up, without those that go
        nowhere; the places of both to a hundredth of a point. The words and everything else are as they were.
    """
    radius = {name: float(radius) for name, radius in _DOT.findall(svg)}

    def joined(uses: re.Match[str]) -> str:
        return _as_one_path(uses, radius[uses["dot"]]) if uses["dot"] in radius else uses[0]

    return _LINES.sub(_as_steps, _DOT.sub("", _USES.sub(joined, svg)))


def _as_one_path(uses: re.Match[str], radius: float) -> str:
    # A line of no length with round ends is a dot, as wide as the line is.
    points = "".join(f"M{_place(x)} {_place(y)}h0" for x, y in _PLACE.findall(uses[0]))
    style = f"fill: none; stroke: {uses['colour']}; stroke-width: {_place(str(2 * radius))}; stroke-linecap: round"
    return f'<path d="{points}" style="{style}"/>'


def _as_steps(lines: re.Match[str]) -> str:
    x, y = map(_place, lines["first"].split())
    steps = [f"M{x} {y}"]
    for line in lines["others"].splitlines():
        before = x, y
        x, y = map(_place, line[2:].split())
        if (x, y) == before:
            continue
        step = f"V{y}" if x == before[0] else f"H{x}" if y == before[1] else f"L{x} {y}"
        if step[0] == "H" == steps[-1][0]:
            steps.pop()  # straight on
        steps.append(step)
    return "".join(steps) + lines["end"]


def _place(number: str) -> str:
    return f"{float(number):.2f}".rstrip("0").rstrip(".")
