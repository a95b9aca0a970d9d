"""Waits for the word of other processes that jobs are ready."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from typing import Any

import psycopg

from anew.store.postgres.opening import connect

CHANNEL = "anew_ready"

AGAIN_S = 5.0
"""When to connect again after the connection was lost; the poll of whoever waits stands behind it."""


class Waking:
    """A connection that listens, in a thread of its own, and a socket that can be read when somebody has told something.

    Args:
        url: The database's.
        session: This process's, whose own word is passed over.
    """

    def __init__(self, url: str, session: int) -> None:
        self._url, self._session = url, str(session)
        self._out, self._in = socket.socketpair()
        self._out.setblocking(False)
        self._in.setblocking(False)
        self._stop_in, self._stop_out = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, name="anew-listen", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Give what can be waited on."""
        return self._in.fileno()

    def wake(self) -> None:
        """Wake whoever waits."""
        with suppress(OSError):  # full: it is readable already
            self._out.send(b"!")

    def hear(self) -> None:
        """Take what has come."""
        with suppress(BlockingIOError):
            while self._in.recv(64):
                pass

    def close(self) -> None:
        """End the thread and let go of everything."""
        self._stop_out.close()
        self._thread.join()
        for one in (self._out, self._in, self._stop_in):
            one.close()

    def close_in_child(self) -> None:
        """In a forked child, which has no such thread: let go of the sockets."""
        for one in (self._out, self._in, self._stop_in, self._stop_out):
            one.close()

    def _listen(self) -> None:
        while True:
            try:
                with connect(self._url) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    if not self._hear_all(connection):
                        return
            except Exception:  # nothing depends on it: whoever waits looks by itself too
                if select.select([self._stop_in], [], [], AGAIN_S)[0]:
                    return

    def _hear_all(self, connection: psycopg.Connection[Any]) -> bool:
        """Pass on what is told; report whether to go on after the connection was lost."""
        while True:
            ready, _, _ = select.select([connection.fileno(), self._stop_in.fileno()], [], [])
            if self._stop_in.fileno() in ready:
                return False
            connection.pgconn.consume_input()
            told = False
            while (note := connection.pgconn.notifies()) is not None:
                told = told or note.extra.decode() != self._session
            if told:
                self.wake()
            if connection.broken or not connection.pgconn.socket:
                return True
