"""What a failure makes of a job, when it runs again and why; and how long an ended job is kept.

The other ends of attempts are decided in `anew.jobs.interruption` and `anew.jobs.snoozing`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from anew.backoff import Draws, Exhausted, Policy, Previous, next_wait
from anew.jobs.change import Change, Decision, ended
from anew.jobs.codec import LAST_INSTANT
from anew.jobs.job import Job
from anew.jobs.outcomes import Failed
from anew.jobs.state import State
from anew.jobs.terms import policy_of, retention_and_note, rule_of
from anew.jobs.transitions import Move

MOST_ATTEMPTS = 1 << 32
"""More failures than a job can have had; a number beyond it comes from a damaged row."""

CORRUPT_KEPT_MS = 7 * 86_400_000
"""How long a job is kept at least that was set aside because something stored of it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What holds for jobs that do not set it.

    Attributes:
        policy: The retry policy; its limit is the default limit.
        completed_ms: How long a completed job is kept; 0 removes it at once.
        dead_ms: How long a dead or cancelled job is kept; 0 removes it at once.
        interruption_limit: So many interruptions in a row end a job, and from the second on it waits; 0: neither.
    """

    policy: Policy
    completed_ms: int = 0
    dead_ms: int = 7 * 86_400_000
    interruption_limit: int = 0


def initial_state(ready_at: int | None, now: int) -> State:
    """Give the state of a new job: scheduled if its time is still to come, else ready."""
    return State.SCHEDULED if ready_at is not None and ready_at > now else State.READY


def completed_purge_at(retention: bytes | None, defaults: Defaults, now: int) -> int | None:
    """Decide until when a completed job is kept; None removes it at once.

    Args:
        retention: The job's own retention as JSON, or None.
        defaults: What holds otherwise.
        now: Epoch ms; the instant until which it is kept saturates instead of overflowing.
    """
    own = None if retention is None else retention_and_note(retention)[0].completed_ms
    return _purge_at(now, defaults.completed_ms if own is None else own)


def dead_purge_at(retention: bytes | None, defaults: Defaults, now: int) -> int | None:
    """Decide the same for a dead or cancelled job."""
    own = None if retention is None else retention_and_note(retention)[0].dead_ms
    return _purge_at(now, defaults.dead_ms if own is None else own)


def decide_failure(
    job: Job,
    failure: Failed,
    *,
    job_id: bytes,
    defaults: Defaults,
    now: int,
    rng: Callable[[], float],
    phase: float,
    key: bytes = b"",
    draws: Draws | None = None,
) -> Change:
    """Decide what a failed attempt makes of its job.

    First match wins: `kill` ends it; an explicit `retry_at` is obeyed, whatever curve and limit say, within the floor, the
    ceiling and the deadline that the policy may set (see its `override`); a spent policy ends it; else it waits as the
    policy says.

    Args:
        job: The job as stored, still in flight.
        failure: What the worker reported.
        job_id: Its public id, for the draws that are hashes of it.
        defaults: What holds for jobs that do not set it.
        now: Epoch ms.
        rng: Source of chance, numbers in [0, 1).
        phase: The phase that the job gets if it has none yet.
        key: Secret of the store, for the draws that are hashes.
        draws: Chance instead of that from `rng`, `job_id`, phase and `key`: a simulation's.

    Returns:
        The change, with the attempt's record and the arithmetic of the decision. A job whose own policy can no longer be
        read is set aside; where its own retention cannot, the default holds and the decision's reason says so.
    """
    attempts = job.attempts + 1
    phase = phase if job.phase is None else job.phase
    if failure.kill:
        return _die(job, failure, phase, "the worker asked for no further run", defaults, now)
    if not 0 <= job.attempts < MOST_ATTEMPTS or (job.retry_limit or 0) < 0:
        return decide_corruption(
            job, "its numbers are none that a job can have", defaults, now, failure=failure
        )
    if failure.policy is None:
        policy = policy_of(job.policy, job.retry_limit, defaults.policy)
    else:
        policy = rule_of(failure.policy, job.retry_limit, defaults.policy)
    if policy is None:
        return decide_corruption(job, "its policy cannot be read", defaults, now, failure=failure)
    if failure.retry_at is not None and not failure.limited and not policy.changes_requests:
        due_at = min(failure.retry_at, LAST_INSTANT)
        decision = Decision("retry", "the worker named the time", due_at=due_at, asked=True)
        return _change(job, failure, Move.RETRY, decision, now, phase=phase, carry=job.carry)
    answer = next_wait(
        policy,
        attempts,
        draws or Draws(rng=rng, job_id=job_id, phase=phase, key=key),
        previous=None if job.carry is None else Previous(carry=job.carry),
        override_ms=None if failure.retry_at is None else failure.retry_at - now,
        beyond_limit=failure.retry_at is not None and not failure.limited,
        elapsed_ms=0 if job.first_failed_at is None else now - job.first_failed_at,
    )
    if isinstance(answer, Exhausted):
        dropped = policy.on_exhausted == "discard"
        return _die(job, failure, phase, answer.reason, defaults, now, dropped=dropped)
    decision = Decision(
        "retry",
        # Plain arithmetic is put into words when somebody reads it: that costs as much as the rest of the decision.
        answer.reason if answer.note else "",
        answer.nominal_ms,
        answer.draw,
        answer.cap_ms,
        answer.wait_ms,
        now + answer.wait_ms,
        failure.retry_at is not None,
    )
    return _change(job, failure, Move.RETRY, decision, now, phase=phase, carry=answer.carry)


def decide_corruption(
    job: Job, wrong: str, defaults: Defaults, now: int, *, failure: Failed | None = None
) -> Change:
    """Decide what becomes of a job in flight of which something stored cannot be read: it is set aside, dead, with a record.

    It is kept as long as any dead job, but a week where those are not kept: nobody else has what is left of it.

    Args:
        job: The job as far as it can be read.
        wrong: What is wrong with it, for people.
        defaults: What holds for jobs that do not set it.
        now: Epoch ms.
        failure: What its worker has reported, if that is how it was found.
    """
    failure = failure or Failed(message=wrong, error_type="Corrupt")
    decision = Decision("dead", f"corrupt: {wrong}")
    return _change(
        job if 0 <= job.attempts < MOST_ATTEMPTS else replace(job, attempts=0),
        failure,
        Move.DIE,
        decision,
        now,
        phase=job.phase,
        carry=job.carry,
        purge_at=corrupt_purge_at(job.retention, defaults, now),
        outcome="corrupt",
    )


def corrupt_purge_at(retention: bytes | None, defaults: Defaults, now: int) -> int:
    """Decide until when a job that was set aside is kept."""
    purge_at = dead_purge_at(retention, defaults, now)
    return now + CORRUPT_KEPT_MS if purge_at is None else purge_at


def no_chance() -> float:
    """Stand in for the chance of a policy without jitter, which must use none."""
    raise AssertionError("these waits have no jitter")


def is_zizq_backoff(policy: bytes) -> bool:
    """Report whether a stored policy is Zizq's three numbers, which its API shows as ``backoff``."""
    return policy.startswith(b'{"exponent"')


def _purge_at(now: int, kept_ms: int) -> int | None:
    return None if kept_ms == 0 else min(now + kept_ms, LAST_INSTANT)


def _die(
    job: Job,
    failure: Failed,
    phase: float,
    reason: str,
    defaults: Defaults,
    now: int,
    *,
    dropped: bool = False,
) -> Change:
    purge_at = None if dropped else dead_purge_at(job.retention, defaults, now)
    if job.retention is not None and not dropped:
        reason += retention_and_note(job.retention)[1]
    decision = Decision("dead", reason)
    return _change(job, failure, Move.DIE, decision, now, phase=phase, carry=job.carry, purge_at=purge_at)


def _change(
    job: Job,
    failure: Failed,
    move: Move,
    decision: Decision,
    now: int,
    *,
    phase: float | None,
    carry: float | None,
    purge_at: int | None = None,
    outcome: str | None = None,
) -> Change:
    return ended(
        job,
        failure,
        move,
        decision,
        now,
        outcome=failure.outcome if outcome is None else outcome,
        attempts=job.attempts + 1,
        first_failed_at=now if job.first_failed_at is None else job.first_failed_at,
        purge_at=purge_at,
        phase=phase,
        carry=carry,
    )
