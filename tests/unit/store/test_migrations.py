"""The schema's numbered steps, forward only, and whose file it is."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from pathlib import Path

import apsw
import pytest

from anew.errors import NewerStore, StoreFailed
from anew.store.sql.migrations import migrations
from anew.store.sqlite import open_sqlite
from anew.store.sqlite.opening import APPLICATION_ID, PACKAGE, connect, migrate

NEWEST = max(number for number, _ in migrations(PACKAGE))

RELEASED = {
    1: "92951f7aa61f96e7257e5373d358b88aa03c960d4bf491894b4fbd0c438a51a0",
    2: "92a1dd6620f9ddd7e8f7b2a1a3adf1a1d132ba8482339aba66152e4dde3141b2",
    3: "4e17ea0d710ddc49eee3149d16026d5431093078c9d81ce4a3f61d33aecd0b81",
    4: "894c63bfccae762670ab288f9f1bf7447ffc24eb8c44b1f20135e0742ecc90e9",
    5: "a6b17022bbe380c258ab269ba0ad5bfc0d5ca1de8f585bda57f662b8c86100d6",
    6: "47b41138bc6e2575e28213bdbbfbb6593636f12312ffc228a027ef0e27dd1a78",
    7: "d5706efe27e76cf11971b1a2bfec1e28064ec0486c9e6b8481fc5e786da751ae",
    8: "a7cc9575385a117c2d9693c74017c26dce9183af4ac7898fef632b0a42a7a93b",
    9: "c9f2aa7349c7226b9bb59be5f03fc26fc07f255f0d0de1425e9743f947170bb3",
    10: "3a735067fcea7835351216e1b420231370434ae04f1752d518ae72ecf0d47e95",
    11: "2992dccc738e2780828898120b18d3596edf10aa0cb6e4d71bfd71183f45543c",
}
"""SHA-256 of each step's text; a step is final once a release has it, because stores exist that took it."""


