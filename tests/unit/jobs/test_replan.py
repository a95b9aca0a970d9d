"""What another policy makes of jobs that wait for a retry; expected values by hand arithmetic."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from anew.backoff import Draws
from anew.jobs import Failed, Interrupted, Job, Snoozed, State
from anew.jobs.change import Change, after
from anew.jobs.decide import decide_failure
from anew.jobs.interruption import decide_interruption
from anew.jobs.replan import Kept, Replanned, replanned
from anew.jobs.snoozing import decide_snooze

from .helpers import JOB_ID, NOW, make_defaults, make_failing, no_chance

TEN_MINUTES = {"curve": {"constant": "10m"}}
LINEAR = {"curve": {"linear": {"base": "1m", "step": "2m"}}}
MINUTE = 60_000


def failed(
    failed_before: int = 0, *, retry_at: int | None = None, at: int = NOW, **fields: Any
) -> tuple[Job, Change]:
    """A job that has just failed, and how; its policy waits ten minutes."""
    policy = json.dumps(fields.pop("policy", TEN_MINUTES)).encode()
    job = make_failing(attempts=failed_before, policy=policy, **fields)
    change = decide_failure(
        job,
        Failed(message="no", retry_at=retry_at),
        job_id=JOB_ID,
        defaults=make_defaults(),
        now=at,
        rng=no_chance,
        phase=0.25,
    )
    return after(job, change), change


def plan(job: Job, change: Change, policy: object, *, now: int = NOW, **options: Any) -> Replanned | Kept:
    return replanned(
        job,
        change.attempt.attempt,
        change.attempt.decision,
        json.dumps(policy).encode(),
        draws=Draws(rng=options.pop("rng", no_chance), job_id=JOB_ID, phase=job.phase),
        defaults=make_defaults(),
        now=now,
        **options,
    )


def new_times(found: Replanned | Kept) -> tuple[State, int, dict[str, Any]]:
    assert isinstance(found, Replanned)
    return found.job.state, found.job.ready_at, json.loads(found.decision)


def test_the_new_wait_counts_from_the_last_failure_at_the_same_number() -> None:
    """The third failure: 1 + 2 * 2 = 5 minutes after it, of which one has passed."""
    job, change = failed(2)
    found = plan(job, change, LINEAR, now=NOW + MINUTE)
    state, ready_at, decision = new_times(found)
    assert (state, ready_at) == (State.RETRYING, NOW + 5 * MINUTE)
    assert decision == {
        "verdict": "retry",
        "reason": "planned again: retry 3: 5 min",
        "nominal_ms": 5 * MINUTE,
        "wait_ms": 5 * MINUTE,
        "due_at": NOW + 5 * MINUTE,
    }
    assert isinstance(found, Replanned)
    assert (found.job.attempts, found.job.policy) == (3, json.dumps(LINEAR).encode())


def test_what_is_overdue_by_the_new_policy_is_ready() -> None:
    job, change = failed()
    assert new_times(plan(job, change, LINEAR, now=NOW + MINUTE))[:2] == (State.READY, NOW + MINUTE)
    assert new_times(plan(job, change, LINEAR, now=NOW + MINUTE - 1))[:2] == (State.RETRYING, NOW + MINUTE)


def test_a_place_in_a_spread_makes_it_later_and_never_sooner() -> None:
    job, change = failed()
    state, ready_at, decision = new_times(plan(job, change, LINEAR, not_before=NOW + 3 * MINUTE))
    assert (state, ready_at, decision["wait_ms"]) == (State.RETRYING, NOW + 3 * MINUTE, 3 * MINUTE)
    assert decision["reason"] == "planned again: retry 1: 1 min, and its place in the spread makes it later"
    assert new_times(plan(job, change, LINEAR, not_before=NOW + 1))[1] == NOW + MINUTE


def test_a_job_is_planned_again_as_often_as_one_likes() -> None:
    job, change = failed()
    first = plan(job, change, LINEAR)
    assert isinstance(first, Replanned)
    second = replanned(
        first.job,
        change.attempt.attempt,
        first.decision,
        json.dumps(TEN_MINUTES).encode(),
        draws=Draws(rng=no_chance),
        defaults=make_defaults(),
        now=NOW,
    )
    assert new_times(second)[:2] == (State.RETRYING, NOW + 10 * MINUTE)


def test_chance_is_what_is_given() -> None:
    """Full jitter of ten minutes at 0.5."""
    job, change = failed()
    found = plan(job, change, TEN_MINUTES | {"jitter": "full"}, rng=lambda: 0.5)
    assert new_times(found)[1] == NOW + 5 * MINUTE


@pytest.mark.parametrize(("limit", "own_limit"), [(4, None), (20, 4)])
def test_a_job_with_no_retry_left_under_it_keeps_its_time(limit: int, own_limit: int | None) -> None:
    """It waits for its fifth retry; its own limit counts before the policy's."""
    job, change = failed(4)
    job = replace(job, retry_limit=own_limit)
    assert plan(job, change, LINEAR | {"limit": limit}) is Kept.SPENT


def test_a_deadline_counts_from_the_first_failure() -> None:
    job, change = failed(1, first_failed_at=NOW - 58 * MINUTE)
    assert plan(job, change, LINEAR | {"deadline": "1h", "on_deadline": "finish"}) is Kept.SPENT
    assert new_times(plan(job, change, LINEAR | {"deadline": "2h"}))[1] == NOW + 3 * MINUTE


@pytest.mark.parametrize("policy", [TEN_MINUTES, TEN_MINUTES | {"override": "bounded", "ceil": "2h"}])
def test_a_time_that_the_failure_asked_for_stands(policy: dict[str, Any]) -> None:
    job, change = failed(retry_at=NOW + 90 * MINUTE, policy=policy)
    assert job.ready_at == NOW + 90 * MINUTE
    assert plan(job, change, LINEAR) is Kept.NAMED


def test_a_time_that_somebody_has_set_since_stands() -> None:
    job, change = failed()
    moved = replace(job, ready_at=job.ready_at + 1)
    assert plan(moved, change, LINEAR) is Kept.NAMED


def test_a_wait_after_an_interruption_or_a_snooze_stands() -> None:
    job, _ = failed()
    taken = replace(job, state=State.IN_FLIGHT, interruptions=1)
    interrupted = decide_interruption(taken, Interrupted("worker gone", 5), defaults=make_defaults(), now=NOW)
    assert interrupted is not None
    assert plan(after(taken, interrupted), interrupted, LINEAR) is Kept.NAMED
    snoozed = decide_snooze(
        taken, Snoozed(ready_at=NOW + MINUTE), before=0, defaults=make_defaults(), now=NOW
    )
    assert plan(after(taken, snoozed), snoozed, LINEAR) is Kept.NAMED


@pytest.mark.parametrize("decision", [None, b"{", b'{"verdict":"dead"}'])
def test_a_job_without_a_decision_that_can_be_read_keeps_its_time(decision: bytes | None) -> None:
    job, change = failed()
    found = replanned(
        job,
        change.attempt.attempt,
        decision,
        json.dumps(LINEAR).encode(),
        draws=Draws(rng=no_chance),
        defaults=make_defaults(),
        now=NOW,
    )
    assert found is Kept.NAMED
