"""What is read of jobs inside the writer's transaction, and the readers beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anew.jobs.ids import COUNTER_BITS
from anew.jobs.job import ErrorRecord, Job
from anew.jobs.state import State
from anew.store.protocol import Filter, Page, Reader
from anew.store.sqlite.codes import READY
from anew.store.sqlite.opened import OpenedStore
from anew.store.sqlite.reader import SqliteReader, run_count, run_find
from anew.store.sqlite.rows import error_of, job_of
from anew.store.sqlite.sql import in_widths, sql


class ReadingStore(OpenedStore):
    """An opened store and the questions that it answers."""

    def load(self, keys: Iterable[int], *, payload: bool = False) -> list[Job]:
        """Read jobs by key, in order of key; unknown keys are left out."""
        name = "load_payload" if payload else "load"
        jobs: list[Job] = []
        for part in in_widths(sorted(set(keys))):
            rows = self._execute(sql(name, len(part)), part).fetchall()
            jobs += [job_of(row, self._payload_of(row) if payload else None) for row in rows]
        return jobs

    def _payload_of(self, row: tuple[Any, ...]) -> bytes:
        if row[18] is None:
            return row[19]  # type: ignore[no-any-return]
        return self._payloads.read(row[0], row[18])

    def find(self, where: Filter, page: Page) -> list[int]:
        """Give the keys of matching jobs as the open transaction sees them."""
        return run_find(self._connection, where, page)

    def count(self, where: Filter) -> int:
        """Count matching jobs as the open transaction sees them."""
        return run_count(self._connection, where)

    def payload_sizes(self, keys: Sequence[int]) -> dict[int, int]:
        """Tell the bytes of jobs' payloads without reading them; unknown keys are left out."""
        sizes: dict[int, int] = {}
        for part in in_widths(keys):
            sizes.update(self._execute(sql("payload_sizes", len(part)), part).fetchall())
        return sizes

    def errors(self, key: int, page: Page, max_bytes: int | None = None) -> list[ErrorRecord]:
        """Read the records of a job's failed attempts; `page.after` is an attempt's number."""
        forward = page.order == "asc"
        start = page.after if page.after is not None else (0 if forward else 1 << 62)
        name = "errors" if forward else "errors_backwards"
        records: list[ErrorRecord] = []
        size = 0
        for row in self._execute(sql(name), (key, start, page.limit)):
            records.append(error_of(row))
            size += records[-1].size()
            if max_bytes is not None and size > max_bytes:
                break
        return records

    def ready(self, queue: str | None) -> int:
        """Tell how many jobs of a queue (None: of all) are ready; no disk is touched."""
        return self._counts.ready_total if queue is None else self._counts.get(queue, READY)

    def fresh_ready(self) -> list[str]:
        """List the queues that the open transaction has touched and that have ready jobs; no disk is touched."""
        return self._counts.fresh_ready()

    def counts(self) -> Mapping[str, Mapping[State, int]]:
        """Count jobs by queue and state; queues without a job are left out."""
        return self._counts.snapshot()

    def oldest_ready(self) -> int | None:
        """Tell since when the ready job that is first in line has been stored, epoch ms."""
        key = self._line.first()
        return None if key is None else key >> COUNTER_BITS

    def reader(self) -> Reader:
        """Open a reader of its own; a store in memory reads through its writer."""
        return _OwnReader(self) if self._path == ":memory:" else SqliteReader(self._path)


class _OwnReader:
    """Reads of a store in memory: there is no second connection to it."""

    def __init__(self, store: ReadingStore) -> None:
        self.find = store.find
        self.count = store.count

    def close(self) -> None:
        """Nothing to let go of."""
