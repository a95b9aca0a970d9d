"""Deciding one wait: limits, phases, deadline, clamp, overrides, and the sentence that explains it."""

import math
from typing import Any

import pytest

from anew.backoff import Custom, Exhausted, Phase, Policy, Wait, next_wait, preset
from anew.backoff.curves import Constant

from .helpers import make_draws, make_policy, wait_ms


def decide(policy: Policy, retry: int, **given: Any) -> Wait | Exhausted:
    return next_wait(policy, retry, make_draws(), **given)


def test_limit_three_is_three_retries_and_four_runs() -> None:
    policy = make_policy(limit=3)
    assert [type(decide(policy, k)) for k in (1, 2, 3, 4)] == [Wait, Wait, Wait, Exhausted]
    assert decide(policy, 4) == Exhausted("all 3 retries are spent", "limit")


def test_limit_zero_makes_the_first_failure_final() -> None:
    for retry in (-1, 0, 1):
        assert decide(make_policy(limit=0), retry) == Exhausted("no retry is allowed", "limit")


def test_limit_one_reads_well() -> None:
    assert decide(make_policy(limit=1), 2) == Exhausted("the only retry is spent", "limit")


def test_no_limit_never_ends() -> None:
    assert isinstance(decide(make_policy(limit=None), 10**12), Wait)


def test_max_attempts_counts_runs() -> None:
    assert make_policy(max_attempts=4).limit == 3
    assert make_policy(max_attempts=1).limit == 0
    assert make_policy(max_attempts=None).limit is None


@pytest.mark.parametrize("retry", [0, -5, -(10**30)])
def test_a_retry_below_one_counts_as_one(retry: int) -> None:
    assert wait_ms(preset("zizq"), retry, make_draws(0.5)) == 31_000


@pytest.mark.parametrize("retry", [10_000, 2**31, 2**63, 10**40])
def test_absurd_retries_stay_below_365_days(retry: int) -> None:
    policy = preset("zizq", limit=None)
    assert wait_ms(policy, retry, make_draws(0.999)) == 31_536_000_000


PHASES = {
    "curve": ...,
    "phases": [
        {"count": 3, "curve": {"constant": 0}},
        {"count": 2, "curve": {"constant": "5s"}},
        {
            "count": 10,
            "curve": {"between": {"low": "5s", "high": "260s", "retries": 10, "shape": "arithmetic"}},
        },
        {"count": 5, "curve": {"constant": "260s"}},
    ],
}


def test_phases_follow_each_other_and_each_counts_from_one() -> None:
    policy = make_policy(**PHASES)
    waits = [wait_ms(policy, k) for k in range(1, 21)]
    assert waits[:5] == [0, 0, 0, 5_000, 5_000]
    assert waits[5:15] == [
        5_000, 10_666, 22_000, 39_000, 61_666, 90_000, 124_000, 163_666, 209_000, 260_000,
    ]  # fmt: skip
    assert waits[15:] == [260_000] * 5


def test_the_smaller_of_limit_and_the_phases_sum_wins() -> None:
    assert make_policy(**PHASES, limit=100).retries == 20
    assert make_policy(**PHASES, limit=None).retries == 20
    assert make_policy(**PHASES, limit=7).retries == 7
    over = decide(make_policy(**PHASES, limit=100), 21)
    assert over == Exhausted("all 20 retries are spent, the last phase is over", "phases")


def test_an_endless_last_phase_leaves_the_limit() -> None:
    phases = [{"count": 2, "curve": {"constant": 0}}, {"curve": {"linear": {"base": "1s", "step": "1s"}}}]
    policy = make_policy(curve=..., phases=phases, limit=None)
    assert policy.retries is None
    assert [wait_ms(policy, k) for k in (1, 2, 3, 4, 102)] == [0, 0, 1_000, 2_000, 100_000]


def test_jitter_in_phases_grows_with_the_retry_of_its_phase() -> None:
    phases = [{"count": 2, "curve": {"constant": "1s"}}, {"curve": {"constant": "1s"}}]
    policy = make_policy(curve=..., phases=phases, jitter={"grow": "2s"})
    assert [wait_ms(policy, k, make_draws(0.5)) for k in (1, 2, 3, 4)] == [2_000, 3_000, 2_000, 3_000]


