"""What is derived by queue: how many jobs it has in each state, and which ready job is first in its line.

There is one index of ready jobs, by queue. The head of each queue's line stands in the queue's row, under an index over all
queues, so that a take from all queues looks at no more queues than it takes jobs, however many there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

from anew.jobs.codec import OWN_QUEUE
from anew.jobs.key_limits import Place
from anew.jobs.state import State
from anew.store.protocol import FIRST_PLACE
from anew.store.sql.rows import BLOCKED, CODE, COUNTED, IN_FLIGHT, READY
from anew.store.sql.slots import Slots
from anew.store.sql.statements import Run, in_lists, in_widths, write_rows

T = TypeVar("T")
Counted = Mapping[str, Mapping[State, int]]

Head = tuple[int, int, str]
"""The place of the first job in a queue's line, and the queue."""

Heads = Mapping[str, Place | None]
"""Who is first in some queues; None: nobody."""

FirstKeys = Mapping[tuple[str, int], int]
"""By queue and priority, the smallest key of some jobs."""

MOST_QUEUES = 100_000
"""Queues whose rows are kept in memory; above that they are read again when they are needed."""

MOST_CHANGED = 500
"""Changed queues whose heads a take from all queues compares with the stored ones; where there are more, they are written first."""

SHORT = 8
"""Queues with at most so many ready jobs are read whole, many in one statement."""

FEW = 8
"""Up to so many long queues are each read from the start; of more the second places are found together, mostly enough."""

_AT: dict[int | None, int] = {code: at for at, code in enumerate(COUNTED.values())}
_READY_AT, _IN_FLIGHT_AT, _BLOCKED_AT = _AT[READY], _AT[IN_FLIGHT], _AT[BLOCKED]
_EMPTY = [0] * len(_AT)
_UNSEEN: Place = (-2, -2)


class _Queue:
    """One queue, as the open transaction has made it.

    Attributes:
        jobs: How many it has in each state, in the order of `COUNTED`.
        head: The place of its first ready job; None if it has none, `_UNSEEN` if it must be looked up.
        start: No ready job of it stands before this place, so that searches begin there. For as long as a transaction is open, or
            a dump runs, PostgreSQL keeps the index entries of all that has left the line since: a search from the line's
            beginning would step over every one of them.
        flags: Whether it is listed without a job, and whether it is paused: its line has no head then.
        stored_jobs, stored_flags, stored_head: What its row says. A queue without jobs and flags has no row.
    """

    __slots__ = ("flags", "head", "jobs", "start", "stored_flags", "stored_head", "stored_jobs")

    def __init__(self, row: Sequence[Any]) -> None:
        self.jobs: list[int] = list(row[:-4])
        self.flags = self.stored_flags = (row[-4], row[-3])
        self.head: Place | None = None if row[-1] is None else (row[-2], row[-1])
        self.stored_jobs: list[int] = self.jobs.copy()
        self.stored_head = self.head
        self.start = FIRST_PLACE if self.head is None else self.head

    def ready(self) -> int:
        """Give how many of its jobs are ready, in its line or blocked."""
        return self.jobs[_READY_AT] + self.jobs[_BLOCKED_AT]

    def in_line(self) -> int:
        """Give how many jobs stand in its line."""
        return 0 if self.flags[1] else self.jobs[_READY_AT]


