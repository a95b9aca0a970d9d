"""Counts as lines of text: heat, histogram, load, and a load on one line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from anew.lab.charts.axes import Scale, count_label, count_scale, count_ticks, mean_label
from anew.lab.charts.canvas import Canvas
from anew.lab.charts.colours import policy_colour, retry_colours
from anew.lab.charts.frame import Axes, framed
from anew.lab.charts.ink import Line, Span, Style, spans
from anew.lab.charts.panels import arrow, cut, height_of, rows_of
from anew.lab.charts.pictures import Heat, Histogram, Load
from anew.lab.charts.scales import Tick, load_scale, outage_mark, time_ticks, with_outage

_SHADES: Final = " ░▒▓█"
_SHADES_ASCII: Final = " .:+#"
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_EIGHTHS_ASCII: Final = " .:-=+*%#"


def heat_lines(heat: Heat, style: Style, width: int, peers: Sequence[Heat]) -> list[Line]:
    """Draw a herd of any size: a row for each retry, stronger where more calls fall together.

    Args:
        heat: What to draw.
        style: What the terminal can show.
        width: Characters across.
        peers: What it is compared with, itself among them: the same strength means the same everywhere.
    """
    last = max(len(heat.counts) - 1, 1)
    up = [Tick(1 - row / last, str(row + 1)) for row in range(len(heat.counts))]
    axes = Axes([], up, f"since the first failure{arrow(style)}", "retry")
    inner = max(width - axes.gutter, 10)
    scale = Scale(heat.edges_ms[0], heat.edges_ms[-1], heat.log)
    rows = [gathered(row, inner) for row in heat.counts]
    own, most = (
        max(max(gathered(row, inner)) for one in some for row in one.counts) or 1 for some in ([heat], peers)
    )
    shades = _SHADES if style.braille else _SHADES_ASCII
    body = [
        spans((_shade(count, most, shades), colour) for count in row)
        for row, colour in zip(rows, retry_colours(len(rows), dark=style.dark), strict=True)
    ]
    ticks = with_outage(time_ticks(scale, max(2, inner // 9)), heat.outage_ms, scale, 1 / inner)
    axes = axes._replace(across=ticks, landmark=outage_mark(heat.outage_ms, scale, arrow(style)))
    together = f"at most {count_label(own)} of {count_label(heat.jobs)} jobs in one character"
    foot = [Span(" " * axes.gutter), Span(together, weight="dim")]
    return [*framed(body, inner, axes, style), foot]


def _shade(count: int, most: int, shades: str) -> str:
    # The square root keeps what is rare in sight.
    return shades[0] if not count else shades[max(1, round((count / most) ** 0.5 * (len(shades) - 1)))]


def gathered(counts: Sequence[int], columns: int) -> list[int]:
    """Gather counts into so many columns: added up where there are more bins than columns, repeated where fewer."""
    bins = len(counts)
    if bins <= columns:
        return [counts[column * bins // columns] for column in range(columns)]
    sums = [0] * columns
    for place, count in enumerate(counts):
        sums[place * columns // bins] += count
    return sums


def histogram_lines(histogram: Histogram, style: Style, width: int, rows: int) -> list[Line]:
    """Draw how one retry's waits are spread, as bars."""
    peak = max(histogram.counts, default=0)
    shares = count_scale([peak])
    up = [Tick(shares.at(n), count_label(n)) for n in count_ticks(shares, max(2, rows // 3))]
    axes = Axes(
        [],
        up,
        f"wait before retry {histogram.retry}{arrow(style)}",
        f"of {count_label(histogram.jobs)} waits",
    )
    inner = max(width - axes.gutter, 10)
    canvas = Canvas(inner, rows, braille=style.braille)
    for x, count in enumerate(stretched(histogram.counts, canvas.width)):
        if count:
            canvas.fill(x, 0, height_of(canvas, shares, count), 0)
    scale = Scale(histogram.edges_ms[0], histogram.edges_ms[-1])
    ticks = time_ticks(scale, max(2, inner // 9))
    mean = Span(f"mean {mean_label(histogram.mean_ms)}", weight="dim")
    body = rows_of(canvas, [policy_colour(0, dark=style.dark)])
    return [*framed(body, inner, axes._replace(across=ticks), style), [Span(" " * axes.gutter), mean]]


def stretched(counts: Sequence[int], columns: int) -> list[int]:
    """Give the highest count behind each of so many columns, so that no peak gets lost."""
    bins = len(counts)
    return [
        max(
            counts[
                column * bins // columns : max((column + 1) * bins // columns, column * bins // columns + 1)
            ]
        )
        for column in range(columns)
    ]


def load_lines(load: Load, style: Style, width: int, rows: int) -> list[Line]:
    """Draw the calls a second of each policy, one below the other on the same axes."""
    peak = count_scale([line.peak for line in load.lines])
    up = [Tick(peak.at(n), count_label(n)) for n in count_ticks(peak, max(2, rows // 2))]
    scale, later = load_scale(load), load.edges_ms[0] > 0
    axes = Axes([], up, "", "")
    inner = max(width - axes.gutter, 10)
    ticks = time_ticks(scale, max(2, inner // (14 if later else 9)), exact=later)
    ticks = with_outage(ticks, load.outage_ms, scale, 1 / inner)
    mark = outage_mark(load.outage_ms, scale, arrow(style))
    lines: list[Line] = [[Span("calls a second", weight="dim")]]
    colours = [policy_colour(place, dark=style.dark) for place in range(len(load.lines))]
    places = [scale.at(edge) * inner for edge in load.edges_ms]
    for number, line in enumerate(load.lines):
        canvas = Canvas(inner, rows, braille=style.braille)
        for (start, end), count in zip(pairwise(places), line.heights, strict=True):
            if count:
                # Whole characters: half of one cannot be told from the axis beside it.
                for x in range(2 * min(int(start), inner - 1), 2 * math.ceil(end)):
                    canvas.fill(x, 0, height_of(canvas, peak, count), number)
        name = Span(cut(line.label, width // 2), colours[number], "bold")
        lines.append([name, Span(f"  at most {count_label(line.peak)}", weight="dim")])
        last = number == len(load.lines) - 1
        # The name of the outage once is enough; where it is, each of them shows.
        named = mark if last or mark is None else mark._replace(text="")
        across_name = f"since the first failure{arrow(style)}" if last else ""
        own = axes._replace(across=ticks, across_name=across_name, landmark=named)
        lines.extend(framed(rows_of(canvas, colours), inner, own, style))
    return lines


def sparkline(counts: Sequence[int], columns: int, *, blocks: bool = True) -> str:
    """Draw counts as one line of text, the highest behind each character.

    Args:
        counts: One number a bin.
        columns: Characters across.
        blocks: False: ASCII signs only.
    """
    signs = _EIGHTHS if blocks else _EIGHTHS_ASCII
    top = max(counts, default=1) or 1
    return "".join(
        signs[0] if not count else signs[min(max(1, round(count / top * 8)), 8)]
        for count in stretched(counts or [0], columns)
    )
