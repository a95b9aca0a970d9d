"""The one bridge between operations and the store: `apply` turns a batch into one transaction.

`apply` is synchronous and belongs to no thread, but only one thread may be in it at a time. It reads the clock once, groups the
batch by verb so that each verb is a handful of statements, hands the ready jobs to waiting takers in the same transaction, commits
with one sync, and only then lets any answer leave.
"""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from anew.clock import Clock
from anew.engine.answers import answer, deliver
from anew.engine.numbers import Numbers
from anew.engine.ops import Call, Enqueue, Fail, Op, Release, Succeed
from anew.engine.settle import release_interrupted, settle_failures, settle_successes
from anew.engine.stats import Stats
from anew.engine.takers import Dispatcher, Taker, Undo
from anew.errors import AnewError, InternalError, StoreFailed, StoreFull
from anew.jobs import Defaults, IdText, Interrupted, NewJob
from anew.store.protocol import Store, TakenRow

log = logging.getLogger("anew.engine")

PROMOTE_JOBS = 150
"""Most jobs promoted in one batch. Small, so that a crowd due at once holds up nobody: with 150, 100,000 due in one instant were
ready 0.8 to 0.9 s later and other enqueues kept a p99 of 4.5 ms; with 1,000 it was 0.5 s and 31 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the engine bounds.

    Attributes:
        global_in_flight: Most jobs in flight over all takers; 0 for no limit.
        max_lease_ms: How long one lease may last.
        min_free_bytes: Below this free space new jobs are refused; settling goes on.
    """

    global_in_flight: int = 1_024
    max_lease_ms: int = 12 * 3_600_000
    min_free_bytes: int = 512 << 20


