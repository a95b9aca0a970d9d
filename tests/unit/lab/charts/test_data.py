"""The data of pictures: published waits, sums that must come out, bounds."""

from __future__ import annotations

from itertools import pairwise
from operator import mul
from typing import Any

import msgspec
import pytest

from anew.backoff import Policy, preset
from anew.errors import InvalidInput
from anew.lab.charts.data import compose, curve_band, dots, heat, histogram, line_words, on_one_axis
from anew.lab.charts.pictures import Band, BandLine, BandPoint, Load
from anew.lab.named import Named
from anew.lab.simulation.scenario import Scenario


def named(name: str, **more: Any) -> Named:
    return Named(name, preset(name, **more))


def herd(jobs: int, seed: int = 1) -> Scenario:
    """Jobs that fail together and at every retry."""
    return Scenario(jobs=jobs, seed=seed, success=0)


def test_a_band_has_the_waits_and_their_mean() -> None:
    # 15 + k^4 s, plus up to 30k s: the mean is half-way (less half a millisecond of rounding down).
    (line,) = curve_band([named("zizq")], 3).lines
    assert [(p.nominal_ms, p.earliest_ms, p.latest_ms) for p in line.points] == [
        (16_000, 16_000, 46_000), (31_000, 31_000, 91_000), (96_000, 96_000, 186_000),
    ]  # fmt: skip
    assert [p.mean_ms for p in line.points] == pytest.approx([30_999.5, 60_999.5, 140_999.5])


def test_a_band_shows_as_many_retries_as_there_are() -> None:
    band = curve_band([named("zizq"), named("temporal"), named("even", limit=4)])
    assert [len(line.points) for line in band.lines] == [25, 25, 4]
    assert [len(line.points) for line in curve_band([named("temporal")], 40).lines] == [40]


def test_dots_are_a_row_for_each_job() -> None:
    panel = dots(Named("c", Policy.from_json({"curve": {"constant": "5m"}, "limit": 3})), herd(2))
    assert panel.instants_ms == ((300_000, 600_000, 900_000), (300_000, 600_000, 900_000))
    assert panel.end_ms == 900_000


def test_dots_of_another_seed_are_others() -> None:
    first, second = (dots(named("zizq"), herd(5, seed=seed), 3).instants_ms for seed in (1, 2))
    assert first != second
    assert first == dots(named("zizq"), herd(5), 3).instants_ms


@pytest.mark.parametrize("log", [True, False])
def test_a_heat_counts_every_retry_once(log: bool) -> None:
    (panel,) = heat([named("even")], herd(200), 6, log=log)
    assert [sum(row) for row in panel.counts] == [200] * 6
    assert len(panel.edges_ms) == 241
    assert list(panel.edges_ms) == sorted(panel.edges_ms)


def test_a_histogram_lies_inside_the_window() -> None:
    # Buckets: between k^3 and (k + 2)^3 s, at retry 3 from 27 to 125 s with a mean of 76 s.
    panel = histogram(named("buckets"), 3, herd(4_000))
    assert sum(panel.counts) == 4_000
    assert 27_000 <= panel.edges_ms[0] < panel.edges_ms[-1] <= 125_000
    assert panel.mean_ms == pytest.approx(76_000, abs=4 * 98_000 / 12**0.5 / 4_000**0.5)


def test_a_histogram_of_no_jitter_is_one_bar() -> None:
    panel = histogram(named("constant"), 2, herd(10))
    assert sum(panel.counts) == max(panel.counts) == 10


def test_waits_in_whole_seconds_have_whole_seconds_as_bins() -> None:
    # Sidekiq 8: 15 + k^4 s and up to 10 (k + 1) s, in whole seconds; at retry 5 (its k = 4) 271 to 320 s.
    panel = histogram(named("sidekiq8"), 5, herd(20_000))
    assert panel.edges_ms == tuple(270_500 + 1_000 * place for place in range(51))
    # Of 50 equally likely values each has 400, and 20 more or less: no bin is empty, and none twice as full.
    assert all(300 < count < 500 for count in panel.counts)


