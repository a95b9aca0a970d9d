"""Bins that add up, percentiles by nearest rank, and both tallies counting the same."""

from __future__ import annotations

import random

import pytest

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.rhythm import Silence
from anew.lab.simulation.outcome import MAX_BINS, bin_width_ms, percentile, widened
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate
from anew.lab.simulation.tally import Peaks, PlainTally, Returning, Tally
from anew.units import DAY_MS, HOUR_MS


@pytest.mark.parametrize(
    ("last_ms", "width_ms"),
    [(0, 1), (1_999, 1), (2_000, 2), (4_000, 10), (HOUR_MS, 2_000), (20 * DAY_MS, 30 * 60_000), (400_000 * DAY_MS, 500 * DAY_MS)],
)  # fmt: skip
def test_bins_are_the_narrowest_that_fit(last_ms: int, width_ms: int) -> None:
    """An hour in 2,000 bins needs 1.8 s each, so 2 s; twenty days need 14.4 min, so 30 min."""
    assert bin_width_ms(last_ms) == width_ms
    assert last_ms // width_ms < MAX_BINS


def test_bins_add_up() -> None:
    assert widened([1, 2, 3, 4, 5], 2) == (3, 7, 5)


def test_percentiles_are_nearest_ranks() -> None:
    """Of 20 values the 50th percentile is the 10th, the 95th the 19th, the 99th and the 100th the 20th."""
    values = list(range(1, 21))
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [10, 19, 20, 20]
    assert percentile([7], 0.5) == 7


def tallies(outage_ms: int = 0) -> list[Tally]:
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    from anew.lab.simulation.tally_arrays import ArrayTally

    return [PlainTally(outage_ms), ArrayTally(outage_ms)]


