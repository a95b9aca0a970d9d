"""New times for jobs that wait for a retry: what another policy would have decided at their last failure.

Only a wait that a policy gave is given anew. A time that a worker or a person has named stands, and no job ends by this: one that
has no retry left under the new policy keeps the time and the policy that it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from anew.backoff import Draws, Exhausted, next_wait
from anew.jobs.change import Decision, read_decision, write_decision
from anew.jobs.decide import Defaults
from anew.jobs.job import Job
from anew.jobs.terms import policy_of
from anew.jobs.transitions import Move, target


class Kept(StrEnum):
    """Why a job's time stands. NAMED: no policy gave it. SPENT: the new policy has no retry left for the job."""

    NAMED = "named"
    SPENT = "spent"


@dataclass(frozen=True, slots=True)
class Replanned:
    """A job with its new time and policy.

    Attributes:
        job: The job as it is then.
        decision: JSON of the arithmetic, in place of the one that its last attempt has.
    """

    job: Job
    decision: bytes


def replanned(
    job: Job,
    attempt: int,
    decision: bytes | None,
    policy: bytes,
    *,
    draws: Draws,
    defaults: Defaults,
    now: int,
    not_before: int = 0,
) -> Replanned | Kept:
    """Give a job as it would wait had this policy decided at its last failure.

    Args:
        job: A job in the state RETRYING.
        attempt: Number of the last attempt of which there is a record.
        decision: JSON of the decision that was made then.
        policy: JSON of the policy, in any form; it has been checked. It is the job's own from now on.
        draws: Chance. A stateful jitter begins again.
        defaults: What holds where the policy and the job name no limit.
        now: Epoch ms. A job whose new time is not after it is ready.
        not_before: The earliest new time, epoch ms; a later one of the policy's stands.
    """
    made = read_decision(decision)
    # An interruption's record bears a number above the failures; a snooze's decision has no nominal wait.
    if (
        made is None
        or job.failed_at is None
        or attempt != job.attempts
        or made.nominal_ms is None
        or made.asked
        or made.due_at != job.ready_at
    ):
        return Kept.NAMED
    law = policy_of(policy, job.retry_limit, defaults.policy)
    assert law is not None, "the policy has been checked"
    elapsed_ms = job.failed_at - (job.first_failed_at or job.failed_at)
    answer = next_wait(law, job.attempts, draws, elapsed_ms=elapsed_ms)
    if isinstance(answer, Exhausted):
        return Kept.SPENT
    due_at = job.failed_at + answer.wait_ms
    words = answer.reason
    if due_at < not_before:
        due_at = not_before
        words += ", and its place in the spread makes it later"
    new = Decision(
        "retry",
        f"planned again: {words}",
        answer.nominal_ms,
        answer.draw,
        answer.cap_ms,
        due_at - job.failed_at,
        due_at,
    )
    after = replace(
        job,
        state=target(job.state, Move.HASTEN) if due_at <= now else job.state,
        ready_at=due_at,
        policy=policy,
        carry=answer.carry,
    )
    return Replanned(after, write_decision(new))