class Engine:
    """Applies operations to one store.

    Args:
        store: Opened, migrated, exclusively ours.
        clock: Time for everything that is decided here.
        defaults: Policy and retention of jobs that say nothing of their own.
        limits: What is bounded.
        rng: Chance for jitter, numbers in [0, 1).

    Attributes:
        full: New jobs are refused for want of space.
        failed: Why nothing is accepted any more, or None.
        stalled: The last transaction did not last; trying again at once would only spin.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        defaults: Defaults,
        limits: Limits | None = None,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self.store = store
        self.clock = clock
        self.defaults = defaults
        self.limits = Limits() if limits is None else limits
        self.rng = rng
        self.ids = IdText(store.identity.tag)
        self.stats = Stats()
        self.full = False
        self.failed: StoreFailed | None = None
        self.stalled = False
        self.dispatcher = Dispatcher(
            store,
            global_limit=self.limits.global_in_flight,
            max_lease_ms=self.limits.max_lease_ms,
            first_token=secrets.randbits(48) << 8,
        )
        self.numbers = Numbers(store)
        self._undo: Undo = []
        self.due_at = store.next_due()

    # -- the batch

    def apply(self, ops: Sequence[Op]) -> None:
        """Apply a batch, commit it, answer it.

        Every operation's `done` has been called when this returns. An operation that fails does so alone; if the commit fails,
        the whole batch is told so, and after `StoreFailed` the engine refuses everything (`failed` is set): what was in doubt is
        settled by the next start.
        """
        if self.failed is not None:
            answer([(op, self.failed) for op in ops])
            return
        try:
            answers, deliveries, now = self._transact(ops)
        except StoreFull as error:
            self._apply_when_full(ops, error)
        except StoreFailed as error:
            self._give_up(ops, error)
        except Exception:
            self._apply_singly(ops)
        else:
            answer(answers)
            deliver(deliveries, now)

    def _transact(
        self, ops: Sequence[Op]
    ) -> tuple[list[tuple[Op, Any]], list[tuple[Taker, list[TakenRow]]], int]:
        """Run one transaction to its commit; put memory back if it does not get there."""
        now = self.clock.now()
        undo = self._undo = []
        deliveries: list[tuple[Taker, list[TakenRow]]] = []
        counted = self.stats.mark()
        try:
            # Takes, releases and promotions need no sync: losing one in a power cut only offers the job again.
            self.store.begin(synced=any(op.durable for op in ops))
            answers = self._run(ops, now, undo)
            self._promote(now)
            self.dispatcher.run(now, deliveries)
            started = time.perf_counter_ns()
            self.store.commit()
            self.stats.commit_ms.add((time.perf_counter_ns() - started) / 1e6)
        except Exception as error:
            self.stalled = True
            self.stats.reset(counted)
            known = error if isinstance(error, StoreFull | StoreFailed) else self.store.explain(error)
            if not isinstance(known, StoreFailed):
                self._put_back(undo, deliveries)
            if known is not None and known is not error:
                raise known from error
            raise
        self.stalled = False
        self.stats.batch_size.add(len(ops))
        self.stats.taken += sum(len(rows) for _, rows in deliveries)
        return answers, deliveries, now

    def _put_back(self, undo: Undo, deliveries: list[tuple[Taker, list[TakenRow]]]) -> None:
        """Undo a transaction in the store and in memory."""
        try:
            self.store.rollback()
            self.due_at = self.store.next_due()
        except Exception as error:
            raise StoreFailed("the store could not undo a batch") from error
        self.dispatcher.undo(deliveries)
        for key, taker, plain in undo:
            self.dispatcher.hold(key, taker, plain)

    def _run(self, ops: Sequence[Op], now: int, undo: Undo) -> list[tuple[Op, Any]]:
        """Run the operations grouped by verb: new jobs first, then ends of attempts, then the rarer verbs."""
        answers: list[tuple[Op, Any]] = []
        enqueues = [op for op in ops if isinstance(op, Enqueue)]
        if enqueues:
            self._enqueue(enqueues, now, answers)
            if len(enqueues) == len(ops):
                return answers
        successes = [op for op in ops if isinstance(op, Succeed)]
        if successes:
            settle_successes(self, successes, now, answers, undo)
            if len(enqueues) + len(successes) == len(ops):
                return answers
        failures = [op for op in ops if isinstance(op, Fail)]
        if failures:
            settle_failures(self, failures, now, answers, undo)
        for op in ops:
            if isinstance(op, Call):
                answers.append((op, self._call(op, now)))
            elif isinstance(op, Release):
                answers.append((op, self._release(op, now, undo)))
        return answers

    def _enqueue(self, ops: list[Enqueue], now: int, answers: list[tuple[Op, Any]]) -> None:
        if self.full:
            error = StoreFull("no space for new jobs; settling goes on")
            answers += [(op, error) for op in ops]
            return
        jobs = ops[0].jobs if len(ops) == 1 else [job for op in ops for job in op.jobs]
        key = self.numbers.next_keys(len(jobs), now)
        if all(op.plain for op in ops):
            self.store.insert_plain(key, jobs, now)
        else:
            self.store.insert(key, jobs, now)
            self.due_at = self.store.next_due()
        self.stats.enqueued += len(jobs)
        for op in ops:
            answers.append((op, (key, now)))
            key += len(op.jobs)

    def insert_staged(self, first_key: int, jobs: Sequence[NewJob], now: int) -> tuple[int, int]:
        """Store, inside a batch, new jobs whose long payloads were written by earlier ones; give (first key, now)."""
        self.store.insert(first_key, jobs, now, staged=True)
        self.stats.enqueued += len(jobs)
        return first_key, now

    def _call(self, op: Call, now: int) -> Any:
        try:
            result = op.verb(self, now)
        except AnewError as error:
            return error
        self.due_at = self.store.next_due()
        return result

    def _release(self, op: Release, now: int, undo: Undo) -> int:
        taker = op.taker
        keys = sorted(taker.held)
        if op.interrupted:
            release_interrupted(self, keys, Interrupted("worker gone"), now)
        else:
            self.store.release(keys, interrupted=False)
        self.dispatcher.settle(keys, undo)
        self.stats.released += len(keys)
        return len(keys)

    def _promote(self, now: int) -> None:
        if self.due_at is not None and self.due_at <= now:
            self.stats.promoted += self.store.promote(now, PROMOTE_JOBS)
            self.due_at = self.store.next_due()

    def free_slots(self, keys: Iterable[int]) -> None:
        """Note, inside a batch, that jobs are in flight no longer; if the batch does not last, their holders have them again."""
        self.dispatcher.settle(keys, self._undo)

    # -- when a batch does not go through

    def _apply_when_full(self, ops: Sequence[Op], error: StoreFull) -> None:
        """The device is full: refuse new jobs and try the rest; if that is too much still, settle only."""
        self.full = True
        log.error("no space left; new jobs are refused until there is some", extra={"reason": str(error)})
        rest = list(ops)
        for wanted in (_is_not_new, _settles):
            answer([(op, error) for op in rest if not wanted(op)])
            rest = [op for op in rest if wanted(op)]
            if not rest and not self.dispatcher.can_take():
                return
            try:
                self.store.free_reserve()
                answers, deliveries, now = self._transact(rest)
            except StoreFull as still:
                error = still
            except StoreFailed as failed:
                self._give_up(rest, failed)
                return
            except Exception:
                self._apply_singly(rest)
                return
            else:
                answer(answers)
                deliver(deliveries, now)
                return
        answer([(op, error) for op in rest])

    def _give_up(self, ops: Sequence[Op], error: StoreFailed) -> None:
        """The store has failed: nothing is accepted from now on."""
        self.failed = error
        log.critical("the store failed; nothing more is accepted", extra={"reason": str(error)})
        answer([(op, error) for op in ops])

    def _apply_singly(self, ops: Sequence[Op]) -> None:
        """Something in the batch broke in a way nobody foresaw: give each operation a transaction of its own."""
        if len(ops) <= 1:
            log.exception("an operation failed")
            answer([(op, InternalError("internal server error")) for op in ops])
            return
        log.exception("a batch failed; applying its operations one by one")
        for op in ops:
            self.apply([op])


def _is_not_new(op: Op) -> bool:
    return not isinstance(op, Enqueue)


def _settles(op: Op) -> bool:
    return op.settles
