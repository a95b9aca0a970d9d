"""``even``: the recommended function, its vectors, its guarantees and its tiling; seconds where not said."""

import math
from typing import Any

import pytest

from anew.backoff import Policy, Wait, next_wait, phase_of_ordinal, preset
from anew.lab import explain

from .helpers import make_draws, make_policy, wait_ms, window_ms

LAST = math.nextafter(1, 0)
PHASES = [0.0, 0.03, 0.25, 0.5, 0.618033988, 0.75, 0.97, LAST]


def seconds(policy: Policy, phase: float, count: int = 10) -> list[float]:
    """A job's first waits."""
    return [wait_ms(policy, k, make_draws(phase=phase)) / 1000 for k in range(1, count + 1)]


def even(**changed: Any) -> Policy:
    return preset("even", **changed)


@pytest.mark.parametrize(
    ("phase", "waits", "total"),
    [
        (0.0, [15, 38, 61, 116, 251, 538, 1073, 1976, 3391, 5486], 1_602_187),
        (
            0.25,
            [23, 42.4375, 70.0625, 139.4375, 304.5625, 643.4375, 1258.0625, 2274.4375, 3842.5625, 6136.4375],
            1_687_068,
        ),
        (
            0.5,
            [32, 47.75, 82.25, 169.75, 370.25, 767.75, 1470.25, 2609.75, 4342.25, 6847.75],
            1_775_628,
        ),
        (
            0.75,
            [42, 53.9375, 97.5625, 206.9375, 448.0625, 910.9375, 1709.5625, 2981.9375, 4890.0625, 7619.9375],
            1_867_867,
        ),
    ],
)
def test_vectors_of_the_default_curve(phase: float, waits: list[float], total: int) -> None:
    # The vectors have a tenth of a millisecond where waits are cut to whole ones.
    assert seconds(even(), phase) == [math.floor(wait * 1000) / 1000 for wait in waits]
    assert sum(seconds(even(), phase, 25)) == pytest.approx(total, abs=1)


def test_vectors_just_below_the_next_wave() -> None:
    waits = [53, 61, 116, 251, 538, 1073, 1976, 3391, 5486, 8453]
    assert seconds(even(), LAST) == pytest.approx(waits, abs=0.0011)
    assert sum(seconds(even(), LAST, 25)) == pytest.approx(1_963_785, abs=1)


def test_waits_of_the_first_ordinal() -> None:
    waits = [36.597, 50.562, 89.090, 186.451, 405.477, 833.002, 1579.858, 2780.878, 4594.895, 7204.742]
    assert seconds(even(), phase_of_ordinal(1)) == pytest.approx(waits, abs=0.0011)


def test_waits_of_an_id_without_a_phase() -> None:
    waits = [15.223, 38.119, 61.224, 116.597, 252.415, 540.857, 1078.101, 1984.326, 3403.708, 5504.426]
    found = [wait_ms(even(), k, make_draws(job_id=b"job-1", phase=None)) / 1000 for k in range(1, 11)]
    assert found == pytest.approx(waits, abs=0.0011)


DOUBLING = {"exponential": {"base": "15s"}}


@pytest.mark.parametrize(
    ("phase", "waits"),
    [
        (0.0, [7.5, 22.5, 45, 90, 180, 360, 720, 1440, 2760, 3600]),
        (0.5, [16.875, 31.875, 63.75, 127.5, 255, 510, 1020, 2010, 3390, 3600]),
        (LAST, [30, 45, 90, 180, 360, 720, 1440, 2760, 3600, 3600]),
    ],
)
def test_vectors_of_a_capped_curve(phase: float, waits: list[float]) -> None:
    policy = even(curve=DOUBLING, cap="1h", detune=0)
    assert seconds(policy, phase) == pytest.approx(waits, abs=0.0011)


@pytest.mark.parametrize(("phase", "first"), [(0.0, 150), (0.5, 300), (LAST, 450)])
def test_a_constant_curve_spreads_the_first_wait_and_then_stays_exact(phase: float, first: float) -> None:
    waits = seconds(even(curve={"constant": "5m"}), phase, 20)
    assert waits[0] == pytest.approx(first, abs=0.0011)
    assert waits[1:] == [300] * 19


