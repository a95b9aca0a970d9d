"""A verb that refuses has written nothing: what it had written would be committed with the rest of its batch.

In all processes of tests that run in one with them, or are forked, a verb that breaks this is an error of the engine's.
"""

from __future__ import annotations

from typing import Any

from anew.engine import engine
from anew.errors import AnewError


def check() -> None:
    """Have each refusal looked at from here on."""
    call = engine._call

    def checked(op: Any, batch: Any) -> Any:
        before = _written(batch.store)
        result = call(op, batch)
        assert not isinstance(result, AnewError) or _written(batch.store) == before, f"{op.verb} has written"
        return result

    engine._call = checked


def _written(store: Any) -> int:
    """Count the rows that SQLite has written; PostgreSQL does not say, and has the same verbs."""
    connection = store._link.connection
    return connection.total_changes() if hasattr(connection, "total_changes") else 0
