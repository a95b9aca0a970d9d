"""Maps rows to jobs and back: which column stands where, and how states are written in the file."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from anew.jobs.change import Change
from anew.jobs.codec import LAST_INSTANT, JobHooks, NewJob, PushedJob
from anew.jobs.decide import initial_state
from anew.jobs.hooks import Hook, bits_of
from anew.jobs.job import ErrorRecord, Job
from anew.jobs.moved import MovedJob
from anew.jobs.state import State
from anew.jobs.unique import Scope
from anew.store.protocol import Hold, Rewrite

CODE: Final[dict[State, int]] = {
    State.SCHEDULED: 10,
    State.RETRYING: 20,
    State.READY: 30,
    State.IN_FLIGHT: 40,
    State.COMPLETED: 50,
    State.DEAD: 60,
    State.CANCELLED: 70,
}
"""How states are written in the file: waiting ones below READY, ended ones above IN_FLIGHT, with free numbers between them."""

BLOCKED: Final = 32
"""A ready job that stands in no line, as its key lets it start no more (`anew.jobs.key_limits`): no index of `job` holds it."""

NO_STATE: Final = 35
"""What a job has in place of a state whose queue or type cannot be read: no index of `job` holds it, and it is set aside."""

STATE: Final[dict[int, State]] = {code: state for state, code in CODE.items()} | {BLOCKED: State.READY}
COUNTED: Final[dict[str, int]] = {str(state): code for state, code in CODE.items()} | {"blocked": BLOCKED}
"""What is counted in each queue: the columns of the counters, and the codes of the jobs that each counts."""

READY, IN_FLIGHT, COMPLETED, DEAD = (
    CODE[state] for state in (State.READY, State.IN_FLIGHT, State.COMPLETED, State.DEAD)
)

JOB_COLUMNS: Final = "id, " + ", ".join(name for name in Job.__struct_fields__[1:] if name != "payload")
"""The columns of a job, in the order of its fields; only the key has another name in the file."""

STATE_AT: Final = Job.__struct_fields__.index("state")

_AS_RESERVED: Final = {"state": str(IN_FLIGHT), "hold_kind": "?", "hold_token": "?"}
RESERVED_COLUMNS: Final = ", ".join(_AS_RESERVED.get(name, name) for name in JOB_COLUMNS.split(", "))
"""The same of a ready job that is about to be reserved: as it will be then."""

WIDTH_OF_JOB: Final = len(Job.__struct_fields__) - 1
"""Columns of a job beside its payload; behind them stand its long payload's length, its checksum and, if asked for, its payload."""

TAKEN_COLUMNS: Final = (
    "id, queue, type, priority, ready_at, attempts, failed_at, retry_limit, policy, retention, "
    f"payload_bytes, CASE WHEN hooks & {Hook.UNIQUE:d} <> 0 THEN meta END, payload, payload_crc, hooks"
)
"""What a take reads: the fields of `TakenRow`, and behind them the checksum and the job's hooks."""

INLINE_BYTES: Final = 2_048
"""Payloads above this live in their own table: a change of state rewrites the row, and should not rewrite megabytes."""

FAR_MS: Final = 8_192
"""Waits from this on are far: a job's place among the due is found later, with those of many others."""

Row = tuple[Any, ...]
_UNSET = msgspec.UNSET
checksum = zlib.crc32
_retention: Final = lru_cache(maxsize=256)(msgspec.json.encode)


def is_plain(job: NewJob) -> bool:
    """Report whether a job's row needs no more than the usual columns."""
    return (
        job.retry_limit is None
        and job.backoff is None
        and job.retention is None
        and job.policy is _UNSET
        and len(job.payload) <= INLINE_BYTES
    )


def plain_values(key: int, job: NewJob, now: int) -> Row:
    """Give the columns of `insert_plain`."""
    state = CODE[initial_state(job.ready_at, now)]
    ready_at = now if job.ready_at is None else min(job.ready_at, LAST_INSTANT)
    payload = bytes(job.payload)
    return (key, job.queue, job.type, job.priority, state, ready_at, payload, checksum(payload))


def rich_values(key: int, job: NewJob, now: int) -> Row:
    """Give the columns of `insert_rich`; of a payload that is kept apart only the length."""
    payload, at = job.payload, job.ready_at
    size = len(payload)
    apart = size > INLINE_BYTES
    return (
        key,
        job.queue,
        job.type,
        job.priority,
        READY if at is None else CODE[initial_state(at, now)],
        now if at is None else min(at, LAST_INSTANT),
        job.retry_limit,
        stored_policy(job),
        None if job.retention is None else _retention(job.retention),
        size if apart else None,
        None if apart else bytes(payload),
        checksum(payload),
    )


def pushed_values(key: int, job: PushedJob, now: int) -> Row:
    """Give the columns of `insert_pushed`."""
    own = (job.jid or None, job.meta or None, job.reserve_ms, job.attempts)
    return rich_values(key, job, now) + own


