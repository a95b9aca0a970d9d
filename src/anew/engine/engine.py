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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from anew.clock import Clock
from anew.engine.batch import Batch, Ended, Enqueued, Limits, Numbers, Parts
from anew.engine.cron_firing import fire_due
from anew.engine.fetches import Fetch, Fetches
from anew.engine.lease_time import LeaseTime
from anew.engine.ops import Call, Enqueue, Op
from anew.engine.outbox import Relay, RowsRefused
from anew.engine.reservers import Reservers
from anew.engine.settle import Answers, settle_failures, settle_release, settle_reserved, settle_successes
from anew.engine.stats import Stats
from anew.engine.takers import Dispatcher, Taker
from anew.errors import (
    AnewError,
    Conflict,
    ForkedStore,
    InDoubt,
    InternalError,
    InvalidInput,
    Overloaded,
    StoreBusy,
    StoreFailed,
    StoreFull,
)
from anew.jobs import Defaults, IdText
from anew.jobs.codec import PushedJob, is_folded
from anew.jobs.fold import Expressions
from anew.store.protocol import Store, TakenRow
from anew.units import DAY_MS

log = logging.getLogger("anew.engine")

PROMOTE_JOBS = 150
"""Most jobs promoted in one batch. Small, so that a crowd due at once holds up nobody: with 150, 100,000 due in one instant were
ready 0.8 to 0.9 s later and other enqueues kept a p99 of 4.5 ms; with 1,000 it was 0.5 s and 31 ms."""


class BusyMidway(StoreBusy):
    """The store became busy while operations were applied one by one: those before are applied and answered.

    Attributes:
        left: The others, in order.
    """

    def __init__(self, busy: StoreBusy, left: Sequence[Op]) -> None:
        super().__init__(str(busy))
        self.left = left


def left_of(ops: Sequence[Op], busy: StoreBusy) -> Sequence[Op]:
    """Give those operations of a batch that are to be applied again after `Engine.apply` has met a busy store."""
    return busy.left if isinstance(busy, BusyMidway) else ops


