"""Batches: groups of jobs with callbacks, which are jobs that are enqueued when the group has come so far.

A batch is a row of counters; it never has a list of its jobs. A job's `Standing` says how it is counted, so it is exactly one of
pending, failed and succeeded, and the last number is what is left of the total. Of a stored job, SUCCEEDED is its state COMPLETED;
between PENDING and FAILED its row needs a bit of its own, because neither attempts nor instants tell: a redrive begins the attempts
again, and an interruption sets `failed_at` though nobody has reported.

A batch's callbacks wait for those of its children. `level` says how far a child has come, from its row alone; whenever a move
changes the child's level, the parent is told in the same transaction (`Moved.told`), and its own level may change with that.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

from msgspec import Struct
from msgspec.structs import replace

from anew.jobs.codec import LAST_INSTANT
from anew.units import DAY_MS, MINUTE_MS

UNCOMMITTED_KEPT_MS = 30 * MINUTE_MS
"""How long after its last change a batch is kept that was never committed."""

FINISHED_KEPT_MS = 30 * DAY_MS
"""How long after its last change a batch is kept whose jobs have all run."""


class Standing(IntEnum):
    """How a job is counted in its batch.

    PENDING: nobody has reported on it yet. FAILED: it has run, or never will, and the latest that is known is no success.
    SUCCEEDED: it has completed.
    """

    PENDING = 0
    FAILED = 1
    SUCCEEDED = 2


class Result(StrEnum):
    """What can happen to a job of a batch, as far as the batch is concerned.

    SUCCEEDED: acknowledged. FAILED: a failure was reported, or the reservation lapsed; it may run again. DROPPED: it died, was
    discarded, cancelled or deleted, or has expired, whether it ever ran or not. An interruption is none of these.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DROPPED = "dropped"


class Callback(StrEnum):
    """COMPLETE: every job has run once at least, with whatever result. SUCCESS: every job has succeeded."""

    COMPLETE = "complete"
    SUCCESS = "success"


class CallbackState(IntEnum):
    """How far a callback has come. A callback job that fails leaves it ENQUEUED, and is tried again like any job."""

    ABSENT = 0
    WAITING = 1
    ENQUEUED = 2
    SUCCEEDED = 3


class Level(IntEnum):
    """How far a batch has come, seen from its parent.

    OPEN: jobs have not run, it is not committed, or a callback that is due has not succeeded. COMPLETE: nothing of that is to be
    waited for, but some job has not succeeded. SUCCEEDED: all is done.
    """

    OPEN = 0
    COMPLETE = 1
    SUCCEEDED = 2


class BatchRow(Struct, frozen=True, gc=False, kw_only=True):
    """One batch as stored.

    Attributes:
        key: Names it.
        parent: Key of the batch that waits for it, or None.
        total: Jobs that have joined; children's are not counted.
        pending: Those of them that are PENDING.
        failed: Those of them that are FAILED.
        committed: Callbacks may be enqueued.
        complete, success: How far the callbacks have come.
        open_children: Children whose level is OPEN.
        unsuccessful_children: Children whose level is not SUCCEEDED.
    """

    key: int
    parent: int | None = None
    total: int = 0
    pending: int = 0
    failed: int = 0
    committed: bool = False
    complete: CallbackState = CallbackState.ABSENT
    success: CallbackState = CallbackState.ABSENT
    open_children: int = 0
    unsuccessful_children: int = 0


class Told(Struct, frozen=True, gc=False):
    """What a parent is told: a child's level before and after."""

    parent: int
    before: Level
    after: Level


class Moved(Struct, frozen=True, gc=False):
    """What a move makes of a batch.

    Attributes:
        row: The row after it.
        enqueue: Callbacks whose jobs are to be enqueued now, in this order.
        told: What its parent is told, with `child_moved`; None: nothing.
    """

    row: BatchRow
    enqueue: tuple[Callback, ...] = ()
    told: Told | None = None


def new_batch(key: int, parent: int | None, *, complete: bool, success: bool) -> BatchRow:
    """Give a new batch, not committed; its parent, if it has one, gets `child_joined`.

    Args:
        key: Names it.
        parent: Key of a batch that exists.
        complete, success: It has this callback.
    """
    state = (CallbackState.ABSENT, CallbackState.WAITING)
    return BatchRow(key=key, parent=parent, complete=state[complete], success=state[success])


def joined(row: BatchRow, jobs: int = 1) -> Moved:
    """Take so many new jobs in. A batch that is committed, or done, takes jobs too; no callback is enqueued twice for that."""
    return _moved(row, replace(row, total=row.total + jobs, pending=row.pending + jobs))


