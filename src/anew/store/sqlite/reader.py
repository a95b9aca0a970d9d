"""Long reads on a connection of their own, so that a list over a million jobs holds up nobody."""

from __future__ import annotations

import apsw

from anew.store.protocol import Filter, Page
from anew.store.sqlite.filters import Bound, count_statement, find_statement


def run_find(connection: apsw.Connection, where: Filter, page: Page) -> list[int]:
    """List matching keys on any connection."""
    if where.keys is not None and not where.keys:
        return []
    joined = _one(connection, *find_statement(where, page))
    if joined is None:
        return []
    return sorted(map(int, str(joined).split(",")), reverse=page.order == "desc")


def run_count(connection: apsw.Connection, where: Filter) -> int:
    """Count matching jobs on any connection."""
    if where.keys is not None and not where.keys:
        return 0
    count = _one(connection, *count_statement(where))
    assert isinstance(count, int)
    return count


def _one(connection: apsw.Connection, statement: str, bound: Bound) -> object:
    row = connection.execute(statement, bound).fetchone()
    return None if row is None else row[0]


class SqliteReader:
    """A read-only connection to the same file, for one other thread.

    Args:
        path: The database file.
        busy_ms: How long to wait where the file is locked for a moment.
    """

    def __init__(self, path: str, *, busy_ms: int = 5_000) -> None:
        self._connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        self._connection.set_busy_timeout(busy_ms)

    def find(self, where: Filter, page: Page) -> list[int]:
        """Give the keys of matching jobs in order of key."""
        return run_find(self._connection, where, page)

    def count(self, where: Filter) -> int:
        """Count matching jobs."""
        return run_count(self._connection, where)

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()
