"""The turnstile: who may write next, of all processes that have the file open, and the mark of a failed sync.

SQLite's own waiting sleeps for ever longer times, so that four busy processes wait for up to a second. A lock of the operating
system's on a file beside the database hands the turn on within milliseconds, and is let go of when its holder dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from anew.errors import StoreFailed

_MARK_BYTES = 4_096


class Turnstile:
    """The lock of one open store.

    Args:
        path: The file that is locked. Its content is the mark: why nothing may be written any more; empty as a rule.

    Attributes:
        held: Whether this store has the turn, used or not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # The thread that waits has a descriptor of its own for the same lock: by the time that it looks at the number of the other
        # one, that may be another file's.
        self._waiting_fd = os.dup(self._fd)
        self._calls: list[Callable[[], None]] = []
        self._guard = threading.Lock()
        self._asked = threading.Semaphore(0)
        self._waiter: threading.Thread | None = None
        self._closed = False
        self._used = False
        self.held = False

    def enter(self, *, heed_mark: bool = True) -> bool:
        """Take the turn if nobody has it, and begin to use it; report whether this store has it now.

        Args:
            heed_mark: Refuse it where a sync has failed.

        Raises:
            StoreFailed: A sync has failed in some process: what is on the disk is not what its memory says.
        """
        with self._guard:
            if not self.held:
                if self._calls:
                    return False  # a thread waits for it already, and will tell
                self.held = True  # first, so that after Ctrl-C `leave` undoes whatever the lock has come to
                try:
                    fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    self.held = False
                    if error.errno in (errno.EAGAIN, errno.EACCES):
                        return False
                    raise
            self._used = True
        if heed_mark and os.pread(self._fd, 1, 0):
            reason = self.mark_found()
            self.leave()
            raise StoreFailed(f"a write to the disk has failed in another process: {reason}")
        return True

    def leave(self) -> None:
        """Let the next one in."""
        with self._guard:
            self._release()

    def give_up(self) -> None:
        """Let the next one in, unless somebody of this process has begun to use the turn."""
        with self._guard:
            if not self._used:
                self._release()

    def _release(self) -> None:
        if self.held:
            self.held = self._used = False
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def when_free(self, call: Callable[[], None]) -> None:
        """Wait in a thread until the turn is this store's, and then call a function once, from that thread."""
        with self._guard:
            self._calls.append(call)
            if self._waiter is None or not self._waiter.is_alive():
                self._waiter = threading.Thread(target=self._wait, name="anew-turnstile", daemon=True)
                self._waiter.start()
        self._asked.release()  # for each call: an interruption may have kept the first one's from coming here

    def holder(self) -> str | None:
        """Name the process that has the turn, for people; None if nobody has, "unknown" where the system does not tell.

        Source:
            proc_locks(5): number, kind, mode, access, pid, device and inode, range.
        """
        with suppress(OSError):
            inode = os.fstat(self._fd).st_ino
            for line in Path("/proc/locks").read_text("ascii").splitlines():
                fields = line.split()
                if "->" not in fields and len(fields) > 5 and fields[5].endswith(f":{inode}"):
                    return fields[4]
            return None
        return "unknown"

    def mark(self, reason: str) -> None:
        """Note that a sync has failed, for every process that comes to the turnstile from now on."""
        with suppress(OSError):  # where not even this can be written, each meets the failing disk by itself
            if os.pread(self._fd, 1, 0):
                return  # the first reason is the one that helps
            os.pwrite(self._fd, reason.encode()[:_MARK_BYTES] or b"unknown", 0)

    def mark_found(self) -> str:
        """Read the mark."""
        return os.pread(self._fd, _MARK_BYTES, 0).decode("utf-8", "replace")

    def clear_mark(self) -> None:
        """Remove the mark: what is on the disk has been read anew, and nobody else has the store open."""
        os.ftruncate(self._fd, 0)

    def close(self) -> None:
        """Let go of the file, and with it of the turn."""
        with self._guard:
            self.held = self._used = False
            self._closed = True
            os.close(self._fd)
            if self._waiter is None:
                os.close(self._waiting_fd)
        self._asked.release()

    def close_in_child(self) -> None:
        """As `close`, in a forked child: its threads are gone, and what they held of this object's own locks stays locked."""
        os.close(self._fd)
        os.close(self._waiting_fd)

    def _wait(self) -> None:
        """Take turns for those who asked, until the end; the waiter's thread."""
        try:
            while self._asked.acquire() and not self._closed:
                if not self._calls:
                    continue  # it was made together with an earlier one
                fcntl.flock(self._waiting_fd, fcntl.LOCK_EX)
                with self._guard:
                    if self._closed:
                        return
                    self.held = True
                    calls, self._calls = self._calls, []
                for call in calls:
                    call()
        finally:
            os.close(self._waiting_fd)
