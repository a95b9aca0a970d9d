"""Maps rows to jobs and back."""

from __future__ import annotations

from typing import Any

import msgspec

from anew.jobs.change import Change
from anew.jobs.codec import LAST_INSTANT, NewJob
from anew.jobs.decide import initial_state
from anew.jobs.job import ErrorRecord, Job
from anew.store.protocol import Rewrite
from anew.store.sqlite.codes import CODE, READY, STATES

INLINE_BYTES = 2_048
"""Payloads above this live in their own table: a change of state rewrites the row, and should not rewrite megabytes."""

Row = tuple[Any, ...]
_UNSET = msgspec.UNSET


def is_plain(job: NewJob) -> bool:
    """Tell whether a job's row needs no more than the usual columns."""
    return (
        job.retry_limit is None
        and job.backoff is None
        and job.retention is None
        and job.policy is _UNSET
        and len(job.payload) <= INLINE_BYTES
    )


def plain_values(key: int, job: NewJob, now: int) -> tuple[Any, ...]:
    """Give the columns of `insert_plain`."""
    ready_at = job.ready_at
    if ready_at is None:
        return (key, job.queue, job.type, job.priority, READY, now, bytes(job.payload))
    state = CODE[initial_state(ready_at, now)]
    return (key, job.queue, job.type, job.priority, state, min(ready_at, LAST_INSTANT), bytes(job.payload))


def rich_values(key: int, job: NewJob, now: int) -> tuple[Any, ...]:
    """Give the columns of `insert_rich`; of a payload that is kept apart only the length."""
    ready_at = now if job.ready_at is None else min(job.ready_at, LAST_INSTANT)
    size = len(job.payload)
    apart = size > INLINE_BYTES
    return (
        key,
        job.queue,
        job.type,
        job.priority,
        CODE[initial_state(job.ready_at, now)],
        ready_at,
        job.retry_limit,
        stored_policy(job),
        None if job.retention is None else msgspec.json.encode(job.retention),
        size if apart else None,
        None if apart else bytes(job.payload),
    )


def stored_policy(job: NewJob) -> bytes | None:
    """Give the JSON that is stored as a job's own policy; Zizq's three numbers start with the exponent."""
    if job.backoff is not None:
        return msgspec.json.encode(job.backoff)
    return None if isinstance(job.policy, msgspec.UnsetType) else bytes(job.policy)


def job_of(row: Row, payload: bytes | None = None) -> Job:
    """Build a job from a row of `load`."""
    return Job(
        key=row[0],
        queue=row[1],
        type=row[2],
        priority=row[3],
        state=STATES[row[4]],
        ready_at=row[5],
        attempts=row[6],
        interruptions=row[7],
        retry_limit=row[8],
        policy=row[9],
        retention=row[10],
        dequeued_at=row[11],
        failed_at=row[12],
        first_failed_at=row[13],
        completed_at=row[14],
        purge_at=row[15],
        phase=row[16],
        carry=row[17],
        payload=payload,
    )


def change_values(change: Change) -> tuple[Any, ...]:
    """Give the columns of `apply`."""
    return (
        change.key,
        CODE[change.state],
        change.ready_at,
        change.attempts,
        change.failed_at,
        change.first_failed_at,
        change.purge_at,
        change.phase,
        change.carry,
        change.interruptions,
    )


def attempt_values(change: Change) -> tuple[Any, ...]:
    """Give the columns of `insert_attempt`."""
    record = change.attempt
    return (
        record.job_key,
        record.attempt,
        record.outcome,
        record.error_type,
        record.message,
        record.backtrace,
        record.dequeued_at,
        record.failed_at,
        record.decision,
    )


def rewrite_values(row: Rewrite) -> tuple[Any, ...]:
    """Give the columns of `rewrite`."""
    return (
        row.key,
        row.queue,
        row.priority,
        CODE[row.state],
        row.ready_at,
        row.attempts,
        row.retry_limit,
        row.policy,
        row.retention,
        row.purge_at,
        row.first_failed_at,
        row.carry,
        row.was_queue,
        CODE[row.was_state],
    )


def error_of(row: Row) -> ErrorRecord:
    """Build an error record from a row of `errors`."""
    return ErrorRecord(
        attempt=row[0],
        outcome=row[1],
        message=row[2],
        error_type=row[3],
        backtrace=row[4],
        dequeued_at=row[5],
        failed_at=row[6],
        decision=row[7],
    )
