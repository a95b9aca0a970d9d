"""The result of a decision about a job: its arithmetic, the record of the attempt, and the change that is to be written."""

from __future__ import annotations

import msgspec

from anew.backoff.decide import wait_in_words
from anew.jobs.job import Job
from anew.jobs.outcomes import Failed
from anew.jobs.state import State
from anew.jobs.transitions import Move, target


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The arithmetic of one decision, stored with the attempt as JSON and shown wherever somebody asks why.

    Attributes:
        verdict: ``retry``, ``dead`` or ``cancelled``.
        reason: One sentence for people; "" where it is the arithmetic in words, which `shown_decision` makes.
        nominal_ms: The curve's wait, held to the cap, before any jitter.
        draw: The number in [0, 1) that was used, if one was.
        cap_ms: The cap on nominal waits, or else the ceiling on all waits, if there is either.
        wait_ms: The wait that was decided.
        due_at: When the job runs again, epoch ms.
        asked: The failure asked for its wait, which no curve has given.
    """

    verdict: str
    reason: str = ""
    nominal_ms: int | None = None
    draw: float | None = None
    cap_ms: int | None = None
    wait_ms: int | None = None
    due_at: int | None = None
    asked: bool = False


write_decision = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(Decision).decode


def read_decision(stored: bytes | None) -> Decision | None:
    """Give a stored decision; None if there is none, or it cannot be read."""
    try:
        return None if stored is None else _read(stored)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def shown_decision(stored: bytes, attempt: int) -> bytes:
    """Give a stored decision as it is shown, its reason in words.

    Args:
        stored: JSON as `AttemptRecord` has it; what cannot be read is given back as it is.
        attempt: Number of the attempt that it was made about.
    """
    decision = read_decision(stored)
    if decision is None or decision.reason or decision.nominal_ms is None or decision.wait_ms is None:
        return stored
    arithmetic = (decision.nominal_ms, decision.draw, decision.cap_ms, decision.wait_ms)
    return write_decision(msgspec.structs.replace(decision, reason=wait_in_words(attempt, *arithmetic)))


def due_of(stored: bytes | None) -> int | None:
    """Give when a stored decision had its job run again, epoch ms; None if it did not, or cannot be read."""
    decision = read_decision(stored)
    return None if decision is None else decision.due_at


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


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an attempt that did not succeed makes of its job. `remove` means that nothing of it is kept.

    Attributes:
        move: What happens to it.
        ready_at: When it may run, epoch ms; None leaves what it was.
        failed_at: When its last failure or interruption was, epoch ms; None if it has had none.
        first_failed_at: When it failed for the first time, epoch ms; None if it has only been interrupted.
        interruptions: How many in a row it has had with this one; 0 for a failure.
    """

    key: int
    move: Move
    state: State
    ready_at: int | None
    attempts: int
    failed_at: int | None
    first_failed_at: int | None
    purge_at: int | None
    phase: float | None
    carry: float | None
    remove: bool
    attempt: AttemptRecord
    interruptions: int = 0


_STATES = {
    move: target(State.IN_FLIGHT, move)
    for move in (Move.RETRY, Move.SNOOZE, Move.DELAY, Move.RELEASE, Move.DIE, Move.CANCEL)
}


def ended(
    job: Job,
    report: Failed,
    move: Move,
    decision: Decision,
    now: int,
    *,
    outcome: str,
    attempts: int,
    first_failed_at: int | None,
    purge_at: int | None,
    phase: float | None,
    carry: float | None,
    interruptions: int = 0,
    counts: bool = True,
) -> Change:
    """Give the change that ends an attempt of a job in flight, with its record.

    Args:
        job: The job as stored.
        report: What the record says of the attempt.
        move: What becomes of the job.
        decision: The arithmetic behind that; its `due_at` is when the job may run.
        now: Epoch ms.
        outcome: ``error``, ``timeout``, ``crash``, ``interrupted``, ``snoozed``, ``rate_limited``, ``held``,
            ``unknown_task``, ``cancelled`` or ``corrupt``.
        attempts: Failures that the job has had then.
        first_failed_at, purge_at, phase, carry, interruptions: As in `Change`.
        counts: It was a failure or an interruption, so that `failed_at` is now.
    """
    record = AttemptRecord(
        job_key=job.key,
        attempt=job.attempts + 1,
        outcome=outcome,
        message=report.message,
        error_type=report.error_type,
        backtrace=report.backtrace,
        dequeued_at=now if job.dequeued_at is None else job.dequeued_at,
        failed_at=now,
        decision=write_decision(decision),
    )
    return Change(
        key=job.key,
        move=move,
        state=_STATES[move],
        ready_at=decision.due_at,
        attempts=attempts,
        failed_at=now if counts else job.failed_at,
        first_failed_at=first_failed_at,
        purge_at=purge_at,
        phase=phase,
        carry=carry,
        remove=move in (Move.DIE, Move.CANCEL) and purge_at is None,
        attempt=record,
        interruptions=interruptions,
    )


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
