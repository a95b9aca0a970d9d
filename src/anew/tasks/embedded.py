"""Jobs in a file of this machine, or in memory: the verbs of an application on an engine of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from anew.engine import Call, Enqueue, Enqueued, ThreadCommit
from anew.engine.batch import Batch
from anew.engine.breakers import all_breakers, close_breaker
from anew.engine.crontab import NewCron, has_entries, replace_group
from anew.engine.hooks import Entry
from anew.engine.job_batches import NO_BATCH, commit_batch, new_batch
from anew.engine.throttles import limit_queue
from anew.engine.verbs import cancel_one, delete_one, pause_one, redrive_one
from anew.errors import NotFound
from anew.jobs import ErrorRecord, Job, NewJob, State
from anew.jobs.batches import Callback
from anew.jobs.breaker import BreakerRow
from anew.jobs.carried import result_of
from anew.jobs.change import shown_decision
from anew.jobs.codec import PushedJob, merge_of
from anew.jobs.fold import ALWAYS
from anew.jobs.hooks import Hook
from anew.jobs.key_limits import KeyStanding
from anew.jobs.limits import Throttle
from anew.store.selection import Filter, Page
from anew.tasks.backend import JobError, JobInfo, Placed, ended_at

if TYPE_CHECKING:
    from pathlib import Path

    from anew.tasks.app import Anew
    from anew.tasks.file_topics import FileTopics
    from anew.tasks.source import Source

V = TypeVar("V")

CLEARED = 500
"""Jobs that are removed in one transaction."""

MOST_ERRORS = 100


class EmbeddedBackend:
    """A `Backend` on one engine.

    Args:
        commit: The engine, for any number of threads.
        webhook_key: What the keys of subscriptions are encrypted with; None: something of this process alone.
    """

    def __init__(self, commit: ThreadCommit, webhook_key: Path | None = None) -> None:
        self.commit = commit
        self._webhook_key = webhook_key
        self._ids = commit.engine.ids

    def now(self) -> int:
        return self.commit.engine.clock.now()

    def enqueue(self, jobs: Sequence[NewJob], *, plain: bool) -> list[Placed]:
        if not plain:
            self._check_merges(jobs)
        entered: Enqueued = self.commit.apply(Enqueue(jobs, _nobody, plain))
        existing, write = entered.existing, self._ids.write
        if not existing:
            return [Placed(write(key), True) for key in entered.keys]
        if Entry.NO_BATCH in existing.values():
            raise NotFound(NO_BATCH)
        return [
            Placed(write(key), at not in existing, existing.get(at) is Entry.FOLDED)
            for at, key in enumerate(entered.keys)
        ]

    def _check_merges(self, jobs: Sequence[NewJob]) -> None:
        """Try the expressions of calls that may be merged, before a transaction waits for them."""
        expressions = self.commit.engine.parts.expressions
        for job in jobs:
            merge = merge_of(job)
            if merge is not None and expressions is not None:
                expressions.check_fold(ALWAYS, merge, bytes(job.payload), "merge")

    def find(self, job_id: str) -> JobInfo | None:
        key = self._ids.read(job_id)

        def verb(batch: Batch) -> JobInfo | None:
            jobs = [job for job in batch.store.load([key], payload=True) if not job.is_over(batch.now)]
            if not jobs:
                return None
            return self.info(batch, jobs[0])

        return self.call(verb, durable=False)

    def cancel(self, job_id: str) -> None:
        self.call(cancel_one(self._ids.read(job_id)))

    def redrive(self, job_id: str) -> None:
        self.call(redrive_one(self._ids.read(job_id)))

    def delete(self, job_id: str) -> None:
        self.call(delete_one(self._ids.read(job_id)))

    def counts(self, queue: str | None) -> Mapping[State, int]:
        by_queue = self._counts(None if queue is None else [queue])
        return {state: sum(counts.get(state, 0) for counts in by_queue.values()) for state in State}

    def counts_by_queue(self) -> Mapping[str, Mapping[State, int]]:
        return self._counts(None)

    def _counts(self, queues: Sequence[str] | None) -> Mapping[str, Mapping[State, int]]:
        return self.call(lambda batch: dict(batch.store.queues.counts(queues)), durable=False)

    def clear(self, states: Sequence[State], queue: str | None, before: int | None) -> int:
        """Remove jobs in some states, so many in each transaction that nobody waits long; report how many."""
        where = Filter(states=frozenset(states), queues=None if queue is None else frozenset({queue}))
        removed, after = 0, None
        while True:
            page = Page(after=after, limit=CLEARED)
            found, gone = self.call(lambda batch, page=page: _clear(batch, where, page, before))  # type: ignore[misc]
            removed += gone
            if len(found) < CLEARED:
                return removed
            after = found[-1]

    def pause(self, queue: str, paused: bool) -> None:
        self.call(pause_one(queue, paused))

    def limit(self, queue: str, throttle: Throttle | None) -> None:
        self.call(limit_queue(queue, throttle))

    def put_crons(
        self, group: str, entries: Sequence[NewCron], *, takes_over: str | None = None
    ) -> Sequence[str]:
        self._check_merges([entry.job for entry in entries])
        return self.call(replace_group(group, entries, takes_over=takes_over)).removed

    def has_crons(self, group: str) -> bool:
        return bool(self.call(has_entries(group), durable=False))

    def open_batch(self, on_success: NewJob | None, on_complete: NewJob | None, parent: int | None) -> int:
        given = {Callback.SUCCESS: on_success, Callback.COMPLETE: on_complete}
        jobs = {callback: _pushed(job) for callback, job in given.items() if job is not None}
        return self.call(new_batch(lambda key: jobs, parent=parent))

    def close_batch(self, key: int) -> None:
        self.call(commit_batch(key))

    def breakers(self) -> list[BreakerRow]:
        return self.call(all_breakers, durable=False)

    def close_breaker(self, key: str) -> bool:
        return bool(self.call(close_breaker(key)))

    @cached_property
    def topics(self) -> FileTopics:
        from anew.tasks.file_topics import FileTopics  # programs without topics do not load them

        return FileTopics(self.call, self._webhook_key)

    def source(self, app: Anew) -> Source:
        from anew.tasks.source import EmbeddedSource

        return EmbeddedSource(app, self.commit)

    def call(self, verb: Callable[[Batch], V], *, durable: bool = True) -> V:
        """Run a verb in a transaction; see `Call`."""
        result: V = self.commit.apply(Call(verb, _nobody, durable=durable))
        return result

    def is_busy(self) -> bool:
        return self.commit.is_busy()

    def close(self) -> None:
        """Close the engine."""
        self.commit.close()

    def info(self, batch: Batch, job: Job) -> JobInfo:
        """Give a job as programs see it, inside a batch."""
        errors = batch.store.records.errors(job.key, Page(limit=MOST_ERRORS))
        return JobInfo(
            id=self._ids.write(job.key),
            task=job.type,
            queue=job.queue,
            priority=job.priority,
            state=job.state,
            attempts=job.attempts,
            ready_at=job.ready_at,
            completed_at=job.completed_at,
            result=result_of(job),
            errors=tuple(_error(record) for record in errors),
            waits_for=_waits_for(batch, job),
            payload=job.payload,
            taken_at=job.dequeued_at,
            folded=_folded(batch, job),
        )


def _folded(batch: Batch, job: Job) -> int:
    if not job.hooks & Hook.UNIQUE:
        return 0
    return sum(hooked.folded for hooked in batch.store.hooks.among([job.key]))


def _waits_for(batch: Batch, job: Job) -> str | None:
    if not job.hooks & Hook.LIMITED:
        return None
    for limited in batch.store.key_limits.among([job.key]):
        if limited.standing is KeyStanding.BLOCKED:
            return f"limit {limited.name}"
    return None


def _pushed(job: NewJob) -> PushedJob:
    fields = {name: getattr(job, name) for name in NewJob.__struct_fields__}
    return job if isinstance(job, PushedJob) else PushedJob(**fields)


def _clear(batch: Batch, where: Filter, page: Page, before: int | None) -> tuple[list[int], int]:
    keys = batch.store.find(where, page)
    jobs = batch.store.load(keys)
    gone = [job.key for job in jobs if before is None or ended_at(job) < before]
    return keys, len(batch.delete(gone))


def _error(record: ErrorRecord) -> JobError:
    return JobError(
        attempt=record.attempt,
        outcome=record.outcome,
        error_type=record.error_type,
        message=record.message,
        backtrace=record.backtrace,
        began_at=record.dequeued_at,
        ended_at=record.failed_at,
        reason=_reason(record),
        worker=record.worker,
    )


def _reason(record: ErrorRecord) -> str:
    if record.decision is None:
        return ""
    try:
        shown: Any = msgspec.json.decode(shown_decision(record.decision, record.attempt))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return str(shown.get("reason", ""))


def _nobody(result: object) -> None:
    """Replaced by the engine's own."""
