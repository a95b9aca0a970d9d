"""What is drawn and what is said about it: against figures worked out by hand."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from anew.backoff import Policy, preset
from anew.errors import InvalidInput
from anew.lab.charts.data import bin_edges
from anew.web.lab import drawing, scenes, words
from anew.web.lab.herds import Herd, herd
from anew.web.lab.state import SCENARIO
from anew.web.lab.verdict import verdict

from .pages import Page, page

DEFAULTS: dict[str, Any] = {name: default for name, (_, _, default, _) in SCENARIO.items()}


def herd_of(policy: Policy, **values: Any) -> Herd:
    """The herd of a policy on a page."""
    return herd("a", "A it", policy, DEFAULTS | values)


CONSTANT = herd_of(preset("constant", limit=5), jobs=100)


def test_a_herd_without_jitter_comes_in_waves() -> None:
    """100 jobs every 5 minutes: all in one second, and 5 of the 1,201 seconds from 5 to 25 minutes have calls."""
    assert (CONSTANT.rhythm.peak_second, CONSTANT.rhythm.peak_minute) == (100, 100)
    assert quiet(CONSTANT) == "no call in over 99 % of the seconds"


def quiet(one: Herd) -> str:
    """What is said of a herd's silence."""
    return words.quiet(one.rhythm)


def test_even_leaves_no_silence() -> None:
    assert quiet(herd_of(preset("even"), jobs=1_000)) == "a call in all hours"


def test_a_herd_of_single_milliseconds_is_not_called_even() -> None:
    """Celery calls at 0 ... 7 s sharp: 63 of 71 tenths of a second are silent, and 60,000 calls fall in eight seconds."""
    celery = herd_of(preset("celery"), jobs=20_000)
    assert quiet(celery) == "no call in 89 % of the tenths of a second"
    assert celery.rhythm.peak_second / 20_000 == pytest.approx(14 / 15, abs=0.01)  # by hand
    assert words.busiest(celery.rhythm.peak_minute, 20_000) == "60,000 (300 %)"


@pytest.mark.parametrize(
    ("form", "said", "peaks"),
    [
        ({"limit": 0}, "no call", (0, 0)),
        ({"limit": 1}, "all calls in one moment", (50, 50)),
        ({"limit": 2}, "no call in 99 % of the tenths of a second", (50, 100)),
    ],
)
def test_few_retries_or_none(form: Any, said: str, peaks: tuple[int, int]) -> None:
    """A wave at 20 s, perhaps one at 40 s: 2 of 201 tenths of a second."""
    one = herd_of(Policy.from_json({"curve": {"constant": "20s"}} | form), jobs=50)
    assert quiet(one) == said
    assert (one.rhythm.peak_second, one.rhythm.peak_minute) == peaks


def cells(rows: list[words.Row]) -> dict[tuple[str, str], str]:
    """The first policy's cells of a table."""
    return {(name, about): first for name, about, (first, *_) in rows}


def test_the_table_of_figures() -> None:
    assert cells(words.facts([CONSTANT])) == {
        ("Retries", ""): "5",
        ("First wait", ""): "5 min",
        ("Last retry", "after the first failure"): "25 min",
        ("Outage outlived", "by every job"): "25 min",
    }


def test_a_window_is_that_of_all_retries_not_of_those_shown() -> None:
    """400 full waits of up to 10 s: 66 min 40 s at most, 2,000 s on average, with a deviation of 20 * 10 s / sqrt(12) = 57.7 s."""
    long = herd_of(Policy.from_json({"curve": {"constant": "10s"}, "jitter": "full", "limit": 400}), jobs=10)
    rows = cells(words.facts([long]))
    assert rows["Retries", ""] == "400; 100 shown"
    assert rows["Last retry", "after the first failure"] == "0 ms to 1 h 6 min"
    assert rows["Outage outlived", "by every job"] == "0 ms"
    # 2.326 deviations of a normal law below the mean: 1,865.7 s.
    assert rows["Outage outlived", "by 99 % of the jobs"].startswith("31 min ")


def test_retries_without_end_outlive_every_outage() -> None:
    endless = herd_of(Policy.from_json({"curve": {"constant": "10s"}, "limit": None}), jobs=10)
    rows = cells(words.facts([endless]))
    assert rows["Retries", ""] == "no end; 25 shown"
    assert rows["Last retry", "after the first failure"] == "no end"
    assert rows["Outage outlived", "by every job"] == "every outage"


def test_a_policy_without_a_retry_has_no_window() -> None:
    never = herd_of(Policy.from_json({"curve": {"constant": "10s"}, "limit": 0}), jobs=10)
    rows = cells(words.facts([never]))
    assert rows["Last retry", "after the first failure"] == "no retry"
    assert rows["Outage outlived", "by every job"] == "none"


