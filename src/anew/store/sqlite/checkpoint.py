"""Copies the write-ahead log into the database beside the writer, so that the writer is not held up while the disk works.

SQLite starts the log over only once all of it has been copied, and a writer that goes on writing is always a little ahead of
whoever copies. So the thread copies what there is, which is nearly all, and the writer itself the little that has come since.
"""

from __future__ import annotations

import os
import queue
import sys
import threading

import apsw

from anew.store.sqlite import opening

IDLE, RUNNING, DONE = range(3)

LONGEST_LOG = 16
"""How many times its usual length the log may reach before the writer copies it itself, whatever that costs."""

MOST_LOOKS = 5
LITTLE_PAGES = 64
"""What the writer copies itself in a millisecond or two."""


class Checkpointer:
    """One thread with its own connection.

    Args:
        path: The database file.
        vfs: Name of the apsw VFS to open it through.

    Attributes:
        state: `IDLE`, `RUNNING`, or `DONE`: copied, and the writer's turn to finish.
        failed: What went wrong, for the writer to raise: an error of the disk is nothing to be tried again.
    """

    def __init__(self, path: str, vfs: str | None) -> None:
        self.state = IDLE
        self.failed: apsw.Error | None = None
        self._stopped = False
        self._connection = apsw.Connection(path, vfs=vfs)
        self._connection.set_busy_timeout(0)
        # Its closing may be the last one, and must not copy what nobody has asked for.
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        # A connection does not know of the log until it has read something.
        self._connection.execute("SELECT count(*) FROM meta").fetchone()
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="anew-checkpoint", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Ask for a copy; only when `IDLE`."""
        self.state = RUNNING
        self._asked.put(True)

    def stop(self) -> None:
        """Copy nothing more; a copy that is under way ends with the page that is being written."""
        self._stopped = True
        self._connection.interrupt()

    def close(self) -> None:
        """End the thread; waits for a copy that is under way."""
        self._asked.put(False)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while self._asked.get():
            self._copy()

    def _copy(self) -> None:
        """Look several times: each copies what was written during the one before, until little is left for the writer."""
        before = 0
        try:
            for _ in range(MOST_LOOKS):
                if self._stopped:
                    break
                _, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                if copied - before <= LITTLE_PAGES:
                    break
                before = copied
        except (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.InterruptError):
            pass  # the log just grows on; the writer comes again
        except apsw.Error as error:
            self.failed = error
        self.state = DONE


class Log:
    """The write-ahead log of one writer: when it is copied into the database, and by whom; and a sync outside of SQLite.

    The copying takes the place of SQLite's own, which passes over a failed sync in silence.

    Args:
        connection: The writer's.

    Attributes:
        thread: Copies beside the writer; None leaves all of it to the writer.
        can_sync: Whether `sync` may be called; where not, SQLite syncs in each commit.
        hurries: It is being copied though it is not long.
        is_synced: Nobody has written since the last `sync`; the store says so of other processes.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.thread: Checkpointer | None = None
        self.can_sync = self.is_synced = self.hurries = False
        self._fd = -1
        self._pages = 0
        self._mark = opening.CHECKPOINT_PAGES
        connection.set_wal_hook(self._note)

    def is_long(self) -> bool:
        """Report whether it is time to shorten it."""
        return self.hurries or self._pages >= self._mark

    def hurry(self) -> None:
        """Have it shortened by the next commits, however long it is."""
        self.hurries = True

    def shorten(self) -> None:
        """Have the log copied by the thread, if there is one, then copy the rest and so let the log start over."""
        thread = self.thread
        if thread is not None:
            if thread.failed is not None:
                raise thread.failed
            if thread.state == IDLE:
                thread.start()
                return
            if thread.state == DONE:
                thread.state = IDLE
            elif self._pages < LONGEST_LOG * opening.CHECKPOINT_PAGES:
                return
        pages, copied = self.copy()
        # A reader of an old state keeps the log from starting over: come again when it has grown by its usual length.
        usual = opening.CHECKPOINT_PAGES
        self._mark = usual if copied >= pages else self._pages + usual
        self._pages = 0
        self.hurries = False

    def copy(self) -> tuple[int, int]:
        """Copy what can be copied now; give the pages that the log has, and those that are copied."""
        try:
            pages, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except (apsw.BusyError, apsw.LockedError, apsw.FullError):
            return 1, 0  # what could be copied is; the log grows on
        return pages, copied

    def keep_open(self, path: str) -> None:
        """Have a descriptor of the log's file from now on, where it can be synced with.

        While a connection is open SQLite keeps to one file. Linux reports a failed sync once to each descriptor that was open then;
        elsewhere one process's failure may leave another's sync, later, without one.
        """
        if sys.platform == "linux":
            self._fd = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)
            self.can_sync = True

    def sync(self) -> None:
        """Make everything last that is in the log.

        Raises:
            OSError: It failed.
        """
        if not self.is_synced:
            os.fdatasync(self._fd)
            self.is_synced = True

    def stop(self) -> None:
        """Copy nothing more."""
        if self.thread is not None:
            self.thread.stop()

    def close(self) -> None:
        """End the thread, and let go of the file."""
        if self.thread is not None:
            self.thread.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _note(self, connection: apsw.Connection, schema: str, pages: int) -> int:
        """Note the log's length, as SQLite reports it after each commit."""
        self._pages = pages
        self.is_synced = False
        return 0
