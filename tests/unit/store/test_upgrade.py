"""A store that the first release wrote, with jobs in every state, opened by this program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import apsw
import pytest

from anew.backoff import Policy
from anew.clock import ManualClock
from anew.engine import Engine, recover
from anew.errors import StoreBusy
from anew.jobs import Defaults, State
from anew.jobs.cron_entry import CronGroup
from anew.store.selection import Filter, Page
from anew.store.sql import SqlStore
from anew.store.sql.migrations import migrations
from anew.store.sqlite import Places, open_sqlite
from anew.store.sqlite.opening import APPLICATION_ID, PACKAGE
from anew.store.sqlite.presence import Presence, ServerLock
from tests.conformance.helpers import ALL, batch, check_counts, new_job, one, take, taken_keys, told

NOW = 1_700_000_000_000
LONG = b'"' + b"x" * 600_000 + b'"'
PART = 256 << 10
TAG, SECRET = "0abcdefgh", bytes(range(32))

SCHEDULED, RETRYING, READY, IN_FLIGHT, COMPLETED, DEAD, CANCELLED = range(7)
"""How the first release wrote states."""

Row = dict[str, object]


def row(key: int, state: int, queue: str = "mail", **columns: object) -> Row:
    usual: Row = {"type": "send", "priority": 32_768, "ready_at": NOW, "payload": b'{"n":%d}' % key}
    return {"id": key, "queue": queue, "state": state} | usual | columns


JOBS = [
    row(1, SCHEDULED, ready_at=NOW + 5_000),
    row(2, RETRYING, ready_at=NOW + 3_000, attempts=2, failed_at=NOW - 9, first_failed_at=NOW - 99, phase=0.25, carry=1.5),
    row(3, READY),
    row(4, READY, priority=7, retry_limit=0, policy=b'{"preset":"even"}'),
    row(5, READY, "big", payload=None, payload_bytes=len(LONG)),
    row(6, IN_FLIGHT, lease_token=77, lease_owner=3, lease_deadline=NOW + 60_000, dequeued_at=NOW - 50),
    row(7, IN_FLIGHT, "big", payload=None, payload_bytes=len(LONG), lease_token=78, lease_owner=3,
        lease_deadline=NOW - 1, dequeued_at=NOW - 70, attempts=1, failed_at=NOW - 80, first_failed_at=NOW - 80),
    row(8, COMPLETED, completed_at=NOW - 5, purge_at=NOW + 100, retention=b'{"completed_ms":105}'),
    row(9, DEAD, attempts=26, failed_at=NOW - 4, first_failed_at=NOW - 90_000, purge_at=NOW + 200),
    row(10, DEAD, "late", attempts=1, failed_at=NOW - 4, first_failed_at=NOW - 4),
    row(11, CANCELLED, purge_at=NOW + 300),
]  # fmt: skip
ATTEMPTS = {2: 2, 7: 1, 9: 26, 10: 1}


def write_first_release(directory: Path) -> None:
    """Make a store with the first step of the schema alone, as a killed server leaves it."""
    directory.mkdir(exist_ok=True)
    connection = apsw.Connection(str(directory / "anew.db"))
    connection.pragma("journal_mode", "wal")
    connection.execute(dict(migrations(PACKAGE))[1])
    connection.pragma("user_version", 1)
    connection.pragma("application_id", APPLICATION_ID)
    with connection:
        for name, value in {"tag": TAG, "secret": SECRET, "last_key": 1_000, "last_failure": 40}.items():
            connection.execute("INSERT INTO meta VALUES (?, ?)", (name, value))
        for job in JOBS:
            insert(connection, "job", job)
        write_payloads(connection)
        write_attempts(connection)
        write_counters(connection)
    connection.close()


def insert(connection: apsw.Connection, table: str, values: Row) -> None:
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))


def write_payloads(connection: apsw.Connection) -> None:
    """Long payloads of two jobs, and the beginning of one whose job has not come."""
    for key, most in ((5, 3), (7, 3), (900, 1)):
        for part in range(most):
            data = LONG[part * PART : (part + 1) * PART]
            insert(connection, "payload", {"job_id": key, "part": part, "data": data})
    insert(connection, "staged", {"job_id": 900})


def write_attempts(connection: apsw.Connection) -> None:
    for key, times in ATTEMPTS.items():
        for number in range(1, times + 1):
            record: Row = {
                "outcome": "error",
                "message": "für nichts",
                "backtrace": "at 1",
                "decision": b"{}",
            }
            times_of: Row = {"dequeued_at": NOW - 100, "failed_at": NOW - 90}
            insert(connection, "attempt", {"job_id": key, "attempt": number} | record | times_of)


def write_counters(connection: apsw.Connection) -> None:
    names = ("scheduled", "retrying", "ready", "in_flight", "completed", "dead", "cancelled")
    for queue in ("mail", "big", "late", "emptied"):
        counted = dict.fromkeys(names, 0)
        for job in JOBS:
            if job["queue"] == queue:
                counted[names[int(str(job["state"]))]] += 1
        insert(connection, "counter", {"queue": queue} | dict(counted))


@pytest.fixture
def store(tmp_path: Path) -> SqlStore:
    write_first_release(tmp_path)
    return open_sqlite(tmp_path)


def engine_of(store: SqlStore) -> Engine:
    defaults = Defaults(policy=Policy.from_json({"curve": {"constant": "10s"}}))
    return Engine(store, clock=ManualClock(NOW), defaults=defaults)


def test_every_job_is_there_in_its_state_with_all_its_fields(store: SqlStore) -> None:
    states = [
        State.SCHEDULED, State.RETRYING, State.READY, State.READY, State.READY, State.IN_FLIGHT, State.IN_FLIGHT,
        State.COMPLETED, State.DEAD, State.DEAD, State.CANCELLED,
    ]  # fmt: skip
    jobs = store.load(range(2_000), payload=True)
    assert [job.key for job in jobs] == list(range(1, 12))
    assert [job.state for job in jobs] == states
    same = ("queue", "type", "priority", "ready_at", "retry_limit", "policy", "retention", "dequeued_at", "failed_at",
            "first_failed_at", "completed_at", "purge_at", "phase", "carry")  # fmt: skip
    for job, written in zip(jobs, JOBS, strict=True):
        for name in same:
            assert getattr(job, name) == written.get(name), (job.key, name)
        assert job.attempts == written.get("attempts", 0)
        assert job.payload == (written["payload"] or LONG)
    store.close()


def test_counters_heads_and_times_are_right(store: SqlStore) -> None:
    assert told(store) == {
        ("mail", State.SCHEDULED): 1, ("mail", State.RETRYING): 1, ("mail", State.READY): 2, ("mail", State.IN_FLIGHT): 1,
        ("mail", State.COMPLETED): 1, ("mail", State.DEAD): 1, ("mail", State.CANCELLED): 1, ("big", State.READY): 1,
        ("big", State.IN_FLIGHT): 1, ("late", State.DEAD): 1,
    }  # fmt: skip
    check_counts(store)
    reader = store.reader()
    assert reader.recount().counters == {}
    assert reader.oldest_ready() == NOW
    reader.close()
    assert store.next_due() == NOW + 3_000
    assert taken_keys(take(store)) == [4, 3, 5]
    with batch(store):
        assert store.promote(NOW + 5_000, 10) == 2
    assert taken_keys(take(store)) == [1, 2]
    with batch(store):
        assert store.reap(NOW + 250, 10) == 2
    assert store.find(Filter(), ALL) == [1, 2, 3, 4, 5, 6, 7, 10, 11]
    assert store.records.errors(9, Page()) == []
    check_counts(store)
    store.close()


def test_failures_are_there_and_go_with_their_jobs(store: SqlStore) -> None:
    for key, times in ATTEMPTS.items():
        records = store.records.errors(key, ALL)
        assert [record.attempt for record in records] == list(range(1, times + 1))
        assert {(record.message, record.backtrace) for record in records} == {("für nichts", "at 1")}
    sizes = dict(store._link.connection.execute("SELECT id, record_bytes FROM job WHERE records > 0"))
    assert sizes == {key: times * 15 for key, times in ATTEMPTS.items()}
    with batch(store):
        store.delete([9, 10])
    assert store.records.errors(9, Page()) == store.records.errors(10, Page()) == []
    store.close()


def test_what_was_in_flight_is_given_back_and_what_was_half_written_is_removed(store: SqlStore) -> None:
    """Its server is gone, and nobody else has a session under that number."""
    assert recover(engine_of(store)) == 2
    assert [job.state for job in store.load([6, 7])] == [State.READY, State.READY]
    assert one(store, 7).payload == LONG
    parts = store._link.connection.execute("SELECT count(*) FROM payload WHERE job_id = 900").fetchone()
    assert parts == (0,)
    assert taken_keys(take(store)) == [4, 3, 5, 6, 7]
    check_counts(store)
    store.close()


def test_names_and_numbers_go_on(store: SqlStore) -> None:
    identity = store.identity
    assert (identity.tag, identity.secret) == (TAG, SECRET)
    assert (identity.last_key, identity.last_failure) == (1_000, 40)
    store.close()


def test_a_second_opening_finds_the_same(store: SqlStore, tmp_path: Path) -> None:
    before = store.load(range(2_000), payload=True), told(store)
    store.close()
    again = open_sqlite(tmp_path)
    assert (again.load(range(2_000), payload=True), told(again)) == before
    again.close()


@pytest.mark.parametrize("seed", range(4))
def test_the_heads_of_many_queues_are_found(tmp_path: Path, seed: int) -> None:
    """Any mixture of states, priorities and queues: the heads that the upgrade writes are the first ready jobs."""
    rng = Random(seed)
    write_first_release(tmp_path)
    connection = apsw.Connection(str(tmp_path / "anew.db"))
    connection.execute("DELETE FROM job")
    jobs = [
        row(key, rng.choice((SCHEDULED, READY, DEAD)), f"q{rng.randrange(9)}", priority=rng.randrange(3), payload=b"1")
        for key in range(1, 60)
    ]  # fmt: skip
    for job in jobs:
        insert(connection, "job", job)
    connection.close()
    store = open_sqlite(tmp_path)
    heads: dict[str, tuple[object, object]] = {}
    for job in jobs:
        place = (job["priority"], job["id"])
        if job["state"] == READY:
            heads[str(job["queue"])] = min(heads.get(str(job["queue"]), place), place)  # type: ignore[type-var]
    found = store._link.connection.execute(
        "SELECT name, head_priority, head_id FROM queue WHERE head_id IS NOT NULL"
    )
    assert {queue: (priority, key) for queue, priority, key in found} == heads
    store.close()


def test_old_payloads_have_no_checksum_and_new_ones_have(store: SqlStore) -> None:
    with batch(store):
        store.insert([2_000], [new_job(payload=b"7")], NOW)
    found = store._link.connection.execute("SELECT id FROM job WHERE payload_crc IS NOT NULL")
    assert [key for (key,) in found] == [2_000]
    store.close()


@pytest.mark.parametrize("who", ["a server", "a program"])
def test_a_store_that_a_live_process_has_open_is_not_brought_up_to_date(tmp_path: Path, who: str) -> None:
    write_first_release(tmp_path)
    places = Places.in_directory(tmp_path)
    lock: list[Callable[[], None]] = []
    if who == "a server":
        lock.append(ServerLock(places.server).release)
    else:
        presence = Presence(places.sessions)
        presence.appear(7)
        lock.append(presence.leave)
    before = (tmp_path / "anew.db").read_bytes()
    with pytest.raises(StoreBusy, match="another process has it open; end its server and every program"):
        open_sqlite(tmp_path, exclusive=False)
    assert (tmp_path / "anew.db").read_bytes() == before
    for release in lock:
        release()
    open_sqlite(tmp_path, exclusive=False).close()


def test_groups_of_cron_entries_have_a_row_and_those_that_were_paused_still_are(tmp_path: Path) -> None:
    """Until the ninth step a group was what its entries said, and had a row only while it was paused."""
    connection = apsw.Connection(str(tmp_path / "anew.db"))
    steps = dict(migrations(PACKAGE))
    for number in range(1, 9):
        connection.execute(steps[number])
    connection.pragma("user_version", 8)
    connection.pragma("application_id", APPLICATION_ID)
    for group, name in (("runs", "a"), ("runs", "b"), ("paused", "a")):
        entry: Row = {"group_name": group, "name": name, "expression": "@daily", "paused": 0, "job": b"{}"}
        insert(connection, "cron", entry)
    for group in ("paused", "paused and empty"):
        insert(connection, "cron_paused", {"group_name": group})
    connection.close()
    store = open_sqlite(tmp_path)
    assert store.cron.groups(9) == ["paused", "paused and empty", "runs"]
    found = {name: store.cron.group(name) for name in store.cron.groups(9)}
    paused = CronGroup(paused=True)
    assert found == {"paused": paused, "paused and empty": paused, "runs": CronGroup()}
    assert [row.group_paused for row in store.cron.all_entries(("", ""), 9)] == [True, False, False]
    store.close()