def test_words_about_waits() -> None:
    assert words.about_waits(CONSTANT, 2) == "always 5 min"
    assert words.about_waits(CONSTANT, 9) == "its last retry is 5"
    # Uniform on [0, 1 s): mean 500 ms, deviation 1 s / sqrt(12) = 289 ms = 58 %.
    full = herd_of(preset("aws_full", limit=1), jobs=20_000)
    assert re.fullmatch("(49.|50.|510) ms on average, ± 58 %", words.about_waits(full, 1))


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
        (63.7, "6,370 %"),
    ],
)
def test_percents(share: float, text: str) -> None:
    assert words.percent(share) == text


def test_every_call_is_in_one_bin() -> None:
    for log in (False, True):
        first, last = drawing.span([CONSTANT], None)
        bounds = bin_edges(first, last, drawing.BINS, log)
        table = drawing.heat(CONSTANT.waves, bounds)
        assert [sum(row) for row in table] == [100] * 5


def test_what_lies_behind_the_end_is_left_out() -> None:
    first, last = drawing.span([CONSTANT], 600_000)
    assert last == 600_000
    table = drawing.heat(CONSTANT.waves, bin_edges(first, last, 60, False))
    assert [sum(row) for row in table] == [100, 100, 0, 0, 0]
    assert drawing.dots(CONSTANT.dots, last) == [[300_000, 600_000]] * 100


def test_a_call_at_the_border_of_two_bins_opens_the_later_one() -> None:
    """Every 5 min up to 25 min, in bins of 2.5 min: 5 min begin the third. The last call closes the last bin."""
    table = drawing.heat(CONSTANT.waves, bin_edges(300_000, 1_500_000, 10, False))
    assert [row.index(100) for row in table] == [2, 4, 6, 8, 9]
    # On an axis of powers from 5 to 25 min, of four bins: the second border is at 5 * sqrt(5) = 11.2 min.
    table = drawing.heat(CONSTANT.waves, bin_edges(300_000, 1_500_000, 4, True))
    assert [row.index(100) for row in table] == [0, 1, 2, 3, 3]


def test_bins_of_powers_have_equal_ratios() -> None:
    bounds = bin_edges(10, 1_000, 2, True)
    assert bounds == pytest.approx([10, 100, 1_000])


def test_an_axis_of_powers_begins_with_the_first_retry_that_is_not_at_once() -> None:
    at_once = herd_of(Policy.from_json({"curve": {"table": ["0s", "10s"]}, "limit": 2}), jobs=10)
    assert drawing.span([at_once], None) == (5_000, 10_000)


def test_no_wait_has_its_place_on_an_axis_of_powers() -> None:
    """Full jitter begins at 0: so do the axes of time, of the load and of the waits, and they are even up to a second."""
    made = page("a=aws_full&jobs=100&retry=1").data
    assert made["log"]
    assert made["edges"][0] == 0
    assert made["load"]["edges"][:2] == [0, 1_000]
    assert made["span"][0] == 1_000
    at_once = page(
        {"a": '{"curve":{"table":["0s","1m"]},"jitter":"full","limit":2}', "jobs": "10", "retry": "1"}
    ).data
    assert at_once["waits"]["edges"][0] <= 0


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
    played = scenes.scene(herd_of(preset("even"), jobs=500), scenes.scenario_of(values))
    collapse, until = scenes.said([played])
    assert "has not recovered by 12 min" in collapse
    assert "ends at 12 min" in until
    rows = cells(scenes.facts([played], 500))
    assert int(rows["Done in vain", "nobody waited any more"].replace(",", "")) > 1_000


def test_a_collapse_that_ends_is_no_lasting_one() -> None:
    """200 jobs each minute, 10 calls a second, given up after 5 s: 50 a wave get through, all 200 in four waves."""
    values = DEFAULTS | {"jobs": 200, "capacity": 10.0, "timeout": 5_000, "outage": 30_000}
    played = scenes.scene(herd_of(preset("constant", wait="1m"), jobs=200), scenes.scenario_of(values))
    assert played.outcome.succeeded == 200
    (said,) = scenes.said([played])
    assert "60 %" in said
    assert "recovers late" in said


def test_too_many_calls_that_meet_are_refused() -> None:
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 100_000, "capacity": 10.0})
    with pytest.raises(InvalidInput, match="more than 300,000 calls"):
        scenes.scene(herd_of(preset("constant", limit=5), jobs=100_000), scenario)


def test_whoever_looks_farther_than_fresh_calls_are_followed_sees_more() -> None:
    values = DEFAULTS | {"outage": 60_000, "rate": 1.0}
    assert scenes.scenario_of(values | {"until": None}).end_ms == 720_000
    assert scenes.scenario_of(values | {"until": 60_000}).end_ms == 720_000
    assert scenes.scenario_of(values | {"until": 3_600_000}).end_ms == 3_600_000
    assert scenes.scenario_of(DEFAULTS | {"until": 3_600_000}).end_ms is None


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_the_load_ends_where_the_scenario_does(scale: str) -> None:
    """An outage of a minute and fresh calls: ten minutes and two, and no more, though calls go on every 10 s."""
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
    assert 720_000 < made.data["load"]["edges"][-1] <= 724_000  # a call at 12 min sharp is within it


