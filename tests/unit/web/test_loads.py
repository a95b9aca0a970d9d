"""The load's columns: as high as the fullest bin behind each, as in the charts of the lab."""

from __future__ import annotations

from typing import Any

import pytest

from anew.backoff import PRESETS, Policy, preset
from anew.lab.waves import ABSENT
from anew.web import loads, words
from anew.web.loads import Look

from .pages import page
from .test_pictures import herd_of


def test_a_column_is_as_high_as_its_fullest_bin() -> None:
    """4,800 bins of 10 s on 240 columns, 20 each: 1,000 calls in one bin are 100 a second there, and 5 over the column."""
    counts = [0] * 4_800
    counts[2_005] = 1_000
    made = loads.columns([[Look(48_000_000, 10_000, counts)]], 1, 47_999_999, log=False)
    assert made.edges_ms == [200_000.0 * place for place in range(241)]
    assert set(made.bins_ms) == {10_000}
    assert made.peaks == [[100.0 if place == 100 else 0.0 for place in range(240)]]
    assert made.means == [[5.0 if place == 100 else 0.0 for place in range(240)]]


def test_loads_of_different_bins_are_laid_over_each_other() -> None:
    """One in seconds, one in tenths; one ends before the other: the bins of both are seconds, as many as the longer has."""
    long = Look(4_000, 1_000, [1, 2, 3, 4])
    short = Look(1_500, 100, [1] * 15)
    made = loads.columns([[long], [short]], 1, 3_999, log=False)
    assert made.edges_ms == [0.0, 1_000.0, 2_000.0, 3_000.0, 4_000.0]
    assert made.peaks == made.means == [[1.0, 2.0, 3.0, 4.0], [10.0, 5.0, 0.0, 0.0]]


def test_the_beginning_is_shown_more_finely_on_an_axis_of_powers() -> None:
    near, whole = Look(1_800_000, 1_000, [7] * 1_800), Look(18_000_000, 10_000, [70] * 1_800)
    made = loads.columns([[near, whole]], 1_000, 17_999_999, log=True)
    change = made.edges_ms.index(1_800_000.0)
    assert made.bins_ms == [1_000] * change + [10_000] * (len(made.bins_ms) - change)
    assert set(made.peaks[0]) == set(made.means[0]) == {7.0}
    assert made.edges_ms[-1] == 18_000_000
    assert len(made.bins_ms) <= loads.COLUMNS


def test_what_lies_behind_the_end_is_left_out() -> None:
    made = loads.columns([[Look(10_000, 1_000, [1] * 10)]], 1, 2_999, log=False)
    assert made.edges_ms == [0.0, 1_000.0, 2_000.0, 3_000.0]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("last", [1, 900, 7_000, 53_000, 5 * 10**7, 10**12])
