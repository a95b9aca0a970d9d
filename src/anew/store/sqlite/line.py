"""Who is next in line over several queues.

There is one index of ready jobs, by queue. The head of each queue's line stands in a table of its own with an index over all
queues, so that a take from all queues looks at no more queues than it takes jobs, however many there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Any

from anew.store.sqlite.counts import Counts
from anew.store.sqlite.rows import READY
from anew.store.sqlite.sql import in_widths, sql

Place = tuple[int, int]
"""A job's place in line: priority, key."""

MOST_CHANGED = 500
"""Changed queues that a take looks up one by one; where there are more, their heads are written first."""

MOST_HEADS = 100_000
"""Heads that are remembered."""


class Line:
    """The heads of all queues.

    A queue whose ready jobs have changed has its head looked up when it is needed, and written before the commit.

    Args:
        execute: Runs a statement on the writer's connection, with a cursor of its own for each.
        counts: Tells which queues have ready jobs.
    """

    def __init__(self, execute: Callable[..., Any], counts: Counts) -> None:
        self._execute = execute
        self._counts = counts
        self._heads: dict[str, Place] = {}
        self._changed: dict[str, None] = {}

    def forget(self) -> None:
        """Believe the rows again."""
        self._heads.clear()
        self._changed.clear()

    def change(self, queue: str) -> None:
        """Note that a queue's ready jobs are others than before."""
        self._heads.pop(queue, None)
        self._changed[queue] = None

    def append(self, queue: str, priority: int) -> None:
        """Note that jobs with the largest keys so far and no lower priority number than this are ready in a queue."""
        head = self._heads.get(queue)
        if head is None or head[0] > priority or queue in self._changed:
            self.change(queue)

    def first_queues(self, limit: int) -> list[str]:
        """List the queues in which the first `limit` ready jobs of all are."""
        if len(self._changed) > MOST_CHANGED:
            self.flush()
        changed = self._changed
        fresh = [(*head, queue) for queue in changed if (head := self._head(queue)) is not None]
        stored = self._execute(sql("first_lines"), (limit + len(changed),))
        others = (row for row in stored if row[2] not in changed)
        return [queue for _, _, queue in heapq.nsmallest(limit, chain(fresh, others))]

    def keys(self, queues: Sequence[str], limit: int) -> list[int]:
        """List the first ready jobs of some queues in order; each queue is read no further than needed."""
        lines = [self._execute(sql("ready_heads"), (queue, limit)) for queue in queues]
        return [key for _, key in islice(heapq.merge(*lines), limit)]

    def clear(self) -> None:
        """Forget all jobs, in memory and in the table."""
        self._execute("DELETE FROM line")
        self.forget()

    def flush(self) -> None:
        """Write the heads of the queues that have changed."""
        written: list[tuple[str, int, int]] = []
        dropped: list[str] = []
        for queue in self._changed:
            head = self._head(queue)
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

    def _head(self, queue: str) -> Place | None:
        head = self._heads.get(queue)
        if head is None and self._counts.get(queue, READY):
            head = self._execute(sql("ready_heads"), (queue, 1)).fetchone()
            if head is not None:
                self._heads[queue] = head
        return head
