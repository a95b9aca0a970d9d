"""Group commit of a program's threads: the first to come commits for all who queue behind it.

No event loop is needed, and no thread is kept for it while one process writes alone. A thread that finds nobody at work leads: it
applies what has gathered, its own operation among it, and then hands the lead to the first who has come meanwhile. Where another
process is writing, the leader waits, and the thread in which the store waits for its turn applies what has gathered by then.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from anew.engine.batch import Batch
from anew.engine.engine import Engine, left_of
from anew.engine.ops import Call, Enqueue, Fail, Op, Succeed, Verb
from anew.engine.upkeep import Upkeep
from anew.errors import AnewError, Conflict, ForkedStore, StoreBusy
from anew.jobs import Failed, HoldKind, Job, NewJob
from anew.store.protocol import Hold, TakenRow

log = logging.getLogger("anew.engine")

BUSY_S = 2.0
"""How long an operation waits for a lock that another process holds."""

POLL_S = 0.05
"""How often whoever waits for jobs looks by itself, behind the wake-ups that processes send each other."""

CLOSE_S = 10.0
"""How long a close waits for the calls of other threads, each of which may wait for a lock itself."""

POLL_CLOSE_S = 0.001

FORK_S = 5.0
"""How long a fork waits for the transactions of other threads; they may wait for another process."""

UPKEEP_S = 1.0

MOST_OPS = 1_000
"""Operations in one batch."""

TAKE_BYTES = 4 << 20
"""Bytes of long payloads in one take, once it has one job."""


class TakenJobs:
    """Jobs that were taken together, under one token.

    Attributes:
        goes_on: So many were met that may not start that others were left; the next take goes on behind them.
    """

    __slots__ = ("goes_on", "now", "rows", "token")

    def __init__(self, rows: list[TakenRow], token: int, now: int, *, goes_on: bool = False) -> None:
        self.rows = rows
        self.token = token
        self.now = now
        self.goes_on = goes_on


class _Waiter:
    """The place in the queue of the operations that one thread has brought.

    Attributes:
        led: Its thread applies, or has applied, what had gathered.
        results: The results of those that are answered, by place. An interruption cannot come between the call of a dict's own
            method and its end.
        lock: Released when all have been answered, or when its thread is to lead.
    """

    __slots__ = ("led", "lock", "ops", "results")

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = ops
        self.led = False
        self.results: dict[int, Any] = {}
        self.lock = threading.Lock()
        self.lock.acquire()
        for at, op in enumerate(ops):
            op.done = partial(self.results.__setitem__, at)

    def is_answered(self) -> bool:
        """Report whether all its operations are."""
        return len(self.results) == len(self.ops)

    def left(self) -> Sequence[Op]:
        """Give the operations that are not answered yet."""
        return [op for at, op in enumerate(self.ops) if at not in self.results]

    def wake(self) -> None:
        """Have its thread look; nothing where it has been told already."""
        with suppress(RuntimeError):
            self.lock.release()


class _Turn:
    """A leader's wait for the store's turn.

    Attributes:
        duties: To be applied with what has gathered.
        left: Those that were not, since the store was busy once more.
        error: What applying has raised.
        over: Released when the turn has been used.
    """

    __slots__ = ("duties", "error", "left", "over")

    def __init__(self, duties: Sequence[Op]) -> None:
        self.duties = duties
        self.left: Sequence[Op] | None = None
        self.error: BaseException | None = None
        self.over = threading.Lock()
        self.over.acquire()


class ThreadCommit:
    """An engine for any number of threads of one process.

    Args:
        engine: What applies operations.
        busy_s: How long an operation waits while another process or program holds the store's lock.

    Attributes:
        on_interrupted: Called, by whichever thread is in a call, with jobs whose process has died while they ran, once this process
            has given them back; must not wait.
    """

    def __init__(self, engine: Engine, *, busy_s: float = BUSY_S) -> None:
        self.engine = engine
        self._busy_s = busy_s
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._queue: dict[_Waiter, None] = {}
        self._leader: _Waiter | None = None
        # Beside the lead: who was interrupted as it waited for a turn gives up the lead, and the turn may be in use.
        self._applying = threading.RLock()
        self._turn: _Turn | None = None
        self._is_turn_asked = False
        self.on_interrupted: Callable[[Sequence[Job]], None] = _nobody
        self._is_closed = False
        self._upkeep = Upkeep()
        self._upkeep_at = time.monotonic()
        _open.add(self)
        # Taken by itself: a `with` of the condition is a call in Python, and an interruption at its end would keep the lock.
        self._sleepers = threading.RLock()
        self._jobs_came = threading.Condition(self._sleepers)
        self._readied = 0
        self._listening = threading.Lock()
        self._wakes: int | None = None
        # When something was due that a sleep has been cut short for, epoch ms.
        self._passed: int | None = None

    # -- verbs

    def enqueue(self, jobs: Sequence[NewJob], *, plain: bool = False) -> Sequence[int]:
        """Store new jobs, all or none; give their keys.

        Raises:
            StoreBusy: Another process or program holds the store's lock; nothing was stored.
            StoreFull, StoreFailed: See `AnewError`.
        """
        keys: Sequence[int] = self.apply(Enqueue(jobs, _nobody, plain)).keys
        return keys

    def take(self, queues: Sequence[str] | None, limit: int, *, timeout_s: float = 0.0) -> TakenJobs:
        """Take the first ready jobs, which this process then holds until it settles them, gives them back or dies.

        Args:
            queues: From which; None means all.
            limit: Most jobs, >= 1.
            timeout_s: How long to wait for the first one.
        """
        until = time.monotonic() + timeout_s
        while True:
            seen = self.seen
            # No sync: in a power cut a lost take only offers the jobs again.
            take = Call(lambda batch: take_for_session(batch, queues, limit), _nobody, durable=False)
            taken: TakenJobs = self.apply(take)
            left = until - time.monotonic()
            if taken.rows or left <= 0:
                return taken
            if not taken.goes_on:
                self.sleep(left, seen)

    def succeed(self, keys: Sequence[int], token: int | None = None) -> list[int]:
        """Complete jobs; give those that were no longer in flight (or no longer under this token)."""
        tokens = None if token is None else [token] * len(keys)
        missing: list[int] = self.apply(Succeed(keys, _nobody, tokens))
        return missing

    def fail(self, key: int, failure: Failed, token: int | None = None) -> Job:
        """Report a failed attempt; give the job as it is now.

        Raises:
            NotFound: It is no longer in flight, or no longer under this token.
        """
        job: Job = self.apply(Fail(key, failure, _nobody, token))
        return job

    def release(self, keys: Sequence[int], token: int) -> None:
        """Give jobs back to their place, uncounted; those no longer held under this token are left alone."""
        self.apply(Call(lambda batch: _release(batch, keys, token), _nobody, durable=False))

    def apply(self, op: Op) -> Any:
        """Apply one operation with whatever else has gathered; give its result once it is on the disk.

        An exception that comes from outside, such as Ctrl-C, leaves it undone or done as a whole, and hurts no other thread.

        Raises:
            AnewError: Its result is one.
            ForkedStore: This process was forked after the store was opened.
        """
        (result,) = self.apply_all([op])
        if isinstance(result, AnewError):
            raise result
        return result

    def apply_all(self, ops: Sequence[Op]) -> list[Any]:
        """Apply operations with whatever else has gathered; give their results, AnewErrors among them, once all are on the disk.

        Operations of one call are mostly one batch; more than `MOST_OPS` are several.

        Raises:
            Conflict: It was closed.
            ForkedStore: This process was forked after the store was opened.
        """
        if os.getpid() != self._pid:  # whoever had the mutex at the fork, or was to lead, is not here
            raise ForkedStore
        waiter = _Waiter(ops)
        try:
            with self._mutex:
                if self._is_closed:
                    raise Conflict("it was closed by another thread meanwhile; nothing was done")
                self._queue[waiter] = None
                self._leader = self._leader or waiter
            while not waiter.is_answered():
                if self._leader is waiter:
                    self._lead()
                else:
                    waiter.lock.acquire()
        finally:
            try:
                self._leave(waiter)
            except BaseException:  # done again, or nobody would lead from now on
                self._leave(waiter)
                raise
        return [waiter.results[at] for at in range(len(ops))]

    def _leave(self, waiter: _Waiter) -> None:
        """Leave the queue; who leads wakes those that are answered and the next one to lead. To do it twice does no harm."""
        with self._mutex:
            self._queue.pop(waiter, None)
            if self._leader is waiter:
                waiter.led = True
                self._leader = next((other for other in self._queue if not other.is_answered()), None)
            if waiter.led:
                for other in self._queue:
                    if other.is_answered() or other is self._leader:
                        other.wake()

    def is_busy(self) -> bool:
        """Report whether some thread is in a call just now."""
        return self._leader is not None

    def has_changed(self) -> bool:
        """Report whether another process has written since this one's last transaction; True too while one is under way."""
        if not self._applying.acquire(blocking=False):
            return True
        try:
            return self.engine.store.turns.has_changed()
        except Exception:  # a transaction meets it too, and says what it means
            return True
        finally:
            self._applying.release()

    def hold_still(self) -> bool:
        """Wait until no other thread is in a transaction, and let none begin one before `go_on`; report whether it succeeded."""
        return self._applying.acquire(timeout=FORK_S)

    def go_on(self) -> None:
        """Let transactions begin again."""
        self._applying.release()

    def close(self) -> None:
        """Close the store once no other thread is in a call; from now on calls are refused.

        Raises:
            StoreBusy: A call does not end; the store stays open.
        """
        with self._mutex:  # who is past the look at it is in the queue
            self._is_closed = True
        until = time.monotonic() + CLOSE_S
        # SQLite takes a second thread for a failure, and that would stop every process on the file.
        while self._queue:
            if time.monotonic() > until:
                raise StoreBusy("a call of another thread does not end; the store stays open")
            time.sleep(POLL_CLOSE_S)
        self.engine.store.close()
        if self.engine.parts.expressions is not None:
            self.engine.parts.expressions.close()

    # -- the lead

    def _lead(self) -> None:
        """Apply what has gathered, the caller's operation among it. Who is not answered waits on, for whoever leads next."""
        try:
            left = self._apply(self._duties())
            until = time.monotonic() + self._busy_s
            while left is not None:
                left = self._have_applied(_Turn(left), until)
        except BaseException:  # Ctrl-C, perhaps when the turn had come and was not used yet
            self.engine.store.turns.let_go()
            raise

    def _apply(self, duties: Sequence[Op]) -> Sequence[Op] | None:
        """Apply what has gathered, and duties; give the duties that are left if the store is busy."""
        with self._applying:
            with self._mutex:  # also what has come while others had their turn
                ops = [op for waiter in self._queue for op in waiter.left()][:MOST_OPS]
            try:
                self.engine.apply([*ops, *duties])
            except StoreBusy as error:
                left = left_of([*ops, *duties], error)
                return [op for op in duties if op in left]
            if self.engine.made_ready:
                self.wake()
        return None

    def _have_applied(self, turn: _Turn, until: float) -> Sequence[Op] | None:
        """Wait until the store's turn has come to this process and been used; who has waited for too long is refused.

        Returns:
            The duties that are left if the store is busy again.
        """
        with self._mutex:
            self._turn = turn
            if not self._is_turn_asked:  # else it was, for one who waits no longer
                self.engine.store.turns.when_free(self._take_turn)
                self._is_turn_asked = True
        try:
            if not turn.over.acquire(timeout=max(until - time.monotonic(), 0.0)):
                if self._call_off(turn):
                    self._refuse(turn.duties)
                    return None
                turn.over.acquire()  # it is being used
        except BaseException:  # Ctrl-C
            self._call_off(turn)
            raise
        if turn.error is not None:
            raise turn.error
        return turn.left

    def _take_turn(self) -> None:
        """Lead where the turn has come, in a thread of the store: every other process waits while it goes from thread to thread."""
        with self._mutex:
            self._is_turn_asked = False
            turn, self._turn = self._turn, None
        if turn is None:
            self.engine.store.turns.let_go()
            return
        try:
            turn.left = self._apply(turn.duties)
        except BaseException as error:  # the leader's to raise
            turn.error = error
        with self._mutex:
            for waiter in self._queue:
                if waiter.is_answered():
                    waiter.wake()
        turn.over.release()

    def _call_off(self, turn: _Turn) -> bool:
        """Have nothing applied when the turn comes; report whether it had not come yet."""
        with self._mutex:
            waits = self._turn is turn
            self._turn = None
        return waits

    def _refuse(self, duties: Sequence[Op]) -> None:
        with self._mutex:
            ops = [op for waiter in self._queue for op in waiter.left()]
        busy = self.engine.store.turns.busy()
        for op in (*ops, *duties):
            op.done(busy)

    def _duties(self) -> list[Op]:
        """Give what is to be done once a second by whichever process comes first."""
        now = time.monotonic()
        if now - self._upkeep_at < UPKEEP_S:
            return []
        self._upkeep_at = now
        return [Call(self._upkeep.run, self._kept_up)]

    def _kept_up(self, more: object) -> None:
        if more is True:
            self._upkeep_at = 0.0
        if self._upkeep.interrupted and not isinstance(more, AnewError):
            self.on_interrupted(self._upkeep.interrupted)
        self._upkeep.recount(self.engine.parts, self._correct)

    def _correct(self, verb: Verb) -> None:
        """Called from a separate thread: write what a recount has found."""
        with suppress(AnewError):  # it is found again at the next occasion
            self.apply(Call(verb, _nobody))

    # -- waiting for jobs

    @property
    def seen(self) -> int:
        """The number of batches that had made jobs ready, or of calls of `wake`: for `sleep`."""
        return self._readied

    def sleep(self, seconds: float, seen: int) -> None:
        """Wait until jobs may have come, here or in another process: one thread listens for all.

        Args:
            seconds: For how long at most. It is never longer than an interval in which other processes must be looked after.
            seen: What `seen` was before the caller looked for jobs: what came since then is not slept over.
        """
        seconds = min(seconds, self._until_due())
        if not self._listening.acquire(blocking=False):
            self._sleep_here(seconds, seen)
            return
        try:
            if self._wakes is None:
                self._wakes = self.engine.store.processes.listen()
            if self._wakes is None:
                self._sleep_here(seconds, seen)
            elif self._readied == seen and select.select([self._wakes], [], [], seconds)[0]:
                self.engine.store.processes.hear()
                with self._sleepers:
                    self._jobs_came.notify_all()
        finally:
            self._listening.release()

    def _sleep_here(self, seconds: float, seen: int) -> None:
        with self._sleepers:
            if self._readied == seen:
                self._jobs_came.wait(seconds)

    def wake(self) -> None:
        """Wake all threads that sleep."""
        with self._sleepers:
            self._readied += 1
            self._jobs_came.notify_all()
        if self._listening.locked():
            self.engine.store.processes.poke_self()

    def _until_due(self) -> float:
        """Give how long to sleep at most, in seconds: until the next waiting job is due, and no longer than a poll's interval."""
        due_at = self.engine.wake_at
        if due_at is None:
            return POLL_S
        left_ms = due_at - self.engine.clock.now()
        if left_ms > 0:
            return min(POLL_S, left_ms / 1_000)
        # Nobody has looked since it was due: a worker without a free slot sleeps on, and does not spin.
        passed, self._passed = self._passed, due_at
        return POLL_S if passed == due_at else 0.0


