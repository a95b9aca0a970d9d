"""A store in PostgreSQL that an older program has written is brought up to date."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from anew.errors import StoreBusy
from anew.jobs import State
from anew.store.postgres import open_postgres
from anew.store.postgres.opening import PACKAGE, connect
from anew.store.sql.migrations import migrations
from tests.postgres import database_of
from tests.unit.engine.rig import Rig, plain, succeed

BEFORE_VERSIONS = 7
"""The last schema whose hot rows had one key each."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return database_of(tmp_path)


@pytest.fixture
def older(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A store of that schema, with a queue, a day and a session's last commit."""
    with connect(url) as connection:
        connection.execute("CREATE SCHEMA anew")
        connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
        for number, script in migrations(PACKAGE):
            if number <= BEFORE_VERSIONS:
                connection.execute(script.encode())
        connection.execute("INSERT INTO schema_version VALUES (%s)", (BEFORE_VERSIONS,))
        connection.execute("INSERT INTO queue (name, listed, paused) VALUES ('mail', 1, 1), ('sms', 1, 0)")
        connection.execute("INSERT INTO day VALUES (19000, 7, 3)")
        connection.execute("UPDATE turn SET version = 41, writer = 5")
        connection.execute("INSERT INTO wrote VALUES (5, 40)")
        yield connection


def test_what_an_older_program_has_counted_goes_on(older: object, url: str) -> None:
    rig = Rig(open_postgres(url))
    reader = rig.store.reader()
    try:
        assert reader.ended() == {19_000: (7, 3)}
        assert reader.listed() == {"mail": True, "sms": False}
        (key,) = rig.do(plain(1, queue="sms")).keys
        worker = rig.worker()
        assert worker.keys == [key]
        assert rig.store.queues.counts()["sms"][State.IN_FLIGHT] == 1
        rig.do(succeed(key))
        assert sum(rig.store.queues.counts().get("sms", {}).values()) == 0
        assert reader.listed() == {"mail": True, "sms": False}
        with connect(url) as looking:
            for table, rows in (("queue", 2), ("turn", 1), ("day", 2)):
                assert looking.execute(f"SELECT count(*) FROM {table}".encode()).fetchall() == [(rows,)], (
                    table
                )
    finally:
        reader.close()
        rig.store.close()


def test_it_is_not_changed_under_a_process_that_has_it_open(older: object, url: str) -> None:
    """Its statements may not fit the new schema."""
    assert isinstance(older, psycopg.Connection)
    older.execute("SELECT pg_advisory_lock('turn'::regclass::oid::int, 5)")
    with pytest.raises(StoreBusy, match="another process has it open; end its server and every program"):
        open_postgres(url)
    assert older.execute("SELECT version FROM schema_version").fetchall() == [(BEFORE_VERSIONS,)]
    older.execute("SELECT pg_advisory_unlock_all()")
    open_postgres(url).close()