def test_even_slides_across_the_borders_of_phases() -> None:
    """Nominal 10, 10, 30, 30 s; the third wait lies between (10+30)/2 = 20 s and 30 s."""
    phases = [{"count": 2, "curve": {"constant": "10s"}}, {"curve": {"constant": "30s"}}]
    policy = make_policy(curve=..., phases=phases, jitter="even")
    assert wait_ms(policy, 3, make_draws(phase=0.0)) == 20_000
    assert wait_ms(policy, 2, make_draws(phase=0.0)) == 10_000


def test_a_deadline_finishes_when_the_next_wait_would_pass_it() -> None:
    policy = make_policy(curve={"constant": "10s"}, deadline="1m")
    assert isinstance(decide(policy, 5, elapsed_ms=50_000), Wait)
    late = decide(policy, 5, elapsed_ms=50_001)
    reason = "a wait of 10 s would pass the deadline of 1 min after the first failure (9.999 s are left)"
    assert late == Exhausted(reason, "deadline")


def test_a_deadline_may_clip_the_last_wait_instead() -> None:
    policy = make_policy(curve={"constant": "10s"}, deadline="1m", on_deadline="clip")
    wait = decide(policy, 6, elapsed_ms=56_000)
    assert isinstance(wait, Wait)
    assert (wait.wait_ms, wait.nominal_ms) == (4_000, 10_000)
    assert wait.reason == "retry 6: 10 s nominal; the deadline cuts it short, so 4 s"
    passed = decide(policy, 7, elapsed_ms=60_000)
    assert isinstance(passed, Exhausted)
    assert passed.reason.endswith("after the first failure (it has passed)")


def test_without_elapsed_time_or_with_a_clock_gone_back_the_deadline_starts_now() -> None:
    policy = make_policy(curve={"constant": "10s"}, deadline="5s")
    assert isinstance(decide(policy, 1), Exhausted)
    assert isinstance(decide(policy, 1, elapsed_ms=-(10**12)), Exhausted)
    roomy = make_policy(curve={"constant": "10s"}, deadline="10s")
    assert isinstance(decide(roomy, 1), Wait)
    assert isinstance(decide(roomy, 1, elapsed_ms=-(10**12)), Wait)


def test_the_clamp_holds_both_ends() -> None:
    policy = make_policy(curve={"constant": "10s"}, jitter="full", floor="2s", ceil="9s")
    assert wait_ms(policy, 1, make_draws(0.0)) == 2_000
    assert wait_ms(policy, 1, make_draws(0.95)) == 9_000
    assert wait_ms(policy, 1, make_draws(0.5)) == 5_000


def test_a_cap_below_the_first_wait_makes_every_wait_the_cap() -> None:
    policy = make_policy(curve={"exponential": {"base": "15s"}}, cap="4s")
    assert [wait_ms(policy, k) for k in (1, 2, 25)] == [4_000] * 3


def test_a_wait_that_the_failure_asks_for_replaces_curve_and_jitter() -> None:
    policy = preset("zizq")
    wait = decide(policy, 3, override_ms=120_000)
    assert isinstance(wait, Wait)
    assert (wait.wait_ms, wait.draw, wait.nominal_ms) == (120_000, None, 96_000)
    assert wait.reason == "retry 3: 1 min 36 s nominal; the failure asks for 2 min, so 2 min"


@pytest.mark.parametrize(
    ("override", "asked_ms", "wait"),
    [
        ("bounded", 1_000, 5_000),
        ("bounded", 30_000, 30_000),
        ("bounded", 10**9, 60_000),
        ("bounded", -5, 5_000),
        ("exact", 1_000, 1_000),
        ("exact", 10**9, 10**9),
        ("exact", 10**18, 31_536_000_000),
        ("exact", -5, 0),
        ("spread", 30_000, 32_500),
        ("spread", 59_000, 60_000),
    ],
)
def test_overrides_meet_floor_and_ceiling_unless_the_policy_opts_out(
    override: str, asked_ms: int, wait: int
) -> None:
    policy = make_policy(floor="5s", ceil="1m", override=override)
    assert wait_ms(policy, 1, make_draws(phase=0.25), override_ms=asked_ms) == wait