def _release(batch: Batch, keys: Sequence[int], token: int) -> None:
    held = batch.store.held_under([(key, token) for key in keys])
    batch.release(sorted(key for key, _ in held), None)


def take_for_session(batch: Batch, queues: Sequence[str] | None, limit: int) -> TakenJobs:
    """Take the first ready jobs for this process, inside a batch's transaction; see `ThreadCommit.take`."""
    store = batch.store
    batch.unblock()  # for jobs that were settled in this transaction
    token = batch.new_token()
    ready = queues if queues is None else [queue for queue in queues if store.queues.takeable(queue)]
    if ready is not None and not ready:
        return TakenJobs([], token, batch.now)
    hold = Hold(HoldKind.SESSION, token, store.session, None, batch.now)
    rows = batch.take_under(hold, ready, limit, TAKE_BYTES)
    return TakenJobs(rows, token, batch.now, goes_on=batch.take_goes_on)


def _nobody(result: object) -> None:
    """Replaced by the waiter's own."""


# -- forks

_open: weakref.WeakSet[ThreadCommit] = weakref.WeakSet()
_forking = threading.local()


def _before_fork() -> None:
    """Have no other thread in a transaction at a fork: in the child, SQLite would take the file for locked by it for good."""
    _forking.still = [commit for commit in list(_open) if commit.hold_still()]


def _after_fork() -> None:
    for commit in _forking.still:
        commit.go_on()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)
