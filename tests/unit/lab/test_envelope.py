"""Operational time: monotone, exact at its points, straight on flat curves, and strict about what it is given."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anew.errors import InvalidInput
from anew.lab.envelope import Envelope, mean_waits, monotone_slopes


def test_slopes_by_hand() -> None:
    # Steps 1 and 2, rises 1 and 1/2. Inside: weights 2*2+1 = 5 and 2+2*1 = 4, so 9 / (5/1 + 4/0.5) = 9/13.
    # Ends: ((2*1+2)*1 - 1*0.5) / 3 = 7/6 and ((2*2+1)*0.5 - 2*1) / 3 = 1/6.
    slopes = monotone_slopes(np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0]))
    assert slopes == pytest.approx([7 / 6, 9 / 13, 1 / 6])


def test_an_end_slope_that_would_turn_round_is_zero() -> None:
    # ((2*1+1)*1 - 1*10) / 2 = -3.5 at the start: the curve would fall.
    slopes = monotone_slopes(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 11.0]))
    assert slopes[0] == 0


def test_two_points_make_a_line() -> None:
    assert monotone_slopes(np.array([0.0, 4.0]), np.array([0.0, 1.0])) == pytest.approx([0.25, 0.25])


def test_a_constant_wait_is_a_straight_line_that_goes_on() -> None:
    envelope = Envelope([1_000, 1_000, 1_000])
    assert envelope.gaps([0, 500, 1_000, 2_500, 3_000, 4_000]) == pytest.approx([0, 0.5, 1, 2.5, 3, 4])


def test_the_kth_mean_instant_is_gap_k_exactly() -> None:
    waits = [float(15 + 15 * k + (k - 1) ** 4) for k in range(1, 26)]
    gaps = Envelope(waits).gaps(np.cumsum(waits))
    assert gaps.tolist() == list(range(1, 26))


def test_time_never_runs_backwards() -> None:
    envelope = Envelope([1, 100, 2, 2_000, 3, 3, 50])
    gaps = envelope.gaps(np.linspace(0, 3_000, 20_001))
    assert (np.diff(gaps) >= 0).all()


def test_the_cubic_by_hand() -> None:
    # Between 0 and 1 of waits 1, 2 (slopes 7/6 and 9/13, see above): half-way 1/2 + (7/6 - 9/13)/8.
    assert Envelope([1, 2]).gaps(0.5) == pytest.approx(0.5 + (7 / 6 - 9 / 13) / 8)


@pytest.mark.parametrize("wait", [0, -1, math.nan, math.inf])
def test_a_wait_in_which_time_stands_still_is_refused(wait: float) -> None:
    with pytest.raises(InvalidInput, match=r"means_ms\[1\]: .* expected a mean wait above 0 ms") as caught:
        Envelope([1, wait])
    assert caught.value.field == "means_ms[1]"


def test_no_waits_are_refused() -> None:
    with pytest.raises(InvalidInput, match="means_ms: 0 waits are not valid; expected at least 1"):
        Envelope([])


def test_mean_waits_of_blocks_of_different_sizes() -> None:
    # First retries at 1, 3, 2 (mean 2), second ones at 5, 7, 3 (mean 5).
    blocks = [np.array([[1, 3], [5, 7]]), np.array([[2], [3]])]
    assert mean_waits(iter(blocks)).tolist() == [2, 3]


def test_mean_waits_of_nobody_are_refused() -> None:
    with pytest.raises(InvalidInput, match="blocks: 0 jobs"):
        mean_waits([])
