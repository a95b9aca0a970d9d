"""What SQLite does for each statement of ``queries.sql``: no hot one may walk a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

from anew.jobs import HoldKind, NewJob, State
from anew.jobs.hooks import Hook
from anew.jobs.key_limits import KeyStanding
from anew.store.selection import Filter, Page
from anew.store.sql.filters import find_statement
from anew.store.sql.rows import BLOCKED, CODE, IN_FLIGHT, READY
from anew.store.sqlite import open_sqlite
from anew.store.sqlite.opening import connect, migrate
from anew.store.sqlite.words import STATEMENTS

NOW = 1_700_000_000_000

RARE = "only where a statement has met a text that cannot be read"

WHOLE_TABLE = {
    "all_texts": RARE,
    "queue_texts": RARE,
    "drop_queue_text": RARE,
    **dict.fromkeys(
        ("topic_texts", "subscription_texts", "message_texts", "delivery_texts", "delivery_task_texts"), RARE
    ),
    "mend_topic": RARE,
    "read_counters": "a row a queue, read where all counters are asked for",
    "totals": "a row a queue, in the reader's thread, for somebody who looks",
    "busiest": "a row a queue, in the reader's thread, for somebody who looks",
    "queue_count": "a row a queue, in the reader's thread, for somebody who looks",
    "listed_queues": "a row a queue, for somebody who lists them",
    "known_queues": "a row a queue, for somebody who pauses them all",
    "flagged_queues": "a row a queue, for somebody who removes them all",
    "ended": "a row a day",
    "read_meta": "a handful of rows, read at the start",
    "is_staging": "ends at the first row",
    "failing": "walks the jobs that it has found, of which there are so many",
    "delete_unstaged": "removes all payloads, but for a few",
    "staged_by_nobody": "a row for each long payload that is being written just now",
    "leftovers": "ends at its limit",
    "sessions": "one row a process",
    "processes": "one row a process and the jobs in flight, for somebody who looks",
    "stop_cron": "a row an entry, where one is damaged",
    "drop_all_cron_groups": "a row a group, for somebody who removes them all",
    "all_breakers": "one row a service, for somebody who lists them",
    "breakers_to_show": "so many rows, in the reader's thread, for somebody who looks",
    "limits_to_show": "so many keys, in the reader's thread, for somebody who looks",
    "store_facts": "numbers that the engine has of all tables, for somebody who looks",
    "recount": "counts every row, in the reader's thread and after a crash alone",
    "heads_amiss": "a row a queue, for somebody who looks the store over",
    "records_amiss": "every job, for somebody who looks the store over",
    "parts_of_nobody": "every payload that is kept apart, for somebody who looks the store over",
    "records_of_nobody": "every record, for somebody who looks the store over",
    "damaged": "every job, for somebody who looks the store over",
    "blocked_amiss": "every job, for somebody who looks the store over",
    "blocked_queues": "a row a queue in which a key has blocked jobs",
    "keys_forgotten": "every key and its jobs, in the reader's thread and after a crash alone",
    "limited_amiss": "every job of a key, for somebody who looks the store over",
    "topic_counts": "a row a counter, for somebody who watches",
    "subscription_counts": "a row a subscription, in the reader's thread, for somebody who watches",
    "unwell_subscriptions": "a row a subscription, in the reader's thread, for somebody who watches",
    **dict.fromkeys(
        ("lengths", "paused_lines", "lines_behind", "lines_before"),
        "a row a queue, in the reader's thread, for somebody who watches",
    ),
    "limited_of_nobody": "every job of a key, for somebody who looks the store over",
    "remove_limited_of_nobody": "every job of a key, for somebody who has the store mended",
}
"""Statements that read a table from end to end, and why they may."""

SORTS = {
    "processes": "the jobs in flight by who holds them, for somebody who looks",
    "breakers_to_show": "by state, in the reader's thread, so many rows",
    "recount": "by queue and state, in the reader's thread",
    "middle_attempts": "one job's records, of which there are as many as are kept and one more",
    "counted_attempts": "one job's kinds of errors",
    "named": "reserved jobs of the same ids, nearly always one of each",
    "heads_amiss": "a row a queue, for somebody who looks the store over",
    "subscription_counts": "by status, in the reader's thread",
    "busiest": "a row a queue, in the reader's thread, for somebody who looks",
    "due_counts": "by step and state, of so many jobs, in the reader's thread",
    "failing": "by type and error, of so many jobs, in the reader's thread",
    **dict.fromkeys(
        ("in_flight_behind", "in_flight_before", "scheduled_behind", "scheduled_before"),
        "a bounded number of jobs, in the reader's thread, for somebody who watches",
    ),
}
"""Statements that sort what they have found, and why they may."""

NO_TABLE = re.compile(
    r"SCAN \d+-ROW VALUES CLAUSE|SCAN (\d+ )?CONSTANT ROWS?|SCAN v\b"
    r"|SCAN (near|far|held|waiting|counted|missing|wrong|firsts|some)$"  # what the statement itself has found
)
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
        INSERT INTO job (id, queue, type, priority, state, ready_at, hold_kind, hold_token, hold_owner, hold_deadline, purge_at,
            payload)
        SELECT i, 'q' || (i % 7), 't', i % 3, 10 * (1 + i % 7), ? + i, 10 * (1 + i % 3), i, i % 5, ? + i, ? + i, x'7b7d' FROM n
        """,
        (jobs, NOW, NOW, NOW),
    )
    connection.execute("INSERT INTO payload SELECT id, id % 2, x'31' FROM job WHERE id % 11 = 0")
    connection.execute("INSERT INTO staged SELECT id + 100000, 1 FROM job WHERE id % 11 = 0")
    connection.execute(
        "INSERT INTO attempt (job_id, attempt, outcome, message, dequeued_at, failed_at) "
        "SELECT id, 1, 'error', '', 0, 0 FROM job WHERE state = 20"
    )
    connection.execute("INSERT INTO attempt_count SELECT id, 'error', 'Oops', 7 FROM job WHERE state = 20")
    connection.execute("INSERT INTO leftover SELECT id + 200000 FROM job WHERE state = 20")
    connection.execute(
        "INSERT INTO queue (name, ready, head_priority, head_id) "
        "SELECT queue, count(*), priority, min(id) FROM job WHERE state = 30 GROUP BY queue"
    )
    connection.execute(
        "INSERT INTO cron (group_name, name, expression, paused, next_at, job) "
        "SELECT queue, 'e' || id, '@hourly', 0, nullif(id % 5, 0), x'31' FROM job"
    )
    connection.execute(
        "INSERT INTO slot SELECT queue, ready_at, id, hold_token, '' FROM job WHERE state = 40 AND queue = 'q3'"
    )
    connection.execute(
        "INSERT INTO limited SELECT id, 'k' || (id % 99), id % 4, queue, priority FROM job WHERE id % 2"
    )
    connection.execute("INSERT INTO limit_key SELECT DISTINCT name, x'7b7d', 0, 0, NULL, 0, 0 FROM limited")
    connection.execute("UPDATE limit_key SET look_at = 7 WHERE name < 'k5'")
    connection.execute("INSERT INTO session VALUES (1, 100, 0), (2, 200, 0)")
    fill_topics(connection)


