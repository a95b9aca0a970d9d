"""Group commit in an event loop: what one turn of the loop has gathered becomes one batch.

Nothing waits for a timer: a lone operation is applied in the next turn, a crowd shares one sync. Applying right in the loop's
thread needs no hop between threads, which at these rates costs more than the batch itself.

Only where the store is across a network, batches are applied in one thread beside the loop. While one is, the engine is that
thread's, and the loop touches nothing of it: operations gather for the next batch, and what else the edges ask for is noted and
done in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from anew.engine.batch_thread import BatchThread
from anew.engine.engine import Engine, answer, left_of
from anew.engine.fetches import Fetch
from anew.engine.ops import Call, Enqueue, Op, Release, Verb
from anew.engine.staging import PART_BYTES, StagedInserts, payload_bytes
from anew.engine.takers import Taker
from anew.engine.upkeep import Upkeep
from anew.errors import AnewError, Overloaded, StoreBusy

log = logging.getLogger("anew.engine")

GATHER = 48
"""Operations in a batch up to which one more look at the sockets pays, as long as it brings some: with 32 connections, batches
of 30 instead of 20 made acknowledgements a fifth faster. Far larger batches would make clients and server wait in turns."""

LOOKS = 4
"""After so many looks that bring nothing a batch of several operations is applied: their clients are about to answer back, and a
look costs microseconds. A lone operation is given one."""

BATCH_JOBS = 10_000
"""New jobs in a batch, or one request's: some 30 ms. A crowd of bulks takes several, and nobody else waits for all of it."""

WAITING_JOBS = 100_000
"""New jobs that may wait for the next batches, a third of a second's work, unless a single request brings more."""

CLOSING_MS = 2_000
"""How long closing may take, but for its last batch: the loop stands still, so no second signal to stop is heard meanwhile."""

GRACE_S = 0.1
"""How much longer than its time-out a store may take to find out whether another process still writes."""

TICK_S = 1.0
"""Nothing depends on a wake-up alone: this often everything that could be due is looked at."""

POLL_S = 0.05
"""How often to ask whether another process has written, behind the wake-ups that processes send each other."""

BUSY_S = 2.0
"""How long new jobs wait for a lock that somebody else holds; then they are refused, and so are those that come after."""


class _Applied(NamedTuple):
    """What the thread comes back with.

    Attributes:
        told: The engine's answers and deliveries, as calls in order.
        left: Operations that were not done, since somebody else writes.
        busy: Who that is; None if the batch went through.
    """

    told: list[Callable[[], None]]
    left: list[Op]
    busy: StoreBusy | None


