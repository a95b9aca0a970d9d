"""What is looked at when a store is looked over: each thing is damaged by itself, is found, and is made anew where it can be."""

from __future__ import annotations

import resource
from pathlib import Path

import apsw
import pytest

from anew.app.doctor import look_over, make_anew
from anew.clock import SystemClock
from anew.errors import NotFound, StoreFailed
from anew.jobs import State
from anew.store.selection import Filter, Page
from anew.store.sqlite import Places, examination, examine, open_sqlite, opening
from tests.conformance.helpers import batch, change, check_counts, hold, new_job, put

LONG = b'"' + b"x" * 600_000 + b'"'
NOW = SystemClock().now()


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is well, whatever this one is like."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1_024, resource.RLIM_INFINITY))
    monkeypatch.setattr(examination, "FREE_BYTES", 0)
    monkeypatch.setattr(examination, "file_system", lambda folder: "ext4")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A closed store with some of everything."""
    store = open_sqlite(tmp_path)
    put(store, *(new_job("ab"[n % 2], LONG if n == 4 else b"1") for n in range(6)), now=NOW)
    with batch(store):
        store.take(["a"], 2, 1 << 30, hold(owner=store.session, deadline=None))
        store.apply([change(1, State.RETRYING, ready_at=NOW + 10**9), change(3, State.DEAD, purge_at=None)])
    store.close()
    return tmp_path


def execute(directory: Path, *statements: str) -> None:
    connection = apsw.Connection(str(directory / "anew.db"))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def found(directory: Path) -> dict[str, str]:
    return {finding.name: finding.found for finding in look_over(directory).findings}


def test_a_store_that_is_well(directory: Path) -> None:
    seen = look_over(directory)
    assert seen.findings == []
    assert (seen.facts["jobs"], seen.facts["processes"], seen.facts["schema"]) == ("6", "none", "11")
    assert seen.facts["store"] == str(directory / "anew.db")


DERIVED = {
    "counters": (
        ["UPDATE queue SET ready = ready + 2 WHERE name = 'b'", "UPDATE queue SET dead = 0 WHERE name = 'a'"],
        "2 counters are not what the rows say: a dead by +1, b ready by -2",
    ),
    "heads": (["UPDATE queue SET head_id = 4 WHERE name = 'b'", "UPDATE queue SET head_id = NULL WHERE name = 'a'"],
        "2 queues have a wrong head of their line: a, b"),
    "records": (["UPDATE job SET records = 7 WHERE id = 1", "UPDATE job SET record_bytes = 0 WHERE id = 3"],
        "2 jobs have another number of records than their rows say"),
    "payloads": (["INSERT INTO payload VALUES (99, 0, x'31'), (99, 1, x'31'), (98, 0, x'31')"],
        "there are payloads of 2 jobs that are gone"),
    "attempts": (["UPDATE attempt SET job_id = 77 WHERE job_id = 3", "UPDATE job SET records = 0, record_bytes = 0 WHERE id = 3",
        "INSERT INTO attempt_count VALUES (78, 'error', 'E', 3)"], "there are records of failures of 2 jobs that are gone"),
    "staged": (["INSERT INTO staged VALUES (99, 4711)", "INSERT INTO payload VALUES (99, 0, x'31')"],
        "1 payloads were begun by processes that have died"),
    "holds": (["UPDATE job SET state = 40, hold_kind = 10, hold_owner = 4711 WHERE id = 2",
        "UPDATE queue SET ready = ready - 1, in_flight = 1, head_id = 4 WHERE name = 'b'"],
        "1 jobs are held by processes that nobody knows"),
    "limits": (["INSERT INTO limit_key VALUES ('a', x'7b22636f6e63757272656e6379223a317d', 0, 0, NULL, 0, 0)",
        "INSERT INTO limited VALUES (2, 'a', 1, 'b', 32768), (4, 'a', 2, NULL, NULL), (99, 'a', 3, 'b', 1)",
        "UPDATE job SET state = 32 WHERE id = 6", "UPDATE queue SET ready = ready - 1, blocked = 1 WHERE name = 'b'"],
        "4 jobs stand otherwise with their limits' keys than the rows say, 0 keys are forgotten"),
    "sessions": (["INSERT INTO session (id, pid, started_at) VALUES (4711, 99, 0)",
        "UPDATE job SET state = 40, hold_kind = 30, hold_owner = 4711 WHERE id = 2",
        "UPDATE queue SET ready = ready - 1, in_flight = 1, head_id = 4 WHERE name = 'b'"],
        "1 processes have died and have not been cleared away"),
}  # fmt: skip
"""By finding: what brings it about, and its words."""


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a server"])
@pytest.mark.parametrize("name", DERIVED)
def test_what_is_derived_is_found_and_made_anew(directory: Path, name: str, beside: bool) -> None:
    statements, words = DERIVED[name]
    execute(directory, *statements)
    assert found(directory) == {name: words}
    server = open_sqlite(directory, background=True) if beside else None
    seen = make_anew(directory, look_over(directory))
    assert seen.findings == []
    store = server or open_sqlite(directory)
    with batch(store):
        check_counts(store)
    assert store.find(Filter(), Page()) == [1, 2, 3, 4, 5, 6]
    in_flight = [job.key for job in store.load(range(9)) if job.state is State.IN_FLIGHT]
    assert in_flight == []
    assert store._link.connection.execute("SELECT count(*) FROM payload WHERE job_id > 9").fetchone() == (0,)
    store.close()


def test_what_is_damaged_is_named_and_left_alone(directory: Path) -> None:
    execute(directory, "DELETE FROM payload WHERE part = 1", "UPDATE job SET policy = x'7b' WHERE id = 2")
    (finding,) = look_over(directory).findings
    assert (finding.name, finding.derived) == ("jobs", False)
    assert finding.found.startswith("of 2 jobs a payload, a policy or a state cannot be read: ")
    assert make_anew(directory, look_over(directory)).findings == [finding]


def test_a_file_with_a_damaged_page_is_said_to_be_so_and_how_to_mend_it(directory: Path) -> None:
    execute(directory, "PRAGMA wal_checkpoint(TRUNCATE)")
    with open(directory / "anew.db", "r+b") as file:
        root = apsw.Connection(str(directory / "anew.db"))
        (page_number,) = root.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'attempt_job'"
        ).fetchone()
        root.close()
        file.seek(4_096 * (page_number - 1))
        file.write(bytes(4_096))
    (finding,) = look_over(directory).findings
    assert (finding.name, finding.derived) == ("integrity", False)
    assert "anew restore" in finding.mend


def test_a_failed_sync_is_told(directory: Path) -> None:
    (directory / "turnstile").write_text("IOError: disk I/O error")
    assert found(directory) == {"failed-sync": "a write to the disk has failed: IOError: disk I/O error"}


def test_a_clock_that_was_set_back_is_told(directory: Path) -> None:
    execute(directory, f"UPDATE meta SET value = {(NOW + 90_000) << 20} WHERE name = 'last_key'")
    (finding,) = examine(Places.in_directory(directory), NOW).findings
    assert (finding.name, finding.found) == (
        "clock",
        "the newest job was stored 90 s ahead of this machine's clock",
    )


def test_another_schema_is_told_and_nothing_more_is_read(directory: Path) -> None:
    execute(directory, "PRAGMA user_version = 99")
    assert found(directory) == {"schema": "the store has schema 99, this program knows up to 11"}
    execute(directory, "PRAGMA user_version = 1")
    assert found(directory) == {"schema": "the store has schema 1, this program writes 11"}


def test_the_machine_is_looked_at(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "file_system", lambda folder: "nfs4")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 1_024))
    monkeypatch.setattr(examination, "FREE_BYTES", 1 << 60)
    monkeypatch.setattr(examination, "LOG_BYTES", -1)
    assert set(found(directory)) == {"file-system", "open-files", "disk", "log"}


def test_where_there_is_no_store_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        look_over(tmp_path)
    (tmp_path / opening.FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreFailed):
        look_over(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [opening.FILE]
