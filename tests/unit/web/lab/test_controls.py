"""Controls: what a box holds, where its slider stands, and what is read back."""

from __future__ import annotations

from typing import Any

import pytest

from anew.backoff.kinds import Choice, Duration, Flag, Integer, Kind, ListOf, Number
from anew.errors import InvalidInput
from anew.units import parse_duration
from anew.web.lab import controls as ladders
from anew.web.lab.controls import control, read, slider, write

MINUTE = 60_000


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Duration(), "15s", 15_000),
        (Duration(), " 1h 30m ", 90 * MINUTE),
        (Duration(optional=True), "", None),
        (Duration(optional=True), "none", None),
        (Number(0, 10), "4.5", 4.5),
        (Number(0, 10), "1e0", 1.0),
        (Integer(1, 100), "25", 25),
        (Integer(0, 100, optional=True), "none", None),
        (Flag(), "true", True),
        (Choice("seq", "hash"), "hash", "hash"),
        (ListOf(Duration(), 1, 9), "10s, 1m,10m", (10_000, MINUTE, 10 * MINUTE)),
    ],
)
def test_a_box_is_read_as_its_kind(kind: Kind, text: str, value: Any) -> None:
    assert read(kind, text, "it") == value
    assert read(kind, write(kind, value), "it") == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Duration(), ""), (Duration(), "none"), (Number(0, 10), "ten"), (Number(0, 10), "inf"), (Number(0, 10), "1..2"),
        (Integer(1, 100), "2.5"), (Integer(1, 100), "0x10"), (Integer(1, 100), "9" * 40), (Flag(), "yes"),
        (ListOf(Duration(), 1, 9), ""), (ListOf(Duration(), 1, 9), "1s,,2s"), (Duration(), "1s" * 20_000),
    ],
)  # fmt: skip
def test_what_is_no_such_thing_is_refused_by_name(kind: Kind, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^it"):
        read(kind, text, "it")


@pytest.mark.parametrize(
    ("kind", "text"),
    [(Duration(), "5"), (Duration(optional=True), " 5 "), (ListOf(Duration(), 1, 9), "10s, 5")],
)
def test_a_duration_needs_its_unit(kind: Kind, text: str) -> None:
    """As everywhere that people type: 5 ms are rarely what 5 was meant to be."""
    with pytest.raises(
        InvalidInput, match=r'^it: "5" has no unit; expected a duration with its unit, such as 5s or 5ms$'
    ):
        read(kind, text, "it")
    assert read(kind, text.replace("5", "0"), "it") in (0, (10_000, 0))
    made, _ = control(kind, "it", "soon", None)
    assert "milliseconds" not in made.error


def test_a_control_keeps_the_text_and_says_what_is_wrong_with_it() -> None:
    made, value = control(Duration(), "a.base", "soon", 15_000)
    assert (made.text, made.label, value) == ("soon", "base", 15_000)
    assert 'base: "soon" is not valid' in made.error


def test_a_value_at_its_default_stays_exactly_that() -> None:
    """1/18 is shown as 0.05556; who leaves it so means 1/18."""
    made, value = control(Number(0, 1), "a.detune", "0.05556", 1 / 18)
    assert value == 1 / 18
    assert (made.text, made.default) == ("0.05556", "0.05556")


def test_steps_of_durations_grow_and_are_round() -> None:
    steps = ladders.DURATIONS_MS
    assert list(steps) == sorted(set(steps))
    assert [parse_duration(text) for text in ladders.LADDERS["duration"]] == list(steps)
    assert {"0s", "15s", "1m30s", "1h", "1d", "365d"} <= set(ladders.LADDERS["duration"])


@pytest.mark.parametrize(
    ("value", "nearest"), [(15_000, "15s"), (16_000, "15s"), (0, "0s"), (10**12, "365d")]
)
def test_a_slider_stands_at_the_nearest_step(value: int, nearest: str) -> None:
    assert ladders.LADDERS["duration"][ladders.place("duration", value)] == nearest


@pytest.mark.parametrize(
    ("kind", "leaf", "low", "high", "ladder"),
    [
        (Number(0), "exponent", 0, 8, ""),
        (Number(0, 1e6, above=True), "factor", 1, 10, ""),
        (Number(0, 1), "spread", 0, 1, ""),
        (Integer(1, 1_000), "jobs", 0, 15, "count"),  # 1 to 1,000: five steps a power of ten
        (Integer(0, 10**9, optional=True), "limit", 0, 50, ""),
    ],
)
def test_a_slider_covers_what_is_usual(kind: Kind, leaf: str, low: float, high: float, ladder: str) -> None:
    made = slider(kind, leaf, None)
    assert made is not None
    assert (made.low, made.high, made.ladder) == (low, high, ladder)
    assert made.at == (made.end if made.empty else low)


def test_no_bound_is_more_than_any() -> None:
    """A slider reaches the empty box behind its last step, so that 1 ms is not what comes next to no cap at all."""
    made = slider(Integer(0, 10**9, optional=True), "limit", None)
    assert made is not None
    assert (made.high, made.end, made.at) == (50, 51, 51)
    there = slider(Integer(0, 10**9, optional=True), "limit", 25)
    assert there is not None
    assert (there.end, there.at) == (51, 25)
    bounded = slider(Duration(), "base", 15_000)
    assert bounded is not None
    assert bounded.end == bounded.high


def test_words_have_no_slider() -> None:
    assert slider(Choice("a", "b"), "source", "a") is None
    made, _ = control(Choice("a", "b"), "a.source", None, "a")
    assert made.options == (("a", "a"), ("b", "b"))
