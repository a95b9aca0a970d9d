"""Takes long new jobs in a part a batch, so that nobody waits while megabytes are written.

One long operation is under way at a time. Its payloads are written ahead, its jobs appear with the last batch, all or none,
and only then it is answered. If something fails on the way, what was written is removed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from anew.engine.batch import Batch, Enqueued
from anew.engine.ops import Call, Enqueue, Op
from anew.errors import AnewError, InDoubt, Overloaded, StoreBusy, StoreFull
from anew.store.protocol import Position, Staging

PART_BYTES = 256 << 10
"""A batch with so much in it takes some milliseconds."""

MAX_WAITING = 64
MAX_WAITING_BYTES = 256 << 20


def payload_bytes(op: Enqueue) -> int:
    """Add up the payloads of new jobs; more than `PART_BYTES` had better not be written in one batch."""
    return sum([len(job.payload) for job in op.jobs])


class StagedInserts:
    """Writes long new jobs one after the other.

    Args:
        submit: Adds an operation to the next batch.
        store: Where parts are written ahead.
    """

    def __init__(self, submit: Callable[[Op], None], store: Staging) -> None:
        self._submit = submit
        self._store = store
        self._waiting: deque[tuple[Enqueue, int]] = deque()
        self._bytes = 0
        self._under_way: Enqueue | None = None
        self._keys: Sequence[int] = ()
        self._session = 0
        self._at: Position | None = None
        self._left_behind: list[tuple[int, int]] = []

    def add(self, op: Enqueue, size: int) -> None:
        """Take new jobs in over the next batches, or refuse them where too much waits already.

        Args:
            op: The jobs.
            size: Their `payload_bytes`.
        """
        if len(self._waiting) >= MAX_WAITING or self._bytes + size > max(MAX_WAITING_BYTES, size):
            op.done(
                Overloaded("more long payloads are waiting than can be stored soon; try again in a second")
            )
            return
        self._waiting.append((op, size))
        self._bytes += size
        if self._under_way is None:
            self._next()

    def tidy(self) -> None:
        """Remove what failed operations have left behind, where that was not possible at once."""
        if self._left_behind:
            self._submit(Call(self._remove, self._removed))

    def _next(self) -> None:
        self._under_way, self._at = None, None
        if self._waiting:
            self._under_way, size = self._waiting.popleft()
            self._bytes -= size
            self._at = (0, 0)
            self._keys = ()
            self._submit(Call(self._write, self._written, waits=False))

    def _write(self, batch: Batch) -> tuple[Sequence[int], Position | None]:
        """Write one part, inside a batch; give the keys, and where to go on."""
        if batch.full:
            raise StoreFull("no space for new jobs; settling goes on")
        assert self._under_way is not None
        assert self._at is not None
        self._check_session(batch)
        jobs = self._under_way.jobs
        keys = self._keys or batch.keys_for(len(jobs))
        return keys, self._store.stage(keys, jobs, self._at, PART_BYTES)

    def _written(self, result: Any) -> None:
        if isinstance(result, InDoubt):
            result = result.result  # the last transaction confirms all before it, or is in doubt itself
        if isinstance(result, AnewError):
            self._fail(result)
            return
        self._keys, self._at = result
        if self._at is None:
            self._submit(Call(self._finish, self._finished, waits=False))
        else:
            self._submit(Call(self._write, self._written, waits=False))

    def _finish(self, batch: Batch) -> Enqueued:
        assert self._under_way is not None
        self._check_session(batch)
        return self._under_way.insert(batch, self._keys)

    def _check_session(self, batch: Batch) -> None:
        """Make sure that the earlier parts are still there: they are not, where others have taken this process for dead."""
        if self._keys and self._session != batch.store.session:
            raise StoreBusy(
                "this process was cut off from the store while long payloads were written; try again"
            )
        self._session = batch.store.session

    def _finished(self, result: Any) -> None:
        if isinstance(result, AnewError) and not isinstance(result, InDoubt):
            self._fail(result)
            return
        op = self._under_way
        assert op is not None
        self._next()
        op.done(result)

    def _fail(self, error: AnewError) -> None:
        op = self._under_way
        assert op is not None
        if self._keys:
            self._left_behind.append((self._keys[0], self._keys[-1]))
        self._next()
        self.tidy()
        op.done(error)

    def _remove(self, batch: Batch) -> list[tuple[int, int]]:
        """Remove what was left behind, inside a batch; what cannot be removed now is tried again by the next `tidy`."""
        left_behind = list(self._left_behind)  # the loop may add to it meanwhile
        for first, last in left_behind:
            self._store.unstage(first, last)
        return left_behind

    def _removed(self, result: Any) -> None:
        if not isinstance(result, AnewError):
            self._left_behind = [keys for keys in self._left_behind if keys not in result]
