"""A picture as text: Braille dots where the terminal knows them, as wide as it is, in colour where it shows any."""

from __future__ import annotations

from typing import Final, assert_never

from anew.lab.charts.ink import Line, Span, Style, beside, clipped, painted
from anew.lab.charts.panels import band_lines, cut, dots_lines
from anew.lab.charts.pictures import Band, Dots, Heat, Histogram, Load, Panel, Picture
from anew.lab.charts.scales import log_of
from anew.lab.charts.tallies import heat_lines, histogram_lines, load_lines

MIN_COLUMNS: Final = 30
_GAP: Final = 3


def draw(picture: Picture, style: Style) -> str:
    """Give a picture as text of several lines.

    Args:
        picture: What to draw.
        style: What the terminal can show.

    Returns:
        Lines no longer than the style's columns, without a newline at the end; without escape sequences where it shows
        no colours.
    """
    columns = max(style.columns, MIN_COLUMNS)
    lines: list[Line] = [[Span(cut(picture.title, columns), weight="bold")], []]
    across = max(1, min(picture.columns, len(picture.panels), columns // MIN_COLUMNS))
    width = (columns - _GAP * (across - 1)) // across
    for start in range(0, len(picture.panels), across):
        row = picture.panels[start : start + across]
        last = start + across >= len(picture.panels)
        blocks = [_panel(panel, style, width, picture, last) for panel in row]
        lines.extend(beside(blocks, width, _GAP))
        if not last:
            lines.append([])
    if picture.caption:
        lines.append([])
        lines.extend([Span(text, weight="dim")] for text in wrapped(picture.caption, columns))
    return painted([clipped(line, columns) for line in lines], style)


def _panel(panel: Panel, style: Style, width: int, picture: Picture, last: bool) -> list[Line]:
    alone = len(picture.panels) == 1
    log = log_of(picture)
    match panel:
        case Band():
            return band_lines(panel, style, width, 18, log)
        case Dots():
            rows = min(-(-len(panel.instants_ms) // 4), 25 if alone else 10)
            return [
                *_head(panel.label, width, alone),
                *dots_lines(panel, style, width, max(rows, 1), log, last=last),
            ]
        case Heat():
            return [*_head(panel.label, width, alone), *heat_lines(panel, style, width, _heats(picture))]
        case Histogram():
            return [*_head(panel.label, width, alone), *histogram_lines(panel, style, width, 12)]
        case Load():
            return load_lines(panel, style, width, 12 if len(panel.lines) == 1 else 6)
        case _:
            assert_never(panel)


def _head(label: str, width: int, alone: bool) -> list[Line]:
    # A single panel is what the title says.
    return [] if alone else [[Span(cut(label, width), weight="bold")]]


def _heats(picture: Picture) -> list[Heat]:
    return [panel for panel in picture.panels if isinstance(panel, Heat)]


def wrapped(text: str, columns: int) -> list[str]:
    """Break a text into lines at its blanks."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > columns and lines[-1]:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines
