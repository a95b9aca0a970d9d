"""The whole window: by hand, against the published windows, and against lives drawn by the engine."""

import math
from typing import Any

import pytest

from anew.backoff import Custom, Phase, Policy
from anew.backoff.curves import Constant
from anew.lab.sums.outlive import LastRetry, is_endless, outlives, window

from ...backoff.helpers import make_policy
from ..laws.draws import assert_agrees, lives

DAY_MS = 86_400_000


def window_of(form: Any) -> LastRetry:
    """The window, which must be known."""
    found = window(form if isinstance(form, Policy) else Policy.from_json(form))
    assert found is not None
    return found


# -- by hand


def test_waits_without_jitter_add_up_to_one_instant() -> None:
    found = window_of(make_policy(limit=6))
    assert (found.earliest_ms, found.latest_ms, found.mean_ms, found.sd_ms) == (60_000, 60_000, 60_000, 0)
    assert [found.outlives(ms) for ms in (0, 59_999, 60_000, 60_001)] == [1, 1, 1, 0]
    assert {found.percentile(percent) for percent in (0, 1, 50, 100)} == {60_000}


def test_no_retry_outlives_nothing() -> None:
    found = window_of(make_policy(limit=0, jitter="full"))
    assert (found.latest_ms, found.outlives(0), found.outlives(1), found.percentile(50)) == (0, 1, 0, 0)


def test_two_uniform_waits_make_a_triangle() -> None:
    """Each [0, 10 s): P(sum < t) = t^2 / 2 below 10 s, 1 - (2 - t)^2 / 2 above, in units of 10 s."""
    found = window_of(make_policy(jitter="full", limit=2))
    assert found.mean_ms == pytest.approx(9_999, abs=0.01)
    assert found.sd_ms == pytest.approx(10_000 * math.sqrt(2 / 12), rel=1e-4)
    for t in (0.2, 0.5, 1.0, 1.5, 1.9):
        below = t * t / 2 if t <= 1 else 1 - (2 - t) ** 2 / 2
        assert found.outlives(round(10_000 * t)) == pytest.approx(1 - below, abs=2e-4)
    assert found.percentile(2) == pytest.approx(2_000, abs=5)
    assert found.percentile(98) == pytest.approx(18_000, abs=5)


def test_two_uniform_waits_of_different_width_make_a_trapezium() -> None:
    """Zizq's first two: [16, 46) and [31, 91). P(sum < 60 s) = 13^2 / (2 * 30 * 60)."""
    found = window_of({"preset": "zizq", "limit": 2})
    assert (found.earliest_ms, found.latest_ms) == (47_000, 137_000)
    assert found.outlives(60_000) == pytest.approx(1 - 169 / 3_600, abs=1e-4)


def test_one_uncertain_wait_among_certain_ones_is_exact() -> None:
    """10 s, then anything in [10, 30 s): two thirds of the jobs outlive an outage of 26 2/3 s."""
    found = window_of(make_policy(jitter={"add": {"by": "20s", "since": 2}}, limit=2))
    assert (found.earliest_ms, found.latest_ms) == (20_000, 40_000)
    assert found.outlives(25_000) == pytest.approx(0.75)
    assert found.percentile(25) == 24_999


def test_lumps_of_a_clamp_add_up() -> None:
    """[0, 2 s) and [0, 4 s) held to 1 to 2 s, after 1 s sure: half and a quarter at 1 s, half of the third at 2 s.

    At most 3.5 s: the two differ from 1 s by x and y with densities 1/2 and 1/4, and lumps; x + y < 1/2 is
    1/2 * 1/4 + 1/2 * 1/4 * 1/2 + 1/4 * 1/2 * 1/2 + 1/2 * 1/4 * 1/8.
    """
    found = window_of({"preset": "aws_full", "limit": 3, "floor": "1s", "ceil": "2s"})
    assert (found.earliest_ms, found.latest_ms) == (3_000, 5_000)
    assert found.mean_ms == pytest.approx(1_000 + 1_250 + (250 + 375 + 1_000), abs=1)
    assert found.outlives(3_500) == pytest.approx(1 - (1 / 8 + 1 / 16 + 1 / 16 + 1 / 64), abs=2e-3)


def test_one_number_for_life_adds_up_linearly() -> None:
    """Six times [10, 20 s) with one number: anything in [60, 120 s), not a bell."""
    found = window_of(make_policy(jitter={"above": {"share": 1, "source": "job"}}, limit=6))
    assert (found.earliest_ms, found.latest_ms) == (60_000, 120_000)
    assert [found.percentile(percent) for percent in (10, 50, 90)] == [66_000, 90_000, 114_000]
    assert found.outlives(105_000) == pytest.approx(0.25, abs=1e-4)


