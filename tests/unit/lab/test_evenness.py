"""Operational time: monotone, exact at its points, straight on flat curves; and the load of small herds, counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anew.errors import InvalidInput
from anew.lab.evenness import Bins, Clock, deviation
from anew.lab.vector import Millis


def test_a_constant_wait_is_a_straight_line_that_goes_on() -> None:
    clock = Clock([1_000, 1_000, 1_000])
    assert clock.gaps([0, 500, 1_000, 2_500, 3_000, 4_000]) == pytest.approx([0, 0.5, 1, 2.5, 3, 4])


def test_the_kth_mean_instant_is_gap_k_exactly() -> None:
    waits = [float(15 + 15 * k + (k - 1) ** 4) for k in range(1, 26)]
    gaps = Clock(waits).gaps(np.cumsum(waits))
    assert gaps.tolist() == list(range(1, 26))


def test_time_never_runs_backwards() -> None:
    clock = Clock([1, 100, 2, 2_000, 3, 3, 50])
    gaps = clock.gaps(np.linspace(0, 3_000, 20_001))
    assert (np.diff(gaps) >= 0).all()


def test_the_cubic_by_hand() -> None:
    # Waits 1, 2, 1: inside, weights 2*2+1 = 5 and 2+2*1 = 4, so 9 / (5/1 + 4/0.5) = 9/13, and the same on the other side.
    # The cubic of the middle piece, from (1, 1) to (3, 2), is at its middle 1.5: both slopes are the same.
    clock = Clock([1, 2, 1])
    assert clock.gaps(2) == pytest.approx(1.5)
    # A quarter of the way h00 = 27/32, h01 = 5/32, h10 = 9/64, h11 = -3/64; the piece is 2 wide.
    assert clock.gaps(1.5) == pytest.approx(27 / 32 + 2 * 5 / 32 + 2 * 9 / 13 * (9 / 64 - 3 / 64))
    # Of the first piece the slopes are 1, that of the chord, and 9/13: half-way 1/2 + (1 - 9/13)/8.
    assert clock.gaps(0.5) == pytest.approx(0.5 + (1 - 9 / 13) / 8)


@pytest.mark.parametrize("wait", [0, -1, math.nan])
def test_a_wait_in_which_time_stands_still_is_refused(wait: float) -> None:
    with pytest.raises(InvalidInput, match=r"means_ms: .* expected mean waits above 0 ms") as caught:
        Clock([1, wait])
    assert caught.value.field == "means_ms"


def test_the_clock_of_a_herd_has_its_mean_instants() -> None:
    # First retries at 1, 3, 2 (mean 2), second ones at 5, 7, 3 (mean 5).
    assert Clock.of(np.array([[1, 3, 2], [5, 7, 3]])).times_ms.tolist() == [0, 2, 5]


RETRIES = 6
CONSTANT = np.arange(1, RETRIES + 1)[:, None] * 1_000
TOGETHER: Millis = np.repeat(CONSTANT, 4, axis=1)
"""Four jobs that retry every second, all at once."""

APART: Millis = CONSTANT + np.arange(4) * 250
"""The same, a quarter of a second apart."""


def load(instants: Millis, window: tuple[int, int], each: int) -> tuple[float, float]:
    clock = Clock.of(instants)
    return Bins(clock, instants, window, each).load(clock.gaps(instants), 4)


@pytest.mark.parametrize("each", [4, 16, 64, 256])
def test_a_herd_that_stays_together(each: int) -> None:
    # All calls of a gap fall into one of its bins.
    assert load(TOGETHER, (2, 5), each) == pytest.approx((math.sqrt(each - 1), each))


def test_a_herd_that_is_spread() -> None:
    # From gap 2 on the clock is straight, so calls fall on 1/8, 3/8, 5/8 and 7/8 of each gap.
    assert load(APART, (3, 5), 4) == pytest.approx((0, 1))
    # 4 of 16 bins hold one call where a quarter is expected: sqrt((4 * 0.75² + 12 * 0.25²) / 16) / 0.25 = sqrt(3).
    assert load(APART, (3, 5), 16) == pytest.approx((math.sqrt(3), 4))


def test_independent_calls_have_the_unevenness_of_chance() -> None:
    def herd(seed: int, jobs: int) -> Millis:
        phase = np.random.default_rng(seed).random((12, jobs))
        return ((np.arange(1, 13)[:, None] + phase) * 1_000_000).astype(np.int64)

    clock, trend = Clock.of(herd(1, 20_000)), herd(2, 20_000)
    for each in (16, 64):
        bins = Bins(clock, trend, (2, 10), each)
        found = [bins.load(clock.gaps(herd(seed, 1_000)), 1_000)[0] for seed in range(3, 13)]
        # sqrt(B / N), with 80 gaps' worth of bins: its own error is below two per cent.
        assert np.mean(found) == pytest.approx(math.sqrt(each / 1_000), rel=0.06)


def test_deviation_of_the_later_waits() -> None:
    # Second waits of 10 and 20: mean 15, sd 5.
    assert deviation(np.array([[10, 10], [20, 30]])) == pytest.approx(1 / 3)
    assert deviation(TOGETHER) == 0
    assert deviation(np.array([[10, 30]])) == 0