def test_an_override_does_not_lift_the_limit() -> None:
    assert isinstance(decide(make_policy(limit=2), 3, override_ms=1_000), Exhausted)


def test_beyond_the_limit_a_wait_is_given_all_the_same_but_not_beyond_the_deadline() -> None:
    policy = make_policy(limit=2, deadline="1m")
    assert wait_ms(policy, 3, override_ms=1_000, beyond_limit=True, elapsed_ms=50_000) == 1_000
    late = decide(policy, 3, override_ms=20_000, beyond_limit=True, elapsed_ms=50_000)
    assert isinstance(late, Exhausted)
    assert late.cause == "deadline"


def test_a_policy_changed_mid_life_is_read_at_the_present_retry() -> None:
    assert wait_ms(preset("faktory"), 4, make_draws(0.0)) == 96_000
    assert wait_ms(preset("zizq"), 4, make_draws(0.0)) == 271_000


def _boom(k: int) -> float:
    raise RuntimeError(f"no wait for {k}")


@pytest.mark.parametrize("function", [_boom, lambda k: math.nan, lambda k: "soon", lambda k: None])
def test_a_failing_custom_function_falls_back_to_the_default_curve_and_never_to_zero(function: Any) -> None:
    policy = Policy(curve=Custom(function=function))
    waits = [decide(policy, k) for k in (1, 2, 3)]
    assert [wait.wait_ms for wait in waits if isinstance(wait, Wait)] == [30_000, 46_000, 76_000]
    assert all("the policy's own function failed (it " in wait.reason for wait in waits)


def test_a_failing_custom_function_keeps_cap_and_jitter() -> None:
    policy = Policy(curve=Custom(function=_boom), cap_ms=40_000, jitter=make_policy(jitter="equal").jitter)
    assert wait_ms(policy, 3, make_draws(0.5)) == 30_000
    assert wait_ms(policy, 3, override_ms=7_000) == 7_000
    sliding = Policy(curve=Custom(function=_boom), jitter=make_policy(jitter="even").jitter)
    assert wait_ms(sliding, 2, make_draws(phase=0.0)) == 38_000


def test_a_window_up_to_a_failing_custom_function_leaves_the_default_curve() -> None:
    from anew.backoff import UpTo

    jitter = UpTo(curve=Custom(function=_boom))
    assert wait_ms(Policy(curve=Constant(wait_ms=5_000), jitter=jitter), 1) == 30_000


def test_a_negative_custom_wait_is_zero_and_then_the_floor() -> None:
    assert wait_ms(Policy(curve=Custom(function=lambda k: -9.0)), 1) == 0
    assert wait_ms(Policy(curve=Custom(function=lambda k: -9.0), floor_ms=250), 1) == 250


@pytest.mark.parametrize(
    "jitter",
    ["full", {"grow": {"by": "1s", "faces": 6}}, "decorrelated", "slices", {"even": {"dither": 0.5}}],
)
def test_chance_that_is_no_number_never_becomes_an_immediate_retry(jitter: Any) -> None:
    policy = make_policy(curve={"exponential": {"base": "10s"}}, jitter=jitter)
    wait = next_wait(policy, 1, make_draws(math.nan, phase=math.nan))
    assert isinstance(wait, Wait)
    assert wait.wait_ms > 4_000
    assert wait.note == ""  # no bound has held it


def test_the_decision_says_what_was_drawn_and_what_capped_it() -> None:
    policy = make_policy(curve={"exponential": {"base": "15s"}}, cap="1h", jitter={"above": 0.25})
    wait = next_wait(policy, 12, make_draws(0.5))
    assert wait == Wait(12, 3_600_000, 0.5, 3_600_000, 4_050_000)
    assert wait.reason == "retry 12: 1 h (the cap) + 7 min 30 s of jitter (0.500) = 1 h 7 min"


