"""What is drawn and what is said about it: against figures worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from anew.backoff import Policy, preset
from anew.errors import InvalidInput
from anew.web import drawing, scenes, words
from anew.web.herds import Herd, herd
from anew.web.state import SCENARIO

DEFAULTS: dict[str, Any] = {name: default for name, (_, _, default, _) in SCENARIO.items()}


def herd_of(policy: Policy, **values: Any) -> Herd:
    """The herd of a policy on a page."""
    return herd("a", "A it", policy, DEFAULTS | values)


CONSTANT = herd_of(preset("constant", limit=5), jobs=100)


def test_a_herd_without_jitter_comes_in_waves() -> None:
    """100 jobs every 5 minutes: all in one second, and 5 of 1,201 seconds have calls."""
    busy = CONSTANT.busy
    assert (busy.second, busy.minute) == (100, 100)
    assert busy.share == pytest.approx(100 / 300)
    assert busy.stretch == "minutes"
    assert busy.silent == pytest.approx(1 - 5 / 21)  # minutes 5 to 25
    assert words.about_herds([CONSTANT]) == [
        "A it: 76 % of the minutes pass without a call, and what should have been spread over them comes in waves."
    ]
    assert words.about_load([CONSTANT], 100) == [
        "A it: 100 calls of 100 jobs in the busiest second, 300× the even share of 0.333 a second."
    ]


def test_even_leaves_no_silence() -> None:
    even = herd_of(preset("even"), jobs=1_000)
    assert even.busy.silent == 0
    assert "no silence" in words.about_herds([even])[0]


def test_the_table_of_figures() -> None:
    cells = {name: values for name, _, values in words.facts([CONSTANT], 100)}
    assert cells == {
        "Retries": ["5"],
        "First wait": ["5 min"],
        "Whole window": ["25 min"],
        "Outage outlived": ["25 min"],
        "Busiest second": ["100 (300×)"],
        "Busiest minute": ["100 %"],
        "Silence": ["76 % of the minutes"],
    }


def test_words_about_waits() -> None:
    assert words.about_curves([CONSTANT]) == ["A it waits 5 min before the first retry, and so each time."]
    assert words.about_waits([CONSTANT], 2) == ["A it: retry 2 waits 5 min on average, all the same."]
    assert words.about_waits([CONSTANT], 9) == ["A it has no retry 9."]
    # Uniform on [0, 1 s): mean 500 ms, deviation 1 s / sqrt(12) = 289 ms = 58 %.
    full = herd_of(preset("aws_full", limit=1), jobs=20_000)
    (sentence,) = words.about_waits([full], 1)
    assert sentence in (
        f"A it: retry 1 waits {ms} ms on average, give or take 58 %." for ms in range(490, 511)
    )


@pytest.mark.parametrize(
    ("n", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (22, "22nd"), (25, "25th")]
)
def test_ordinals(n: int, text: str) -> None:
    assert words.ordinal(n) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.005, "0.5 %"),
        (0.05, "5 %"),
        (0.943, "94 %"),
        (0.997, "over 99 %"),
        (1, "100 %"),
        (1.25, "125 %"),
    ],
)
def test_percents(share: float, text: str) -> None:
    assert words.percent(share) == text


def test_every_call_is_in_one_bin() -> None:
    for log in (False, True):
        first, last = drawing.span([CONSTANT], None)
        bounds = drawing.edges(first, last, drawing.BINS, log=log)
        table = drawing.heat(CONSTANT, bounds, log=log)
        assert [sum(row) for row in table] == [100] * 5
        rates = drawing.rates([*map(sum, zip(*table, strict=True))], bounds)
        seconds = [(high - low) / 1_000 for low, high in zip([0.0, *bounds[1:]], bounds[1:], strict=False)]
        assert sum(rate * width for rate, width in zip(rates, seconds, strict=True)) == pytest.approx(
            500, rel=1e-4
        )


def test_what_lies_behind_the_end_is_left_out() -> None:
    first, last = drawing.span([CONSTANT], 600_000)
    assert last == 600_000
    table = drawing.heat(CONSTANT, drawing.edges(first, last, 60, log=False), log=False)
    assert [sum(row) for row in table] == [100, 100, 0, 0, 0]
    assert drawing.dots(CONSTANT, last) == [[300_000, 600_000]] * 100


def test_bins_of_powers_have_equal_ratios() -> None:
    bounds = drawing.edges(10, 1_000, 2, log=True)
    assert bounds == pytest.approx([10, 100, 1_000])


def test_an_axis_of_powers_begins_with_the_first_retry_that_is_not_at_once() -> None:
    at_once = herd_of(Policy.from_json({"curve": {"table": ["0s", "10s"]}, "limit": 2}), jobs=10)
    assert drawing.span([at_once], None) == (5_000, 10_000)


def test_histograms_share_their_bins() -> None:
    other = herd("b", "B", preset("zizq", limit=5), DEFAULTS | {"jobs": 100})
    made = drawing.histograms([CONSTANT, other], 1, log=False)
    assert [line["key"] for line in made["lines"]] == ["a", "b"]
    for line in made["lines"]:
        assert len(line["shares"]) == len(made["edges"]) - 1
        assert math.fsum(line["shares"]) == pytest.approx(1)
    assert drawing.histograms([CONSTANT], 6, log=False)["lines"] == []


def test_the_bare_herd_is_no_scenario() -> None:
    assert scenes.is_plain(DEFAULTS)
    assert scenes.is_plain(DEFAULTS | {"jobs": 7, "seed": 3, "phase": "hash"})
    assert not scenes.is_plain(DEFAULTS | {"outage": 0})
    assert not scenes.is_plain(DEFAULTS | {"capacity": 5.0})
    assert not scenes.is_plain(DEFAULTS | {"success": 0.5})


def test_a_success_without_an_outage_means_that_there_is_none() -> None:
    scenario = scenes.scenario_of(DEFAULTS | {"success": 0.5})
    assert (scenario.outage_ms, scenario.success) == (0, 0.5)


def test_a_collapse_that_lasts_is_called_that() -> None:
    """20 fresh calls a second, 30 can be done: a minute's outage is enough, since callers give up after 2 s and call again."""
    values = DEFAULTS | {"jobs": 500, "rate": 20.0, "capacity": 30.0, "timeout": 2_000, "outage": 60_000}
    played = scenes.scene(herd_of(preset("even"), jobs=500), scenes.scenario_of(values), log=False)
    first, about = scenes.said([played], 500)
    assert "for callers who have given up, and so it does not recover" in first
    assert about.startswith("Shaded is the outage")
    rows = {name: cells for name, _, cells in scenes.facts([played])}
    assert int(rows["In vain"][0].replace(",", "")) > 1_000


