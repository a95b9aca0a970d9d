"""What a decision about a job comes to: its arithmetic, the record of the attempt, and the change that is to be written."""

from __future__ import annotations

import msgspec

from anew.backoff.decide import wait_in_words
from anew.jobs.job import Job
from anew.jobs.state import State


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The arithmetic of one decision, stored with the attempt as JSON and shown wherever somebody asks why.

    Attributes:
        verdict: ``retry`` or ``dead``.
        reason: One sentence for people; "" where it is the arithmetic in words, which `shown_decision` makes.
        nominal_ms: The curve's wait, held to the cap, before any jitter.
        draw: The number in [0, 1) that was used, if one was.
        cap_ms: The cap on nominal waits, or else the ceiling on all waits, if there is either.
        wait_ms: What it came to.
        due_at: When the job runs again, epoch ms.
    """

    verdict: str
    reason: str = ""
    nominal_ms: int | None = None
    draw: float | None = None
    cap_ms: int | None = None
    wait_ms: int | None = None
    due_at: int | None = None


_write = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(Decision).decode


def shown_decision(stored: bytes, attempt: int) -> bytes:
    """Give a stored decision as it is shown, its reason in words.

    Args:
        stored: JSON as `AttemptRecord` has it; what cannot be read is given back as it is.
        attempt: Number of the attempt that it was made about.
    """
    try:
        decision = _read(stored)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return stored
    if decision.reason or decision.nominal_ms is None or decision.wait_ms is None:
        return stored
    arithmetic = (decision.nominal_ms, decision.draw, decision.cap_ms, decision.wait_ms)
    return _write(msgspec.structs.replace(decision, reason=wait_in_words(attempt, *arithmetic)))


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
            decision=_write(decision),
        )


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
    """Give a job as it stands after a change, as its reporter is answered."""
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
