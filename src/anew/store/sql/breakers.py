"""Circuit breakers: one row each, found by key."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from msgspec.structs import astuple

from anew.jobs.breaker import BreakerRow, BreakerState
from anew.store.sql.statements import Run, in_lists, in_widths

_FIELDS = BreakerRow.__struct_fields__
_STATES = frozenset(BreakerState)
_STATE_AT = _FIELDS.index("state")


class Breakers:
    """The breakers of one store; `anew.store.breaker_rows.BreakerRows` says what its verbs do.

    Args:
        run: Runs a statement on the writer's connection.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def read(self, keys: Sequence[str] | None) -> list[BreakerRow]:
        if keys is None:
            return [breaker_of(row) for row in self._run("all_breakers").fetchall()]
        rows: list[BreakerRow] = []
        for part in in_lists(keys):
            found = self._run("breakers", tuple(part), len(part)).fetchall()
            rows += [breaker_of(row) for row in found]
        return rows

    def write(self, rows: Sequence[BreakerRow]) -> None:
        for part in in_widths(rows):
            values = chain.from_iterable(astuple(row) for row in part)
            self._run("write_breakers", tuple(values), len(part))


def breaker_of(row: Sequence[Any]) -> BreakerRow:
    """Give the breaker of a row."""
    fields = dict(zip(_FIELDS, row, strict=True))
    if row[_STATE_AT] not in _STATES:  # a damaged row must not stop the workers
        return BreakerRow(key=row[0])
    fields["state"] = BreakerState(row[_STATE_AT])
    return BreakerRow(**fields)
