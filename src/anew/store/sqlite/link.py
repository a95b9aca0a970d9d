"""The way to a store in one SQLite file, or in memory: one connection that writes, its log, its turn among the processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from anew.clock import Clock, SystemClock
from anew.errors import AnewError, ForkedStore, StoreBusy, StoreFailed, StoreFull
from anew.store.protocol import Device, OutboxRows
from anew.store.sql.reader import ReadLink
from anew.store.sql.store import SqlStore
from anew.store.sqlite import opening
from anew.store.sqlite.checkpoint import Checkpointer, Log
from anew.store.sqlite.reading import SqliteReading
from anew.store.sqlite.sharing import Sharing
from anew.store.sqlite.words import STATEMENTS


def open_sqlite(
    path: Path | opening.Places | None = None,
    *,
    relaxed: bool = False,
    background: bool = False,
    exclusive: bool = True,
    keep_first: int = 10,
    keep_last: int = 90,
    vfs: str | None = None,
) -> SqlStore:
    """Open a store: one database file, or one in memory.

    Args:
        path: The data directory, or the places of a store that lies elsewhere; None keeps everything in memory.
        relaxed: Let commits return before they reach the disk; a power cut may then lose what was answered.
        background: Copy the log into the database in a thread of its own; for a server, where a pause would be felt.
        exclusive: Refuse to open where another server is; any number of other processes may still open the store.
        keep_first, keep_last: See `SqlStore`.
        vfs: Name of the apsw VFS to open the file through, for harnesses that record or fail its calls.

    Raises:
        InvalidConfig: The directory cannot be used, or SQLite's library has a bug that damages files.
        StoreBusy: Another server holds the directory, or another program its file.
        NewerStore: A newer program wrote it.
        StoreFailed: The file is no database of ours, or cannot be read; or a sync failed in a process that still has it open.
    """
    opening.require_sound_library(apsw.sqlite_lib_version())
    link = SqliteLink(path, relaxed=relaxed, background=background, exclusive=exclusive, vfs=vfs)
    try:
        return SqlStore(link, keep_first=keep_first, keep_last=keep_last)
    except BaseException as error:
        link.give_up(error)
        raise


class SqliteLink:
    """See `anew.store.sql.link.Link`, and `open_sqlite` for the arguments."""

    def __init__(
        self,
        path: Path | opening.Places | None,
        *,
        relaxed: bool,
        background: bool,
        exclusive: bool,
        vfs: str | None,
    ) -> None:
        self.session = 0
        self.remote = False
        self.clock: Clock = SystemClock()
        self.outbox: OutboxRows | None = None  # a file of somebody's own has one; see `anew.tasks.outbox`
        self.statements = STATEMENTS
        self._relaxed = relaxed
        self._abandoned = self._forked = False
        self._owes_sync = False  # what this transaction answers rests on the disk
        self._version = self._noted = -1
        places = opening.Places.at(path) if isinstance(path, Path) else path
        self._reserve = None if places is None else places.reserve
        self._path = ":memory:" if places is None else str(places.database)
        self.connection: Any = None
        self._sharing = Sharing(places, exclusive=exclusive)
        try:
            self._connect(vfs, background and places is not None)
            if places is not None:
                self._join()
        except BaseException as error:
            self.give_up(error)
            raise

    # -- opening

    def _connect(self, vfs: str | None, background: bool) -> None:
        self._sharing.enter_first(opening.OPENING_WAIT_S)
        if self._reserve is not None:
            opening.make_room(self._reserve)
        self.connection = opening.connect(self._path, vfs=vfs)
        # Whoever opens may wait, for a program without a turnstile too.
        self.connection.set_busy_timeout(int(opening.OPENING_WAIT_S * 1_000))
        self.log = Log(self.connection)
        self._page_bytes = int(self.connection.pragma("page_size"))
        opening.migrate(self.connection, self._sharing.require_alone)
        if self._reserve is not None:
            self.keep_reserve()
            opening.sync_path(self._reserve.parent)
        self.identity = opening.identify(self.connection)
        self.execute: Callable[..., Any] = self.connection.cursor().execute
        self.run = STATEMENTS.runner(self.execute)
        # One cursor for all statements that give nothing takes half the time.
        self.run_apart = STATEMENTS.runner(self.connection.execute)
        self.run_write = STATEMENTS.runner(self.connection.cursor().execute)
        if background:
            self.log.thread = Checkpointer(self._path, vfs)

    def _join(self) -> None:
        """Give this process its session."""
        self.execute("BEGIN IMMEDIATE")
        row = self.run("open_session", (os.getpid(), opening.now_ms())).fetchone()
        self.session = row[0]
        if self._sharing.presence is not None:
            self._sharing.presence.appear(self.session)  # before the row is committed
        self.execute("COMMIT")
        self.connection.set_busy_timeout(0)  # from now on somebody else's lock is told at once
        self.log.keep_open(self._path)
        if self._relaxed or self.log.can_sync:
            self.connection.pragma("synchronous", "normal")
        self._note_version()
        self._sharing.leave()

    def give_up(self, error: BaseException) -> None:
        """Let go of everything after an error of the opening; tell it in our words, if there are any.

        Raises:
            AnewError: What the error means.
        """
        if isinstance(error, apsw.IOError):
            self.abandon(f"{type(error).__name__}: {error}")
        self._disconnect()
        known = self.explain(error) if isinstance(error, Exception) else None
        if known is None and isinstance(error, OSError):
            known = _failed(error)
        if known is not None:
            raise known from error

    # -- transactions

    def begin(self, *, synced: bool) -> bool:
        if self._forked:
            raise ForkedStore
        if self._abandoned:
            raise StoreFailed("the store has failed; nothing more is written")
        try:
            if not self._sharing.enter():
                self._sharing.locked = False
                raise StoreBusy("another process is writing to the store")
            self.execute("BEGIN IMMEDIATE")
            self._sharing.locked = False
            changed = bool(self.connection.data_version() != self._version)
            if changed:
                self._note_version()
                self.log.is_synced = False
            self._owes_sync = synced and self.log.can_sync and not self._relaxed
        except (apsw.BusyError, apsw.LockedError) as error:
            self._sharing.locked = True
            self._sharing.leave()
            raise StoreBusy("another program is writing to the database file") from error
        return changed

    def is_open(self) -> bool:
        return bool(self.connection.in_transaction)

    def commit(self, *, made_ready: bool) -> None:
        self.execute("COMMIT")
        self._version = self.connection.data_version()
        if self.log.is_long():
            try:
                self.log.shorten()
            except Exception as error:
                # The batch is committed: an error taken for its own would have it applied a second time. The turn is kept, so that
                # nobody writes before `abandon` has left the mark.
                raise _failed(error) from error
        self._sharing.leave()
        if made_ready and self._sharing.presence is not None:
            self._sharing.presence.poke()

    def sync(self) -> None:
        """Sync what was committed, and what others had written before it, while others have their turn.

        Nothing where the transaction needed no sync, or SQLite has made it.

        Raises:
            StoreFailed: It failed, also for whoever syncs the log after this: Linux reports it to every descriptor that was open.
        """
        if not self._owes_sync:
            return
        try:
            self.log.sync()
        except OSError as error:
            self._owes_sync = False
            raise _failed(error) from error
        self._owes_sync = False  # only now: Ctrl-C may come in between

    def rollback(self, forget: Callable[[], None]) -> None:
        if self.connection.in_transaction:
            self._owes_sync = False
            self.execute("ROLLBACK")
            self._version = self.connection.data_version()
        forget()
        self._sharing.leave()
        self.sync()  # of what had been committed when Ctrl-C came

    def busy(self) -> StoreBusy:
        return self._sharing.busy()

    def when_free(self, call: Callable[[], None]) -> None:
        self._sharing.when_free(call)

    def wait_until_free(self, timeout_s: float) -> bool:
        return self._sharing.wait_until_free(timeout_s)

    def let_go(self) -> None:
        self._sharing.give_up()

    def has_changed(self) -> bool:
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
        self._version, self._noted = self.connection.data_version(), self._others_version()

    def _others_version(self) -> int:
        ((version,),) = self.execute("PRAGMA data_version").fetchall()  # see `next_due`
        return int(version)

    # -- the disk that it lives on

    @property
    def device(self) -> Device | None:
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
        return free + int(self.connection.pragma("freelist_count")) * self._page_bytes

    def free_reserve(self) -> None:
        """Give up the space kept for a full disk, so that settling can go on; the log is emptied to be used again."""
        if self._reserve is None:
            return
        self._reserve.unlink(missing_ok=True)
        try:
            self.log.copy()
        except apsw.Error as error:
            raise self.explain(error) or error from error

    def keep_reserve(self) -> None:
        if self._reserve is not None:
            opening.reserve_space(self._reserve)

    def shorten_log(self) -> None:
        self.log.hurry()

    def is_log_short(self) -> bool:
        return not self.log.hurries

    # -- reading

    def reading(self) -> ReadLink:
        return SqliteReading(self.connection, owned=False)

    def open_reading(self) -> ReadLink | None:
        """Open a connection that reads; None for a store in memory."""
        return None if self._path == ":memory:" else SqliteReading.open(self._path)

    # -- other processes

    def is_alive(self, session: int) -> bool:
        return self._sharing.presence is None or self._sharing.presence.is_alive(session)

    def note_begun(self, slot: int, key: int) -> None:
        if self._sharing.presence is not None:
            self._sharing.presence.note_begun(slot, key)

    def begun(self, session: int) -> frozenset[int] | None:
        return None if self._sharing.presence is None else self._sharing.presence.begun(session)

    def forget(self, session: int) -> None:
        """Remove the files of a dead session."""
        if self._sharing.presence is not None:
            self._sharing.presence.forget(session)

    def listen(self) -> int | None:
        return None if self._sharing.presence is None else self._sharing.presence.listen()

    def poke_self(self) -> None:
        if self._sharing.presence is not None:
            self._sharing.presence.poke_self()

    def hear(self) -> None:
        if self._sharing.presence is not None:
            self._sharing.presence.hear()

    # -- the end

    def abandon(self, reason: str) -> None:
        self._abandoned = True
        if self.connection is not None:
            self.log.stop()
        self._sharing.mark_failed(reason)

    def enter_to_close(self) -> None:
        self._sharing.enter_or_wait(opening.CLOSING_WAIT_S)

    def close(self, end_session: Callable[[], None]) -> None:
        if self._forked:
            return
        try:
            if not self._abandoned:
                self._finish(end_session)
        finally:
            self._disconnect()

    def _finish(self, end_session: Callable[[], None]) -> None:
        """End this process's session and, if nobody else is there, copy the log into the database."""
        try:
            end_session()
            self.enter_to_close()  # a copy would fail others who open the file just now
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError, apsw.FullError, StoreBusy, StoreFull, StoreFailed):
            pass  # somebody else is at work, or there is no space: the next one to close copies it
        except apsw.Error as error:
            self.abandon(str(error))
            raise _failed(error) from error

    def close_in_child(self) -> None:
        """In a forked child: let go of the parent's locks, which the child would keep alive."""
        self._forked = True
        self._sharing.close_in_child()

    def _disconnect(self) -> None:
        if self.connection is not None:
            self.log.close()
            self.connection.close()
        self._sharing.close()


def _failed(error: Exception) -> StoreFailed:
    return StoreFailed(f"the store failed: {type(error).__name__}: {error}")
