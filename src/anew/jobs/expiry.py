"""Expiry: a job that was not started by its time is not started at all.

It is judged where a job is taken and nowhere else, so a waiting job may stand past its time until somebody would get it. It
ends in state CANCELLED with the outcome ``expired``, which is counted apart: it was neither processed nor did it fail. A batch
counts it as failed. Whoever redrives a job wants it to run: a redrive takes its expiry away.
"""

from __future__ import annotations

from anew.jobs.codec import LAST_INSTANT
from anew.jobs.hooks import Hook
from anew.jobs.job import Job
from anew.jobs.patch import cancelled
from anew.jobs.state import State
from anew.units import milliseconds_of

EXPIRED = "expired"
"""The outcome's name, in counters and records."""


def expires_at(at: int | None, within_s: object, now: int) -> int | None:
    """Give the instant by which a job must have been started; the earlier one if both forms are given.

    Args:
        at: Epoch ms, or None.
        within_s: The same in seconds from the push, a scheduled job's too, or None.
        now: Epoch ms of the push.

    Returns:
        Epoch ms; None if the job does not expire.

    Raises:
        InvalidInput: `within_s` is not a positive number.
    """
    if within_s is None:
        return at
    ends_at = min(now + milliseconds_of(within_s, "expires_in"), LAST_INSTANT)
    return ends_at if at is None else min(at, ends_at)


def is_expired(at: int | None, now: int) -> bool:
    """Report whether a job may no longer be started. At the very instant it still may."""
    return at is not None and now > at


def has_expired(job: Job) -> bool:
    """Report whether a job has ended because it was not started in time."""
    return job.state is State.CANCELLED and bool(job.hooks & Hook.EXPIRED)


def expired(job: Job, purge_at: int | None) -> Job:
    """Give a waiting job as it is once it has expired.

    Args:
        job: The job, ready to be taken.
        purge_at: Until when it is kept, as for a cancelled job; None removes it at once.
    """
    return cancelled(job, purge_at)
