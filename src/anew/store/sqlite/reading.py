"""A connection to a SQLite file that reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import apsw

from anew.store.sqlite.words import STATEMENTS


class SqliteReading:
    """A connection that reads; see `anew.store.sql.reader.ReadLink`.

    Args:
        connection: Any; it is used by one thread at a time.
        owned: `close` closes it.
    """

    def __init__(self, connection: apsw.Connection, *, owned: bool) -> None:
        self._connection, self._owned = connection, owned
        self.statements = STATEMENTS
        self.execute: Callable[..., Any] = connection.execute
        self.run = STATEMENTS.runner(connection.execute)

    @classmethod
    def open(cls, path: str, *, busy_ms: int = 5_000) -> SqliteReading:
        """Open a file for reading only; waits so long where it is locked for a moment."""
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(busy_ms)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return cls(connection, owned=True)

    def version(self) -> object:
        # The first number is about other connections, the second about this one.
        return self._connection.pragma("data_version"), self._connection.total_changes()

    def snapshot(self) -> AbstractContextManager[object]:
        return self._connection

    def close(self) -> None:
        """Let go of the file, if the connection is its own."""
        if self._owned:
            self._connection.close()