def test_a_deadline_that_finishes() -> None:
    """Two waits of [10, 20 s), at most 30 s: half the jobs fit in the second (sum below 30 s), the rest ends at the first.

    Those who end at the first have more than 30 s minus it as their second: P(first < t, second > 30 - t) = (t-10)^2 / 200.
    """
    found = window_of(make_policy(jitter={"above": 1}, deadline="30s", limit=2))
    assert found.outlives(20_001) == pytest.approx(0.5, abs=2e-3)
    assert found.outlives(15_000) == pytest.approx(1 - 25 / 200, abs=2e-3)
    assert found.outlives(30_001) == 0


def test_a_deadline_that_clips_gathers_everybody() -> None:
    """The sum of two is above 35 s for an eighth of the jobs: these make their last try exactly then."""
    found = window_of(make_policy(jitter={"above": 1}, deadline="35s", on_deadline="clip", limit=2))
    assert found.latest_ms == 35_000
    assert found.outlives(35_000) == pytest.approx(1 / 8, abs=3e-3)
    assert found.outlives(35_001) == 0


def test_a_deadline_beyond_the_window_changes_nothing() -> None:
    form = {"preset": "zizq", "limit": 5}
    assert window_of(form | {"deadline": "30d"}).percentile(30) == window_of(form).percentile(30)


