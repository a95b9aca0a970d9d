"""A load's columns and its axis of time: where columns begin, how high they are, and when powers show more."""

from __future__ import annotations

import pytest

from anew.lab.charts.axes import Scale, duration_ticks, load_scale
from anew.lab.charts.data import load_of
from anew.lab.charts.loads import Seconds, crowded, edges
from anew.lab.charts.pictures import Load, LoadLine
from anew.lab.simulation.scenario import Scenario

STAMPEDE = (3_000, *[0] * 198, 4)
TRICKLE = tuple(5 + number % 3 for number in range(200))


def course_of(counts: tuple[int, ...]) -> Seconds:
    """Give so many calls in the first second, in the second, and so on; no second is crowded beyond its own."""
    at = [second for second, calls in enumerate(counts) if calls]
    calls = [counts[second] for second in at]
    return Seconds(at, calls, calls)


def crowds(counts: tuple[int, ...]) -> bool:
    return crowded(course_of(counts), 1_000 * len(counts) - 1)


def test_an_axis_of_powers_begins_at_zero() -> None:
    # 0, 1, 3 and 7 s from the start are powers of 2, less 1; so they stand at equal distances.
    scale = load_scale(Load(1, (0, 1_000, 3_000, 7_000), (), log=True))
    assert [scale.at(ms) for ms in (0, 1_000, 3_000, 7_000)] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert scale.value(2 / 3) == pytest.approx(3_000)


def test_its_ticks_are_zero_and_what_people_know() -> None:
    scale = load_scale(Load(1, (0, 10_000, 18_000_000), (), log=True))
    assert duration_ticks(scale, 6) == [0, 10_000, 60_000, 600_000, 3_600_000]
    assert load_scale(Load(1, (5_000, 9_000), ())) == Scale(5_000.0, 9_000.0)


def test_a_part_begins_and_ends_where_it_is_said_to_with_a_column_at_the_outages_end() -> None:
    # From 2 h to before 2 h 10 min: 600 s in 200 columns of 3 s, one of them cut where the outage ends.
    found = edges(0, 7_799_999, log=False, outage_ms=7_201_000, from_ms=7_200_000)
    assert found == [7_200, 7_201, *range(7_203, 7_801, 3)]
    assert edges(0, 7_799_999, log=False, outage_ms=3_600_000, from_ms=7_200_000)[:2] == [7_200, 7_203]


def test_calls_that_come_one_by_one_are_drawn_at_their_mean() -> None:
    line = LoadLine("even", (1, 0, 34), (0.25, 0.0, 6.5))
    assert (line.heights, line.peak) == ((0.25, 0.0, 34), 34)
    assert LoadLine("none", (), ()).peak == 0


def test_all_policies_have_the_same_columns() -> None:
    courses = [("a", course_of((7, 0, 9))), ("b", course_of((0, 2))), ("none", course_of(()))]
    found = load_of(courses, Scenario(jobs=5, outage_ms=2_000))
    assert found.edges_ms == (0, 1_000, 2_000, 3_000)
    assert [line.peaks for line in found.lines] == [(7, 0, 9), (0, 2, 0), (0, 0, 0)]
    assert (found.jobs, found.log, found.outage_ms) == (5, False, 2_000)


def test_a_load_at_the_very_beginning_asks_for_powers() -> None:
    assert crowds(STAMPEDE)
    assert not crowds(TRICKLE)
    # Half of the calls within the first ten of 200 seconds, the twentieth part; and one second later.
    assert crowds((*[0] * 9, 50, *[0] * 189, 50))
    assert not crowds((*[0] * 10, 50, *[0] * 188, 50))
    assert not crowds(())
    courses = [("a", course_of(STAMPEDE)), ("b", course_of(TRICKLE))]
    assert load_of(courses, Scenario()).log, "one of them is enough"
    assert not load_of(courses, Scenario(), log=False).log
    assert not load_of(courses, Scenario(), from_ms=1_000).log, "powers count from 0"


def test_a_stampede_before_hours_of_a_trickle_that_brings_more_calls_asks_for_powers() -> None:
    # The first second has a twelfth of the calls, and nine tenths of the squares: 6.1e9 of 6.7e9.
    assert crowds((78_067, *[760] * 1_080))
    # One that is twice as full as the others does not stand out: 4 of 1,083.
    assert not crowds((2, *[1] * 1_079))


def test_a_crowd_at_the_end_of_an_outage_does_not() -> None:
    assert not crowds((*[5] * 150, 900, *[5] * 49))
    # Not even where the first seconds have one as well, but a smaller one: 900 and 600 squared are 81 and 36.
    assert not crowds((600, *[5] * 149, 900, *[5] * 49))
    assert crowds((900, *[5] * 149, 600, *[5] * 49))