def test_retries_of_the_calls_beside_the_herd_are_told_apart() -> None:
    """One job every second, a fresh call each second, an outage of 3.5 s: four calls of its own, six of the others."""
    values = DEFAULTS | {"jobs": 1, "outage": 3_500, "rate": 1.0, "until": None}
    played = scenes.scene(herd_of(preset("constant", wait="1s"), jobs=1), scenes.scenario_of(values))
    rows = {name: told for name, _, told in scenes.facts([played], 1)}
    assert (rows["Calls made"], rows["Others' retries"]) == (["4"], ["6"])


def test_an_outage_that_ends() -> None:
    """Every 5 minutes, down for 12: the third retry, at 15 minutes, brings all of them through."""
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 100, "outage": 720_000})
    played = scenes.scene(CONSTANT, scenario)
    assert scenes.said([played]) == []
    assert cells(scenes.facts([played], 100)) == {
        ("Half are done", "of those that get through"): "12 min + 3 min",
        ("Calls made", "after the first failures"): "300",
        ("Peak second", "calls, % of the jobs"): "100 (100 %)",
        ("Peak minute", "calls, % of the jobs"): "100 (100 %)",
        ("Peak minute when it returns", "after the outage"): "100 (100 %)",
    }
    # 598 of the 601 seconds from 5 to 15 minutes.
    assert words.quiet(played.outcome) == "no call in over 99 % of the seconds"


@pytest.mark.parametrize("as_", ["dots", "heat", "lines"])
def test_the_pictures_stop_at_success(as_: str) -> None:
    """Every 5 minutes, down for 12: of five retries three are made, by all of 100 jobs."""
    made = page({"a": "constant", "a.limit": "5", "jobs": "100", "outage": "12m", "herd": as_}).data
    (herd,) = made["herds"]
    assert herd["retries"] == 3
    if as_ == "dots":
        assert herd["dots"] == [[300_000, 600_000, 900_000]] * 100
    else:
        assert [sum(row) for row in herd["heat"]] == [100] * 3
    assert made["span"][1] == 900_000


@pytest.mark.parametrize(
    ("name", "second", "minute"), [("sidekiq8", 155, "7,905 (40 %)"), ("even", 4, "206 (1.0 %)")]
)  # fmt: skip
def test_what_meets_the_returning_service_is_told(name: str, second: int, minute: str) -> None:
    """20,000 jobs, 3 h down; counted apart from the simulation, of each job the first instant at or after 3 h."""
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 20_000, "outage": 10_800_000})
    played = scenes.scene(herd_of(preset(name), jobs=20_000), scenario)
    rows = cells(scenes.facts([played], 20_000))
    assert played.outcome.peak_second_after == second
    assert rows["Peak minute when it returns", "after the outage"] == minute


def test_a_service_that_returns_to_nobody() -> None:
    scenario = scenes.scenario_of(DEFAULTS | {"jobs": 100, "outage": 86_400_000})
    played = scenes.scene(CONSTANT, scenario)
    rows = cells(scenes.facts([played], 100))
    assert rows["Peak second", "calls, % of the jobs"] == "100 (100 %)"
    assert rows["Peak minute when it returns", "after the outage"] == "no call"
    assert [cell.text for cell in verdict([CONSTANT], [played], None).rows["a"]] == ["100", "–", "–"]


def test_the_table_says_of_which_scenario_its_figures_are() -> None:
    """Silence is that of the scenario, as its neighbours are: one wave at 5 min is one moment, five of them are not."""
    one = '{"curve":{"constant":"5m"},"limit":5}'
    bare = page({"a": "json", "a.json": one, "jobs": "100"})
    assert headings(bare) == [
        "Each policy, whatever its jobs meet",
        "100 jobs failing together, then at every retry",
    ]
    assert bare.data["beside"]["herd"] == {"a": "no call in over 99\u00a0% of the seconds"}
    played = page({"a": "json", "a.json": one, "jobs": "100", "outage": "1m"})
    assert headings(played)[1] == "In this scenario: 100 jobs, outage 1\u00a0min"
    assert played.data["beside"]["herd"] == {"a": "all calls in one moment"}


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
    played = scenes.scene(CONSTANT, scenario)
    dead, _, last = verdict([CONSTANT], [played], None).rows["a"]
    assert (dead.text, last.word) == ("100", "nobody gets through")


def test_an_outage_that_nobody_ended_is_called_so() -> None:
    words = scenes.in_words(DEFAULTS | {"jobs": 100, "capacity": 50.0})
    assert words == "100 jobs, an outage without end, capacity 50 a second"
    assert scenes.in_words(DEFAULTS | {"jobs": 100, "outage": 3_600_000}) == "100 jobs, outage 1 h"
