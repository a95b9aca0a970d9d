"""A load's columns and its axis of time: no peak is too narrow to be seen, no height is invented."""

from __future__ import annotations

import itertools
import math

import pytest

from anew.lab.charts.axes import Scale, duration_ticks
from anew.lab.charts.loads import crowded, load_columns, load_scale
from anew.lab.charts.pictures import Load, LoadLine

STAMPEDE = (3_000, *[0] * 198, 4)
TRICKLE = tuple(5 + number % 3 for number in range(200))


def load_of(*lines: tuple[int, ...], bin_ms: int = 10_000) -> Load:
    return Load(1_000, bin_ms, tuple(LoadLine("a policy", counts) for counts in lines))


def test_a_peak_in_the_first_of_many_bins_is_a_column_that_can_be_seen() -> None:
    # 200 bins, and no column narrower than a hundredth: two bins a column, as high as the higher one.
    edges, peaks = load_columns(STAMPEDE, 10, Scale(0.0, 2_000.0), 0.01)
    assert edges == pytest.approx([place / 100 for place in range(101)])
    assert peaks == [3_000, *[0] * 98, 4]


def test_bins_that_are_wide_enough_are_columns_of_their_own() -> None:
    edges, peaks = load_columns((7, 0, 9), 10, Scale(0.0, 40.0), 0.1)
    assert (edges, peaks) == ([0.0, 0.25, 0.5, 0.75], [7, 0, 9])


def test_what_is_left_at_the_end_joins_the_last_column() -> None:
    # Five bins of a fifth each, columns of two fifths: the fifth bin has room for half a column.
    assert load_columns((1, 2, 3, 4, 9), 10, Scale(0.0, 50.0), 0.4) == ([0.0, 0.4, 1.0], [2, 9])
    assert load_columns((1, 9, 3, 4, 0), 10, Scale(0.0, 50.0), 0.4) == ([0.0, 0.4, 0.8], [9, 4])
    # A single bin of a long axis is as wide as a column must be.
    assert load_columns((8,), 10, Scale(0.0, 1_000.0), 0.05) == ([0.0, 0.05], [8])
    assert load_columns((), 10, Scale(0.0, 1_000.0), 0.05) == ([0.0, 0.05], [0])


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("counts", [STAMPEDE, TRICKLE, (0,) * 150 + (77,) + (0,) * 49, (12,), (3, 4)])
@pytest.mark.parametrize("least", [0.0, 0.003, 0.02, 0.4])
def test_every_height_is_a_count_of_one_bin_and_the_highest_is_kept(
    counts: tuple[int, ...], least: float, log: bool
) -> None:
    load = load_of(counts, TRICKLE)
    edges, peaks = load_columns(counts, load.bin_ms, load_scale(load, log=log), least)
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
