"""The verbs of the store on SQLite: each a handful of set-shaped statements."""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import apsw

from anew.errors import AnewError, InvalidConfig, StoreFailed, StoreFull
from anew.jobs.codec import DEFAULT_PRIORITY, NewJob
from anew.jobs.decide import Change
from anew.jobs.ids import COUNTER_BITS
from anew.jobs.job import ErrorRecord, Job
from anew.jobs.state import State
from anew.store.protocol import Filter, Lease, Page, Reader, Rewrite, TakenRow
from anew.store.sqlite import connection as opening
from anew.store.sqlite.codes import CODE, COMPLETED, IN_FLIGHT, READY
from anew.store.sqlite.counts import Counts
from anew.store.sqlite.reader import SqliteReader, run_count, run_find
from anew.store.sqlite.rows import (
    INLINE_BYTES,
    attempt_values,
    change_values,
    error_of,
    is_plain,
    job_of,
    plain_values,
    rewrite_values,
    rich_values,
)
from anew.store.sqlite.sql import sql

T = TypeVar("T")

WIDTH = 100
"""Rows or keys in one statement: wide enough that a step's price vanishes, few enough widths for the statement cache."""


class SqliteStore:
    """One database file, or one in memory.

    Args:
        directory: The data directory; None keeps everything in memory.
        relaxed: Let commits return before they reach the disk; a power cut may then lose what was answered.
        vfs: Name of the apsw VFS to open the file through, for harnesses that record or fail its calls.

    Raises:
        InvalidConfig: The directory cannot be used.
        StoreBusy: Another process holds the directory.
        NewerStore: A newer program wrote it.
        StoreFailed: The file is no database of ours, or cannot be read.
    """

    def __init__(
        self, directory: Path | None = None, *, relaxed: bool = False, vfs: str | None = None
    ) -> None:
        self._lock: opening.DirectoryLock | None = None
        self._path = ":memory:"
        self._reserve: Path | None = None
        if directory is not None:
            try:
                self._path = str(opening.open_directory(directory))
                self._lock = opening.DirectoryLock(directory)
            except OSError as error:
                raise InvalidConfig(
                    f"root_dir: {str(directory)!r} cannot be used ({error.strerror}); "
                    "expected a directory that this user may write to",
                    field="root_dir",
                    value=str(directory),
                ) from error
        try:
            self._open(directory, vfs)
        except BaseException as error:
            if self._lock is not None:
                self._lock.release()
            known = self.explain(error) if isinstance(error, Exception) else None
            if known is not None:
                raise known from error
            raise
        self._relaxed = relaxed
        self._synced = True

    def _open(self, directory: Path | None, vfs: str | None) -> None:
        self._connection = opening.connect(self._path, vfs=vfs)
        try:
            opening.migrate(self._connection)
            if directory is not None:
                self._reserve = directory / "reserve"
                self.keep_reserve()
                opening.sync_directory(directory)
            self.identity = opening.identify(self._connection)
            # Loosely typed on purpose: what a row holds is known by its statement, and `rows` gives it names.
            self._execute: Callable[..., Any] = self._connection.cursor().execute
            self._counts = Counts(self._connection.execute)
        except BaseException:
            self._connection.close()
            raise

    # -- transactions

    def begin(self, *, synced: bool) -> None:
        """Start a transaction; `synced` says whether its commit must reach the disk before it returns."""
        synced = synced and not self._relaxed
        if synced is not self._synced:
            self._execute("PRAGMA synchronous = full" if synced else "PRAGMA synchronous = normal")
            self._synced = synced
        self._execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make the transaction last."""
        self._counts.flush()
        self._execute("COMMIT")

    def rollback(self) -> None:
        """Forget the transaction; memory takes the table's word again."""
        if self._connection.in_transaction:
            self._execute("ROLLBACK")
        self._counts.reload()
        opening.reread_promises(self._connection, self.identity)

    def explain(self, error: Exception) -> AnewError | None:
        """Tell SQLite's exception in our words; anything but "no space" means that nothing may be trusted."""
        if isinstance(error, apsw.FullError):
            return StoreFull("no space left on the device that holds the store")
        if isinstance(
            error, (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.ReadOnlyError, apsw.CantOpenError)
        ):
            return StoreFailed(f"the store failed: {type(error).__name__}: {error}")
        return None

    # -- new jobs

    def insert(self, first_key: int, jobs: Sequence[NewJob], now: int) -> None:
        """Store new jobs under consecutive keys."""
        plain: list[tuple[Any, ...]] = []
        rich: list[tuple[Any, ...]] = []
        apart: list[tuple[Any, ...]] = []
        for key, job in enumerate(jobs, first_key):
            if is_plain(job):
                plain.append(plain_values(key, job, now))
                continue
            row, payload = rich_values(key, job, now)
            rich.append(row)
            if payload is not None:
                apart.append((key, payload))
        self._many("insert_plain", plain)
        self._many("insert_rich", rich)
        self._many("insert_payload", apart)
        for (queue, state), n in Counter((row[1], row[4]) for row in chain(plain, rich)).items():
            self._counts.add(queue, state, n)

    def insert_plain(self, first_key: int, jobs: Sequence[NewJob], now: int) -> None:
        """The same for jobs that say nothing beyond type, queue and payload, so that nothing more is looked at."""
        if any(len(job.payload) > INLINE_BYTES for job in jobs):
            self.insert(first_key, jobs, now)
            return
        self._many(
            "insert_plain",
            [
                (key, job.queue, job.type, DEFAULT_PRIORITY, READY, now, bytes(job.payload))
                for key, job in enumerate(jobs, first_key)
            ],
        )
        for queue, n in Counter(job.queue for job in jobs).items():
            self._counts.add(queue, READY, n)

    # -- take

    def take(self, queues: Sequence[str] | None, limit: int, max_bytes: int, lease: Lease) -> list[TakenRow]:
        """Put the first ready jobs by (priority, key) under a lease; None means all queues."""
        stamp = (lease.token, lease.owner, lease.deadline, lease.now)
        if queues is None:
            rows = self._execute(sql("select_ready_all"), (limit,)).fetchall()
            rows = self._with_payloads(rows, max_bytes)
            if len(rows) > WIDTH:
                self._execute(sql("lease_all"), (*stamp, len(rows)))
            else:
                self._lease_by_key(rows, stamp)
        elif len(queues) == 1:
            rows = self._execute(sql("select_ready"), (queues[0], limit)).fetchall()
            rows = self._with_payloads(rows, max_bytes)
            if len(rows) > WIDTH:
                self._execute(sql("lease"), (*stamp, queues[0], len(rows)))
            else:
                self._lease_by_key(rows, stamp)
        else:
            rows = self._with_payloads(self._merged(queues, limit), max_bytes)
            self._lease_by_key(rows, stamp)
        self._counts.move(((row[1],) for row in rows), READY, IN_FLIGHT)
        return rows

    def _lease_by_key(self, rows: list[TakenRow], stamp: tuple[int, int, int, int]) -> None:
        """Write the lease row by key, which for a few rows is faster than finding their places in line again."""
        for keys in _parts([row[0] for row in rows]):
            self._execute(sql("lease_by_key", len(keys)), (*stamp, *keys))

    def _merged(self, queues: Sequence[str], limit: int) -> list[TakenRow]:
        """Find the first ready jobs of several queues by their index entries alone, then read those rows."""
        heads = (
            self._execute(sql("ready_heads"), (queue, limit)).fetchall()
            for queue in queues
            if self._counts.get(queue, READY)
        )
        keys = [key for _, key in heapq.nsmallest(limit, chain.from_iterable(list(heads)))]
        rows: list[TakenRow] = []
        for part in _parts(keys):
            rows += self._execute(sql("select_ready_by_key", len(part)), part)
        rows.sort(key=lambda row: (row[3], row[0]))
        return rows

    def _with_payloads(self, rows: list[TakenRow], max_bytes: int) -> list[TakenRow]:
        """Read the payloads that are kept apart, and stop where they grow too much for one turn."""
        total = 0
        for at, row in enumerate(rows):
            apart = row[10]
            if apart is None:
                continue
            if total and total + apart > max_bytes:
                return rows[:at]
            total += apart
            data = self._execute(sql("payload"), (row[0],)).fetchone()
            rows[at] = (*row[:11], b"null" if data is None else data[0])
        return rows

    # -- the ends of attempts

    def finish(self, keys: Sequence[int]) -> list[int]:
        """Remove in-flight jobs that left nothing but their row; give the keys that were removed."""
        done: list[int] = []
        for part in _parts(keys):
            rows = self._execute(sql("finish", len(part)), part).fetchall()
            done += [key for key, _ in rows]
            for queue, n in Counter(queue for _, queue in rows).items():
                self._counts.add(queue, IN_FLIGHT, -n)
        return done

    def complete(self, kept: Sequence[tuple[int, int]], now: int) -> None:
        """Mark in-flight jobs completed, each kept until the instant beside its key."""
        for part in _parts(kept):
            rows = self._execute(sql("complete", len(part)), (now, *chain.from_iterable(part)))
            self._counts.move(rows.fetchall(), IN_FLIGHT, COMPLETED)

    def apply(self, changes: Sequence[Change]) -> None:
        """Write what failed attempts made of their jobs, with the attempts' records."""
        kept = [change for change in changes if not change.remove]
        for part in _parts(kept):
            values = chain.from_iterable(map(change_values, part))
            for queue, state in self._execute(sql("apply", len(part)), tuple(values)).fetchall():
                self._counts.add(queue, IN_FLIGHT, -1)
                self._counts.add(queue, state, 1)
        self._many("insert_attempt", [attempt_values(change) for change in kept])
        self.delete([change.key for change in changes if change.remove])

    def release(self, keys: Sequence[int], *, interrupted: bool) -> None:
        """Give in-flight jobs back to their place among the ready ones."""
        for part in _parts(keys):
            rows = self._execute(sql("release", len(part)), (int(interrupted), *part)).fetchall()
            self._counts.move(rows, IN_FLIGHT, READY)

    def release_all(self, limit: int) -> int:
        """Give back up to `limit` in-flight jobs, whoever holds them; tell how many."""
        keys = [row[0] for row in self._execute(sql("select_in_flight"), (limit,)).fetchall()]
        self.release(keys, interrupted=False)
        return len(keys)

    # -- time

    def promote(self, now: int, limit: int) -> int:
        """Make up to `limit` waiting jobs ready whose time has come; tell how many."""
        rows = self._execute(sql("select_due"), (now, limit)).fetchall()
        if rows:
            self._execute(sql("promote"), (now, limit))
            for _, queue, state in rows:
                self._counts.add(queue, state, -1)
                self._counts.add(queue, READY, 1)
        return len(rows)

    def next_due(self) -> int | None:
        """Tell the earliest time that a waiting job waits for."""
        row = self._execute(sql("next_due")).fetchone()
        return None if row is None else row[0]

    def lapsed(self, now: int, limit: int) -> list[int]:
        """List in-flight jobs whose lease is past its deadline."""
        return [row[0] for row in self._execute(sql("lapsed"), (now, limit)).fetchall()]

    def reap(self, now: int, limit: int) -> int:
        """Remove up to `limit` ended jobs whose retention is over; tell how many."""
        return self.delete([row[0] for row in self._execute(sql("purgeable"), (now, limit)).fetchall()])

    # -- changes from outside

    def rewrite(self, rows: Sequence[Rewrite]) -> None:
        """Write patched values; each row must still be in the queue and state that it was read in."""
        self._many("rewrite", [rewrite_values(row) for row in rows])
        for row in rows:
            self._counts.add(row.was_queue, CODE[row.was_state], -1)
            self._counts.add(row.queue, CODE[row.state], 1)

    def delete(self, keys: Sequence[int]) -> int:
        """Remove jobs in any state with all that belongs to them; tell how many there were."""
        deleted = 0
        for part in _parts(keys):
            rows = self._execute(sql("delete", len(part)), part).fetchall()
            self._execute(sql("delete_payloads", len(part)), part)
            self._execute(sql("delete_attempts", len(part)), part)
            for queue, state in rows:
                self._counts.add(queue, state, -1)
            deleted += len(rows)
        return deleted

    def delete_all(self) -> int:
        """Remove every job; tell how many there were."""
        deleted = self._counts.total()
        for table in ("job", "payload", "attempt"):
            self._execute(f"DELETE FROM {table}")  # noqa: S608 - fixed names
        self._counts.clear()
        return deleted

    # -- reading

    def load(self, keys: Iterable[int], *, payload: bool = False) -> list[Job]:
        """Read jobs by key, in order of key; unknown keys are left out."""
        name = "load_payload" if payload else "load"
        jobs: list[Job] = []
        for part in _parts(sorted(set(keys))):
            rows = self._execute(sql(name, len(part)), part).fetchall()
            jobs += [job_of(row, self._payload_of(row) if payload else None) for row in rows]
        return jobs

    def _payload_of(self, row: tuple[Any, ...]) -> bytes:
        if row[18] is None:
            return row[19]  # type: ignore[no-any-return]
        data = self._execute(sql("payload"), (row[0],)).fetchone()
        return b"null" if data is None else data[0]

    def find(self, where: Filter, page: Page) -> list[int]:
        """Give the keys of matching jobs as the open transaction sees them."""
        return run_find(self._connection, where, page)

    def count(self, where: Filter) -> int:
        """Count matching jobs as the open transaction sees them."""
        return run_count(self._connection, where)

    def payload_sizes(self, keys: Sequence[int]) -> dict[int, int]:
        """Tell the bytes of jobs' payloads without reading them; unknown keys are left out."""
        sizes: dict[int, int] = {}
        for part in _parts(keys):
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
        key = self._execute(sql("oldest_ready")).fetchone()[0]
        return None if key is None else key >> COUNTER_BITS

    # -- what the store knows about itself

    def reserve_keys(self, up_to: int) -> None:
        """Promise that no key up to this one is given out again, also after a restart."""
        self._execute(sql("write_meta"), ("last_key", up_to))
        self.identity.last_key = up_to

    def reserve_failures(self, up_to: int) -> None:
        """The same for the ordinals of first failures."""
        self._execute(sql("write_meta"), ("last_failure", up_to))
        self.identity.last_failure = up_to

    def free_bytes(self) -> int | None:
        """Tell how much the device can still hold; None for a store in memory."""
        if self._path == ":memory:":
            return None
        device = os.statvfs(self._path)
        return device.f_bavail * device.f_frsize

    def free_reserve(self) -> None:
        """Give up the space kept for a full device, so that settling can go on; the log is emptied to be used again."""
        if self._reserve is None:
            return
        self._reserve.unlink(missing_ok=True)
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except (apsw.FullError, apsw.BusyError):
            return  # what could be copied is; the log goes on growing into the reserve
        except apsw.Error as error:
            raise self.explain(error) or error from error

    def keep_reserve(self) -> None:
        """Take that space again."""
        if self._reserve is not None:
            opening.reserve_space(self._reserve)

    def reader(self) -> Reader:
        """Open a reader of its own; a store in memory reads through its writer."""
        return _OwnReader(self) if self._path == ":memory:" else SqliteReader(self._path)

    def close(self) -> None:
        """Close cleanly; what was committed is on disk."""
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    def _many(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        for part in _parts(rows):
            self._execute(sql(name, len(part)), tuple(chain.from_iterable(part)))


class _OwnReader:
    """Reads of a store in memory: there is no second connection to it."""

    def __init__(self, store: SqliteStore) -> None:
        self.find = store.find
        self.count = store.count

    def close(self) -> None:
        """Nothing to let go of."""


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut a sequence into pieces of at most `WIDTH`."""
    if len(items) <= WIDTH:
        if items:
            yield items
        return
    for start in range(0, len(items), WIDTH):
        yield items[start : start + WIDTH]
