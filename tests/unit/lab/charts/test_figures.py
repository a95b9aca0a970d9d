"""Figures: files that can be read, that hold their words, and that come out the same each time."""

from __future__ import annotations

import io
import re
import struct
import xml.etree.ElementTree as ET
from statistics import median

import msgspec
import pytest

from anew.backoff import preset
from anew.errors import NotSupported
from anew.lab.charts import figures
from anew.lab.charts.axes import apart
from anew.lab.charts.classics import herd, zaqar
from anew.lab.charts.colours import policy_colour
from anew.lab.charts.data import compose, curve_band, dots, heat, histogram
from anew.lab.charts.figures import figure
from anew.lab.charts.loads import edges
from anew.lab.charts.pictures import Load, LoadLine, Picture
from anew.lab.named import Named
from anew.lab.simulation.scenario import Scenario

pytest.importorskip("matplotlib")

EVEN = Named("even", preset("even"))
LOAD = Load(
    100,
    tuple(range(0, 1_860_000, 60_000)),
    (
        LoadLine("even", (5,) * 30, (2.0,) * 30),
        LoadLine("constant", (*[0] * 4, 100, *[0] * 25), (0.0,) * 30),
    ),
)
PICTURES = {
    "band": Picture("Even's waits", (curve_band([EVEN, Named("x$y$", preset("zizq", limit=5))]),)),
    "dots": Picture("Dots", (dots(EVEN, Scenario(jobs=10, success=0), 5),)),
    "heat": Picture("Heat", heat([EVEN], Scenario(jobs=50, success=0), 9)),
    "histogram": Picture("Waits", (histogram(EVEN, 2, Scenario(jobs=500)),)),
    "load": Picture("Load", (LOAD,), caption="Below."),
}
SVG = "{http://www.w3.org/2000/svg}"


def words(picture: Picture, *, dark: bool = False) -> list[str]:
    root = ET.fromstring(figure(picture, "svg", dark=dark))
    assert root.tag == f"{SVG}svg"
    return [text.text or "" for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "band",
            [
                "Even's waits",
                "retry",
                "wait before the retry, line: the mean",
                "even",
                "x$y$",
                "25",
                "1 h",
                "1 d",
            ],
        ),
        ("dots", ["Dots", "job 1", "10", "time since the first failure", "1", "5"]),
        ("heat", ["retry", "9", "10 min"]),
        ("histogram", ["wait before retry 2", "of 500 waits", "40 s"]),
        ("load", ["calls a second", "even: at most 5", "constant: at most 100", "Below.", "10 min"]),
    ],
)
def test_an_svg_holds_its_words(name: str, expected: list[str]) -> None:
    assert set(expected) <= set(words(PICTURES[name]))


@pytest.mark.parametrize("kind", ["dots", "heat", "load"])
def test_the_end_of_an_outage_is_marked_and_named(kind: str) -> None:
    picture = compose(kind, [EVEN], Scenario(jobs=20, outage_ms=5_400_000))
    found = words(picture)
    assert {"1 h 30 min", "outage 1 h 30 min"} <= set(found)
    assert found.count("outage 1 h 30 min") == 1
    plain = compose(kind, [EVEN], Scenario(jobs=20, success=0))
    assert not [word for word in words(plain) if "outage" in word]


def test_the_lines_of_a_load_share_the_name_of_an_outage() -> None:
    load = msgspec.structs.replace(LOAD, outage_ms=900_000)
    assert words(Picture("Load", (load,))).count("outage 15 min") == 1


def test_an_outage_that_ends_behind_the_axis_says_so() -> None:
    load = msgspec.structs.replace(LOAD, outage_ms=7_200_000)
    found = words(Picture("Load", (load,)))
    assert "outage 2 h →" in found
    assert "2 h" not in found


def test_the_classics_say_what_they_show() -> None:
    assert {"linear", "arithmetic", "geometric", "exponential, base 2", "4 min"} <= set(words(zaqar()))
    assert {"constant", "even on constant", "buckets", "even on buckets' mean"} <= set(words(herd(20)))


@pytest.mark.parametrize("form", ["svg", "png"])
@pytest.mark.parametrize("name", PICTURES)
def test_the_same_picture_gives_the_same_bytes(name: str, form: str) -> None:
    first = figure(PICTURES[name], form)  # type: ignore[arg-type]
    assert first == figure(PICTURES[name], form)  # type: ignore[arg-type]
    assert b"<dc:date>" not in first


