"""Makes a connection anew that was lost, in a thread of its own: who needs it goes on answering meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg

from anew.errors import AnewError
from anew.store.postgres.opening import Connection

AGAIN_S = 0.25
"""When to try again after it has failed."""


class Renewal:
    """Tries until there is a connection, or nobody wants it any more.

    Args:
        make: Makes one, or raises an `AnewError`.

    Attributes:
        failure: Why the last try has failed.
    """

    def __init__(self, make: Callable[[], Connection]) -> None:
        self._make = make
        self._made: Connection | None = None
        self._lock = threading.Lock()
        self._over, self._stopped = threading.Event(), threading.Event()
        self.failure = ""
        threading.Thread(target=self._try, name="anew-connect", daemon=True).start()

    def take(self, timeout_s: float = 0.0) -> Connection | None:
        """Give the connection, once, if there is one within this time."""
        self._over.wait(timeout_s)
        with self._lock:
            made, self._made = self._made, None
        return made

    def stop(self) -> None:
        """Try no more; nobody takes what comes of it."""
        self._stopped.set()
        made = self.take()
        if made is not None:
            made.close()

    def is_over(self, timeout_s: float) -> bool:
        """Wait for so long at most; report whether there is a connection to be taken."""
        return self._over.wait(timeout_s)

    def _try(self) -> None:
        while not self._stopped.is_set():
            try:
                made = self._make()
            except (AnewError, psycopg.Error) as error:
                self.failure = str(error)
                self._stopped.wait(AGAIN_S)
                continue
            with self._lock:
                self._made = made
            self._over.set()
            break
        if self._stopped.is_set():
            self.stop()