def test_capped_stretches_wait_exactly_the_cap_whatever_the_phase() -> None:
    policy = even(curve=DOUBLING, cap="17m0.001s", detune=0, limit=None)
    for phase in PHASES:
        assert [wait_ms(policy, k, make_draws(phase=phase)) for k in range(9, 200, 7)] == [1_020_001] * 28


def test_the_cap_is_detuned_by_an_eighteenth_unless_told() -> None:
    """1 h * 17/18 = 3,400 s: a job at the cap leaves the minute of the hour at which it failed."""
    policy = even(curve=DOUBLING, cap="1h")
    assert policy.nominal(20) == 3_400_000
    assert seconds(policy, 0.3, 20)[-1] == 3_400
    assert policy.to_json()["cap"] == "1h"


@pytest.mark.parametrize(("cap", "tuned_ms"), [("1m", 56_667), ("100ms", 94), ("59ms", 56)])
def test_a_detuned_cap_goes_to_the_nearest_millisecond(cap: str, tuned_ms: int) -> None:
    """17/18 of 60,000 is 56,666.7; of 100, 94.4; of 59, 55.7."""
    assert even(curve=DOUBLING, cap=cap).nominal(40) == tuned_ms


def test_without_a_cap_detuning_does_nothing() -> None:
    assert seconds(even(detune=0.5), 0.7) == seconds(even(), 0.7)


CURVES: list[Any] = [
    {"power": {"base": "30s", "exponent": 4, "slope": "15s"}},
    DOUBLING,
    {"constant": "5m"},
    {"linear": {"base": "10s", "step": "5s"}},
    {"fibonacci": "1s"},
    {"table": ["10s", "1m", "5m", "5m", "1h"]},
    {"between": {"low": "5s", "high": "260s", "retries": 10, "shape": "geometric"}},
]


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("phase", PHASES)
def test_guarantee_every_wait_lies_between_its_neighbours_means(curve: Any, phase: float) -> None:
    policy = even(curve=curve)
    c = [policy.nominal(k) for k in range(1, 27)]
    waits = [wait_ms(policy, k, make_draws(phase=phase)) for k in range(1, 26)]
    assert math.floor(c[0] / 2) <= waits[0] < c[0] + c[1] / 2
    for k in range(2, 26):
        low, high = (c[k - 2] + c[k - 1]) / 2, (c[k - 1] + c[k]) / 2
        assert math.floor(low) <= waits[k - 1] < high or waits[k - 1] == low == high


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("phase", PHASES)
def test_guarantee_waits_never_shrink_from_the_second_on(curve: Any, phase: float) -> None:
    waits = [wait_ms(even(curve=curve), k, make_draws(phase=phase)) for k in range(2, 26)]
    assert waits == sorted(waits)


@pytest.mark.parametrize("curve", CURVES)
def test_guarantee_waves_tile_the_time_axis(curve: Any) -> None:
    """The last of wave k and the first of wave k + 1 retry together; cutting costs 1 ms a wait at most."""
    policy = even(curve=curve)
    first = last = 0
    for k in range(1, 25):
        last += wait_ms(policy, k, make_draws(phase=LAST))
        first += wait_ms(policy, k, make_draws(phase=0.0))
        reached = first + wait_ms(policy, k + 1, make_draws(phase=0.0))
        assert reached - k - 1 <= last <= reached + 1


def test_tiling_sums_of_the_default_curve() -> None:
    rows = explain(even()).rows
    latest = {row.retry: row.window_latest_ms for row in rows}
    earliest = {row.retry: row.window_earliest_ms for row in rows}
    for k, total in [(1, 53), (2, 114), (5, 1_019), (10, 21_398), (24, 1_602_187)]:
        assert latest[k] == earliest[k + 1] == total * 1000


