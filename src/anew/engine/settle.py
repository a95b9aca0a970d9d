"""The ends of attempts, batch-shaped: each report is answered by itself, all are written together."""

from __future__ import annotations

from typing import Any

from anew.engine.batch import Batch
from anew.engine.ops import Fail, Op, Release, Succeed
from anew.errors import NotFound
from anew.jobs import Interrupted, State
from anew.jobs.change import Change, after

Answers = list[tuple[Op, Any]]


def settle_successes(batch: Batch, ops: list[Succeed], answers: Answers) -> None:
    """Complete jobs, and tell each reporter which of its jobs were not in flight."""
    reported = [key for op in ops for key in op.keys]
    done = batch.finish(_not_stale(batch, ops) if any(op.tokens for op in ops) else dict.fromkeys(reported))
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


def _not_stale(batch: Batch, ops: list[Succeed]) -> dict[int, None]:
    """Leave out the jobs that are no longer held under the token with which they were reported."""
    held = [(key, token) for op in ops if op.tokens for key, token in zip(op.keys, op.tokens, strict=True)]
    keys = dict.fromkeys(key for op in ops if not op.tokens for key in op.keys)
    return keys | dict.fromkeys(batch.store.held_under(held))


def settle_failures(batch: Batch, ops: list[Fail], answers: Answers) -> None:
    """Decide and write what failed attempts make of their jobs."""
    found = {job.key: job for job in batch.in_flight(op.key for op in ops)}
    changes: list[Change] = []
    for op in ops:
        job = found.get(op.key)
        if job is None or (op.token is not None and op.token != job.hold_token):
            answers.append((op, NotFound("job not found in in-flight set")))
            continue
        del found[op.key]  # a second report of the same failure finds nothing in flight
        change = batch.decide(job, op.failure)
        changes.append(change)
        answers.append((op, after(job, change)))
        batch.stats.failed += 1
        if change.state is not State.DEAD:
            batch.stats.count_retry(change.attempts)
    batch.settle(changes)


def settle_release(batch: Batch, op: Release) -> int:
    """Give back what a taker still holds."""
    keys = sorted(op.taker.held)
    batch.release(keys, Interrupted("worker gone") if op.interrupted else None)
    batch.stats.released += len(keys)
    return len(keys)