class GroupCommit:
    """Gathers operations and applies them together.

    Args:
        engine: What applies them.
        loop: The event loop in whose thread everything happens, but for the batches of a store across a network.
        on_fatal: Called once when the store has failed and the process should end.
        peers: Gives how many clients may send something now: when so many operations have gathered, no more will come.
        max_waiting: Most requests with new jobs that may wait for the next batches; more are refused.
        reap_ms: How often jobs whose retention is over are removed.
    """

    def __init__(
        self,
        engine: Engine,
        loop: asyncio.AbstractEventLoop,
        on_fatal: Callable[[], None],
        *,
        peers: Callable[[], int] = lambda: GATHER,
        max_waiting: int = 2_048,
        reap_ms: int = 30_000,
    ) -> None:
        self.engine = engine
        self._loop = loop
        self._on_fatal = on_fatal
        self._peers = peers
        self._max_waiting = max_waiting
        self._upkeep = Upkeep(reap_ms)
        self._pending: list[Op] = []
        self._again: list[Op] = []
        self._busy_timer: asyncio.TimerHandle | None = None
        self._refusing: StoreBusy | None = None
        self._poll_timer: asyncio.TimerHandle | None = None
        self._wakes: int | None = None
        self._staging = StagedInserts(self.submit, engine.store.staging)
        self._new: deque[Enqueue] = deque()
        self._new_jobs = 0
        self._unreturned: list[tuple[Taker, bool]] = []
        self._scheduled = False
        self._gathered = self._looks = 0
        self._due_timer: asyncio.TimerHandle | None = None
        self._due_armed: int | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._busy_upkeep = False
        self._closed = False
        self._fatal = False
        self._thread = BatchThread(loop) if engine.store.remote else None
        self._in_thread = 0  # operations in the batch that the thread applies
        # While the thread applies a batch: what is to be done after it, the last word on each taker and fetch. Else None.
        self._noted: dict[tuple[object, str], Callable[[], None]] | None = None
        self._others: StoreBusy | None = None  # who kept the thread from applying the last batch

    def start(self) -> None:
        """Begin to keep time."""
        self._arm_due()
        self._tick_timer = self._loop.call_later(TICK_S, self._tick)
        self._wakes = self.engine.store.processes.listen()
        if self._wakes is not None:
            self._loop.add_reader(self._wakes, self._woken)
            self._poll_timer = self._loop.call_later(POLL_S, self._poll)

    def submit(self, op: Op) -> None:
        """Add one operation to the next batch."""
        if self._refusing is not None and not op.waits:
            answer([(op, self._refusing)])
            return
        self._pending.append(op)
        self._wake()

    def submit_new(self, op: Enqueue) -> None:
        """Add new jobs to the next batch, or to the first in which they do not exceed `BATCH_JOBS`; they keep their order.

        Where more is waiting than can be stored soon, or the store has been busy for too long, they are refused at once.
        """
        if self._refusing is not None:
            answer([(op, self._refusing)])
            return
        jobs = self._new_jobs + len(op.jobs)
        if len(self._new) >= self._max_waiting or (self._new and jobs > WAITING_JOBS):
            answer(
                [(op, Overloaded("more new jobs are waiting than can be stored soon; try again in a second"))]
            )
            return
        self._new.append(op)
        self._new_jobs = jobs
        self._wake()

    def submit_long(self, op: Enqueue) -> None:
        """Add new jobs that may be long: over several batches, if one would hold up the others; refused as by `submit_new`."""
        size = payload_bytes(op)
        if size <= PART_BYTES:
            self.submit_new(op)
        else:
            self._staging.add(op, size)

    def call_off(self, fetch: Fetch) -> None:
        """Have a fetch that waits get nothing any more; one that is in the next batch may still get a job."""
        if self._thread is not None and fetch in self._pending:
            self._pending.remove(fetch)  # or they would pile up while the store hangs
        elif self._noted is not None:
            self._noted[fetch, "off"] = partial(self.call_off, fetch)
        else:
            self.engine.fetches.call_off(fetch)

    def add_taker(self, taker: Taker) -> None:
        """Give a taker jobs from the next batch on."""
        if self._noted is not None:
            self._noted[taker, "in"] = partial(self.add_taker, taker)
            return
        self.engine.dispatcher.add(taker)
        self._wake()

    def remove_taker(self, taker: Taker, *, interrupted: bool = True) -> None:
        """Take a taker out and give back what it holds; `interrupted` unless the server itself ended it."""
        if self._noted is not None:
            self._note_removal(taker, interrupted)
            return
        self.engine.dispatcher.remove(taker)
        if taker.held:
            self._give_back(taker, interrupted)

    def _note_removal(self, taker: Taker, interrupted: bool) -> None:
        assert self._noted is not None
        taker.deliver = _deliver_nothing  # what the batch takes for it is given back with the rest
        self._noted.pop((taker, "pause"), None)
        if self._noted.pop((taker, "in"), None) is None:
            self._noted[taker, "out"] = partial(self.remove_taker, taker, interrupted=interrupted)

    def _give_back(self, taker: Taker, interrupted: bool) -> None:
        self.submit(Release(taker, partial(self._given_back, taker, interrupted), interrupted=interrupted))

    def _given_back(self, taker: Taker, interrupted: bool, result: object) -> None:
        if isinstance(result, AnewError):
            # Nothing else would give the jobs back before their leases lapse.
            self._unreturned.append((taker, interrupted))

    def pause_taker(self, taker: Taker) -> None:
        """Give a taker nothing until `resume_taker`."""
        if self._noted is not None:
            self._note_pause(taker, self.pause_taker)
            return
        self.engine.dispatcher.pause(taker)

    def resume_taker(self, taker: Taker) -> None:
        """Give a paused taker jobs again."""
        if self._noted is not None:
            self._note_pause(taker, self.resume_taker)
            return
        self.engine.dispatcher.resume(taker)
        self._wake()

    def _note_pause(self, taker: Taker, change: Callable[[Taker], None]) -> None:
        assert self._noted is not None
        self._noted.pop((taker, "pause"), None)
        self._noted[taker, "pause"] = partial(change, taker)

    def close(self) -> None:
        """Apply what waits and stop keeping time."""
        self._closed = True
        for timer in (self._due_timer, self._tick_timer, self._poll_timer, self._busy_timer):
            if timer is not None:
                timer.cancel()
        if self._wakes is not None:
            self._loop.remove_reader(self._wakes)
        if self._thread is not None:
            self._close_thread(self._thread)
            return
        clock = self.engine.clock
        until = clock.monotonic() + CLOSING_MS
        self._flush()
        while self._waiting() and self.engine.failed is None and not self.engine.stalled:
            if self._again and not self.engine.store.turns.wait_until_free(CLOSING_MS / 1_000):
                self._refuse_all()
                break
            if clock.monotonic() >= until:
                self._drop_all()
                break
            self._flush()  # what is taken in over several batches

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._closed and not self._waiting():
            self.engine.store.turns.let_go()  # a turn that nobody waits for any more
            return
        if self._thread is not None and self._thread.busy:
            return  # it looks for more when it is back
        if self._looks_again(self._waiting()):
            self._loop.call_soon(self._flush)
            return
        self._gathered = self._looks = 0
        self._scheduled = False
        ops = self._next_batch()
        if self._thread is not None:
            self._noted, self._in_thread = {}, len(ops)
            self._begin(self._thread, partial(self._apply_there, ops), self._applied)
            return
        try:
            self.engine.apply(ops)
        except StoreBusy as busy:
            self._wait_until_free([*left_of(ops, busy)])
            return
        self._go_on()

    def _go_on(self) -> None:
        """After a batch: keep time, and have the next one come if there is something for it to do."""
        if self._busy_timer is not None:
            self._stop_refusing()
        if self._new:
            self._wake()
        if self.engine.failed is not None:
            if not self._fatal:
                self._fatal = True
                self._on_fatal()
            return
        if self._closed or self.engine.stalled:
            return  # what did not go through is tried again by the next operation, at the latest by the tick
        if self.engine.dispatcher.waits() or self.engine.fetches.unfinished:
            self._wake()
        self._arm_due()

    # -- the thread of a store across a network

    def _begin(self, thread: BatchThread, work: Callable[[], object], then: Callable[[Any], None]) -> None:
        """Have the thread do something; no batch begins before it is back."""
        self._scheduled = True
        if self._busy_timer is None:
            self._busy_timer = self._loop.call_later(BUSY_S, self._refuse_new)
        thread.start(work, then)

    def _apply_there(self, ops: list[Op]) -> _Applied:
        """In the thread: apply a batch."""
        engine = self.engine
        told: list[Callable[[], None]] = []
        engine.handover = told
        left: list[Op] = []
        others: StoreBusy | None = None
        try:
            engine.apply(ops)
        except StoreBusy as busy:
            left, others = [*left_of(ops, busy)], self._who_is_busy(busy)
        except Exception:
            log.exception("a batch failed")
        engine.handover = None
        return _Applied(told, left, others)

    def _who_is_busy(self, busy: StoreBusy) -> StoreBusy:
        """In the thread: ask who writes."""
        try:
            return self.engine.store.turns.busy()
        except Exception:  # the next batch meets it as well
            return busy

    def _applied(self, batch: _Applied) -> None:
        """The thread has applied a batch, or met a busy store: tell everybody, then do what was noted meanwhile."""
        # Where others write the next batch comes when the store is free, and not before.
        self._scheduled = batch.busy is not None
        self._in_thread, self._others = 0, batch.busy
        for tell in batch.told:
            tell()
        noted, self._noted = self._noted, None
        for change in (noted or {}).values():
            change()
        if batch.busy is not None:
            self._wait_until_free(batch.left)
            return
        self._go_on_after_thread()

    def _go_on_after_thread(self) -> None:
        if self._waiting():
            self._wake()
        self._go_on()
        if self._closed and self._thread is not None:
            self._thread.end()

    def _look_there(self) -> bool:
        """In the thread: ask whether another process has written."""
        try:
            return self.engine.store.turns.has_changed()
        except Exception:  # a batch meets it too, and says what it means
            return True

    def _looked(self, changed: bool) -> None:
        self._scheduled = False
        if changed:
            self._wake()
        self._go_on_after_thread()

    def _close_thread(self, thread: BatchThread) -> None:
        """Apply what waits, and leave the thread to itself where that takes too long: it may hang."""
        engine = self.engine
        until = engine.clock.monotonic() + CLOSING_MS

        def left_s() -> float:
            return (until - engine.clock.monotonic()) / 1_000

        self._flush()
        while thread.wait(left_s()):
            if not self._waiting() or engine.failed is not None or engine.stalled:
                thread.end()
                return
            if self._again and not self._wait_there(thread, left_s()):
                break
            if left_s() <= 0:
                self._drop_all()
                return
            self._flush()
        refused = self._waiting()
        self._refuse_all()
        if thread.busy:
            what = "the database does not answer; the process ends without it"
            log.error(what, extra={"refused": refused, "in_doubt": self._in_thread})
            thread.forget()
            engine.store.abandon(what)

    def _wait_there(self, thread: BatchThread, timeout_s: float) -> bool:
        """Have the thread wait while somebody else writes; report whether that is over."""
        free: list[bool] = []
        thread.start(partial(self.engine.store.turns.wait_until_free, timeout_s), free.append)
        return thread.wait(timeout_s + GRACE_S) and free[0]

    # -- while somebody else writes

    def _wait_until_free(self, ops: list[Op]) -> None:
        """Keep operations that could not be applied, in order, until the store is free."""
        self._again = ops
        self._scheduled = True
        if self._refusing is not None:
            self._refuse_new()
        elif self._busy_timer is None:
            self._busy_timer = self._loop.call_later(BUSY_S, self._refuse_new)
        self.engine.store.turns.when_free(self._free)

    def _free(self) -> None:
        """Called from another thread: go on."""
        try:
            self._loop.call_soon_threadsafe(self._flush)
        except RuntimeError:  # the loop has closed
            self.engine.store.turns.let_go()

    def _refuse_new(self) -> None:
        """Refuse what does not wait for longer, new jobs above all, until the store is free; all else waits on."""
        if self._refusing is None:
            self._refusing = self._busy()
            log.warning("new jobs are refused while the store is busy", extra={"reason": str(self._refusing)})
        busy = self._refusing
        refused: list[Op] = [op for op in (*self._again, *self._pending, *self._new) if not op.waits]
        self._again = [op for op in self._again if op.waits]
        self._pending = [op for op in self._pending if op.waits]
        self._new.clear()
        self._new_jobs = 0
        answer([(op, busy) for op in refused])

    def _refuse_all(self) -> None:
        """The process ends while somebody else holds the store: what waits was not done."""
        busy = self._busy()
        answer([(op, busy) for op in self._take_all()])

    def _busy(self) -> StoreBusy:
        """Say why nothing goes through."""
        if self._thread is None:
            return self.engine.store.turns.busy()
        if self._others is not None:
            return self._others
        return StoreBusy(f"the database has not answered for {BUSY_S:.0f} seconds; try again")

    def _stop_refusing(self) -> None:
        assert self._busy_timer is not None
        self._busy_timer.cancel()
        self._busy_timer = self._refusing = None

    def _woken(self) -> None:
        """Another process has committed ready jobs: look, if anybody could have some; all else is left to the poll."""
        self.engine.store.processes.hear()
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        if self._noted is not None:
            self._noted[self, "woken"] = self._serve_waiting
        elif self.engine.dispatcher.wants() or self.engine.fetches.waiting() > 0:
            self._wake()

    def _poll(self) -> None:
        self._poll_timer = self._loop.call_later(POLL_S, self._poll)
        if self._scheduled or self.engine.failed is not None:
            return
        if self.engine.dispatcher.checks():
            self._wake()
        elif self._thread is not None:
            self._begin(self._thread, self._look_there, self._looked)
        elif self.engine.store.turns.has_changed():
            self._wake()

    # -- batches

    def _waiting(self) -> int:
        """Report how many operations wait for a batch."""
        return len(self._pending) + len(self._new) + len(self._again)

    def _drop_all(self) -> None:
        log.warning("long payloads that nobody waits for any more are dropped")
        self._take_all()  # or the loop's last turns would go on with them

    def _take_all(self) -> list[Op]:
        """Take everything that waits."""
        ops = [*self._again, *self._pending, *self._new]
        self._again, self._pending, self._new_jobs = [], [], 0
        self._new.clear()
        return ops

    def _looks_again(self, waiting: int) -> bool:
        """Report whether to look for more before the next batch is applied."""
        if waiting >= GATHER or waiting >= self._peers() or self._closed:
            return False
        if waiting > self._gathered:
            self._gathered = waiting
            self._looks = LOOKS if waiting > 1 else 1
        else:
            self._looks -= 1
        return self._looks > 0

    def _next_batch(self) -> list[Op]:
        """Take what waits, but of the new jobs no more than a batch's."""
        ops = self._again + self._pending
        self._again, self._pending = [], []
        if self._new_jobs <= BATCH_JOBS:
            ops += self._new
            self._new.clear()
            self._new_jobs = 0
            return ops
        jobs = 0
        while self._new and (not jobs or jobs + len(self._new[0].jobs) <= BATCH_JOBS):
            op = self._new.popleft()
            jobs += len(op.jobs)
            ops.append(op)
        self._new_jobs -= jobs
        return ops

    def _arm_due(self) -> None:
        """Have the next batch run when the next waiting job is due, or something else happens by itself."""
        due = self.engine.wake_at
        wait_ms = None if due is None else due - self.engine.clock.now()
        overdue = wait_ms is not None and wait_ms <= 0
        if due == self._due_armed and self._due_timer is not None and not overdue:
            return
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None
        self._due_armed = due
        if overdue:
            self._wake()
        elif wait_ms is not None and wait_ms < 3_600_000:
            self._due_timer = self._loop.call_later(wait_ms / 1_000, self._due)

    def _due(self) -> None:
        self._due_timer = None
        self._due_armed = None
        self._wake()

    def _tick(self) -> None:
        self._tick_timer = self._loop.call_later(TICK_S, self._tick)
        self._keep_up()
        self._staging.tidy()
        unreturned, self._unreturned = self._unreturned, []
        for taker, interrupted in unreturned:
            self._give_back(taker, interrupted)

    def _keep_up(self) -> None:
        """Do what is due by itself, some in each batch, until nothing more is."""
        if not self._busy_upkeep and not self._closed:
            self._busy_upkeep = True
            self.submit(Call(self._upkeep.run, self._kept_up))

    def _kept_up(self, more: object) -> None:
        self._busy_upkeep = False
        if more is True:
            self._keep_up()
        self._upkeep.recount(self.engine.parts, self._correct)

    def _correct(self, verb: Verb) -> None:
        """Called from another thread: write what a recount has found."""
        with suppress(RuntimeError):  # the loop has closed
            self._loop.call_soon_threadsafe(self.submit, Call(verb, _ignore))


def _deliver_nothing(rows: object, now: int) -> None:
    """Its taker has been removed."""


def _ignore(result: object) -> None:
    """Nobody waits for this result."""