def fill_topics(connection: apsw.Connection) -> None:
    """A hundred topics of a hundred subscriptions, and 20,000 deliveries, some of which have ended."""
    connection.execute("INSERT INTO topic SELECT 't' || id, x'7b7d', 0, 0 FROM job WHERE id <= 100")
    connection.execute(
        "INSERT INTO subscription SELECT id, 't' || (id % 100), 'https://' || id, 'active', x'7b7d', x'', x'', 0, 0, "
        "nullif(id % 9, 0), NULL, 0 FROM job WHERE id <= 10000"
    )
    connection.execute(
        "INSERT INTO message SELECT id, 't' || (id % 100), 'a', NULL, x'31', 0, 0, NULL, id, NULL FROM job"
    )
    connection.execute(
        "INSERT INTO publication SELECT 't', 'k' || id, x'', x'', id FROM job WHERE id <= 1000"
    )
    connection.execute("INSERT INTO delivery_policy SELECT id, CAST(id AS BLOB) FROM job WHERE id <= 5000")
    connection.execute(
        "INSERT INTO delivery SELECT id, id, id % 10000, id, 1, id % 4, NULL, 'scheduled', 1, 0, NULL, 0, nullif(id % 4, 0) "
        "FROM job"
    )
    connection.execute("INSERT INTO delivery_attempt SELECT id, 1, 0, x'7b7d' FROM job")
    connection.execute(
        "INSERT INTO delivery_task SELECT id, x'7b7d', 'done', 0, 0, id FROM job WHERE id <= 100"
    )


