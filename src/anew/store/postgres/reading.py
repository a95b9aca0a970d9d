"""A connection to PostgreSQL that reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from anew.errors import ForkedStore, StoreBusy, StoreFailed
from anew.store.postgres.opening import Connection, executor, is_lost, let_go_in_child
from anew.store.postgres.primary import Primary
from anew.store.postgres.words import STATEMENTS

TURN = "FROM turn ORDER BY version DESC LIMIT 1"
"""The row of `turn`: of its versions, of which there may be many, the one with the largest number stands."""


class WriterReading:
    """Reads on the connection that writes, as the open transaction sees the rows.

    Args:
        execute: Runs a text on it.
    """

    def __init__(self, execute: Callable[..., Any]) -> None:
        self.statements = STATEMENTS
        self.execute = execute
        self.run = STATEMENTS.runner(execute)

    def version(self) -> object:
        """Give the number of the last transaction that wrote."""
        return version_of(self.execute)

    def snapshot(self) -> AbstractContextManager[object]:
        """Nobody else writes while the transaction is open."""
        return nullcontext()

    def close(self) -> None:
        """The connection stays open."""


class PostgresReading:
    """Reads on a connection of its own, which is made again where it was lost; see `anew.store.sql.reader.ReadLink`.

    Args:
        primary: The server that is read.
    """

    def __init__(self, primary: Primary) -> None:
        self._primary, self._forked = primary, False
        self._connection = self._connect()
        self.statements = STATEMENTS
        self.run = STATEMENTS.runner(self.execute)

    def execute(self, text: str, bound: Sequence[Any] = ()) -> Any:
        """Run a text; outside of a snapshot once more on a new connection, where the old one turns out to be lost.

        Raises:
            StoreBusy: There is no connection, or it was lost inside a snapshot.
        """
        within = self._connection.info.transaction_status != TransactionStatus.IDLE
        if self._connection.closed or (not within and self._primary.has_newer(self._connection)):
            self._connection.close()
            self._renew()
            within = False
        try:
            return executor(self._connection)(text, bound)
        except psycopg.Error as error:
            if not is_lost(error):
                raise
            self._connection.close()
            if within:
                raise _lost(error) from error
        self._renew()
        return executor(self._connection)(text, bound)

    def _connect(self) -> Connection:
        return self._primary.connect(default_transaction_read_only="on")

    def _renew(self) -> None:
        if self._forked:
            raise ForkedStore
        try:
            self._connection = self._connect()
        except StoreFailed as error:
            raise _lost(error) from error

    def version(self) -> object:
        """Give the number of the last transaction that wrote."""
        return version_of(self.execute)

    def snapshot(self) -> AbstractContextManager[object]:
        if self._connection.info.transaction_status == TransactionStatus.INTRANS:
            return nullcontext()
        return self._snapshot()

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            yield
        finally:
            if not self._connection.closed:
                self._end_snapshot()

    def _end_snapshot(self) -> None:
        try:
            self._connection.execute("COMMIT")  # after a ROLLBACK psycopg would drop all that is prepared
        except psycopg.Error:  # what was read is right all the same
            self._connection.close()

    def close(self) -> None:
        self._connection.close()

    def close_in_child(self) -> None:
        """In a forked child: let go of the parent's connection."""
        self._forked = True
        let_go_in_child(self._connection)


def _lost(error: Exception) -> StoreBusy:
    return StoreBusy(f"the connection to the database was lost: {' '.join(str(error).split())}")


def version_of(execute: Callable[..., Any]) -> int:
    """Read the number of the last transaction that wrote."""
    ((version,),) = execute(f"SELECT version {TURN}").fetchall()
    return int(version)
