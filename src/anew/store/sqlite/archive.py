"""What a store has recorded, read by a separate program while a server may be writing."""

from __future__ import annotations

import itertools
from operator import itemgetter
from pathlib import Path

import apsw

from anew.errors import NotFound, StoreFailed
from anew.jobs.ids import MAX_KEY
from anew.jobs.job import History, Span
from anew.store.sql.migrations import refuse_newer
from anew.store.sql.rows import job_of
from anew.store.sql.statements import in_lists
from anew.store.sqlite.opening import APPLICATION_ID, PACKAGE, Places
from anew.store.sqlite.words import STATEMENTS
from anew.units import shown


class SqliteArchive:
    """A read-only connection to the store of a data directory. Each call is one short transaction.

    Args:
        directory: The data directory, or the database file.

    Raises:
        NotFound: It holds no store.
        NewerStore: A newer program wrote it.
        StoreFailed: The file is no store of ours, is older than this program, or cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        path = Places.at(directory).database
        try:
            there = path.is_file()
        except OSError as error:
            raise StoreFailed(f"{shown(str(directory))} cannot be read: {error.strerror}") from error
        if not there:
            raise NotFound(f"{shown(str(directory))} holds no store; expected the --root-dir of a server")
        try:
            self._connection = _opened(path)
        except apsw.Error as error:
            raise _unreadable(error) from error

    def histories(self, before: int | None, limit: int) -> list[History]:
        """Give jobs that have failed, the latest first: up to `limit` with keys below `before`."""
        found: list[History] = []
        try:
            with self._connection:  # one transaction, so that jobs and attempts are of one moment
                found = self._histories(MAX_KEY if before is None else before, limit)
        except apsw.Error as error:
            raise _unreadable(error) from error
        return found

    def notes(self) -> dict[str, str]:
        """Give the notes of how far moves from elsewhere have come, by name."""
        try:
            return {str(name): str(text) for name, text in self._connection.execute(STATEMENTS.text("notes"))}
        except apsw.Error as error:
            raise _unreadable(error) from error

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def _histories(self, before: int, limit: int) -> list[History]:
        execute = self._connection.execute
        keys = [key for (key,) in execute(STATEMENTS.text("failed_jobs"), (before, limit))]
        found = []
        for part in in_lists(keys):
            rows = execute(STATEMENTS.text("failures", len(part)), part)
            spans = {
                key: tuple(sorted(Span(began, ended) for _, began, ended in group))
                for key, group in itertools.groupby(rows, itemgetter(0))
            }
            jobs = [job_of(row) for row in execute(STATEMENTS.text("load", len(part)), part)]
            found += [History(job, spans[job.key]) for job in reversed(jobs) if job.key in spans]
        return found


def _opened(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5_000)
        _check_schema(connection)
    except BaseException:
        connection.close()  # as nobody gets an archive to close
        raise
    return connection


def _check_schema(connection: apsw.Connection) -> None:
    owner, present = (connection.pragma(name) for name in ("application_id", "user_version"))
    if owner != APPLICATION_ID:
        raise StoreFailed("the database file belongs to another program; expected a store of Anew's")
    newest = refuse_newer(PACKAGE, present)
    if present < newest:
        raise StoreFailed(
            f"the store has schema {present}, this program reads {newest}; "
            "start its server once with this version, which brings it up to date"
        )


def _unreadable(error: apsw.Error) -> StoreFailed:
    return StoreFailed(f"the store cannot be read: {type(error).__name__}: {error}")
