"""A picture as text: Braille dots where the terminal knows them, as wide as it is, in colour where it shows any."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from statistics import median
from typing import Final, assert_never

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
    retry_axis,
    time_ticks,
)
from anew.lab.charts.colours import policy_colour, retry_colours
from anew.lab.charts.pictures import Band, BandLine, Dots, Heat, Histogram, Load, Panel, Picture
from anew.lab.charts.text import Canvas, Frame, Line, Span, Style, beside, clipped, painted, spans
from anew.lab.named import cut

MIN_COLUMNS: Final = 30
_GAP: Final = 3
_LABEL: Final = 22
_SINCE: Final = "since the first failure"

PATTERNS: Final = ("1", "1110", "10", "111010", "1100", "11110")
"""How the lines of several policies are broken, so that they differ without colour."""

_SHADES: Final = " ░▒▓█"
_SHADES_ASCII: Final = " .:+#"
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_EIGHTHS_ASCII: Final = " .:-=+*%#"


def draw(picture: Picture, style: Style) -> str:
    """Give a picture as text of several lines.

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
        lines.extend([Span(text, weight="dim")] for text in textwrap.wrap(picture.caption, columns))
    return painted([clipped(line, columns) for line in lines], style)


def _panel(panel: Panel, style: Style, width: int, picture: Picture, last: bool) -> list[Line]:
    alone, log = len(picture.panels) == 1, log_of(picture)
    match panel:
        case Band():
            return _band(panel, style, width, 18, log)
        case Dots():
            rows = max(min(-(-len(panel.instants_ms) // 4), 25 if alone else 10), 1)
            drawn = _dots(panel, style, width, rows, log, last=last)
        case Heat():
            drawn = _heat(panel, style, width, [one for one in picture.panels if isinstance(one, Heat)])
        case Histogram():
            drawn = _histogram(panel, style, width, 12)
        case Load():
            return _load(panel, style, width, 12 if len(panel.lines) == 1 else 6)
        case _:
            assert_never(panel)
    # A single panel is what the title says.
    return drawn if alone else [[Span(cut(panel.label, width), weight="bold")], *drawn]


def height_of(canvas: Canvas, scale: Scale, value: float) -> int:
    """Give the dot above which a value stands."""
    return round(scale.at(value) * (canvas.height - 1))


# ---- waits over retries: a shade from the earliest to the latest, a line at the mean where it can be told


def _band(band: Band, style: Style, width: int, rows: int, log: bool) -> list[Line]:
    labels = [cut(line.label, min(_LABEL, width // 2 - 11)) for line in band.lines]
    scale = band_scale(band, log=log)
    several = len(labels) > 1
    margin = max(map(len, labels)) + 5 if several else 0
    frame = Frame(width - margin, time_ticks(scale, max(2, rows // 3)), style)
    across, ticks = retry_axis(band, max(2, frame.inner // 6))
    canvas = frame.canvas(rows)
    ends = [
        _draw_band(canvas, line, place, across, scale, several=several)
        for place, line in enumerate(band.lines)
    ]
    palette = [policy_colour(place, dark=style.dark) for place in range(len(labels))]
    notes = _notes(labels, ends, rows, style, palette) if several else [[]] * rows
    body = [[*row, *note] for row, note in zip(canvas.lines(palette), notes, strict=True)]
    return frame.around(body, ticks, "retry", band_name(band))


def _draw_band(
    canvas: Canvas, line: BandLine, place: int, across: Scale, scale: Scale, *, several: bool
) -> int:
    """Draw one policy; gives the character row of its last point, from below."""
    marks = [
        (round(x * (canvas.width - 1)), *(round(y * (canvas.height - 1)) for y in up))
        for x, *up in band_places(line, across, scale)
    ]
    if len(marks) == 1:
        marks.append((canvas.width - 1, *marks[0][1:]))
    for before, after in itertools.pairwise(marks):
        for x in range(before[0], after[0] + 1):
            part = (x - before[0]) / max(after[0] - before[0], 1)
            low, high = (round(before[i] + part * (after[i] - before[i])) for i in (1, 2))
            if high > low:
                canvas.shade(x, low, high, place)
        pattern = PATTERNS[place % len(PATTERNS)] if several else "1"
        canvas.line(before[0], before[3], after[0], after[3], place, pattern=pattern)
    return (marks[-1][3] if marks else 0) // 4


def _notes(
    labels: Sequence[str], ends: Sequence[int], rows: int, style: Style, palette: Sequence[str]
) -> list[Line]:
    """Write each label right of where its line ends, moved up or down where two would share a row."""
    order = sorted(range(len(labels)), key=lambda place: (-ends[place], place))
    notes: list[Line] = [[] for _ in range(rows)]
    for row, place in zip(apart([ends[place] for place in order], 1), order, strict=True):
        sample = Canvas(3, 1, braille=style.braille)
        sample.line(1, 1, 5, 1, pattern=PATTERNS[place % len(PATTERNS)])
        signs = "".join(sign for sign, _ in sample.signs()[0])
        if row < rows:
            notes[rows - 1 - round(row)] = [Span(f" {signs} {labels[place]}", palette[place])]
    return notes


# ---- a herd: a row for each job, a dot for each retry in its colour, the retries' numbers above


def _dots(dots: Dots, style: Style, width: int, rows: int, log: bool, *, last: bool) -> list[Line]:
    jobs = len(dots.instants_ms)
    scale = herd_scale(dots, log=log)
    frame = Frame(width, [Tick(1.0, "  1"), *([Tick(0.0, f"{jobs:>3}")] if jobs > 1 else [])], style)
    canvas = frame.canvas(rows)
    for job, row in enumerate(dots.instants_ms):
        y = canvas.height - 1 - job * canvas.height // jobs
        for place, ms in enumerate(row):
            canvas.dot(round(scale.at(ms) * (canvas.width - 1)), y, place)
    palette = retry_colours(dots.retries, dark=style.dark)
    return [
        [
            Span("job".rjust(frame.gutter - 2) + "  ", weight="dim"),
            *_waves(dots, scale, frame.inner, palette),
        ],
        *frame.around(
            canvas.lines(palette),
            frame.times(scale, dots.outage_ms),
            _SINCE if last else "",
            mark=frame.outage(dots.outage_ms, scale),
        ),
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


# ---- a herd of any size: a row for each retry, stronger where more calls fall together


def _heat(heat: Heat, style: Style, width: int, peers: Sequence[Heat]) -> list[Line]:
    """Draw a heat; ``peers``, itself among them, are what it is compared with: the same strength means the same everywhere."""
    last = max(len(heat.counts) - 1, 1)
    frame = Frame(width, [Tick(1 - row / last, str(row + 1)) for row in range(len(heat.counts))], style)
    scale = Scale(heat.edges_ms[0], heat.edges_ms[-1], heat.log)
    rows = [gathered(row, frame.inner) for row in heat.counts]
    most = max(max(gathered(row, frame.inner)) for one in peers for row in one.counts) or 1
    shades = _SHADES if style.braille else _SHADES_ASCII
    body = [
        spans((_shade(count, most, shades), colour) for count in row)
        for row, colour in zip(rows, retry_colours(len(rows), dark=style.dark), strict=True)
    ]
    own = max(map(max, rows)) or 1
    together = f"at most {count_label(own)} of {count_label(heat.jobs)} jobs in one character"
    mark = frame.outage(heat.outage_ms, scale)
    return [
        *frame.around(body, frame.times(scale, heat.outage_ms), _SINCE, "retry", mark),
        [Span(" " * frame.gutter + together, weight="dim")],
    ]


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


# ---- bars: how one retry's waits are spread, and the calls a second of each policy, one below the other on the same axes


def _histogram(histogram: Histogram, style: Style, width: int, rows: int) -> list[Line]:
    shares = count_scale([max(histogram.counts, default=0)])
    up = [Tick(shares.at(n), count_label(n)) for n in count_ticks(shares, max(2, rows // 3))]
    frame = Frame(width, up, style)
    canvas = frame.canvas(rows)
    for x, count in enumerate(stretched(histogram.counts, canvas.width)):
        if count:
            canvas.fill(x, 0, height_of(canvas, shares, count), 0)
    ticks = frame.times(Scale(histogram.edges_ms[0], histogram.edges_ms[-1]))
    body = canvas.lines([policy_colour(0, dark=style.dark)])
    waits = f"of {count_label(histogram.jobs)} waits"
    return [
        *frame.around(body, ticks, f"wait before retry {histogram.retry}", waits),
        [Span(" " * frame.gutter + f"mean {mean_label(histogram.mean_ms)}", weight="dim")],
    ]


def stretched(counts: Sequence[int], columns: int) -> list[int]:
    """Give the highest count behind each of so many columns, so that no peak gets lost."""
    starts = [column * len(counts) // columns for column in range(columns + 1)]
    return [max(counts[start : max(end, start + 1)]) for start, end in itertools.pairwise(starts)]


def _load(load: Load, style: Style, width: int, rows: int) -> list[Line]:
    peak = count_scale([line.peak for line in load.lines])
    up = [Tick(peak.at(n), count_label(n)) for n in count_ticks(peak, max(2, rows // 2))]
    scale, frame = load_scale(load), Frame(width, up, style)
    ticks = frame.times(scale, load.outage_ms, exact=load.edges_ms[0] > 0)
    mark = frame.outage(load.outage_ms, scale)
    lines: list[Line] = [[Span("calls a second", weight="dim")]]
    colours = [policy_colour(place, dark=style.dark) for place in range(len(load.lines))]
    places = [scale.at(edge) * frame.inner for edge in load.edges_ms]
    for number, line in enumerate(load.lines):
        canvas = frame.canvas(rows)
        for (start, end), count in zip(itertools.pairwise(places), line.heights, strict=True):
            if count:
                # Whole characters: half of one cannot be told from the axis beside it.
                for x in range(2 * min(int(start), frame.inner - 1), 2 * math.ceil(end)):
                    canvas.fill(x, 0, height_of(canvas, peak, count), number)
        name = Span(cut(line.label, width // 2), colours[number], "bold")
        lines.append([name, Span(f"  at most {count_label(line.peak)}", weight="dim")])
        last = number == len(load.lines) - 1
        # The name of the outage once is enough; where it is, each of them shows.
        named = mark if last or mark is None else mark._replace(text="")
        lines.extend(frame.around(canvas.lines(colours), ticks, _SINCE if last else "", mark=named))
    return lines


def sparkline(counts: Sequence[int], columns: int, *, blocks: bool = True) -> str:
    """Draw counts as one line of text, the highest behind each character; without ``blocks`` in ASCII."""
    signs = _EIGHTHS if blocks else _EIGHTHS_ASCII
    top = max(counts, default=1) or 1
    return "".join(
        signs[0] if not count else signs[min(max(1, round(count / top * 8)), 8)]
        for count in stretched(counts or [0], columns)
    )