def hooked_values(key: int, job: PushedJob, ties: JobHooks, now: int) -> Row:
    """Give the columns of `insert_hooked`."""
    unique = ties.unique
    digest, scope = (None, None) if unique is None else (unique.digest, str(unique.scope))
    if ties.fold is not None:
        digest, scope = ties.fold, str(Scope.OPEN)
    return (*pushed_values(key, job, now), bits_of(ties), ties.expires_at, ties.batch, digest, scope)


def moved_values(key: int, job: MovedJob, hold: Hold) -> Row:
    """Give the columns of `insert_moved`."""
    values = pushed_values(key, job, hold.now)
    failure, reserved = job.failure, job.reserved
    failed: Row = (None, None, 0, 0)
    if failure is not None:
        size = text_bytes(failure.message) + text_bytes(failure.backtrace)
        failed = (failure.failed_at, failure.first_failed_at, 1, size)
    held: Row = (None,) * 5
    if reserved is not None:
        assert hold.deadline is not None
        deadline = hold.deadline + reserved.until - hold.now
        held = (int(hold.kind), hold.token, hold.owner, deadline, reserved.since)
    return (*values[:4], CODE[job.state], *values[5:], *failed, job.purge_at, *held)


def moved_attempt_values(key: int, job: MovedJob) -> Row | None:
    """Give the columns of `insert_attempt` for a job's latest failure; None if it has not failed."""
    failure = job.failure
    if failure is None:
        return None
    texts = (failure.error_type, failure.message, failure.backtrace)
    # When that attempt began is not known.
    return (key, job.attempts, "error", *texts, failure.failed_at, failure.failed_at, failure.decision, None)


def stored_policy(job: NewJob) -> bytes | None:
    """Give the JSON that is stored as a job's own policy; Zizq's three numbers start with the exponent."""
    if job.backoff is not None:
        return msgspec.json.encode(job.backoff)
    return None if isinstance(job.policy, msgspec.UnsetType) else bytes(job.policy)


def job_of(row: Sequence[Any], payload: bytes | None = None) -> Job:
    """Build a job from a row of `load`; one whose state cannot be read counts as dead, and is set aside by the next look."""
    state = STATE.get(row[STATE_AT], State.DEAD)
    values = [*row[:WIDTH_OF_JOB], payload]
    values[STATE_AT] = state
    return Job(*values)


def damage(size: int | None, crc: int | None, payload: bytes | None) -> str | None:
    """Say what is wrong with a stored payload; None if nothing is.

    Args:
        size: Bytes of a payload that is kept apart; None for one in the job's row.
        crc: Its checksum; None if it was stored before there were any.
        payload: What was found of it.
    """
    if payload is None:
        return "its payload is missing"
    if size is not None and len(payload) != size:
        return f"of its payload of {size} bytes there are {len(payload)}"
    return "its payload does not match its checksum" if crc is not None and checksum(payload) != crc else None


def change_values(change: Change) -> Row:
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
        text_bytes(change.attempt.message) + text_bytes(change.attempt.backtrace),
        near_at(change.ready_at, change.attempt.failed_at),
    )


def near_at(ready_at: int | None, now: int) -> int | None:
    """Say when a job that waits is to be entered into the index of due times; None: now.

    The same instant for jobs whose times are near each other beside how far they are, and early enough that a crowd of them
    is entered before the first is due.
    """
    if ready_at is None or ready_at - now < FAR_MS:
        return None
    grain = (ready_at - now >> 1).bit_length() - 1
    return ((ready_at >> grain) - 1) << grain


def text_bytes(text: str | None) -> int:
    """Count the bytes of a text in the file."""
    if not text:
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


WORKER_LENGTH = 256
"""Characters that are kept of a worker's name."""


def attempt_values(change: Change, worker: str | None) -> Row:
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
        None if worker is None else _plain(worker),
    )


def _plain(worker: str) -> str:
    """Give a worker's name as it is stored: the worker chooses it, so it may be any text."""
    return worker[:WORKER_LENGTH].encode("utf-8", "replace").decode("utf-8").replace("\0", "?")


def rewrite_values(row: Rewrite) -> Row:
    """Give the columns of `rewrite`."""
    job = row.job
    return (
        job.key,
        job.queue,
        job.priority,
        CODE[job.state],
        job.ready_at,
        job.attempts,
        job.retry_limit,
        job.policy,
        job.retention,
        job.purge_at,
        job.first_failed_at,
        job.carry,
        job.interruptions,
        row.was_queue,
        CODE[row.was_state],
    )


def error_of(row: Row) -> ErrorRecord:
    """Build an error record from a row of `errors`."""
    attempt, *texts, dequeued_at, failed_at, decision = row
    outcome, message, error_type, backtrace, worker = (
        None if text is None else text.decode("utf-8", "replace") for text in texts
    )
    return ErrorRecord(
        attempt, outcome or "", message or "", error_type, backtrace, dequeued_at, failed_at, decision, worker
    )


def text_of(value: Any) -> Any:
    """Give a text that was read as bytes, since a bit of it may have flipped; anything else as it is."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