class Queues:
    """The rows of one store's queues. What has no text here is said in `anew.store.queue_rows.QueueRows`.

    Memory is a cache of the rows: a queue's row is read when it is needed first, written before each commit, and forgotten
    after a rollback and when another process has written. Where a queue's ready jobs have changed, its head is looked up when
    it is needed.

    Args:
        run: Runs a statement on the writer's connection, with its own cursor for each.
        write: Runs one that gives nothing, with one cursor for all: it takes half the time.
        suspect: Called where `counts` meets a name that is no UTF-8.

    Attributes:
        slots: What bounds the jobs in flight of some queues.
    """

    def __init__(self, run: Run, write: Run, suspect: Callable[[], None]) -> None:
        self._run, self._alter, self._suspect = run, write, suspect
        self.slots = Slots(run, write, self._touch_all)
        self._known: dict[str, _Queue] = {}
        self._changed: dict[str, _Queue] = {}
        # No head in a row stands before it: searches begin there, see `_Queue.start`.
        self._first = FIRST_PLACE
        # Of the changed ones, those whose head must be looked up.
        self._unseen: dict[str, _Queue] = {}
        # Queues whose ready jobs the open transaction has counted anew, and how many there were before it.
        self._ready_before: dict[str, int] = {}

    def forget(self) -> None:
        """Drop what is remembered: the rows are read again."""
        self._known.clear()
        self._changed.clear()
        self._unseen.clear()
        self._ready_before.clear()
        self._first = FIRST_PLACE
        self.slots.forget()

    def read(self, queues: Iterable[str]) -> None:
        """Read the rows of many queues at once, where they are not known."""
        unknown = [queue for queue in queues if queue not in self._known]
        if not unknown:
            return
        for part in in_lists(unknown):
            for name, *row in self._run("read_queues", part, len(part)):
                self._known[name] = _Queue(row)
        for queue in unknown:
            if queue not in self._known:
                self._known[queue] = _Queue((*_EMPTY, 0, 0, None, None))

    def clear(self) -> None:
        """Forget all jobs, in memory and in the table."""
        self._run("empty_queue")
        self.forget()

    def settle(self) -> bool:
        """Write what has changed, before the commit; report whether some queue has more ready jobs than before."""
        more = any(self.takeable(name) > max(before, 0) for name, before in self._ready_before.items())
        self._flush()
        self._ready_before.clear()
        self.slots.over.clear()
        if len(self._known) > MOST_QUEUES:
            self._known.clear()
        return more

    def _flush(self) -> None:
        """Write the rows that have changed; those of queues without jobs leave the table."""
        self._see_changed()
        counted: list[tuple[Any, ...]] = []
        written: list[tuple[Any, ...]] = []
        dropped: list[str] = []
        flagged: list[tuple[Any, ...]] = []
        for name, queue in self._changed.items():
            jobs, head = queue.jobs, queue.head
            if queue.flags != queue.stored_flags:
                flagged.append((name, *queue.flags))
                queue.stored_flags = queue.flags
                if jobs == _EMPTY and not any(queue.flags):
                    dropped.append(name)
            if head != queue.stored_head:
                written.append((name, *jobs, *(head or (None, None))))
                self._first = min(self._first, head or self._first)
            elif jobs != queue.stored_jobs:
                counted.append((name, *jobs))
            else:
                continue
            if jobs == _EMPTY and not any(queue.flags):
                (counted if head == queue.stored_head else written).pop()
                dropped.append(name)
            queue.stored_jobs, queue.stored_head = jobs.copy(), head
        self._changed.clear()
        # Counters go without the heads, whose index stays as it is.
        for statement, rows in (
            ("write_counters", counted),
            ("write_queues", written),
            ("write_flags", flagged),
        ):
            if rows:
                write_rows(self._alter, statement, rows)
        for gone in in_lists(dropped):
            self._alter("drop_queues", gone, len(gone))

    def _get(self, name: str) -> _Queue:
        queue = self._known.get(name)
        if queue is None:
            self.read((name,))
            queue = self._known[name]
        return queue

    # -- counters

    def move(self, counted: Mapping[str, int], before: int | None, after: int | None) -> None:
        """Count so many jobs of some queues out of the state with one code and into that with another; None: from or to nowhere."""
        known, changed, limits = self._known, self._changed, self.slots.limits
        if not counted.keys() <= known.keys():
            self.read(counted)
        out, into = _AT.get(before), _AT.get(after)
        for name, n in counted.items():
            queue = changed[name] = known[name]
            jobs = queue.jobs
            if limits and name in limits:
                self._touch(name)
                if before == IN_FLIGHT:
                    self.slots.freed(name)
                    if limits[name].per_worker is not None:
                        self._ready_before[name] = 0  # one worker may take now what was there for others
            elif READY in (before, after):
                self._ready_before.setdefault(name, queue.in_line())
            if out is not None:
                jobs[out] -= n
            if into is not None:
                jobs[into] += n

    def takeable(self, queue: str, worker: str | None = None) -> int:
        known = self._known.get(queue) or self._get(queue)
        ready = 0 if known.flags[1] else known.jobs[_READY_AT]
        if ready <= 0 or queue not in self.slots.limits:
            return ready
        return self.slots.free(queue, ready, known.jobs[_IN_FLIGHT_AT], worker)

    def cap(self, name: str, wanted: int) -> int:
        """Give how many of so many wanted jobs a queue's limit leaves to somebody without an id."""
        return min(wanted, self.takeable(name, "")) if name in self.slots.limits else wanted

    def fresh_ready(self) -> list[str]:
        touched = self._ready_before
        if self.slots.over:
            touched = {**touched, **dict.fromkeys(self.slots.over, 0)}
        return [name for name in touched if self.takeable(name) > 0]

    def _touch_all(self, names: Iterable[str]) -> None:
        """Have the open transaction look at queues again of which more may be taken now."""
        for name in names:
            self._touch(name)

    def _touch(self, name: str) -> None:
        if name not in self._ready_before:
            self._ready_before[name] = self.takeable(name)

    def counts(self, queues: Collection[str] | None = None) -> Counted:
        try:
            return self._counted(queues)
        except UnicodeDecodeError:
            self._suspect()
            raise

    def _counted(self, queues: Collection[str] | None) -> Counted:
        if queues is None:
            found = self._run("read_counters").fetchall()
        else:
            parts = in_lists(list(queues))
            found = [row for part in parts for row in self._run("read_queues", part, len(part))]
        found += [
            (name, *queue.jobs) for name, queue in self._changed.items() if queues is None or name in queues
        ]
        return counted(found)

    def total(self) -> int:
        """Count all jobs."""
        return sum(sum(states.values()) for states in self.counts().values())

    # -- flags

    def keep_listed(self, queues: Iterable[str]) -> None:
        for name in queues:
            queue = self._get(name)
            if not queue.flags[0]:
                queue.flags = (1, queue.flags[1])
                self._changed[name] = queue

    def pause(self, queues: Collection[str] | None, paused: bool) -> None:
        self._flush()
        if queues is None:
            queues = [name for (name,) in self._run("known_queues").fetchall()]
        self.read(queues)
        for name in queues:
            queue = self._get(name)
            if queue.flags[1] != paused and (queue.flags[0] or queue.ready() > 0):
                self._set_flags(name, (1, int(paused)))

    def unlist(self, queues: Collection[str] | None) -> None:
        self._flush()
        flagged = [name for (name,) in self._run("flagged_queues").fetchall()]
        for name in flagged if queues is None else queues:
            self._set_flags(name, (0, 0))

    def _set_flags(self, name: str, flags: tuple[int, int]) -> None:
        queue = self._get(name)
        self._touch(name)
        queue.flags = flags
        self.change(name)

    # -- heads

    def start(self, name: str) -> Place:
        """Give a place before which no ready job of a queue stands."""
        return self._get(name).start

    def change(self, name: str, *, came: bool = True) -> None:
        """Note that a queue's ready jobs are others than before; unless some `came`, some have only left."""
        queue = self._get(name)
        queue.head = _UNSEEN
        if came:
            queue.start = FIRST_PLACE
        self._changed[name] = self._unseen[name] = queue

    def append(self, places: Iterable[tuple[str, int]], keys: Callable[[], FirstKeys]) -> None:
        """Note that jobs with the largest keys so far are ready.

        Args:
            places: Their queues and priorities.
            keys: Gives the smallest key of each of these, in a mapping; called where a queue gets a new head.
        """
        found: FirstKeys | None = None
        for name, priority in places:
            queue = self._get(name)
            if queue.flags[1]:
                continue
            if queue.head is None or queue.head[0] > priority:
                found = keys() if found is None else found
                queue.head = queue.start = (priority, found[name, priority])
                self._changed[name] = queue
            elif priority < queue.start[0]:  # its head must be looked up
                queue.start = FIRST_PLACE

    def took(self, heads: Heads) -> None:
        """Note who is first now in queues from which jobs were taken."""
        for name, head in heads.items():
            queue = self._get(name)
            queue.head = head
            if head is not None:
                queue.start = head
            self._changed[name] = queue
            self._unseen.pop(name, None)

    def any_ready(self) -> bool:
        return bool(self._first_foreign(1))

    def ready_among(self, queues: Collection[str]) -> list[str]:
        heads = self._first_heads(len(queues) + 1)
        if len(heads) <= len(queues):
            return [name for _, _, name in heads if name in queues]
        self.read(queues)
        return [name for name in queues if self.takeable(name) > 0]

    def heads(self, queues: Sequence[str] | None, limit: int) -> list[Head]:
        """Find the heads of the queues that the first `limit` ready jobs are in, of some (each named once) or of all; in order."""
        return self._first_foreign(limit) if queues is None else self._heads_of(queues, limit)

    def first(self, heads: Sequence[Head], limit: int) -> tuple[list[int], Heads]:
        """Find the first ready jobs of some queues in order; each queue is read no further than needed.

        Args:
            heads: The queues, as `heads` gives them for this limit.
            limit: The most keys to give.

        Returns:
            Their keys, and for each queue that they are of, who is first in it behind them.
        """
        heap = list(heads)
        limits = self.slots.limits
        left = {name: self.takeable(name, "") for _, _, name in heap if name in limits} if limits else {}
        self.read([name for _, _, name in heap])
        lines = self._behind([name for _, _, name in heap], limit)
        keys: list[int] = []
        touched: dict[str, Place | None] = {}
        while heap and len(keys) < limit:
            _, key, name = heap[0]
            keys.append(key)
            behind = touched[name] = next(lines[name], None) if name in lines else None
            if left and name in left:
                left[name] -= 1
            if behind is None or left.get(name) == 0:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (*behind, name))
        return keys, touched

    def first_of_each(self, wanted: Mapping[str, int]) -> tuple[list[int], Heads]:
        """Find the first ready jobs of each of several queues, so many of each; otherwise as `first`."""
        self.read(wanted)
        self._see_changed()
        lines = self._behind(list(wanted), max(wanted.values(), default=0))
        keys: list[int] = []
        behind: dict[str, Place | None] = {}
        for name, n in wanted.items():
            head = self._known[name].head
            if head is not None and n:
                line = lines.get(name) or iter(())
                keys += [head[1], *(key for _, key in islice(line, n - 1))]
                behind[name] = next(line, None)
        return keys, behind

    def _first_foreign(self, limit: int) -> list[Head]:
        """Give the same of all queues but Anew's own."""
        return [head for head in self._first_heads(limit + 1) if head[2] != OWN_QUEUE][:limit]

    def _first_heads(self, limit: int) -> list[Head]:
        """Give the heads of the queues in which the first `limit` ready jobs of all are, in order."""
        if len(self._changed) > MOST_CHANGED:
            self._flush()
        changed, limits = self._changed, self.slots.limits
        stored = self._run("first_heads", (*self._first, limit + len(changed) + len(limits))).fetchall()
        if stored:
            self._first = stored[0][:2]
        if not changed and not limits:
            return stored  # type: ignore[no-any-return]
        self._see_changed()
        fresh = [(*queue.head, name) for name, queue in changed.items() if queue.head is not None]
        others = [row for row in stored if row[2] not in changed]
        return heapq.nsmallest(limit, self._startable(chain(fresh, others)))

    def _startable(self, heads: Iterable[Head]) -> Iterable[Head]:
        """Leave out the heads of queues whose limit lets nothing start."""
        return [head for head in heads if self.cap(head[2], 1) > 0] if self.slots.limits else heads

    def _heads_of(self, queues: Iterable[str], limit: int) -> list[Head]:
        """Give the heads of those of some queues in which their first `limit` ready jobs are, in order."""
        self.read(queues)
        self._see_changed()
        known = ((name, self._known[name].head) for name in queues)
        return heapq.nsmallest(
            limit, self._startable((*head, name) for name, head in known if head is not None)
        )

    def _see_changed(self) -> None:
        """Look up the heads that must be; a queue that counts no ready jobs has none."""
        if not self._unseen:
            return
        ready: list[str] = []
        for name, queue in self._unseen.items():
            queue.head = None
            if queue.in_line() > 0:
                ready.append(name)
        for name, place in self._places(ready, 0):
            queue = self._unseen[name]
            queue.head = queue.start = place
        self._unseen.clear()

    def _places(self, names: Sequence[str], behind: int) -> Iterator[tuple[str, Place]]:
        """Find the place in some queues' lines that so many others are before."""
        for part in in_widths(names):
            starts = chain.from_iterable((name, *self._known[name].start) for name in part)
            for name, priority, key in self._run("places", (behind, *starts), len(part)):
                if key is not None:
                    yield name, (priority, key)

    def _behind(self, names: Sequence[str], limit: int) -> dict[str, Iterator[Place]]:
        """Give the first places behind the heads of some queues, in order: of short queues all, of others as many as are asked for.

        The queues are known, and have heads. Those that have nothing else are left out.
        """
        ready = {name: self._known[name].in_line() for name in names}
        short: dict[str, list[Place]] = {name: [] for name, n in ready.items() if 1 < n <= SHORT}
        for part in in_widths(list(short)):
            for name, priority, key in self._run("whole_lines", part, len(part)):
                short[name].append((priority, key))
        long = [name for name, n in ready.items() if n > SHORT]
        second = dict(self._places(long, 1)) if len(long) > FEW else {}
        found = {name: self._line(name, second.get(name), limit) for name in long}
        return found | {name: islice(sorted(places), 1, None) for name, places in short.items()}

    def _line(self, name: str, second: Place | None, limit: int) -> Iterator[Place]:
        """Give up to so many places behind the head of one queue; the second, where it is known, without a search."""
        if second is not None:
            yield second
        seen = 1 if second is None else 2
        yield from islice(self._run("ready_heads", (name, *self.start(name), limit + 1)), seen, None)


def counted(rows: Iterable[Sequence[Any]]) -> Counted:
    """Give counters by queue and state from rows that begin with a queue's name and its counters in the order of `COUNTED`.

    Of a queue that comes twice the last row counts, and queues without a job are left out. Blocked jobs count as ready.
    """
    found = {row[0]: row[1 : 1 + len(_AT)] for row in rows}
    return {name: by_state(jobs) for name, jobs in found.items() if any(jobs)}


def by_state(jobs: Sequence[int]) -> dict[State, int]:
    """Give counters in the order of `COUNTED` by state; blocked jobs count as ready."""
    states = dict(zip(CODE, jobs, strict=False))
    states[State.READY] += jobs[_BLOCKED_AT]
    return states


def tally(names: Iterable[T]) -> dict[T, int]:
    """Count how often each name comes; for the few of a batch this is quicker than building a `Counter`."""
    times: dict[T, int] = {}
    for name in names:
        times[name] = times.get(name, 0) + 1
    return times
