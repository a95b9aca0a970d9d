"""Text that draws: known dots at known cells of a canvas."""

from __future__ import annotations

from anew.lab.charts.text import PLAIN, Canvas


def signs(canvas: Canvas) -> list[str]:
    return ["".join(sign for sign, _ in row) for row in canvas.signs()]


def test_the_origin_is_bottom_left() -> None:
    canvas = Canvas(2, 2)
    canvas.dot(0, 0)
    canvas.dot(3, 7)
    # Unicode: dot 7 (lower left) is 0x40, dot 4 (upper right) is 0x08.
    assert signs(canvas) == [" \u2808", "\u2840 "]


def test_eight_dots_fill_a_character() -> None:
    canvas = Canvas(1, 1)
    for x in (0, 1):
        canvas.fill(x, 0, 3)
    assert signs(canvas) == ["\u28ff"]


def test_what_lies_outside_is_not_drawn() -> None:
    canvas = Canvas(1, 1)
    for x, y in ((-1, 0), (0, -1), (2, 0), (0, 4)):
        canvas.dot(x, y)
    assert signs(canvas) == [" "]


def test_a_line_and_its_pattern() -> None:
    canvas = Canvas(4, 1)
    canvas.line(0, 0, 7, 0)
    assert signs(canvas) == ["\u28c0" * 4]
    dashed = Canvas(4, 1)
    dashed.line(0, 0, 7, 0, pattern="1100")
    assert signs(dashed) == ["\u28c0 \u28c0 "]
    steep = Canvas(1, 1)
    steep.line(0, 0, 1, 3)
    # Two dots left below, two right above: 0x40 + 0x04 and 0x10 + 0x08.
    assert signs(steep) == [chr(0x2800 + 0x40 + 0x04 + 0x10 + 0x08)]


def test_a_shade_is_a_light_grey() -> None:
    canvas = Canvas(2, 2)
    for x in range(4):
        canvas.shade(x, 0, 7)
    dots = [ord(sign) - 0x2800 for row in signs(canvas) for sign in row]
    assert sum(bits.bit_count() for bits in dots) == 8  # a quarter of 32


def test_a_character_has_the_colour_of_most_of_its_dots() -> None:
    canvas = Canvas(1, 1)
    canvas.fill(0, 0, 2, 1)
    canvas.fill(1, 0, 1, 2)
    assert canvas.signs()[0][0][1] == 1
    assert Canvas(1, 1).signs() == [[(" ", PLAIN)]]


def test_of_equally_many_the_later_colour_wins() -> None:
    canvas = Canvas(1, 1)
    canvas.dot(0, 0, 1)
    canvas.dot(1, 0, 2)
    assert canvas.signs()[0][0][1] == 2


def test_without_braille_there_is_ascii() -> None:
    canvas = Canvas(4, 1, braille=False)
    canvas.dot(0, 0)
    canvas.dot(2, 3)
    canvas.fill(4, 0, 3)
    canvas.fill(6, 0, 3)
    canvas.fill(7, 0, 3)
    assert signs(canvas) == [".'*@"]
