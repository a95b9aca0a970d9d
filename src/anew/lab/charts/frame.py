"""The frame of a picture in the terminal: ticks and names on two axes around what was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anew.lab.charts.ink import Line, Span, Style, padded
from anew.lab.charts.scales import Tick


class Axes(NamedTuple):
    """Both axes of one panel.

    Args:
        across: Ticks of the horizontal axis.
        up: Ticks of the vertical axis.
        across_name: What the horizontal axis is, with its unit where the ticks have none.
        up_name: The same for the vertical axis, written above it.
        landmark: A place across that matters of itself, and what it is; it is marked in the drawing and named below.
    """

    across: Sequence[Tick]
    up: Sequence[Tick]
    across_name: str
    up_name: str
    landmark: Tick | None = None

    @property
    def gutter(self) -> int:
        """Characters left of what is drawn."""
        return max((len(tick.text) for tick in self.up), default=0) + 2


def framed(body: Sequence[Line], width: int, axes: Axes, style: Style) -> list[Line]:
    """Put a frame around a drawing.

    Args:
        body: The drawing's rows, the top first; what stands right of ``width`` is notes beside it.
        width: The drawing's characters across.
        axes: Its axes.
        style: What the terminal can show.

    Returns:
        The name of the vertical axis, the rows, the axis below with its ticks, its landmark's name and its own.
    """
    vertical, cross, corner, flat, down = "│┤└─┬" if style.braille else "|++-+"
    gutter, rows = axes.gutter, len(body)
    marks = {rows - 1 - round(tick.place * (rows - 1)): tick.text for tick in axes.up}
    lines: list[Line] = [[Span(axes.up_name, weight="dim")]] if axes.up_name else []
    column = -1 if axes.landmark is None else round(axes.landmark.place * (width - 1))
    for row, drawn in enumerate(body):
        # At the axis' end it may as well lie behind.
        if 0 <= column < width - 1:
            drawn = _pierced(drawn, column, "┊" if style.braille else "!")
        text = marks.get(row)
        left = f"{text or '':>{gutter - 2}} {vertical if text is None else cross}"
        lines.append([Span(left, weight="dim"), *drawn])
    columns = {round(tick.place * (width - 1)): tick.text for tick in axes.across}
    axis = "".join(down if column in columns else flat for column in range(width))
    lines.append([Span(" " * (gutter - 1) + corner + axis, weight="dim")])
    lines.append([Span(" " * gutter + tick_texts(columns, width), weight="dim")])
    if axes.landmark is not None and axes.landmark.text:
        lines.append([Span(" " * gutter + tick_texts({column: axes.landmark.text}, width))])
    if axes.across_name:
        lines.append([Span(" " * gutter + axes.across_name.rjust(width), weight="dim")])
    return lines


def _pierced(line: Sequence[Span], column: int, sign: str) -> Line:
    """Put a sign where nothing is drawn; a line that ends before is continued."""
    pierced: Line = []
    at = 0
    for span in padded(line, column + 1):
        place = column - at
        at += len(span.text)
        if 0 <= place < len(span.text) and span.text[place] in " \u2800":
            before, after = span.text[:place], span.text[place + 1 :]
            pierced += [span._replace(text=before), Span(sign, weight="dim"), span._replace(text=after)]
        else:
            pierced.append(span)
    return pierced


def tick_texts(columns: dict[int, str], width: int) -> str:
    """Write texts centred below their columns; one that would touch the one before it is left out."""
    line = [" "] * (width + 1)
    free = 0
    for column, text in sorted(columns.items()):
        start = min(max(column - (len(text) - 1) // 2, 0), width - len(text))
        if start < free or start < 0:
            continue
        line[start : start + len(text)] = text
        free = start + len(text) + 1
    return "".join(line).rstrip()