def plan(connection: apsw.Connection, text: str) -> list[str]:
    """The steps of a statement's plan."""
    marks = len(re.findall(r"\?(?!\d)", text)) + len(set(re.findall(r"\?\d+", text)))
    return [
        str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {STATEMENTS.say(text)}", [1] * marks)
    ]


def walks(steps: list[str]) -> list[str]:
    """Steps that go through a whole table, not by an index, nor through rows of the statement's own."""
    return [
        step
        for step in steps
        if step.startswith("SCAN") and " USING " not in step and not NO_TABLE.match(step)
    ]


@pytest.mark.parametrize("width", [1, 100])
def test_no_hot_statement_walks_a_table(connection: apsw.Connection, width: int) -> None:
    plans = {name: plan(connection, STATEMENTS.text(name, width)) for name in STATEMENTS.named()}
    walking = {name: steps for name, steps in plans.items() if walks(steps)}
    assert set(walking) == set(WHOLE_TABLE), walking


@pytest.mark.parametrize("width", [1, 100])
def test_no_statement_sorts_or_builds_an_index_of_its_own(connection: apsw.Connection, width: int) -> None:
    """The order wanted is the order of the index, so that a LIMIT ends the work."""
    plans = {name: plan(connection, STATEMENTS.text(name, width)) for name in STATEMENTS.named()}
    sorting = {
        name: steps
        for name, steps in plans.items()
        if any("TEMP B-TREE" in step or "AUTOMATIC" in step for step in steps)
    }
    assert set(sorting) == set(SORTS), sorting


SEARCHES = {
    "read_queues": "queue_name",
    "drop_queues": "queue_name",
    "queue_rows": "queue_name",
    "select_ready": "job_ready",
    "select_first_reserved": "job_ready",
    "ready_heads": "job_ready",
    "ready_behind": "job_ready",
    "ready_before": "job_ready",
    "in_flight_behind": "job_hold",
    "in_flight_before": "job_hold",
    "scheduled_behind": "job_due",
    "scheduled_before": "job_far",
    "places": "job_ready",
    "whole_lines": "job_ready",
    "next_priority": "job_ready",
    "ready_since": "job_ready",
    "hold": "job_ready",
    "first_heads": "queue_first",
    "heads_behind": "queue_first",
    "named": "job_jid",
    "stored_once": "job_once",
    "due_crons": "cron_next",
    "due_crons_undecoded": "cron_next",
    "next_slot": "cron_next",
    "occupy_all": "job_hold",
    "held_by": "job_hold",
    "held_by_nobody": "job_hold",
    "select_due": "job_due",
    "promote": "job_due",
    "next_due": "job_due",
    "due_until": "job_due",
    "due_counts": "job_due",
    "draw_near": "job_far",
    "lapsed": "job_hold",
    "purgeable": "job_purge",
    "delete_attempts": "attempt_job",
    "leftover_attempts": "attempt_job",
    "middle_attempts": "attempt_job",
    "corrupt_among": "attempt_job",
    "errors": "attempt_job",
    "errors_backwards": "attempt_job",
    "last_errors": "attempt_job",
    "last_decisions": "attempt_job",
    "failed_jobs": "attempt_job",
    "failures": "attempt_job",
    "recount_records": "attempt_job",
    "purgeable_hooked": "job_purge",
    "count_outcomes": "attempt_job",
    "release_locks": "unique_lock_job",
    "reap_locks": "unique_lock_end",
    "purgeable_batches": "batch_purge",
    "reap_progress": "progress_age",
    "limit_looks": "limit_key_look",
    "next_limit_look": "limit_key_look",
    "limited_running": "limited_name",
    "blocked_queues": "limited_name",
    "first_limited": "limited_name",
    "any_limited": "limited_name",
    "subscription_at": "subscription_endpoint",
    "subscribers": "subscription_topic",
    "count_subscribers": "subscription_topic",
    "ending_subscriptions": "subscription_end",
    "messages_of": "message_topic",
    "purge_messages": "message_purge",
    "leave_deliveries": "delivery_pair",
    "purge_publications": "publication_purge",
    "deliveries_of": "delivery_subscription",
    "last_deliveries_of": "delivery_subscription",
    "dead_deliveries": "delivery_dead",
    "delivery_of": "delivery_pair",
    "deliveries_of_message": "delivery_pair",
    "purge_deliveries": "delivery_purge",
    "purge_delivery_tasks": "delivery_task_purge",
}
"""Which index carries which statement."""


