"""The store in SQL: each verb a handful of set-shaped statements, on whichever engine's link."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from anew.errors import AnewError, ForkedStore, StoreBusy, StoreFailed
from anew.jobs.change import Change
from anew.jobs.codec import NewJob
from anew.jobs.hooks import Hook
from anew.jobs.job import Job
from anew.jobs.moved import MovedJob
from anew.jobs.state import State
from anew.store.processes import Turns
from anew.store.protocol import (
    NOBODY,
    Device,
    Hold,
    LeaseClock,
    Named,
    OutboxRows,
    Position,
    Reader,
    Recount,
    Reserved,
    Rewrite,
    Taken,
)
from anew.store.selection import Filter, Page
from anew.store.sql.arrivals import Arrivals
from anew.store.sql.breakers import Breakers
from anew.store.sql.crontab import Crontab
from anew.store.sql.hooks import TABLES as HOOK_TABLES
from anew.store.sql.hooks import SqlHooks
from anew.store.sql.import_notes import SqlImportNotes
from anew.store.sql.limited import TABLES as LIMIT_TABLES
from anew.store.sql.limited import LimitedRows
from anew.store.sql.link import Link
from anew.store.sql.payloads import Payloads
from anew.store.sql.processes import SqlProcesses
from anew.store.sql.queues import Queues, tally
from anew.store.sql.reader import RECOUNTED, SqlReader, recounted
from anew.store.sql.records import Records
from anew.store.sql.rows import (
    BLOCKED,
    CODE,
    COMPLETED,
    DEAD,
    IN_FLIGHT,
    INLINE_BYTES,
    READY,
    STATE,
    STATE_AT,
    WIDTH_OF_JOB,
    change_values,
    checksum,
    damage,
    job_of,
    rewrite_values,
)
from anew.store.sql.statements import in_lists, in_widths
from anew.store.sql.takes import Takes
from anew.store.sql.topics import SqlTopics

DRAWN = 4
"""Jobs that a promotion enters among the due for each that it may make ready: the more at once, the fewer pages for each."""

_open: weakref.WeakSet[SqlStore] = weakref.WeakSet()


def open_stores() -> list[SqlStore]:
    """List the stores that this process has open."""
    return list(_open)


class SqlStore:
    """One store, as its engine's link reaches it. What has no text here is said in `anew.store.protocol.Store`.

    Args:
        link: Opened, with the present schema. It closes with the store.
        keep_first, keep_last: See `Records`.
    """

    def __init__(self, link: Link, *, keep_first: int = 10, keep_last: int = 90) -> None:
        self._link, self._run = link, link.run
        self.identity, self.remote, self.clock = link.identity, link.remote, link.clock
        self._uncovered = False
        self._unreadable: dict[int, str] = {}
        self._texts_suspected = False
        run = self._run
        self._reads = SqlReader(link.reading())
        self.turns: Turns = link
        self.processes = SqlProcesses(link)
        self.breakers, self.imports = Breakers(run), SqlImportNotes(run)
        self.hooks, self.topics, self.cron = SqlHooks(run), SqlTopics(run), Crontab(run)
        self.queues = Queues(link.run_apart, link.run_write, self._suspect_texts)
        self.slots = self.queues.slots
        self.key_limits = LimitedRows(run, self.queues)
        self._payloads = Payloads(run, lambda: self.session)
        self.records = Records(run, self._payloads, keep_first, keep_last)
        self._takes = Takes(run, self.queues, self._payloads)
        self._arrivals = Arrivals(run, self.queues, self._payloads, self.records)
        self.slots.believe(self._read_numbers())
        _open.add(self)

    @property
    def session(self) -> int:
        return self._link.session

    @property
    def staging(self) -> SqlStore:
        return self

    @property
    def outbox(self) -> OutboxRows | None:
        return self._link.outbox

    @property
    def device(self) -> Device | None:
        return self._link.device

    # -- transactions

    def begin(self, *, synced: bool) -> bool:
        try:
            changed = self._link.begin(synced=synced)
            if changed:
                self._forget()
        except (StoreBusy, StoreFailed, ForkedStore):  # nothing has begun
            raise
        except BaseException:
            self.rollback()
            raise
        return changed

    def commit(self) -> bool:
        """Make the transaction last; tell whether some queue has more ready jobs now.

        What may go wrong after it lasts is a failure of the disk, or nobody's concern.
        """
        made_ready = self.queues.settle()
        if self._uncovered and self._written_key != self.identity.last_key:
            self._write_last_key()
        if self._written_failure != self.identity.last_failure:
            self._write_last_failure()
        self._link.commit(made_ready=made_ready)
        self._uncovered = False
        return made_ready

    def rollback(self) -> None:
        """Undo the transaction; what is cached of the rows is read again."""
        self._link.rollback(self._forget)

    def sync(self) -> None:
        self._link.sync()

    def is_open(self) -> bool:
        return self._link.is_open()

    def explain(self, error: Exception) -> AnewError | None:
        return self._link.explain(error)

    def _forget(self) -> None:
        """Drop what is cached of the rows: another transaction may have changed them."""
        self.queues.forget()
        self.slots.believe(self._read_numbers())

    def _read_numbers(self) -> str | None:
        """Read the numbers given out so far; give what is stored of limits."""
        ((newest, last_key, last_failure, limits),) = self._run("read_numbers").fetchall()
        self._written_key, self._written_failure = int(last_key), int(last_failure)
        self._uncovered = False
        self._arrivals.newest = newest or 0
        self.identity.last_key = max(self._written_key, self._arrivals.newest)
        self.identity.last_failure = self._written_failure
        return None if limits is None else str(limits)

    # -- numbers given out, and what is written ahead of its job

    def remember(self) -> None:
        self._write_last_key()
        self._write_last_failure()

    def _write_last_key(self) -> None:
        self._written_key = self.identity.last_key
        self._run("write_meta", ("last_key", self._written_key))

    def _write_last_failure(self) -> None:
        self._written_failure = self.identity.last_failure
        self._run("write_meta", ("last_failure", self._written_failure))

    def _note_removed(self, keys: Sequence[int]) -> None:
        """Note that rows are removed: with the newest, no row says any more which key was given out last."""
        self._uncovered = self._uncovered or max(keys, default=0) >= self._arrivals.newest

    def stage(
        self, keys: Sequence[int], jobs: Sequence[NewJob], at: Position, max_bytes: int
    ) -> Position | None:
        self._uncovered = True
        return self._payloads.stage(keys, jobs, at, max_bytes)

    def unstage(self, first_key: int, last_key: int) -> None:
        self._payloads.unstage(first_key, last_key)

    def unstage_abandoned(self) -> None:
        self._payloads.unstage_abandoned()

    # -- new jobs, and takes

    def insert(self, keys: Sequence[int], jobs: Sequence[NewJob], now: int, *, staged: bool = False) -> None:
        self._arrivals.insert(keys, jobs, now, staged=staged)

    def insert_plain(self, keys: Sequence[int], jobs: Sequence[NewJob], now: int) -> None:
        self._arrivals.insert_plain(keys, jobs, now)

    def insert_moved(self, keys: Sequence[int], jobs: Sequence[MovedJob], hold: Hold) -> None:
        self._arrivals.insert_moved(keys, jobs, hold)

    def take(self, queues: Sequence[str] | None, limit: int, max_bytes: int, hold: Hold) -> Taken:
        return self._takes.take(queues, limit, max_bytes, hold)

    def take_each(self, wanted: Sequence[tuple[str, int]], max_bytes: int, hold: Hold) -> Taken:
        return self._takes.take_each(wanted, max_bytes, hold)

    def reserve(self, wanted: Sequence[tuple[str, int]], max_bytes: int, hold: Hold) -> Reserved:
        return self._takes.reserve(wanted, max_bytes, hold)

    # -- the ends of attempts

    def named(self, jids: Sequence[str]) -> list[Named]:
        parts = in_lists(jids)
        return [row for part in parts for row in map(Named._make, self._run("named", part, len(part)))]

    def held_under(self, holds: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        held: set[tuple[int, int]] = set()
        for part in in_widths(holds):
            held.update(self._run("held_under", tuple(chain.from_iterable(part)), len(part)))
        return held

    def hold_kinds(self, keys: Sequence[int]) -> list[tuple[int, int | None]]:
        found: list[tuple[int, int | None]] = []
        for part in in_lists(sorted(keys)):
            found += self._run("hold_kinds", tuple(part), len(part)).fetchall()
        return found

    def finish(self, keys: Sequence[int], members: dict[int, int] | None = None) -> list[int]:
        done: list[int] = []
        self._note_removed(keys)
        others = int(~(Hook.ONCE if members is None else Hook.ONCE | Hook.MEMBER))
        for part in in_lists(keys):
            rows = self._run("finish", (others, *part), len(part)).fetchall()
            done += [key for key, _, _ in rows]
            self.queues.move(tally([queue for _, queue, _ in rows]), IN_FLIGHT, None)
            if members is not None:
                for batch, n in tally([batch for _, _, batch in rows if batch is not None]).items():
                    members[batch] = members.get(batch, 0) + n
        return done

    def count_ended(self, day: int, processed: int, failed: int) -> None:
        self._run("count_ended", (day, processed, failed))

    def complete(self, kept: Sequence[tuple[int, int]], now: int) -> list[int]:
        written: list[int] = []
        for part in in_widths(kept):
            rows = self._run("complete", (now, *chain.from_iterable(part)), len(part)).fetchall()
            self.queues.move(tally([row[1] for row in rows]), IN_FLIGHT, COMPLETED)
            written += [row[0] for row in rows]
        return written

    def keep_results(self, results: Sequence[tuple[int, bytes]]) -> None:
        for part in in_widths(results):
            self._run("keep_results", tuple(chain.from_iterable(part)), len(part))

    def apply(self, changes: Sequence[Change], workers: Mapping[int, str | None] = NOBODY) -> list[int]:
        written: list[int] = []
        for part in in_widths([change for change in changes if not change.remove]):
            values = chain.from_iterable(map(change_values, part))
            rows = self._run("apply", tuple(values), len(part)).fetchall()
            for (queue, code), n in tally([row[1:3] for row in rows]).items():
                self.queues.move({queue: n}, IN_FLIGHT, code)
                if code == READY:
                    self.queues.change(queue)
            keys = {row[0] for row in rows}
            kept = [change for change in part if change.key in keys]
            self.records.add(kept, [(row[0], row[3]) for row in rows], workers)
            written += keys
        return written + self.delete([change.key for change in changes if change.remove])

    def release(self, keys: Sequence[int], now: int, *, interrupted: bool) -> list[int]:
        written: list[int] = []
        for part in in_lists(keys):
            rows = self._run("release", (int(interrupted), *part, now), len(part)).fetchall()
            for queue, n in tally([row[1] for row in rows]).items():
                self.queues.move({queue: n}, IN_FLIGHT, READY)
                self.queues.change(queue)
            written += [row[0] for row in rows]
        return written

    # -- time

    def promote(self, now: int, limit: int) -> int:
        self._run("draw_near", (now, DRAWN * limit))
        rows = self._run("select_due", (now, limit)).fetchall()
        if rows:
            self._run("promote", (now, limit))
            self.queues.keep_listed({row[1] for row in rows if row[3]})
            for (queue, code), n in tally([row[1:3] for row in rows]).items():
                self.queues.move({queue: n}, code, READY)
                self.queues.change(queue)
        return len(rows)

    def next_due(self) -> int | None:
        # To its end: a statement that is not finished keeps the file as it sees it now, for later reads and from being shortened.
        rows: list[tuple[int | None]] = self._run("next_due").fetchall()
        return rows[0][0]

    def lapsed(self, now: int, limit: int) -> list[int]:
        return [row[0] for row in self._run("lapsed", (now, limit)).fetchall()]

    def lease_clock(self) -> LeaseClock | None:
        rows = self._run("read_lease_clock").fetchall()
        return LeaseClock(*rows[0]) if rows else None

    def note_lease_clock(self, clock: LeaseClock) -> None:
        self._run("write_duty", ("lease jumps", clock.jumped))
        self._run("write_duty", ("lease time", clock.noted))

    def reap(self, now: int, limit: int) -> int:
        return len(self.delete([row[0] for row in self._run("purgeable", (now, limit)).fetchall()]))

    def is_due(self, duty: str, now: int, every_ms: int) -> bool:
        row = self._run("read_duty", (duty,)).fetchone()
        if row is not None and row[0] <= now < row[0] + every_ms:
            return False
        self._run("write_duty", (duty, now))
        return True

    # -- changes from outside

    def fold_into(self, key: int, payload: bytes, jobs: int, expires_at: int | None) -> None:
        self._payloads.delete([key])
        apart = len(payload) > INLINE_BYTES
        if apart:
            self._payloads.insert(key, msgspec.Raw(payload))
        stored = (len(payload), None) if apart else (None, payload)
        self._run("fold_into", (*stored, checksum(payload), jobs, expires_at, key))

    def rewrite(self, rows: Sequence[Rewrite]) -> list[int]:
        written: list[int] = []
        for part in in_widths(rows):
            values = chain.from_iterable(map(rewrite_values, part))
            keys = {key for (key,) in self._run("rewrite", tuple(values), len(part)).fetchall()}
            for row in part:
                if row.job.key in keys:
                    self._recount(row)
            written += keys
        return written

    def _recount(self, row: Rewrite) -> None:
        self.queues.move({row.was_queue: 1}, CODE[row.was_state], None)
        self.queues.move({row.job.queue: 1}, None, CODE[row.job.state])
        if row.job.state is State.IN_FLIGHT and row.job.queue != row.was_queue and self.slots.limits:
            self.slots.occupy([(row.job.key, row.job.queue, "")], row.job.dequeued_at or 0)
        if row.was_state is State.READY:
            self.queues.change(row.was_queue)
        if row.job.state is State.READY:
            if row.job.jid is not None:
                self.queues.keep_listed([row.job.queue])
            self.queues.change(row.job.queue)

    def delete(self, keys: Sequence[int]) -> list[int]:
        deleted: list[int] = []
        self._note_removed(keys)
        for part in in_lists(keys):
            rows = self._run("delete", part, len(part)).fetchall()
            found = [row[0] for row in rows]
            if rows:  # not the keys that were given: there may be payloads of jobs that have yet to come
                self.records.delete(rows)
            for (queue, code), n in tally([row[1:3] for row in rows]).items():
                if code in STATE:
                    self.queues.move({queue: n}, code, None)
                if code == READY:
                    self.queues.change(queue)
            deleted += found
        return deleted

    def delete_all(self) -> int:
        deleted = self.queues.total()
        self.imports.drop_all()  # what was moved in is gone, and may be moved in again
        self._uncovered = True
        for table in (
            "job",
            "attempt",
            "attempt_count",
            "leftover",
            "day",
            "slot",
            *HOOK_TABLES,
            *LIMIT_TABLES,
        ):
            self._link.execute(f"DELETE FROM {table}")  # noqa: S608 - fixed names
        self._payloads.delete_all()
        self.queues.clear()
        return deleted

    def mend_texts(self) -> int:
        """Rename jobs whose queue or type is no UTF-8, for `set_aside` to end them; drop what is derived; mend those of topics.

        Looks at every row, and so is for the rare case that a statement has met such a text. Gives how many rows were touched.
        """
        self._texts_suspected = False
        texts = self._reads.damaged_texts()
        for key, (queue, kind) in texts.items():
            self._run("rename", (queue, kind, key))
            self._unreadable[key] = "its queue or type cannot be read"
            self.queues.change(queue)
        damaged = self._reads.damaged_names()
        for name in damaged:
            self._run("drop_queue_text", (name,))
        return len(texts) + len(damaged) + self.topics.mend_texts()

    def _suspect_texts(self) -> None:
        self._texts_suspected = True

    def set_aside(self, limit: int, purge_at: int | None, now: int) -> list[int]:
        if self._texts_suspected:
            self.mend_texts()
        keys = list(self._unreadable)[:limit]
        for key in keys:
            self._set_aside(key, self._unreadable.pop(key), purge_at, now)
        return keys

    def _set_aside(self, key: int, wrong: str, purge_at: int | None, now: int) -> None:
        row = self._run("set_aside", (DEAD, purge_at, now, key)).fetchone()
        if row is None:
            return
        self.queues.move({row[0]: 1}, None, DEAD)
        decision = msgspec.json.encode({"verdict": "dead", "reason": f"corrupt: {wrong}"})
        self.records.write([(key, row[1] + 1, "corrupt", "Corrupt", wrong, None, now, now, decision, None)])

    # -- reads

    def reader(self) -> Reader:
        """Open a reader of its own; a store in memory reads through its writer."""
        link = self._link.open_reading()
        return self._reads if link is None else SqlReader(link)

    def find(self, where: Filter, page: Page) -> list[int]:
        return self._reads.find(where, page)

    def count(self, where: Filter) -> int:
        return self._reads.count(where)

    def load(self, keys: Iterable[int], *, payload: bool = False) -> list[Job]:
        name = "load_payload" if payload else "load"
        jobs: list[Job] = []
        for part in in_lists(sorted(set(keys))):
            for row in self._loaded(name, part):
                if row[STATE_AT] not in STATE:
                    self._unreadable.setdefault(row[0], f"its state {row[STATE_AT]} is none")
                jobs.append(job_of(row, self._payload_of(row) if payload else None))
        return jobs

    def _loaded(self, name: str, keys: Sequence[int]) -> list[tuple[Any, ...]]:
        """Run a statement that loads jobs; of a queue or type that is no UTF-8, read what is left."""
        try:
            rows: list[tuple[Any, ...]] = self._run(name, keys, len(keys)).fetchall()
        except UnicodeDecodeError:
            self._suspect_texts()
            found = self._run(f"{name}_undecoded", keys, len(keys)).fetchall()
            rows = [
                (key, *(text.decode("utf-8", "replace") for text in row[:2]), *row[2:]) for key, *row in found
            ]
        return rows

    def _payload_of(self, row: tuple[Any, ...]) -> bytes | None:
        size, crc, payload = row[WIDTH_OF_JOB : WIDTH_OF_JOB + 3]
        if size is not None:
            payload = self._payloads.read(row[0])
        return payload if damage(size, crc, payload) is None else None

    def payload_sizes(self, keys: Sequence[int]) -> dict[int, int]:
        sizes: dict[int, int] = {}
        for part in in_lists(keys):
            sizes.update(self._run("payload_sizes", part, len(part)).fetchall())
        return sizes

    def corrupt_among(self, keys: Sequence[int]) -> set[int]:
        """Give those of these jobs that were set aside because something stored of them cannot be read, or will be."""
        return self._unreadable.keys() & set(keys) | self.records.corrupt_among(keys)

    def correct(self, found: Recount) -> bool:
        if found.number != recounted(self._run):
            return False
        self._run("write_duty", (RECOUNTED, found.number + 1))
        for (queue, state), n in found.counters.items():
            self.queues.move({queue: n}, None, CODE[state])
        for queue, n in found.blocked.items():
            self.queues.move({queue: n}, None, BLOCKED)
        for queue in found.heads:
            self.queues.change(queue)
        return True

    # -- the end

    def abandon(self, reason: str) -> None:
        self._link.abandon(reason)

    def close(self) -> None:
        _open.discard(self)
        self._link.close(self._end_session)

    def _end_session(self) -> None:
        """Remove this process's session, unless it holds jobs: whoever comes next gives those back."""
        if self.session:
            self.rollback()
            self._link.enter_to_close()
            self.begin(synced=False)
            if not self.processes.held_by(self.session, 1):
                self.processes.drop_row(self.session)
            self.commit()


def _after_fork() -> None:
    """In a forked child: let go of the parent's locks, which the child would keep alive; its connection is not even closed."""
    for store in open_stores():
        store._link.close_in_child()
        _open.discard(store)


os.register_at_fork(after_in_child=_after_fork)
