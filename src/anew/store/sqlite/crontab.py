"""Cron entries: one row each, found by key or by their next slot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import astuple

from anew.jobs.cron_entry import CronEntry
from anew.store.protocol import CronRow
from anew.store.sqlite.sql import in_widths, sql

_FIELDS = CronEntry.__struct_fields__
_PAUSED_AT = 2 + _FIELDS.index("paused")


class Crontab:
    """The entries of one store.

    Args:
        execute: Runs a statement on the writer's connection.
    """

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute

    def due_crons(self, now: int, limit: int) -> list[CronRow]:
        """List entries whose next slot has come, the one that waits longest first."""
        return self._rows("due_crons", (now, limit))

    def next_slot(self) -> int | None:
        """Tell the earliest slot that an entry waits for."""
        rows = self._execute(sql("next_slot")).fetchall()
        return rows[0][0] if rows else None

    def crons(self, group: str | None, after: tuple[str, str], limit: int) -> list[CronRow]:
        """List entries of a group, or of all, from behind one of them on."""
        if group is None:
            return self._rows("crons", (*after, limit))
        return self._rows("group_crons", (group, after[1] if after[0] == group else "", limit))

    def cron(self, group: str, name: str) -> CronRow | None:
        """Read one entry."""
        rows = self._rows("read_cron", (group, name))
        return rows[0] if rows else None

    def write_crons(self, rows: Sequence[CronRow]) -> None:
        """Write entries, new ones and others."""
        for part in in_widths(rows):
            values = chain.from_iterable((row.group, row.name, *astuple(row.entry), row.job) for row in part)
            self._execute(sql("write_crons", len(part)), tuple(values))

    def drop_crons(self, keys: Iterable[tuple[str, str]]) -> None:
        """Remove entries."""
        for key in keys:
            self._execute(sql("drop_cron"), key)

    def pause_crons(self, group: str, paused: bool) -> None:
        """Pause or resume a group."""
        self._execute(sql("pause_crons" if paused else "resume_crons"), (group,))

    def _rows(self, name: str, values: tuple[Any, ...]) -> list[CronRow]:
        return [_row_of(row) for row in self._execute(sql(name), values).fetchall()]


def _row_of(row: Sequence[Any]) -> CronRow:
    fields = dict(zip(_FIELDS, row[2:-2], strict=True))
    fields["paused"] = bool(row[_PAUSED_AT])
    return CronRow(row[0], row[1], CronEntry(**fields), row[-2], bool(row[-1]))
