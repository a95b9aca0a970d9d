"""Axes: places, round ticks, words for durations."""

from __future__ import annotations

import pytest

from anew.lab.charts.axes import (
    Scale,
    count_label,
    count_scale,
    count_ticks,
    duration_labels,
    duration_ticks,
    exact_label,
    mean_label,
    retry_ticks,
    time_scale,
)

S, MIN, H, D = 1_000, 60_000, 3_600_000, 86_400_000


def test_a_linear_scale_places_by_distance_and_a_log_scale_by_factor() -> None:
    linear, log = Scale(0.0, 200.0), Scale(10.0, 1_000.0, True)
    assert [linear.at(value) for value in (0, 50, 200, 300)] == [0.0, 0.25, 1.0, 1.0]
    assert [log.at(value) for value in (10, 100, 1_000, 0)] == pytest.approx([0.0, 0.5, 1.0, 0.0])
    assert linear.value(0.25) == 50.0
    assert log.value(0.5) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("high", "most", "labels"),
    [
        (5 * S, 6, ["0", "1 s", "2 s", "3 s", "4 s", "5 s"]),
        (260 * S, 6, ["0", "1 min", "2 min", "3 min", "4 min"]),
        (90 * S, 6, ["0", "30 s", "1 min", "1.5 min"]),
        (60 * MIN, 5, ["0", "15 min", "30 min", "45 min", "60 min"]),
        (110 * MIN, 6, ["0", "30 min", "1 h", "1.5 h"]),
        (4.6 * D, 6, ["0", "1 d", "2 d", "3 d", "4 d"]),
        (20 * D, 5, ["0", "5 d", "10 d", "15 d", "20 d"]),
    ],
)
def test_a_linear_axis_has_round_ticks_in_one_unit(high: float, most: int, labels: list[str]) -> None:
    assert duration_labels(duration_ticks(Scale(0.0, high), most)) == labels


def test_an_axis_that_does_not_begin_at_zero_begins_its_ticks_inside() -> None:
    assert duration_ticks(Scale(27.0 * S, 125.0 * S), 8) == [n * S for n in (30, 45, 60, 75, 90, 105, 120)]


def test_a_log_axis_has_durations_that_people_know() -> None:
    ticks = duration_ticks(Scale(13.0 * S, 30.0 * D, True), 8)
    assert duration_labels(ticks) == ["1 min", "10 min", "1 h", "6 h", "1 d", "7 d", "30 d"]
    assert len(duration_ticks(Scale(13.0 * S, 30.0 * D, True), 3)) <= 3


def test_a_short_log_axis_has_more_of_them() -> None:
    assert duration_ticks(Scale(11.0 * S, 100.0 * S, True), 6) == [15 * S, 30 * S, MIN]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0"), (250, "250 ms"), (15 * S, "15 s"), (MIN, "1 min"), (75 * S, "75 s"), (90 * MIN, "1.5 h"), (H, "1 h"),
     (36 * H, "1.5 d"), (20 * D, "20 d"), (3_650 * D, "3,650 d")],
)  # fmt: skip
def test_a_tick_is_one_number_and_one_unit(ms: int, text: str) -> None:
    assert duration_labels([ms]) == [text]


@pytest.mark.parametrize(("ms", "text"), [(850.4, "850 ms"), (36_166.3, "36.2 s"), (140_775.0, "2 min 21 s")])
def test_a_mean_is_no_finer_than_anybody_reads(ms: float, text: str) -> None:
    assert mean_label(ms) == text


@pytest.mark.parametrize(
    ("peak", "most", "ticks"),
    [
        (0, 3, [0, 1]),
        (43, 3, [0, 20, 40]),
        (287, 6, [0, 50, 100, 150, 200, 250]),
        (1_000, 3, [0, 500, 1_000]),
    ],
)
def test_counts_have_round_ticks_from_zero(peak: int, most: int, ticks: list[int]) -> None:
    assert count_ticks(count_scale([peak]), most) == ticks


def test_counts_are_written_with_thousands() -> None:
    assert [count_label(n) for n in (0, 950, 12_000, 1_500_000)] == ["0", "950", "12,000", "1.5 M"]


@pytest.mark.parametrize(
    ("retries", "most", "ticks"),
    [(1, 5, [1]), (10, 12, [*range(1, 11)]), (25, 12, [1, 5, 10, 15, 20, 25]), (23, 6, [1, 5, 10, 15, 20, 23]),
     (21, 6, [1, 5, 10, 15, 21])],
)  # fmt: skip
def test_the_first_and_the_last_retry_are_marked(retries: int, most: int, ticks: list[int]) -> None:
    assert retry_ticks(retries, most) == ticks


def test_an_axis_of_powers_survives_zeros_and_a_single_value() -> None:
    assert time_scale([0, 0], log=True).low > 0
    scale = time_scale([5_000], log=True)
    assert scale.low < 5_000 < scale.high
    assert time_scale([], log=False) == Scale(0.0, 1_000.0)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0"),
        (10_800_000, "3 h"),
        (10_920_000, "3 h 2 min"),
        (10_830_500, "3 h 30 s 500 ms"),
        (86_400_001, "1 d 1 ms"),
    ],
)
def test_an_instant_in_full(ms: int, text: str) -> None:
    assert exact_label(ms) == text
