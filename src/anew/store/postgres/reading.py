"""A connection to PostgreSQL that reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from anew.errors import StoreFailed
from anew.store.postgres.opening import connect, executor
from anew.store.postgres.words import STATEMENTS

Connection = psycopg.Connection[tuple[Any, ...]]


class WriterReading:
    """Reads on the connection that writes, as the open transaction sees the rows.

    Args:
        connection: The writer's.
        execute: Runs a text on it.
    """

    def __init__(self, connection: Connection, execute: Callable[..., Any]) -> None:
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
    """Reads on a connection of its own, which is made again where it was lost.

    Args:
        url: The database's.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = connect(url, default_transaction_read_only="on")
        self.statements = STATEMENTS
        self.run = STATEMENTS.runner(self.execute)

    def execute(self, text: str, bound: Sequence[Any] = ()) -> Any:
        """Run a text; outside of a snapshot on a new connection where the old one is broken.

        Raises:
            StoreFailed: There is no connection.
        """
        try:
            return executor(self._connection)(text, bound)
        except psycopg.OperationalError as error:
            if not self._connection.broken:
                raise
            self._connection.close()
            self._connection = connect(self._url, default_transaction_read_only="on")
            raise StoreFailed(f"the connection to the database was lost: {error}") from error

    def version(self) -> object:
        """Give the number of the last transaction that wrote."""
        return version_of(self.execute)

    def snapshot(self) -> AbstractContextManager[object]:
        """Have all reads inside the block see the store as it is at one instant."""
        if self._connection.info.transaction_status != TransactionStatus.IDLE:
            return nullcontext()
        return self._snapshot()

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            yield
        finally:
            if not self._connection.broken:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()


def version_of(execute: Callable[..., Any]) -> int:
    """Read the number of the last transaction that wrote."""
    ((version,),) = execute("SELECT version FROM turn").fetchall()
    return int(version)
