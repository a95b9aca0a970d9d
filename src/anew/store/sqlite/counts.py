"""Jobs by queue and state: added up in memory, written in the transaction that changed them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from anew.jobs.state import State
from anew.store.sqlite.codes import READY, STATES
from anew.store.sqlite.sql import sql

Execute = Callable[..., Any]
T = TypeVar("T")

_CHUNK = 50


class Counts:
    """The counters of one store.

    The writer is alone, so memory and table can only differ inside a transaction: `flush` writes what changed before the
    commit, `reload` takes the table's word after a rollback.
    """

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._rows: dict[str, list[int]] = {}
        self._dirty: set[str] = set()
        self._changed: set[str] = set()
        self.ready_total = 0
        self.reload()

    def reload(self) -> None:
        """Read the table anew."""
        self._dirty.clear()
        self._changed.update(self._rows)
        self._rows = {row[0]: list(row[1:]) for row in self._execute(sql("read_counters"))}
        self._changed.update(self._rows)
        self.ready_total = sum(row[READY] for row in self._rows.values())

    def add(self, queue: str, code: int, n: int) -> None:
        """Count `n` more jobs (or fewer, if negative) of a queue in the state with this code."""
        row = self._rows.get(queue)
        if row is None:
            row = self._rows[queue] = [0] * len(STATES)
        row[code] += n
        if code == READY:
            self.ready_total += n
            self._changed.add(queue)
        self._dirty.add(queue)

    def move(self, queues: Iterable[str], before: int, after: int) -> None:
        """Count one job from one state to another for each mention of its queue."""
        for queue, n in tally(queues).items():
            self.add(queue, before, -n)
            self.add(queue, after, n)

    def get(self, queue: str, code: int) -> int:
        """Tell one counter."""
        row = self._rows.get(queue)
        return 0 if row is None else row[code]

    def fresh_ready(self) -> list[str]:
        """List the queues that have changed since the last flush and have ready jobs."""
        return [queue for queue in self._dirty if self._rows[queue][READY]]

    def changed_ready(self) -> set[str]:
        """Give the queues whose ready jobs may have changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def total(self) -> int:
        """Count all jobs."""
        return sum(sum(row) for row in self._rows.values())

    def clear(self) -> None:
        """Forget all jobs, in memory and in the table."""
        self._execute("DELETE FROM counter")
        self._changed.update(self._rows)
        self._rows.clear()
        self._dirty.clear()
        self.ready_total = 0

    def flush(self) -> None:
        """Write the rows that have changed; queues without a job leave the table."""
        written: list[object] = []
        for queue in self._dirty:
            row = self._rows[queue]
            if any(row):
                written.append(queue)
                written += row
            else:
                del self._rows[queue]
                self._execute(sql("drop_counter"), (queue,))
        self._dirty.clear()
        columns = len(STATES) + 1
        for start in range(0, len(written), _CHUNK * columns):
            part = written[start : start + _CHUNK * columns]
            self._execute(sql("write_counters", len(part) // columns), part)

    def snapshot(self) -> Mapping[str, Mapping[State, int]]:
        """Copy all counters."""
        return {queue: dict(zip(STATES, row, strict=True)) for queue, row in self._rows.items() if any(row)}


def tally(names: Iterable[T]) -> dict[T, int]:
    """Count how often each name comes; for the few of a batch this is quicker than building a `Counter`."""
    times: dict[T, int] = {}
    for name in names:
        times[name] = times.get(name, 0) + 1
    return times
