"""The ends of attempts, batch-shaped: load what must be looked at, let the core decide, write the changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anew.engine.ops import Fail, Op, Succeed
from anew.engine.takers import Undo
from anew.errors import NotFound
from anew.jobs import (
    Interrupted,
    Job,
    State,
    decide_completion,
    decide_failure,
    decide_interruption,
)
from anew.jobs.change import Change, after

if TYPE_CHECKING:
    from anew.engine.engine import Engine

Answers = list[tuple[Op, Any]]


def settle_successes(engine: Engine, ops: list[Succeed], now: int, answers: Answers, undo: Undo) -> None:
    """Complete jobs: rows that are all there is of their job go in one statement, the others are looked at first."""
    dispatcher, store = engine.dispatcher, engine.store
    reported = [key for op in ops for key in op.keys]
    keys = dict.fromkeys(reported)
    always_plain = engine.defaults.completed_ms == 0
    plain = dispatcher.plain_among(keys) if always_plain else []
    done = set(store.finish(plain))
    if len(done) < len(keys):
        done.update(_complete_others(engine, [key for key in keys if key not in done], now))
    dispatcher.settle(done, undo)
    engine.stats.completed += len(done)
    if len(done) == len(reported):  # as nearly always: each was in flight and is reported once
        answers += [(op, []) for op in ops]
        return
    for op in ops:
        missing: list[int] = []
        for key in op.keys:
            if key in done:
                done.discard(key)  # a second report of the same success finds nothing in flight
            else:
                missing.append(key)
        answers.append((op, missing))


def _complete_others(engine: Engine, keys: list[int], now: int) -> list[int]:
    """Complete jobs with retention, attempts or a payload of their own; jobs not in flight are left alone."""
    jobs = [job for job in engine.store.load(keys) if job.state is State.IN_FLIGHT]
    kept: list[tuple[int, int]] = []
    gone: list[int] = []
    for job in jobs:
        purge_at = decide_completion(job.retention, engine.defaults, now).purge_at
        if purge_at is None:
            gone.append(job.key)
        else:
            kept.append((job.key, purge_at))
    engine.store.complete(kept, now)
    engine.store.delete(gone)
    return [job.key for job in jobs]


def settle_failures(engine: Engine, ops: list[Fail], now: int, answers: Answers, undo: Undo) -> None:
    """Decide and write what failed attempts make of their jobs."""
    found = {job.key: job for job in engine.store.load(op.key for op in ops) if job.state is State.IN_FLIGHT}
    changes: list[Change] = []
    for op in ops:
        job = found.pop(op.key, None)
        if job is None:
            answers.append((op, NotFound("job not found in in-flight set")))
            continue
        change = _decide(engine, job, op, now)
        changes.append(change)
        answers.append((op, after(job, change)))
        engine.dispatcher.settle((job.key,), undo)
        engine.stats.failed += 1
        if change.state is State.DEAD:
            engine.stats.died += 1
        else:
            engine.stats.count_retry(change.attempts)
    engine.store.apply(changes)
    engine.due_at = engine.store.next_due()


def _decide(engine: Engine, job: Job, op: Fail, now: int) -> Change:
    phase = job.phase if job.phase is not None else engine.numbers.next_phase()
    return decide_failure(
        job,
        op.failure,
        job_id=engine.ids.write(job.key).encode("ascii"),
        defaults=engine.defaults,
        now=now,
        rng=engine.rng,
        phase=phase,
        key=engine.store.identity.secret,
    )


def release_interrupted(engine: Engine, keys: list[int], interrupted: Interrupted, now: int) -> None:
    """Give back jobs whose hold ended without a verdict, or delay or end those to which it happens again and again.

    Where interruptions have no limit, nothing is loaded and decided: they are counted, and the jobs are ready again.
    """
    if engine.defaults.interruption_limit == 0:
        engine.store.release(keys, interrupted=True)
        return
    jobs = [job for job in engine.store.load(keys) if job.state is State.IN_FLIGHT]
    changes = [
        change
        for job in jobs
        if (change := decide_interruption(job, interrupted, defaults=engine.defaults, now=now)) is not None
    ]
    engine.store.apply(changes)
    engine.stats.died += sum(change.state is State.DEAD for change in changes)
    engine.due_at = engine.store.next_due()
