"""Text that draws: lines of coloured spans, a canvas of dots, axes around it, and how a terminal is told about colours.

A canvas has eight dots a character (Braille), or one sign a character where there is no Braille. Every dot has a colour by
its place in a palette; a character has one colour only, that of most of its dots, so colours are chosen such that
neighbours may share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from anew.lab.charts.axes import Scale, Tick, outage_mark, time_ticks, with_outage

Colours: TypeAlias = Literal["none", "256", "true"]


class Style(msgspec.Struct, frozen=True):
    """What a terminal can show.

    Args:
        columns: Characters across, 30 at least; narrower terminals wrap.
        colours: None at all, 256 of them, or any.
        braille: False: ASCII signs only.
        dark: The ground is dark.
    """

    columns: int = 80
    colours: Colours = "none"
    braille: bool = True
    dark: bool = True


class Span(NamedTuple):
    """A piece of one line: its text, its colour ("" is the terminal's own), and whether it stands back or out."""

    text: str
    colour: str = ""
    weight: Literal["", "dim", "bold"] = ""


Line: TypeAlias = list[Span]

_WEIGHTS: Final = {"dim": "2", "bold": "1"}
_LEVELS: Final = (0, 95, 135, 175, 215, 255)


def width_of(line: Sequence[Span]) -> int:
    """Give how many characters a line has."""
    return sum(len(span.text) for span in line)


def clipped(line: Sequence[Span], width: int) -> Line:
    """Give what of a line fits."""
    kept: Line = []
    for span in line:
        kept.append(span._replace(text=span.text[: max(width - width_of(kept), 0)]))
    return kept


def padded(line: Sequence[Span], width: int) -> Line:
    """Give a line that is as long as said, or as it was where it is longer."""
    return [*line, Span(" " * max(0, width - width_of(line)))]


def beside(blocks: Sequence[Sequence[Line]], width: int, gap: int = 2) -> list[Line]:
    """Put blocks of lines side by side, each as wide as said."""
    height = max((len(block) for block in blocks), default=0)
    return [
        [
            span
            for place, block in enumerate(blocks)
            for span in (
                *([Span(" " * gap)] if place else []),
                *padded(block[row] if row < len(block) else [], width),
            )
        ]
        for row in range(height)
    ]


def spans(signs: Iterable[tuple[str, str]]) -> Line:
    """Join signs of one colour into spans."""
    line: Line = []
    for sign, colour in signs:
        if line and line[-1].colour == colour:
            line[-1] = Span(line[-1].text + sign, colour)
        else:
            line.append(Span(sign, colour))
    return line


def painted(lines: Iterable[Sequence[Span]], style: Style) -> str:
    """Give the text for a terminal: escape sequences only where it shows colours, no blanks at the ends of lines."""
    return "\n".join(_painted(line, style) for line in lines)


def _painted(line: Sequence[Span], style: Style) -> str:
    if style.colours == "none":
        return "".join(span.text for span in line).rstrip()
    while line and not line[-1].text.strip():
        line = line[:-1]
    return "".join(_escaped(span, style) for span in line)


def _escaped(span: Span, style: Style) -> str:
    codes = [_WEIGHTS[span.weight]] if span.weight else []
    if span.colour:
        codes.append(_code(span.colour, style.colours))
    if not codes or not span.text.strip():
        return span.text
    return f"\x1b[{';'.join(codes)}m{span.text}\x1b[0m"


def _code(colour: str, colours: Colours) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    if colours == "true":
        return f"38;2;{red};{green};{blue}"
    # The 6 x 6 x 6 cube of xterm; its greys are not worth a search.
    near = [min(range(6), key=lambda level: abs(_LEVELS[level] - part)) for part in (red, green, blue)]
    return f"38;5;{16 + 36 * near[0] + 6 * near[1] + near[2]}"


# ---- a canvas of dots

# The bit of each dot of a Braille character, by row and column; Unicode 15.0, section 21.1.
_BITS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BRAILLE: Final = 0x2800
# For ASCII: how many of eight dots a sign stands for, and where a single dot sits.
_BY_COUNT: Final = " .:=*%##@"
_BY_ROW: Final = "'--."

PLAIN: Final = -1
"""The colour of what has none."""


class Canvas:
    """Dots in ``columns`` by ``rows`` characters, Braille or ASCII signs; the dot at (0, 0) is bottom left."""

    def __init__(self, columns: int, rows: int, *, braille: bool = True) -> None:
        self.columns, self.rows, self.braille = columns, rows, braille
        self.width, self.height = 2 * columns, 4 * rows
        self._cells: dict[tuple[int, int], dict[tuple[int, int], int]] = {}

    def dot(self, x: int, y: int, colour: int = PLAIN) -> None:
        """Set a dot; what lies outside is not drawn."""
        if not (0 <= x < self.width and 0 <= y < self.height):
            return
        row, down = divmod(self.height - 1 - y, 4)
        column, across = divmod(x, 2)
        self._cells.setdefault((row, column), {})[down, across] = colour

    def line(self, x0: int, y0: int, x1: int, y1: int, colour: int = PLAIN, *, pattern: str = "1") -> None:
        """Draw a straight line; ``pattern`` says which of its dots are set, over and over: ``110`` is dashed."""
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            x, y = x0 + round((x1 - x0) * step / steps), y0 + round((y1 - y0) * step / steps)
            if pattern[(x if abs(x1 - x0) >= abs(y1 - y0) else y) % len(pattern)] == "1":
                self.dot(x, y, colour)

    def shade(self, x: int, low: int, high: int, colour: int = PLAIN) -> None:
        """Set a few dots of a column between two heights, so that neighbouring columns make a light grey."""
        if x % 2 == 0:
            for y in range(low + (low + x // 2) % 2, high + 1, 2):
                self.dot(x, y, colour)

    def fill(self, x: int, low: int, high: int, colour: int = PLAIN) -> None:
        """Set every dot of a column between two heights."""
        for y in range(low, high + 1):
            self.dot(x, y, colour)

    def signs(self) -> list[list[tuple[str, int]]]:
        """Give every row, the top first: a sign and its colour for each character."""
        return [[self._sign(row, column) for column in range(self.columns)] for row in range(self.rows)]

    def lines(self, palette: Sequence[str]) -> list[Line]:
        """Give every row, the top first, in the colours of a palette."""
        return [
            spans((sign, palette[place] if place >= 0 else "") for sign, place in row) for row in self.signs()
        ]

    def _sign(self, row: int, column: int) -> tuple[str, int]:
        dots = self._cells.get((row, column))
        if not dots:
            return " ", PLAIN
        # Of equally many, the colour set last: what is drawn later lies on top.
        colour = max(reversed(Counter(dots.values()).items()), key=lambda item: item[1])[0]
        if self.braille:
            return chr(_BRAILLE + sum(_BITS[down][across] for down, across in dots)), colour
        rows = {down for down, _ in dots}
        return _BY_ROW[min(rows)] if len(rows) == 1 else _BY_COUNT[len(dots)], colour


# ---- axes around it


class Frame:
    """The axes around what is drawn: ticks and names, and a place across that matters of itself.

    Of the characters across, ``gutter`` are left of what is drawn, and ``inner`` are for what is drawn.
    """

    def __init__(self, width: int, up: Sequence[Tick], style: Style) -> None:
        self._up, self._style = up, style
        self.gutter = max((len(tick.text) for tick in up), default=0) + 2
        self.inner = max(width - self.gutter, 10)

    def canvas(self, rows: int) -> Canvas:
        """Give room to draw."""
        return Canvas(self.inner, rows, braille=self._style.braille)

    def times(self, scale: Scale, outage_ms: int | None = None, *, exact: bool = False) -> list[Tick]:
        """Give the ticks of an axis of time across, one of them where an outage ends."""
        ticks = time_ticks(scale, max(2, self.inner // (14 if exact else 9)), exact=exact)
        return with_outage(ticks, outage_ms, scale, 1 / self.inner)

    def outage(self, outage_ms: int | None, scale: Scale) -> Tick | None:
        """Give where an outage ends across, and what is written there."""
        return outage_mark(outage_ms, scale, arrow(self._style))

    def around(
        self,
        body: Sequence[Line],
        across: Sequence[Tick],
        name: str,
        up_name: str = "",
        mark: Tick | None = None,
    ) -> list[Line]:
        """Put the axes around a drawing.

        Args:
            body: The drawing's rows, the top first; what stands right of ``inner`` is notes beside it.
            across: Ticks of the horizontal axis.
            name: What that axis is, with its unit where the ticks have none; "" leaves it out.
            up_name: The same of the vertical axis, written above it.
            mark: Where the place across is, marked in the drawing, and its name, which is written below.
        """
        vertical, cross, corner, flat, down = "│┤└─┬" if self._style.braille else "|++-+"
        gutter, width, rows = self.gutter, self.inner, len(body)
        texts = {rows - 1 - round(tick.place * (rows - 1)): tick.text for tick in self._up}
        lines: list[Line] = [[Span(up_name, weight="dim")]] if up_name else []
        column = -1 if mark is None else round(mark.place * (width - 1))
        for row, drawn in enumerate(body):
            # At the axis' end it may as well lie behind.
            if 0 <= column < width - 1:
                drawn = _pierced(drawn, column, "┊" if self._style.braille else "!")
            text = texts.get(row)
            left = f"{text or '':>{gutter - 2}} {vertical if text is None else cross}"
            lines.append([Span(left, weight="dim"), *drawn])
        columns = {round(tick.place * (width - 1)): tick.text for tick in across}
        axis = "".join(down if place in columns else flat for place in range(width))
        lines.append([Span(" " * (gutter - 1) + corner + axis, weight="dim")])
        lines.append([Span(" " * gutter + tick_texts(columns, width), weight="dim")])
        if mark is not None and mark.text:
            lines.append([Span(" " * gutter + tick_texts({column: mark.text}, width))])
        if name:
            lines.append([Span(" " * gutter + f"{name}{arrow(self._style)}".rjust(width), weight="dim")])
        return lines


def arrow(style: Style) -> str:
    """Give the sign that an axis goes on to the right."""
    return " →" if style.braille else " ->"


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
