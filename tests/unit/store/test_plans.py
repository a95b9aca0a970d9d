"""What SQLite does for each statement of ``queries.sql``: no hot one may walk a table."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw
import pytest

from anew.jobs import State
from anew.store.protocol import Filter, Page
from anew.store.sqlite.connection import connect, migrate
from anew.store.sqlite.filters import find_statement
from anew.store.sqlite.rows import CODE
from anew.store.sqlite.sql import sql, statements

NOW = 1_700_000_000_000

WHOLE_TABLE = {
    "read_counters": "one row a queue, read at the start and after a rollback",
    "read_meta": "a handful of rows, read at the start and after a rollback",
    "is_staging": "ends at the first row",
    "delete_unstaged": "removes all payloads, but for a few",
}
"""Statements that read a table from end to end, and why they may."""

NO_TABLE = re.compile(r"SCAN \d+-ROW VALUES CLAUSE|SCAN (\d+ )?CONSTANT ROWS?|SCAN v\b|SCAN \(subquery-\d+\)")
"""Rows bound to the statement itself, or at most one row of an inner statement."""


@pytest.fixture(scope="module", params=["empty", "filled", "analysed"])
def connection(request: pytest.FixtureRequest) -> Iterator[apsw.Connection]:
    """A database in three conditions: the planner looks at statistics where there are any."""
    opened = connect(":memory:")
    migrate(opened)
    if request.param != "empty":
        fill(opened, 20_000)
    if request.param == "analysed":
        opened.execute("ANALYZE")
    yield opened
    opened.close()


def fill(connection: apsw.Connection, jobs: int) -> None:
    """Jobs in all states and a few queues, some with payloads apart and failed attempts."""
    connection.execute(
        """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
        INSERT INTO job (id, queue, type, priority, state, ready_at, lease_deadline, purge_at, payload)
        SELECT i, 'q' || (i % 7), 't', i % 3, i % 7, ? + i, ? + i, ? + i, x'7b7d' FROM n
        """,
        (jobs, NOW, NOW, NOW),
    )
    connection.execute("INSERT INTO payload SELECT id, id % 2, x'31' FROM job WHERE id % 11 = 0")
    connection.execute("INSERT INTO staged SELECT id + 100000 FROM job WHERE id % 11 = 0")
    connection.execute(
        "INSERT INTO attempt (job_id, attempt, outcome, message, dequeued_at, failed_at) "
        "SELECT id, 1, 'error', '', 0, 0 FROM job WHERE state = 1"
    )
    connection.execute("INSERT INTO counter SELECT DISTINCT queue, 0, 0, 0, 0, 0, 0, 0 FROM job")


def plan(connection: apsw.Connection, text: str) -> list[str]:
    """The steps of a statement's plan."""
    marks = text.count("?")
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", [1] * marks)]


def walks(steps: list[str]) -> list[str]:
    """Steps that go through a whole table, not by an index, nor through rows of the statement's own."""
    return [
        step
        for step in steps
        if step.startswith("SCAN") and " USING " not in step and not NO_TABLE.match(step)
    ]


@pytest.mark.parametrize("width", [1, 100])
@pytest.mark.parametrize("name", sorted(statements()))
def test_no_hot_statement_walks_a_table(connection: apsw.Connection, name: str, width: int) -> None:
    steps = plan(connection, sql(name, width))
    found = walks(steps)
    if name in WHOLE_TABLE:
        assert found
    else:
        assert found == [], steps


@pytest.mark.parametrize("width", [1, 100])
@pytest.mark.parametrize("name", sorted(statements()))
def test_no_statement_sorts_or_builds_an_index_of_its_own(
    connection: apsw.Connection, name: str, width: int
) -> None:
    """The order wanted is the order of the index, so that a LIMIT ends the work."""
    steps = plan(connection, sql(name, width))
    assert not [step for step in steps if "TEMP B-TREE" in step or "AUTOMATIC" in step], steps


SEARCHES = {
    "select_ready": "job_ready",
    "ready_heads": "job_ready",
    "lease": "job_ready",
    "select_in_flight": "job_lease",
    "select_due": "job_due",
    "promote": "job_due",
    "next_due": "job_due",
    "lapsed": "job_lease",
    "purgeable": "job_purge",
    "delete_attempts": "attempt_job",
    "errors": "attempt_job",
    "errors_backwards": "attempt_job",
    "last_errors": "attempt_job",
    "failed_jobs": "attempt_job",
    "failures": "attempt_job",
}
"""Which index carries which statement."""


@pytest.mark.parametrize(("name", "index"), SEARCHES.items())
def test_each_index_is_used_for_what_it_was_made(connection: apsw.Connection, name: str, index: str) -> None:
    steps = plan(connection, sql(name))
    assert any(re.search(rf"USING (COVERING )?INDEX {index}\b", step) for step in steps), steps


BY_KEY = [
    "select_ready_by_key", "lease_by_key", "finish", "load", "load_payload", "complete", "apply", "rewrite",
    "release", "delete", "payload", "delete_payloads", "payload_sizes", "adopt", "delete_staged",
]  # fmt: skip


@pytest.mark.parametrize("name", BY_KEY)
def test_rows_that_are_named_are_found_by_their_key(connection: apsw.Connection, name: str) -> None:
    steps = plan(connection, sql(name, 100))
    assert all(
        "USING INTEGER PRIMARY KEY" in step or "USING PRIMARY KEY" in step for step in searches(steps)
    ), steps
    assert searches(steps)


def searches(steps: list[str]) -> list[str]:
    """Steps that look something up."""
    return [step for step in steps if step.startswith("SEARCH")]


def test_every_statement_is_accounted_for() -> None:
    writes_only = {
        "insert_plain",
        "insert_rich",
        "insert_usual",
        "insert_payload",
        "stage",
        "delete_all_payloads",
        "insert_attempt",
        "write_counters",
        "write_meta",
    }
    known = {*WHOLE_TABLE, *SEARCHES, *BY_KEY, *writes_only, "drop_counter"}
    assert known == set(statements())


def test_no_index_is_idle() -> None:
    opened = connect(":memory:")
    migrate(opened)
    made = {
        row[0]
        for row in opened.execute("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
    }
    opened.close()
    assert made == set(SEARCHES.values())


def test_state_codes_agree_with_the_partial_indexes() -> None:
    """Waiting states below 2, ready 2, in flight 3, ended above 3: what each index names by a comparison."""
    assert {CODE[state] for state in (State.SCHEDULED, State.RETRYING)} == {0, 1}
    assert (CODE[State.READY], CODE[State.IN_FLIGHT]) == (2, 3)
    assert {CODE[state] for state in (State.COMPLETED, State.DEAD, State.CANCELLED)} == {4, 5, 6}


def test_a_page_of_all_jobs_walks_keys_in_order_and_sorts_nothing(connection: apsw.Connection) -> None:
    for order in ("asc", "desc"):
        text, bound = find_statement(Filter(), Page(after=5, order=order, limit=50))  # type: ignore[arg-type]
        steps = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", bound)]
        assert any("SEARCH job USING INTEGER PRIMARY KEY" in step for step in steps), steps
        assert not any("TEMP B-TREE" in step for step in steps)
