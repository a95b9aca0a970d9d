"""Jobs that are enqueued once the database's transaction has committed, and not at all where it is rolled back."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from django.db import transaction


class Enqueued(Protocol):
    """A task of Django's or of Anew's."""

    def enqueue(self, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a call."""


def enqueue_on_commit(task: Enqueued, /, *args: Any, **kwargs: Any) -> None:
    """Enqueue a call when the transaction of the default database commits; at once where none is open.

    If the process dies between the commit and the enqueue, there is no job. Where that must not happen and the database is a SQLite
    file, use `Anew.outbox`.
    """
    transaction.on_commit(partial(task.enqueue, *args, **kwargs))
