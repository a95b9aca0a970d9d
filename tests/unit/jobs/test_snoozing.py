"""A handler that asks to run later, or calls its own job off: no failure is counted, and no wait grows."""

import json

from msgspec.structs import replace

from anew.backoff import Policy
from anew.jobs import (
    Cancelled,
    Defaults,
    Failed,
    Job,
    Snoozed,
    State,
    decide_cancel,
    decide_failure,
    decide_snooze,
)
from tests.unit.jobs.helpers import make_job

NOW = 1_700_000_000_000
DEFAULTS = Defaults(
    policy=Policy.from_json({"curve": {"exponential": {"base": "1s"}}, "limit": 3}), dead_ms=5_000
)


def snooze(
    job: Job, ms: int, *, before: int = 0, most: int | None = None, **fields: str
) -> dict[str, object]:
    asked = Snoozed(ready_at=NOW + ms, most=most, **fields)  # type: ignore[arg-type]
    change = decide_snooze(job, asked, before=before, defaults=DEFAULTS, now=NOW)
    return {
        "state": change.state,
        "ready_at": change.ready_at,
        "attempts": change.attempts,
        "failed_at": change.failed_at,
        "outcome": change.attempt.outcome,
        "decision": json.loads(change.attempt.decision),
    }


def test_a_job_that_has_not_failed_is_scheduled_and_nothing_is_counted() -> None:
    assert snooze(make_job(state=State.IN_FLIGHT, attempts=0), 90_000, reason="no report yet") == {
        "state": State.SCHEDULED,
        "ready_at": NOW + 90_000,
        "attempts": 0,
        "failed_at": None,
        "outcome": "snoozed",
        "decision": {
            "verdict": "retry",
            "reason": "the worker asked to run it later",
            "wait_ms": 90_000,
            "due_at": NOW + 90_000,
        },
    }


def test_a_job_that_has_failed_goes_on_retrying_with_its_attempts() -> None:
    job = make_job(state=State.IN_FLIGHT, attempts=2, failed_at=NOW - 7, first_failed_at=NOW - 9)
    after = snooze(job, 1_000, outcome="rate_limited")
    assert (after["state"], after["attempts"], after["failed_at"]) == (State.RETRYING, 2, NOW - 7)
    assert after["outcome"] == "rate_limited"


def test_a_time_that_has_passed_means_now() -> None:
    assert snooze(make_job(state=State.IN_FLIGHT), -5_000)["ready_at"] == NOW


def test_five_hundred_snoozes_change_no_later_wait() -> None:
    """The policy waits 1, 2, 4 s: the first failure after any number of snoozes waits 1 s."""
    job = make_job(state=State.IN_FLIGHT, attempts=0)
    for before in range(500):
        change = decide_snooze(job, Snoozed(ready_at=NOW), before=before, defaults=DEFAULTS, now=NOW)
        job = replace(job, attempts=change.attempts, carry=change.carry, phase=change.phase)
    failed = decide_failure(
        job, Failed(message="no"), job_id=b"j", defaults=DEFAULTS, now=NOW, rng=lambda: 0.5, phase=0.0
    )
    assert failed.ready_at == NOW + 1_000


def test_a_limit_of_snoozes_ends_the_job() -> None:
    job = make_job(state=State.IN_FLIGHT)
    assert snooze(job, 1_000, before=2, most=3)["state"] is State.SCHEDULED
    over = snooze(job, 1_000, before=3, most=3)
    assert over["state"] is State.DEAD
    assert over["decision"] == {"verdict": "dead", "reason": "snoozed 3 times, the limit"}


def test_a_job_that_calls_itself_off_is_cancelled_and_kept_like_a_dead_one() -> None:
    change = decide_cancel(
        make_job(state=State.IN_FLIGHT), Cancelled(reason="the user has left"), defaults=DEFAULTS, now=NOW
    )
    assert (change.state, change.purge_at, change.remove) == (State.CANCELLED, NOW + 5_000, False)
    assert (change.attempt.outcome, change.attempt.message) == ("cancelled", "the user has left")


def fail(failure: Failed, job: Job) -> dict[str, object]:
    change = decide_failure(job, failure, job_id=b"j", defaults=DEFAULTS, now=NOW, rng=lambda: 0.5, phase=0.0)
    return {"state": change.state, "ready_at": change.ready_at, "outcome": change.attempt.outcome}


def test_a_failure_can_bring_the_policy_that_holds_for_it() -> None:
    rule = b'{"curve": {"constant": "7s"}}'
    failed = fail(Failed(message="late", policy=rule, outcome="timeout"), make_job(state=State.IN_FLIGHT))
    assert failed == {"state": State.RETRYING, "ready_at": NOW + 7_000, "outcome": "timeout"}


def test_the_lower_limit_of_rule_and_job_holds() -> None:
    """Retries are 2 by the rule: the third failure ends the job, though it allows 5; and 1 by the job ends it at the second."""
    rule = b'{"curve": {"constant": "7s"}, "limit": 2}'
    for own, attempts, state in ((5, 1, "retrying"), (5, 2, "dead"), (1, 0, "retrying"), (1, 1, "dead")):
        job = make_job(state=State.IN_FLIGHT, retry_limit=own, attempts=attempts)
        assert fail(Failed(message="no", policy=rule), job)["state"] == state


def test_a_named_time_can_be_held_to_the_limit() -> None:
    asked = Failed(message="no", retry_at=NOW + 60_000, limited=True)
    assert fail(asked, make_job(state=State.IN_FLIGHT, attempts=2))["ready_at"] == NOW + 60_000
    assert fail(asked, make_job(state=State.IN_FLIGHT, attempts=3))["state"] is State.DEAD


def test_a_job_whose_task_nobody_knows_waits_longer_each_time_and_dies_after_a_day() -> None:
    """10 s, doubled until 1 h: 5,110 s of nine waits, and 23 h."""
    job = make_job(state=State.IN_FLIGHT, attempts=0)

    def after(before: int) -> dict[str, object]:
        return snooze(job, 0, before=before, outcome="unknown_task", reason="no such task")

    waits_s = [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560] + [3_600] * 23
    for before, wait_s in enumerate(waits_s):
        changed = after(before)
        assert (changed["state"], changed["attempts"], changed["ready_at"]) == (
            State.SCHEDULED,
            0,
            NOW + wait_s * 1_000,
        )
    assert sum(waits_s) == 24 * 3_600 + 25 * 60 + 10
    dead = after(32)
    assert (dead["state"], dead["attempts"], dead["outcome"]) == (State.DEAD, 0, "unknown_task")
    assert dead["decision"] == {
        "verdict": "dead",
        "reason": "no worker that had it in 33 tries knew its task, the limit",
    }