def test_guarantee_the_mean_is_nominal_plus_a_sixth_of_the_second_difference() -> None:
    """For the default 32.67 s at the first retry, then +5.1, +11.0, +9.3, +2.4 % at k = 2, 3, 5, 10."""
    policy = even()
    count = 4_000
    c = [policy.nominal(k) for k in range(1, 27)]

    def mean(k: int) -> float:
        waits = (wait_ms(policy, k, make_draws(phase=(i + 0.5) / count)) for i in range(count))
        return sum(waits) / count

    assert mean(1) == pytest.approx((5 * c[0] + c[1]) / 6, abs=1)
    assert mean(1) == pytest.approx(32_667, abs=1.5)
    for k, share in [(2, 0.051), (3, 0.110), (5, 0.093), (10, 0.024), (25, 0.003)]:
        assert mean(k) == pytest.approx((c[k - 2] + 4 * c[k - 1] + c[k]) / 6, abs=1)
        assert mean(k) / c[k - 1] - 1 == pytest.approx(share, abs=6e-4)


def test_spread_zero_gives_everybody_the_middle_and_needs_no_phase() -> None:
    wait = next_wait(even(spread=0), 1, make_draws())
    assert isinstance(wait, Wait)
    assert (wait.wait_ms, wait.draw) == (32_000, None)


def test_spread_covers_its_share_of_the_time_axis() -> None:
    """With spread w, the wave k spans w gaps: from T(k + (1-w)/2) to T(k + (1+w)/2); here w = 1/2."""
    policy = even(spread=0.5)
    assert seconds(policy, 0.0) == seconds(even(), 0.25)
    assert seconds(policy, 0.5) == seconds(even(), 0.5)
    assert seconds(policy, LAST) == pytest.approx(seconds(even(), 0.75), abs=0.0011)


def test_dither_shakes_each_wait_by_a_hash_of_id_and_retry() -> None:
    policy = even(curve={"constant": "100s"}, dither=0.01)
    waits = [wait_ms(policy, k, make_draws(phase=0.5)) for k in range(2, 26)]
    assert waits == [wait_ms(policy, k, make_draws(phase=0.5)) for k in range(2, 26)]
    assert all(99_500 <= wait < 100_500 for wait in waits)
    assert len(set(waits)) == 24
    assert explain(policy).rows[5].earliest_ms == 99_500
    assert explain(policy).rows[5].latest_ms == 100_500


def test_the_draw_that_is_reported_is_the_phase() -> None:
    wait = next_wait(even(), 3, make_draws(phase=0.25))
    assert isinstance(wait, Wait)
    assert (wait.draw, wait.nominal_ms, wait.wait_ms) == (0.25, 76_000, 70_062)


def test_the_window_of_25_retries() -> None:
    assert window_ms(even()) == (1_602_187_000, 1_963_785_000)
    assert sum(even().nominal(k) for k in range(1, 26)) == 1_768_270_000


def test_on_a_falling_table_the_bounds_hold_the_dip_between_the_ends() -> None:
    """Waits 60, 10, 60 s: the second is 10 + ((1-x)^2 + x^2) * 25 s, least at x = 1/2 with 22.5 s."""
    policy = make_policy(curve={"table": ["60s", "10s", "60s"]}, jitter="even")
    row = explain(policy).rows[1]
    assert (row.earliest_ms, row.latest_ms) == (22_500, 35_000)
    assert wait_ms(policy, 2, make_draws(phase=0.5)) == 22_500


@pytest.mark.parametrize("phase", PHASES)
def test_the_published_formula(phase: float) -> None:
    """docs/policies.md: T_k(p) = c_1 + ... + c_(k-1) + c_k / 2 + p c_k + p^2 / 2 (c_(k+1) - c_k)."""
    c = [30, 46, 76, 156, 346, 730, 1416]  # 15 + 15 k + (k - 1)^4 s
    instants = [
        sum(c[: k - 1]) + c[k - 1] / 2 + phase * c[k - 1] + phase**2 / 2 * (c[k] - c[k - 1])
        for k in range(1, 7)
    ]
    waits = seconds(even(), phase, 6)
    assert [sum(waits[:k]) for k in range(1, 7)] == pytest.approx(
        instants, abs=0.0061
    )  # six waits, each cut to whole ms


def test_the_worked_example() -> None:
    """docs/policies.md and docs/retries.md: the first two retries of p = 0, 0.5 and just below 1."""
    assert seconds(even(), 0.0, 2) == [15, 38]
    assert seconds(even(), 0.5, 2) == [32, 47.75]
    assert seconds(even(), LAST, 2) == pytest.approx([53, 61], abs=0.0011)
