"""Turns a filter into a WHERE clause: fixed fragments, every value bound."""

from __future__ import annotations

import json
from collections.abc import Collection

from anew.jobs.state import ENDED, State
from anew.store.selection import Filter, Page, Range
from anew.store.sql.rows import STATE

Bound = list[object]

MOST_MARKS = 1_000
"""Values up to which each has a mark of its own: SQLite takes 32,766 marks in a statement, PostgreSQL 65,535, and a client may name
more jobs."""

_LAST_ERROR_TYPE = """job.records > 0 AND (SELECT a.error_type FROM attempt AS a WHERE a.job_id = job.id
    AND a.attempt <= job.attempts + 1 ORDER BY a.attempt DESC, a.id DESC LIMIT 1)"""
"""What comes before a list of error types: those of the records that `last_errors` gives."""


def where_clause(where: Filter) -> tuple[str, Bound]:
    """Write a filter as SQL.

    Returns:
        The condition (``true`` if everything matches) and its bound values.
    """
    parts: list[str] = []
    bound: Bound = []
    _any_of(parts, bound, "state", None if where.states is None else _codes(where.states))
    _any_of(parts, bound, "queue", None if where.queues is None else sorted(where.queues))
    _any_of(parts, bound, "type", None if where.types is None else sorted(where.types))
    _any_of(parts, bound, "id", None if where.keys is None else sorted(where.keys))
    _any_of(parts, bound, "jid", None if where.jids is None else sorted(where.jids))
    _any_of(parts, bound, _LAST_ERROR_TYPE, None if where.error_types is None else sorted(where.error_types))
    _within(parts, bound, "priority", where.priority)
    _within(parts, bound, "ready_at", where.ready_at)
    _within(parts, bound, "attempts", where.attempts)
    if where.visible_at is not None and (where.states is None or where.states & ENDED):
        parts.append("(purge_at IS NULL OR purge_at > ?)")
        bound.append(where.visible_at)
    return " AND ".join(parts) or "true", bound


def _codes(states: Collection[State]) -> list[int]:
    """Give all codes of some states."""
    return sorted(code for code, state in STATE.items() if state in states)


def page_clause(page: Page) -> tuple[str, Bound]:
    """Write a page's cursor as a further condition (``true`` if it starts at the end)."""
    if page.after is None:
        return "true", []
    sign = ">" if page.order == "asc" else "<"
    return f"id {sign}{'=' if page.inclusive else ''} ?", [page.after]


def find_statement(where: Filter, page: Page) -> tuple[str, Bound]:
    """Write the statement that lists keys, as one text with commas.

    One row comes back however many jobs match: each further row would cost a reader beside a busy writer thread one
    struggle for the interpreter's lock.
    """
    condition, bound = where_clause(where)
    cursor, place = page_clause(page)
    order = "DESC" if page.order == "desc" else "ASC"
    inner = f"SELECT id FROM job WHERE {condition} AND {cursor} ORDER BY id {order} LIMIT ?"  # noqa: S608 - fixed fragments
    return f"SELECT @joined_ids FROM ({inner}) AS found", [*bound, *place, page.limit]  # noqa: S608 - fixed fragments


def count_statement(where: Filter) -> tuple[str, Bound]:
    """Write the statement that counts matching jobs."""
    condition, bound = where_clause(where)
    return f"SELECT count(*) FROM job WHERE {condition}", bound  # noqa: S608 - fixed fragments


def _any_of(parts: list[str], bound: Bound, column: str, values: list[str] | list[int] | None) -> None:
    if values is None:
        return
    if not values:
        parts.append("false")
        return
    if len(values) > MOST_MARKS:
        kind = "texts" if isinstance(values[0], str) else "numbers"
        parts.append(f"{column} IN (SELECT @{kind}(?))")
        bound.append(json.dumps(values, ensure_ascii=False))
        return
    parts.append(f"{column} IN ({','.join('?' * len(values))})")
    bound.extend(values)


def _within(parts: list[str], bound: Bound, column: str, span: Range | None) -> None:
    if span is None:
        return
    parts.append(f"{column} BETWEEN ? AND ?")
    bound.extend(min(end, (1 << 63) - 1) for end in span)
