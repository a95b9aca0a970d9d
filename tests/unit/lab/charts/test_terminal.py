"""Pictures in the terminal: as wide as it is, in its colours or none, dots where they belong."""

from __future__ import annotations

import re

import pytest

from anew.backoff import Policy, preset
from anew.lab.charts.axes import apart, uses_log
from anew.lab.charts.classics import herd, zaqar
from anew.lab.charts.data import compose, curve_band, dots, heat, histogram, load_of
from anew.lab.charts.loads import Seconds
from anew.lab.charts.pictures import Load, LoadLine, Picture
from anew.lab.charts.terminal import draw, gathered, sparkline, stretched
from anew.lab.charts.text import Span, Style, painted, tick_texts
from anew.lab.named import Named
from anew.lab.simulation.scenario import Scenario

EVEN = Named("even", preset("even"))
BAND = compose("band", [Named("zizq", preset("zizq"))])
LONG = Named("a policy with a name that is much longer than its line", preset("zizq"))
LOAD = Load(
    100,
    tuple(range(0, 1_860_000, 60_000)),
    (
        LoadLine("even", (5,) * 30, (2.0,) * 30),
        LoadLine("constant", (*[0] * 4, 100, *[0] * 25), (0.0,) * 30),
    ),
)
PICTURES = {
    "zizq": BAND,
    "zaqar": zaqar(),
    "herd": herd(),
    "band": Picture("Two", (curve_band([EVEN, LONG]),), caption="word " * 30),
    "dots": Picture("Dots", (dots(EVEN, Scenario(jobs=30, success=0), 25),)),
    "heat": Picture("Heat", heat([EVEN], Scenario(jobs=50, success=0), 9)),
    "histogram": Picture(
        "Waits", (histogram(EVEN, 2, Scenario(jobs=500)), histogram(LONG, 3, Scenario(jobs=500)))
    ),
    "load": Picture("Load", (LOAD,)),
}
BRAILLE = re.compile("[\u2800-\u28ff]")


@pytest.mark.parametrize("columns", [30, 80, 140])
@pytest.mark.parametrize("name", PICTURES)
def test_no_line_is_longer_than_the_terminal(name: str, columns: int) -> None:
    lines = draw(PICTURES[name], Style(columns=columns)).split("\n")
    assert max(map(len, lines)) <= columns
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.parametrize("name", PICTURES)
def test_the_width_is_used(name: str) -> None:
    lines = draw(PICTURES[name], Style(columns=140)).split("\n")
    assert max(map(len, lines)) >= 130


@pytest.mark.parametrize("name", PICTURES)
def test_without_colours_there_is_no_escape_code(name: str) -> None:
    assert "\x1b" not in draw(PICTURES[name], Style())


@pytest.mark.parametrize("name", PICTURES)
def test_colours_change_no_sign(name: str) -> None:
    plain = draw(PICTURES[name], Style())
    for colours in ("256", "true"):
        coloured = draw(PICTURES[name], Style(colours=colours))  # type: ignore[arg-type]
        assert "\x1b[38;" in coloured
        assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == plain.split()


@pytest.mark.parametrize("name", PICTURES)
def test_where_there_is_no_braille_a_drawing_is_ascii(name: str) -> None:
    text = draw(PICTURES[name], Style(braille=False))
    # Only words that people gave may hold more.
    assert set(text) - set("×…") <= {chr(code) for code in range(32, 127)} | {"\n"}


def test_axes_are_named_and_marked() -> None:
    text = draw(BAND, Style())
    for word in ("wait before the retry", "retry →", "1 min", "1 h", "1 d", " 25"):
        assert word in text
    text = draw(PICTURES["dots"], Style())
    for word in ("since the first failure →", "job", " 1 ┤", " 30 ┤"):
        assert word in text


def test_a_dot_stands_at_its_job_and_its_time() -> None:
    policy = Policy.from_json({"curve": {"table": ["10s", "30s"]}, "limit": 2})
    panel = dots(Named("t", policy), Scenario(jobs=4, success=0))
    lines = draw(Picture("T", (panel,), log=False), Style(columns=30)).split("\n")
    (row,) = [line for line in lines if BRAILLE.search(line)]
    drawing = row.partition("┤")[2]
    # 25 characters make 50 dots: 10 s of 40 s is dot round(49 / 4) = 12, left in its character; 40 s is dot 49, right.
    assert [(place, sign) for place, sign in enumerate(drawing) if sign != " "] == [
        (6, "\u2847"),
        (24, "\u28b8"),
    ]
    assert lines[2] == "job  " + " " * 6 + "1" + " " * 17 + "2"


