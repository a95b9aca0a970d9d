"""Text in colours: lines as spans, and how a terminal is told about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

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
