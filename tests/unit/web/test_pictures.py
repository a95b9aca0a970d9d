"""What is drawn and what is said about it: against figures worked out by hand."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from anew.backoff import Policy, preset
from anew.errors import InvalidInput
from anew.lab.charts.data import bin_edges
from anew.web import drawing, scenes, words
from anew.web.herds import Herd, herd
from anew.web.state import SCENARIO

from .pages import Page, page

DEFAULTS: dict[str, Any] = {name: default for name, (_, _, default, _) in SCENARIO.items()}


def herd_of(policy: Policy, **values: Any) -> Herd:
    """The herd of a policy on a page."""
    return herd("a", "A it", policy, DEFAULTS | values)


CONSTANT = herd_of(preset("constant", limit=5), jobs=100)


def test_a_herd_without_jitter_comes_in_waves() -> None:
    """100 jobs every 5 minutes: all in one second, and 5 of the 1,201 seconds from 5 to 25 minutes have calls."""
    assert (CONSTANT.rhythm.peak_second, CONSTANT.rhythm.peak_minute) == (100, 100)
    assert CONSTANT.meeting is False
    assert words.about_herds([CONSTANT]) == [
        "A it: over 99 % of the seconds pass without a call, and what should have been spread over them comes in waves."
    ]
    # 100 jobs in 300 s are 20 a minute, 500 calls in 1,201 s are 25.
    assert words.about_load([CONSTANT], 100) == [
        "A it: 100 calls of 100 jobs in the peak second; the jobs over their mean first wait of 5 min are 20 a minute; "
        "all 500 calls, spread evenly from the first to the last, are 25 a minute."
    ]


def test_even_leaves_no_silence() -> None:
    even = herd_of(preset("even"), jobs=1_000)
    assert words.about_herds([even]) == [
        "A it: no silence; the waves of the herd meet, and somebody is always about to try."
    ]


def test_a_herd_of_single_milliseconds_is_not_called_even() -> None:
    """Celery calls at 0 ... 7 s sharp: 63 of 71 tenths of a second are silent, and 60,000 calls in eight seconds are 7,500 each."""
    celery = herd_of(preset("celery"), jobs=20_000)
    assert words.about_herds([celery]) == [
        "A it: 89 % of the tenths of a second pass without a call, and what should have been spread over them comes in waves."
    ]
    (said,) = words.about_load([celery], 20_000)
    assert said.endswith("; all 60,000 calls, spread evenly from the first to the last, are 7,500 a second.")
    cells = {name: values[0] for name, _, values in words.herd_facts([celery], 20_000)}
    assert cells["Peak second"].endswith("(94 %)")  # 14/15 by hand, 93.6 % of these
    assert cells["Peak minute"] == "60,000 (300 %)"


@pytest.mark.parametrize(
    ("form", "herd_said", "load_said", "cells"),
    [
        ({"limit": 0}, [], [], ["no call", "no call", "no call"]),
        (
            {"limit": 1},
            ["A it: all calls come in one moment."],
            ["A it: 50 calls of 50 jobs in the peak second, which is the only one."],
            ["50 (100 %)", "50 (100 %)", "all in one moment"],
        ),
        (
            {"limit": 2},
            [
                "A it: 99 % of the tenths of a second pass without a call, and what should have been spread over them "
                "comes in waves."
            ],
            [
                "A it: 50 calls of 50 jobs in the peak second; the jobs over their mean first wait of 20 s are 2.5 a second; "
                "all 100 calls, spread evenly from the first to the last, are 4.76 a second."
            ],
            ["50 (100 %)", "100 (200 %)", "99 % of the tenths of a second"],
        ),
    ],
)
def test_few_retries_or_none(form: Any, herd_said: list[str], load_said: list[str], cells: list[str]) -> None:
    """A wave at 20 s, perhaps one at 40 s: 2 of 201 tenths of a second, 100 calls in 21 seconds."""
    one = herd_of(Policy.from_json({"curve": {"constant": "20s"}} | form), jobs=50)
    assert words.about_herds([one]) == herd_said
    assert words.about_load([one], 50) == load_said
    found = {name: values[0] for name, _, values in words.herd_facts([one], 50)}
    assert [found[name] for name in ("Peak second", "Peak minute", "Silence")] == cells


def test_few_jobs_leave_silence_however_evenly_they_come() -> None:
    (said,) = words.about_herds([herd_of(preset("even"), jobs=100)])
    assert said.startswith("A it: the waves of the herd meet; ")
    assert said.endswith(" of the hours pass without a call where few are left to come.")
    (said,) = words.about_herds([herd_of(preset("even"), jobs=3)])
    assert said.endswith(" of the hours between the first call and the last pass without one.")


def test_the_table_of_figures() -> None:
    assert words.facts([CONSTANT]) == [
        ("Retries", "", ["5"]),
        ("First wait", "", ["5 min"]),
        ("Whole window", "first failure to last retry", ["25 min"]),
        ("Outage outlived", "by every job", ["25 min"]),
    ]
    assert {name: values for name, _, values in words.herd_facts([CONSTANT], 100)} == {
        "Peak second": ["100 (100 %)"],
        "Peak minute": ["100 (100 %)"],
        "Silence": ["over 99 % of the seconds"],
    }


def test_a_window_is_that_of_all_retries_not_of_those_shown() -> None:
    """400 full waits of up to 10 s: 66 min 40 s at most, 2,000 s on average, with a deviation of 20 * 10 s / sqrt(12) = 57.7 s."""
    long = herd_of(Policy.from_json({"curve": {"constant": "10s"}, "jitter": "full", "limit": 400}), jobs=10)
    rows = {(name, about): cell for name, about, (cell,) in words.facts([long])}
    assert rows["Retries", ""] == "400; 100 shown"
    assert rows["Whole window", "first failure to last retry"] == "0 ms to 1 h 6 min"
    assert rows["Outage outlived", "by every job"] == "0 ms"
    # 2.326 deviations of a normal law on either side: 1,865.7 s to 2,134.3 s.
    usual = long.explained.window
    assert usual is not None
    assert [usual.percentile(1), usual.percentile(99)] == pytest.approx([1_865_700, 2_134_300], rel=0.002)
    assert rows["Usual window", "of 98 jobs in 100"].startswith("31 min ")
    assert rows["Usual window", "of 98 jobs in 100"].partition(" to ")[2].startswith("35 min ")
    assert rows["Outage outlived", "by 99 % of the jobs"].startswith("31 min ")


def test_retries_without_end_outlive_every_outage() -> None:
    endless = herd_of(Policy.from_json({"curve": {"constant": "10s"}, "limit": None}), jobs=10)
    cells = {name: cell for name, _, (cell,) in words.facts([endless])}
    assert cells == {
        "Retries": "no end; 25 shown",
        "First wait": "10 s",
        "Whole window": "no end",
        "Outage outlived": "every outage",
    }


def test_a_policy_without_a_retry_has_no_window() -> None:
    never = herd_of(Policy.from_json({"curve": {"constant": "10s"}, "limit": 0}), jobs=10)
    cells = {name: cell for name, _, (cell,) in words.facts([never])}
    assert (cells["Whole window"], cells["Outage outlived"]) == ("no retry", "none")


def test_words_about_waits() -> None:
    assert words.about_curves([CONSTANT]) == ["A it waits 5 min before the first retry, and so each time."]
    assert words.about_waits([CONSTANT], 2) == ["A it: retry 2 waits 5 min on average, all the same."]
    assert words.about_waits([CONSTANT], 9) == ["A it has no retry 9; its last is 5."]
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
        bounds = bin_edges(first, last, drawing.BINS, log)
        table = drawing.heat(CONSTANT, bounds)
        assert [sum(row) for row in table] == [100] * 5


def test_what_lies_behind_the_end_is_left_out() -> None:
    first, last = drawing.span([CONSTANT], 600_000)
    assert last == 600_000
    table = drawing.heat(CONSTANT, bin_edges(first, last, 60, False))
    assert [sum(row) for row in table] == [100, 100, 0, 0, 0]
    assert drawing.dots(CONSTANT, last) == [[300_000, 600_000]] * 100


def test_a_call_at_the_border_of_two_bins_opens_the_later_one() -> None:
    """Every 5 min up to 25 min, in bins of 2.5 min: 5 min begin the third. The last call closes the last bin."""
    table = drawing.heat(CONSTANT, bin_edges(300_000, 1_500_000, 10, False))
    assert [row.index(100) for row in table] == [2, 4, 6, 8, 9]
    # On an axis of powers from 5 to 25 min, of four bins: the second border is at 5 * sqrt(5) = 11.2 min.
    table = drawing.heat(CONSTANT, bin_edges(300_000, 1_500_000, 4, True))
    assert [row.index(100) for row in table] == [0, 1, 2, 3, 3]


def test_bins_of_powers_have_equal_ratios() -> None:
    bounds = bin_edges(10, 1_000, 2, True)
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


def test_waits_in_whole_seconds_have_bins_of_whole_seconds() -> None:
    """Sidekiq 8, retry 5: 271 s and 0 to 49 more; each second its own bin, and none of them is empty between two others."""
    made = drawing.histograms([herd_of(preset("sidekiq8"), jobs=20_000)], 5, log=False)
    (line,) = made["lines"]
    assert made["edges"] == [270_500 + 1_000 * place for place in range(len(made["edges"]))]
    assert all(line["shares"])


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
    first, until, about = scenes.said([played], 500)
    assert "for callers who have given up, and so it has not recovered by 12 min." in first
    assert until.startswith("Looked at until 12 min, as the other calls never end")
    assert about.startswith("Shaded is the outage")
    rows = {name: cells for name, _, cells in scenes.facts([played], 500)}
    assert int(rows["Abandoned"][0].replace(",", "")) > 1_000


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


def test_whoever_looks_farther_than_fresh_calls_are_followed_sees_more() -> None:
    values = DEFAULTS | {"outage": 60_000, "rate": 1.0}
    assert scenes.scenario_of(values | {"until": None}).end_ms == 720_000
    assert scenes.scenario_of(values | {"until": 60_000}).end_ms == 720_000
    assert scenes.scenario_of(values | {"until": 3_600_000}).end_ms == 3_600_000
    assert scenes.scenario_of(DEFAULTS | {"until": 3_600_000}).end_ms is None


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_the_load_ends_where_the_scenario_does(scale: str) -> None:
    """An outage of a minute and fresh calls: ten minutes and two, and no second more, though calls go on every 10 s."""
    form = '{"curve":{"constant":"10s"},"limit":100}'
    made = page(
        {
            "a": "json",
            "a.json": form,
            "outage": "1m",
            "success": "0",
            "rate": "1",
            "jobs": "5",
            "scale": scale,
        }
    )
    assert made.data["load"]["edges"][-1] == 720_000


def test_retries_of_the_calls_beside_the_herd_are_told_apart() -> None:
    """One job every second, a fresh call each second, an outage of 3.5 s: four calls of its own, six of the others."""
    values = DEFAULTS | {"jobs": 1, "outage": 3_500, "rate": 1.0, "until": None}
    played = scenes.scene(
        herd_of(preset("constant", wait="1s"), jobs=1), scenes.scenario_of(values), log=False
    )
    rows = {name: cells for name, _, cells in scenes.facts([played], 1)}
    assert (rows["Calls made"], rows["Others' retries"]) == (["4"], ["6"])


def test_an_outage_that_ends() -> None:
    """Every 5 minutes, down for 12: the third retry, at 15 minutes, brings all of them through."""
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 100, "outage": 720_000})
    played = scenes.scene(CONSTANT, scenario, log=True)
    assert scenes.said([played], 100) == [
        "A it: all of 100 jobs get through, half of them 3 min after the outage and the last "
        "3 min after the outage; "
        "100 calls in the peak second, 100 after the outage."
    ]
    assert {(name, about): cell for name, about, (cell,) in scenes.facts([played], 100)} == {
        ("Got through", "jobs"): "100",
        ("Half of them", "after the first failure"): "12 min + 3 min",
        ("The last of them", "after the first failure"): "12 min + 3 min",
        ("Calls made", "after the first failures"): "300",
        ("Peak second", "calls, % of the jobs"): "100 (100 %)",
        ("Peak minute", "calls, % of the jobs"): "100 (100 %)",
        ("Peak second when it returns", "after the outage"): "100 (100 %)",
        ("Peak minute when it returns", "after the outage"): "100 (100 %)",
        # 598 of the 601 seconds from 5 to 15 minutes.
        ("Silence", "between first and last call"): "over 99 % of the seconds",
    }


@pytest.mark.parametrize(
    ("name", "second", "minute"), [("sidekiq8", "155 (0.8 %)", "7,905 (40 %)"), ("even", "4 (under 0.1 %)", "206 (1.0 %)")]
)  # fmt: skip
def test_what_meets_the_returning_service_is_told(name: str, second: str, minute: str) -> None:
    """20,000 jobs, 3 h down; counted apart from the simulation, of each job the first instant at or after 3 h."""
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 20_000, "outage": 10_800_000})
    played = scenes.scene(herd_of(preset(name), jobs=20_000), scenario, log=False)
    rows = {(name, about): cell for name, about, (cell,) in scenes.facts([played], 20_000)}
    assert rows["Peak second when it returns", "after the outage"] == second
    assert rows["Peak minute when it returns", "after the outage"] == minute


def test_a_service_that_returns_to_nobody() -> None:
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 100, "outage": 86_400_000})
    played = scenes.scene(CONSTANT, scenario, log=False)
    rows = {(name, about): cell for name, about, (cell,) in scenes.facts([played], 100)}
    assert rows["Peak second", "calls, % of the jobs"] == "100 (100 %)"
    assert rows["Peak second when it returns", "after the outage"] == "no call"


def test_the_table_says_of_which_scenario_its_figures_are() -> None:
    """Silence is that of the scenario, as its neighbours are: one wave at 5 min is one moment, five of them are not."""
    one = '{"curve":{"constant":"5m"},"limit":5}'
    bare = page({"a": "json", "a.json": one, "jobs": "100"})
    assert headings(bare) == [
        "Each policy, whatever its jobs meet",
        "100 jobs failing together, then at every retry",
    ]
    assert "over 99\u00a0% of the seconds" in bare.html
    played = page({"a": "json", "a.json": one, "jobs": "100", "outage": "1m"})
    assert headings(played)[1] == "In this scenario: 100 jobs, outage 1\u00a0min"
    assert "all in one moment" in played.html
    assert "of the seconds" not in played.html.partition('id="facts"')[2].partition("</table>")[0]


def headings(made: Page) -> list[str]:
    """The headings of the table's groups."""
    return [one.text.strip() for one in made.named("th") if one.attributes.get("scope") == "rowgroup"]


