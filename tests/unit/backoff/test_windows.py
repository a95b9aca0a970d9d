"""Jitter that draws in a window: bounds of the field's formulas, dice, sources, no draw without need."""

import math
from random import Random
from typing import Any

import pytest

from anew.backoff import Draws, Wait, next_wait
from anew.lab import explain

from .helpers import make_draws, make_policy, spans, wait_ms

X4 = {"power": {"exponent": 4, "origin": 1}}
SECONDS = {"low": {}, "high": {"times": 1, "add": "1s"}}


@pytest.mark.parametrize(
    ("curve", "jitter", "expected"),
    [
        # Sidekiq 8: a die with one face per second of 10 s times the retry.
        (
            {"power": {"base": "15s", "exponent": 4}},
            {"grow": {"by": "10s", "step": "1s"}},
            "15-24 16-35 31-60 96-135 271-320 640-699 1311-1380 2416-2495 4111-4200 6576-6675",
        ),
        # Sidekiq 6.2.2 to 7: ten faces, multiplied afterwards.
        (
            {"power": {"base": "15s", "exponent": 4}},
            {"grow": {"by": "10s", "faces": 10}},
            "15-24 16-34 31-58 96-132 271-316 640-694 1311-1374 2416-2488 4111-4192 6576-6666",
        ),
        # The chart of "Visualization of backoff functions": real-valued, weight n + 1, n from 1.
        (
            {"power": {"base": "15s", "exponent": 4, "origin": 1}},
            {"window": {"low": {"times": 1}, "high": {"times": 1, "grow": "30s", "add": "30s"}}},
            "16-76 31-121 96-216 271-421 640-820 1311-1521 2416-2656 4111-4381 6576-6876 10015-10345",
        ),
        (X4, {"around": 0.1}, "0.9-1.1 14.4-17.6 72.9-89.1 230.4-281.6 562.5-687.5"),
        (
            {"power": {"base": "2s", "exponent": 4, "origin": 1}},
            {"up_to": {"power": {"base": "2s", "exponent": 4, "origin": 1, "scale": "1.15s"}}},
            "3-3.15 18-20.4 83-95.15 258-296.4",
        ),
        (
            {"exponential": {"base": "15s"}},
            {"above": 1},
            "15-30 30-60 60-120 120-240 240-480 480-960 960-1920 1920-3840 3840-7680 7680-15360",
        ),
        ({"exponential": {"base": "1s"}}, {"below": 0.5}, "0.5-1 1-2 2-4 4-8 8-16 16-32 32-64 64-128"),
        (
            {"exponential": {"base": "1s"}},
            {"window": SECONDS | {"step": "1s"}},
            "0-1 0-2 0-4 0-8 0-16 0-32 0-64 0-128 0-256 0-512",
        ),
        ({"exponential": {"base": "500ms", "factor": 1.5}}, {"around": 0.5}, "0.25-0.75 0.375-1.125 0.562-1.687"),
        (
            {"exponential": {"base": "300s"}},
            {"above": {"share": 1, "step": "1s", "source": "hash"}},
            "300-599 600-1199 1200-2399 2400-4799 4800-9599 9600-19199",
        ),
        ({"exponential": {"base": "1s"}}, {"add": "1s"}, "1-2 2-3 4-5 8-9 16-17 32-33 64-65 128-129"),
    ],
)  # fmt: skip
def test_bounds_of_the_fields_formulas(curve: Any, jitter: Any, expected: str) -> None:
    rows = expected.split()
    assert spans(make_policy(curve=curve, jitter=jitter), len(rows)) == rows


@pytest.mark.parametrize(
    ("jitter", "number", "expected_ms"),
    [
        ("full", 0.0, 0),
        ("full", 0.25, 2_500),
        ("full", math.nextafter(1, 0), 9_999),
        ("equal", 0.0, 5_000),
        ("equal", 0.5, 7_500),
        ({"above": 0.25}, 0.5, 11_250),
        ({"below": 0.5}, 0.5, 7_500),
        ({"around": 0.5}, 0.25, 7_500),
        ({"add": "4s"}, 0.75, 13_000),
        ({"grow": "2s"}, 0.5, 13_000),
        ({"window": {"low": {"times": 1}, "high": {"times": 2, "grow": "1s", "add": "2s"}}}, 0.5, 17_500),
        ({"up_to": {"constant": "20s"}}, 0.125, 11_250),
        ({"grow": {"by": "10s", "faces": 4}}, 0.74, 25_000),
        ({"add": {"by": "3s", "step": "1s"}}, 0.99, 12_000),
    ],
)
def test_where_a_number_lands_at_the_third_retry(jitter: Any, number: float, expected_ms: int) -> None:
    assert wait_ms(make_policy(jitter=jitter), 3, make_draws(number)) == expected_ms


