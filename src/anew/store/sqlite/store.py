"""The store on SQLite: one file, one connection that writes, each verb a handful of set-shaped statements."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import apsw
import msgspec

from anew.errors import AnewError, ForkedStore, StoreBusy, StoreFailed, StoreFull
from anew.jobs.change import Change
from anew.jobs.codec import NewJob
from anew.jobs.hooks import Hook
from anew.jobs.job import Job
from anew.jobs.limits import Throttle
from anew.jobs.state import State
from anew.store.protocol import (
    Named,
    Position,
    Reader,
    Recount,
    Rewrite,
    Session,
)
from anew.store.sqlite import opening
from anew.store.sqlite.arrivals import Arrivals
from anew.store.sqlite.breakers import Breakers
from anew.store.sqlite.checkpoint import Checkpointer, Log
from anew.store.sqlite.crontab import Crontab
from anew.store.sqlite.hooks import TABLES as HOOK_TABLES
from anew.store.sqlite.hooks import SqliteHooks
from anew.store.sqlite.limited import TABLES as LIMIT_TABLES
from anew.store.sqlite.limited import LimitedRows
from anew.store.sqlite.payloads import Payloads
from anew.store.sqlite.queues import Queues, tally
from anew.store.sqlite.reader import RECOUNTED, SqliteReader, recounted
from anew.store.sqlite.records import Records
from anew.store.sqlite.rows import (
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
from anew.store.sqlite.sharing import Sharing
from anew.store.sqlite.sql import in_lists, in_widths, sql
from anew.store.sqlite.takes import Takes
from anew.store.sqlite.topics import SqliteTopics

DRAWN = 4
"""Jobs that a promotion enters among the due for each that it may make ready: the more at once, the fewer pages for each."""

_open: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


def open_stores() -> list[SqliteStore]:
    """List the stores that this process has open."""
    return list(_open)


class SqliteStore:
    """One database file, or one in memory.

    Args:
        path: The data directory, or the places of a store that lies elsewhere; None keeps everything in memory.
        relaxed: Let commits return before they reach the disk; a power cut may then lose what was answered.
        background: Copy the log into the database in a thread of its own; for a server, where a pause would be felt.
        exclusive: Refuse to open where another server is; any number of other processes may still open the store.
        keep_first: Records of a job's first failures that are kept in full.
        keep_last: Records of its last failures that are, one at least; both 0 keeps all.
        vfs: Name of the apsw VFS to open the file through, for harnesses that record or fail its calls.

    Raises:
        InvalidConfig: The directory cannot be used.
        StoreBusy: Another server holds the directory, or another program its file.
        NewerStore: A newer program wrote it.
        StoreFailed: The file is no database of ours, or cannot be read; or a sync failed in a process that still has it open.
    """

    def __init__(
        self,
        path: Path | opening.Places | None = None,
        *,
        relaxed: bool = False,
        background: bool = False,
        exclusive: bool = True,
        keep_first: int = 10,
        keep_last: int = 90,
        vfs: str | None = None,
    ) -> None:
        self.session = 0
        # The last record says why a job is dead.
        self._keep = (keep_first, max(keep_last, 1) if keep_first or keep_last else 0)
        self._relaxed = relaxed
        self._abandoned = self._forked = False
        self._uncovered = False
        self._owes_sync = False  # what this transaction answers rests on the disk
        self._version = self._noted = -1
        self._unreadable: dict[int, str] = {}
        self._suspects_texts = False
        places = opening.Places.at(path) if isinstance(path, Path) else path
        self._reserve = None if places is None else places.reserve
        self._path = ":memory:" if places is None else str(places.database)
        self._connection: Any = None
        self._sharing = Sharing(places, exclusive=exclusive)
        try:
            self._connect(vfs, background and places is not None)
            if places is not None:
                self._join()
        except BaseException as error:
            if isinstance(error, apsw.IOError):
                self.abandon(f"{type(error).__name__}: {error}")
            self._disconnect()
            known = self.explain(error) if isinstance(error, Exception) else None
            if known is None and isinstance(error, OSError):
                known = _failed(error)
            if known is not None:
                raise known from error
            raise
        _open.add(self)

    # -- opening

    def _connect(self, vfs: str | None, background: bool) -> None:
        self._sharing.enter_first(opening.OPENING_WAIT_S)
        if self._reserve is not None:
            opening.make_room(self._reserve)
        self._connection = opening.connect(self._path, vfs=vfs)
        # Whoever opens may wait, for a program without a turnstile too.
        self._connection.set_busy_timeout(int(opening.OPENING_WAIT_S * 1_000))
        self._log = Log(self._connection)
        self._page_bytes = int(self._connection.pragma("page_size"))
        opening.migrate(self._connection, self._sharing.require_alone)
        if self._reserve is not None:
            self.keep_reserve()
            opening.sync_directory(self._reserve.parent)
        self.identity = opening.identify(self._connection)
        # Loosely typed on purpose: what a row holds is known by its statement, and `rows` gives it names.
        self._execute: Callable[..., Any] = self._connection.cursor().execute
        self._queues = Queues(self._connection.execute, self._connection.cursor().execute)
        self.takeable, self.any_ready = self._queues.takeable, self._queues.any_ready
        self.ready_among, self.fresh_ready = self._queues.ready_among, self._queues.touched_ready
        self.pause, self.unlist = self._queues.pause, self._queues.unlist
        self.list_queues = self._queues.list_names
        self._reads = SqliteReader(self._connection, shared=True)
        self.find, self.count = self._reads.find, self._reads.count
        crontab = Crontab(self._execute)
        self.due_crons, self.next_slot, self.crons = crontab.due_crons, crontab.next_slot, crontab.crons
        self.all_crons, self.cron, self.write_crons = crontab.all_crons, crontab.cron, crontab.write_crons
        self.drop_crons, self.cron_extent = crontab.drop_crons, crontab.cron_extent
        self.cron_groups, self.cron_group = crontab.cron_groups, crontab.cron_group
        self.write_cron_group, self.drop_cron_group = crontab.write_cron_group, crontab.drop_cron_group
        self.drop_all_crons = crontab.drop_all_crons
        breakers = Breakers(self._execute)
        self.breakers, self.write_breakers = breakers.breakers, breakers.write_breakers
        self._payloads = Payloads(self._execute)
        self._hooks = SqliteHooks(self._execute)
        self._key_limits = LimitedRows(self._execute, self._queues)
        self._topics = SqliteTopics(self._execute)
        takes = Takes(self._execute, self._queues, self._payloads)
        self.take, self.take_each, self.reserve = takes.take, takes.take_each, takes.reserve
        self.limit, self.occupy = takes.limit, takes.occupy
        self.pass_time, self.next_slot_end = self._queues.slots.pass_time, self._queues.slots.next_end
        self.return_slots, self.free_slots = self._queues.slots.untook, takes.free_slots
        self._records = Records(self._execute, self._payloads, *self._keep)
        self.errors, self.last_errors = self._records.errors, self._records.last_errors
        self.dropped_errors, self.sweep = self._records.dropped_errors, self._records.sweep
        self._arrivals = Arrivals(self._execute, self._queues, self._payloads, self._records, takes.occupy)
        self.insert, self.insert_plain = self._arrivals.insert, self._arrivals.insert_plain
        self.insert_moved = self._arrivals.insert_moved
        self.limits: Mapping[str, Throttle] = self._queues.slots.limits
        self._queues.slots.believe(self._read_numbers())
        self.count_outcomes = self._records.count_outcomes
        self.leave_orphans, self.recount_records = self._records.leave_orphans, self._records.recount_records
        if background:
            self._log.thread = Checkpointer(self._path, vfs)

    def _join(self) -> None:
        """Give this process its session."""
        self._execute("BEGIN IMMEDIATE")
        row = self._execute(sql("open_session"), (os.getpid(), opening.now_ms())).fetchone()
        self.session = row[0]
        self._payloads.session = self.session
        if self._sharing.presence is not None:
            self._sharing.presence.appear(self.session)  # before the row is committed
        self._execute("COMMIT")
        self._connection.set_busy_timeout(0)  # from now on somebody else's lock is told at once
        self._log.keep_open(self._path)
        if self._relaxed or self._log.can_sync:
            self._connection.pragma("synchronous", "normal")
        self._note_version()
        self._sharing.leave()

    # -- transactions

    def begin(self, *, synced: bool) -> bool:
        """Start a transaction; tell whether another process has written since the last one."""
        if self._forked:
            raise ForkedStore
        if self._abandoned:
            raise StoreFailed("the store has failed; nothing more is written")
        try:
            if not self._sharing.enter():
                self._sharing.locked = False
                raise StoreBusy("another process is writing to the store")
            self._execute("BEGIN IMMEDIATE")
            self._sharing.locked = False
            changed = bool(self._connection.data_version() != self._version)
            if changed:
                self._note_version()
                self._forget()
                self._log.is_synced = False
            self._owes_sync = synced and self._log.can_sync and not self._relaxed
        except (apsw.BusyError, apsw.LockedError) as error:
            self._sharing.locked = True
            self._sharing.leave()
            raise StoreBusy("another program is writing to the database file") from error
        except (StoreBusy, StoreFailed):  # the turn has not come
            raise
        except BaseException:
            self.rollback()
            raise
        return changed

    def is_open(self) -> bool:
        """Tell whether a transaction is open."""
        return bool(self._connection.in_transaction)

    def commit(self) -> bool:
        """Make the transaction last; tell whether some queue has more ready jobs now.

        What may go wrong after it lasts is a failure of the disk, or nobody's concern.
        """
        made_ready = self._queues.settle()
        if self._uncovered and self._written_key != self.identity.last_key:
            self._write_last_key()
        if self._written_failure != self.identity.last_failure:
            self._write_last_failure()
        self._execute("COMMIT")
        self._version = self._connection.data_version()
        self._uncovered = False
        if self._log.is_long():
            try:
                self._log.shorten()
            except Exception as error:
                # The batch is committed: an error taken for its own would have it applied a second time. The turn is kept, so that
                # nobody writes before `abandon` has left the mark.
                raise _failed(error) from error
        self._sharing.leave()
        if made_ready and self._sharing.presence is not None:
            self._sharing.presence.poke()
        return made_ready

    def sync(self) -> None:
        """Sync what was committed, and what others had written before it, while others have their turn.

        Nothing where the transaction needed no sync, or SQLite has made it.

        Raises:
            StoreFailed: It failed, also for whoever syncs the log after this: Linux reports it to every descriptor that was open.
        """
        if not self._owes_sync:
            return
        try:
            self._log.sync()
        except OSError as error:
            self._owes_sync = False
            raise _failed(error) from error
        self._owes_sync = False  # only now: Ctrl-C may come in between

    def rollback(self) -> None:
        """Undo the transaction; what is cached of the rows is read again."""
        if self._connection.in_transaction:
            self._owes_sync = False
            self._execute("ROLLBACK")
            self._version = self._connection.data_version()
        self._forget()
        self._sharing.leave()
        self.sync()  # of what had been committed when Ctrl-C came

    def busy(self) -> StoreBusy:
        """Say who has kept the store busy for too long, for whoever is refused for it."""
        return self._sharing.busy()

    def when_free(self, call: Callable[[], None]) -> None:
        """After a StoreBusy: call a function once, from some thread, when `begin` is worth trying again."""
        self._sharing.when_free(call)

    def wait_until_free(self, timeout_s: float) -> bool:
        """After a StoreBusy, in a thread that may wait: tell whether `begin` is worth trying again within this time."""
        return self._sharing.wait_until_free(timeout_s)

    def let_go(self) -> None:
        """Give a turn that has come, and is not wanted any more, to the next process."""
        self._sharing.give_up()

    def has_changed(self) -> bool:
        """Tell whether another process has written since the last transaction; outside of one."""
        return self._others_version() != self._noted

    def explain(self, error: Exception) -> AnewError | None:
        """Tell SQLite's exception in our words; anything but "no space" and "busy" means that nothing may be trusted."""
        if isinstance(error, apsw.FullError):
            return StoreFull("no space left on the device that holds the store")
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return StoreBusy("another program holds the lock of the database file; end its transaction")
        if isinstance(
            error,
            apsw.IOError | apsw.CorruptError | apsw.NotADBError | apsw.ReadOnlyError | apsw.CantOpenError,
        ):
            return _failed(error)
        return None

    def _note_version(self) -> None:
        """Note the state of the file as it is seen now."""
        # The first counts every change, costs nothing and is up to date in a transaction; the second counts what others have
        # written, costs some microseconds and looks at the file itself.
        self._version, self._noted = self._connection.data_version(), self._others_version()

    def _others_version(self) -> int:
        ((version,),) = self._execute("PRAGMA data_version").fetchall()  # see `next_due`
        return int(version)

    def _forget(self) -> None:
        """Drop what is cached of the rows: another transaction may have changed them."""
        self._queues.forget()
        self._queues.slots.believe(self._read_numbers())

    def _read_numbers(self) -> str | None:
        """Believe the rows about the numbers given out so far; give what is stored of limits."""
        ((newest, last_key, last_failure, limits),) = self._execute(sql("read_numbers")).fetchall()
        self._written_key, self._written_failure = int(last_key), int(last_failure)
        self._uncovered = False
        self._arrivals.newest = newest or 0
        self.identity.last_key = max(self._written_key, self._arrivals.newest)
        self.identity.last_failure = self._written_failure
        return None if limits is None else str(limits)

    # -- what only a store on one disk with one writer needs

    @property
    def staging(self) -> SqliteStore:
        """How long payloads are written ahead."""
        return self

    @property
    def hooks(self) -> SqliteHooks:
        """What jobs are tied to."""
        return self._hooks

    @property
    def key_limits(self) -> LimitedRows:
        """Keys that bound jobs."""
        return self._key_limits

    @property
    def topics(self) -> SqliteTopics:
        """Topics, and what is published on them."""
        return self._topics

    @property
    def device(self) -> SqliteStore | None:
        """The disk it lives on; None for a store in memory."""
        return None if self._reserve is None else self

    def free_bytes(self) -> int:
        """Tell how much can still be stored: on the disk, and in pages of the file that deleted jobs have left.

        Without space for the log nothing can be written into those either.
        """
        device = os.statvfs(self._path)
        free = device.f_bavail * device.f_frsize
        if free < opening.CHECKPOINT_PAGES * self._page_bytes:
            return free
        return free + int(self._connection.pragma("freelist_count")) * self._page_bytes

    def free_reserve(self) -> None:
        """Give up the space kept for a full disk, so that settling can go on; the log is emptied to be used again."""
        if self._reserve is None:
            return
        self._reserve.unlink(missing_ok=True)
        try:
            self._log.copy()
        except apsw.Error as error:
            raise self.explain(error) or error from error

    def keep_reserve(self) -> None:
        """Take that space again."""
        if self._reserve is not None:
            opening.reserve_space(self._reserve)

    # -- numbers given out, and what is written ahead of its job

    def shorten_log(self) -> None:
        """Have the next commits copy the log into the database, however short it is."""
        self._log.hurry()

    def is_log_short(self) -> bool:
        """Report whether they have."""
        return not self._log.hurries

    def remember(self) -> None:
        """Write the largest numbers given out, as they are now."""
        self._write_last_key()
        self._write_last_failure()

    def _write_last_key(self) -> None:
        self._written_key = self.identity.last_key
        self._execute(sql("write_meta"), ("last_key", self._written_key))

    def _write_last_failure(self) -> None:
        self._written_failure = self.identity.last_failure
        self._execute(sql("write_meta"), ("last_failure", self._written_failure))

    def _note_removed(self, keys: Sequence[int]) -> None:
        """Note that rows are removed: with the newest, no row says any more which key was given out last."""
        self._uncovered = self._uncovered or max(keys, default=0) >= self._arrivals.newest

    def stage(
        self, keys: Sequence[int], jobs: Sequence[NewJob], at: Position, max_bytes: int
    ) -> Position | None:
        """Write the next part of long payloads ahead of their jobs; give where to go on, or None."""
        self._uncovered = True
        return self._payloads.stage(keys, jobs, at, max_bytes)

    def unstage(self, first_key: int, last_key: int) -> None:
        """Remove what was written ahead for jobs with these keys that have not come."""
        self._payloads.unstage(first_key, last_key)

    def unstage_abandoned(self) -> None:
        """Remove what was written ahead by sessions that are gone."""
        self._payloads.unstage_abandoned()

    # -- the ends of attempts

    def named(self, jids: Sequence[str]) -> list[Named]:
        """Find reserved jobs by their producers' ids; of several with one id, the one that was taken last comes last."""
        parts = in_lists(jids)
        return [Named(*row) for part in parts for row in self._execute(sql("named", len(part)), part)]

    def held_under(self, holds: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        """Of (key, token) pairs, give those whose job is in flight under that token."""
        held: set[tuple[int, int]] = set()
        for part in in_widths(holds):
            held.update(self._execute(sql("held_under", len(part)), tuple(chain.from_iterable(part))))
        return held

    def finish(self, keys: Sequence[int], members: dict[int, int] | None = None) -> list[int]:
        """Remove those of some jobs that are in flight and nothing but their row; give the keys that were removed."""
        done: list[int] = []
        self._note_removed(keys)
        others = ~(Hook.ONCE if members is None else Hook.ONCE | Hook.MEMBER)
        for part in in_lists(keys):
            rows = self._execute(sql("finish", len(part)), (others, *part)).fetchall()
            done += [key for key, _, _ in rows]
            self._queues.move(tally([queue for _, queue, _ in rows]), IN_FLIGHT, None)
            if members is not None:
                for batch, n in tally([batch for _, _, batch in rows if batch is not None]).items():
                    members[batch] = members.get(batch, 0) + n
        return done

    def count_ended(self, day: int, processed: int, failed: int) -> None:
        """Count attempts that have ended on a day: all, and those that failed."""
        self._execute(sql("count_ended"), (day, processed, failed))

    def complete(self, kept: Sequence[tuple[int, int]], now: int) -> list[int]:
        """Mark in-flight jobs completed, each kept until the instant beside its key; give the keys that were written."""
        written: list[int] = []
        for part in in_widths(kept):
            rows = self._execute(sql("complete", len(part)), (now, *chain.from_iterable(part))).fetchall()
            self._queues.move(tally([row[1] for row in rows]), IN_FLIGHT, COMPLETED)
            written += [row[0] for row in rows]
        return written

    def keep_results(self, results: Sequence[tuple[int, bytes]]) -> None:
        """Write what completed jobs have come to; those that are not kept are left alone."""
        for part in in_widths(results):
            self._execute(sql("keep_results", len(part)), tuple(chain.from_iterable(part)))

    def apply(self, changes: Sequence[Change]) -> list[int]:
        """Write what failed attempts made of their jobs, with the attempts' records; give the keys written."""
        written: list[int] = []
        for part in in_widths([change for change in changes if not change.remove]):
            values = chain.from_iterable(map(change_values, part))
            rows = self._execute(sql("apply", len(part)), tuple(values)).fetchall()
            for (queue, code), n in tally([row[1:3] for row in rows]).items():
                self._queues.move({queue: n}, IN_FLIGHT, code)
                if code == READY:
                    self._queues.change(queue)
            keys = {row[0] for row in rows}
            self._records.add(
                [change for change in part if change.key in keys], [(row[0], row[3]) for row in rows]
            )
            written += keys
        return written + self.delete([change.key for change in changes if change.remove])

    def release(self, keys: Sequence[int], now: int, *, interrupted: bool) -> list[int]:
        """Give in-flight jobs whose time has come back to their place among the ready ones; give the keys written."""
        written: list[int] = []
        for part in in_lists(keys):
            rows = self._execute(sql("release", len(part)), (int(interrupted), *part, now)).fetchall()
            for queue, n in tally([row[1] for row in rows]).items():
                self._queues.move({queue: n}, IN_FLIGHT, READY)
                self._queues.change(queue)
            written += [row[0] for row in rows]
        return written

    # -- time

    def promote(self, now: int, limit: int) -> int:
        """Make up to `limit` waiting jobs ready whose time has come; tell how many."""
        self._execute(sql("draw_near"), (now, DRAWN * limit))
        rows = self._execute(sql("select_due"), (now, limit)).fetchall()
        if rows:
            self._execute(sql("promote"), (now, limit))
            self._queues.list_names({row[1] for row in rows if row[3]})
            for (queue, code), n in tally([row[1:3] for row in rows]).items():
                self._queues.move({queue: n}, code, READY)
                self._queues.change(queue)
        return len(rows)

    def next_due(self) -> int | None:
        """Tell the earliest time at which `promote` has something to do."""
        # To its end: a statement that is not finished keeps the file as it sees it now, for later reads and from being shortened.
        rows: list[tuple[int | None]] = self._execute(sql("next_due")).fetchall()
        return rows[0][0]

    def lapsed(self, now: int, limit: int) -> list[int]:
        """List in-flight jobs whose hold is past its deadline."""
        return [row[0] for row in self._execute(sql("lapsed"), (now, limit)).fetchall()]

    def reap(self, now: int, limit: int) -> int:
        """Remove up to `limit` ended jobs whose retention is over; tell how many."""
        return len(self.delete([row[0] for row in self._execute(sql("purgeable"), (now, limit)).fetchall()]))

    def is_due(self, duty: str, now: int, every_ms: int) -> bool:
        """Tell whether a duty was last done so long ago, by whichever process, and note that it is being done now."""
        row = self._execute(sql("read_duty"), (duty,)).fetchone()
        if row is not None and row[0] <= now < row[0] + every_ms:
            return False
        self._execute(sql("write_duty"), (duty, now))
        return True

    # -- changes from outside

    def rewrite_payload(self, key: int, payload: bytes) -> None:
        """Give a job that is there another payload."""
        self._payloads.delete([key])
        apart = len(payload) > INLINE_BYTES
        if apart:
            self._payloads.insert(key, msgspec.Raw(payload))
        stored = (len(payload), None) if apart else (None, payload)
        self._execute(sql("rewrite_payload"), (*stored, checksum(payload), key))

    def rewrite(self, rows: Sequence[Rewrite]) -> list[int]:
        """Write changed values; a row that is no longer in the queue and state that it was read in is left alone."""
        written: list[int] = []
        for part in in_widths(rows):
            values = chain.from_iterable(map(rewrite_values, part))
            keys = {key for (key,) in self._execute(sql("rewrite", len(part)), tuple(values)).fetchall()}
            for row in part:
                if row.job.key in keys:
                    self._recount(row)
            written += keys
        return written

    def _recount(self, row: Rewrite) -> None:
        self._queues.move({row.was_queue: 1}, CODE[row.was_state], None)
        self._queues.move({row.job.queue: 1}, None, CODE[row.job.state])
        if row.job.state is State.IN_FLIGHT and row.job.queue != row.was_queue and self.limits:
            self.occupy([(row.job.key, row.job.queue, "")], row.job.dequeued_at or 0)
        if row.was_state is State.READY:
            self._queues.change(row.was_queue)
        if row.job.state is State.READY:
            if row.job.jid is not None:
                self._queues.list_names([row.job.queue])
            self._queues.change(row.job.queue)

    def delete(self, keys: Sequence[int]) -> list[int]:
        """Remove jobs in any state with all that belongs to them; give the keys that were there."""
        deleted: list[int] = []
        self._note_removed(keys)
        for part in in_lists(keys):
            rows = self._execute(sql("delete", len(part)), part).fetchall()
            found = [row[0] for row in rows]
            if rows:  # not the keys that were given: there may be payloads of jobs that have yet to come
                self._records.delete(rows)
            for (queue, code), n in tally([row[1:3] for row in rows]).items():
                if code in STATE:
                    self._queues.move({queue: n}, code, None)
                if code == READY:
                    self._queues.change(queue)
            deleted += found
        return deleted

    def delete_all(self) -> int:
        """Remove every job; tell how many there were."""
        deleted = self._queues.total()
        self.forget_notes()  # what was moved in is gone, and may be moved in again
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
            self._execute(f"DELETE FROM {table}")  # noqa: S608 - fixed names
        self._payloads.delete_all()
        self._queues.clear()
        return deleted

    def mend_texts(self) -> int:
        """Rename jobs whose queue or type is no UTF-8, for `set_aside` to end them; drop what is derived and as damaged.

        Looks at every job, and so is for the rare case that a statement has met such a text. Gives how many rows were touched.
        """
        self._suspects_texts = False
        texts = self._reads.damaged_texts()
        for key, (queue, kind) in texts.items():
            self._execute(sql("rename"), (queue, kind, key))
            self._unreadable[key] = "its queue or type cannot be read"
            self._queues.change(queue)
        damaged = self._reads.damaged_names()
        for name in damaged:
            self._execute(sql("drop_queue_text"), (name,))
        return len(texts) + len(damaged)

    def set_aside(self, limit: int, purge_at: int | None, now: int) -> list[int]:
        """End, as dead and corrupt, jobs in which a state or a text was met that cannot be read; give their keys."""
        if self._suspects_texts:
            self.mend_texts()
        keys = list(self._unreadable)[:limit]
        for key in keys:
            self._bury(key, self._unreadable.pop(key), purge_at, now)
        return keys

    def _bury(self, key: int, wrong: str, purge_at: int | None, now: int) -> None:
        row = self._execute(sql("bury"), (DEAD, purge_at, now, key)).fetchone()
        if row is None:
            return
        self._queues.move({row[0]: 1}, None, DEAD)
        decision = msgspec.json.encode({"verdict": "dead", "reason": f"corrupt: {wrong}"})
        self._records.write([(key, row[1] + 1, "corrupt", "Corrupt", wrong, None, now, now, decision)])

    # -- reads

    def load(self, keys: Iterable[int], *, payload: bool = False) -> list[Job]:
        """Read jobs by key, in order of key; unknown keys are left out. A payload that cannot be read is None."""
        name = "load_payload" if payload else "load"
        jobs: list[Job] = []
        for part in in_lists(sorted(set(keys))):
            for row in self._loaded(sql(name, len(part)), part):
                if row[STATE_AT] not in STATE:
                    self._unreadable.setdefault(row[0], f"its state {row[STATE_AT]} is none")
                jobs.append(job_of(row, self._payload_of(row) if payload else None))
        return jobs

    def _loaded(self, statement: str, keys: Sequence[int]) -> list[tuple[Any, ...]]:
        """Run a statement that loads jobs; of a queue or type that is no UTF-8, read what is left."""
        try:
            rows: list[tuple[Any, ...]] = self._execute(statement, keys).fetchall()
        except UnicodeDecodeError:
            self._suspects_texts = True
            as_bytes = statement.replace("queue, type,", "CAST(queue AS BLOB), CAST(type AS BLOB),", 1)
            found = self._execute(as_bytes, keys).fetchall()
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
        """Tell the bytes of jobs' payloads without reading them; unknown keys are left out."""
        sizes: dict[int, int] = {}
        for part in in_lists(keys):
            sizes.update(self._execute(sql("payload_sizes", len(part)), part).fetchall())
        return sizes

    def corrupt_among(self, keys: Sequence[int]) -> set[int]:
        """Give those of these jobs that were set aside because something stored of them cannot be read, or will be."""
        return self._unreadable.keys() & set(keys) | self._records.corrupt_among(keys)

    def counts(self, queues: Collection[str] | None = None) -> Mapping[str, Mapping[State, int]]:
        """Count jobs by queue and state, in some queues or all; queues without a job are left out."""
        try:
            return self._queues.snapshot(queues)
        except UnicodeDecodeError:
            self._suspects_texts = True
            raise

    def correct(self, found: Recount) -> bool:
        """Put right what a recount has found, unless another finding has been since; tell whether that was done."""
        if found.number != recounted(self._connection):
            return False
        self._execute(sql("write_duty"), (RECOUNTED, found.number + 1))
        for (queue, state), n in found.counters.items():
            self._queues.move({queue: n}, None, CODE[state])
        for queue, n in found.blocked.items():
            self._queues.move({queue: n}, None, BLOCKED)
        for queue in found.heads:
            self._queues.change(queue)
        return True

    # -- notes

    def notes(self) -> dict[str, str]:
        """Give the notes of how far moves from elsewhere have come, by name."""
        return dict(self._execute(sql("notes")).fetchall())

    def note(self, name: str) -> str | None:
        """Give one of them, if there is one."""
        rows: list[tuple[str]] = self._execute(sql("note"), (f"moved/{name}",)).fetchall()
        return rows[0][0] if rows else None

    def write_note(self, name: str, text: str) -> None:
        """Write one of them."""
        self._execute(sql("write_meta"), (f"moved/{name}", text))

    def forget_notes(self) -> None:
        """Remove them all."""
        self._execute(sql("forget_notes"))

    # -- other processes

    def sessions(self) -> list[Session]:
        """List the processes that have this store open, and those that have died with it."""
        rows = self._execute(sql("sessions")).fetchall()
        presence = self._sharing.presence
        return [
            Session(id_, pid, started_at, presence is None or presence.is_alive(id_))
            for id_, pid, started_at in rows
        ]

    def held_by(self, session: int | None, limit: int) -> list[int]:
        """List jobs in flight that a session holds; None: whose session has no row. Reservations are left out."""
        if session is None:
            rows = self._execute(sql("held_by_nobody"), (limit,)).fetchall()
        else:
            rows = self._execute(sql("held_by"), (session, limit)).fetchall()
        return [key for (key,) in rows]

    def note_begun(self, slot: int, key: int) -> None:
        """Note which job this process runs in one of its slots; 0: none. From any thread, outside of transactions."""
        if self._sharing.presence is not None:
            self._sharing.presence.note_begun(slot, key)

    def begun(self, session: int) -> frozenset[int] | None:
        """Give the jobs that a session had begun with, as it has noted; None if it never has."""
        return None if self._sharing.presence is None else self._sharing.presence.begun(session)

    def forget_session(self, session: int) -> None:
        """Remove a dead session that holds nothing any more."""
        self._execute(sql("close_session"), (session,))
        if self._sharing.presence is not None:
            self._sharing.presence.forget(session)

    def listen(self) -> int | None:
        """Begin to be woken when another process commits ready jobs; gives a descriptor to wait on, if there is one."""
        return None if self._sharing.presence is None else self._sharing.presence.listen()

    def poke_self(self) -> None:
        """Wake whoever of this process waits at that descriptor."""
        if self._sharing.presence is not None:
            self._sharing.presence.poke_self()

    def hear(self) -> None:
        """Take what has come to that descriptor."""
        if self._sharing.presence is not None:
            self._sharing.presence.hear()

    def reader(self) -> Reader:
        """Open a reader of its own; a store in memory reads through its writer."""
        return self._reads if self._path == ":memory:" else SqliteReader.open(self._path)

    # -- the end

    def abandon(self, reason: str) -> None:
        """After StoreFailed: let every other process know, and write, sync or checkpoint nothing more."""
        self._abandoned = True
        if self._connection is not None:
            self._log.stop()
        self._sharing.mark_failed(reason)

    def close(self) -> None:
        """Close cleanly; what was committed is on disk. After `abandon` nothing is written."""
        _open.discard(self)
        if self._forked:
            return
        try:
            if not self._abandoned:
                self._say_goodbye()
        finally:
            self._disconnect()

    def _say_goodbye(self) -> None:
        """Remove this process's session and, if nobody else is there, copy the log into the database."""
        try:
            if self.session:
                self.rollback()
                self._sharing.enter_or_wait(opening.CLOSING_WAIT_S)
                self.begin(synced=False)
                if not self.held_by(
                    self.session, 1
                ):  # else it stays, and whoever comes next gives the jobs back
                    self._execute(sql("close_session"), (self.session,))
                self.commit()
            self._sharing.enter_or_wait(
                opening.CLOSING_WAIT_S
            )  # a copy would fail others who open the file just now
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError, apsw.FullError, StoreBusy, StoreFull, StoreFailed):
            pass  # somebody else is at work, or there is no space: the next one to close copies it
        except apsw.Error as error:
            self.abandon(str(error))
            raise _failed(error) from error

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._log.close()
            self._connection.close()
        self._sharing.close()


def _failed(error: Exception) -> StoreFailed:
    return StoreFailed(f"the store failed: {type(error).__name__}: {error}")


def _after_fork() -> None:
    """In a forked child: let go of the parent's locks, which the child would keep alive; its connection is not even closed."""
    for store in open_stores():
        store._forked = True
        store._sharing.close_in_child()
        _open.discard(store)


os.register_at_fork(after_in_child=_after_fork)