def test_each_index_is_used_for_what_it_was_made(connection: apsw.Connection) -> None:
    plans = {name: plan(connection, STATEMENTS.text(name)) for name in SEARCHES}
    assert {
        name: steps
        for name, steps in plans.items()
        if not any(re.search(rf"USING (COVERING )?INDEX {SEARCHES[name]}\b", step) for step in steps)
    } == {}


BY_KEY = [
    "select_ready_by_key", "hold_by_key", "held_under", "hold_kinds", "finish", "load", "load_payload", "load_undecoded",
    "load_payload_undecoded", "complete", "apply", "rewrite",
    "keep_results", "payloads", "names_of",
    "release", "rename", "set_aside", "delete", "payload", "delete_payloads", "payload_sizes", "adopt", "delete_staged",
    "drop_attempts", "redecide",
    "fold_into", "forget_records", "counted_attempts", "delete_attempt_counts", "leftover_parts", "drop_part",
    "drop_leftover",
    "select_reserved", "reserve_by_key", "occupy", "slots", "drop_left_slots", "free_slots",
    "drop_slots", "all_crons", "all_crons_undecoded", "group_crons", "limit_at",
    "read_cron", "drop_cron", "drop_group_crons", "cron_extent", "cron_groups",
    "read_cron_group", "drop_cron_group", "close_session", "read_duty", "read_lease_clock",
    "hooked", "add_hooks", "locks", "batches", "write_batch", "batch_parts", "delete_batches", "progress", "extend_hold",
    "read_one_meta", "notes", "forget_notes", "drop_expiry", "breakers",
    "limit_keys", "drop_limit_keys", "limited_jobs", "stand", "block", "stand_blocked", "unblock", "free_limited",
    "remove_limited",
    "topic", "topics", "drop_topic", "subscriptions", "drop_subscription", "publication", "messages", "expand_message",
    "delivery_policies", "policy_number", "deliveries", "deliveries_between", "write_deliveries", "drop_delivery",
    "drop_delivery_attempts", "drop_begun_attempts", "begun_attempts", "delivery_attempts", "last_delivery_attempts",
    "purge_attempts", "delivery_task", "mend_subscription", "mend_message", "mend_delivery", "mend_delivery_task",
]  # fmt: skip


def test_rows_that_are_named_are_found_by_their_key(connection: apsw.Connection) -> None:
    found = {name: searches(plan(connection, STATEMENTS.text(name, 100))) for name in BY_KEY}
    assert all(found.values()), found
    by_key = re.compile("USING (INTEGER )?PRIMARY KEY|sqlite_autoindex")
    assert {name: steps for name, steps in found.items() if not all(map(by_key.search, steps))} == {}


def searches(steps: list[str]) -> list[str]:
    """Steps that look something up."""
    return [step for step in steps if step.startswith("SEARCH")]


def test_every_statement_is_accounted_for() -> None:
    writes_only = {
        "empty_queue",
        "insert_plain",
        "insert_rich",
        "insert_usual",
        "insert_payload",
        "stage",
        "delete_all_payloads",
        "insert_attempt",
        "count_attempts",
        "leave_over",
        "leave_orphans",
        "write_counters",
        "write_queues",
        "write_flags",
        "write_crons",
        "write_breakers",
        "write_cron_group",
        "drop_all_crons",
        "insert_pushed",
        "insert_hooked",
        "insert_moved",
        "insert_batch",
        "take_locks",
        "claim_lock",
        "write_progress",
        "count_ended",
        "write_duty",
        "write_meta",
        "write_limit_keys",
        "add_limited",
        "open_session",
        "write_topic",
        "write_subscriptions",
        "write_publication",
        "write_messages",
        "number_policy",
        "add_deliveries",
        "write_attempts",
        "write_delivery_task",
        "count_topics",
    }
    one_end_of_the_table = {"read_numbers", "any_subscription"}
    a_row_a_key = {"blocked_since"}
    known = {*WHOLE_TABLE, *SEARCHES, *BY_KEY, *writes_only, *one_end_of_the_table, *a_row_a_key}
    assert known == set(STATEMENTS.named())


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
    """Waiting states below 30, ready 30, in flight 40, ended above 40: what each index names by a comparison."""
    assert {CODE[state] for state in (State.SCHEDULED, State.RETRYING)} == {10, 20}
    assert (CODE[State.READY], CODE[State.IN_FLIGHT]) == (30, 40)
    assert {CODE[state] for state in (State.COMPLETED, State.DEAD, State.CANCELLED)} == {50, 60, 70}


