"""Jobs that other transactions of the same database have left; `anew.store.protocol.OutboxRows` says what its verbs do."""

from __future__ import annotations

from collections.abc import Sequence

from anew.store.sql.statements import Run, in_lists


class Outbox:
    """The rows of one store.

    Args:
        run: Runs a statement on the writer's connection.

    Attributes:
        waits: As the open transaction has found at its begin.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.waits = False

    def rows(self, limit: int, most_bytes: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = self._run("outbox_rows", (limit, most_bytes)).fetchall()
        return found

    def drop(self, ids: Sequence[int]) -> None:
        for part in in_lists(ids):
            self._run("drop_outbox_rows", part, len(part))

    def refuse(self, id_: int, reason: str) -> None:
        self._run("refuse_outbox_row", (reason, id_))
