"""The rarer verbs: patch, delete, redrive, cancel, reset.

Each function gives a verb for `Call`, which runs it inside a batch's transaction. Patch and delete over many jobs are atomic, as
Zizq's API promises: they meet the matching keys in portions, so that memory stays bounded, yet all of it is one transaction. A
redrive, which is our own, promises no such thing and is a walk (see `walks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from anew.engine.batch import Batch
from anew.engine.walks import Change, Extent
from anew.errors import IllegalTransition, NotFound
from anew.jobs import ENDED, Job, Move, State
from anew.jobs.decide import dead_purge_at
from anew.jobs.patch import Patch, cancelled, patched, redriven
from anew.jobs.transitions import sources
from anew.store.protocol import Filter, Page, Store

PORTION = 1_000
"""Keys looked at in one go."""

_PATCHABLE = frozenset(State) - ENDED
_REDRIVABLE = frozenset(sources(Move.REDRIVE))


def patch_one(key: int, patch: Patch) -> Callable[[Batch], Job]:
    """Change one job that has not ended.

    Returns:
        A verb that gives the job as it is then; it raises NotFound, or IllegalTransition if the job has ended.
    """

    def verb(batch: Batch) -> Job:
        before = _find(batch, key)
        after = patched(before, patch, batch.now)
        batch.rewrite([(before, after)])
        return after

    return verb


def patch_many(where: Filter, patch: Patch) -> Callable[[Batch], int]:
    """Change all jobs that match and have not ended.

    Returns:
        A verb that gives their number; those count too that were already as the patch wants them.
    """

    def verb(batch: Batch) -> int:
        count = 0
        for jobs in _portions(batch.store, _within(where, _PATCHABLE)):
            batch.rewrite([(job, patched(job, patch, batch.now)) for job in jobs])
            count += len(jobs)
        return count

    return verb


def delete_one(key: int) -> Callable[[Batch], None]:
    """Remove one job in whatever state.

    Returns:
        A verb that raises NotFound if there is none.
    """

    def verb(batch: Batch) -> None:
        if not batch.delete([key]):
            raise NotFound("job not found")

    return verb


def delete_many(where: Filter) -> Callable[[Batch], int]:
    """Remove all jobs that match, in whatever state.

    Returns:
        A verb that gives their number.
    """

    def verb(batch: Batch) -> int:
        return sum(len(batch.delete(keys)) for keys in _keys(batch.store, where))

    return verb


def delete_all() -> Callable[[Batch], int]:
    """Remove every job.

    Returns:
        A verb that gives their number.
    """

    def verb(batch: Batch) -> int:
        return batch.delete_all()

    return verb


def redrive_one(key: int, *, reset_attempts: bool = False) -> Callable[[Batch], Job]:
    """Send one dead or cancelled job round again, now.

    Args:
        key: The job.
        reset_attempts: Begin its policy again.

    Returns:
        A verb that gives the job as it is then; it raises NotFound, or IllegalTransition if the job is neither.
    """

    def verb(batch: Batch) -> Job:
        before = _find(batch, key)
        if before.is_over(batch.now):
            raise NotFound("job not found")
        if batch.store.corrupt_among([key]):
            raise IllegalTransition(
                "cannot redrive a corrupt job: something stored of it cannot be read; see its last error record"
            )
        after = redriven(before, batch.now, batch.now, reset_attempts=reset_attempts)
        batch.rewrite([(before, after)])
        return after

    return verb


def redrivable(where: Filter, now: int) -> Filter:
    """Narrow a filter to the jobs that a redrive may send round again."""
    return _within(replace(where, visible_at=now), _REDRIVABLE)


def redrive_portion(*, spread_ms: int = 0, reset_attempts: bool = False) -> Change:
    """Send dead and cancelled jobs round again, spread evenly over a period.

    Args:
        spread_ms: Of n jobs the i-th, in order of arrival from 0, runs i / n of this after the walk began.
        reset_attempts: Begin their policies again.

    Returns:
        What a walk over a filter of `redrivable` does to each portion.
    """

    def change(batch: Batch, where: Filter, extent: Extent, before: int) -> int:
        count = before
        for jobs in _portions(batch.store, where):
            nths = (min(nth, extent.total) for nth in range(count, count + len(jobs)))
            times = (extent.began + spread_ms * nth // extent.total for nth in nths)
            corrupt = batch.store.corrupt_among([job.key for job in jobs])
            changes = [
                (job, redriven(job, ready_at, batch.now, reset_attempts=reset_attempts))
                for job, ready_at in zip(jobs, times, strict=True)
                if job.key not in corrupt
            ]
            batch.rewrite(changes)
            count += len(changes)
        return count - before

    return change


def cancel_one(key: int) -> Callable[[Batch], Job]:
    """Call one job off; a worker that has it finds that out when it settles.

    Returns:
        A verb that gives the job as it is then, even if nothing of it is kept; it raises NotFound, or IllegalTransition
        if the job has ended.
    """

    def verb(batch: Batch) -> Job:
        before = _find(batch, key)
        after = cancelled(before, dead_purge_at(before.retention, batch.defaults, batch.now))
        if after.purge_at is None:
            batch.delete([key])
        else:
            batch.rewrite([(before, after)])
            batch.free([key])
        return after

    return verb


def touch(batch: Batch) -> None:
    """Write a little, so that the batch's commit has something to make last: a probe's verb."""
    batch.store.remember()


def _find(batch: Batch, key: int) -> Job:
    jobs = batch.store.load([key])
    if not jobs:
        raise NotFound("job not found")
    return jobs[0]


def _within(where: Filter, states: frozenset[State]) -> Filter:
    return replace(where, states=states if where.states is None else states & where.states)


def _keys(store: Store, where: Filter) -> Iterator[list[int]]:
    """Walk matching keys upwards; a job that a change makes match or not is met once at most."""
    after: int | None = None
    while True:
        keys = store.find(where, Page(after=after, limit=PORTION))
        if keys:
            yield keys
        if len(keys) < PORTION:
            return
        after = keys[-1]


def _portions(store: Store, where: Filter) -> Iterator[list[Job]]:
    return (store.load(keys) for keys in _keys(store, where))
