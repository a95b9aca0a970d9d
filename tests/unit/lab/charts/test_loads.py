"""A load's columns and its axis of time: no peak is too narrow to be seen, no height is invented."""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest

from anew.lab.charts.axes import Scale, duration_ticks
from anew.lab.charts.loads import crowded, load_columns, load_scale
from anew.lab.charts.pictures import Load, LoadLine

STAMPEDE = (3_000, *[0] * 198, 4)
TRICKLE = tuple(5 + number % 3 for number in range(200))


def load_of(*lines: tuple[int, ...], bin_ms: int = 10_000) -> Load:
    return Load(1_000, bin_ms, tuple(LoadLine("a policy", counts) for counts in lines))


def columns(counts: tuple[int, ...], end_ms: float, least: float) -> tuple[list[float], list[int]]:
    return load_columns(load_of(counts, bin_ms=10), counts, Scale(0.0, end_ms), least)


def test_a_peak_in_the_first_of_many_bins_is_a_column_that_can_be_seen() -> None:
    # 200 bins, and no column narrower than a hundredth: two bins a column, as high as the higher one.
    edges, peaks = columns(STAMPEDE, 2_000.0, 0.01)
    assert edges == pytest.approx([place / 100 for place in range(101)])
    assert peaks == [3_000, *[0] * 98, 4]


def test_bins_that_are_wide_enough_are_columns_of_their_own() -> None:
    edges, peaks = columns((7, 0, 9), 40.0, 0.1)
    assert (edges, peaks) == ([0.0, 0.25, 0.5, 0.75], [7, 0, 9])


def test_what_is_left_at_the_end_joins_the_last_column() -> None:
    # Five bins of a fifth each, columns of two fifths: the fifth bin has room for half a column.
    assert columns((1, 2, 3, 4, 9), 50.0, 0.4) == ([0.0, 0.4, 1.0], [2, 9])
    assert columns((1, 9, 3, 4, 0), 50.0, 0.4) == ([0.0, 0.4, 1.0], [9, 4])
    # A single bin of a long axis is as wide as a column must be.
    assert columns((8,), 1_000.0, 0.05) == ([0.0, 0.05], [8])
    assert columns((), 1_000.0, 0.05) == ([0.0, 0.05], [0])


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("counts", [STAMPEDE, TRICKLE, (0,) * 150 + (77,) + (0,) * 49, (12,), (3, 4)])
@pytest.mark.parametrize("least", [0.0, 0.003, 0.02, 0.4])
def test_every_height_is_a_count_of_one_bin_and_the_highest_is_kept(
    counts: tuple[int, ...], least: float, log: bool
) -> None:
    load = load_of(counts, TRICKLE)
    edges, peaks = load_columns(load, counts, load_scale(load, log=log), least)
    assert max(peaks) == max(counts)
    assert set(peaks) <= set(counts)
    assert all(end - start >= least * 0.999 for start, end in itertools.pairwise(edges))
    assert edges == sorted(edges)
    assert edges[0] == 0
    assert edges[-1] <= 1.0


def test_an_axis_of_powers_begins_at_zero() -> None:
    # Seven bins: 0, 1, 3 and 7 bins from the start are powers of 2, less 1; so they stand at equal distances.
    scale = load_scale(load_of((1,) * 7), log=True)
    places = [scale.at(number * 10_000) for number in (0, 1, 3, 7)]
    assert places == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert scale.value(2 / 3) == pytest.approx(30_000)
    # The first bin of 1,800 is ln 2 / ln 1,801 of the whole, 9 %, and not a pixel.
    assert load_scale(load_of((1,) * 1_800), log=True).at(10_000) == pytest.approx(
        math.log(2) / math.log(1_801)
    )


def test_its_ticks_are_zero_and_what_people_know() -> None:
    scale = load_scale(load_of((1,) * 1_800), log=True)
    assert duration_ticks(scale, 6) == [0, 10_000, 60_000, 600_000, 3_600_000]
    assert load_scale(load_of((1,) * 4), log=False) == Scale(0.0, 40_000.0)


def test_a_load_at_the_very_beginning_asks_for_powers() -> None:
    assert crowded(load_of(STAMPEDE))
    assert crowded(load_of(STAMPEDE[:1], TRICKLE)), "one of them is enough"
    assert not crowded(load_of(TRICKLE))
    # Half of the calls within the first ten of 200 bins, the twentieth part; and one bin later.
    assert crowded(load_of((*[0] * 9, 50, *[0] * 189, 50)))
    assert not crowded(load_of((*[0] * 10, 50, *[0] * 188, 50)))
    assert not crowded(load_of(()))


def test_a_stampede_before_hours_of_a_trickle_that_brings_more_calls_asks_for_powers() -> None:
    # Celery with limit 53: 78,067 calls in the first 10 s, some 760 in every 10 s of the three hours that follow. The
    # first bin has a twelfth of the calls, and nine tenths of the squares: 6.1e9 of 6.7e9.
    assert crowded(load_of((78_067, *[760] * 1_080)))
    # A first bin that is twice as full as the others does not stand out: 4 of 1,083.
    assert not crowded(load_of((2, *[1] * 1_079)))


def test_a_crowd_at_the_end_of_an_outage_does_not() -> None:
    assert not crowded(load_of((*[5] * 150, 900, *[5] * 49)))
    # Not even where the first seconds have one as well, but a smaller one: 900 and 600 squared are 81 and 36.
    assert not crowded(load_of((600, *[5] * 149, 900, *[5] * 49)))
    assert crowded(load_of((900, *[5] * 149, 600, *[5] * 49)))


def test_a_load_looked_at_from_later_on_begins_there_and_has_no_powers() -> None:
    load = msgspec.structs.replace(load_of((900, *[5] * 199)), from_ms=3_600_000)
    assert not crowded(load)
    assert load_scale(load, log=False) == load_scale(load, log=True) == Scale(3_600_000.0, 5_600_000.0)
    # 200 bins, and no column narrower than a twentieth: ten bins a column.
    edges, peaks = load_columns(load, load.lines[0].counts, load_scale(load, log=False), 0.05)
    assert edges == pytest.approx([place / 20 for place in range(21)])
    assert peaks == [900, *[5] * 19]
