"""The settings of a server that an answer rests on: those that a session can have are set, the others are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from anew.errors import InvalidConfig, StoreBusy
from anew.store.postgres import open_postgres, opening
from tests.conformance.helpers import new_job, put
from tests.postgres import empty_database, server

SAFE = ("fsync", "full_page_writes")


@pytest.fixture
def database() -> str:
    """The address of an empty database."""
    return empty_database()


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """As outside of tests."""
    monkeypatch.setattr(opening, "MUST_BE_ON", SAFE)


@contextmanager
def having(**settings: str) -> Iterator[None]:
    """Have the server with these settings while the block runs."""
    with psycopg.connect(server().get_uri(), autocommit=True) as admin:

        def change(values: dict[str, str]) -> None:
            for name, value in values.items():
                admin.execute(f"ALTER SYSTEM SET {name} = {value}")
            admin.execute("SELECT pg_reload_conf()")
            for name, value in values.items():
                while admin.execute(f"SHOW {name}").fetchall() != [(value,)]:
                    pass

        before = {name: str(admin.execute(f"SHOW {name}").fetchall()[0][0]) for name in settings}
        change(settings)
        try:
            yield
        finally:
            change(before)


def level(store: Any) -> object:
    """Which level of synchronous_commit its session has."""
    return store._link.connection.execute("SHOW synchronous_commit").fetchall()[0][0]


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("off", SAFE)
def test_a_server_that_does_not_sync_is_refused_and_it_is_said_what_to_set(database: str, off: str) -> None:
    with having(**dict.fromkeys(SAFE, "on") | {off: "off"}):
        with pytest.raises(InvalidConfig, match=f"^{off} is off .*ALTER SYSTEM SET {off} = on") as refused:
            open_postgres(database)
        assert refused.value.field == "store"
        relaxed = open_postgres(database, relaxed=True)
        put(relaxed, new_job())
        relaxed.close()
    with having(**dict.fromkeys(SAFE, "on")):
        open_postgres(database).close()


@pytest.mark.usefixtures("strict")
def test_one_that_takes_over_and_does_not_sync_is_waited_with(database: str) -> None:
    with having(**dict.fromkeys(SAFE, "on")):
        store = open_postgres(database)
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(%s, 5000)",
            (store._link.connection.info.backend_pid,),  # type: ignore[attr-defined]
        )
    said = ""
    while "fsync is off" not in said:
        with pytest.raises(StoreBusy) as busy:
            store.begin(synced=True)
        said = str(busy.value)
    with having(**dict.fromkeys(SAFE, "on")):
        while True:
            try:
                store.begin(synced=True)
                break
            except StoreBusy:
                assert store.turns.wait_until_free(20.0)
        store.rollback()
        store.close()


@pytest.mark.parametrize("given", ["off", "local", "remote_write", "on", "remote_apply"])
def test_what_is_answered_waits_for_disk_and_standby_whatever_the_roles_default(
    database: str, given: str
) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f"ALTER ROLE CURRENT_USER SET synchronous_commit = {given}")
        try:
            for relaxed in (False, True):
                store = open_postgres(database, relaxed=relaxed)
                assert level(store) == ("remote_apply" if given == "remote_apply" else "on")
                store.close()
        finally:
            admin.execute("ALTER ROLE CURRENT_USER RESET synchronous_commit")


def test_a_connection_whose_statements_nobody_waits_for_says_so(database: str) -> None:
    """The notes of jobs that begin, one for each job."""
    with opening.connect(database, synchronous_commit="off") as connection:
        assert connection.execute("SHOW synchronous_commit").fetchall() == [("off",)]
