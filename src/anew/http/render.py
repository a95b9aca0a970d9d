"""Writes jobs and error records as the API shows them.

What comes out are dictionaries of plain values and `Embedded` JSON; the encoders of `formats` write both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from anew.http.embedded import Embedded, Float32
from anew.jobs import ErrorRecord, IdText, Job, State
from anew.jobs.change import shown_decision
from anew.jobs.codec import Backoff
from anew.jobs.decide import is_zizq_backoff

STATUS: dict[State, str] = {state: str(state) for state in State} | {
    State.RETRYING: "scheduled",
    State.CANCELLED: "dead",
}
"""What the API calls each state; it knows five."""

_backoff = msgspec.json.Decoder(dict[str, Any])


def job_object(ids: IdText, job: Job, *, payload: bool) -> dict[str, Any]:
    """Give a job as an answer shows it, keys in the documented order, what is not set left out.

    Args:
        ids: Writes public ids.
        job: As stored; loaded with its payload if that is to be shown.
        payload: Whether the payload is shown.
    """
    shown: dict[str, Any] = {
        "id": ids.write(job.key),
        "type": job.type,
        "queue": job.queue,
        "priority": job.priority,
        "status": STATUS[job.state],
    }
    if payload:
        shown["payload"] = Embedded(b"null" if job.payload is None else job.payload)
    shown["ready_at"] = job.ready_at
    shown["attempts"] = job.attempts
    if job.retry_limit is not None:
        shown["retry_limit"] = job.retry_limit
    if job.policy is not None:
        shown |= shown_policy(job.policy)
    if job.dequeued_at is not None:
        shown["dequeued_at"] = job.dequeued_at
    if job.failed_at is not None:
        shown["failed_at"] = job.failed_at
    if job.retention is not None:
        shown["retention"] = Embedded(job.retention)
    if job.purge_at is not None:
        shown["purge_at"] = job.purge_at
    if job.completed_at is not None:
        shown["completed_at"] = job.completed_at
    return shown


@lru_cache(maxsize=1024)
def shown_policy(policy: bytes) -> Mapping[str, Any]:
    """Give a stored policy under the key that it is shown by.

    Args:
        policy: JSON as stored.

    Returns:
        ``{"backoff": ...}`` for Zizq's three numbers, else ``{"policy": ...}``; not to be changed.
    """
    if is_zizq_backoff(policy):
        members = _backoff.decode(policy)
        if members.keys() == set(Backoff.__struct_fields__):
            return {"backoff": members | {"exponent": Float32(float(members["exponent"]))}}
    return {"policy": Embedded(policy)}


def error_object(record: ErrorRecord) -> dict[str, Any]:
    """Give the record of a failed attempt as an answer shows it; ``decision`` is Anew's own."""
    shown: dict[str, Any] = {"attempt": record.attempt, "message": record.message}
    if record.error_type is not None:
        shown["error_type"] = record.error_type
    if record.backtrace is not None:
        shown["backtrace"] = record.backtrace
    shown["dequeued_at"] = record.dequeued_at
    shown["failed_at"] = record.failed_at
    if record.decision is not None:
        shown["decision"] = Embedded(shown_decision(record.decision, record.attempt))
    return shown
