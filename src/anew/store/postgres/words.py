"""What PostgreSQL says for the words that the common statements leave open."""

from __future__ import annotations

import re
from collections.abc import Sequence

from anew.jobs.hooks import Hook
from anew.store.sql.statements import Statements

_MARK = re.compile(r"\?(\d*)")
_FOUND = re.compile(r"\b(\w+) IN \((SELECT \1 FROM [^()]* LIMIT \$\d+)\)")
_ROWS = re.compile(r"\((VALUES [^A-Z]*)\) AS v\b")
_CHANGED = re.compile(r"WHERE (\w+\.id|\w+\.job_id) = v\.column1")
_THEN = re.compile(r"@then (\w+) +(?:AS (\w+) )?ON ")
_MISSING = "NOT EXISTS ("


def _row(columns: Sequence[str], first: bool) -> str:
    """Write one row of marks; the first one tells the types of the columns, where they are known."""
    return "(" + ",".join(f"?::{column}" if first and column else "?" for column in columns) + ")"


def _said(text: str) -> str:
    """Write a statement so that it is searched by its keys whatever the planner believes of the tables' sizes; number its marks.

    A plan is made once, and often while a table is empty: to walk it is then the cheapest way, and stays the way when it is not.
    """
    # Numbered first: a mark keeps its value wherever it then stands.
    return _looked_up(_joined_in_order(_keys_first(_found_first(_numbered(text)))))


def _found_first(text: str) -> str:
    """Have what an inner statement finds be the keys of a search, not one side of a join."""
    return _FOUND.sub(r"\1 = ANY(ARRAY(\2))", text)


def _keys_first(text: str) -> str:
    """Where rows of the statement's own say what is changed, have their keys be those of a search."""
    rows, changed = _ROWS.search(text), _CHANGED.search(text)
    if rows is None or changed is None:
        return text
    text = text.replace(rows[0], "v", 1)
    keys = f"{changed[0]} AND {changed[1]} = ANY(ARRAY(SELECT column1 FROM v))"  # noqa: S608 - ours
    return f"WITH v AS ({rows[1]}) {text.replace(changed[0], keys, 1)}"


def _joined_in_order(text: str) -> str:
    """Write each join that has an order as a search for each row of its left side."""
    while (found := _THEN.search(text)) is not None:
        end = _end_of(text, found.end(), " WHERE ", " GROUP ", " ORDER ", " CROSS ", ")")
        table, name = found[1], found[2] or found[1]
        inner = f"SELECT * FROM {table} AS {name} WHERE {text[found.end() : end]} OFFSET 0"  # noqa: S608 - ours
        text = f"{text[: found.start()]}CROSS JOIN LATERAL ({inner}) AS {name}{text[end:]}"
    return text


def _looked_up(text: str) -> str:
    """Have what must not be there be looked up for each row."""
    while (at := text.find(_MISSING)) >= 0:
        inside = at + len(_MISSING)
        end = _end_of(text, inside, ")")
        text = f"{text[:at]}({text[inside:end]} LIMIT 1) IS NULL{text[end + 1 :]}"
    return text


def _end_of(text: str, at: int, *ends: str) -> int:
    """Find the next of these outside of any brackets that open behind a place."""
    depth = 0
    while at < len(text) and (depth or not text.startswith(ends, at)):
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    return at


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
        "@then": "@then",  # see `_joined_in_order`
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
    marked=_said,
)
"""Every statement in PostgreSQL's words."""
