"""Figures: files that can be read, that hold their words, and that come out the same each time."""

from __future__ import annotations

import struct
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from anew.backoff import preset
from anew.errors import NotSupported
from anew.lab.charts import figures
from anew.lab.charts.classics import herd, zaqar, zizq
from anew.lab.charts.data import curve_band, dots, heat, histogram
from anew.lab.charts.figures import figure
from anew.lab.charts.pictures import Load, LoadLine, Named, Picture

pytest.importorskip("matplotlib")

EVEN = Named("even", preset("even"))
LOAD = Load(100, 60_000, (LoadLine("even", (5,) * 30), LoadLine("constant", (0, 0, 0, 0, 100, 0))))
PICTURES = {
    "band": Picture("Even's waits", (curve_band([EVEN, Named("x$y$", preset("zizq", limit=5))]),)),
    "dots": Picture("Dots", (dots(EVEN, 10, 5),)),
    "heat": Picture("Heat", heat([EVEN], 50, 9)),
    "phases": Picture("Phases", heat([EVEN], 80, 9, rows="phase")),
    "histogram": Picture("Waits", (histogram(EVEN, 2, 500),)),
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
        ("band", ["Even's waits", "retry", "wait before the retry", "even", "x$y$", "25", "1 h", "1 d"]),
        ("dots", ["Dots", "job 1", "10", "time since the first failure", "1", "5"]),
        ("heat", ["retry", "9", "10 min"]),
        ("phases", ["the job's number for life", "0", "1"]),
        ("histogram", ["wait before retry 2", "of 500 waits", "40 s"]),
        ("load", ["calls in 1 min", "even: at most 5", "constant: at most 100", "Below.", "10 min"]),
    ],
)
def test_an_svg_holds_its_words(name: str, expected: list[str]) -> None:
    assert set(expected) <= set(words(PICTURES[name]))


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
    assert b"#14181d" in figure(zizq(), "svg", dark=True)
    light = figure(zizq(), "svg")
    assert b"#14181d" not in light
    assert b"#ffffff" in light
    assert words(zizq()) == words(zizq(), dark=True)


def test_a_png_is_one() -> None:
    content = figure(zizq(), "png")
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert width == 1_260
    assert 600 <= height <= 1_000


def test_figures_leave_no_settings_behind() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure(zizq(), "svg")
    assert dict(matplotlib.rcParams) == before


def test_a_missing_matplotlib_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "has_matplotlib", lambda: False)
    with pytest.raises(NotSupported, match=r"pip install 'anew\[lab\]'"):
        figure(zizq(), "svg")


def test_without_numpy_matplotlib_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "has_numpy", lambda: False)
    assert not figures.has_matplotlib()


def test_afterwards_a_figure_needs_no_further_library() -> None:
    """What is loaded where memory is bounded may be refused, and an import that fails is no answer."""
    code = """
import sys
from anew.backoff import preset
from anew.lab.charts.compose import compose
from anew.lab.charts.figures import figure, load_matplotlib
from anew.lab.charts.pictures import Named
load_matplotlib()
picture = compose("band", [Named("even", preset("even"))], log=None)
before = set(sys.modules)
for form in ("svg", "png"):
    figure(picture, form)
print([name for name in set(sys.modules) - before if (getattr(sys.modules[name], "__file__", "") or "").endswith(".so")])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_labels_keep_their_distance() -> None:
    from anew.lab.charts.plots import apart

    assert apart([1.0, 1.0, 0.5], 0.2) == pytest.approx([1.0, 0.8, 0.5])
    assert apart([0.1, 0.0], 0.2) == pytest.approx([0.2, 0.0])
    assert apart([0.9], 0.2) == [0.9]
