"""Bins that add up, percentiles by nearest rank, and calls counted by hand, with NumPy and without."""

from __future__ import annotations

import random
from array import array

import pytest

from anew.lab.rhythm import Silence
from anew.lab.simulation.outcome import MAX_BINS, Outcome, bin_width_ms, percentile
from anew.lab.simulation.record import Record
from anew.lab.simulation.scenario import Scenario
from anew.units import DAY_MS, HOUR_MS


@pytest.mark.parametrize(
    ("last_ms", "width_ms"),
    [(0, 1), (1_999, 1), (2_000, 2), (4_000, 10), (HOUR_MS, 2_000), (20 * DAY_MS, 30 * 60_000), (400_000 * DAY_MS, 500 * DAY_MS)],
)  # fmt: skip
def test_bins_are_the_narrowest_that_fit(last_ms: int, width_ms: int) -> None:
    """An hour in 2,000 bins needs 1.8 s each, so 2 s; twenty days need 14.4 min, so 30 min."""
    assert bin_width_ms(last_ms) == width_ms
    assert last_ms // width_ms < MAX_BINS


def test_percentiles_are_nearest_ranks() -> None:
    """Of 20 values the 50th percentile is the 10th, the 95th the 19th, the 99th and the 100th the 20th."""
    values = list(range(1, 21))
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [10, 19, 20, 20]
    assert percentile([7], 0.5) == 7


def counted(*rows: list[int], outage_ms: int = 0, good: int = 0) -> Outcome:
    """Count the calls of some retries, with NumPy and without the same."""
    pytest.importorskip("numpy", reason="pip install 'anew[lab]'")
    scenario = Scenario(jobs=10, outage_ms=outage_ms)
    found = []
    for numpy in (True, False):
        record = Record.of(scenario)
        record.made |= {retry: array("q", row) for retry, row in enumerate(rows, 1)}
        record.good[1] = good
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("anew.lab.waves.has_numpy", lambda numpy=numpy: numpy)
            found.append(record.outcome(scenario))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    "reach_ms", [50, 5_000, 90_000, 3 * HOUR_MS, 9 * DAY_MS, 300 * DAY_MS, 20_000 * DAY_MS]
)
@pytest.mark.parametrize("calls", [1, 7, 3_000])
@pytest.mark.parametrize("share", [0, 0.001, 0.37, 1.5])
def test_with_numpy_and_without_the_same_is_counted(reach_ms: int, calls: int, share: float) -> None:
    """With an outage of a share of the time, too; as good as never does it end on a tenth of a second."""
    luck = random.Random(f"{reach_ms} {calls}")
    tops = [max(1, reach_ms * retry // 15) for retry in range(1, 16)]
    rows = [[luck.randrange(top) for _ in range(calls)] for top in tops]
    found = counted(*rows, outage_ms=min(int(reach_ms * share), 365 * DAY_MS))
    assert (found.calls, sum(found.load.counts)) == (15 * calls, 15 * calls)


def test_calls_are_counted_by_hand() -> None:
    found = counted([500, 900, 61_000], [999, 250_000], good=1)
    assert [(line.median_ms, line.earliest_ms, line.latest_ms, line.succeeded) for line in found.retries] == [
        (900, 500, 61_000, 1),
        (999, 999, 250_000, 0),
    ]
    # Second 0 has three calls. The call at 61 s comes 60.5 s after the first of them, but within 60 s of those at 900
    # and 999 ms, in tenths as in milliseconds. Of the 251 seconds from 0 to 250 three have a call: 0, 61 and 250.
    assert (found.peak_second, found.peak_minute, found.calls, found.wasted) == (3, 3, 5, 4)
    assert found.silence == Silence(1_000, pytest.approx(248 / 251))
    assert (found.load.bin_ms, [at for at, calls in enumerate(found.load.counts) for _ in range(calls)]) == (
        200,
        [2, 4, 4, 305, 1_250],
    )


def test_calls_close_together_far_away_are_told_apart() -> None:
    """Half a year and more ahead, 30 ms apart at most: of 31 milliseconds three have a call, in whatever order they came."""
    for start_ms in (HOUR_MS, 400 * DAY_MS):
        found = counted([start_ms + 30, start_ms + 20], [start_ms, start_ms + 30])
        assert (found.peak_second, found.peak_minute) == (4, 4)
        assert found.silence == Silence(1, pytest.approx(28 / 31))


def test_a_peak_begins_on_any_tenth_of_a_second() -> None:
    """Three calls about the border of a second, four more about that of a minute; nine tenths apart are together, ten not."""
    for start_ms in (0, 37 * 60_000, 400 * DAY_MS):
        found = counted([start_ms + ms for ms in (900, 1_000, 1_899, 59_900, 60_000, 60_000, 60_799)])
        assert (found.peak_second, found.peak_minute) == (4, 7)
        # 901 ms apart, but of ten tenths in a row only one of 0.9 and 1.9 s is one; 60.9 s comes 59 s after 1.9 s.
        found = counted([start_ms + ms for ms in (999, 1_900, 60_900)])
        assert (found.peak_second, found.peak_minute) == (1, 2)


def test_after_the_outage_only_the_calls_that_meet_the_service_count() -> None:
    """An outage to 100.05 s: of the calls in that tenth one came before. Four come in the first minute."""
    rows = [1_000] * 50, [100_049, 100_050, 100_900, 101_000, 160_049, 160_050, 160_099]
    found = counted(*rows, outage_ms=100_050)
    assert (found.peak_second, found.peak_minute) == (50, 50)
    # Three in the tenth at 160.0 s; with those at 100.9 and 101.0 s five within 60 s. At 160.05 s the minute is over.
    assert (found.peak_second_after, found.peak_minute_after, found.first_minute_after) == (3, 5, 4)


def test_nothing_comes_after_an_outage_that_outlasts_the_retries() -> None:
    for rows in ([], [[9_999] * 3]):
        found = counted(*rows, outage_ms=10_000)
        assert (found.peak_second, found.peak_second_after, found.peak_minute_after) == (3 * len(rows), 0, 0)
        assert (found.first_minute_after, found.silence) == (0, None)
