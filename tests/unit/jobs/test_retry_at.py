"""A time that the failure itself asks for, against what the policy sets (`override`); hand arithmetic."""

import json
from typing import Any

import pytest

from anew.jobs import Change, Failed, State, decide_failure

from .helpers import DAY_MS, JOB_ID, NOW, make_defaults, make_failing, no_chance

C = {"curve": {"constant": "10s"}}
BOUNDED = {"floor": "5s", "ceil": "1m"}


def ask(asked_ms: int, policy: dict[str, Any], **job: Any) -> Change:
    return decide_failure(
        make_failing(policy=json.dumps(C | policy).encode(), **job),
        Failed(message="busy", retry_at=NOW + asked_ms),
        job_id=JOB_ID,
        defaults=make_defaults(),
        now=NOW,
        rng=no_chance,
        phase=0.25,
    )


def reason(change: Change) -> str:
    return str(json.loads(change.attempt.decision)["reason"])


@pytest.mark.parametrize(
    ("override", "asked_ms", "wait_ms"),
    [
        ("bounded", 1_000, 5_000),
        ("bounded", 30_000, 30_000),
        ("bounded", 3_600_000, 60_000),
        ("bounded", -3_600_000, 5_000),
        ("exact", 1_000, 1_000),
        ("exact", 3_600_000, 3_600_000),
        ("exact", 400 * DAY_MS, 400 * DAY_MS),
        ("exact", -5, -5),
        ("spread", 30_000, 32_500),
        ("spread", 59_000, 60_000),
        ("spread", -3_600_000, 5_000),
    ],
)
def test_floor_and_ceiling_hold_unless_the_policy_opts_out(
    override: str, asked_ms: int, wait_ms: int
) -> None:
    """Phase 0.25 on a nominal wait of 10 s spreads by 2.5 s."""
    change = ask(asked_ms, BOUNDED | {"override": override})
    assert (change.state, change.ready_at) == (State.RETRYING, NOW + wait_ms)


def test_without_bounds_of_its_own_a_policy_changes_nothing() -> None:
    """Zizq's rule, for all that Zizq's three numbers can say: the instant is obeyed, past or far beyond a year."""
    for asked_ms in (-NOW, -1, 0, 400 * DAY_MS):
        assert ask(asked_ms, {"cap": "2s", "jitter": "full", "limit": 0}).ready_at == NOW + asked_ms


def test_spread_without_bounds_parts_jobs_that_were_sent_to_one_instant() -> None:
    assert ask(30_000, {"override": "spread"}).ready_at == NOW + 32_500


@pytest.mark.parametrize("override", ["bounded", "exact", "spread"])
@pytest.mark.parametrize(
    "terms", [{"limit": 2}, {"limit": None, "curve": None, "phases": [C | {"count": 2}]}]
)
def test_the_limit_never_counts_and_the_failure_always_does(override: str, terms: dict[str, Any]) -> None:
    """Zizq 60: `retry_at` beats the limit; the catalogue: it does not begin the count anew."""
    policy = {
        name: value for name, value in (C | BOUNDED | terms).items() if value is not None or name == "limit"
    }
    change = decide_failure(
        make_failing(policy=json.dumps(policy | {"override": override}).encode(), attempts=7),
        Failed(message="", retry_at=NOW + 30_000),
        job_id=JOB_ID,
        defaults=make_defaults(),
        now=NOW,
        rng=no_chance,
        phase=0.0,
    )
    assert (change.state, change.attempts, change.ready_at) == (State.RETRYING, 8, NOW + 30_000)


@pytest.mark.parametrize("override", ["bounded", "exact", "spread"])
def test_the_deadline_holds(override: str) -> None:
    terms = {"deadline": "1m", "override": override}
    late = ask(50_000, terms, first_failed_at=NOW - 30_000)
    assert late.state is State.DEAD
    assert "would pass the deadline" in reason(late)
    clipped = ask(50_000, terms | {"on_deadline": "clip"}, first_failed_at=NOW - 30_000)
    assert clipped.ready_at == NOW + 30_000
    assert ask(20_000, terms, first_failed_at=NOW - 30_000).state is State.RETRYING


def test_a_carry_is_kept_for_the_next_draw() -> None:
    assert ask(30_000, BOUNDED | {"jitter": "decorrelated"}, carry=12_345.5).carry == 12_345.5


@pytest.mark.parametrize(
    ("asked_ms", "said"),
    [
        (30_000, "retry 1: 10 s nominal; the failure asks for 30 s, so 30 s"),
        (1_000, "retry 1: 10 s nominal; the failure asks for 1 s, the policy for no less than 5 s, so 5 s"),
        (
            3_600_000,
            "retry 1: 10 s nominal; the failure asks for 1 h, the policy for no more than 1 min, so 1 min",
        ),
        (-1, "retry 1: 10 s nominal; the failure asks for 0 ms, the policy for no less than 5 s, so 5 s"),
    ],
)
def test_the_reason_says_who_asked_for_what(asked_ms: int, said: str) -> None:
    assert reason(ask(asked_ms, BOUNDED)) == said


def test_the_reason_says_who_asked_also_where_the_deadline_cuts_it_short() -> None:
    clipped = ask(50_000, {"deadline": "1m", "on_deadline": "clip"}, first_failed_at=NOW - 30_000)
    assert reason(clipped) == (
        "retry 1: 10 s nominal; the failure asks for 50 s, the deadline cuts it short, so 30 s"
    )