class Engine:
    """Applies operations to one store.

    Args:
        store: Opened and migrated. Other processes may have it open too.
        clock: Time for everything that is decided here.
        defaults: Policy and retention of jobs that set none.
        limits: What is bounded.
        rng: Chance for jitter, numbers in [0, 1).
        expressions: What evaluates the expressions of jobs that are folded together.
        worker: What this process calls itself as a worker, where jobs are run in it.

    Attributes:
        failed: Why nothing is accepted any more, or None.
        stalled: The last transaction did not last; trying again at once would only spin.
        due_at: When the next waiting job is due, epoch ms; None if none waits.
        made_ready: The last batch left more ready jobs in some queue than there were.
        handover: Where it is a list, `apply` calls nobody: what it has to tell, answers and deliveries, is put there as calls, in
            order, for the thread that they belong to.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        defaults: Defaults,
        limits: Limits | None = None,
        rng: Callable[[], float] = random.random,
        expressions: Expressions | None = None,
        worker: str | None = None,
    ) -> None:
        limits = Limits() if limits is None else limits
        self.store = store
        self.clock = clock
        self.ids = IdText(store.identity.tag)
        self.stats = Stats()
        self.failed: StoreFailed | None = None
        self.stalled = self.made_ready = False
        self.handover: list[Callable[[], None]] | None = None
        self._commit_ns = 0  # what the last commit took, without its sync
        self._lease_time = LeaseTime(store, clock)
        self.dispatcher = Dispatcher(
            store,
            self._lease_time,
            global_limit=limits.global_in_flight,
            max_lease_ms=limits.max_lease_ms,
            first_token=secrets.randbits(48) << 8,
        )
        reservers = Reservers(self.dispatcher.gave)
        self.fetches = Fetches(store, self.dispatcher.new_token, self._lease_time, reservers)
        self.parts = Parts(
            store=store,
            dispatcher=self.dispatcher,
            reservers=reservers,
            lease_time=self._lease_time,
            numbers=Numbers(store),
            defaults=defaults,
            limits=limits,
            ids=self.ids,
            stats=self.stats,
            rng=rng,
            expressions=expressions,
            worker=worker,
        )
        self._relay = None if store.outbox is None else Relay(store.outbox)
        self.due_at = store.next_due()
        self._slot_ends_at: int | None = None
        self._cron_at = store.cron.next_slot()
        self._limit_at = store.key_limits.next_look()

    @property
    def session(self) -> int:
        """The number of this process among those that have the store open."""
        return self.store.session

    @property
    def wake_at(self) -> int | None:
        """When the next batch is to come by itself, epoch ms; None: not before something is asked for."""
        cron_at = None if self.parts.full else self._cron_at
        times = (self.due_at, self._slot_ends_at, cron_at, self._limit_at)
        return min((at for at in times if at is not None), default=None)

    # -- the batch

    def apply(self, ops: Sequence[Op]) -> None:
        """Apply a batch, commit it, answer it.

        Every operation's `done` has been called when this returns, or handed over. An operation that fails does so alone; if the
        commit fails, every operation is answered with that, and after `StoreFailed` the engine refuses everything (`failed` is
        set): what was in doubt is settled by the next start.

        Raises:
            StoreBusy: Another process or program is writing just now. What `left_of` gives, mostly all operations, was neither
                done nor answered: apply it again when `store.turns.when_free` says so.
        """
        if self.failed is not None:
            self._answer([(op, self.failed) for op in ops])
            return
        try:
            self._transact(ops)
        except StoreBusy:
            raise
        except StoreFull as error:
            self._apply_when_full(ops, error)
        except StoreFailed as error:
            self._give_up(ops, error)
        except ForkedStore as error:
            self._answer([(op, error) for op in ops])
        except RowsRefused:
            self.apply(ops)  # which moves none this time
        except UnicodeDecodeError as error:
            self._apply_without_damaged(ops, error)
        except Exception as error:
            self._apply_singly(ops, error)

    def _transact(self, ops: Sequence[Op]) -> None:
        """Run one transaction to its commit and answer; an interruption leaves it undone, or done and answered."""
        batch = Batch(self.parts, self.clock.now())
        answers: Answers = []
        unanswered, undelivered = iter(answers), iter(batch.deliveries)
        try:
            self._commit(ops, batch, answers)
            if self.handover is not None:
                self._hand_over(self.handover, answers, batch)
                return
            answer(islice(unanswered, _put_first(answers)))
            if self._sync(unanswered):
                answer(unanswered)
                self._deliver(undelivered, batch.now)
                if batch.ended is not None:
                    self._tell_ended(batch.ended)
        except Exception:
            raise
        except BaseException:  # Ctrl-C in a program that embeds the engine
            if self.store.is_open():
                self._put_back(batch)
            else:
                self.store.rollback()  # it forgets what is remembered, and lets the next process in
                if self._sync(unanswered):
                    answer(unanswered)  # without a commit there are none
                    self._deliver(undelivered, batch.now)
            raise

    def _hand_over(self, handover: list[Callable[[], None]], answers: Answers, batch: Batch) -> None:
        """End a transaction in the same order, with calls that another thread makes."""
        unsynced = _put_first(answers)
        handover.append(partial(answer, answers[:unsynced]))
        unanswered = iter(answers[unsynced:])
        if self._sync(unanswered):
            handover.append(partial(answer, unanswered))
            handover.append(partial(self._deliver, batch.deliveries, batch.now))
            if batch.ended is not None:
                handover.append(partial(self._tell_ended, batch.ended))

    def _answer(self, answers: Answers) -> None:
        """Answer operations that no transaction has, or hand that over."""
        if self.handover is None:
            answer(answers)
        else:
            self.handover.append(partial(answer, list(answers)))

    def _commit(self, ops: Sequence[Op], batch: Batch, answers: Answers) -> None:
        """Run one transaction to its commit; put memory back if it does not get there."""
        counted = self.stats.mark()
        try:
            # Takes, releases and promotions need no sync: losing one in a power cut only offers the job again.
            # A slot that did not reach the disk would be fired again.
            fires = self._cron_at is not None and self._cron_at <= batch.now and not batch.full
            groups, durable = _grouped(ops)
            changed_by_others = self.store.begin(synced=fires or durable)
            batch.now = self._lease_time.look(batch.on_undo)  # what others did must not lie in the future
            if changed_by_others:
                self._look_again()
            self._do_due(batch, fires)
            self._do_asked(groups, batch, answers)
            self._read_times_after(batch)
            completed, failed = self.stats.completed - counted.completed, self.stats.failed - counted.failed
            if completed or failed:
                self.store.count_ended(batch.now // DAY_MS, completed + failed, failed)
            started = time.perf_counter_ns()
            self.made_ready = self.store.commit()
        except (StoreBusy, ForkedStore):  # from `begin`: nothing was done
            raise
        except Exception as error:
            answers.clear()
            self.stats.reset(counted)
            known = error if isinstance(error, StoreFull | StoreFailed) else self.store.explain(error)
            self.stalled = not isinstance(known, StoreBusy)
            if not isinstance(known, StoreFailed):
                self._put_back(batch)
            if known is not None and known is not error:
                raise known from error
            raise
        self.stalled = False
        self._commit_ns = time.perf_counter_ns() - started
        self.stats.batch_size.add(len(ops))
        self.stats.taken += sum(len(rows) for _, rows in batch.deliveries)

    def _do_due(self, batch: Batch, fires: bool) -> None:
        """Do what is due by itself, but for promotions: slots of cron, keys to be looked at, jobs of the outbox."""
        if self.store.slots.limits:
            self.store.slots.pass_time(batch.now, self._lease_time.jumped)
        if fires:
            # Until it is read again: where the entries cannot be read, jobs go on without them.
            self._cron_at = None
            fire_due(batch)
        if self._limit_at is not None and self._limit_at <= batch.now:
            batch.hooks.blocking.look_at_due()
        if self._relay is not None:
            batch.take_goes_on |= self._relay.run(batch)

    def _do_asked(self, groups: Mapping[str, list[Any]], batch: Batch, answers: Answers) -> None:
        """Run the operations, promote what is due, and hand out what is ready."""
        promoted = self._promote(batch, PROMOTE_JOBS)  # first, so that a take finds what is due
        _run(groups, batch, answers)
        self._promote(batch, PROMOTE_JOBS - promoted)
        if (fetches := groups.get("fetch", ())) or self.fetches.waiting():
            self._fetch(fetches, batch, answers)
        batch.take()
        batch.write_hooks()

    def _sync(self, unanswered: Iterator[tuple[Op, Any]]) -> bool:
        """Sync the batch, if it has to be; where that fails the engine has failed, and says so to those that wait for it.

        Where the batch is in doubt they are told that, and all else goes on: what it has written is there.
        """
        started = time.perf_counter_ns()
        try:
            self.store.sync()
        except StoreFailed as error:
            self.stalled = True
            self._give_up([op for op, _ in unanswered], error)
            return False
        except InDoubt as doubt:
            log.error("a batch is in doubt: a failover may undo it", extra={"reason": str(doubt)})
            self._answer([(op, _doubted(result, doubt)) for op, result in unanswered])
        self.stats.commit_ms.add((time.perf_counter_ns() - started + self._commit_ns) / 1e6)
        return True

    def _look_again(self) -> None:
        """Another process has written: what is remembered of the rows is read again."""
        self.parts.taken_away += 1
        self._read_times()
        self.dispatcher.notice_others()
        self.fetches.notice_others()

    def _read_times_after(self, batch: Batch) -> None:
        """Read when what the batch has changed comes due next."""
        if batch.due_changed:
            self.due_at = self.store.next_due()
        if batch.cron_changed:
            self._cron_at = self.store.cron.next_slot()
        if batch.looked():
            self._limit_at = self.store.key_limits.next_look()
        if batch.take_goes_on:
            self._limit_at = batch.now
        self._slot_ends_at = self.store.slots.next_end() if self.store.slots.limits else None

    def _read_times(self) -> None:
        """Read when everything comes due next, whoever has changed it."""
        self.due_at = self.store.next_due()
        self._cron_at = self.store.cron.next_slot()
        self._limit_at = self.store.key_limits.next_look()

    def _put_back(self, batch: Batch) -> None:
        """Undo a transaction in the store and in memory."""
        try:
            self.store.rollback()
            self._read_times()
        except StoreBusy:
            pass  # the way to the store is lost: the next `begin` has all of it read again
        except Exception as error:
            raise StoreFailed("the store could not undo a batch") from error
        self._slot_ends_at = None
        self.dispatcher.undo(batch.deliveries)
        for undo in batch.on_undo:
            undo()
        for key, taker, token in batch.undo:
            self.dispatcher.hold(key, taker, token)

    def _fetch(self, fetches: Sequence[Fetch], batch: Batch, answers: Answers) -> None:
        """Reserve jobs for those that fetch one; before takers that keep a connection, because these wait for one job alone."""
        batch.unblock()
        corrupt: dict[int, str] = {}
        given = self.fetches.run(fetches, batch.now, corrupt, batch.admit)
        batch.on_undo.append(partial(self.fetches.undo, fetches, given))
        answers += given
        self.stats.taken += len(given)
        if corrupt:
            batch.set_aside(corrupt)
        if batch.end_expired() + batch.unblock():
            self.fetches.notice_others()  # a callback of a batch, or a key's next job, perhaps for one of them

    def _promote(self, batch: Batch, most: int) -> int:
        """Make some jobs ready whose time has come; give how many."""
        if batch.due_changed:
            self.due_at = self.store.next_due()
            batch.due_changed = False
        if most <= 0 or self.due_at is None or self.due_at > batch.now:
            return 0
        promoted = self.store.promote(batch.now, most)
        self.stats.promoted += promoted
        batch.due_changed = True
        return promoted

    def _deliver(self, deliveries: Iterable[tuple[Taker, list[TakenRow]]], now: int) -> None:
        """Hand out what was taken; a taker that raises hurts nobody else."""
        for taker, rows in deliveries:
            try:
                taker.deliver(rows, now)
            except Exception:
                log.exception("taken jobs could not be delivered; they are given back")
                self.dispatcher.remove(taker)
                taker.broken()

    def listen_ended(self, listener: Callable[[Ended], None] | None) -> None:
        """Have somebody told after each commit which attempts have ended in it, or nobody."""
        self.parts.on_ended = listener

    def _tell_ended(self, ended: Ended) -> None:
        """Tell the listener; if it raises, that hurts nobody else."""
        if self.parts.on_ended is not None and (ended.completed or ended.failed):
            try:
                self.parts.on_ended(ended)
            except Exception:
                log.exception("who listens to the ends of attempts has failed")

    # -- when a batch does not go through

    def _apply_when_full(self, ops: Sequence[Op], error: StoreFull) -> None:
        """The device is full: refuse new jobs and try the rest; if that is too much still, settle only."""
        self.parts.full = True
        log.error("no space left; new jobs are refused until there is some", extra={"reason": str(error)})
        rest = list(ops)
        refused: Answers = []  # answered at the end: where the store is busy now, all are tried again
        for wanted in (_is_not_new, _settles):
            refused += [(op, error) for op in rest if not wanted(op)]
            rest = [op for op in rest if wanted(op)]
            if not rest and not self.dispatcher.can_take():
                break
            try:
                if self.store.device is not None:
                    self.store.device.free_reserve()
                self._transact(rest)
            except StoreFull as still:
                error = still
                continue
            except StoreBusy:
                raise
            except StoreFailed as failed:
                self._give_up(rest, failed)
            except Exception as other:
                self._answer(refused)  # now, since of the rest some may be left
                refused = []
                self._apply_singly(rest, other)
            break
        else:
            refused += [(op, error) for op in rest]
        self._answer(refused)

    def _give_up(self, ops: Sequence[Op], error: StoreFailed) -> None:
        """The store has failed: nothing is accepted, written or synced from now on."""
        self.failed = error
        self.store.abandon(str(error))
        log.critical("the store failed; nothing more is accepted", extra={"reason": str(error)})
        self._answer([(op, error) for op in ops])

    def _apply_without_damaged(self, ops: Sequence[Op], error: UnicodeDecodeError) -> None:
        """A statement met a text that is no UTF-8: set aside the jobs that have one, mend other rows, and try again."""
        batch = Batch(self.parts, self.clock.now())
        try:
            changed_by_others = self.store.begin(synced=True)
            batch.now = self.clock.now()
            if changed_by_others:
                self._look_again()
            found = self.store.mend_texts()
            batch.set_aside_unreadable(limit=found)
            batch.write_hooks()
            self.store.commit()
            with suppress(InDoubt):  # after a failover it is done once more
                self.store.sync()
        except StoreBusy:
            raise
        except StoreFailed as failed:
            self._give_up(ops, failed)
            return
        except Exception:
            log.exception("damaged jobs could not be set aside")
            self.store.rollback()
            found = 0
        if found:
            log.warning("texts that are no UTF-8 were found and replaced", extra={"rows": found})
            self.parts.recount_due = True
            self.apply(ops)
        else:
            self._apply_singly(ops, error)

    def _apply_singly(self, ops: Sequence[Op], error: Exception) -> None:
        """After an unexpected error, or where the store refuses a value: give each operation its own transaction."""
        if len(ops) <= 1:
            if isinstance(error, InvalidInput):
                self._answer([(op, error) for op in ops])
                return
            log.exception("an operation failed")
            self._answer([(op, InternalError("internal server error")) for op in ops])
            return
        if not isinstance(error, InvalidInput):
            log.exception("a batch failed; applying its operations one by one")
        for at, op in enumerate(ops):
            try:
                self.apply([op])
            except StoreBusy as busy:
                raise BusyMidway(busy, ops[at:]) from busy


def _grouped(ops: Sequence[Op]) -> tuple[Mapping[str, list[Any]], bool]:
    """Sort operations into groups; tell whether any must be synced."""
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    durable = False
    for op in ops:
        groups[op.group].append(op)
        durable = durable or op.durable
    return groups, durable


def _run(groups: Mapping[str, list[Any]], batch: Batch, answers: Answers) -> None:
    """Run operations group by group: new jobs first, then ends of attempts, then the rarer verbs."""
    if enqueues := groups.get("enqueue"):
        _enqueue(enqueues, batch, answers)
    if successes := groups.get("succeed"):
        settle_successes(batch, successes, answers)
    if reserved := groups.get("settle_reserved"):
        settle_reserved(batch, reserved, answers)
    if failures := groups.get("fail"):
        settle_failures(batch, failures, answers)
    for op in groups.get("other", ()):
        answers.append((op, _call(op, batch) if isinstance(op, Call) else settle_release(batch, op)))


def _enqueue(ops: list[Enqueue], batch: Batch, answers: Answers) -> None:
    if batch.full:
        error = StoreFull("no space for new jobs; settling goes on")
        answers += [(op, error) for op in ops]
        return
    if any(map(_stands_apart, ops)):
        answers += [(op, _insert_apart(op, batch)) for op in ops if _stands_apart(op)]
        ops = [op for op in ops if not _stands_apart(op)]
    if len(ops) <= 1:
        answers += [(op, batch.insert(op.jobs, plain=op.plain)) for op in ops]
        return
    jobs = [job for op in ops for job in op.jobs]
    entered = batch.insert(jobs, plain=all(op.plain for op in ops))
    keys, now, usual = entered.keys, entered.now, not entered.existing
    if usual and all(len(op.jobs) == 1 for op in ops):
        answers += [(op, Enqueued((key,), now)) for op, key in zip(ops, keys, strict=True)]
        return
    at = 0
    for op in ops:
        n = len(op.jobs)
        answers.append((op, Enqueued(keys[at : at + n], now) if usual else entered.part(at, n)))
        at += n


def _stands_apart(op: Enqueue) -> bool:
    """Report whether new jobs are stored by themselves: an expression may fail, or a key have been used for others."""
    if op.plain:
        return False
    return op.keyed or (PushedJob in set(map(type, op.jobs)) and any(map(is_folded, op.jobs)))


def _insert_apart(op: Enqueue, batch: Batch) -> Enqueued | AnewError:
    try:
        return op.insert(batch)
    except StoreFailed:
        raise
    except (Conflict, InvalidInput, Overloaded, InternalError) as error:  # from before anything was written
        return error


def _call(op: Call, batch: Batch) -> Any:
    try:
        return op.verb(batch)
    except AnewError as error:
        return error


def _put_first(answers: Answers) -> int:
    """Put the answers that need no sync before those that do, unless all are alike; give how many there are of the former."""
    unsynced = sum(not op.durable for op, _ in answers)
    if 0 < unsynced < len(answers):
        answers.sort(key=_is_durable)
    return unsynced


def _is_durable(answer: tuple[Op, Any]) -> bool:
    return answer[0].durable


def _doubted(result: Any, doubt: InDoubt) -> AnewError:
    """Give what is answered in place of a result that is in doubt; a refusal stays one."""
    return result if isinstance(result, AnewError) else InDoubt(str(doubt), result)


def answer(answers: Iterable[tuple[Op, Any]]) -> None:
    """Call each operation's `done`; one that raises hurts nobody else."""
    for op, result in answers:
        try:
            op.done(result)
        except Exception:
            log.exception("an answer could not be delivered")


def _is_not_new(op: Op) -> bool:
    return not isinstance(op, Enqueue)


def _settles(op: Op) -> bool:
    return op.settles
