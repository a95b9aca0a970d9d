"""The verbs of the store on SQLite: each a handful of set-shaped statements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count
from typing import Any

from anew.jobs.change import Change
from anew.jobs.codec import DEFAULT_PRIORITY, NewJob
from anew.store.protocol import LAST_KEY, Lease, Position, Rewrite, TakenRow
from anew.store.sqlite.codes import CODE, COMPLETED, IN_FLIGHT, READY
from anew.store.sqlite.counts import tally
from anew.store.sqlite.reading import ReadingStore
from anew.store.sqlite.rows import (
    INLINE_BYTES,
    attempt_values,
    change_values,
    is_plain,
    plain_values,
    rewrite_values,
    rich_values,
)
from anew.store.sqlite.sql import WIDTH, in_widths, sql


class SqliteStore(ReadingStore):
    """The store on SQLite; how it is opened stands with `OpenedStore`."""

    # -- new jobs

    def insert(self, first_key: int, jobs: Sequence[NewJob], now: int, *, staged: bool = False) -> None:
        """Store new jobs under consecutive keys; `staged`: their long payloads are there already."""
        plain: list[tuple[Any, ...]] = []
        rich: list[tuple[Any, ...]] = []
        for key, job in enumerate(jobs, first_key):
            if is_plain(job):
                plain.append(plain_values(key, job, now))
                continue
            rich.append(rich_values(key, job, now))
            if not staged and len(job.payload) > INLINE_BYTES:
                self._payloads.insert(key, job.payload)
        self._many("insert_plain", plain)
        self._many("insert_rich", rich)
        if staged:
            self._payloads.adopt(first_key, first_key + len(jobs) - 1)
        for (queue, state), n in tally((row[1], row[4]) for row in chain(plain, rich)).items():
            self._counts.add(queue, state, n)

    def insert_plain(self, first_key: int, jobs: Sequence[NewJob], now: int) -> None:
        """As `insert`, for jobs that say nothing beyond type, queue and payload, so that nothing more is looked at."""
        if max([len(job.payload) for job in jobs], default=0) > INLINE_BYTES:
            self.insert(first_key, jobs, now)
            return
        keys = count(first_key)
        for part in in_widths(jobs):
            values: list[Any] = [DEFAULT_PRIORITY, READY, now]
            for job, key in zip(part, keys):  # noqa: B905 - the keys have no end
                values += (key, job.queue, job.type, bytes(job.payload))
            self._execute(sql("insert_usual", len(part)), values)
        for queue, n in tally([job.queue for job in jobs]).items():
            self._counts.add(queue, READY, n)

    def stage(self, first_key: int, jobs: Sequence[NewJob], at: Position, max_bytes: int) -> Position | None:
        """Write the next portion of long payloads ahead of their jobs; give where to go on, or None."""
        return self._payloads.stage(first_key, jobs, at, max_bytes)

    def unstage(self, first_key: int = 0, last_key: int = LAST_KEY) -> None:
        """Remove what was written ahead for jobs with these keys that have not come."""
        self._payloads.unstage(first_key, last_key)

    # -- take

    def take(self, queues: Sequence[str] | None, limit: int, max_bytes: int, lease: Lease) -> list[TakenRow]:
        """Put the first ready jobs by (priority, key) under a lease; None means all queues."""
        stamp = (lease.token, lease.owner, lease.deadline, lease.now)
        if queues is None:
            queues = self._line.queues(limit)
        if len(queues) == 1:
            rows = self._execute(sql("select_ready"), (queues[0], limit)).fetchall()
        else:
            rows = self._merged(queues, limit)
        rows = self._with_payloads(rows, max_bytes)
        if len(rows) > WIDTH and len(queues) == 1:
            self._execute(sql("lease"), (*stamp, queues[0], len(rows)))
        else:
            # For a few rows this is faster than finding their places in line again.
            for keys in in_widths([row[0] for row in rows]):
                self._execute(sql("lease_by_key", len(keys)), (*stamp, *keys))
        self._counts.move([row[1] for row in rows], READY, IN_FLIGHT)
        return rows

    def _merged(self, queues: Sequence[str], limit: int) -> list[TakenRow]:
        """Find the first ready jobs of several queues by their index entries alone, then read those rows."""
        rows: list[TakenRow] = []
        for part in in_widths(self._line.keys(queues, limit)):
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
            rows[at] = (*row[:11], self._payloads.read(row[0], apart))
        return rows

    # -- the ends of attempts

    def finish(self, keys: Sequence[int]) -> list[int]:
        """Remove in-flight jobs that left nothing but their row; give the keys that were removed."""
        done: list[int] = []
        for part in in_widths(keys):
            rows = self._execute(sql("finish", len(part)), part).fetchall()
            done += [key for key, _ in rows]
            for queue, n in tally([queue for _, queue in rows]).items():
                self._counts.add(queue, IN_FLIGHT, -n)
        return done

    def complete(self, kept: Sequence[tuple[int, int]], now: int) -> None:
        """Mark in-flight jobs completed, each kept until the instant beside its key."""
        for part in in_widths(kept):
            rows = self._execute(sql("complete", len(part)), (now, *chain.from_iterable(part)))
            self._counts.move((row[0] for row in rows.fetchall()), IN_FLIGHT, COMPLETED)

    def apply(self, changes: Sequence[Change]) -> None:
        """Write what failed attempts made of their jobs, with the attempts' records."""
        for part in in_widths([change for change in changes if not change.remove]):
            values = chain.from_iterable(map(change_values, part))
            rows = self._execute(sql("apply", len(part)), tuple(values)).fetchall()
            for _, queue, state in rows:
                self._counts.add(queue, IN_FLIGHT, -1)
                self._counts.add(queue, state, 1)
            written = {key for key, _, _ in rows}
            self._many("insert_attempt", [attempt_values(change) for change in part if change.key in written])
        self.delete([change.key for change in changes if change.remove])

    def release(self, keys: Sequence[int], *, interrupted: bool) -> None:
        """Give in-flight jobs back to their place among the ready ones."""
        for part in in_widths(keys):
            rows = self._execute(sql("release", len(part)), (int(interrupted), *part)).fetchall()
            self._counts.move((row[0] for row in rows), IN_FLIGHT, READY)

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
        """Write patched values; a row that is no longer in the queue and state that it was read in is left alone."""
        for part in in_widths(rows):
            values = chain.from_iterable(map(rewrite_values, part))
            rewritten = self._execute(sql("rewrite", len(part)), tuple(values)).fetchall()
            written = {key for (key,) in rewritten}
            for row in part:
                if row.key in written:
                    self._counts.add(row.was_queue, CODE[row.was_state], -1)
                    self._counts.add(row.queue, CODE[row.state], 1)

    def delete(self, keys: Sequence[int]) -> int:
        """Remove jobs in any state with all that belongs to them; tell how many there were."""
        deleted = 0
        for part in in_widths(keys):
            rows = self._execute(sql("delete", len(part)), part).fetchall()
            if rows:  # not the keys that were given: there may be payloads of jobs that have yet to come
                self._payloads.delete([key for key, _, _ in rows])
            self._execute(sql("delete_attempts", len(part)), part)
            for _, queue, state in rows:
                self._counts.add(queue, state, -1)
            deleted += len(rows)
        return deleted

    def delete_all(self) -> int:
        """Remove every job; tell how many there were."""
        deleted = self._counts.total()
        for table in ("job", "attempt"):
            self._execute(f"DELETE FROM {table}")  # noqa: S608 - fixed names
        self._payloads.delete_all()
        self._counts.clear()
        return deleted

    def _many(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        for part in in_widths(rows):
            self._execute(sql(name, len(part)), tuple(chain.from_iterable(part)))
