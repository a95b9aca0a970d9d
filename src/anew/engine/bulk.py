"""Changes of very many jobs in chunks, so that everybody else's operations have their turn between two of them.

A bulk change is no transaction: it finds keys in the reader's thread, some at a time and upwards, and changes them in small batches
like any other operation. A job is judged by what it is when its chunk comes, and each is met once at most. The change ends at the
last job that matched when it began.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

from anew.engine.batch import Batch
from anew.engine.ops import Call, Done, Op
from anew.errors import AnewError, Overloaded
from anew.store.selection import Filter, Page

Find = Callable[[Any], Any]
Read = Callable[[Find, Done], None]
"""Runs a function with the store's reader and hands its result back in the loop's thread, as an AnewError if it fails."""

Later = Callable[[float, Callable[[], None]], object]

log = logging.getLogger("anew.engine")

CHUNK = 100
"""Jobs changed in one batch: some 2 ms, so that those who are in the same one hardly notice."""

CHUNK_BYTES = 1 << 20
"""Payloads that a change which reads them meets in one batch, once it has one."""

FOUND = 3_000
"""Keys found in one look."""

RUNNING = 2
"""Bulk changes under way at a time: each makes every batch longer."""

READ_AGAIN_S = 0.05
"""How soon a bulk change asks again where too many reads are waiting."""

WAITING = 50
"""Bulk changes that wait for their turn; more are refused."""

ALL = Filter()

NAMED = 10
"""States, queues and types that the log names of a change of many jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The jobs that a bulk change is about, as they were when it began.

    Attributes:
        total: How many jobs matched when it began, >= 1.
        last: Key of the last one of them.
        began: When that was, epoch ms.
    """

    total: int
    last: int
    began: int


Sift = Callable[[Sequence[int], Done], None]
"""Finds out which of some jobs are meant: calls back with their keys, or with an AnewError."""

ChunkChange = Callable[[Batch, Filter, Extent, int], int]
"""Changes one chunk inside a batch: called with the batch, a filter for its jobs, the extent of the whole, and how many have been
changed before; gives how many it has changed now."""


class Part(NamedTuple):
    """The result of a change that may leave jobs of its chunk for the next one.

    Attributes:
        changed: How many it has changed.
        looked: How many keys of the chunk, from the first one on, it has done with.
    """

    changed: int
    looked: int


PartChange = Callable[[Batch, Filter, Extent, int], Part]


class BulkChanges:
    """Runs bulk changes, a few at a time.

    Args:
        submit: Adds an operation to the next batch.
        read: Runs a long read; raises Overloaded while too many are waiting.
        clock: Gives the time, epoch ms.
        later: Calls a function so many seconds later, in the loop's thread.
    """

    def __init__(
        self, submit: Callable[[Op], None], read: Read, clock: Callable[[], int], later: Later
    ) -> None:
        self.submit = submit
        self.read = read
        self.clock = clock
        self.later = later
        self._running = 0
        self._waiting: deque[_BulkChange] = deque()

    def start(
        self,
        where: Filter,
        change: ChunkChange | PartChange,
        done: Done,
        *,
        reads_payloads: bool = False,
        sift: Sift | None = None,
        total: int | None = None,
        name: str | None = None,
    ) -> None:
        """Change all jobs that match, and log it: it is what somebody asks about afterwards.

        Args:
            where: Which jobs.
            change: What is done to each chunk of them.
            done: Called once with how many were changed, or with the AnewError that ended the change; what was changed before
                stays so.
            reads_payloads: The change reads them; then chunks are small where payloads are long.
            sift: Leaves out jobs that match and are not meant all the same; None: all are meant.
            total: How many jobs are meant, where that is not how many match.
            name: What is done to them, for the log; None: nothing.

        Raises:
            Overloaded: Too many bulk changes are waiting; nothing was changed.
        """
        if len(self._waiting) >= WAITING:
            raise Overloaded("too many changes of many jobs are waiting; try again in a second")
        self._waiting.append(_BulkChange(self, where, change, done, reads_payloads, sift, total, name))
        self._next()

    def ended(self) -> None:
        """Note that a bulk change has ended."""
        self._running -= 1
        self._next()

    def _next(self) -> None:
        while self._waiting and self._running < RUNNING:
            self._running += 1
            self._waiting.popleft().begin()


class _BulkChange:
    """One bulk change."""

    def __init__(
        self,
        running: BulkChanges,
        where: Filter,
        change: ChunkChange | PartChange,
        done: Done,
        reads_payloads: bool,
        sift: Sift | None,
        total: int | None,
        name: str | None,
    ) -> None:
        self._all = running
        self._name = name
        self._sift = sift
        self._total = total
        self._reads_payloads = reads_payloads
        self._where = where
        self._change = change
        self._done = done
        self._extent = Extent(total=0, last=0, began=0)
        self._keys: Sequence[int] = ()
        self._behind: int | None = None  # where the next look begins; None: there is none
        self._at = self._ahead = 0
        self._changed = 0
        self._took_s = 0.0

    def begin(self) -> None:
        """Measure what there is."""
        self._look(self._measure, self._measured)

    def _measure(self, reader: Any) -> tuple[int, list[int]]:
        last = reader.find(self._where, Page(order="desc", limit=1))
        return reader.count(self._where) if last else 0, last

    def _measured(self, result: tuple[int, list[int]]) -> None:
        total, last = result
        if not total:  # all that there was may have gone between the two looks
            self._end(0)
            return
        if self._total is not None:
            total = max(1, self._total)
        self._extent = Extent(total=total, last=last[0], began=self._all.clock())
        self._search(None)

    def _search(self, after: int | None) -> None:
        page = Page(after=after, limit=FOUND)
        self._look(lambda reader: reader.find(self._where, page), self._found)

    def _found(self, keys: list[int]) -> None:
        found = [key for key in keys if key <= self._extent.last]
        self._behind = found[-1] if len(found) == FOUND else None
        if self._sift is None or not found:
            self._sifted(found)
            return
        try:
            self._sift(found, self._sifted)
        except AnewError as error:
            self._end(error)

    def _sifted(self, result: Any) -> None:
        if isinstance(result, AnewError):
            self._end(result)
            return
        self._keys = result
        self._at = 0
        self._go_on()

    def _go_on(self) -> None:
        """Change the next chunk, look for more, or end."""
        if self._at < len(self._keys):
            self._all.submit(Call(self._change_chunk, self._changed_chunk))
        elif self._behind is not None:
            self._search(self._behind)
        else:
            self._end(self._changed)

    def _change_chunk(self, batch: Batch) -> int:
        begun = time.perf_counter()
        keys = self._chunk(batch)
        changed = self._change(batch, replace(self._where, keys=keys), self._extent, self._changed)
        if isinstance(changed, Part):
            changed, self._ahead = changed
        else:
            self._ahead = len(keys)
        self._took_s = time.perf_counter() - begun
        return changed

    def _chunk(self, batch: Batch) -> frozenset[int]:
        """Give the keys of the next chunk."""
        keys = self._keys[self._at : self._at + CHUNK]
        if self._reads_payloads:
            sizes = batch.store.payload_sizes(keys)
            sums = list(accumulate(sizes.get(key, 0) for key in keys))
            keys = keys[: max(1, bisect_right(sums, CHUNK_BYTES))]
        return frozenset(keys)

    def _changed_chunk(self, result: Any) -> None:
        if isinstance(result, AnewError):
            self._end(result)
            return
        self._changed += result
        self._at += self._ahead
        # Batches without a chunk come between: whoever arrives meanwhile would wait for every chunk otherwise.
        self._all.later(self._took_s, self._go_on)

    def _look(self, find: Find, then: Callable[[Any], None]) -> None:
        """Read beside the loop, as soon as one more read may be queued."""

        def received(result: Any) -> None:
            if isinstance(result, AnewError):
                self._end(result)
            else:
                then(result)

        try:
            self._all.read(find, received)
        except Overloaded:
            self._all.later(READ_AGAIN_S, lambda: self._look(find, then))

    def _end(self, result: Any) -> None:
        if self._name is not None and self._changed:
            log_change(self._name, self._changed, self._where)
        self._all.ended()
        self._done(result)


def log_change(name: str, jobs: int, where: Filter = ALL) -> None:
    """Log a change of many jobs, without the expression by which they were found: it may repeat what payloads hold."""
    parts = {"state": where.states, "queue": where.queues, "type": where.types}
    shown = {part: ",".join(sorted(values)[:NAMED]) for part, values in parts.items() if values is not None}
    log.info("jobs changed together", extra={"change": name, "jobs": jobs} | shown)