def test_a_collapse_that_ends_is_no_lasting_one() -> None:
    """200 jobs each minute, 10 calls a second, given up after 5 s: 50 a wave get through, all 200 in four waves."""
    values = DEFAULTS | {"jobs": 200, "capacity": 10.0, "timeout": 5_000, "outage": 30_000}
    played = scenes.scene(
        herd_of(preset("constant", wait="1m"), jobs=200), scenes.scenario_of(values), log=False
    )
    assert played.outcome.succeeded == 200
    assert scenes.said([played], 200)[0].endswith(
        "60 % of what the downstream does is for callers who have given up, and so it recovers late."
    )


def test_too_many_calls_that_meet_are_refused() -> None:
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 100_000, "capacity": 10.0})
    with pytest.raises(InvalidInput, match="more than 300,000 calls"):
        scenes.scene(herd_of(preset("constant", limit=5), jobs=100_000), scenario, log=False)


def test_an_outage_that_ends() -> None:
    """Every 5 minutes, down for 12: the third retry, at 15 minutes, brings all of them through."""
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 100, "outage": 720_000})
    played = scenes.scene(CONSTANT, scenario, log=True)
    assert scenes.said([played], 100) == [
        "A it: all of 100 jobs get through, half of them within 15 min and the last after 15 min; "
        "100 calls in the busiest second."
    ]
    assert scenes.facts([played])[3][2] == ["300"]
    rates = scenes.rates(played, [0.0, 400_000.0, 1_000_000.0])
    assert rates == pytest.approx([100 / 400, 200 / 600], rel=1e-3)


def test_an_outage_without_end() -> None:
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 100, "over": 10_000})
    assert scenario.success == 0
    played = scenes.scene(CONSTANT, scenario, log=False)
    assert scenes.said([played], 100) == ["A it: not one of 100 jobs gets through."]