def test_the_open_end_is_never_reached() -> None:
    """16 s + 0.999... * 30 s rounds to 46 s in floating point; the window ends below it."""
    for retry in range(1, 60):
        policy = make_policy(curve=X4, jitter={"grow": "30s"}, limit=None)
        wait = next_wait(policy, retry, make_draws(math.nextafter(1, 0)))
        assert isinstance(wait, Wait)
        assert wait.wait_ms < retry**4 * 1000 + 30_000 * retry


def test_a_die_of_thirty_faces_shows_thirty_values_and_never_the_top() -> None:
    policy = make_policy(curve={"constant": "15s"}, jitter={"grow": {"by": "30s", "faces": 30}})
    draws = Draws(Random(1).random)
    assert {wait_ms(policy, 1, draws) for _ in range(3_000)} == {15_000 + 1_000 * j for j in range(30)}
    assert {wait_ms(policy, 4, draws) for _ in range(3_000)} == {15_000 + 4_000 * j for j in range(30)}


def test_a_step_wider_than_the_window_leaves_its_lower_end() -> None:
    policy = make_policy(jitter={"add": {"by": "3s", "step": "1m"}})
    assert wait_ms(policy, 1, make_draws(0.9)) == 10_000
    assert explain(policy).rows[0].latest_ms == 10_000


@pytest.mark.parametrize(
    "jitter",
    ["none", {"add": 0}, {"grow": 0}, {"above": 0}, {"around": 0}, {"below": 0}, {"up_to": {"constant": "10s"}}],
)  # fmt: skip
def test_without_width_the_wait_is_nominal_and_nothing_is_drawn(jitter: Any) -> None:
    wait = next_wait(make_policy(jitter=jitter), 2, make_draws())
    assert isinstance(wait, Wait)
    assert (wait.wait_ms, wait.draw) == (10_000, None)


def test_the_job_source_gives_one_number_for_life() -> None:
    policy = make_policy(jitter={"above": {"share": 1, "source": "job"}})
    assert [wait_ms(policy, k, make_draws(phase=0.25)) for k in (1, 2, 9)] == [12_500] * 3


def test_the_job_source_without_a_usable_phase_hashes_the_id() -> None:
    """BLAKE2b of "job-2" without a key is .361829026855756."""
    policy = make_policy(jitter={"above": {"share": 1, "source": "job"}})
    for phase in (None, math.nan, 1.0, -0.5):
        assert wait_ms(policy, 1, make_draws(job_id=b"job-2", phase=phase)) == 13_618


def test_the_hash_source_is_reproducible_and_fresh_at_each_retry() -> None:
    policy = make_policy(jitter={"above": {"share": 1, "source": "hash"}})
    waits = [wait_ms(policy, k) for k in range(1, 26)]
    assert waits == [wait_ms(policy, k) for k in range(1, 26)]
    assert len(set(waits)) == 25
    assert waits != [wait_ms(policy, k, make_draws(job_id=b"job-2")) for k in range(1, 26)]
    assert waits != [wait_ms(policy, k, make_draws(key=b"secret")) for k in range(1, 26)]


def test_jitter_outside_the_cap_may_pass_it_and_the_ceiling_may_not() -> None:
    beyond = make_policy(curve={"constant": "2h"}, cap="1h", jitter={"above": 0.25})
    assert wait_ms(beyond, 1, make_draws(0.8)) == 4_320_000
    assert spans(beyond, 1) == ["3600-4500"]
    within = make_policy(curve={"constant": "1h"}, ceil="1h", jitter={"above": 0.25})
    assert wait_ms(within, 1, make_draws(0.8)) == 3_600_000
    assert spans(within, 1) == ["3600"]


def test_a_second_curve_that_falls_below_late_leaves_the_nominal_wait() -> None:
    """Refusal looks at the first retries; what lies beyond is still never a negative window."""
    curve = {"power": {"exponent": 2, "scale": "1ms"}}
    policy = make_policy(curve=curve, jitter={"up_to": {"constant": "1m"}}, limit=None)
    assert wait_ms(policy, 1_001, make_draws()) == 1_000_000


# -- since, cut, redraw


