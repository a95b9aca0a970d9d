"""Connects to the database: the settings of a connection, how values go over the wire, the migrations."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any, Final

import psycopg
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader
from psycopg.types.string import StrDumper

from anew.errors import InvalidConfig, NewerStore, StoreFailed
from anew.store.postgres.address import without_password
from anew.store.postgres.words import STATEMENTS
from anew.store.protocol import Identity

SCHEMA: Final = "anew"
"""The schema that holds all tables."""

OLDEST_VERSION: Final = 150_000
"""As `server_version_num` says it."""

CONNECT_S: Final = 10

SETTINGS: Final = {
    "search_path": SCHEMA,
    "client_encoding": "utf8",
    # Whose machine has gone loses its session, and the lock that shows that it lives, within some ten seconds.
    "tcp_keepalives_idle": "4",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    # A process that is stopped inside its transaction keeps everybody waiting for no longer than this.
    "idle_in_transaction_session_timeout": "10s",
    "statement_timeout": "60s",
    # The statements are few and name their indexes: plans are made once, and none walks a table that has an index for it.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
}

_TAG_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_MIGRATING: Final = 0x414E4557
"""Number of the advisory lock under which one process brings the schema up to date."""


class _TextDumper(StrDumper):
    """PostgreSQL's texts have no NUL: it becomes U+FFFD, as what cannot be read does elsewhere."""

    def dump(self, obj: str) -> Any:
        """Give the text's bytes."""
        return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in obj else obj)


class _SumLoader(Loader):
    """Sums of integers come as numerics, and are integers."""

    format = Format.BINARY

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        self._load = NumericBinaryLoader(oid, context).load

    def load(self, data: Any) -> int:
        """Give the integer."""
        return int(self._load(data))


def connect(url: str, **settings: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Open a connection on which each statement is a transaction of its own, until one says BEGIN.

    Args:
        url: ``postgresql://user@host/database``, or whatever else libpq takes.
        settings: In place of those of `SETTINGS`, or beside them.

    Raises:
        InvalidConfig: The server is too old, or the database is not in UTF-8.
        StoreFailed: It cannot be reached, or refuses.
    """
    try:
        connection = psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=CONNECT_S,
            application_name="anew",
            fallback_application_name="anew",
        )
    except psycopg.Error as error:
        raise StoreFailed(
            f"{without_password(url)} cannot be reached: {' '.join(str(error).split())}"
        ) from error
    try:
        _check(connection, url)
        wanted = ", ".join(
            f"set_config('{name}', '{value}', false)" for name, value in {**SETTINGS, **settings}.items()
        )
        connection.execute(f"SELECT {wanted}")
    except BaseException:
        connection.close()
        raise
    _adapt(connection)
    return connection


def _check(connection: psycopg.Connection[tuple[Any, ...]], url: str) -> None:
    if connection.info.server_version < OLDEST_VERSION:
        raise InvalidConfig(
            f"PostgreSQL {connection.info.parameter_status('server_version')} is too old; expected 15 or newer",
            field="store",
            value=without_password(url),
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise InvalidConfig(
            f"the database's encoding is {encoding}; expected UTF8",
            field="store",
            value=without_password(url),
        )


def _adapt(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Have all integers, and truths, go as 8 bytes: with other types a statement would be prepared again for each."""
    integers = connection.adapters.get_dumper_by_oid(20, Format.BINARY)
    assert issubclass(integers, Int8BinaryDumper) or integers.oid == 20
    for kind in (int, bool):
        connection.adapters.register_dumper(kind, integers)
    connection.adapters.register_dumper(str, _TextDumper)
    connection.adapters.register_loader("numeric", _SumLoader)


def executor(connection: psycopg.Connection[tuple[Any, ...]]) -> Callable[..., Any]:
    """Give what runs a text whose marks are ``$1``, ``$2``, prepared the first time; its rows are in memory when it returns."""

    def execute(text: str, bound: Any = ()) -> Any:
        return psycopg.RawCursor(connection).execute(text, bound, prepare=True, binary=True)

    return execute


def migrations() -> Iterator[tuple[int, str]]:
    """Give the numbered migrations in order."""
    folder = resources.files("anew.store.postgres").joinpath("migrations")
    found = []
    for entry in folder.iterdir():
        match = re.fullmatch(r"(\d{4})_\w+\.sql", entry.name)
        if match:
            found.append((int(match[1]), entry.read_text("utf-8")))
    yield from sorted(found)


def migrate(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Bring the schema up to date, forward only, one process at a time; all steps in one transaction.

    Raises:
        NewerStore: It was written by a newer program.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
        present = _present(connection)
        steps = list(migrations())
        newest = steps[-1][0]
        if present > newest:
            raise NewerStore(
                f"the store has schema {present}, this program knows up to {newest}; run the newer Anew that wrote it"
            )
        for number, script in steps:
            if number > present:
                connection.execute(script.encode())
        if present < newest:
            connection.execute("UPDATE schema_version SET version = %s", (newest,))


def _present(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
    """Give the number of the present schema; make the place for it where there is none."""
    found = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.schema_version",)).fetchone()
    if found is None or found[0] is None:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
        connection.execute("INSERT INTO schema_version VALUES (0)")
    ((version,),) = connection.execute("SELECT version FROM schema_version").fetchall()
    return int(version)


def identify(connection: psycopg.Connection[tuple[Any, ...]]) -> Identity:
    """Read what the store knows about itself, or make it up at its first opening."""
    fresh = {
        "tag": "0" + "".join(secrets.choice(_TAG_LETTERS) for _ in range(8)),
        "secret": secrets.token_hex(32),
        "last_key": "0",
        "last_failure": "0",
    }
    run = STATEMENTS.runner(executor(connection))
    for name, value in fresh.items():
        connection.execute(
            "INSERT INTO meta (name, value) VALUES (%s, %s) ON CONFLICT DO NOTHING", (name, value)
        )
    known = {str(name): str(value) for name, value in run("read_meta")}
    return Identity(
        tag=known["tag"],
        secret=bytes.fromhex(known["secret"]),
        last_key=int(known["last_key"]),
        last_failure=int(known["last_failure"]),
    )
