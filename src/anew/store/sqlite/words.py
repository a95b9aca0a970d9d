"""What SQLite says for the words that the common statements leave open."""

from __future__ import annotations

from collections.abc import Sequence

from anew.jobs.hooks import Hook
from anew.store.sql.statements import Statements


def _row(columns: Sequence[str], first: bool) -> str:
    return "(" + ",".join("?" * len(columns)) + ")"


STATEMENTS = Statements(
    "anew.store.sqlite",
    {
        "@least": "min",
        "@most": "max",
        "@unindexed": "NOT INDEXED",
        "@no_bytes": "x''",
        "@once": f"hooks & {Hook.ONCE:d}",  # as the index has it
        "@not_kept": "(retention IS NULL OR instr(retention, 'completed') = 0)",
        "@joined_ids": "group_concat(id)",
    },
    {
        "by": "INDEXED BY {}".format,
        "bytes": "CAST({} AS BLOB)".format,
        "texts": "value FROM json_each({})".format,
        "numbers": "value FROM json_each({})".format,
        "then": "CROSS JOIN {}".format,
        "first": "IN ({})".format,
        "none": "NOT EXISTS ({})".format,
    },
    row=_row,
)
"""Every statement in SQLite's words."""
