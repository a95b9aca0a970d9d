"""The opened file: transactions, the log's upkeep, space, and what the store knows about itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from anew.errors import AnewError, InvalidConfig, StoreFailed, StoreFull
from anew.store.sqlite import connection as opening
from anew.store.sqlite.checkpoint import DONE, IDLE, Checkpointer
from anew.store.sqlite.counts import Counts
from anew.store.sqlite.line import Line
from anew.store.sqlite.payloads import Payloads
from anew.store.sqlite.sql import sql

LONGEST_LOG = 16
"""How many times its usual length the log may reach before the writer copies it itself, whatever that costs."""


class OpenedStore:
    """One database file, or one in memory.

    Args:
        directory: The data directory; None keeps everything in memory.
        relaxed: Let commits return before they reach the disk; a power cut may then lose what was answered.
        background: Copy the log into the database in a thread of its own; for a server, where a pause would be felt.
        vfs: Name of the apsw VFS to open the file through, for harnesses that record or fail its calls.

    Raises:
        InvalidConfig: The directory cannot be used.
        StoreBusy: Another process holds the directory.
        NewerStore: A newer program wrote it.
        StoreFailed: The file is no database of ours, or cannot be read.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        relaxed: bool = False,
        background: bool = False,
        vfs: str | None = None,
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
                    f"{str(directory)!r} cannot be used ({error.strerror}); "
                    "expected a directory that this user may write to",
                    field="root_dir",
                    value=str(directory),
                ) from error
        try:
            self._open(directory, vfs, background and directory is not None)
        except BaseException as error:
            if self._lock is not None:
                self._lock.release()
            known = self.explain(error) if isinstance(error, Exception) else None
            if known is not None:
                raise known from error
            raise
        self._relaxed = relaxed
        self._synced = True

    def _open(self, directory: Path | None, vfs: str | None, background: bool) -> None:
        if directory is not None:
            self._reserve = directory / "reserve"
            opening.make_room(self._reserve)
        self._connection = opening.connect(self._path, vfs=vfs)
        self._checkpointer: Checkpointer | None = None
        self._log_pages = 0
        self._log_mark = opening.CHECKPOINT_PAGES
        try:
            opening.migrate(self._connection)
            if directory is not None:
                self.keep_reserve()
                opening.sync_directory(directory)
            self.identity = opening.identify(self._connection)
            # Loosely typed on purpose: what a row holds is known by its statement, and `rows` gives it names.
            self._execute: Callable[..., Any] = self._connection.cursor().execute
            self._counts = Counts(self._connection.execute)
            self._line = Line(self._connection.execute, self._counts)
            self._payloads = Payloads(self._execute)
            if background:
                self._checkpointer = Checkpointer(self._path, vfs)
                self._connection.set_wal_hook(self._logged)  # in the place of SQLite's own copying
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
        if self._log_pages >= self._log_mark and self._checkpointer is not None:
            try:
                self._shorten_log(self._checkpointer)
            except Exception as error:
                # The batch is committed: an error taken for its own would have it applied a second time.
                raise _failed(error) from error

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
            return _failed(error)
        return None

    # -- the log

    def _logged(self, connection: apsw.Connection, schema: str, pages: int) -> int:
        """Note the log's length, as SQLite tells it after each commit."""
        self._log_pages = pages
        return 0

    def _shorten_log(self, checkpointer: Checkpointer) -> None:
        """Have the log copied by the thread, then copy the rest and so let the log start over."""
        if checkpointer.failed is not None:
            raise checkpointer.failed
        usual = opening.CHECKPOINT_PAGES
        if checkpointer.state == IDLE:
            checkpointer.start()
        elif checkpointer.state == DONE or self._log_pages >= LONGEST_LOG * usual:
            done = checkpointer.state == DONE
            pages, copied = self._copy_log()
            # A reader of an old state keeps the log from starting over: come again when it has grown by its usual length.
            self._log_mark = usual if copied >= pages else self._log_pages + usual
            self._log_pages = 0
            if done:
                checkpointer.state = IDLE

    def _copy_log(self) -> tuple[int, int]:
        try:
            return self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except (apsw.BusyError, apsw.LockedError, apsw.FullError):
            return 1, 0  # what could be copied is; the log grows on

    # -- space

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
            self._copy_log()
        except apsw.Error as error:
            raise self.explain(error) or error from error

    def keep_reserve(self) -> None:
        """Take that space again."""
        if self._reserve is not None:
            opening.reserve_space(self._reserve)

    # -- what the store knows about itself

    def reserve_keys(self, up_to: int) -> None:
        """Promise that no key up to this one is given out again, also after a restart."""
        self._execute(sql("write_meta"), ("last_key", up_to))
        self.identity.last_key = up_to

    def reserve_failures(self, up_to: int) -> None:
        """The same for the ordinals of first failures."""
        self._execute(sql("write_meta"), ("last_failure", up_to))
        self.identity.last_failure = up_to

    def close(self) -> None:
        """Close cleanly; what was committed is on disk."""
        if self._checkpointer is not None:
            self._checkpointer.close()
        self._connection.close()
        if self._lock is not None:
            self._lock.release()


def _failed(error: Exception) -> StoreFailed:
    return StoreFailed(f"the store failed: {type(error).__name__}: {error}")