def test_outages_end_herds() -> None:
    policy = Policy.from_json({"curve": {"constant": "10s"}, "limit": 6})
    ten = Named("ten", policy)
    assert dots(ten, Scenario(jobs=2, outage_ms=25_000)).instants_ms == ((10_000, 20_000, 30_000),) * 2
    assert dots(ten, Scenario(jobs=2, outage_ms=30_000)).retries == 3
    assert dots(ten, Scenario(jobs=1)).instants_ms == ((10_000,),)
    (panel,) = heat([ten], Scenario(jobs=7, outage_ms=25_000), log=False)
    assert [sum(row) for row in panel.counts] == [7, 7, 7]
    assert (panel.outage_ms, panel.edges_ms[-1]) == (25_000, 30_000)


def test_a_line_is_the_mean_or_the_nominal_wait_and_never_both() -> None:
    told = BandLine("told", (BandPoint(1, 8, 5, 10, 7.5), BandPoint(2, 16, 5, 20, 12.5)))
    untold = BandLine("untold", (BandPoint(1, 8, 5, 10, 7.5), BandPoint(2, 16, 5, 20, None)), "nominal")
    assert told.middles_ms == (7.5, 12.5)
    assert untold.middles_ms == (8, 16)
    assert line_words(Band((told,))) == "the mean"
    without = "the curve's wait without jitter, as its mean cannot be told"
    assert line_words(Band((untold,))) == without
    assert line_words(Band((told, untold))) == f"the mean; that of untold is {without}"
    assert {line.line for line in curve_band([named("even"), named("celery")]).lines} == {"mean"}


def test_a_load_has_the_same_columns_for_all() -> None:
    policies = [named("constant", limit=2), named("zizq", limit=5)]
    [panel] = compose("load", policies, Scenario(jobs=50, success=0.0)).panels
    assert isinstance(panel, Load)
    widths = [(high - low) / 1_000 for low, high in pairwise(panel.edges_ms)]
    calls = [sum(map(mul, line.means, widths)) for line in panel.lines]
    assert calls == pytest.approx([100, 250], abs=0.1)
    columns = zip(pairwise(panel.edges_ms), panel.lines[0].peaks, strict=True)
    first, second = [edges for edges, peak in columns if peak == 50]
    assert first[0] <= 300_000 < first[1] <= second[0] <= 600_000 < second[1]


def test_all_data_are_json() -> None:
    for panel in (curve_band([named("even")], 3), dots(named("even"), herd(3), 3), *heat([named("even")], herd(5), 2),
                  histogram(named("even"), 1, herd(20))):  # fmt: skip
        back = msgspec.json.decode(msgspec.json.encode(panel))
        assert back["kind"] == type(panel).__name__.lower()


@pytest.mark.parametrize(
    ("call", "field", "said"),
    [
        (
            lambda: curve_band([named("even")], 0),
            "retries",
            "0 is not valid; expected a whole number from 1 to 1,000",
        ),
        (lambda: dots(named("even"), herd(10_000)), "jobs", "100,000 dots"),
        (lambda: heat([named("even")], herd(10_000_000)), "jobs", "25,000,000 retries in all"),
        (lambda: histogram(named("even"), 26, herd(10)), "retry", "from 1 to 25, a retry that even has"),
        (lambda: histogram(named("constant", deadline="1m"), 1, herd(9)), "retry", "before the deadline"),
    ],
)
def test_what_does_not_fit_is_told(call: Any, field: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        call()
    assert caught.value.field == field


def test_policies_that_are_compared_share_their_axis() -> None:
    panels = on_one_axis([dots(named("even"), herd(3), 3), dots(named("constant"), herd(3), 2)])
    assert {panel.end_ms for panel in panels} == {600_000}
    assert {panel.begin_ms for panel in panels} == {min(row[0] for row in panels[0].instants_ms)}
    first, second = heat([named("even"), named("constant")], herd(30), 4)
    assert first.edges_ms == second.edges_ms
    assert [sum(row) for row in second.counts] == [30] * 4


def test_the_mean_lies_within_its_band() -> None:
    """Waits of up to 16 and 32 min under a deadline of 10: the longest that is made is 10 min."""
    form = {"curve": {"exponential": {"base": "1m"}}, "jitter": "full", "deadline": "10m", "limit": 6}
    (line,) = curve_band([Named("it", Policy.from_json(form))]).lines
    for point in line.points:
        assert point.mean_ms is not None
        assert point.earliest_ms is not None
        assert point.latest_ms is not None
        assert point.earliest_ms <= point.mean_ms <= point.latest_ms
    assert line.points[5].latest_ms == 600_000
