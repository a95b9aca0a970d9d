"""The rarer verbs: patch, delete, redrive, cancel, reset.

Each function gives a verb for `Call`, which runs it inside a batch's transaction. Patch and delete over many jobs are atomic, as
Zizq's API promises: they meet the matching keys in portions, so that memory stays bounded, yet all of it is one transaction. A
redrive, which is our own, promises no such thing and is a walk (see `walks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from anew.errors import NotFound
from anew.jobs import ENDED, Job, Move, State
from anew.jobs.decide import dead_purge_at
from anew.jobs.patch import Patch, cancelled, patched, redriven
from anew.jobs.transitions import sources
from anew.store.protocol import Filter, Page, Rewrite, Store

if TYPE_CHECKING:
    from anew.engine.engine import Engine
    from anew.engine.walks import Change, Extent

PORTION = 1_000
"""Keys looked at in one go."""

_PATCHABLE = frozenset(State) - ENDED
_REDRIVABLE = frozenset(sources(Move.REDRIVE))


def patch_one(key: int, patch: Patch) -> Callable[[Engine, int], Job]:
    """Change one job that has not ended.

    Returns:
        A verb that gives the job as it is then; it raises NotFound, or IllegalTransition if the job has ended.
    """

    def verb(engine: Engine, now: int) -> Job:
        before = _find(engine, key)
        after = patched(before, patch, now)
        _rewrite(engine, [(before, after)])
        return after

    return verb


def patch_many(where: Filter, patch: Patch) -> Callable[[Engine, int], int]:
    """Change all jobs that match and have not ended.

    Returns:
        A verb that gives their number; those count too that were already as the patch wants them.
    """

    def verb(engine: Engine, now: int) -> int:
        count = 0
        for jobs in _portions(engine.store, _within(where, _PATCHABLE)):
            _rewrite(engine, [(job, patched(job, patch, now)) for job in jobs])
            count += len(jobs)
        return count

    return verb


def delete_one(key: int) -> Callable[[Engine, int], None]:
    """Remove one job in whatever state.

    Returns:
        A verb that raises NotFound if there is none.
    """

    def verb(engine: Engine, now: int) -> None:
        if not _delete(engine, [key]):
            raise NotFound("job not found")

    return verb


def delete_many(where: Filter) -> Callable[[Engine, int], int]:
    """Remove all jobs that match, in whatever state.

    Returns:
        A verb that gives their number.
    """

    def verb(engine: Engine, now: int) -> int:
        return sum(_delete(engine, keys) for keys in _keys(engine.store, where))

    return verb


def delete_all() -> Callable[[Engine, int], int]:
    """Remove every job.

    Returns:
        A verb that gives their number.
    """

    def verb(engine: Engine, now: int) -> int:
        count = engine.store.delete_all()
        engine.free_slots(list(engine.dispatcher.holders))
        return count

    return verb


def redrive_one(key: int, *, reset_attempts: bool = False) -> Callable[[Engine, int], Job]:
    """Send one dead or cancelled job round again, now.

    Args:
        key: The job.
        reset_attempts: Begin its policy again.

    Returns:
        A verb that gives the job as it is then; it raises NotFound, or IllegalTransition if the job is neither.
    """

    def verb(engine: Engine, now: int) -> Job:
        before = _find(engine, key)
        if before.is_over(now):
            raise NotFound("job not found")
        after = redriven(before, now, now, reset_attempts=reset_attempts)
        _rewrite(engine, [(before, after)])
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

    def change(engine: Engine, now: int, where: Filter, extent: Extent, before: int) -> int:
        count = before
        for jobs in _portions(engine.store, where):
            nths = (min(nth, extent.total) for nth in range(count, count + len(jobs)))
            times = (extent.began + spread_ms * nth // extent.total for nth in nths)
            changes = [
                (job, redriven(job, ready_at, now, reset_attempts=reset_attempts))
                for job, ready_at in zip(jobs, times, strict=True)
            ]
            _rewrite(engine, changes)
            count += len(jobs)
        return count - before

    return change


def cancel_one(key: int) -> Callable[[Engine, int], Job]:
    """Call one job off; a worker that has it finds that out when it settles.

    Returns:
        A verb that gives the job as it is then, even if nothing of it is kept; it raises NotFound, or IllegalTransition
        if the job has ended.
    """

    def verb(engine: Engine, now: int) -> Job:
        before = _find(engine, key)
        after = cancelled(before, dead_purge_at(before.retention, engine.defaults, now))
        if after.purge_at is None:
            engine.store.delete([key])
        else:
            _rewrite(engine, [(before, after)])
        engine.free_slots([key])
        return after

    return verb


def _find(engine: Engine, key: int) -> Job:
    jobs = engine.store.load([key])
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


def _rewrite(engine: Engine, changes: Iterable[tuple[Job, Job]]) -> None:
    real = [(before, after) for before, after in changes if before != after]
    engine.store.rewrite([_row(before, after) for before, after in real])
    for before, _ in real:
        engine.dispatcher.mark_changed(before.key)


def _row(before: Job, after: Job) -> Rewrite:
    return Rewrite(
        key=after.key,
        queue=after.queue,
        priority=after.priority,
        state=after.state,
        ready_at=after.ready_at,
        attempts=after.attempts,
        retry_limit=after.retry_limit,
        policy=after.policy,
        retention=after.retention,
        purge_at=after.purge_at,
        first_failed_at=after.first_failed_at,
        carry=after.carry,
        was_queue=before.queue,
        was_state=before.state,
    )


def _delete(engine: Engine, keys: list[int]) -> int:
    count = engine.store.delete(keys)
    engine.free_slots(keys)
    return count
