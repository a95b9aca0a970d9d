"""Copies the write-ahead log into the database beside the writer, so that the writer is not held up while the disk works.

SQLite starts the log over only once all of it has been copied, and a writer that goes on writing is always a little ahead of
whoever copies. So the thread copies what there is, which is nearly all, and the writer itself the little that has come since.
"""

from __future__ import annotations

import queue
import threading

import apsw

IDLE, RUNNING, DONE = range(3)

MOST_LOOKS = 5
LITTLE_PAGES = 64
"""What the writer copies itself in a millisecond or two."""


class Checkpointer:
    """One thread with a connection of its own.

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
