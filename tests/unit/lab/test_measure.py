"""The measures, on herds small enough to count by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anew.errors import InvalidInput
from anew.lab.envelope import Envelope, Millis
from anew.lab.measure import (
    BINS,
    Measures,
    Yardstick,
    deviations,
    empty_share,
    longest_silence_ms,
    measure,
    worst_bin,
)

RETRIES = 6
CONSTANT = np.arange(1, RETRIES + 1)[:, None] * 1_000
TOGETHER: Millis = np.repeat(CONSTANT, 4, axis=1)
"""Four jobs that retry every second, all at once."""

APART: Millis = CONSTANT + np.arange(4) * 250
"""The same, a quarter of a second apart."""


def measured(instants: Millis, window: tuple[int, int]) -> Measures:
    return measure(instants, Yardstick.of([instants], [instants], window))


def test_a_herd_that_stays_together() -> None:
    found = measured(TOGETHER, (2, 5))
    for bins in BINS:
        # All calls of a gap fall into one of its bins.
        assert found.cv[bins] == pytest.approx(math.sqrt(bins - 1))
        assert found.peak[bins] == pytest.approx(bins)
        assert found.idle[bins] == pytest.approx(1 - 1 / bins)
    assert found.disc == pytest.approx(1)
    assert found.ks == pytest.approx(1 / 3)
    assert (found.rsd, found.max, found.window_rsd, found.shrink) == (0, 0, 0, 0)
    assert found.worst_second == 1


def test_a_herd_that_is_spread() -> None:
    # From gap 2 on the clock is straight, so calls fall on 1/8, 3/8, 5/8 and 7/8 of each gap.
    found = measured(APART, (3, 5))
    assert (found.cv[4], found.peak[4], found.idle[4]) == pytest.approx((0, 1, 0))
    # 4 of 16 bins hold one call where a quarter is expected: sqrt((4 * 0.75² + 12 * 0.25²) / 16) / 0.25 = sqrt(3).
    assert (found.cv[16], found.peak[16], found.idle[16]) == pytest.approx((math.sqrt(3), 4, 0.75))
    assert found.disc == pytest.approx(1 / 8)
    assert found.ks == pytest.approx(1 / 16)


def test_names_of_single_figures() -> None:
    flat = measured(APART, (3, 5)).flat()
    assert {"rsd", "window_rsd", "cv4", "pk64", "idle256", "disc", "ks", "worst_minute"} <= set(flat)
    assert flat["pk16"] == pytest.approx(4)


def test_deviations() -> None:
    # Second waits of 10 and 20: mean 15, sd 5. Windows of 20 and 30: mean 25, sd 5.
    found = deviations(np.array([[10, 10], [20, 30]]))
    assert found == pytest.approx({"rsd": 1 / 3, "max": 1 / 3, "window_rsd": 0.2, "shrink": 0})


def test_waits_that_shrink() -> None:
    # Waits 10, 5, 5 and 10, 20, 10: of four later waits, two are shorter than the one before.
    assert deviations(np.array([[10, 10], [15, 30], [20, 40]]))["shrink"] == 0.5


def test_a_single_retry_has_no_later_waits() -> None:
    found = deviations(np.array([[10, 30]]))
    assert found == pytest.approx({"rsd": 0, "max": 0, "window_rsd": 0.5, "shrink": 0})


def test_the_worst_bin() -> None:
    assert worst_bin(np.array([[0, 999, 1_000], [5_000, 5_100, 5_999]]), 1_000) == 3
    assert worst_bin(np.array([[10**12, 10**12 + 1]]), 1_000) == 2


@pytest.mark.parametrize(
    ("until", "closed", "share"),
    [(4_000, False, 0.5), (3_500, False, 0.75), (3_500, True, 0.5), (0, False, 0)],
)
def test_empty_bins(until: float, closed: bool, share: float) -> None:
    assert empty_share(np.array([[500, 3_500]]), 1_000, until, closed=closed) == share


def test_the_end_itself_belongs_to_the_last_bin_if_it_is_closed() -> None:
    # Five waits of 5 minutes: 25 minutes, five of them with a call.
    instants = np.arange(1, 6)[:, None] * 300_000
    assert empty_share(instants, 60_000, 1_500_000, closed=True) == 0.8


def test_silence_counts_from_the_failure() -> None:
    assert longest_silence_ms(np.array([[500, 3_500]])) == 3_000
    assert longest_silence_ms(np.array([[2_000, 2_100]])) == 2_000


def test_independent_calls_have_the_unevenness_of_chance() -> None:
    def herd(seed: int, jobs: int) -> Millis:
        phase = np.random.default_rng(seed).random((12, jobs))
        return ((np.arange(1, 13)[:, None] + phase) * 1_000_000).astype(np.int64)

    stick = Yardstick.of([herd(1, 20_000)], [herd(2, 20_000)], (2, 10))
    found = [measure(herd(seed, 1_000), stick) for seed in range(3, 13)]
    for bins in (16, 64):
        # sqrt(B / N), with 80 gaps' worth of bins: its own error is below two per cent.
        assert np.mean([one.cv[bins] for one in found]) == pytest.approx(math.sqrt(bins / 1_000), rel=0.06)


@pytest.mark.parametrize("window", [(2, 7), (3, 3), (5, 2), (-1, 3)])
def test_a_window_outside_the_retries_is_refused(window: tuple[int, int]) -> None:
    with pytest.raises(
        InvalidInput, match=r"window: .* expected two whole numbers from 0 to the retries, which are 6"
    ):
        Yardstick(Envelope([1_000] * 6), [TOGETHER], window)


def test_a_trend_of_nobody_is_refused() -> None:
    with pytest.raises(InvalidInput, match="trend_blocks: 0 jobs are not valid; expected at least 1"):
        Yardstick(Envelope([1_000] * 6), [], (2, 5))


@pytest.mark.parametrize(
    ("instants", "said"),
    [
        (TOGETHER[:5], r"shape \(5, 4\) is not valid; expected an array of 6 retries by at least 1 job"),
        (TOGETHER[:, :0], r"shape \(6, 0\) is not valid"),
        (TOGETHER[:, 0], r"shape \(6,\) is not valid"),
        ("soon", '"soon" is not valid; expected an array of 6 retries'),
        (TOGETHER / 3, "expected milliseconds that grow"),
        (TOGETHER[::-1], "expected milliseconds that grow"),
        (TOGETHER - 5_000, "expected milliseconds that grow"),
    ],
    ids=["too few", "no jobs", "flat", "text", "fractions", "falling", "negative"],
)
def test_instants_that_are_none_are_refused(instants: Millis, said: str) -> None:
    stick = Yardstick.of([TOGETHER], [TOGETHER], (2, 5))
    with pytest.raises(InvalidInput, match=said) as caught:
        measure(instants, stick)
    assert caught.value.field == "instants"
