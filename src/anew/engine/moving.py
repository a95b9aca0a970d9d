"""Jobs that come from another queue with their past, and the notes that say how far their move has come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from anew.engine.batch import Batch
from anew.engine.upkeep import watch_space
from anew.errors import Conflict, StoreFull
from anew.jobs import HoldKind
from anew.jobs.moved import MovedJob
from anew.store.protocol import Hold


def move_in(jobs: Sequence[MovedJob], name: str, before: str | None, note: str) -> Callable[[Batch], None]:
    """Store jobs as they were elsewhere, and a note of how far the move has come: both or neither.

    Args:
        jobs: In order of arrival; they get rising keys.
        name: The note's name.
        before: What it says now; None if there is none.
        note: What it is to say.

    Returns:
        A verb that raises StoreFull if new jobs are refused for want of space, and Conflict if the note says something else:
        somebody else moves the same jobs.
    """

    def verb(batch: Batch) -> None:
        if batch.store.imports.read(name) != before:
            raise Conflict(f"another import moves the jobs of {name} into this store just now")
        watch_space(batch)
        if batch.full:
            raise StoreFull("little space left on the device that holds the store; nothing more is moved in")
        hold = Hold(
            HoldKind.RESERVATION,
            batch.new_token(),
            batch.store.session,
            batch.lease_time(batch.now),
            batch.now,
        )
        batch.store.insert_moved(batch.keys_for(len(jobs)), jobs, hold)
        batch.store.imports.write(name, note)
        batch.stats.enqueued += len(jobs)
        batch.due_changed = True

    return verb


def adopt_queues(names: Collection[str], paused: Collection[str], name: str) -> Callable[[Batch], None]:
    """List queues, and pause some of them, once: not if there is a note of this name, which is written with it."""

    def verb(batch: Batch) -> None:
        if batch.store.imports.read(name) is not None:
            return
        batch.store.queues.keep_listed(names)
        batch.store.queues.pause(paused, True)
        batch.store.imports.write(name, "")

    return verb


def read_notes(batch: Batch) -> dict[str, str]:
    """Give all notes by their names."""
    return batch.store.imports.all()


def forget_notes(batch: Batch) -> None:
    """Remove all notes: what comes next is a new move."""
    batch.store.imports.drop_all()
