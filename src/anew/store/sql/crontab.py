"""Cron entries: one row each, found by key or by their next slot; and the rows of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import astuple

from anew.jobs.cron_entry import CronEntry, CronGroup
from anew.store.cron_rows import CronRow
from anew.store.sql.rows import text_of
from anew.store.sql.statements import Run, in_widths

DUE_BYTES = 8 << 20
"""Bytes of the jobs of due entries, but for the last of them: what is left is due in the next batch."""

_FIELDS = CronEntry.__struct_fields__
_GROUP_FIELDS = CronGroup.__struct_fields__


class Crontab:
    """The entries of one store. What has no text here is said in `anew.store.cron_rows.CronRows`.

    Args:
        run: Runs a statement on the writer's connection.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def due(self, now: int, limit: int) -> list[CronRow]:
        """List entries whose next slot has come, the one that waits longest first, until their jobs have `DUE_BYTES`."""
        found: list[CronRow] = []
        size = 0
        for values in self._run("due_crons", (now, limit)):
            found.append(_row_of(values))
            size += len(found[-1].job)
            if size >= DUE_BYTES:
                break
        return found

    def stop_damaged(self, now: int, limit: int) -> int:
        """Have those of the due entries wait for no slot that have a text which is no UTF-8; tell how many."""
        rows = self._run("due_crons_undecoded", (now, limit)).fetchall()
        damaged = [row[:2] for row in rows if not all(map(_is_sound, row))]
        for names in damaged:
            self._run("stop_cron", names)
        return len(damaged)

    def next_slot(self) -> int | None:
        rows = self._run("next_slot").fetchall()
        return rows[0][0] if rows else None

    def entries(self, group: str, after: str, limit: int) -> list[CronRow]:
        return self._rows("group_crons", (group, after, limit))

    def all_entries(self, after: tuple[str, str], limit: int) -> list[CronRow]:
        try:
            return self._rows("all_crons", (*after, limit))
        except UnicodeDecodeError:
            return [_decoded(row) for row in self._run("all_crons_undecoded", (*after, limit)).fetchall()]

    def entry(self, group: str, name: str) -> CronRow | None:
        rows = self._rows("read_cron", (group, name))
        return rows[0] if rows else None

    def write(self, rows: Sequence[CronRow]) -> None:
        for part in in_widths(rows):
            values = chain.from_iterable((row.group, row.name, *astuple(row.entry), row.job) for row in part)
            self._run("write_crons", tuple(values), len(part))

    def drop(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in keys:
            self._run("drop_cron", key)

    def extent(self, group: str) -> tuple[int, int]:
        ((entries, size),) = self._run("cron_extent", (group,)).fetchall()
        return entries, size

    def groups(self, limit: int) -> list[str]:
        return [name for (name,) in self._run("cron_groups", (limit,)).fetchall()]

    def group(self, name: str) -> CronGroup | None:
        for paused, *times in self._run("read_cron_group", (name,)).fetchall():
            return CronGroup(**dict(zip(_GROUP_FIELDS, (bool(paused), *times), strict=True)))
        return None

    def write_group(self, name: str, group: CronGroup) -> None:
        self._run("write_cron_group", (name, *astuple(group)))

    def drop_group(self, name: str) -> None:
        self._run("drop_group_crons", (name,))
        self._run("drop_cron_group", (name,))

    def drop_all(self) -> int:
        self._run("drop_all_crons")
        return len(self._run("drop_all_cron_groups").fetchall())

    def _rows(self, name: str, values: tuple[Any, ...]) -> list[CronRow]:
        return [_row_of(row) for row in self._run(name, values).fetchall()]


def _row_of(row: Sequence[Any]) -> CronRow:
    group, name, *columns, job, group_paused, group_timezone = row
    fields = dict(zip(_FIELDS, columns, strict=True))
    fields["paused"] = bool(fields["paused"])
    return CronRow(group, name, CronEntry(**fields), job, bool(group_paused), group_timezone)


def _is_sound(value: Any) -> bool:
    return not isinstance(value, bytes) or text_of(value).encode() == value


def _decoded(row: Sequence[Any]) -> CronRow:
    """Give a row whose texts come as bytes, some of them damaged."""
    *columns, job, group_paused, group_timezone = row
    return _row_of((*map(text_of, columns), job, group_paused, text_of(group_timezone)))
