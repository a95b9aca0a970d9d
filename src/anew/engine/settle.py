"""The ends of attempts, batch-shaped: each report is answered by itself, all are written together."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import islice, repeat
from typing import Any, Final

from msgspec.structs import replace

from anew.engine.batch import Batch
from anew.engine.ops import Acknowledge, Fail, FailMany, Op, Reject, Release, Succeed
from anew.errors import NotFound
from anew.jobs import Failed, Interrupted, Job, Outcome, State
from anew.jobs.change import Change, after
from anew.jobs.records import cut_middle

_NOT_RESERVED = NotFound("no such job is reserved")
Answers = list[tuple[Op, Any]]
Report = tuple[int, Outcome, int | None]
"""A job's key, what happened, and the token of its attempt if the reporter knows it."""

Attempt = tuple[int, int | None]
"""A job's key, and the token that it is held under; None: by nobody, or nobody asked, as `Reservers` knows no such job."""

log = logging.getLogger("anew.engine")

SMALL_RESULT: Final = 256
"""Bytes of a result, and of an error's message, that are kept also while there is no space for new jobs."""


def settle_successes(batch: Batch, ops: list[Succeed], answers: Answers) -> None:
    """Complete jobs, and answer each report with those of its jobs that were not in flight (or not under its token)."""
    reported = [key for op in ops for key in op.keys]
    held: set[tuple[int, int]] = set()
    standing: Iterable[int] = reported
    if any(op.tokens for op in ops):
        reports = [report for op in ops for report in _attempts(op)]
        held = batch.store.held_under([(key, token) for key, token in reports if token is not None])
        standing = [key for key, token in reports if token is None or (key, token) in held]
    done = batch.finish(dict.fromkeys(standing))
    results = [pair for op in ops if op.results for pair in op.results.items() if pair[0] in done]
    if results and batch.full:
        results = _that_fit(results)
    if results:
        batch.keep_results(results)
    if len(done) == len(reported):  # as nearly always: each was in flight and is reported once
        answers += [(op, []) for op in ops]
        return
    for op in ops:
        missing: list[int] = []
        for key, token in _attempts(op):
            if key in done and (token is None or (key, token) in held):
                done.discard(key)  # a second report of the same success finds nothing in flight
            else:
                missing.append(key)
        batch.free_ended(missing)
        batch.stats.stale += len(missing)
        answers.append((op, missing))


