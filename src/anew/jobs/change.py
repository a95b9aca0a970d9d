"""What a decision about a job comes to: its arithmetic, the record of the attempt, and the change that is to be written."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from anew.jobs.job import Job
from anew.jobs.state import State


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The arithmetic of one decision, stored with the attempt as JSON and shown wherever somebody asks why.

    Attributes:
        verdict: ``retry`` or ``dead``.
        reason: One sentence for people.
        nominal_ms: The curve's wait, held to the cap, before any jitter.
        draw: The number in [0, 1) that was used, if one was.
        cap_ms: The cap on nominal waits, or else the ceiling on all waits, if there is either.
        wait_ms: What it came to.
        due_at: When the job runs again, epoch ms.
    """

    verdict: str
    reason: str
    nominal_ms: float | None = None
    draw: float | None = None
    cap_ms: float | None = None
    wait_ms: int | None = None
    due_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One ended attempt that did not simply succeed, as it is stored."""

    job_key: int
    attempt: int
    outcome: str
    message: str
    error_type: str | None
    backtrace: str | None
    dequeued_at: int
    failed_at: int
    decision: bytes

    @classmethod
    def of(
        cls,
        job: Job,
        decision: Decision,
        now: int,
        *,
        outcome: str,
        message: str,
        error_type: str | None,
        backtrace: str | None = None,
    ) -> AttemptRecord:
        """Give the record of the attempt that a job in flight ends now, with what was decided about it."""
        return cls(
            job_key=job.key,
            attempt=job.attempts + 1,
            outcome=outcome,
            message=message,
            error_type=error_type,
            backtrace=backtrace,
            dequeued_at=now if job.dequeued_at is None else job.dequeued_at,
            failed_at=now,
            decision=msgspec.json.encode(decision),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a failed or interrupted attempt makes of its job. `remove` means that nothing of it is kept.

    Attributes:
        ready_at: When it may run, epoch ms; None leaves what it was.
        first_failed_at: When it failed for the first time, epoch ms; None if it has only been interrupted.
        interruptions: How many in a row it has had with this one; 0 for a failure.
    """

    key: int
    state: State
    ready_at: int | None
    attempts: int
    failed_at: int
    first_failed_at: int | None
    purge_at: int | None
    phase: float | None
    carry: float | None
    remove: bool
    attempt: AttemptRecord
    interruptions: int = 0


def after(job: Job, change: Change) -> Job:
    """Give a job as it stands after a change, for those who are told of it."""
    return msgspec.structs.replace(
        job,
        state=change.state,
        ready_at=job.ready_at if change.ready_at is None else change.ready_at,
        attempts=change.attempts,
        interruptions=change.interruptions,
        failed_at=change.failed_at,
        first_failed_at=change.first_failed_at,
        purge_at=change.purge_at,
        phase=change.phase,
        carry=change.carry,
        hold_kind=None,
        hold_token=None,
    )
