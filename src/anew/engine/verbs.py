"""The rarer verbs: patch, delete, redrive, cancel, kill, reset; pausing queues.

Those for one job give a verb for `Call`, which runs it inside a batch's transaction. Those for all jobs that match give what a bulk
change (see `bulk`) does to a chunk of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from anew.engine.batch import Batch
from anew.engine.bulk import CHUNK, ChunkChange, Extent, Part, PartChange
from anew.engine.crontab import remove_groups
from anew.errors import IllegalTransition, NotFound
from anew.jobs import ENDED, Job, Move, State
from anew.jobs.decide import dead_purge_at
from anew.jobs.ids import MAX_KEY
from anew.jobs.patch import Patch, cancelled, killed, patched, redriven
from anew.jobs.transitions import sources
from anew.store.selection import Filter, Page

JUDGING_S = 0.004
"""Time in one batch for jobs that are judged by all that they are."""

Judge = Callable[[Job, Callable[[], bool]], bool | None]
"""Says whether a job is meant, or None where that takes longer than until the function says that the time is over: called again
with the same job it goes on, and each call brings it nearer to the end."""

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


def patchable(where: Filter) -> Filter:
    """Narrow a filter to the jobs that a patch may change."""
    return within(where, _PATCHABLE)


def patch_chunk(patch: Patch) -> ChunkChange:
    """Change jobs of a filter of `patchable`; those count too that were already as the patch wants them."""

    def change(batch: Batch, where: Filter, extent: Extent, before: int) -> int:
        jobs = matching(batch, where)
        batch.rewrite([(job, patched(job, patch, batch.now)) for job in jobs])
        return len(jobs)

    return change


def delete_one(key: int) -> Callable[[Batch], None]:
    """Remove one job in whatever state.

    Returns:
        A verb that raises NotFound if there is none.
    """

    def verb(batch: Batch) -> None:
        if not batch.delete([key]):
            raise NotFound("job not found")

    return verb


def delete_chunk(batch: Batch, where: Filter, extent: Extent, before: int) -> int:
    """Remove jobs in whatever state: a `ChunkChange`."""
    return len(batch.delete(batch.store.find(where, Page(limit=CHUNK))))


def reset(batch: Batch) -> None:
    """Remove all jobs with what they are tied to, and all cron entries with their groups: a verb."""
    remove_groups(batch)
    batch.delete_all()


def redrive_one(key: int, *, reset_attempts: bool = False) -> Callable[[Batch], Job]:
    """Redrive one dead or cancelled job: it is ready now.

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
    """Narrow a filter to the jobs that a redrive may change."""
    return within(replace(where, visible_at=now), _REDRIVABLE)


def redrive_chunk(*, spread_ms: int = 0, reset_attempts: bool = False) -> ChunkChange:
    """Redrive jobs of a filter of `redrivable`, spread evenly over a period.

    Args:
        spread_ms: Of n jobs the i-th, in order of arrival from 0, runs i / n of this after the bulk change began.
        reset_attempts: Begin their policies again.
    """

    def change(batch: Batch, where: Filter, extent: Extent, before: int) -> int:
        jobs = matching(batch, where)
        nths = (min(nth, extent.total) for nth in range(before, before + len(jobs)))
        times = (extent.began + spread_ms * nth // extent.total for nth in nths)
        corrupt = batch.store.corrupt_among([job.key for job in jobs])
        changes = [
            (job, redriven(job, ready_at, batch.now, reset_attempts=reset_attempts))
            for job, ready_at in zip(jobs, times, strict=True)
            if job.key not in corrupt
        ]
        batch.rewrite(changes)
        return len(changes)

    return change


def cancel_one(key: int) -> Callable[[Batch], Job]:
    """Call one job off; a worker that runs it finds that out soon, at the latest when it settles.

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
            batch.take_away([key])
        return after

    return verb


def kill_chunk(kept_ms: int) -> ChunkChange:
    """Put waiting jobs among the dead, and keep those that are there so long from now."""

    def change(batch: Batch, where: Filter, extent: Extent, before: int) -> int:
        jobs = matching(batch, where)
        batch.rewrite([(job, killed(job, batch.now + kept_ms)) for job in jobs])
        return len(jobs)

    return change


def chosen_chunk(judge: Judge, change: ChunkChange, timer: Callable[[], float]) -> PartChange:
    """Change only those jobs of a chunk that are chosen by all that they are, payload and all, as far as time allows.

    Args:
        judge: Chooses them.
        change: What is done to them.
        timer: A clock in seconds, for `JUDGING_S`.
    """

    def narrowed(batch: Batch, where: Filter, extent: Extent, before: int) -> Part:
        until_s = timer() + JUDGING_S

        def is_over() -> bool:
            return timer() >= until_s

        chosen: set[int] = set()
        left_at = MAX_KEY
        for key in batch.store.find(where, Page(limit=CHUNK)):  # one by one: payloads may be long
            verdicts = [judge(job, is_over) for job in batch.store.load([key], payload=True)]
            if None in verdicts:
                left_at = key
                break
            if True in verdicts:
                chosen.add(key)
            if is_over():  # after one job at least, else it might never end
                left_at = key + 1
                break
        changed = change(batch, replace(where, keys=frozenset(chosen)), extent, before) if chosen else 0
        return Part(changed, sum(key < left_at for key in where.keys or ()))

    return narrowed


def pause(queues: Collection[str] | None, paused: bool) -> Callable[[Batch], None]:
    """Have queues that are listed or have ready jobs, some or all, hand out nothing, or again what they have."""
    return lambda batch: batch.store.queues.pause(queues, paused)


def pause_one(queue: str, paused: bool) -> Callable[[Batch], None]:
    """Have one queue hand out nothing, also if it has no job yet; or have it hand out again what it has."""

    def verb(batch: Batch) -> None:
        if paused:
            batch.store.queues.keep_listed([queue])
        batch.store.queues.pause([queue], paused)

    return verb


def unlist(queues: Collection[str] | None) -> Callable[[Batch], None]:
    """Leave queues, some or all, out of the list when they have no job."""
    return lambda batch: batch.store.queues.unlist(queues)


def touch(batch: Batch) -> None:
    """Write a little, so that the batch's commit has something to make last: a probe's verb."""
    batch.store.remember()


def _find(batch: Batch, key: int) -> Job:
    jobs = batch.store.load([key])
    if not jobs:
        raise NotFound("job not found")
    return jobs[0]


def within(where: Filter, states: frozenset[State]) -> Filter:
    """Narrow a filter to some states."""
    return replace(where, states=states if where.states is None else states & where.states)


def matching(batch: Batch, where: Filter) -> list[Job]:
    """Read the jobs of a chunk that still match."""
    return batch.store.load(batch.store.find(where, Page(limit=CHUNK)))
