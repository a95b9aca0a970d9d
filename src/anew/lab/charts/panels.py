"""Each kind of panel as lines of text."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import median
from typing import Final

from anew.lab.charts.axes import (
    Scale,
    retry_ticks,
)
from anew.lab.charts.canvas import Canvas
from anew.lab.charts.colours import policy_colour, retry_colours
from anew.lab.charts.frame import Axes, framed
from anew.lab.charts.ink import Line, Span, Style, spans
from anew.lab.charts.pictures import Band, BandLine, Dots
from anew.lab.charts.scales import (
    Tick,
    band_name,
    band_scale,
    herd_scale,
    outage_mark,
    time_ticks,
    with_outage,
)

PATTERNS: Final = ("1", "1110", "10", "111010", "1100", "11110")
"""How the lines of several policies are broken, so that they differ without colour."""

_LABEL: Final = 22


def rows_of(canvas: Canvas, palette: Sequence[str]) -> list[Line]:
    """Give a canvas's rows in the colours of a palette."""
    return [
        spans((sign, palette[place] if place >= 0 else "") for sign, place in row) for row in canvas.lines()
    ]


def band_lines(band: Band, style: Style, width: int, rows: int, log: bool) -> list[Line]:
    """Draw waits over retries: a shade from the earliest to the latest, a line at the mean where it can be told."""
    labels = [cut(line.label, min(_LABEL, width // 2 - 11)) for line in band.lines]
    scale = band_scale(band, log=log)
    retries = max((len(line.points) for line in band.lines), default=1)
    across = Scale(1.0, float(max(retries, 2)))
    up = time_ticks(scale, max(2, rows // 3))
    several = len(labels) > 1
    margin = max((len(label) for label in labels), default=0) + 5 if several else 0
    axes = Axes([], up, f"retry{arrow(style)}", band_name(band))
    inner = max(width - axes.gutter - margin, 10)
    ticks = [Tick(across.at(n), str(n)) for n in retry_ticks(retries, max(2, inner // 6))]
    canvas = Canvas(inner, rows, braille=style.braille)
    ends: list[int] = []
    for place, line in enumerate(band.lines):
        ends.append(_draw_band(canvas, line, place, across, scale, several=several))
    palette = [policy_colour(place, dark=style.dark) for place in range(len(labels))]
    notes = _notes(labels, ends, rows, style, palette) if several else [[]] * rows
    body = [[*row, *note] for row, note in zip(rows_of(canvas, palette), notes, strict=True)]
    return framed(body, inner, axes._replace(across=ticks), style)


def _draw_band(
    canvas: Canvas, line: BandLine, place: int, across: Scale, scale: Scale, *, several: bool
) -> int:
    """Draw one policy; gives the character row of its last point."""
    pattern = PATTERNS[place % len(PATTERNS)] if several else "1"
    marks = []
    for point, middle in zip(line.points, line.middles_ms, strict=True):
        if middle is None or point.earliest_ms is None or point.latest_ms is None:
            continue
        x = round(across.at(point.retry) * (canvas.width - 1))
        marks.append(
            (x, *(height_of(canvas, scale, ms) for ms in (point.earliest_ms, point.latest_ms, middle)))
        )
    if len(marks) == 1:
        marks.append((canvas.width - 1, *marks[0][1:]))
    for before, after in itertools.pairwise(marks):
        for x in range(before[0], after[0] + 1):
            part = (x - before[0]) / max(after[0] - before[0], 1)
            low, high = (round(before[i] + part * (after[i] - before[i])) for i in (1, 2))
            if high > low:
                canvas.shade(x, low, high, place)
        canvas.line(before[0], before[3], after[0], after[3], place, pattern=pattern)
    return canvas.rows - 1 - (marks[-1][3] if marks else 0) // 4


def height_of(canvas: Canvas, scale: Scale, value: float) -> int:
    """Give the dot above which a value stands."""
    return round(scale.at(value) * (canvas.height - 1))


def _notes(
    labels: Sequence[str], ends: Sequence[int], rows: int, style: Style, palette: Sequence[str]
) -> list[Line]:
    """Write each label right of where its line ends, moved up or down where two would share a row."""
    order = sorted(range(len(labels)), key=lambda place: (ends[place], place))
    taken = spread([ends[place] for place in order], rows)
    notes: list[Line] = [[] for _ in range(rows)]
    for row, place in zip(taken, order, strict=True):
        sample = Canvas(3, 1, braille=style.braille)
        pattern = PATTERNS[place % len(PATTERNS)] if len(labels) > 1 else "1"
        sample.line(1, 1, 5, 1, pattern=pattern)
        signs = "".join(sign for sign, _ in sample.lines()[0])
        if 0 <= row < rows:
            notes[row] = [Span(f" {signs} {labels[place]}", palette[place])]
    return notes


def spread(wanted: Sequence[int], rows: int) -> list[int]:
    """Give each of some sorted rows a row of its own, as near as it goes, 0 to ``rows - 1``."""
    taken: list[int] = []
    for row in wanted:
        taken.append(max(row, taken[-1] + 1) if taken else row)
    limit = rows - 1
    for place in range(len(taken) - 1, -1, -1):
        taken[place] = min(taken[place], limit)
        limit = taken[place] - 1
    return taken


def dots_lines(
    dots: Dots, style: Style, width: int, rows: int, log: bool, *, last: bool = True
) -> list[Line]:
    """Draw a herd: a row for each job, a dot for each retry in its colour, the retries' numbers above."""
    jobs = len(dots.instants_ms)
    scale = herd_scale(dots, log=log)
    up = [Tick(1.0, "  1"), *([Tick(0.0, f"{jobs:>3}")] if jobs > 1 else [])]
    axes = Axes([], up, f"since the first failure{arrow(style)}" if last else "", "")
    inner = max(width - axes.gutter, 10)
    canvas = Canvas(inner, rows, braille=style.braille)
    for job, row in enumerate(dots.instants_ms):
        y = canvas.height - 1 - job * canvas.height // jobs
        for place, ms in enumerate(row):
            canvas.dot(round(scale.at(ms) * (canvas.width - 1)), y, place)
    palette = retry_colours(dots.retries, dark=style.dark)
    ticks = with_outage(time_ticks(scale, max(2, inner // 9)), dots.outage_ms, scale, 1 / inner)
    mark = outage_mark(dots.outage_ms, scale, arrow(style))
    axes = axes._replace(across=ticks, landmark=mark)
    head = _waves(dots, scale, inner, palette)
    return [
        [Span("job".rjust(axes.gutter - 2) + "  ", weight="dim"), *head],
        *framed(rows_of(canvas, palette), inner, axes, style),
    ]


def _waves(dots: Dots, scale: Scale, width: int, palette: Sequence[str]) -> Line:
    """Write each retry's number above the middle of its wave, where there is room."""
    signs: list[tuple[str, str]] = [(" ", "")] * width
    free = 0
    for place in range(dots.retries):
        wave = [row[place] for row in dots.instants_ms if len(row) > place]
        if not wave:
            break
        text = str(place + 1)
        middle = round(scale.at(median(wave)) * (width - 1))
        start = min(max(middle, free), width - len(text))
        if free <= start <= middle + 2:
            signs[start : start + len(text)] = [(sign, palette[place]) for sign in text]
            free = start + len(text) + 1
    return spans(signs)


def cut(text: str, width: int) -> str:
    """Give a text that is no longer than said; its tail gives way."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + ("…" if width else "")


def arrow(style: Style) -> str:
    """Give the sign that an axis goes on to the right."""
    return " →" if style.braille else " ->"