def test_the_line_of_the_waits_is_the_mean_as_in_the_charts() -> None:
    """Full jitter on 10 s: from 0 to 10 s, 5 s on average, while the curve says 10 s."""
    form = '{"curve":{"constant":"10s"},"jitter":"full","limit":3}'
    made = page({"a": "json", "a.json": form, "jobs": "10"}).data
    assert made["line"] == "the mean"
    assert made["curves"][0]["joins"] == "mean"
    assert made["curves"][0]["middle"] == pytest.approx([5_000] * 3, abs=1)
    assert made["curves"][0]["nominal"] == [10_000] * 3


def test_numbers_stay_with_their_per_cent_sign() -> None:
    made = page("a=even&b=celery&jobs=1000&outage=10m").html
    shown = made.partition('id="facts"')[2].partition('id="data"')[0]
    assert "\u00a0%" in shown
    assert not re.search(r"[0-9] %(?! of the jobs<| of what)", shown.partition("<details")[0])


def test_an_outage_without_end() -> None:
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 100, "over": 10_000})
    assert scenario.success == 0
    played = scenes.scene(CONSTANT, scenario, log=False)
    assert scenes.said([played], 100) == ["A it: not one of 100 jobs gets through."]


def test_an_outage_that_nobody_ended_is_called_so() -> None:
    words = scenes.in_words(DEFAULTS | {"jobs": 100, "capacity": 50.0})
    assert words == "100 jobs, an outage without end, capacity 50 a second"
    assert scenes.in_words(DEFAULTS | {"jobs": 100, "outage": 3_600_000}) == "100 jobs, outage 1 h"