def test_before_since_the_wait_is_nominal_and_nothing_is_drawn() -> None:
    policy = make_policy(
        curve={"linear": {"base": "10s", "step": "10s"}}, jitter={"below": {"share": 0.5, "since": 3}}
    )
    assert [wait_ms(policy, k) for k in (1, 2)] == [10_000, 20_000]
    assert wait_ms(policy, 3, make_draws(0.5)) == 22_500
    assert spans(policy, 4) == ["10", "20", "15-30", "20-40"]


def test_since_counts_through_all_phases() -> None:
    phases = [{"curve": {"constant": "5s"}, "count": 2}, {"curve": {"constant": "60s"}}]
    policy = make_policy(curve=..., phases=phases, jitter={"above": {"share": 1, "since": 2}})
    assert spans(policy, 4) == ["5", "5-10", "60-120", "60-120"]


@pytest.mark.parametrize(
    ("number", "expected_ms"),
    # 17 s and a tenth of it: [0, 1.7 s) cut to whole seconds is 0 below 1/1.7 = 0.588..., and 1 from there on.
    [(0.0, 17_000), (0.588, 17_000), (0.589, 18_000), (math.nextafter(1, 0), 18_000)],
)
def test_cut_takes_the_drawn_part_down_to_whole_units(number: float, expected_ms: int) -> None:
    policy = make_policy(curve={"constant": "17s"}, jitter={"above": {"share": 0.1, "cut": "1s"}})
    assert wait_ms(policy, 1, make_draws(number)) == expected_ms
    assert spans(policy, 1) == ["17-18"]


def test_cut_and_step_are_alike_where_the_window_is_a_whole_number_of_units() -> None:
    cut, step = (make_policy(jitter={"add": {"by": "4s", unit: "1s"}}) for unit in ("cut", "step"))
    for number in (0.0, 0.249, 0.25, 0.5, 0.751, math.nextafter(1, 0)):
        assert wait_ms(cut, 1, make_draws(number)) == wait_ms(step, 1, make_draws(number))
    assert spans(cut, 1) == spans(step, 1) == ["10-13"]


def test_a_cut_wider_than_the_window_leaves_its_lower_end() -> None:
    policy = make_policy(jitter={"add": {"by": "3s", "cut": "1m"}})
    assert wait_ms(policy, 1, make_draws(0.9)) == 10_000
    assert spans(policy, 1) == ["10"]


@pytest.mark.parametrize(
    ("number", "expected_ms"),
    [
        # [10 s, 20 s) with redraw at 16 s: 0.6 is exactly there. What lies above, 0 to 1, goes to [8 s, 16 s).
        (0.0, 10_000),
        (0.5, 15_000),
        (0.6, 8_000),
        (0.7, 10_000),
        (0.8, 12_000),
        (0.9, 14_000),
        (math.nextafter(1, 0), 15_999),
    ],
)
def test_a_draw_at_or_above_redraw_is_taken_from_its_upper_half(number: float, expected_ms: int) -> None:
    policy = make_policy(jitter={"above": {"share": 1, "redraw": "16s"}})
    assert wait_ms(policy, 1, make_draws(number)) == pytest.approx(expected_ms, abs=1)
    assert spans(policy, 1) == ["8-16"]


@pytest.mark.parametrize(
    ("redraw", "expected"),
    [("21s", "10-20"), ("20s", "10-20"), ("19s", "9.5-19"), ("10s", "5-10"), ("4s", "2-4")],
)
def test_the_reach_of_a_redrawn_window(redraw: str, expected: str) -> None:
    policy = make_policy(jitter={"above": {"share": 1, "redraw": redraw}})
    assert spans(policy, 1) == [expected]
    low, high = (float(end) * 1_000 for end in expected.split("-"))
    waits = [wait_ms(policy, 1, Draws(Random(seed).random)) for seed in range(300)]
    assert low <= min(waits) < low + 0.05 * (high - low)
    assert high - 0.05 * (high - low) < max(waits) < high


def test_a_window_without_width_is_not_drawn_again() -> None:
    policy = make_policy(jitter={"above": {"share": 0, "redraw": "4s"}})
    assert wait_ms(policy, 1) == 10_000
    assert spans(policy, 1) == ["10"]


@pytest.mark.parametrize("source", ["hash", "job"])
def test_one_number_is_enough_for_a_redraw_whatever_its_source(source: str) -> None:
    policy = make_policy(jitter={"above": {"share": 1, "redraw": "16s", "source": source}})
    waits = [wait_ms(policy, 1, make_draws(job_id=b"%d" % job)) for job in range(400)]
    assert min(waits) < 8_200
    assert 15_800 < max(waits) < 16_000
    assert len(set(waits)) > 380
