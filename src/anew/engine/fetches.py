"""One-shot takes: each gets one job of the first of its queues that has one, at once or when one comes.

What waits is known by queue, in order of arrival, so that a new job costs the same however many wait for other queues.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from operator import attrgetter
from typing import Any

from anew.engine.lease_time import LeaseTime
from anew.engine.ops import Op
from anew.engine.reservers import Reservers
from anew.engine.takers import TURNED_AWAY, Admit
from anew.jobs import HoldKind, Job
from anew.jobs.hooks import SEEN_BY_TAKES
from anew.jobs.terms import policy_readable
from anew.store.protocol import Hold, Store

FETCH_BYTES = 4 << 20
"""Bytes of long payloads that one batch hands out, once it has one job; the next batch goes on."""

_numbers = count(1)
_hooks = attrgetter("hooks")


class Fetch(Op):
    """Reserve one job. Result: the job; nothing once it is called off.

    Strictly in the order of the queues named: a later one is looked into only if those before it have nothing.

    Attributes:
        worker: Who fetches, for limits of one worker; all without an id count as one.
        number: Grows in order of arrival.
        over: It was called off.
    """

    __slots__ = ("number", "over", "queues", "worker")
    group = "fetch"
    durable = False

    def __init__(self, queues: Sequence[str], done: Callable[[Any], None], worker: str | None = None) -> None:
        self.done = done
        self._ask(queues, worker or "")

    def _ask(self, queues: Sequence[str], worker: str) -> None:
        self.queues = tuple(dict.fromkeys(queues))
        self.worker = worker
        self.number = next(_numbers)
        self.over = False


class Fetches:
    """Those of one engine. All in memory, all in the writer's thread.

    Args:
        store: Where ready jobs are.
        new_token: Gives a token that no other take has.
        lease_time: By which reservations end.
        reservers: Are told who gets what.

    Attributes:
        unfinished: Those that wait may have jobs in their queues: another process has written, or a batch has reached a bound.
    """

    def __init__(
        self, store: Store, new_token: Callable[[], int], lease_time: LeaseTime, reservers: Reservers
    ) -> None:
        self._store = store
        self._lease_time = lease_time
        self._new_token = new_token
        self._reservers = reservers
        self._waiting: dict[str, deque[Fetch]] = {}
        self._waits: set[Fetch] = set()
        self.unfinished = False

    def call_off(self, fetch: Fetch) -> None:
        """Have a fetch get nothing any more."""
        fetch.over = True
        self._forget(fetch)

    def notice_others(self) -> None:
        """Another process has written: any queue may have jobs."""
        self.unfinished = bool(self._waits)

    def waiting(self) -> int:
        """Report how many wait for a job."""
        return len(self._waits)

    def run(
        self, new: Iterable[Fetch], now: int, corrupt: dict[int, str], admit: Admit
    ) -> list[tuple[Fetch, Job]]:
        """Reserve jobs for those that can have one, inside the open transaction.

        Args:
            new: Those that have just come; what they cannot have they wait for.
            now: Epoch ms.
            corrupt: Gets jobs that are in flight now too but cannot be read, by key, and what is wrong with them.
            admit: Looks at jobs that are tied to something; gives the keys of those that nobody may get.

        Returns:
            Who gets what. If the transaction does not last, `undo` needs it.
        """
        given: list[tuple[Fetch, Job]] = []
        unserved = dict.fromkeys(fetch for fetch in new if not fetch.over)
        left, turned_away = FETCH_BYTES, 0
        limits = self._store.slots.limits
        while asked := self._assign([*self._woken(), *unserved]):  # nobody is in both
            token, since = self._new_token(), self._lease_time.at(now)
            hold = Hold(HoldKind.RESERVATION, token, self._store.session, since, now)
            found = self._store.reserve([(queue, len(line)) for queue, line in asked.items()], left, hold)
            corrupt.update(found.corrupt)
            jobs = found.jobs
            if any(map(_hooks, jobs)) and (hooked := [job.key for job in jobs if job.hooks & SEEN_BY_TAKES]):
                away = admit(hooked)
                turned_away += len(away)
                jobs = [job for job in jobs if job.key not in away]
            slots: list[tuple[int, str, str]] = []
            for job in jobs:
                if job.policy is not None and not policy_readable(job.policy):
                    corrupt[job.key] = "its policy cannot be read"
                    continue
                fetch = asked[job.queue].popleft()
                given.append((fetch, job))
                slots.append((job.key, job.queue, fetch.worker))
                unserved.pop(fetch, None)
                self._forget(fetch)
                left -= len(job.payload or b"")
            self._reservers.note(slots, token)
            if limits:
                self._store.slots.occupy(slots, now)
            full = left <= 0 or turned_away >= TURNED_AWAY
            if full or not (found.jobs or found.corrupt):  # else nothing is there, whatever a counter says
                self.unfinished = full
                break
            if not unserved and not self._waits:
                break
        for fetch in unserved:
            self._wait(fetch)
        return given

    def undo(self, new: Sequence[Fetch], given: Iterable[tuple[Fetch, Job]]) -> None:
        """A transaction did not last: those that waited before it wait again, in their places; the new ones are forgotten."""
        came = set(new)
        for fetch in came:
            self._forget(fetch)
        for fetch, _ in given:
            if fetch not in came and not fetch.over:
                self._wait(fetch)
        self._waiting = {
            queue: deque(sorted(self._waits.intersection(line), key=_number))
            for queue, line in self._waiting.items()
        }
        self.unfinished = bool(self._waits)

    def _woken(self) -> list[Fetch]:
        """Give those that wait for a queue that has jobs now, in order of arrival, no more than there are jobs."""
        if not self._waits:
            return []
        fresh: Iterable[str] = self._store.queues.fresh_ready()
        if self.unfinished:
            self.unfinished = False
            fresh = self._store.queues.ready_among(self._waiting)
        lines = [self._first(queue) for queue in dict.fromkeys(fresh) if queue in self._waiting]
        return list(dict.fromkeys(heapq.merge(*lines, key=_number)))

    def _first(self, queue: str) -> list[Fetch]:
        """Give the first that wait for a queue, as many as it has jobs."""
        line, most = self._waiting[queue], self._store.queues.takeable(queue)
        limited = queue in self._store.slots.limits
        found: list[Fetch] = []
        for fetch in line:
            if len(found) >= most:
                break
            if fetch in self._waits and (not limited or self._store.queues.takeable(queue, fetch.worker) > 0):
                found.append(fetch)
        return found

    def _assign(self, fetches: Iterable[Fetch]) -> dict[str, deque[Fetch]]:
        """Give to each the first of its queues that has a job left."""
        asked: dict[str, deque[Fetch]] = {}
        left: dict[str, int] = {}
        limits = self._store.slots.limits
        assigned: dict[tuple[str, str], int] = {}  # in queues with a limit: by queue and worker
        for fetch in fetches:
            for queue in fetch.queues:
                if queue not in left:
                    left[queue] = self._store.queues.takeable(queue)
                if left[queue] <= 0:
                    continue
                if queue in limits:
                    mine = assigned.get((queue, fetch.worker), 0)
                    if self._store.queues.takeable(queue, fetch.worker) <= mine:
                        continue
                    assigned[queue, fetch.worker] = mine + 1
                left[queue] -= 1
                if queue in asked:
                    asked[queue].append(fetch)
                else:
                    asked[queue] = deque((fetch,))
                break
        return asked

    def _wait(self, fetch: Fetch) -> None:
        self._waits.add(fetch)
        for queue in fetch.queues:
            self._waiting.setdefault(queue, deque()).append(fetch)

    def _forget(self, fetch: Fetch) -> None:
        """Take one off the lines; from a line's middle it is only dropped when the line's front is reached."""
        self._waits.discard(fetch)
        for queue in fetch.queues:
            line = self._waiting.get(queue)
            while line and line[0] not in self._waits:
                line.popleft()
            if line is not None and not line:
                del self._waiting[queue]


def _number(fetch: Fetch) -> int:
    return fetch.number