def test_the_codes_of_blocked_jobs_and_of_standings_are_those_that_the_statements_name() -> None:
    """A blocked job is in no index of `job`: its code is none that one names, and stands between those of ready and in flight."""
    assert READY < BLOCKED < IN_FLIGHT
    assert [
        int(standing) for standing in (KeyStanding.BLOCKED, KeyStanding.RUNNING, KeyStanding.UNBLOCKED)
    ] == [1, 2, 3]


def test_a_reservations_code_is_the_one_that_the_statements_leave_out() -> None:
    for name in ("held_by", "held_by_nobody"):
        assert f"hold_kind IS DISTINCT FROM {int(HoldKind.RESERVATION)}" in STATEMENTS.named()[name]


def test_the_mark_of_jobs_that_are_stored_once_is_the_one_that_index_and_statements_name() -> None:
    assert f"hooks & {int(Hook.ONCE)}" in STATEMENTS.named()["stored_once"]


def test_a_page_of_all_jobs_walks_keys_in_order_and_sorts_nothing(connection: apsw.Connection) -> None:
    for order in ("asc", "desc"):
        text, bound = find_statement(Filter(), Page(after=5, order=order, limit=50))  # type: ignore[arg-type]
        steps = [
            str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {STATEMENTS.say(text)}", bound)
        ]
        assert any("SEARCH job USING INTEGER PRIMARY KEY" in step for step in steps), steps
        assert not any("TEMP B-TREE" in step for step in steps)


@pytest.mark.parametrize("others", [0, 300])
def test_queues_with_ready_jobs_are_found_among_many_by_few_statements(tmp_path: Path, others: int) -> None:
    """Also where more queues that nobody asks for have some: their heads are not read to the end."""
    writer, store = open_sqlite(tmp_path), open_sqlite(tmp_path, exclusive=False)
    names = [*(f"other-{n}" for n in range(others)), "q7", "q9"]
    writer.begin(synced=False)
    jobs = [NewJob(type="t", queue=name, payload=msgspec.Raw(b"1")) for name in names]
    writer.insert_plain(range(1, len(names) + 1), jobs, NOW)
    writer.commit()
    store.begin(synced=False)
    ran: list[str] = []
    store._link.connection.exec_trace = lambda cursor, text, bound: ran.append(text) or True
    assert sorted(store.queues.ready_among({f"q{n}" for n in range(192)})) == ["q7", "q9"]
    assert len(ran) == (1 if others == 0 else 3)  # 128 queues in one of the further ones, 64 in the other
    store.rollback()
    store.close()
    writer.close()


def test_a_head_that_stays_is_not_written_again_after_another_process_has_written(tmp_path: Path) -> None:
    one, other = open_sqlite(tmp_path), open_sqlite(tmp_path, exclusive=False)
    job = NewJob(type="t", queue="q", payload=msgspec.Raw(b"1"))
    ran: list[str] = []
    for key, store in ((1, one), (2, other), (3, one)):
        store.begin(synced=False)
        ran.clear()
        store._link.connection.exec_trace = lambda cursor, text, bound: ran.append(text) or True
        store.insert_plain([key], [job], NOW)
        store.commit()
        store._link.connection.exec_trace = None
        assert STATEMENTS.text("places") not in ran
        assert (STATEMENTS.text("write_queues") in ran) is (key == 1)
    reader = one.reader()
    assert reader.recount().heads == []
    reader.close()
    one.close()
    other.close()


@pytest.mark.parametrize(("name", "side"), [("ready_behind", ">"), ("ready_before", "<")])
@pytest.mark.parametrize("of", ["ready", "lines"])
def test_a_place_in_a_line_is_searched_by_both_its_values(
    connection: apsw.Connection, name: str, side: str, of: str
) -> None:
    """By the priority alone, which nearly all jobs have in common, each search would walk the line from its beginning."""
    steps = plan(connection, STATEMENTS.text(name.replace("ready", of)))
    assert any(f"job_ready (queue=? AND priority=? AND id{side}?)" in step for step in steps), steps