@pytest.mark.parametrize(
    ("policy", "number", "reason"),
    [
        ({"preset": "zizq"}, 0.5, "retry 3: 1 min 36 s + 45 s of jitter (0.500) = 2 min 21 s"),
        ({"preset": "aws_full"}, 0.25, "retry 3: 4 s - 3 s of jitter (0.250) = 1 s"),
        ({"preset": "constant"}, 0.5, "retry 3: 5 min"),
        ({"preset": "aws_full"}, 0.0, "retry 3: 4 s - 4 s of jitter (0.000) = 0 ms"),
        # What a bound does is not the jitter's doing.
        (
            {"curve": {"constant": "10m"}, "ceil": "1m"},
            0.5,
            "retry 3: 10 min nominal; the policy is for no more than 1 min, so 1 min",
        ),
        (
            {"curve": {"constant": "10s"}, "floor": "1m"},
            0.5,
            "retry 3: 10 s nominal; the policy is for no less than 1 min, so 1 min",
        ),
        (
            {"curve": {"constant": "10s"}, "jitter": "full", "floor": "2s"},
            0.125,
            "retry 3: 10 s nominal; the jitter (0.125) makes it 1.25 s, the policy is for no less than 2 s, so 2 s",
        ),
    ],
)
def test_the_reason_is_a_line_of_arithmetic(policy: Any, number: float, reason: str) -> None:
    wait = next_wait(Policy.from_json(policy), 3, make_draws(number))
    assert isinstance(wait, Wait)
    assert wait.reason == reason


def test_a_wait_beyond_all_numbers_is_told_as_the_longest_there_is() -> None:
    policy = make_policy(
        curve={"exponential": {"base": "1d", "factor": 1000}}, jitter={"above": 1}, limit=None
    )
    wait = next_wait(policy, 2**20, make_draws(0.5))
    assert isinstance(wait, Wait)
    assert wait.reason.endswith("the policy is for no more than 365 d, so 365 d")


def test_cap_ms_is_the_cap_else_the_ceiling_else_nothing() -> None:
    def cap(**fields: Any) -> int | None:
        wait = decide(make_policy(**fields), 1)
        assert isinstance(wait, Wait)
        return wait.cap_ms

    assert cap() is None
    assert cap(ceil="2h") == 7_200_000
    assert cap(cap="1h", ceil="2h") == 3_600_000


def test_phases_can_be_built_in_python() -> None:
    policy = Policy(phases=(Phase(curve=Constant(wait_ms=1), count=2), Phase(curve=Constant(wait_ms=9))))
    assert [wait_ms(policy, k) for k in (1, 2, 3, 4)] == [1, 1, 9, 9]


@pytest.mark.parametrize(
    ("exponent", "waits"),
    [
        # The seconds are 1, 1/2, 1/3, 1/4, 1/5, 1/8, 1/10 and 1/16.
        (-1, {1: 1_200, 2: 700, 3: 533, 4: 450, 5: 400, 8: 325, 10: 300, 16: 262}),
        # 1, 1/2, 1/3, 1/4 and 1/5.
        (-0.5, {1: 1_200, 4: 700, 9: 533, 16: 450, 25: 400}),
        (-3.4028235e38, {1: 1_200, 2: 200, 3: 200, 25: 200}),
    ],
)
def test_a_negative_exponent_of_zizqs_shrinks_the_wait_and_keeps_its_bounds(
    exponent: float, waits: dict[int, int]
) -> None:
    """Zizq's curve: k ^ exponent seconds, plus the base, plus jitter up to 30 ms times k; held to floor and ceil."""
    numbers = {"exponent": exponent, "base_ms": 200, "jitter_ms": 30}
    policy = Policy.from_json(numbers)
    assert {k: wait_ms(policy, k, make_draws(0.0)) for k in waits} == waits
    for draw in (0.0, 0.999999):
        for k, wait in waits.items():
            assert wait <= wait_ms(policy, k, make_draws(draw)) <= wait + 30 * k
            held = Policy.from_json(numbers | {"floor": "1s", "ceil": "1100ms"})
            assert 1_000 <= wait_ms(held, k, make_draws(draw)) <= 1_100


def test_a_wait_that_shrinks_to_nothing_is_never_negative() -> None:
    policy = Policy.from_json({"exponent": -1e30, "base_ms": 0, "jitter_ms": 0, "limit": None})
    assert [wait_ms(policy, k, make_draws(0.5)) for k in (1, 2, 3, 1_000_000)] == [1_000, 0, 0, 0]