def test_columns_rise_from_the_beginning_to_the_end(last: int, log: bool) -> None:
    look = Look(last + 1, 10**9, [1] * (last // 10**9 + 1)) if last > 10**9 else Look(last + 1, 1_000, [1])
    made = loads.columns([[look]], max(last // 2, 1), max(last, 2), log=log)
    assert made.edges_ms == sorted(set(made.edges_ms))
    assert made.edges_ms[-1] > last
    assert made.edges_ms[0] > 0 if log else made.edges_ms[0] == 0
    assert all(edge % 1_000 == 0 for edge in made.edges_ms[1:])
    assert len(made.peaks[0]) == len(made.means[0]) == len(made.bins_ms) == len(made.edges_ms) - 1


@pytest.mark.parametrize(
    "form", ["even", "sidekiq", "celery", "grpc", {"curve": {"constant": "190ms"}, "limit": 5}], ids=str
)
def test_the_bare_load_is_what_counting_one_by_one_gives(form: object) -> None:
    found = herd_of(Policy.from_json(form), jobs=200)
    (look,) = loads.bare_looks(found, None, log=False)
    calls = [int(ms) for wave in found.waves for ms in wave if ms != ABSENT]
    places = [ms // look.bin_ms for ms in calls]
    assert list(look.counts) == [places.count(place) for place in range(max(places) + 1)]


@pytest.mark.parametrize("log", [False, True])
def test_a_moment_with_many_calls_is_no_rate_of_its_own(log: bool) -> None:
    """A thousand jobs of Celery, at whole seconds: the highest column is the fullest whole second of 1,000 jobs."""
    celery = herd_of(preset("celery"), jobs=1_000)
    made = loads.columns([loads.bare_looks(celery, None, log=log)], 1_000, celery.last_ms, log=log)
    calls = [int(ms) // 1_000 for wave in celery.waves for ms in wave]
    assert max(made.peaks[0]) == max(calls.count(second) for second in set(calls)) <= 1_000


TWENTY: list[Any] = [
    *sorted(PRESETS)[:18],
    {"curve": {"constant": "1900ms"}, "jitter": "full", "limit": 9},
    {"curve": {"exponential": {"base": "10s"}}, "jitter": {"around": 0.1}, "limit": 12},
]


@pytest.mark.parametrize("form", TWENTY, ids=str)
def test_the_charts_peak_is_the_tables(form: Any) -> None:
    for log in (False, True):
        found = herd_of(Policy.from_json(form), jobs=500)
        made = loads.columns([loads.bare_looks(found, None, log=log)], 1, max(found.last_ms, 2), log=log)
        assert max(made.peaks[0]) == found.rhythm.peak_second


def test_a_short_wave_of_a_long_outage_is_high() -> None:
    """1,000 jobs within 10 s after an hour, and the rest 8 h later, in bins of 30 s: 33.3 a second, over 150 s 6.7."""
    form = '{"curve":{"table":["1h","8h"]},"jitter":{"add":"10s"},"limit":2}'
    made = page({"a": form, "jobs": "1000", "outage": "2h", "scale": "linear"}).data["load"]
    (line,) = made["lines"]
    place = next(place for place, peak in enumerate(line["peaks"]) if peak)
    assert made["edges"][place : place + 2] == [3_600_000, 3_750_000]
    assert made["bins"][place] == 30_000
    assert line["peaks"][place] == pytest.approx(33.333, abs=1e-3)
    assert line["means"][place] == pytest.approx(6.667, abs=1e-3)


def test_where_the_view_ends_early_it_is_as_fine_as_it_can_be() -> None:
    """Half a year of retries, of which a minute is looked at: seconds, not hours."""
    made = page("a=sidekiq&jobs=100&until=1m&outage=10d&scale=linear").data["load"]
    assert set(made["bins"]) == {1_000}
    assert made["edges"][-1] == 61_000


def test_what_a_column_is_stands_below_the_picture() -> None:
    assert words.about_columns([1_000] * 3) == [
        "The line is the fullest second of each step, the shade its mean."
    ]
    assert words.about_columns([1_000, 10_000, 60_000]) == [
        "The line is the fullest second or minute of each step, the shade its mean."
    ]
    assert words.about_columns([10_000]) == ["The line is the fullest 10 s of each step, the shade its mean."]


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_the_same_wave_is_equally_high_wherever_it_comes(scale: str) -> None:
    """Waves of 1,000 calls in one millisecond, each five minutes: 1,000 in a second, early and late, and none between."""
    made = page({"a": "constant", "jobs": "1000", "scale": scale}).data["load"]
    (line,) = made["lines"]
    assert set(line["peaks"]) <= {0.0, 1_000.0}
    assert set(made["bins"]) == {1_000}
    high = [edge for edge, peak in zip(made["edges"], line["peaks"], strict=False) if peak]
    assert len(high) >= 20
    assert high[0] >= 270_000  # nothing is drawn where no call can be
    assert sum(
        mean * (end - start)
        for mean, start, end in zip(line["means"], [0, *made["edges"][1:]], made["edges"][1:], strict=False)
    ) == (pytest.approx(25_000 * 1_000, rel=1e-3))
