"""New jobs: their rows, their payloads that are kept apart, and what they count for in their queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anew.jobs.codec import DEFAULT_PRIORITY, NewJob, PushedJob
from anew.jobs.moved import MovedJob
from anew.store.protocol import Hold
from anew.store.sql.payloads import Payloads
from anew.store.sql.queues import Queues, tally
from anew.store.sql.records import Records
from anew.store.sql.rows import (
    INLINE_BYTES,
    READY,
    checksum,
    hooked_values,
    is_plain,
    moved_attempt_values,
    moved_values,
    plain_values,
    pushed_values,
    rich_values,
)
from anew.store.sql.statements import Run, in_widths, write_rows


class Arrivals:
    """Writes the new jobs of one store; `anew.store.protocol.Store` says what its verbs do.

    Args:
        run: Runs a statement on the writer's connection.
        queues: Where they are counted, with the slots of those that come in flight.
        payloads: Where long payloads go.
        records: Where those that come with their past have theirs.

    Attributes:
        newest: The largest key that was stored; the store sets it where it reads the rows anew.
    """

    def __init__(self, run: Run, queues: Queues, payloads: Payloads, records: Records) -> None:
        self._run, self._queues, self._payloads, self._records = run, queues, payloads, records
        self.newest = 0

    def insert(self, keys: Sequence[int], jobs: Sequence[NewJob], now: int, *, staged: bool = False) -> None:
        plain: list[tuple[Any, ...]] = []
        rich: list[tuple[Any, ...]] = []
        pushed: list[tuple[Any, ...]] = []
        hooked: list[tuple[Any, ...]] = []
        for key, job in zip(keys, jobs, strict=True):
            if isinstance(job, PushedJob):
                if job.hooks is not None:
                    hooked.append(hooked_values(key, job, job.hooks, now))
                else:
                    pushed.append(pushed_values(key, job, now))
            elif is_plain(job):
                plain.append(plain_values(key, job, now))
                continue
            else:
                rich.append(rich_values(key, job, now))
            if not staged and len(job.payload) > INLINE_BYTES:
                self._payloads.insert(key, job.payload)
        for statement, some in (
            ("insert_plain", plain),
            ("insert_rich", rich),
            ("insert_pushed", pushed),
            ("insert_hooked", hooked),
        ):
            if some:
                write_rows(self._run, statement, some)
        pushed += hooked
        if staged and keys:
            self._payloads.adopt(keys[0], keys[-1])
        rows = sorted(plain + rich + pushed) if rich or pushed else plain
        self._queues.keep_listed({row[1] for row in pushed if row[4] == READY and row[12] is not None})
        self._came(rows, staged=staged)

    def _came(self, rows: Sequence[tuple[Any, ...]], *, staged: bool = False) -> None:
        """Count new jobs, given as rows that begin as those of `insert_rich` do, in order of key."""
        if rows:
            self.newest = max(self.newest, rows[-1][0])
        places = tally([(row[1], row[3], row[4]) for row in rows])
        for (queue, _, code), n in places.items():
            self._queues.move({queue: n}, None, code)
        ready = [(queue, priority) for queue, priority, code in places if code == READY]
        if not staged:
            self._queues.append(
                ready, lambda: {(row[1], row[3]): row[0] for row in reversed(rows) if row[4] == READY}
            )
        for queue, _ in ready if staged else ():
            self._queues.change(queue)  # the keys were given before those of jobs that may be ready already

    def insert_moved(self, keys: Sequence[int], jobs: Sequence[MovedJob], hold: Hold) -> None:
        for key, job in zip(keys, jobs, strict=True):
            if len(job.payload) > INLINE_BYTES:
                self._payloads.insert(key, job.payload)
        pairs = list(zip(keys, jobs, strict=True))
        rows = [moved_values(key, job, hold) for key, job in pairs]
        write_rows(self._run, "insert_moved", rows)
        attempts = [moved_attempt_values(key, job) for key, job in pairs]
        self._records.write([values for values in attempts if values is not None])
        self._queues.keep_listed({row[1] for row in rows if row[4] == READY})
        self._came(rows)
        if self._queues.slots.limits:
            held = [(key, job.queue, job.reserved.worker) for key, job in pairs if job.reserved is not None]
            self._queues.slots.occupy(held, hold.now)

    def insert_plain(self, keys: Sequence[int], jobs: Sequence[NewJob], now: int) -> None:
        if max([len(job.payload) for job in jobs], default=0) > INLINE_BYTES:
            self.insert(keys, jobs, now)
            return
        each_key = iter(keys)
        for part in in_widths(jobs):
            values: list[Any] = [DEFAULT_PRIORITY, READY, now]
            for job, key in zip(part, each_key):  # noqa: B905 - the keys go on with the next part
                payload = bytes(job.payload)
                values += (key, job.queue, job.type, payload, checksum(payload))
            self._run("insert_usual", values, len(part))
        if keys:
            self.newest = max(self.newest, keys[-1])
        counted = tally([job.queue for job in jobs])
        self._queues.move(counted, None, READY)
        self._queues.append(
            [(queue, DEFAULT_PRIORITY) for queue in counted],
            lambda: {
                (job.queue, DEFAULT_PRIORITY): key
                for job, key in zip(reversed(jobs), reversed(keys), strict=True)
            },
        )
