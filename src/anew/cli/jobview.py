"""Jobs and their failures as text. Pure: `now` comes from the caller."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from anew.cli.output import clock_time, moment, table
from anew.client import ErrorView, JobView, LastError
from anew.units import format_duration

HEADING: Final = ("ID", "TYPE", "QUEUE", "STATUS", "FAILURES", "WHEN")
STATUS_COLUMN: Final = 3

_PAYLOAD_SHOWN: Final = 2_000


def row(job: JobView, now: int, zone: datetime.tzinfo | None = None) -> tuple[str, ...]:
    """Give a job as the cells of `HEADING`."""
    return (job.id, job.type, job.queue, status_of(job), str(job.attempts), when(job, now, zone))


def status_of(job: JobView) -> str:
    """Give a job's status; the API's, but that a cancelled job is told from dead ones where the server does."""
    return "cancelled" if job.state == "cancelled" else job.status


def when(job: JobView, now: int, zone: datetime.tzinfo | None = None) -> str:
    """Say when what matters now happened or will happen: ``retry 3 in 4 min 16 s (14:03:22)``."""
    if job.expired:
        return "expired"
    if job.state == "cancelled":
        return "cancelled"  # no instant of it is stored
    match job.status:
        case "scheduled":
            what = f"retry {job.attempts}" if job.attempts else "runs"
            return f"{what} {moment(job.ready_at, now, zone)}"
        case "ready":
            return f"ready {moment(job.ready_at, now, zone)}"
        case "in_flight" if job.dequeued_at is not None:
            return f"taken {moment(job.dequeued_at, now, zone)}"
        case "completed" if job.completed_at is not None:
            return f"done {moment(job.completed_at, now, zone)}"
        case "dead" if job.failed_at is not None:
            return f"died {moment(job.failed_at, now, zone)}"
        case _:
            return ""


def describe_job(
    job: JobView,
    errors: Sequence[ErrorView],
    now: int,
    zone: datetime.tzinfo | None = None,
    *,
    backtrace: bool = False,
) -> Iterator[str]:
    """Describe a job: its facts, its payload, its failures.

    Args:
        job: The job.
        errors: Its failures, the first first.
        now: Now, epoch ms.
        zone: Time zone of clock times; None means the machine's own.
        backtrace: Whether backtraces are shown.

    Returns:
        Lines.
    """
    facts = list(_facts(job, now, zone))
    width = max(len(name) for name, _ in facts)
    for name, text in facts:
        yield f"{name.ljust(width)}  {text}"
    yield f"{'payload'.ljust(width)}  {_shortened(job.payload_json())}"
    if errors:
        yield ""
        yield from _history(errors, now, zone)
    for error in errors:
        if backtrace and error.backtrace:
            yield ""
            yield f"backtrace of failure {error.attempt}:"
            yield from (f"  {line}" for line in error.backtrace.splitlines())


def error_text(error: ErrorView | LastError) -> str:
    """Give what went wrong on one line, its type in front if there is one."""
    return ": ".join(part for part in (error.error_type, error.message) if part)


def decision_text(decision: dict[str, Any] | None) -> str:
    """Give the arithmetic of a decision on one line, from whatever of it the server gave."""
    if not decision:
        return ""
    if reason := decision.get("reason"):
        return str(reason)
    parts = [
        f"{name} {format_duration(decision[key])}"
        for name, key in (("nominal", "nominal_ms"), ("cap", "cap_ms"), ("waits", "wait_ms"))
        if isinstance(decision.get(key), int)
    ]
    if isinstance(draw := decision.get("draw"), float):
        parts.insert(1, f"draw {draw:.3f}")
    return ", ".join(parts)


_SCOPES: Final = {
    "queued": "while the job waits",
    "active": "until the job ends",
    "exists": "while the job's record exists",
    "started": "until the job starts",
    "succeeded": "until the job completes",
}


def _ties(job: JobView, now: int, zone: datetime.tzinfo | None) -> Iterator[tuple[str, str]]:
    """Say what a job is tied to."""
    ties = job.ties
    if ties is None:
        return
    if ties.unique is not None:
        holder = "this job" if ties.unique.held_by == job.id else ties.unique.held_by
        until = "" if ties.unique.until is None else f", until {moment(ties.unique.until, now, zone)} at most"
        scope = _SCOPES.get(ties.unique.scope, ties.unique.scope)
        key = "" if job.unique_key is None else f"{job.unique_key}; "
        yield (
            "unique key",
            f"{key}{scope}; " + (f"held by {holder}{until}" if holder else "held by no job now"),
        )
    if ties.batch is not None:
        yield "batch", ties.batch
    if ties.expires_at is not None:
        yield "expires", moment(ties.expires_at, now, zone)
    if ties.limit is not None:
        yield "limit", ties.limit + ("; waits for it" if ties.blocked else "")
    if ties.folded:
        yield "folded", f"{ties.folded} more {'calls' if ties.folded > 1 else 'call'} into this job"


def _facts(job: JobView, now: int, zone: datetime.tzinfo | None) -> Iterator[tuple[str, str]]:
    yield "job", job.id
    if job.jid is not None:
        yield "jid", job.jid
    yield "type", job.type
    yield "queue", job.queue
    status, text = status_of(job), when(job, now, zone)
    yield "status", text if text.startswith(status) else f"{status}, {text}" if text else status
    yield "priority", str(job.priority)
    yield (
        "failures",
        str(job.attempts) + ("" if job.retry_limit is None else f" (retry limit {job.retry_limit})"),
    )
    settings = {
        "policy": job.policy,
        "backoff": job.backoff,
        "retention": job.retention,
        "folding": job.batch,
    }
    for name, value in settings.items():
        if value is not None:
            yield name, msgspec.json.encode(value).decode()
    yield from _ties(job, now, zone)
    instants = {
        "ready": job.ready_at,
        "taken": job.dequeued_at,
        "failed": job.failed_at,
        "completed": job.completed_at,
        "removed": job.purge_at,
    }
    for name, at in instants.items():
        if at is not None:
            yield name, moment(at, now, zone)


def _history(errors: Iterable[ErrorView], now: int, zone: datetime.tzinfo | None) -> Iterator[str]:
    rows = [
        (
            str(error.attempt),
            clock_time(error.failed_at, now, zone),
            format_duration(max(0, error.failed_at - error.dequeued_at)),
            error.worker or "",
            error_text(error),
            decision_text(error.decision),
        )
        for error in errors
    ]
    heading = ("FAILURE", "AT", "AFTER", "WORKER", "ERROR", "DECISION")
    # Not every server tells the last but two and the last.
    told = [at for at in range(len(heading)) if at not in (3, 5) or any(cells[at] for cells in rows)]
    yield from table([heading[at] for at in told], [[cells[at] for at in told] for cells in rows])


def _shortened(payload: bytes) -> str:
    text = payload.decode(errors="replace")
    if len(text) <= _PAYLOAD_SHOWN:
        return text
    return f"{text[:_PAYLOAD_SHOWN]}... ({len(payload)} bytes; --json shows all)"