def test_by_night_the_ground_is_dark() -> None:
    assert b"#14181d" in figure(PICTURES["band"], "svg", dark=True)
    light = figure(PICTURES["band"], "svg")
    assert b"#14181d" not in light
    assert b"#ffffff" in light
    assert words(PICTURES["band"]) == words(PICTURES["band"], dark=True)


def test_a_png_is_one() -> None:
    content = figure(PICTURES["band"], "png")
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert width == 1_260
    assert 600 <= height <= 1_000


def test_figures_leave_no_settings_behind() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure(PICTURES["band"], "svg")
    assert dict(matplotlib.rcParams) == before


def test_a_missing_matplotlib_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "has_matplotlib", lambda: False)
    with pytest.raises(NotSupported, match=r"pip install 'anew\[lab\]'"):
        figure(PICTURES["band"], "svg")


def test_without_numpy_matplotlib_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "has_numpy", lambda: False)
    assert not figures.has_matplotlib()


def long(*, log: bool) -> Load:
    """Three stampedes in the columns 0, 66 and 150 of five hours, and a trickle."""
    marks = edges(1_000, 17_999_999, log=log)
    columns = range(len(marks) - 1)
    sparse = tuple(3_000 if place in (0, 66, 150) else 0 for place in columns)
    lines = (("celery", sparse), ("even", (4,) * len(columns)))
    drawn = tuple(LoadLine(label, peaks, tuple(map(float, peaks))) for label, peaks in lines)
    return Load(1_000, tuple(1_000 * mark for mark in marks), drawn, log)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dark", [False, True])
def test_a_stampede_in_the_first_seconds_is_seen(log: bool, dark: bool) -> None:
    """Three thousand calls in the first seconds of five hours once were a bar of a third of a point, and no pixel."""
    root = ET.fromstring(figure(Picture("Load", (long(log=log),)), "svg", dark=dark))
    stampede, trickle = (
        next(path for path in root.iter(f"{SVG}path") if f"fill: {colour}" in path.get("style", ""))
        for colour in (policy_colour(place, dark=dark) for place in (0, 1))
    )
    assert f"stroke: {policy_colour(0, dark=dark)}; stroke-width: 0.3" in stampede.get("style", "")
    # Three columns with calls, and nothing between them.
    first, *others = stampede.get("d", "").split("M")[1:]
    assert len(others) == 2
    start, bottom, top, end = corners(first)
    assert end > start
    ground = "#14181d" if dark else "#ffffff"
    boxes = [
        path.get("d", "") for path in root.iter(f"{SVG}path") if f"fill: {ground}" in path.get("style", "")
    ]
    _, own, _ = (list(map(float, NUMBERS.findall(box))) for box in boxes)  # of the figure, and of both lines
    left, height = min(own[::2]), max(own[1::2]) - min(own[1::2])
    assert bottom - top == pytest.approx(height / 1.08, abs=0.1)
    # It stands a little aside from the axis.
    assert start - left == pytest.approx(4, abs=0.5)
    # Four calls of three thousand would be a tenth of a point high.
    start, bottom, top, end = corners(trickle.get("d", ""))
    assert bottom - top == pytest.approx(0.8, abs=0.2)


NUMBERS = re.compile(r"-?\d+(?:\.\d+)?")


def corners(path: str) -> tuple[float, float, float, float]:
    """Where a path begins that goes up first, across and down, where it goes up to, and where it turns to the right."""
    start, bottom, _, top, end, *_ = map(float, NUMBERS.findall(path))
    return start, bottom, top, end


@pytest.mark.parametrize("dark", [False, True])
def test_so_it_is_in_pixels(dark: bool) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(figure(Picture("Load", (long(log=False),)), "png", dark=dark)))[:, :, :3]
    # A row of pixels halfway up the first line,
    like = abs(pixels - to_rgb(policy_colour(0, dark=dark))).max(axis=2) < 0.25
    row = like[round(median(like.any(axis=1).nonzero()[0]))]
    begun = [place for place in range(1, len(row)) if row[place] and not row[place - 1]]
    # Columns 0, 66 and 150 of 240.
    first, second, third = begun
    assert (second - first) / (third - first) == pytest.approx(66 / 150, abs=0.005)


def test_labels_keep_their_distance() -> None:
    assert apart([1.0, 1.0, 0.5], 0.2) == pytest.approx([1.0, 0.8, 0.5])
    assert apart([0.1, 0.0], 0.2) == pytest.approx([0.2, 0.0])
    assert apart([0.9], 0.2) == [0.9]
