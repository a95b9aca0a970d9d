"""Who is next in line over several queues.

There is one index of ready jobs, by queue. What is first over all queues is found from each queue's first job, which is remembered
and only looked up again where something has changed: a second index over all ready jobs would cost every job two more writes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from anew.store.sqlite.codes import READY
from anew.store.sqlite.counts import Counts
from anew.store.sqlite.sql import sql

Place = tuple[int, int]
"""A job's place in line: priority, key."""


class Line:
    """The ready jobs of all queues, in order.

    Args:
        execute: Runs a statement on the writer's connection, with a cursor of its own for each.
        counts: Tells which queues have ready jobs and which have changed.
    """

    def __init__(self, execute: Callable[..., Any], counts: Counts) -> None:
        self._execute = execute
        self._counts = counts
        self._heads: dict[str, Place] = {}

    def queues(self, limit: int) -> list[str]:
        """List the queues in which the first `limit` ready jobs of all are."""
        heads = self._refreshed()
        if len(heads) <= limit:
            return list(heads)
        return heapq.nsmallest(limit, heads, key=heads.__getitem__)

    def first(self) -> int | None:
        """Tell the key of the ready job that is first of all."""
        heads = self._refreshed()
        return min(heads.values())[1] if heads else None

    def keys(self, queues: Sequence[str], limit: int) -> list[int]:
        """List the first ready jobs of some queues in order; each queue is read no further than needed."""
        lines = [self._execute(sql("ready_heads"), (queue, limit)) for queue in queues]
        return [key for _, key in islice(heapq.merge(*lines), limit)]

    def _refreshed(self) -> dict[str, Place]:
        for queue in self._counts.changed_ready():
            head = None
            if self._counts.get(queue, READY):
                head = self._execute(sql("ready_heads"), (queue, 1)).fetchone()
            if head is None:
                self._heads.pop(queue, None)
            else:
                self._heads[queue] = head
        return self._heads
