"""What PostgreSQL says for the words that the common statements leave open."""

from __future__ import annotations

import re
from collections.abc import Sequence

from anew.jobs.hooks import Hook
from anew.store.sql.statements import Statements

_MARK = re.compile(r"\?(\d*)")


def _row(columns: Sequence[str], first: bool) -> str:
    """Write one row of marks; the first one tells the types of the columns, where they are known."""
    return "(" + ",".join(f"?::{column}" if first and column else "?" for column in columns) + ")"


def _marked(text: str) -> str:
    """Number all marks: one without a number has the next behind the largest so far, as in SQLite."""
    largest = 0

    def number(found: re.Match[str]) -> str:
        nonlocal largest
        n = int(found[1]) if found[1] else largest + 1
        largest = max(largest, n)
        return f"${n}"

    return _MARK.sub(number, text)


STATEMENTS = Statements(
    "anew.store.postgres",
    {
        "@then": "JOIN",
        "@least": "least",
        "@most": "greatest",
        "@unindexed": "",
        "@no_bytes": "''::bytea",
        "@once": f"hooks & {Hook.ONCE:d} <> 0",  # as the index has it
        "@not_kept": "(retention IS NULL OR position('completed'::bytea IN retention) = 0)",
        "@joined_ids": "string_agg(id::text, ',')",
    },
    {
        "by": "",
        "bytes": "convert_to({}, 'UTF8')",
        "texts": "json_array_elements_text({}::json)",
        "numbers": "json_array_elements_text({}::json)::bigint",
    },
    row=_row,
    marked=_marked,
)
"""Every statement in PostgreSQL's words."""
