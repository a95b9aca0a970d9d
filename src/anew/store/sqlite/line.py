"""Who is next in line over several queues.

There is one index of ready jobs, by queue. The head of each queue's line stands in a separate table with an index over all
queues, so that a take from all queues looks at no more queues than it takes jobs, however many there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from anew.store.sqlite.counts import Counts
from anew.store.sqlite.rows import READY
from anew.store.sqlite.sql import in_widths, sql

Place = tuple[int, int]
"""A job's place in line: priority, key."""

Head = tuple[int, int, str]
"""The same of the first in a queue, and the queue."""

Heads = Mapping[str, Place | None]
"""Who is first in some queues; None: nobody."""

MOST_CHANGED = 500
"""Changed queues whose heads a take from all queues compares with the stored ones; where there are more, they are written first."""

MOST_HEADS = 100_000
"""Heads that are remembered."""

_UNKNOWN: Place = (-1, -1)

SHORT = 8
"""Queues with at most so many ready jobs are read whole, many in one statement."""


class Line:
    """The heads of all queues.

    A queue whose ready jobs have changed has its head looked up when it is needed, and written before the commit.

    Args:
        execute: Runs a statement on the writer's connection, with its own cursor for each.
        counts: Gives which queues have ready jobs.
    """

    def __init__(self, execute: Callable[..., Any], counts: Counts) -> None:
        self._execute = execute
        self._counts = counts
        self._heads: dict[str, Place] = {}
        # Queues with a new head, and the one that the table still has; `_UNKNOWN` where that is not known.
        self._changed: dict[str, Place | None] = {}
        # Those of them whose new head has not been looked up yet.
        self._unseen: dict[str, None] = {}

    def forget(self) -> None:
        """Believe the rows again."""
        self._heads.clear()
        self._changed.clear()
        self._unseen.clear()

    def change(self, queue: str) -> None:
        """Note that a queue's ready jobs are others than before."""
        self._changed.setdefault(queue, self._heads.get(queue, _UNKNOWN))
        self._heads.pop(queue, None)
        self._unseen[queue] = None

    def append(self, queue: str, priority: int, jobs: int) -> None:
        """Note that so many jobs, with the largest keys so far and no lower priority number than this, are ready in a queue now."""
        if queue in self._changed:
            self.change(queue)
            return
        head = self._heads.get(queue)
        if head is None and self._counts.get(queue, READY) == jobs:
            self._changed[queue] = None  # it was empty, so the table has no head of it
        elif (
            head is None
        ):  # as after another process has written: the table has it, and nearly always it stays
            head = self._execute(sql("stored_head"), (queue,)).fetchone()
            if head is not None:
                self._heads[queue] = head
        if head is None or head[0] > priority:
            self.change(queue)

    def took(self, heads: Heads) -> None:
        """Note who is first now in queues from which jobs were taken."""
        for queue, head in heads.items():
            self._changed.setdefault(queue, self._heads.get(queue, _UNKNOWN))
            self._unseen.pop(queue, None)
            if head is None:
                self._heads.pop(queue, None)
            else:
                self._heads[queue] = head

    def any(self) -> bool:
        """Report whether any job is ready."""
        return bool(self._first_heads(1))

    def ready_among(self, queues: Collection[str]) -> list[str]:
        """Of some queues, give those that have ready jobs; looks at no more heads than there are queues."""
        heads = self._first_heads(len(queues) + 1)
        if len(heads) <= len(queues):
            return [queue for _, _, queue in heads if queue in queues]
        self._counts.read(queues)
        return [queue for queue in queues if self._counts.get(queue, READY) > 0]

    def heads(self, queues: Sequence[str] | None, limit: int) -> list[Head]:
        """Find the heads of the queues that the first `limit` ready jobs are in, of some (each named once) or of all; in order."""
        return self._first_heads(limit) if queues is None else self._heads_of(queues, limit)

    def first(self, heads: Sequence[Head], limit: int) -> tuple[list[int], Heads]:
        """Find the first ready jobs of some queues in order; each queue is read no further than needed.

        Args:
            heads: The queues, as `heads` gives them for this limit.
            limit: The most keys to give.

        Returns:
            Their keys, and for each queue that they are of, who is first in it behind them.
        """
        heap = list(heads)
        lines = self._lines([queue for _, _, queue in heap], limit + 1)
        keys: list[int] = []
        touched: dict[str, Place | None] = {}
        while heap and len(keys) < limit:
            _, key, queue = heap[0]
            keys.append(key)
            if queue not in touched:
                next(lines[queue], None)  # the head itself
            behind = touched[queue] = next(lines[queue], None)
            if behind is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (*behind, queue))
        return keys, touched

    def first_of_each(self, wanted: Mapping[str, int]) -> tuple[list[int], Heads]:
        """Find the first ready jobs of each of several queues, so many of each; otherwise as `first`."""
        lines = self._lines(list(wanted), max(wanted.values(), default=0) + 1)
        keys: list[int] = []
        behind: dict[str, Place | None] = {}
        for queue, n in wanted.items():
            line = lines[queue]
            keys += [key for _, key in islice(line, n)]
            behind[queue] = next(line, None)
        return keys, behind

    def clear(self) -> None:
        """Forget all jobs, in memory and in the table."""
        self._execute("DELETE FROM line")
        self.forget()

    def flush(self) -> None:
        """Write the heads of the queues that have changed."""
        self._see_changed()
        written: list[tuple[str, int, int]] = []
        dropped: list[str] = []
        for queue, stored in self._changed.items():
            head = self._heads.get(queue)
            if head == stored:
                continue
            if head is None:
                dropped.append(queue)
            else:
                written.append((queue, *head))
        self._changed.clear()
        for part in in_widths(written):
            self._execute(sql("write_lines", len(part)), tuple(chain.from_iterable(part)))
        for gone in in_widths(dropped):
            self._execute(sql("drop_lines", len(gone)), gone)
        if len(self._heads) > MOST_HEADS:
            self._heads.clear()

    def _first_heads(self, limit: int) -> list[Head]:
        """Give the heads of the queues in which the first `limit` ready jobs of all are, in order."""
        if len(self._changed) > MOST_CHANGED:
            self.flush()
        changed = self._changed
        stored = self._execute(sql("first_lines"), (limit + len(changed),))
        if not changed:
            return stored.fetchall()  # type: ignore[no-any-return]
        self._see_changed()
        heads = self._heads
        fresh = [(*heads[queue], queue) for queue in changed if queue in heads]
        others = (row for row in stored if row[2] not in changed)
        return heapq.nsmallest(limit, chain(fresh, others))

    def _see_changed(self) -> None:
        self._find_heads(self._unseen)
        self._unseen.clear()

    def _heads_of(self, queues: Iterable[str], limit: int) -> list[Head]:
        """Give the heads of those of some queues in which their first `limit` ready jobs are, in order."""
        self._find_heads(queues)
        heads = self._heads
        return heapq.nsmallest(limit, [(*heads[queue], queue) for queue in queues if queue in heads])

    def _find_heads(self, queues: Iterable[str]) -> None:
        """Look up the heads of queues that have ready jobs and whose heads are not known."""
        ready = self._counts.get
        unknown = [queue for queue in queues if queue not in self._heads and ready(queue, READY) > 0]
        for part in in_widths(unknown):
            for queue, priority, key in self._execute(sql("heads", len(part)), part):
                if key is not None:
                    self._heads[queue] = priority, key

    def _lines(self, queues: Sequence[str], limit: int) -> dict[str, Iterator[Place]]:
        """Give the first places of some queues, in order: of short queues all, of others as many as are asked for."""
        short: dict[str, list[Place]] = {
            queue: [] for queue in queues if self._counts.get(queue, READY) <= SHORT
        }
        if len(short) > 1:
            for part in in_widths(list(short)):
                for queue, priority, key in self._execute(sql("whole_lines", len(part)), part):
                    short[queue].append((priority, key))
            found: dict[str, Iterator[Place]] = {
                queue: iter(sorted(places)) for queue, places in short.items()
            }
        else:
            found = {}
        for queue in queues:
            if queue not in found:
                found[queue] = self._execute(sql("ready_heads"), (queue, limit))
        return found