@pytest.mark.parametrize(("limit", "wait_ms"), [(2, 1), (8, 140)])
def test_no_retry_comes_before_the_first_failure(limit: int, wait_ms: int) -> None:
    """A law moved to its exact mean reaches a little below 0, and nobody may see that: an outage of nothing kills no job."""
    curve = {"constant": wait_ms}
    found = window_of(
        Policy.from_json(
            {"curve": curve, "jitter": "full", "limit": limit, "deadline": (limit // 2) * wait_ms}
        )
    )
    assert found.earliest_ms >= 0
    assert found.outlives(0) == 1
    far = window_of(
        Policy.from_json({"curve": curve, "jitter": "full", "limit": limit, "deadline": limit * wait_ms})
    )
    assert 0 <= far.earliest_ms <= far.latest_ms <= limit * wait_ms
    assert far.outlives(0) == 1


def test_even_and_a_deadline_is_still_exact() -> None:
    """300 s for ever, 450 s in all: below p = 1/2 the first wait is up to 300 s and a second one has no time, or just."""
    found = window_of({"curve": {"constant": "5m"}, "jitter": "even", "limit": None, "deadline": "450s"})
    # The first comes at 150 s + 300 p; the second, 300 s later, fits only where p = 0.
    assert found.outlives(449_000) == pytest.approx(1 / 300, abs=1e-3)
    assert found.percentile(50) == pytest.approx(300_000, abs=1_000)


def test_endless_policies_outlive_everything() -> None:
    policy = make_policy(limit=None)
    assert is_endless(policy)
    assert window(policy) is None
    assert outlives(policy, 10**12) == 1
    assert not is_endless(make_policy(limit=None, deadline="1h"))


def test_a_custom_function_cannot_be_told() -> None:
    phases = (Phase(curve=Constant(wait_ms=1), count=1), Phase(curve=Custom(function=lambda k: 1.0), count=1))
    assert window(Policy(phases=phases)) is None
    assert outlives(Policy(phases=phases), 5) is None


def test_waits_of_nothing_never_reach_a_deadline() -> None:
    assert window(make_policy(curve={"constant": 0}, limit=None, deadline="1h")) is None
    assert window(make_policy(curve={"constant": 0}, jitter="full", limit=None, deadline="1h")) is None


def test_a_day_of_seconds_without_jitter_is_walked() -> None:
    assert window_of(make_policy(curve={"constant": "7s"}, limit=None, deadline="1d")).mean_ms == 86_394_000


def test_a_die_that_hardly_spreads_is_no_renewal() -> None:
    """10 s and 0 or 1 ms more for a day: the last retry is a matter of rounding, and nobody pretends to know it."""
    policy = make_policy(jitter={"add": {"by": "2ms", "faces": 2}}, limit=None, deadline="1d")
    assert window(policy) is None


def test_after_very_many_waits_the_time_left_is_that_of_a_renewal() -> None:
    """Full jitter of 10 s for a day: the time left has the density (1 - t/10) / 5, so its mean is 10/3 s."""
    found = window_of(make_policy(jitter="full", limit=None, deadline="1d"))
    assert found.mean_ms == pytest.approx(DAY_MS - 10_000 / 3, abs=2)
    assert found.outlives(DAY_MS - 5_000) == pytest.approx(3 / 4, abs=1e-3)
    clipped = window_of(make_policy(jitter="full", limit=None, deadline="1d", on_deadline="clip"))
    assert clipped.earliest_ms == DAY_MS


# -- published


def test_the_window_of_zizq() -> None:
    """24.931 to 25.044 days, 24.987 on average."""
    found = window_of("zizq")
    days = [ms / DAY_MS for ms in (found.earliest_ms, found.mean_ms, found.latest_ms)]
    assert [round(day, 3) for day in days] == [24.931, 24.987, 25.044]
    # Variances of independent windows add up: (30 s)^2 * (1^2 + ... + 25^2) / 12.
    assert found.sd_ms == pytest.approx(30_000 * math.sqrt(5_525 / 12), rel=2e-3)


def test_the_window_of_sidekiq_counts_from_zero() -> None:
    """20.410 to 20.519 days; the mean lies 14.5 * k s above the lowest: 1 763 395 + 14.5 * 325 s."""
    found = window_of("sidekiq")
    assert found.mean_ms == pytest.approx(1_763_395_000 + 14_500 * 325, abs=1)
    assert [round(ms / DAY_MS, 3) for ms in (found.earliest_ms, found.latest_ms)] == [20.41, 20.519]


def test_the_window_of_even() -> None:
    """Published sums of 25 waits: 1 602 187, 1 687 068, 1 775 628, 1 867 867, 1 963 785 s at p = 0, 1/4, 1/2, 3/4, 1."""
    found = window_of("even")
    sums = [found.percentile(percent) / 1000 for percent in (0, 25, 50, 75, 100)]
    assert sums == pytest.approx([1_602_187, 1_687_068, 1_775_628, 1_867_867, 1_963_785], abs=0.7)
    assert (round(found.earliest_ms / DAY_MS, 1), round(found.latest_ms / DAY_MS, 1)) == (18.5, 22.7)
    assert found.sd_ms / found.mean_ms == pytest.approx(0.0587, abs=2e-4)
    assert found.outlives(1_775_628_000) == pytest.approx(0.5, abs=1e-4)


def test_slices_telescope() -> None:
    """Polly's three: F(2 + U) / 1.4 s, 2.84 to 5.70 s; half of them by F(2.5) / 1.4."""
    found = window_of({"curve": {"exponential": {"base": "1s"}}, "jitter": "slices", "limit": 3})
    assert found.percentile(50) == pytest.approx(2**2.5 * math.tanh(math.sqrt(10)) / 1.4 * 1000, abs=3)
    assert (found.earliest_ms, found.latest_ms) == pytest.approx((2_840, 5_700), abs=5)


def test_a_hundred_thousand_retries_are_added_up_in_blocks() -> None:
    """SNS for managed endpoints: 100 015 retries in 23.15 days, documented as "over 23 days", before jitter."""
    body = {
        "phases": [
            {"curve": {"constant": 0}, "count": 3},
            {"curve": {"constant": "1s"}, "count": 2},
            {
                "curve": {"between": {"low": "1s", "high": "20s", "retries": 10, "shape": "geometric"}},
                "count": 10,
            },
            {"curve": {"constant": "20s"}, "count": 100_000},
        ],
        "limit": None,
    }
    assert window_of(body).mean_ms / DAY_MS == pytest.approx(23.15, abs=0.005)
    # Full jitter halves the waits; so many of them leave 0.2 % of the mean to chance: sqrt(100 000 / 12) * 20 s.
    jittered = window_of(body | {"jitter": "full"})
    assert jittered.mean_ms / DAY_MS == pytest.approx(23.15 / 2, abs=0.005)
    assert jittered.sd_ms == pytest.approx(math.sqrt(100_000 / 12) * 20_000, rel=1e-3)


# -- against lives drawn by the engine


LIVES: list[tuple[dict[str, Any], float]] = [
    ({"preset": "zizq", "limit": 4}, 0.003),
    ({"preset": "faktory", "limit": 3}, 0.01),
    ({"preset": "buckets", "limit": 8}, 0.003),
    ({"preset": "even", "limit": 6}, 0.0),
    ({"preset": "even", "limit": 6, "dither": 0.2}, 0.01),
    ({"preset": "aws_decorrelated", "limit": 2}, 0.01),
    ({"preset": "aws_decorrelated", "limit": 12}, 0.01),
    ({"curve": {"exponential": {"base": "1s"}}, "jitter": "decorrelated", "ceil": "5m", "limit": 9}, 0.015),
    ({"curve": {"constant": "15s"}, "jitter": "decorrelated", "limit": 8}, 0.03),
    ({"curve": {"exponential": {"base": "1s"}}, "jitter": "slices", "limit": 5}, 0.003),
    ({"curve": {"exponential": {"base": "1s"}}, "jitter": "slices", "limit": 10, "ceil": "20s"}, 0.015),
    ({"curve": {"table": ["9s", "1s", "7s"]}, "jitter": "even", "limit": 3}, 0.003),
    ({"preset": "aws_full", "deadline": "45s"}, 0.01),
    ({"preset": "aws_full", "deadline": "45s", "on_deadline": "clip", "limit": 12}, 0.01),
    ({"preset": "zizq", "deadline": "1h", "limit": None}, 0.01),
    ({"preset": "even", "deadline": "1h", "limit": None}, 0.001),
    ({"preset": "even", "deadline": "20m", "on_deadline": "clip", "limit": 5}, 0.001),
    ({"preset": "aws_decorrelated", "deadline": "45s"}, 0.015),
    (
        {"curve": {"table": ["30m", "10m", "1m", "1s"]}, "jitter": "full", "deadline": "30m", "limit": None},
        0.0,
    ),
    ({"curve": {"table": ["1m", "1m", "1m", "1s"]}, "jitter": {"decorrelated": 1.2}, "limit": 12}, 0.015),
    ({"preset": "cenkalti"}, 0.01),
    ({"preset": "stamina"}, 0.01),
    ({"preset": "celery"}, 0.0),
    ({"preset": "celery", "deadline": "1h", "limit": None}, 0.0),
    ({"preset": "oban", "limit": 3}, 0.0),
    ({"preset": "oban", "limit": 19}, 0.0),
    ({"preset": "sidekiq8", "limit": 2}, 0.0),
    ({"preset": "sidekiq", "deadline": "2h"}, 0.0),
    ({"curve": {"constant": "10s"}, "jitter": {"above": 1}, "ceil": "11s", "limit": 5}, 0.003),
    ({"curve": {"constant": "10s"}, "jitter": {"above": {"share": 0.37, "faces": 7}}, "limit": 4}, 0.0),
    ({"curve": {"constant": "1s"}, "jitter": {"full": {"cut": 300, "source": "hash"}}, "limit": 3}, 0.0),
    ({"curve": {"constant": "1s"}, "jitter": {"full": {"step": 300, "source": "job"}}, "limit": 3}, 0.0),
]


@pytest.mark.parametrize(("form", "model_error"), LIVES, ids=lambda value: str(value)[:70])
def test_windows_agree_with_lives(form: dict[str, Any], model_error: float) -> None:
    policy = Policy.from_json(form)
    found = window_of(policy)
    values = lives(policy, 1_000, seed=3)
    # Every wait is cut to a millisecond by itself, and a thousand walks do not meet the two ends.
    assert_agrees(values, found.law, model_error=model_error, ends=False)
    if policy.deadline_ms is None:
        assert found.earliest_ms - 10 <= values[0]
    assert values[-1] <= max(found.latest_ms, policy.deadline_ms or 0)
    half = values[len(values) // 2]
    share = sum(value >= half for value in values) / len(values)
    assert found.outlives(half) == pytest.approx(share, abs=4.5 * 0.5 / math.sqrt(len(values)) + model_error)


def test_dither_of_many_waits_hardly_scatters_their_sum() -> None:
    """10 s, each wait up to 15 % more or less: the sum of n has the deviation 10 s * 0.3 * sqrt(n / 12), below and above
    the 400 waits that are walked."""
    for limit in (400, 401, 2_000):
        found = window_of(
            Policy.from_json(
                {"curve": {"constant": "10s"}, "jitter": {"even": {"dither": 0.3}}, "limit": limit}
            )
        )
        assert found.sd_ms == pytest.approx(10_000 * 0.3 * math.sqrt(limit / 12), rel=0.05)
        assert found.mean_ms == pytest.approx(limit * 10_000, rel=1e-3)


def test_a_number_for_life_that_is_drawn_again_falls() -> None:
    """1 s and as much again, from 1.5 s on drawn again in [0.75, 1.5) s: 401 waits that are alike all their life."""
    form = {
        "curve": {"constant": "1s"},
        "jitter": {"above": {"share": 1, "source": "job", "redraw": "1500ms"}},
    }
    found = window_of(Policy.from_json(form | {"limit": 401}))
    # Half lie evenly in 1 to 1.5 s, half in 0.75 to 1.5 s: below 1.25 s of the first a half, of the others two thirds.
    for below, wait_ms in ((1 / 12, 875), (1 / 6, 1_000), (1 / 3 + 1 / 4, 1_250)):
        assert 1 - found.outlives(401 * wait_ms) == pytest.approx(below, abs=0.02)


def test_the_deviation_of_a_die_for_life() -> None:
    """Five waits of 10, 12 ... 18 s: 50 to 90 s, ten apart, which has the variance 200 s**2."""
    form = {
        "curve": {"constant": "10s"},
        "jitter": {"add": {"by": "10s", "faces": 5, "source": "job"}},
        "limit": 5,
    }
    assert window_of(Policy.from_json(form)).sd_ms == pytest.approx(10_000 * math.sqrt(2), rel=1e-9)
