"""A canvas of text: eight dots a character (Braille), or one sign a character where there is no Braille.

Every dot has a colour by its place in a palette; a character has one colour only, that of most of its dots, so
colours are chosen such that neighbours may share.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

# The bit of each dot of a Braille character, by row and column; Unicode 15.0, section 21.1.
_BITS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BRAILLE: Final = 0x2800
# For ASCII: how many of eight dots a sign stands for, and where a single dot sits.
_BY_COUNT: Final = " .:=*%##@"
_BY_ROW: Final = "'--."

PLAIN: Final = -1
"""The colour of what has none."""


class Canvas:
    """Dots in ``columns`` by ``rows`` characters; the dot at (0, 0) is bottom left.

    Args:
        columns: Characters across, >= 1.
        rows: Characters down, >= 1.
        braille: False: draw with ASCII signs.
    """

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

    def lines(self) -> list[list[tuple[str, int]]]:
        """Give every row, the top first: a sign and its colour for each character."""
        return [[self._sign(row, column) for column in range(self.columns)] for row in range(self.rows)]

    def _sign(self, row: int, column: int) -> tuple[str, int]:
        dots = self._cells.get((row, column))
        if not dots:
            return " ", PLAIN
        # Of equally many, the colour set last: what is drawn later lies on top.
        colour = max(reversed(Counter(dots.values()).items()), key=lambda item: item[1])[0]
        if self.braille:
            return chr(_BRAILLE + sum(_BITS[down][across] for down, across in dots)), colour
        return _ascii({down for down, _ in dots}, len(dots)), colour


def _ascii(rows: set[int], count: int) -> str:
    return _BY_ROW[min(rows)] if len(rows) == 1 else _BY_COUNT[count]
