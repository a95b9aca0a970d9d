"""Everything that anybody reads of the store: short reads at once, long ones in a thread beside the loop.

Whoever shows jobs asks here, so that no edge touches a store. Where each read waits for a network, short ones are done with the
next batch, in its transaction: a crowd of them shares one, and they see what was answered before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from anew.engine.ops import Call, Op
from anew.errors import AnewError, InternalError, Overloaded
from anew.jobs import ENDED, ErrorRecord, Job, State
from anew.jobs.codec import OWN_QUEUE
from anew.jobs.hooks import Hook, Hooked
from anew.jobs.limits import Throttle
from anew.jobs.unique import Lock
from anew.store.key_limit_rows import LimitedJob
from anew.store.page_reads import PageReads
from anew.store.protocol import Reader, Store
from anew.store.selection import Filter, Page
from anew.store.topics import TopicFigures

log = logging.getLogger("anew.engine")

MAX_WAITING = 200
"""Long reads that may wait for the thread; more are refused."""

MAX_LOOKS = 64
"""Pages that may wait for it; more are refused."""

MAX_LONG_PAGES = 8
"""Pages that may be read in parts at a time where each part waits for a network; they may have 32 MiB each."""

CLOSE_S = 2.0
"""How long closing waits for a read across a network, which may hang."""

BUDGET_MS = 4
"""Time that answers to long reads may take in one turn of the loop, but for the last of them: a page may have megabytes."""

FEW_QUEUES = 100
"""Named queues whose counters are read at once, some 0.2 ms."""

Part = TypeVar("Part")
Made = TypeVar("Made")

Counts = Mapping[str, Mapping[State, int]]
"""Jobs by queue and state; queues without a job are left out."""


class Overview(NamedTuple):
    """What the counters say.

    Attributes:
        counts: See `Counts`.
        listed: The listed queues, and whether each is paused.
        ended: The attempts that have ended by day (UTC, days since the Unix epoch): all, and those that failed.
    """

    counts: Counts
    listed: Mapping[str, bool]
    ended: Mapping[int, tuple[int, int]]


class Ties(NamedTuple):
    """What a job is tied to.

    Attributes:
        job: Its ties.
        lock: The lock of its unique key, whoever holds it; None if nobody does, or it has no key.
        limited: How it stands with the key that bounds it; None if none does.
    """

    job: Hooked
    lock: Lock | None
    limited: LimitedJob | None = None


Then = Callable[[Any], None]
"""Called in the loop's thread with what was read, or with an AnewError."""


