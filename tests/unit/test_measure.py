"""The figures that `bench.evenness` has beside the lab's, on herds small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from anew.lab.vector import Millis
from bench.measure import BINS, Yardstick, deviations, empty_share, longest_silence_ms, measure, worst_bin

RETRIES = 6
CONSTANT = np.arange(1, RETRIES + 1)[:, None] * 1_000
TOGETHER: Millis = np.repeat(CONSTANT, 4, axis=1)
"""Four jobs that retry every second, all at once."""

APART: Millis = CONSTANT + np.arange(4) * 250
"""The same, a quarter of a second apart."""


def measured(instants: Millis, window: tuple[int, int]) -> dict[str, float]:
    return measure(instants, Yardstick(instants, instants, window))


def test_a_herd_that_stays_together() -> None:
    found = measured(TOGETHER, (2, 5))
    for bins in BINS:
        # All calls of a gap fall into one of its bins.
        assert found[f"pk{bins}"] == pytest.approx(bins)
        assert found[f"idle{bins}"] == pytest.approx(1 - 1 / bins)
    assert found["disc"] == pytest.approx(1)
    assert found["ks"] == pytest.approx(1 / 3)
    assert [found[name] for name in ("rsd", "max", "window_rsd", "shrink")] == [0, 0, 0, 0]
    assert found["worst_second"] == 1


def test_a_herd_that_is_spread() -> None:
    # From gap 2 on the clock is straight, so calls fall on 1/8, 3/8, 5/8 and 7/8 of each gap.
    found = measured(APART, (3, 5))
    assert (found["cv4"], found["pk4"], found["idle4"]) == pytest.approx((0, 1, 0))
    assert (found["pk16"], found["idle16"]) == pytest.approx((4, 0.75))
    assert found["disc"] == pytest.approx(1 / 8)
    assert found["ks"] == pytest.approx(1 / 16)


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
