"""What PostgreSQL says for the words that the common statements leave open.

It makes a plan once, and often while a table is empty: to walk it is then the cheapest way, and stays the way when it is not. So
statements are written in such a way that they search by their keys whatever the planner believes of the tables' sizes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from anew.jobs.hooks import Hook
from anew.store.sql.statements import Statements

_MARK = re.compile(r"\?(\d*)")
_UPDATE = re.compile(r"(UPDATE .* FROM )\((VALUES [^A-Z]*)\) AS (v WHERE (\w+\.\w+) = v\.column1)")
_KEYS_FIRST = r"WITH v AS (\2) \1\3 AND \4 = ANY(ARRAY(SELECT column1 FROM v))"
"""Of an update from rows of its own: has their keys be those of a search."""


def _row(columns: Sequence[str], first: bool) -> str:
    """Write one row of marks; the first one tells the types of the columns, where they are known."""
    return "(" + ",".join(f"?::{column}" if first and column else "?" for column in columns) + ")"


def _joined(said: str) -> str:
    """Write a join that has an order as a search for each row of its left side."""
    table, condition = said.split(" ON ", 1)
    return f"CROSS JOIN LATERAL (SELECT * FROM {table} WHERE {condition} OFFSET 0) AS {table.split()[-1]}"  # noqa: S608 - ours


def _marked(text: str) -> str:
    """Number the marks of a statement; then, for each keeps its value wherever it stands, put an update's keys first."""
    return _UPDATE.sub(_KEYS_FIRST, _numbered(text))


def _numbered(text: str) -> str:
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
        "@least": "least",
        "@most": "greatest",
        "@unindexed": "",
        "@no_bytes": "''::bytea",
        "@once": f"hooks & {Hook.ONCE:d} <> 0",  # as the index has it
        "@not_kept": "(retention IS NULL OR position('completed'::bytea IN retention) = 0)",
        "@joined_ids": "string_agg(id::text, ',')",
        # Where the last version stands of the row of each queue that `v` names.
        "@last_queue": "CROSS JOIN LATERAL (SELECT ctid AS at, queue.* FROM queue WHERE queue.name = v.column1 "
        "ORDER BY id DESC LIMIT 1) AS q",
    },
    {
        "by": lambda index: "",
        "bytes": "convert_to({}, 'UTF8')".format,
        "texts": "json_array_elements_text({}::json)".format,
        "numbers": "json_array_elements_text({}::json)::bigint".format,
        "then": _joined,
        "first": "= ANY(ARRAY({}))".format,
        "none": "({} LIMIT 1) IS NULL".format,
    },
    row=_row,
    marked=_marked,
)
"""Every statement in PostgreSQL's words."""
