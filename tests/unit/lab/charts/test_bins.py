"""Bins of waits: no gap that is not in the waits, none that hides one."""

from __future__ import annotations

import tracemalloc

import pytest

from anew.lab.charts.bins import step_of, wait_edges
from anew.lab.waves import Wave, tally

SECONDS = [n * 1_000 for n in range(15, 45)]


@pytest.mark.parametrize(
    ("waits", "step"),
    [
        (SECONDS, 1_000),
        # A floor of 14.3 s and a cap of 45.7 s stand where they like.
        ([14_300, *SECONDS, 45_700], 1_000),
        ([16, 19, 25, 28, 31], 3),
        ([5, 6, 9, 13, 14], 1),
        ([7, 7, 7], 1),
        ([10, 30], 20),
        ([7], 1),
    ],
)
@pytest.mark.parametrize("numpy", [False, True])
def test_the_step_of_waits(waits: list[int], step: int, numpy: bool) -> None:
    given: Wave = waits
    if numpy:
        given = pytest.importorskip("numpy").array(waits)
    assert step_of(given) == step


def test_few_values_have_a_bin_each_with_the_value_in_its_middle() -> None:
    edges = wait_edges([SECONDS], 60)
    assert edges == tuple(14_500 + 1_000 * place for place in range(31))
    assert tally(SECONDS, edges) == [1] * 30


@pytest.mark.parametrize("count", [121, 200, 599, 600, 601, 1_000])
@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_many_values_share_bins_and_all_bins_but_the_last_have_equally_many(count: int, step: int) -> None:
    waits = [5_000 + n * step for n in range(count)]
    edges = wait_edges([waits], 60)
    counts = tally(waits, edges)
    assert sum(counts) == count
    assert len(set(counts[:-1])) == 1
    assert 0 < counts[-1] <= counts[0]
    assert 30 <= len(counts) <= 60
    # The middle of a bin is the middle of its values.
    assert sum(waits[: counts[0]]) / counts[0] == pytest.approx((edges[0] + edges[1]) / 2)


def test_several_herds_share_bins_that_are_whole_steps_of_each() -> None:
    fine = [*range(15_000, 44_001)]
    edges = wait_edges([SECONDS, fine], 60)
    assert edges[1] - edges[0] == 1_000
    assert tally(SECONDS, edges) == [1] * 30


def test_a_wait_that_never_differs_is_one_bar_with_room_beside_it() -> None:
    edges = wait_edges([[300_000] * 9], 60)
    # Ten bins of 600 ms on either side.
    assert edges == tuple(299_700 + 600 * place for place in range(-10, 12))
    assert tally([300_000] * 9, edges) == [0] * 10 + [9] + [0] * 10
    assert tally([0] * 9, wait_edges([[0] * 9], 60)) == [9] + [0] * 10


def test_of_many_fine_values_no_end_seems_rarer_than_it_is() -> None:
    # 60 bins of 317 ms are 19,020 ms: of its 317 values the last bin lacks 19.
    edges = wait_edges([[*range(1_000, 20_001)]], 60)
    assert (len(edges), edges[1] - edges[0]) == (61, 317)
    # Of 601 values 55 bins of 11 lack 4 of 11, 51 of 12 lack 11, 47 of 13 lack 10; 43 of 14 lack 1.
    edges = wait_edges([[*range(1_000, 1_601)]], 60)
    assert (len(edges), edges[1] - edges[0]) == (44, 14)


def test_the_widest_waits_there_are_take_no_room() -> None:
    """A year in whole milliseconds has 500 million widths of bins to choose from: a few are looked at."""
    tracemalloc.start()
    edges = wait_edges([[0, 1, 5, 31_536_000_000]], 60)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert 50 <= len(edges) - 1 <= 60
    assert edges[-1] > 31_536_000_000