@pytest.mark.parametrize(
    "reach_ms", [50, 5_000, 90_000, 3 * HOUR_MS, 9 * DAY_MS, 300 * DAY_MS, 20_000 * DAY_MS]
)
@pytest.mark.parametrize("calls", [1, 7, 3_000])
@pytest.mark.parametrize("share", [0, 0.001, 0.37, 1.5])
def test_both_tallies_count_the_same(reach_ms: int, calls: int, share: float) -> None:
    """With an outage of a share of the time, too; as good as never does it end on a tenth of a second."""
    luck = random.Random(f"{reach_ms} {calls}")
    both = tallies(int(reach_ms * share))
    for retry in range(1, 16):
        top = max(1, reach_ms * retry // 15)
        row = [luck.randrange(top) for _ in range(calls)]
        for tally in both:
            tally.add(retry, row, retry)
    plain, arrays = both
    assert arrays.lines() == plain.lines()
    assert arrays.peaks() == plain.peaks()
    assert (arrays.calls, arrays.last_ms) == (plain.calls, plain.last_ms)
    for wider in (1, 5):
        bin_ms = bin_width_ms(plain.last_ms * wider)
        assert arrays.load(bin_ms) == plain.load(bin_ms)


@pytest.mark.parametrize("start_ms", [0, 600 * 2**15 * 100 - 10_000_000])
def test_both_tallies_count_many_scattered_calls_the_same(start_ms: int) -> None:
    """More calls than are counted at a time, over five hours; the second time across the end of what has cells."""
    luck = random.Random(7)
    rows = [[start_ms + luck.randrange(20_000_000) for _ in range(70_000)] for _ in range(2)]
    plain, arrays = tallies(start_ms + 12_345_678)
    for retry, row in enumerate(rows, start=1):
        plain.add(retry, row, 0)
        arrays.add(retry, row, 0)
    assert arrays.peaks() == plain.peaks()
    bin_ms = bin_width_ms(plain.last_ms)
    assert arrays.load(bin_ms) == plain.load(bin_ms)


def test_tallies_count_by_hand() -> None:
    for tally in tallies():
        tally.add(1, [500, 900, 61_000], 1)
        tally.add(2, [999, 250_000], 0)
        assert [(line.median_ms, line.earliest_ms, line.latest_ms) for line in tally.lines()] == [
            (900, 500, 61_000),
            (999, 999, 250_000),
        ]
        # Second 0 has three calls. The call at 61 s comes 60.5 s after the first of them, but within 60 s of those at 900
        # and 999 ms, in tenths as in milliseconds. Of the 251 seconds from 0 to 250 three have a call: 0, 61 and 250.
        assert tally.peaks() == Peaks(3, 3, Silence(1_000, pytest.approx(248 / 251)), None)
        assert tally.load(60_000) == ([3, 1, 0, 0, 1], [[2, 1, 0, 0, 0], [1, 0, 0, 0, 1]])
        assert tally.histogram([5, 59_999, 120_000], 60_000, 2) == [2, 0]


def test_calls_close_together_far_away_are_told_apart() -> None:
    """Half a year and more ahead, 30 ms apart at most: of 31 milliseconds three have a call, in whatever order they came."""
    for start_ms in (HOUR_MS, 400 * DAY_MS):
        for tally in tallies():
            tally.add(1, [start_ms + 30, start_ms + 20], 0)
            tally.add(2, [start_ms, start_ms + 30], 0)
            assert tally.peaks() == Peaks(4, 4, Silence(1, pytest.approx(28 / 31)), None)


EDGE_MS = 600 * 2**15 * 100
"""Tenths of a second have cells up to here, in the course of day 22."""


def test_days_are_counted_across_the_end_of_what_has_a_cell_each() -> None:
    """Calls on days 0, 22 before and after the edge, and 400: the two about the edge lie within any second between them."""
    assert EDGE_MS // DAY_MS == 22
    for tally in tallies():
        tally.add(1, [0, EDGE_MS - 400, EDGE_MS + 400, 400 * DAY_MS], 0)
        assert tally.peaks() == Peaks(2, 2, Silence(DAY_MS, pytest.approx(398 / 401)), None)


def test_a_peak_begins_on_any_tenth_of_a_second() -> None:
    """Three calls about the border of a second, four more about that of a minute; nine tenths apart are together, ten not."""
    for start_ms in (0, 37 * 60_000, EDGE_MS - 60_000, 400 * DAY_MS):
        for tally in tallies():
            tally.add(1, [start_ms + ms for ms in (900, 1_000, 1_899, 59_900, 60_000, 60_000, 60_799)], 0)
            found = tally.peaks()
            assert (found.second, found.minute) == (4, 7)
        for tally in tallies():
            tally.add(1, [start_ms + ms for ms in (999, 1_900, 60_900)], 0)
            found = tally.peaks()
            # 901 ms apart, but of ten tenths in a row only one of 0.9 and 1.9 s is one; 60.9 s comes 59 s after 1.9 s.
            assert (found.second, found.minute) == (1, 2)


def test_after_the_outage_only_the_calls_that_meet_the_service_count() -> None:
    """An outage to 100.05 s: of the calls in that tenth one came before. Four come in the first minute."""
    for tally in tallies(100_050):
        tally.add(1, [1_000] * 50, 0)
        tally.add(2, [100_049, 100_050, 100_900, 101_000, 160_049, 160_050, 160_099], 4)
        found = tally.peaks()
        assert (found.second, found.minute) == (50, 50)
        # Three in the tenth at 160.0 s; with those at 100.9 and 101.0 s five within 60 s. At 160.05 s the minute is over.
        assert found.after == Returning(second=3, minute=5, first_minute=4)


def test_nothing_comes_after_an_outage_that_outlasts_the_retries() -> None:
    for tally in tallies(10_000):
        assert tally.peaks() == Peaks(0, 0, None, Returning(0, 0, 0))
        tally.add(1, [9_999] * 3, 0)
        assert tally.peaks() == Peaks(3, 3, None, Returning(0, 0, 0))


@pytest.mark.parametrize("outage_ms", [EDGE_MS - 30_050, EDGE_MS, EDGE_MS + 50, 30 * DAY_MS + 50])
def test_an_outage_may_end_where_cells_end_and_later(outage_ms: int) -> None:
    """Two calls before its end; three at it and within a second, two more within the minute, and one when that is over."""
    for tally in tallies(outage_ms):
        tally.add(1, [5, outage_ms - 1, outage_ms, outage_ms + 1], 0)
        tally.add(2, [outage_ms + 700, outage_ms + 30_000, outage_ms + 59_900, outage_ms + 60_000], 0)
        found = tally.peaks()
        assert found.after is not None
        assert (found.after.second, found.after.first_minute) == (3, 5)


def test_an_outcome_can_have_wider_bins_but_not_others() -> None:
    policy = Policy.from_json({"curve": {"constant": "10s"}, "limit": 4})
    narrow = simulate(policy, Scenario(jobs=3, success=0))
    assert narrow.load.bin_ms == 100
    assert len(narrow.load.counts) == 401
    wide = narrow.rebinned(30_000)
    assert (wide.load.bin_ms, wide.load.counts) == (30_000, (6, 6))
    assert wide.by_retry == ((3, 0), (3, 0), (0, 3), (0, 3))
    assert simulate(policy, Scenario(jobs=3, success=0), bin_ms=30_000) == wide
    assert narrow.rebinned(100) is narrow
    for wrong in (150, 10):
        with pytest.raises(InvalidInput, match="multiple of 100"):
            narrow.rebinned(wrong)


def test_a_downstreams_levels_are_those_at_the_ends_of_wider_bins() -> None:
    """Ten calls at 1 s, one done every 100 ms: at the end of each wider bin what is left is left."""
    policy = Policy.from_json({"curve": {"constant": "1s"}})
    narrow = simulate(policy, Scenario(jobs=10, capacity=10))
    wide = narrow.rebinned(500)
    assert narrow.downstream is not None
    assert wide.downstream is not None
    assert wide.downstream.offered == (0, 0, 10, 0)
    assert wide.downstream.backlog == (0, 0, 5, 0)
    assert sum(narrow.downstream.served) == sum(wide.downstream.served) == 10
