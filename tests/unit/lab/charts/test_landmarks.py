"""The end of an outage on an axis: marked, named, and not crowded by other ticks."""

from __future__ import annotations

import pytest

from anew.lab.charts.axes import Scale, Tick, outage_mark, with_outage
from anew.lab.charts.text import Frame, Span, Style, painted

ASCII = Style(braille=False)
HOUR = 3_600_000
FOUR_HOURS = Scale(0.0, 4.0 * HOUR)
HOURS = [Tick(n / 4, f"{n} h" if n else "0") for n in range(5)]


@pytest.mark.parametrize(
    ("outage_ms", "scale", "mark"),
    [
        (3 * HOUR, FOUR_HOURS, Tick(0.75, "outage 3 h")),
        (4 * HOUR, FOUR_HOURS, Tick(1.0, "outage 4 h")),
        (5 * HOUR, FOUR_HOURS, Tick(1.0, "outage 5 h →")),
        (None, FOUR_HOURS, None),
        (0, FOUR_HOURS, None),
        # What is looked at begins when all is over.
        (HOUR, Scale(1.0 * HOUR, 2.0 * HOUR), None),
        (90 * 60_000, Scale(1.0 * HOUR, 2.0 * HOUR), Tick(0.5, "outage 1 h 30 min")),
    ],
)
def test_where_an_outage_ends(outage_ms: int | None, scale: Scale, mark: Tick | None) -> None:
    assert outage_mark(outage_ms, scale) == mark


def test_it_has_a_tick_and_others_that_would_touch_it_give_way() -> None:
    # In 40 columns the tick for 3 h 10 min stands in column 32, its ten letters reach from 27 to 36.
    ticks = with_outage(HOURS, 190 * 60_000, FOUR_HOURS, 1 / 40)
    assert [tick.text for tick in ticks] == ["0", "1 h", "2 h", "3 h 10 min"]
    assert with_outage(HOURS, 190 * 60_000, FOUR_HOURS)[3:] == [
        Tick(0.75, "3 h"), Tick(190 / 240, "3 h 10 min"), Tick(1.0, "4 h"),
    ]  # fmt: skip
    assert with_outage(HOURS, 3 * HOUR, FOUR_HOURS, 1 / 40) == HOURS
    assert with_outage(HOURS, None, FOUR_HOURS, 1 / 40) == HOURS
    assert with_outage(HOURS, 5 * HOUR, FOUR_HOURS, 1 / 40) == HOURS


def test_it_is_drawn_where_nothing_else_is() -> None:
    body = [[Span("ab", "#ff0000")], [Span("cdefghij")], []]
    lines = Frame(13, [], ASCII).around(body, [Tick(0.5, "3 h")], "", mark=Tick(0.5, "outage 3 h"))
    drawn = painted(lines, ASCII).split("\n")
    # The middle of eleven columns is the sixth, behind two of the gutter.
    assert drawn == [
        " |ab   !",
        " |cdefghij",
        " |     !",
        " +-----+-----",
        "      3 h",
        "   outage 3 h",
    ]


def test_at_the_end_of_the_axis_nothing_is_drawn_as_it_may_lie_behind() -> None:
    drawn = painted(Frame(22, [], ASCII).around([[]], [], "", mark=Tick(1.0, "outage 5 h ->")), ASCII)
    assert "!" not in drawn
    assert drawn.endswith("outage 5 h ->")