class Reads:
    """Reads one store, between its batches or beside them.

    Args:
        store: What is read; the thread gets its own reader.
        loop: Where results of long reads are handed back.
        submit: Where each read waits for a network: adds an operation to the next batch. None: none does.
    """

    def __init__(
        self, store: Store, loop: asyncio.AbstractEventLoop, submit: Callable[[Op], None] | None = None
    ) -> None:
        self._store = store
        self._submit = submit
        self._long_pages = 0
        self._reader: Reader = store.reader()
        self._loop = loop
        self._thread = _ReaderThread()
        self._waiting = 0
        self._looks: deque[tuple[Callable[[PageReads], Any], Then]] = deque()
        self._done: deque[tuple[Future[Any], Then]] = deque()
        self._turning = False
        self._closed = False

    # -- short reads

    def at_once(self, read: Callable[[], Made], then: Then) -> None:
        """Do some of the short reads below, and go on with what was made of them.

        Args:
            read: Does them; may raise an AnewError.
            then: Called with what `read` returned, before this returns; or, where reads wait for a network, with that or an
                AnewError, in a later turn of the loop.
        """
        if self._submit is None:
            then(read())
        else:
            self._submit(Call(lambda batch: read(), then, durable=False, waits=False))

    def in_parts(
        self, parts: Sequence[Part], read: Callable[[Part], Made], then: Then, *, bounded: bool = True
    ) -> None:
        """The same in parts, each read when `then` asks for it; or, where reads wait for a network, all before, a batch each.

        Args:
            parts: What to read.
            read: Does it for one of them.
            then: Called with an iterable of what was read, or with an AnewError; see `at_once`.
            bounded: What is read may be long.

        Raises:
            Overloaded: Too much is being read that may be long.
        """
        if self._submit is None:
            then(map(read, parts))
            return
        if bounded and self._long_pages >= MAX_LONG_PAGES:
            raise Overloaded("too many long pages are asked for at once; try again in a second")
        self._long_pages += bounded
        made: list[Made] = []

        def go_on(result: Any = None) -> None:
            if isinstance(result, AnewError) or len(made) == len(parts):
                self._long_pages -= bounded
                then(result if isinstance(result, AnewError) else made)
            else:
                self.at_once(lambda: made.append(read(parts[len(made)])), go_on)

        go_on()

    # -- inside of `at_once` and `in_parts`

    def job(self, key: int, *, payload: bool = False) -> Job | None:
        """Give one job; None if there is none."""
        jobs = self._store.load([key], payload=payload)
        return jobs[0] if jobs else None

    def jobs(self, keys: Sequence[int], *, payload: bool = True) -> dict[int, Job]:
        """Give jobs by key, with their payloads or without; unknown keys are left out."""
        return {job.key: job for job in self._store.load(keys, payload=payload)}

    def payload_sizes(self, keys: Sequence[int]) -> dict[int, int]:
        """Give the bytes of jobs' payloads without reading them; unknown keys are left out."""
        return self._store.payload_sizes(keys)

    def ties(self, key: int) -> Ties | None:
        """Give what a job is tied to; None if to nothing."""
        for job in self._store.hooks.among([key]):
            locks = [] if job.digest is None else self._store.hooks.locks([job.digest])
            limited = self._store.key_limits.among([key]) if job.hooks & Hook.LIMITED else []
            return Ties(job, locks[0][0] if locks else None, limited[0] if limited else None)
        return None

    def errors(self, key: int, page: Page, most_bytes: int | None = None) -> list[ErrorRecord]:
        """Give the records of a job's failed attempts; `page.after` is an attempt's number.

        Ends with the record by which messages and backtraces have passed `most_bytes`.
        """
        return self._store.records.errors(key, page, most_bytes)

    def dropped_errors(self, key: int) -> list[tuple[str, str, int]]:
        """Count the attempts of a job whose records were dropped: outcome, error type (or ""), how many."""
        return self._store.records.dropped_errors(key)

    def last_errors(self, keys: Sequence[int]) -> dict[int, ErrorRecord]:
        """Give the latest record of each job that has one, its message cut, without backtrace and decision."""
        return self._store.records.last_errors(keys)

    def known_count(self, where: Filter) -> int | None:
        """Count matching jobs of a few named queues by the counters; None if they do not know; see `_known`."""
        if where.queues is None or len(where.queues) > FEW_QUEUES or not where.only_counts():
            return None
        return _known(where, self._store.queues.counts(where.queues))

    def limits(self) -> Mapping[str, Throttle]:
        """Give the limits of queues as this process saw them last; queues without one are left out. From anywhere."""
        return dict(self._store.slots.limits)

    # -- beside the loop

    def find(self, where: Filter, page: Page, then: Then) -> None:
        """Find the keys of matching jobs in order of key; see `later`."""
        self.later(lambda reader: reader.find(where, page), then)

    def count(self, where: Filter, then: Then) -> None:
        """Count matching jobs; see `later`."""

        def count(reader: Reader) -> int:
            known = _known(where, reader.counts()) if where.only_counts() else None
            return reader.count(where) if known is None else known

        self.later(count, then)

    def counts(self, make: Callable[[Counts], Any], then: Then) -> None:
        """Read the counters of all queues and make something of them, both in the thread; see `later`."""
        self.later(lambda reader: make(reader.counts()), then)

    def figures(self, make: Callable[[Counts, int | None, TopicFigures], Any], then: Then) -> None:
        """The same of the counters and since when the longest waiting of all first ready jobs has been ready, epoch ms or None."""
        self.later(
            lambda reader: make(reader.counts(), reader.oldest_ready(), reader.topic_figures(OWN_QUEUE)), then
        )

    def overview(self, make: Callable[[Overview], Any], then: Then) -> None:
        """Read all counters and make something of them, both in the thread; see `later`."""
        self.later(
            lambda reader: make(Overview(reader.counts(), reader.listed(), reader.ended())),
            then,
        )

    def ready_since(
        self, queues: Sequence[str], make: Callable[[Mapping[str, int]], Any], then: Then
    ) -> None:
        """Read since when the first ready job of each of some queues has been ready, epoch ms; see `later`."""
        self.later(lambda reader: make(reader.ready_since(queues)), then)

    def look(self, make: Callable[[PageReads], Any], then: Then) -> None:
        """Make a page of several reads, all in the thread; see `later`.

        Only one page is made at a time, so that other reads wait for one page at most, however many look.
        """
        if len(self._looks) >= MAX_LOOKS:
            raise Overloaded("too many pages are waiting; try again in a second")
        self._looks.append((make, then))
        if len(self._looks) == 1:
            self._next_look()

    def _next_look(self) -> None:
        make, then = self._looks[0]

        def done(result: Any) -> None:
            self._looks.popleft()
            if self._looks:
                self._next_look()
            then(result)

        try:
            self.later(make, done)
        except Overloaded as error:
            done(error)

    def later(self, function: Callable[[Reader], Any], then: Then) -> None:
        """Run a long read in the thread and hand its result back.

        Args:
            function: Called with the thread's reader.
            then: Called in the loop's thread with what the function returned, or with an AnewError.

        Raises:
            Overloaded: Too many reads are waiting.
        """
        if self._closed:
            then(Overloaded("the server is shutting down"))
            return
        if self._waiting >= MAX_WAITING:
            raise Overloaded("too many lists and counts are waiting; try again in a second")
        self._waiting += 1
        future = self._thread.submit(function, self._reader)
        future.add_done_callback(lambda done: self._hand_back(done, then))

    def close(self) -> None:
        """Let the read in progress end, and close the reader; reads that wait or come later get an Overloaded."""
        self._closed = True
        if self._thread.end(None if self._submit is None else CLOSE_S):
            self._reader.close()
        else:
            log.error("a read of the database has not ended in time; the process ends without it")

    def _hand_back(self, done: Future[Any], then: Then) -> None:
        self._done.append((done, then))
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop has closed; nobody waits for an answer any more
            log.debug("a read ended after the server")

    def _wake(self) -> None:
        if not self._turning:
            self._turning = True
            self._turn()

    def _turn(self) -> None:
        """Answer what is done, for so long; the rest waits for later turns, so that others are served in between."""
        end = time.perf_counter() + BUDGET_MS / 1_000
        try:
            while self._done:
                self._deliver(*self._done.popleft())
                if time.perf_counter() >= end:
                    break
        finally:
            self._turning = bool(self._done)
            if self._turning:
                self._loop.call_soon(self._turn)

    def _deliver(self, done: Future[Any], then: Then) -> None:
        self._waiting -= 1
        if done.cancelled():
            then(Overloaded("the server is shutting down"))
            return
        error = done.exception()
        if error is None:
            then(done.result())
        elif isinstance(error, AnewError):
            then(error)
        else:
            log.error("a read failed", exc_info=error)
            if isinstance(error, UnicodeDecodeError) and self._submit is None:
                with contextlib.suppress(UnicodeDecodeError):
                    self._store.queues.counts()  # what mends a damaged name is the store's having met it
            then(InternalError("internal server error"))


class _ReaderThread:
    """One read after the other in a thread, which begins with the first. The process does not wait for it at its end."""

    def __init__(self) -> None:
        self._works: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, function: Callable[[Reader], Any], reader: Reader) -> Future[Any]:
        """Read something when those before it are done."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work_off, name="anew-reader", daemon=True)
            self._thread.start()
        future: Future[Any] = Future()
        self._works.put((future, lambda: function(reader)))
        return future

    def end(self, timeout_s: float | None) -> bool:
        """Cancel what waits, and wait for what is under way; report whether that has ended in time."""
        with contextlib.suppress(Empty):
            while (work := self._works.get_nowait()) is not None:
                work[0].cancel()
        if self._thread is None:
            return True
        self._works.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work_off(self) -> None:
        while (work := self._works.get()) is not None:
            future, read = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(read())
            except Exception as error:
                future.set_exception(error)


def _known(where: Filter, counts: Counts) -> int | None:
    """Count matching jobs by the counters; None if they do not know, as with ended jobs, whose retention may be over."""
    total = 0
    for queue in counts if where.queues is None else where.queues & counts.keys():
        for state, n in counts[queue].items():
            if where.states is not None and state not in where.states:
                continue
            if n and state in ENDED:
                return None
            total += n
    return total