def schema(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return list(connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"))


def set_pragma(directory: Path, name: str, value: int) -> None:
    """Change a store's header as another program would have left it."""
    connection = apsw.Connection(str(directory / "anew.db"))
    connection.pragma(name, value)
    connection.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with a store of this program, closed."""
    open_sqlite(tmp_path).close()
    return tmp_path


def test_steps_are_numbered_from_one_without_gaps() -> None:
    numbers = [number for number, _ in migrations(PACKAGE)]
    assert numbers == list(range(1, len(numbers) + 1))
    files = [entry.name for entry in resources.files("anew.store.sqlite").joinpath("migrations").iterdir()]
    steps = [name for name in files if name.endswith(".sql")]
    assert len(steps) == len(numbers)
    assert all(re.fullmatch(r"\d{4}_[a-z0-9_]+\.sql", name) for name in steps)


@pytest.mark.parametrize("number", range(1, NEWEST + 1))
def test_a_released_step_never_changes(number: int) -> None:
    """A store that took a step does not take it again, so a change of its text would reach new stores only."""
    found = hashlib.sha256(dict(migrations(PACKAGE))[number].encode()).hexdigest()
    assert found == RELEASED.get(number), (
        f"migration {number:04} has changed. If a release has it: undo that and add a new migration, "
        f"{NEWEST + 1:04}_<what>.sql, instead. If none has it yet, set its hash in RELEASED to {found}"
    )


def test_migrating_marks_the_file_as_ours() -> None:
    connection = connect(":memory:")
    migrate(connection)
    assert connection.pragma("user_version") == NEWEST
    assert connection.pragma("application_id") == APPLICATION_ID == int.from_bytes(b"ANEW", "big")
    connection.close()


def test_migrating_twice_changes_nothing() -> None:
    connection = connect(":memory:")
    migrate(connection)
    connection.execute("INSERT INTO queue (name, ready) VALUES ('q', 1)")
    before = schema(connection)
    changes = connection.total_changes()
    migrate(connection)
    assert schema(connection) == before
    assert connection.total_changes() == changes
    assert connection.pragma("user_version") == NEWEST
    connection.close()


def test_a_new_store_that_was_cut_off_leaves_nothing_behind(tmp_path: Path) -> None:
    """It is one transaction: what a kill in its middle leaves is an empty file, to begin with again."""
    connection = connect(str(tmp_path / "anew.db"))
    connection.pragma("max_page_count", 20)  # as if the disk were full then
    with pytest.raises(apsw.FullError):
        migrate(connection)
    assert schema(connection) == []
    assert connection.pragma("user_version") == 0
    connection.pragma("max_page_count", 1 << 30)
    migrate(connection)
    assert connection.pragma("user_version") == NEWEST
    assert connection.pragma("journal_mode") == "wal"
    connection.close()


def test_a_new_store_has_what_the_steps_make() -> None:
    new, stepped = connect(":memory:"), connect(":memory:")
    migrate(new)
    for _, script in migrations(PACKAGE):
        stepped.execute(script)
    assert schema(new) == schema(stepped) != []
    new.close()
    stepped.close()


def test_a_step_that_was_cut_off_leaves_nothing_behind() -> None:
    """Each step is one transaction: what a kill in its middle leaves is the schema before it."""
    connection = connect(":memory:")
    connection.execute(dict(migrations(PACKAGE))[1])
    connection.pragma("user_version", 1)
    before = schema(connection)
    connection.set_commit_hook(lambda: True)
    with pytest.raises(apsw.ConstraintError):
        migrate(connection)
    assert schema(connection) == before
    assert connection.pragma("user_version") == 1
    connection.set_commit_hook(None)
    migrate(connection)
    assert connection.pragma("user_version") == NEWEST
    connection.close()


def test_tables_of_somebody_else_are_not_overwritten() -> None:
    """No number in the header of theirs says whose they are."""
    connection = connect(":memory:")
    connection.execute("CREATE TABLE recipe (name TEXT) STRICT; INSERT INTO recipe VALUES ('soup')")
    migrate(connection)
    assert connection.execute("SELECT name FROM recipe").fetchall() == [("soup",)]
    connection.close()


def test_a_newer_schema_is_refused_and_left_alone(directory: Path) -> None:
    set_pragma(directory, "user_version", NEWEST + 1)
    for _ in range(2):
        with pytest.raises(NewerStore) as caught:
            open_sqlite(directory)
        message = str(caught.value)
        assert f"schema {NEWEST + 1}" in message
        assert f"up to {NEWEST}" in message
        assert "newer Anew" in message
    set_pragma(directory, "user_version", NEWEST)
    open_sqlite(directory).close()


def test_a_file_of_another_program_is_refused_and_left_alone(directory: Path) -> None:
    set_pragma(directory, "application_id", 0x0F055112)  # Fossil's, from SQLite's own list
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"belongs to another program.*--root-dir"):
            open_sqlite(directory)


def test_a_file_that_is_no_database_is_refused_in_our_words(tmp_path: Path) -> None:
    text = b"Dear diary, today I have met a database.\n" * 200
    (tmp_path / "anew.db").write_bytes(text)
    with pytest.raises(StoreFailed) as caught:
        open_sqlite(tmp_path)
    assert isinstance(caught.value.__cause__, apsw.NotADBError)
    assert (tmp_path / "anew.db").read_bytes() == text


def test_the_schema_is_strict_and_has_what_the_counters_need() -> None:
    connection = connect(":memory:")
    migrate(connection)
    tables = {name: text for kind, name, text in schema(connection) if kind == "table"}
    own = {
        "job",
        "payload",
        "staged",
        "attempt",
        "attempt_count",
        "queue",
        "day",
        "slot",
        "cron",
        "cron_group",
        "leftover",
        "session",
        "duty",
        "meta",
        "unique_lock",
        "batch",
        "progress",
        "breaker",
        "limit_key",
        "limited",
        "topic",
        "subscription",
        "message",
        "publication",
        "delivery_policy",
        "delivery",
        "delivery_attempt",
        "delivery_task",
        "topic_count",
    }
    assert set(tables) == own | {"sqlite_sequence"}
    del tables["sqlite_sequence"]  # SQLite's, for numbers of sessions that never come again
    assert all("STRICT" in str(text) for text in tables.values())
    connection.close()


@pytest.mark.parametrize("package", ["anew.store.sqlite", "anew.store.postgres"])
def test_each_step_has_a_number_of_its_own_and_none_is_left_out(package: str) -> None:
    numbers = [number for number, _ in migrations(package)]
    assert numbers == list(range(1, len(numbers) + 1))
