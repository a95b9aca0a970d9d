"""Jobs by queue and state: added up in memory, written in the transaction that changed them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain
from typing import Any, TypeVar

from anew.jobs.state import State
from anew.store.sqlite.rows import CODE, READY, STATE
from anew.store.sqlite.sql import in_widths, sql

Execute = Callable[..., Any]
T = TypeVar("T")
Counted = Mapping[str, Mapping[State, int]]

MOST_QUEUES = 100_000
"""Queues whose counters are kept in memory; above that they are read again when they are needed."""


class Counts:
    """The counters of one store.

    Memory is a cache of the rows: a queue's counters are read when they are needed first, written before each commit, and
    forgotten after a rollback and when another process has written.

    Args:
        execute: Runs a statement on the writer's connection.
    """

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._rows: dict[str, dict[int, int]] = {}
        # What has changed, and what the table still says.
        self._dirty: dict[tuple[str, int], int] = {}

    def forget(self) -> None:
        """Believe the rows again."""
        self._rows.clear()
        self._dirty.clear()

    def add(self, queue: str, code: int, n: int) -> None:
        """Count `n` more jobs (or fewer, if negative) of a queue in the state with this code."""
        row = self._rows.get(queue) or self._read(queue)
        before = row.get(code, 0)
        row[code] = before + n
        self._dirty.setdefault((queue, code), before)

    def move(self, queues: Iterable[str], before: int, after: int) -> None:
        """Count one job from one state to another for each mention of its queue."""
        for queue, n in tally(queues).items():
            self.add(queue, before, -n)
            self.add(queue, after, n)

    def get(self, queue: str, code: int) -> int:
        """Give one counter."""
        return (self._rows.get(queue) or self._read(queue)).get(code, 0)

    def touched_ready(self) -> list[str]:
        """List the queues whose counter of ready jobs the open transaction has touched and that have ready jobs."""
        return [queue for queue, code in self._dirty if code == READY and self._rows[queue][READY] > 0]

    def has_made_ready(self) -> bool:
        """Report whether the open transaction leaves more ready jobs in some queue than there were."""
        return any(
            code == READY and self._rows[queue][READY] > max(before, 0)
            for (queue, code), before in self._dirty.items()
        )

    def clear(self) -> None:
        """Forget all jobs, in memory and in the table."""
        self._execute("DELETE FROM counter")
        self.forget()

    def flush(self) -> None:
        """Write the counters that have changed; those at zero leave the table."""
        written: list[tuple[str, int, int]] = []
        dropped: list[tuple[str, int]] = []
        for key, stored in self._dirty.items():
            n = self._rows[key[0]][key[1]]
            if n == stored:
                continue
            if n:
                written.append((*key, n))
            else:
                dropped.append(key)
        self._dirty.clear()
        for part in in_widths(written):
            self._execute(sql("write_counters", len(part)), tuple(chain.from_iterable(part)))
        for gone in in_widths(dropped):
            self._execute(sql("drop_counters", len(gone)), tuple(chain.from_iterable(gone)))
        if len(self._rows) > MOST_QUEUES:
            self._rows.clear()

    def snapshot(self, queues: Collection[str] | None = None) -> Counted:
        """Give the counters of some queues, or of all, as the open transaction has them; queues without a job are left out."""
        found = list(self._execute(sql("read_counters"))) if queues is None else self._stored(queues)
        for queue, code in self._dirty:
            if queues is None or queue in queues:
                found.append((queue, code, self._rows[queue][code]))
        return counted(found)

    def _stored(self, queues: Iterable[str]) -> list[tuple[str, int, int]]:
        found: list[tuple[str, int, int]] = []
        for part in in_widths(list(queues)):
            found += self._execute(sql("read_some_counters", len(part)), part)
        return found

    def total(self) -> int:
        """Count all jobs."""
        return sum(sum(states.values()) for states in self.snapshot().values())

    def read(self, queues: Iterable[str]) -> None:
        """Read the counters of many queues at once, where they are not known."""
        unknown = [queue for queue in queues if queue not in self._rows]
        for queue in unknown:
            self._rows[queue] = dict.fromkeys(CODE.values(), 0)
        for queue, code, n in self._stored(unknown):
            self._rows[queue][code] = n

    def _read(self, queue: str) -> dict[int, int]:
        row = dict.fromkeys(CODE.values(), 0)
        row.update(self._execute(sql("read_counter"), (queue,)))
        self._rows[queue] = row
        return row


def counted(rows: Iterable[tuple[str, int, int]]) -> Counted:
    """Give counters by queue and state; of one that comes twice the last counts, and queues without a job are left out."""
    found: dict[str, dict[int, int]] = {}
    for queue, code, n in rows:
        found.setdefault(queue, {})[code] = n
    return {
        queue: {state: row.get(code, 0) for code, state in STATE.items()}
        for queue, row in found.items()
        if any(row.values())
    }


def tally(names: Iterable[T]) -> dict[T, int]:
    """Count how often each name comes; for the few of a batch this is quicker than building a `Counter`."""
    times: dict[T, int] = {}
    for name in names:
        times[name] = times.get(name, 0) + 1
    return times
