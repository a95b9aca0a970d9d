"""What PostgreSQL does for each statement: no hot one may walk a table, whatever the planner knows of the tables' sizes.

Plans are made once, often while there are few rows or none, and stay: so they must be good in each of these conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from anew.store.postgres import open_postgres
from anew.store.postgres.opening import connect
from anew.store.postgres.words import STATEMENTS
from tests.postgres import empty_database
from tests.unit.store import test_plans as sqlite

NOW = 1_700_000_000_000
Node = dict[str, Any]

WHOLE_TABLE = {name: why for name, why in sqlite.WHOLE_TABLE.items() if name in STATEMENTS.named()} | {
    "count_jobs": "every job, for somebody who looks the store over",
    "count_refused": "the outbox, for somebody who looks the store over",
    "empty_queue": "removes all",
    "delete_all_payloads": "removes all",
    "drop_all_crons": "removes all",
    "leave_orphans": "a row a long payload that is being written just now",
    "blocked_since": "a row a key that has a limit, in the reader's thread",
    "any_subscription": "ends at the first row",
    "limited_amiss": "every job of a key, for somebody who looks the store over",
    "held_by_nobody": "jobs in flight, in the index alone",
    "occupy_all": "jobs in flight, once a limit is set",
}
"""Statements that read a table or an index from end to end, and why they may."""

TO_A_LIMIT = {
    "due_counts", "due_until", "failing", "first_heads", "in_flight_before", "in_flight_behind", "next_due", "next_limit_look",
    "next_slot", "outbox_rows", "read_numbers", "scheduled_before", "scheduled_behind",
}  # fmt: skip
"""Statements that read an index in its order, and end at a LIMIT."""

SORTS = {
    "busiest", "counted_attempts", "due_counts", "failing", "in_flight_before", "in_flight_behind", "middle_attempts", "named",
    "scheduled_before", "scheduled_behind",
}  # fmt: skip
"""As in SQLite: what has been found by an index, a bounded number."""


@pytest.fixture(scope="module", params=["empty", "emptied", "filled", "analysed"])
def connection(request: pytest.FixtureRequest) -> Iterator[psycopg.Connection[Any]]:
    """A database in four conditions: never seen by the planner, seen when it was empty, filled since then, seen again."""
    url = empty_database(f"plans_{request.param}")
    open_postgres(url).close()
    with connect(url) as opened:
        if request.param != "empty":
            opened.execute("VACUUM ANALYZE")
        if request.param in ("filled", "analysed"):
            fill(opened, 20_000)
        if request.param == "analysed":
            opened.execute("ANALYZE")
        yield opened


def fill(connection: psycopg.Connection[Any], jobs: int) -> None:
    """Jobs in all states and a few queues, some with payloads apart and failed attempts; topics and their deliveries."""
    for text in (
        f"""INSERT INTO job (id, queue, type, priority, state, ready_at, hold_kind, hold_token, hold_owner, hold_deadline, purge_at,
            payload)
        SELECT i, 'q' || (i % 7), 't', i % 3, 10 * (1 + i % 7), {NOW} + i, 10 * (1 + i % 3), i, i % 5, {NOW} + i, {NOW} + i, '1'
        FROM generate_series(1, {jobs}) AS i""",
        "UPDATE job SET near_at = ready_at - 5 WHERE state < 30 AND id % 2 = 0",
        "UPDATE job SET jid = 'j' || id, hooks = 128 WHERE id % 3 = 0",
        "INSERT INTO payload SELECT id, id % 2, '1' FROM job WHERE id % 11 = 0",
        "INSERT INTO staged SELECT id + 100000, 1 FROM job WHERE id % 11 = 0",
        "INSERT INTO attempt (job_id, attempt, outcome, message, dequeued_at, failed_at) "
        "SELECT id, 1, 'error', '', 0, 0 FROM job WHERE state = 20",
        "INSERT INTO attempt_count SELECT id, 'error', 'Oops', 7 FROM job WHERE state = 20",
        "INSERT INTO leftover SELECT id + 200000 FROM job WHERE state = 20",
        "INSERT INTO queue (name, ready, head_priority, head_id) SELECT 'q' || i, 3, i % 5, i FROM generate_series(1, 5000) AS i",
        "INSERT INTO cron (group_name, name, expression, paused, next_at, job) "
        "SELECT queue, 'e' || id, '@hourly', 0, nullif(id % 5, 0), '1' FROM job",
        "INSERT INTO slot SELECT queue, ready_at, id, hold_token, '' FROM job WHERE state = 40 AND queue = 'q3'",
        "INSERT INTO limited SELECT id, 'k' || (id % 99), id % 4, queue, priority FROM job WHERE id % 2 = 1",
        "INSERT INTO limit_key SELECT DISTINCT name, '{}'::bytea, 0, 0, nullif(length(name), 2), 0, 0 FROM limited",
        "INSERT INTO unique_lock SELECT int8send(id), id, 'queued', nullif(id % 4, 0) FROM job",
        "INSERT INTO batch SELECT id, NULL, 1, 1, 0, 1, 0, 0, 0, 0, nullif(id % 4, 0), NULL, NULL, NULL FROM job",
        "INSERT INTO progress SELECT 'j' || id, id, 'working', 5, '', id FROM job",
        "INSERT INTO meta SELECT 'moved/' || id, 'x' FROM job WHERE id < 2000",
        "INSERT INTO topic SELECT 't' || id, '{}', 0, 0 FROM job WHERE id <= 100",
        "INSERT INTO subscription SELECT id, 't' || (id % 100), 'https://' || id, 'active', '{}', '', '', 0, 0, nullif(id % 9, 0), "
        "NULL, 0 FROM job WHERE id <= 10000",
        "INSERT INTO message SELECT id, 't' || (id % 100), 'x', NULL, '1', 0, 0, NULL, id, NULL FROM job",
        "INSERT INTO publication SELECT 't' || (id % 100), 'k' || id, '', '', id FROM job",
        "INSERT INTO delivery_policy (document) SELECT int8send(id) FROM job WHERE id < 1000",
        "INSERT INTO delivery SELECT id, id / 3, id % 3, id, 1, id % 4, NULL, 'x', 1, 0, NULL, 0, nullif(id % 3, 0) FROM job",
        "INSERT INTO delivery_attempt SELECT id, n, 0, NULL FROM job, generate_series(1, 2) AS n",
        "INSERT INTO delivery_task SELECT id, '', '', 0, 0, id FROM job WHERE id < 1000",
    ):
        connection.execute(text)


def plan(connection: psycopg.Connection[Any], text: str) -> list[Node]:
    """The nodes of the plan that is made without the values."""
    ((found,),) = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {text}".encode()).fetchall()
    return list(_nodes(found[0]["Plan"]))


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for inner in node.get("Plans", ()):
        yield from _nodes(inner)


def kinds(nodes: list[Node]) -> set[str]:
    return {node["Node Type"] for node in nodes}


def walks(nodes: list[Node]) -> list[str]:
    """Tables and indexes that are read without a condition; those of the system are left out."""
    return [
        node.get("Index Name") or node["Relation Name"]
        for node in nodes
        if (node["Node Type"] == "Seq Scan" or ("Index Name" in node and "Index Cond" not in node))
        and not str(node.get("Relation Name")).startswith("pg_")
        and node["Node Type"] != "ModifyTable"
    ]


@pytest.fixture(scope="module")
def plans(connection: psycopg.Connection[Any]) -> dict[str, list[list[Node]]]:
    """The plans of each statement, for one row and for a hundred where that is another text."""
    return {
        name: [plan(connection, text) for text in dict.fromkeys(STATEMENTS.text(name, n) for n in (1, 100))]
        for name in sorted(STATEMENTS.named())
    }


def test_no_hot_statement_walks_a_table(plans: dict[str, list[list[Node]]]) -> None:
    hot = plans.keys() - WHOLE_TABLE.keys() - TO_A_LIMIT
    assert len(hot) > 200
    assert {name: found for name in hot for nodes in plans[name] if (found := walks(nodes))} == {}
    for name in TO_A_LIMIT:
        assert all("Limit" in kinds(nodes) for nodes in plans[name]), name


def test_no_hot_statement_joins_by_a_table_of_its_own(plans: dict[str, list[list[Node]]]) -> None:
    joins = {"Hash Join", "Merge Join", "Bitmap Heap Scan"}
    joining = {name for name, several in plans.items() for nodes in several if kinds(nodes) & joins}
    assert joining <= {"holds_turn", "is_alive"}


def test_no_hot_statement_sorts_more_than_it_was_given(plans: dict[str, list[list[Node]]]) -> None:
    """A few keys in order of key may be sorted; what a LIMIT cuts comes in the order of its index."""
    for name in plans.keys() - SORTS - WHOLE_TABLE.keys():
        for nodes in plans[name]:
            if "Sort" in kinds(nodes):
                assert "Limit" not in kinds(nodes), name
                assert any("= ANY" in node.get("Index Cond", "") for node in nodes), (name, nodes)


def test_each_index_is_used_for_what_it_was_made(plans: dict[str, list[list[Node]]]) -> None:
    searches = {
        name: index
        for name, index in sqlite.SEARCHES.items()
        if name not in {"heads_behind", "policy_number"} | TO_A_LIMIT | WHOLE_TABLE.keys()
    }
    assert len(searches) > 40
    used = {name: {node.get("Index Name") for node in plans[name][0]} for name in searches}
    assert {name: used[name] for name, index in searches.items() if index not in used[name]} == {}


def test_a_mark_keeps_its_value_where_a_statement_is_rearranged() -> None:
    """The instant is bound first, the rows behind it, in whatever order the text then has them."""
    text = STATEMENTS.text("complete", 2)
    assert "VALUES ($2::bigint,$3::bigint),($4,$5)" in text
    assert "completed_at = $1," in text
    assert "ANY(ARRAY(SELECT column1 FROM v))" in text
    assert "ANY(ARRAY(SELECT id FROM job WHERE queue = $6" in STATEMENTS.text("hold")