def _that_fit(results: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Leave out results that would use up the space that is kept for settling: their jobs would run again, and again."""
    kept = [(key, result) for key, result in results if len(result) <= SMALL_RESULT]
    if len(kept) < len(results):
        log.error(
            "no space left: jobs have completed whose results are not kept",
            extra={"jobs": len(results) - len(kept)},
        )
    return kept


def _attempts(op: Succeed) -> Iterable[tuple[int, int | None]]:
    """Give each key that an operation reports, with its token if the reporter knows it."""
    return zip(op.keys, op.tokens or repeat(None, len(op.keys)), strict=True)


def settle_failures(batch: Batch, ops: list[Fail | FailMany], answers: Answers) -> None:
    """Decide and write what failed attempts make of their jobs, and answer each report."""
    reports: list[Report] = []
    for op in ops:
        if isinstance(op, Fail):
            reports.append((op.key, op.failure, op.token))
        else:
            reports += [(key, failure, None) for key, failure in op.reports]
    results = iter(_settled(batch, reports))
    for op in ops:
        answers.append(
            (op, next(results) if isinstance(op, Fail) else list(islice(results, len(op.reports))))
        )


def _settled(batch: Batch, reports: list[Report]) -> list[Job | NotFound]:
    """Give for each report the job as it is now, or that it is not in flight (or no longer under the reporter's token)."""
    found = {job.key: job for job in batch.in_flight(key for key, _, _ in reports)}
    results: list[Job | NotFound] = []
    missing: list[int] = []
    changes: list[Change] = []
    interrupted: list[tuple[int, int, Interrupted]] = []
    for key, failure, token in reports:
        job = found.get(key)
        if job is None or (token is not None and token != job.hold_token):
            results.append(NotFound("job not found in in-flight set"))
            missing.append(key)
            continue
        del found[key]  # a second report of the same failure finds nothing in flight
        if isinstance(failure, Interrupted):
            batch.name_worker(key)
            interrupted.append((len(results), key, failure))
            results.append(job)
            continue
        batch.name_worker(key, failure.worker if isinstance(failure, Failed) else None)
        if batch.full and isinstance(failure, Failed):
            failure = _short(failure)
        change = batch.decide_outcome(job, failure)
        changes.append(change)
        results.append(after(job, change))
        if isinstance(failure, Failed):
            batch.stats.failed += 1
            if batch.ended is not None:
                batch.ended.failed.append(key)
            if change.state is not State.DEAD:
                batch.stats.count_retry(change.attempts)
    batch.settle(changes)
    for at, key, interruption in interrupted:
        batch.release([key], interruption)
        results[at] = next(iter(batch.store.load([key])), results[at])
    batch.free_ended(missing)
    batch.stats.stale += len(missing)
    return results


def _short(failure: Failed) -> Failed:
    """Leave out what would use up the space that is kept for settling; the worker's log has it."""
    return replace(failure, message=cut_middle(failure.message, SMALL_RESULT), backtrace=None)


def settle_reserved(batch: Batch, ops: list[Acknowledge | Reject], answers: Answers) -> None:
    """Complete and fail jobs whose reports name no attempt, and answer each report."""
    meant = _meant(batch, ops)
    _acknowledge(batch, [(op, key) for op, key in meant if isinstance(op, Acknowledge)], answers)
    rejected = [(op, key) for op, key in meant if isinstance(op, Reject)]
    if rejected:
        _reject(batch, rejected, answers)


def _acknowledge(batch: Batch, meant: list[tuple[Acknowledge, int | None]], answers: Answers) -> None:
    done = batch.finish(dict.fromkeys(key for _, key in meant if key is not None))
    batch.stats.stale += len(meant) - len(done)
    for op, key in meant:
        answers.append((op, key in done))
        done.discard(key)  # a second report of the same success finds nothing in flight


def _reject(batch: Batch, meant: list[tuple[Reject, int | None]], answers: Answers) -> None:
    reports: list[Report] = [(key, op.failure, None) for op, key in meant if key is not None]
    batch.stats.stale += len(meant) - len(reports)
    results = iter(_settled(batch, reports))
    answers += [(op, _NOT_RESERVED if key is None else next(results)) for op, key in meant]


def _meant(
    batch: Batch, ops: Sequence[Acknowledge | Reject]
) -> list[tuple[Acknowledge | Reject, int | None]]:
    """Give beside each report the key of the job whose attempt it can be of."""
    attempts = _attempts_of(batch, dict.fromkeys([op.job for op in ops]))
    reservers = batch.reservers
    meant: list[tuple[Acknowledge | Reject, int | None]] = []
    for op in ops:
        key = None
        left = attempts.get(op.job, [])
        own = [attempt for attempt in left if reservers.has(op.worker, *attempt)] if len(left) > 1 else left
        for attempt in reversed(own or left):
            if reservers.can_report(op.worker, *attempt):
                key = attempt[0]
                reservers.forget(key)
                left.remove(attempt)
                break
        meant.append((op, key))
    return meant


def _attempts_of(batch: Batch, jobs: Iterable[str | int]) -> dict[str | int, list[Attempt]]:
    """Give the attempts that each job's name can mean, the one that was begun last at the end."""
    found: dict[str | int, list[Attempt]] = {}
    for jid, key, token in batch.store.named([job for job in jobs if isinstance(job, str)]):
        found.setdefault(jid, []).append((key, token))
    keys = [job for job in jobs if isinstance(job, int)]
    held = dict.fromkeys(keys)
    if known := [(key, last[0]) for key in keys if (last := batch.reservers.last(key)) is not None]:
        held |= batch.store.held_under(known)
        if given_on := [key for key, _ in known if held[key] is None]:
            held |= {job.key: job.hold_token for job in batch.in_flight(given_on)}
    for attempt in held.items():
        found[attempt[0]] = [attempt]
    return found


def settle_release(batch: Batch, op: Release) -> int:
    """Give back what a taker still holds."""
    gone = Interrupted("worker gone", op.taker.interruption_limit) if op.interrupted else None
    for key in op.taker.held:
        batch.name_worker(key)
    released = batch.give_back(sorted(op.taker.held), gone)
    batch.stats.released += released
    return released
