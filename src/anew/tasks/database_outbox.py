"""The outbox in the PostgreSQL database that holds the queue.

A row goes into the store's own table ``anew.outbox``, by a function of the database; the next batch of whichever process makes
the job and removes the row in one transaction. So there is one job for each commit, and nothing to drain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from anew.errors import NotSupported
from anew.jobs import NewJob
from anew.jobs.codec import PushedJob, merge_of
from anew.units import refused

if TYPE_CHECKING:
    from anew.tasks.app import Anew

_INSERT: Final = "SELECT anew.enqueue_job(CAST(%s AS json))"


class DatabaseConnection(Protocol):
    """A connection as PEP 249 has it, with marks as psycopg and Django write them."""

    def cursor(self) -> Any:
        """Give a cursor, whose `execute` takes ``%s``."""


class DatabasePlace:
    """The table of one database; see `anew.tasks.outbox.OutboxPlace`.

    Args:
        app: Whose queue is in the connection's database.
        connection: Of psycopg, psycopg2 or Django, or whatever else has a cursor that takes ``%s``.

    Raises:
        InvalidInput: It has no cursor.
    """

    def __init__(self, app: Anew, connection: DatabaseConnection) -> None:
        if not callable(getattr(connection, "cursor", None)):
            raise refused("connection", connection, "a connection to the application's database")
        self._app = app
        self._connection = connection

    def create(self) -> None:
        """Bring the store's tables up to date, which this one is among."""
        self._app.backend  # noqa: B018 - opened at first use

    def identified(self, job: NewJob, jid: str) -> PushedJob:
        """Have the job be found by an id before it has the queue's."""
        if merge_of(job) is not None:
            raise NotSupported(
                "outbox: a call that is merged by an expression cannot go through an outbox; enqueue it after the commit"
            )
        fields = {name: getattr(job, name) for name in job.__struct_fields__}
        return PushedJob(**{**fields, "jid": fields.get("jid") or jid})

    def write(self, job: PushedJob) -> None:
        """Write a row."""
        with self._connection.cursor() as cursor:
            cursor.execute(_INSERT, (msgspec.json.encode(job).decode(),))
