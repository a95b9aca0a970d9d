"""A job that comes from another queue with its past: in which state it was there, why it last failed, who holds it."""

from __future__ import annotations

from msgspec import Struct

from anew.jobs.codec import PushedJob
from anew.jobs.state import State


class LatestFailure(Struct, frozen=True, kw_only=True, gc=False):
    """The latest failure of such a job, which becomes the record of its last attempt. Instants are epoch ms.

    Attributes:
        message, error_type, backtrace: As in `anew.jobs.change.AttemptRecord`.
        first_failed_at: When it failed for the first time.
        failed_at: When it failed last, as far as that is known.
        decision: JSON of a `Decision`.
    """

    message: str
    error_type: str | None
    backtrace: str | None
    first_failed_at: int
    failed_at: int
    decision: bytes


class Reservation(Struct, frozen=True, gc=False):
    """Who has reserved such a job: since when and until when, epoch ms, and the worker's id, "" if it has none."""

    since: int
    until: int
    worker: str


class MovedJob(PushedJob, kw_only=True, gc=False):
    """A job with its past. Nothing ties it to a key, a batch or an end: `hooks` is not looked at.

    Attributes:
        state: In which state it enters, whatever its time says.
        failure: Its latest failure; its number is `attempts`.
        purge_at: If it has ended: until when it is kept, epoch ms.
        reserved: If it is in flight.
    """

    state: State
    failure: LatestFailure | None = None
    purge_at: int | None = None
    reserved: Reservation | None = None
