"""The load's columns: as high as the fullest second behind each, whatever the scale, and as the table says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from anew.backoff import Policy
from anew.lab.charts import loads
from anew.lab.charts.loads import Seconds
from anew.lab.waves import ABSENT
from anew.web.lab import drawing, scenes
from anew.web.lab.herds import Herd
from anew.web.lab.scenes import Scene

from .pages import page
from .test_pictures import DEFAULTS, herd_of


def test_a_column_is_as_high_as_its_fullest_second() -> None:
    """A day in columns of 6 min: 900 calls, 500 of them in one second, are 500 a second at most and 2.5 on average."""
    edges = loads.edges(1_000, 86_399_999, log=False)
    assert edges == [360 * place for place in range(241)]
    peaks, means = loads.columns(Seconds([3_600, 3_700], [500, 400], [500, 400]), edges)
    assert peaks == [500 if place == 10 else 0 for place in range(240)]
    assert means == [2.5 if place == 10 else 0 for place in range(240)]


def test_a_second_is_any_ten_tenths_in_a_row() -> None:
    """Calls at 0.9, 1.0, 1.8 and 1.9 s: three of them within the second from 0.9 s on, and two from 1.8 s on."""
    for calls in ([900, 1_000, 1_800, 1_900], np.array([900, 1_000, 1_800, 1_900])):
        found = loads.seconds(calls)
        assert [list(found.at), list(found.calls), list(found.fullest)] == [[0, 1], [1, 3], [3, 3]]


def test_what_lies_behind_the_end_is_left_out() -> None:
    seconds = Seconds([0, 1, 2, 9], [1, 2, 3, 9], [1, 2, 3, 9])
    assert loads.columns(seconds, loads.edges(1, 2_999, log=False)) == ([1, 2, 3], [1, 2, 3])


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("last", [2, 900, 7_000, 53_000, 5 * 10**7, 10**12])
def test_columns_rise_from_the_beginning_to_the_end(last: int, log: bool) -> None:
    edges = loads.edges(max(last // 2, 1), last, log=log, outage_ms=last // 3)
    assert edges == sorted(set(edges))
    assert edges[0] == 0
    assert last < edges[-1] * 1_000 <= last + 241_000 * (last // 240_000 + 1)
    assert len(edges) <= loads.COLUMNS + 2
    assert -(-last // 3_000) in edges


def test_the_time_before_the_first_call_has_columns_of_its_own() -> None:
    """First calls come at 250 s, and up to there the axis is even: a single column of 250 s was full from 0 on."""
    edges = loads.edges(250_000, 4_499_999, log=True)
    assert [edge for edge in edges if edge <= 250] == [5 * place for place in range(51)]


TWENTY: list[tuple[Any, dict[str, Any]]] = [
    ("even", {}),
    ("sidekiq", {}),
    ("celery", {}),
    ("constant", {}),
    ({"curve": {"constant": "1900ms"}, "jitter": "full", "limit": 9}, {}),
    ({"curve": {"constant": "190ms"}, "limit": 5}, {}),
    ("even", {"outage": 3_600_000}),
    ("sidekiq", {"outage": 3_600_000}),
    ("zizq", {"outage": 10_800_000}),
    ("aws_full", {"outage": 60_000}),
    ("faktory", {"outage": 86_400_000 * 3}),
    ("constant", {"outage": 720_000}),
    ("even", {"outage": 86_400_000, "success": 0.3}),
    ("sidekiq8", {"outage": 600_000, "success": 0.5}),
    ("zizq", {"outage": 3_600_000, "capacity": 5.0, "timeout": 2_000}),
    ("even", {"outage": 3_600_000, "capacity": 10.0, "latency": 500}),
    ("sidekiq", {"outage": 60_000, "rate": 2.0}),
    ({"curve": {"table": ["1h", "8h"]}, "jitter": {"add": "10s"}, "limit": 2}, {"outage": 7_200_000}),
    ({"curve": {"exponential": {"base": "10s"}}, "jitter": {"around": 0.1}, "limit": 12}, {"outage": 1_800_000}),
    ({"curve": {"constant": "10s"}, "jitter": "full", "deadline": "1h", "limit": 400}, {"success": 0.01}),
]  # fmt: skip


@pytest.mark.parametrize(("form", "values"), TWENTY, ids=lambda value: str(value)[:40])
def test_the_charts_peak_is_the_tables(form: Any, values: dict[str, Any]) -> None:
    """The table's peaks are the simulation's, counted apart; so is the peak of the calls after the outage."""
    values = DEFAULTS | {"until": None} | values
    drawn: Herd | Scene = herd_of(Policy.from_json(form), jobs=500)
    second, after = drawn.rhythm.peak_second, None
    if not scenes.is_plain(values):
        drawn = scenes.scene(drawn, scenes.scenario_of(values | {"jobs": 500}))
        second, after = drawn.outcome.peak_second, drawn.outcome.peak_second_after
    for log in (False, True):
        made = drawing.load([drawn], drawing.span([drawn], None), values, log=log)
        (line,) = made["lines"]
        assert max(line["peaks"]) == second
        if after is not None:
            late = zip(made["edges"], line["peaks"], strict=False)
            assert max((peak for edge, peak in late if edge >= values["outage"]), default=0) == after


@pytest.mark.parametrize("form", ["even", "sidekiq", "celery", "grpc"])
def test_all_calls_are_in_the_columns(form: Any) -> None:
    found = herd_of(Policy.from_json(form), jobs=200)
    calls = sum(int(ms) != ABSENT for wave in found.waves for ms in wave)
    for log in (False, True):
        edges = loads.edges(*drawing.span([found], None), log=log)
        _, means = loads.columns(found.seconds, edges)
        widths = [high - low for low, high in pairwise(edges)]
        counted = sum(mean * width for mean, width in zip(means, widths, strict=True))
        assert counted == pytest.approx(calls, abs=0.5)


def test_a_short_wave_of_a_long_outage_is_high() -> None:
    """1,000 jobs within 10 s after an hour: some 100 in a second, 6.67 a second over the 150 s of their column."""
    form = '{"curve":{"table":["1h","8h"]},"jitter":{"add":"10s"},"limit":2}'
    made = page({"a": form, "jobs": "1000", "outage": "9h", "scale": "linear"}).data["load"]
    (line,) = made["lines"]
    place = next(place for place, peak in enumerate(line["peaks"]) if peak)
    low, high = made["edges"][place : place + 2]
    assert low <= 3_600_000 < high
    assert 90 <= line["peaks"][place] <= 150
    assert line["means"][place] == pytest.approx(1_000_000 / (high - low), abs=1e-3)


def test_calls_one_by_one_are_drawn_as_rare_as_they_are() -> None:
    """One job, a call each hour of ten, in 240 columns of 151 s: one in a second at most, 1/151 of one on average."""
    form = '{"curve":{"constant":"1h"},"limit":10}'
    made = page({"a": form, "jobs": "1", "scale": "linear"}).data["load"]
    (line,) = made["lines"]
    assert set(line["peaks"]) == {0, 1}
    assert max(line["means"]) == pytest.approx(1 / 151, abs=1e-6)


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_the_same_wave_is_equally_high_wherever_it_comes(scale: str) -> None:
    """Waves of 1,000 calls in one millisecond, each five minutes: 1,000 in a second, early and late, and none between."""
    made = page({"a": "constant", "jobs": "1000", "scale": scale}).data["load"]
    (line,) = made["lines"]
    assert set(line["peaks"]) <= {0, 1_000}
    high = [edge for edge, peak in zip(made["edges"], line["peaks"], strict=False) if peak]
    assert len(high) >= 20
    assert high[0] >= 270_000  # nothing is drawn where no call can be
