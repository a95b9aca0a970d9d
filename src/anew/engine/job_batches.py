"""Batches: groups of jobs with callbacks. Verbs for `Call`; the rules are those of `anew.jobs.batches`.

A job joins a batch by `JobHooks.batch`; a batch is named by its key. `new_batch`, `open_batch`, `commit_batch` and `batch_status`
are all that an edge needs. Callbacks are ordinary jobs, stored in the transaction in which they become due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from anew.engine.batch import Batch
from anew.errors import InvalidInput, NotFound, StoreFull
from anew.jobs.batches import BatchRow, Callback, child_joined, committed, purge_at
from anew.jobs.batches import new_batch as new_row
from anew.jobs.codec import PushedJob
from anew.store.hook_rows import BatchParts

NO_BATCH = "no such batch"


class BatchStatus(msgspec.Struct, frozen=True):
    """A batch as its row says.

    Attributes:
        row: Counters, how far its callbacks have come, and its parent's key. It was made at ``row.key >> COUNTER_BITS``, epoch ms.
        meta: What `new_batch` was given.
    """

    row: BatchRow
    meta: bytes | None


def new_batch(
    callbacks: Callable[[int], Mapping[Callback, PushedJob]], *, parent: int | None = None, meta: bytes = b""
) -> Callable[[Batch], int]:
    """Make a batch, not committed.

    Args:
        callbacks: Called with the batch's key; gives the jobs of its callbacks, one at least, complete in all that a door
            writes into them. A unique key or a batch of their own is left out.
        parent: Key of the batch that waits for it.
        meta: What the door must give back unchanged.

    Returns:
        A verb that gives the batch's key. It raises InvalidInput if there is no callback, NotFound if there is no such parent, and
        StoreFull while new jobs are refused for want of space: what is left is kept for settling.
    """

    def verb(batch: Batch) -> int:
        if batch.full:
            raise StoreFull("no space for new batches; settling goes on")
        above = None if parent is None else _find(batch, parent)
        (key,) = batch.keys_for(1)
        jobs = callbacks(key)
        if not jobs:
            raise InvalidInput("batch must have a success or complete callback")
        row = new_row(key, parent, complete=Callback.COMPLETE in jobs, success=Callback.SUCCESS in jobs)
        parts = BatchParts(meta or None, *(_written(jobs.get(callback)) for callback in Callback))
        batch.store.hooks.insert_batch(row, parts, purge_at(row, batch.now))
        batch.store.remember()  # no job's row says this key
        batch.hooks.add_batch(row)
        if above is not None:
            batch.hooks.move(child_joined(above))
        return key

    return verb


def open_batch(key: int) -> Callable[[Batch], None]:
    """Let jobs be added to a batch, which changes nothing in it.

    Returns:
        A verb that raises NotFound if there is none.
    """

    def verb(batch: Batch) -> None:
        _find(batch, key)

    return verb


def commit_batch(key: int) -> Callable[[Batch], None]:
    """Let the callbacks of a batch go; those that are due already are enqueued at once.

    Returns:
        A verb that raises NotFound if there is none.
    """

    def verb(batch: Batch) -> None:
        batch.hooks.move(committed(_find(batch, key)))
        batch.due_changed = True

    return verb


def batch_status(key: int) -> Callable[[Batch], BatchStatus]:
    """Say how far a batch has come.

    Returns:
        A verb that raises NotFound if there is none.
    """

    def verb(batch: Batch) -> BatchStatus:
        row = _find(batch, key)
        return BatchStatus(row, batch.store.hooks.batch_parts(key).meta)

    return verb


def _find(batch: Batch, key: int) -> BatchRow:
    row = batch.hooks.find_batch(key)
    if row is None:
        raise NotFound(NO_BATCH)
    return row


def _written(job: PushedJob | None) -> bytes | None:
    return None if job is None else msgspec.json.encode(job)