def test_each_wave_has_its_number_above() -> None:
    heading = draw(PICTURES["dots"], Style(columns=140)).split("\n")[2]
    assert heading.split()[:8] == ["job", "1", "2", "3", "4", "5", "6", "7"]


def test_policies_that_share_a_frame_are_told_apart_without_colour() -> None:
    lines = draw(zaqar(), Style()).split("\n")
    labelled = [line for line in lines if line.endswith(("linear", "arithmetic", "geometric", "base 2"))]
    samples = [BRAILLE.findall(line)[-3:] for line in labelled]
    assert len({tuple(sample) for sample in samples}) == 4


def test_a_panel_alone_needs_no_heading_of_its_own() -> None:
    assert "even" not in draw(PICTURES["heat"], Style())
    assert "even on buckets' mean" in draw(herd(), Style())


def test_the_axis_follows_the_data_unless_told() -> None:
    assert uses_log(BAND.panels[0])
    assert not uses_log(curve_band([Named("zizq", Policy.from_json({"preset": "zizq", "exponent": 1}))]))
    assert not uses_log(LOAD)
    assert "10 min" in draw(BAND, Style())
    assert "10 min" not in draw(Picture("x", BAND.panels, log=False), Style())


@pytest.mark.parametrize(("braille", "sign"), [(True, "\u28ff"), (False, "@")])
def test_a_stampede_in_the_first_seconds_is_seen(braille: bool, sign: str) -> None:
    lines_of = (("celery", (3_000, *[0] * 239)), ("even", (4,) * 240))
    lines_drawn = tuple(LoadLine(label, peaks, tuple(map(float, peaks))) for label, peaks in lines_of)
    load = Load(1_000, tuple(range(0, 18_075_000, 75_000)), lines_drawn)
    lines = draw(Picture("Load", (load,), log=False), Style(braille=braille)).split("\n")
    tall, low = (
        lines[lines.index(f"{name}  at most {most}") + 1 :][:6]
        for name, most in (("celery", "3,000"), ("even", "4"))
    )
    # Six rows of a whole character beside the axis; of the other only the lowest row has anything, all along.
    assert [line[7:].rstrip() for line in tall] == [sign] * 6
    assert [bool(line[7:].strip()) for line in low] == [False] * 5 + [True]
    assert len(set(low[-1][7:])) == 1
    assert len(low[-1]) == 80


def test_a_load_that_is_crowded_at_the_start_has_an_axis_of_powers_unless_told() -> None:
    every = [*range(18_000)]
    courses = [
        ("celery", Seconds([0], [3_000], [3_000])),
        ("even", Seconds(every, [4] * len(every), [4] * len(every))),
    ]
    load = load_of(courses, Scenario())
    assert uses_log(load)
    shown = draw(Picture("Load", (load,)), Style())
    (axis,) = {line.strip() for line in shown.split("\n") if line.strip().startswith("0 ") and "min" in line}
    assert axis.split("  ")[0] == "0"
    assert " ".join(axis.split()) == "0 1 s 10 s 1 min 10 min 1 h"
    assert "10 min" not in draw(Picture("Load", (load_of(courses, Scenario(), log=False),)), Style())


def test_labels_get_rows_of_their_own() -> None:
    assert apart([6, 6, 6], 1) == [6, 5, 4]
    assert apart([0, 0], 1) == [1, 0]
    assert apart([9, 4, 4], 1) == [9, 4, 3]


def test_ticks_that_would_touch_are_left_out() -> None:
    assert (
        tick_texts({0: "0", 9: "10 min", 12: "20 min", 29: "30 min"}, 30) == "0      10 min           30 min"
    )


def test_counts_fit_into_columns() -> None:
    assert gathered([1, 2, 3, 4], 2) == [3, 7]
    assert gathered([1, 2], 4) == [1, 1, 2, 2]
    assert stretched([1, 9, 3, 4], 2) == [9, 4]


def test_a_sparkline_is_one_line() -> None:
    assert sparkline([0, 1, 4, 8], 4) == " ▁▄█"
    assert sparkline([0, 1, 8], 3, blocks=False) == " .#"
    assert sparkline([], 3) == "   "


def test_256_colours_are_the_nearest_of_the_cube() -> None:
    line = [Span("x", "#ff8700")]
    # The cube's levels 5, 2, 0: 16 + 36 * 5 + 6 * 2.
    assert painted([line], Style(colours="256")) == "\x1b[38;5;208mx\x1b[0m"
    assert painted([line], Style(colours="true")) == "\x1b[38;2;255;135;0mx\x1b[0m"
