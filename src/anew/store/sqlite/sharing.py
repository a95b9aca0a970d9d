"""How processes share one store: whose turn it is to write, who is there, and who is woken."""

from __future__ import annotations

import threading
from collections.abc import Callable

from anew.errors import InvalidConfig, StoreBusy, StoreFailed
from anew.store.sql.migrations import IN_USE
from anew.store.sqlite.opening import Places
from anew.store.sqlite.presence import Presence, ServerLock, is_locked
from anew.store.sqlite.turnstile import Turnstile

RETRY_LOCKED_S = 0.01
"""When to look again after another program was found to hold SQLite's own lock: nobody reports when it lets go."""


class Sharing:
    """This process among those that have one store open.

    Args:
        places: The store's files; None for a store in memory, which nobody shares.
        exclusive: Refuse to open where another server is.

    Attributes:
        presence: How processes see that this one lives, and wake each other; None for a store in memory, and after the end.
        locked: Another program was found to hold SQLite's own lock, which the turnstile knows nothing of.

    Raises:
        InvalidConfig: The files cannot be used.
        StoreBusy: Another server holds the store.
    """

    def __init__(self, places: Places | None, *, exclusive: bool) -> None:
        self.locked = False
        self._places = places
        self._turnstile: Turnstile | None = None
        self.presence: Presence | None = None
        self._server: ServerLock | None = None
        if places is None:
            return
        try:
            places.make()
            if exclusive:
                self._server = ServerLock(places.server)
            self._turnstile = Turnstile(places.turnstile)
            self.presence = Presence(places.sessions)
        except OSError as error:
            self.close()
            folder = str(places.database.parent)
            raise InvalidConfig(
                f"{folder!r} cannot be used ({error.strerror}); expected a directory that this user may write to",
                field="root_dir",
                value=folder,
            ) from error

    def require_alone(self) -> None:
        """Make sure that nobody else has the store open: other processes may know its present schema only.

        Raises:
            StoreBusy: Somebody has.
        """
        if self._places is None or self.presence is None:
            return
        if (self._server is None and is_locked(self._places.server)) or self.presence.anybody():
            raise StoreBusy(IN_USE)

    # -- the turn to write

    def enter(self) -> bool:
        """Take the turn if nobody has it; report whether this process has it now.

        Raises:
            StoreFailed: A sync has failed in some process.
        """
        return self._turnstile is None or self._turnstile.enter()

    def enter_first(self, timeout_s: float) -> None:
        """Take the turn before the file is opened.

        Raises:
            StoreBusy: Somebody has kept it for so long.
            StoreFailed: A sync has failed in a process that others may have followed: the first one alone begins from the disk.
        """
        if self._turnstile is None or self.presence is None:
            return
        while not self._turnstile.enter(heed_mark=False):
            if not self.wait_until_free(timeout_s):
                raise self.busy()
        reason = self._turnstile.mark_found()
        if reason and self.presence.anybody():
            raise StoreFailed(
                f"a write to the disk has failed in another process ({reason}); "
                "end every process that has the store open, and start again"
            )
        if reason:
            self._turnstile.clear_mark()

    def enter_or_wait(self, timeout_s: float) -> None:
        """Take the turn, waiting so long for whoever has it.

        Raises:
            StoreBusy: It did not come.
            StoreFailed: A sync has failed in some process.
        """
        while not self.enter():
            if not self.wait_until_free(timeout_s):
                raise self.busy()

    def leave(self) -> None:
        """Let the next process have its turn."""
        if self._turnstile is not None:
            self._turnstile.leave()

    def give_up(self) -> None:
        """Let the next process have the turn, unless this one has begun to use it."""
        if self._turnstile is not None:
            self._turnstile.give_up()

    def when_free(self, call: Callable[[], None]) -> None:
        """Call a function once, from some thread, when it is worth trying again."""
        if self._turnstile is None or self.locked:
            timer = threading.Timer(RETRY_LOCKED_S, call)
            timer.daemon = True
            timer.start()
        else:
            self._turnstile.when_free(call)

    def wait_until_free(self, timeout_s: float) -> bool:
        """In a thread that may wait: report whether it is worth trying again within this time."""
        free, wanted = threading.Event(), threading.Lock()

        def came() -> None:
            if wanted.acquire(blocking=False):
                free.set()
            else:
                self.give_up()

        self.when_free(came)
        try:
            free.wait(timeout_s)
        except BaseException:  # Ctrl-C
            if not wanted.acquire(blocking=False):
                self.give_up()
            raise
        return not wanted.acquire(blocking=False)

    def busy(self) -> StoreBusy:
        """Say who has kept the store busy for too long. This asks the system, so it is left until somebody is told."""
        holder = None if self._turnstile is None else self._turnstile.holder()
        if holder is None:
            return StoreBusy(
                "another program holds the lock of the database file; end its transaction, and all goes on"
            )
        return StoreBusy(
            f"process {holder} has been writing to the store for too long; "
            "if it is stopped, let it go on or kill it: nothing is lost either way"
        )

    def mark_failed(self, reason: str) -> None:
        """Stop every other process at its next turn: a sync has failed."""
        if self._turnstile is not None:
            self._turnstile.mark(reason)
            self.leave()

    # -- the end

    def close(self) -> None:
        """Let go of everything that the operating system gave."""
        if self.presence is not None:
            self.presence.leave()
        if self._turnstile is not None:
            self._turnstile.close()
        if self._server is not None:
            self._server.release()
        self.presence = self._turnstile = self._server = None

    def close_in_child(self) -> None:
        """In a forked child: let go of the parent's locks, which the child would keep alive, and remove nothing.

        Their numbers are forgotten too: the child's own files get them next.
        """
        if self.presence is not None:
            self.presence.close_descriptors()
        if self._turnstile is not None:
            self._turnstile.close_in_child()
        if self._server is not None:
            self._server.release()
        self.presence = self._turnstile = self._server = None
