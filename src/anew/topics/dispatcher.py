"""The dispatcher: takes deliveries, sends them, and reports what became of them, until it is stopped.

What has come back is settled and new deliveries are taken in one transaction, in the event loop's own thread: a thread beside it
would fight it for the interpreter's lock at each statement (measured: 3.0 to 3.7 k deliveries a second, 3.8 to 4.2 k like this).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from anew.engine import Batch, Call, ThreadCommit
from anew.errors import AnewError, InDoubt, StoreBusy
from anew.store.topics import SubscriptionRow
from anew.topics.exchange import Answer, Outgoing
from anew.topics.outcome import is_delivered
from anew.topics.publishing import health_of
from anew.topics.registry import drop
from anew.topics.sending import outgoing
from anew.topics.settling import Sent, put_back, settle
from anew.topics.taking import Assignment, take
from anew.topics.terms import TopicTerms

log = logging.getLogger("anew.topics")

SLOTS: Final = 200
"""Requests at one time."""

SLOW_MS: Final = 1_000
"""An endpoint that took longer for its last answer, or has not answered for so long, is slow."""

MOST_WAITING: Final = 1_000
"""Deliveries to endpoints that fail or are slow, which wait here for a slot; further ones go back for a moment."""

MOST_KNOWN: Final = 10_000
"""Subscriptions of which it remembers how soon they have answered."""

IDLE_S: Final = 0.05
"""How long it waits at most before it looks for deliveries that nobody has told it of."""

GATHER_S: Final = 0.002
"""With half of its slots busy it lets so much time pass for others to come back, which then share a sync."""

UPKEEP_MS: Final = 250
"""How often it sees to what is due by itself, such as the deliveries of a dispatcher that has died."""

ENDED_CHUNK: Final = 500
"""Subscriptions whose time is over that one look removes."""

ENDED_EVERY_MS: Final = 1_000

Send = Callable[[Outgoing], Awaitable[Answer]]


class Dispatcher:
    """Sends the deliveries of one store, beside whichever other dispatchers do.

    Endpoints whose last attempt has failed, or which are slow, may hold half of the slots together: they leave room for others.
    Who turns out to be slow counts from then on; beyond that half it holds further slots, as many again at most.

    Args:
        commit: The engine of this process.
        terms: What holds for topics.
        send: Makes one exchange.
        slots: Requests at one time.

    Attributes:
        sent: Attempts that have ended, by outcome: ``delivered`` or ``failed``.
    """

    def __init__(self, commit: ThreadCommit, terms: TopicTerms, send: Send, *, slots: int = SLOTS) -> None:
        self._commit = commit
        self._terms = terms
        self._send = send
        self._slots = slots
        self._ids = commit.engine.ids
        self._clock = commit.engine.clock
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], Assignment] = {}
        self._suspects: set[asyncio.Task[None]] = set()
        self._is_quick: dict[int, bool | None] = {}  # by subscription; None: its first answer is waited for
        self._waiting: deque[Assignment] = deque()
        self._ended: deque[Sent] = deque()
        self._put_back: deque[Assignment] = deque()
        self._held = 0  # taken and not settled
        self._woken = asyncio.Event()
        self._stopping = False
        self._looked_at = 0
        self._seen: int | None = None
        self.sent = {"delivered": 0, "failed": 0}

    async def run(self) -> None:
        """Send until `stop`, and then wait for what runs.

        Raises:
            AnewError: The store failed.
        """
        # Deliveries that were taken and are not settled when this process dies are known by their attempts.
        self._commit.engine.store.processes.note_begun(0, 0)
        pokes = self._commit.engine.store.processes.listen()
        if pokes is not None:
            self._loop.add_reader(pokes, self._poked)
        try:
            while not (self._stopping and not self._held):
                if self._exchange():
                    await asyncio.sleep(0)
                else:
                    await self._wait()
                if self._held - len(self._waiting) > self._slots // 2:
                    await asyncio.sleep(GATHER_S)
        finally:
            if pokes is not None:
                self._loop.remove_reader(pokes)

    def stop(self) -> None:
        """Take nothing more, and end when what runs has come back."""
        self._stopping = True
        for given in self._waiting:
            self._put_back.append(given)
        self._waiting.clear()
        self._woken.set()

    def cut_off(self) -> None:
        """Cut off what still runs; its deliveries go back, and are sent again."""
        for task in self._tasks:
            task.cancel()

    # -- exchanging with the store

    def _exchange(self) -> bool:
        """Settle, put back and take, in one transaction; report whether there was anything."""
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        back = [self._put_back.popleft() for _ in range(len(self._put_back))]
        running = self._held - len(ended) - len(back) - len(self._waiting)
        now = self._clock.now()
        looks = now - self._looked_at >= UPKEEP_MS
        if looks:
            self._find_slow(now)
        free = 0 if self._stopping else self._free(running)
        if not (ended or back or looks or (free > 0 and self._has_news(now))):
            return False
        seen = self._commit.seen

        def verb(batch: Batch) -> list[Assignment]:
            settle(batch, self._terms, ended)
            put_back(batch, back)
            if looks:
                remove_ended(batch)
            return take(batch, self._terms, free) if free > 0 else []

        try:
            given = self._assigned(Call(verb, _nobody, durable=bool(ended)))
        except StoreBusy:  # another program writes: again, when it has had its time
            self._ended.extendleft(reversed(ended))
            self._put_back.extendleft(reversed(back))
            return False
        if looks:
            self._looked_at = now
        # As long as something came or went, more may be there, or may start now.
        self._seen = None if given or ended or back or free <= 0 else seen
        self._held += len(given) - len(ended) - len(back)
        self._begin(given)
        return bool(given or ended or back)

    def _assigned(self, call: Call) -> list[Assignment]:
        try:
            given: list[Assignment] = self._commit.apply(call)
        except InDoubt as doubt:  # it is written all the same, and what was taken is to be sent
            given = doubt.result
        return given

    def _free(self, running: int) -> int:
        beyond = max(len(self._suspects) - self._slots // 2, 0)
        return min(self._slots - running + beyond, 2 * self._slots - running)

    def _find_slow(self, now: int) -> None:
        """Note which endpoints have not answered for long."""
        for task, given in self._tasks.items():
            if now - given.started_at > SLOW_MS and task not in self._suspects:
                self._suspects.add(task)
                self._note(given.subscription.id, False)

    def _has_news(self, now: int) -> bool:
        """Report whether deliveries may be there that were not at the last look, when there were none."""
        engine, due_at = self._commit.engine, self._commit.engine.wake_at
        is_due = due_at is not None and due_at <= now
        return self._seen != self._commit.seen or is_due or engine.store.turns.has_changed()

    async def _wait(self) -> None:
        """Wait until something has come back, or deliveries may have come."""
        self._woken.clear()
        if self._ended or self._put_back:
            return
        due_at = self._commit.engine.wake_at
        left_s = IDLE_S if due_at is None else (due_at - self._clock.now()) / 1_000
        timer = self._loop.call_later(min(max(left_s, 0), IDLE_S), self._woken.set)
        await self._woken.wait()
        timer.cancel()

    def _poked(self) -> None:
        """Another process has stored something."""
        self._commit.engine.store.processes.hear()
        self._woken.set()

    # -- the loop that sends

    def _begin(self, given: Sequence[Assignment]) -> None:
        for one in given:
            if not self._is_suspect(one.subscription):
                self._start(one)
            elif len(self._suspects) < self._slots // 2:
                self._suspects.add(self._start(one))
            elif len(self._waiting) < MOST_WAITING and not self._stopping:
                self._waiting.append(one)
            else:
                self._put_back.append(one)

    def _is_suspect(self, subscription: SubscriptionRow) -> bool:
        """Report whether an endpoint may hold up others. One that nothing is known of is not, for one request."""
        if health_of(subscription.health).failures:
            return True
        if subscription.id not in self._is_quick:
            self._note(subscription.id, None)
            return False
        return not self._is_quick[subscription.id]

    def _start(self, given: Assignment) -> asyncio.Task[None]:
        task = self._loop.create_task(self._run(given))
        self._tasks[task] = given
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._suspects.discard(task)
        if self._waiting and len(self._suspects) < self._slots // 2:
            self._suspects.add(self._start(self._waiting.popleft()))

    async def _run(self, given: Assignment) -> None:
        headers: tuple[str, ...] = ()
        digest = ""
        answer: Answer | None = None
        try:
            request = outgoing(given, self._terms, self._ids, self._clock.now())
            headers, digest = tuple(request.headers), hashlib.sha256(request.body).hexdigest()
            answer = await self._send(request)
        except asyncio.CancelledError:
            pass  # reported as interrupted; nobody waits for this task
        except AnewError as error:
            log.error("a delivery cannot be made", extra={"reason": str(error)})
            answer = Answer(error="proxy")
        except Exception:
            log.exception("a delivery has failed by a fault of our own")
            answer = Answer(error="proxy")
        if answer is not None:
            self.sent["delivered" if is_delivered(answer) else "failed"] += 1
            self._has_answered(given.subscription.id, answer.duration_ms <= SLOW_MS)
        self._ended.append(Sent(given, answer, headers, digest))
        self._woken.set()

    def _note(self, subscription: int, is_quick: bool | None) -> None:
        if subscription not in self._is_quick and len(self._is_quick) >= MOST_KNOWN:
            del self._is_quick[next(iter(self._is_quick))]  # of this one nothing is known again
        self._is_quick[subscription] = is_quick

    def _has_answered(self, subscription: int, is_quick: bool) -> None:
        """Note how soon an endpoint has answered; what waited for that to be known begins."""
        was_quick = self._is_quick.get(subscription)
        self._note(subscription, is_quick)
        if was_quick or not is_quick:
            return
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if one.subscription.id == subscription and not self._is_suspect(one.subscription):
                self._start(one)
            else:
                self._waiting.append(one)


def _nobody(result: object) -> None:
    """Replaced by the waiter's own."""


def remove_ended(batch: Batch) -> None:
    """Remove subscriptions whose time is over, unless another dispatcher has just done so."""
    if batch.store.is_due("topics", batch.now, ENDED_EVERY_MS):
        drop(batch, batch.store.topics.ending_subscriptions(batch.now, ENDED_CHUNK))
