"""Long reads on a separate connection, so that a list over a million jobs holds up nobody."""

from __future__ import annotations

import apsw

from anew.jobs.state import State
from anew.store.protocol import Filter, Page
from anew.store.sqlite.counts import Counted, counted
from anew.store.sqlite.filters import Bound, count_statement, find_statement
from anew.store.sqlite.rows import STATE
from anew.store.sqlite.sql import sql


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


def run_oldest_ready(connection: apsw.Connection, most: int) -> int | None:
    """Look at the head of each priority in each queue, on any connection: who has waited longest is one of them."""
    oldest: int | None = None
    queue: str | None = ""
    while most > 0:
        queues = [row[0] for row in connection.execute(sql("line_queues"), (queue, min(most, 1_000)))]
        for queue in queues:
            priority = -1
            while most > 0:
                head = connection.execute(sql("next_priority"), (queue, priority)).fetchone()
                if head is None:
                    break
                priority, _, ready_at = head
                oldest = ready_at if oldest is None else min(oldest, ready_at)
                most -= 1
        if not queues:
            break
    return oldest


def run_recount(connection: apsw.Connection) -> dict[tuple[str, State], int]:
    """Count rows and read counters in one statement, so that both are of one moment."""
    rows = connection.execute(sql("recount"))
    return {(queue, STATE[code]): n for queue, code, n in rows if code in STATE}


def run_damaged_texts(connection: apsw.Connection) -> dict[int, tuple[str, str]]:
    """Look through all jobs for queues and types that are no UTF-8, on any connection; give what is left of them."""
    found: dict[int, tuple[str, str]] = {}
    for key, *texts in connection.execute(sql("all_texts")):
        queue, kind = (text.decode("utf-8", "replace") for text in texts)
        if [queue.encode(), kind.encode()] != texts:
            found[key] = (queue, kind)
    return found


def run_damaged_names(connection: apsw.Connection, table: str) -> list[bytes]:
    """List the queues in a derived table, ``counter`` or ``line``, that are no UTF-8."""
    names = [name for (name,) in connection.execute(sql(f"{table}_texts"))]
    return [name for name in names if name.decode("utf-8", "replace").encode() != name]


def run_wrong_heads(connection: apsw.Connection) -> list[str]:
    """List the queues whose stored head is not their first ready job, on any connection."""
    return [queue for (queue,) in connection.execute(sql("heads_amiss"))]


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
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def find(self, where: Filter, page: Page) -> list[int]:
        """Give the keys of matching jobs in order of key."""
        return run_find(self._connection, where, page)

    def count(self, where: Filter) -> int:
        """Count matching jobs."""
        return run_count(self._connection, where)

    def counts(self) -> Counted:
        """Count jobs by queue and state."""
        return counted(self._connection.execute(sql("read_counters")))

    def oldest_ready(self, most: int = 10_000) -> int | None:
        """Report since when the ready job that has waited longest at the head of a line has been ready, epoch ms."""
        return run_oldest_ready(self._connection, most)

    def recount(self) -> dict[tuple[str, State], int]:
        """Count all jobs row by row and give by how much each counter is too low."""
        return run_recount(self._connection)

    def wrong_heads(self) -> list[str]:
        """List the queues whose stored head is not their first ready job."""
        return run_wrong_heads(self._connection)

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()