def child_joined(row: BatchRow) -> Moved:
    """Take a new child in."""
    more = replace(
        row, open_children=row.open_children + 1, unsuccessful_children=row.unsuccessful_children + 1
    )
    return _moved(row, more)


def committed(row: BatchRow) -> Moved:
    """Let the callbacks go. A second time changes nothing; opening a batch again does not take it back."""
    return _moved(row, replace(row, committed=True))


_STANDINGS = {
    Result.SUCCEEDED: Standing.SUCCEEDED,
    Result.FAILED: Standing.FAILED,
    Result.DROPPED: Standing.FAILED,
}


def job_moved(row: BatchRow, standing: Standing, result: Result) -> tuple[Moved, Standing]:
    """Count what has happened to one of its jobs.

    Args:
        row: The batch.
        standing: How the job was counted until now.
        result: What happened.

    Returns:
        The move, and how the job is counted from now on. A job that has succeeded stays so: its record may go.
    """
    after = Standing.SUCCEEDED if standing is Standing.SUCCEEDED else _STANDINGS[result]
    counted = replace(
        row,
        pending=row.pending - (standing is Standing.PENDING),
        failed=row.failed - (standing is Standing.FAILED) + (after is Standing.FAILED),
    )
    return _moved(row, counted), after


def pending_succeeded(row: BatchRow, jobs: int) -> Moved:
    """Count that so many of its pending jobs have succeeded: as `job_moved` for each, in one move."""
    return _moved(row, replace(row, pending=row.pending - jobs))


def callback_succeeded(row: BatchRow, callback: Callback) -> Moved:
    """Note that the job of a callback has been acknowledged."""
    if callback is Callback.COMPLETE:
        return _moved(row, replace(row, complete=CallbackState.SUCCEEDED))
    return _moved(row, replace(row, success=CallbackState.SUCCEEDED))


def child_moved(row: BatchRow, before: Level, after: Level) -> Moved:
    """Count what a child has told.

    A child that is removed before it was committed tells SUCCEEDED: nobody waits for it any more.
    """
    opened = (after is Level.OPEN) - (before is Level.OPEN)
    unsuccessful = (after is not Level.SUCCEEDED) - (before is not Level.SUCCEEDED)
    counted = replace(
        row,
        open_children=row.open_children + opened,
        unsuccessful_children=row.unsuccessful_children + unsuccessful,
    )
    return _moved(row, counted)


def level(row: BatchRow) -> Level:
    """Report how far a batch has come.

    A child whose success callback is due is OPEN for its parent's complete callback too: that callback may add jobs to the parent.
    """
    if not _has_completed(row) or row.complete in _OUTSTANDING:
        return Level.OPEN
    if not _has_succeeded(row):
        return Level.COMPLETE
    return Level.OPEN if row.success in _OUTSTANDING else Level.SUCCEEDED


def purge_at(row: BatchRow, now: int) -> int | None:
    """Decide until when a batch is kept that has just changed; epoch ms, None while it is not done."""
    if not row.committed:
        return min(now + UNCOMMITTED_KEPT_MS, LAST_INSTANT)
    return None if level(row) is Level.OPEN else min(now + FINISHED_KEPT_MS, LAST_INSTANT)


_OUTSTANDING = frozenset({CallbackState.WAITING, CallbackState.ENQUEUED})


def _has_completed(row: BatchRow) -> bool:
    return row.committed and row.pending == 0 and row.open_children == 0


def _has_succeeded(row: BatchRow) -> bool:
    return _has_completed(row) and row.failed == 0 and row.unsuccessful_children == 0


def _moved(before: BatchRow, row: BatchRow) -> Moved:
    """Enqueue what is due in a row, and tell the parent what has changed."""
    enqueue: tuple[Callback, ...] = ()
    if row.complete is CallbackState.WAITING and _has_completed(row):
        row = replace(row, complete=CallbackState.ENQUEUED)
        enqueue = (Callback.COMPLETE,)
    # Not before the complete callback has succeeded, where there is one.
    if (
        row.success is CallbackState.WAITING
        and _has_succeeded(row)
        and row.complete in (CallbackState.ABSENT, CallbackState.SUCCEEDED)
    ):
        row = replace(row, success=CallbackState.ENQUEUED)
        enqueue = (*enqueue, Callback.SUCCESS)
    was, now = level(before), level(row)
    told = None if row.parent is None or was is now else Told(row.parent, was, now)
    return Moved(row, enqueue, told)
