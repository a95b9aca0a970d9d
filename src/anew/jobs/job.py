"""A stored job and the records of its failed attempts, as read back."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from anew.jobs.state import State


class Job(Struct, frozen=True, gc=False):
    """One stored job. Instants are epoch ms; JSON parts are kept as the bytes stored.

    The order of the fields is the order in which a store reads its columns.

    Attributes:
        key: The integer behind the public id; grows in order of arrival.
        attempts: Failures reported so far.
        interruptions: Leases in a row that ended without a verdict.
        policy: JSON of its own policy or of Zizq's three numbers; None means the server's default.
        retention: JSON of its own retention; None means the server's default.
        payload: JSON; None where it was not asked for.
        phase: The number in [0, 1) that `even` slides it by; set at its first failure.
        carry: What a stateful jitter must remember from the wait before.
        hold_kind: Who holds it, a `HoldKind`; None if it is not in flight.
        hold_token: Names the attempt that is in flight; None if none is.
        jid: The id that its producer gave it, if it did.
        meta: What the door that it came through must give back unchanged.
        hooks: What it is tied to, bits of `anew.jobs.hooks.Hook`; 0 for nearly all jobs.
    """

    key: int
    queue: str
    type: str
    priority: int
    state: State
    ready_at: int
    attempts: int
    interruptions: int
    retry_limit: int | None
    policy: bytes | None
    retention: bytes | None
    dequeued_at: int | None
    failed_at: int | None
    first_failed_at: int | None
    completed_at: int | None
    purge_at: int | None
    phase: float | None
    carry: float | None
    hold_kind: int | None = None
    hold_token: int | None = None
    jid: str | None = None
    meta: bytes | None = None
    hooks: int = 0
    payload: bytes | None = None

    def is_over(self, now: int) -> bool:
        """Report whether its retention is over, so that it is gone for everybody but the reaper."""
        return self.purge_at is not None and self.purge_at <= now


class ErrorRecord(Struct, frozen=True, gc=False):
    """One failed attempt: what happened, and what was decided then.

    Attributes:
        attempt: 1 for the first failure.
        decision: JSON of the decision with its arithmetic.
        worker: Who ran it, if that is known.
    """

    attempt: int
    outcome: str
    message: str
    error_type: str | None
    backtrace: str | None
    dequeued_at: int
    failed_at: int
    decision: bytes | None
    worker: str | None = None

    def size(self) -> int:
        """Count the characters of its texts."""
        return len(self.message) + len(self.error_type or "") + len(self.backtrace or "")


class Span(NamedTuple):
    """When one attempt ran, epoch ms."""

    began_at: int
    ended_at: int


class History(Struct, frozen=True):
    """A job and when its failed attempts ran, the first first."""

    job: Job
    failures: tuple[Span, ...]
