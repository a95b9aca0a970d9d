"""Jobs that are enqueued within a transaction of the user's own, in the PostgreSQL database that holds the queue.

The row goes into the store's own table ``anew.outbox``, by a function of the database; the next batch of whichever process makes
the job and removes the row in one transaction. So there is one job for each commit, and nothing to drain.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol

import msgspec

from anew.errors import NotSupported
from anew.jobs import NewJob
from anew.jobs.codec import PushedJob
from anew.tasks.around import enqueue_around
from anew.tasks.task import Submission, Task
from anew.units import refused

if TYPE_CHECKING:
    from anew.tasks.app import Anew

P = ParamSpec("P")

_INSERT: Final = "SELECT anew.enqueue_job(CAST(%s AS json))"


class DatabaseConnection(Protocol):
    """A connection as PEP 249 has it, with marks as psycopg and Django write them."""

    def cursor(self) -> Any:
        """Give a cursor, whose `execute` takes ``%s``."""


class DatabaseOutbox:
    """Enqueues jobs through a connection of the user's; see `Anew.outbox`.

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
        """Bring the store's tables up to date, which this outbox is one of."""
        self._app.backend  # noqa: B018 - opened at first use

    def enqueue(
        self, task: Task[P, Any, Any] | Submission[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Write a call into the outbox, as part of the connection's transaction; the job comes after its commit.

        Args:
            task: A task, or one with options (``task.using(delay=60)``); a delay counts from now.
            args, kwargs: Of the call.

        Raises:
            InvalidJob: The arguments do not fit.
            NotSupported: The job would join a batch, which may be over when the transaction commits.
        """
        job = _named(task.call(*args, **kwargs).job())

        def store(jobs: Sequence[NewJob]) -> None:
            with self._connection.cursor() as cursor:
                cursor.execute(_INSERT, (msgspec.json.encode(jobs[0]).decode(),))

        enqueue_around(self._app.around_enqueues, job.type, [job], store, lambda _: ())


def _named(job: NewJob) -> PushedJob:
    """Give a job an id of its own, by which it is found before it has the queue's."""
    ties = getattr(job, "hooks", None)
    if ties is not None and ties.batch is not None:
        raise NotSupported("outbox: a job that joins a batch cannot go through an outbox")
    fields = {name: getattr(job, name) for name in job.__struct_fields__}
    return PushedJob(**{**fields, "jid": fields.get("jid") or uuid.uuid4().hex})
