"""Looks a store in PostgreSQL over: its rows, the server's settings, its clock beside this machine's."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import psycopg

from anew import __version__
from anew.errors import NotFound, StoreFailed
from anew.jobs.ids import IdText
from anew.store.postgres.opening import PACKAGE, SCHEMA, Connection, connect, executor
from anew.store.postgres.reading import WriterReading
from anew.store.sql.examination import Examination, Finding, content
from anew.store.sql.migrations import examine_schema
from anew.units import without_password

APART_MS = 1_000
"""By how much clocks may differ before it is told: a retry comes so much too early or too late."""

OLD_SNAPSHOT_S = 600
"""A transaction that has kept its snapshot for so long is reported: rows that others have deleted since then are not removed."""

_OLDEST_SNAPSHOT = """
SELECT pid, coalesce(nullif(application_name, ''), usename, backend_type),
    extract(epoch FROM clock_timestamp() - xact_start)::bigint
FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database() AND xact_start IS NOT NULL
ORDER BY xact_start LIMIT 1
"""


def examine(url: str, now: int) -> Examination:
    """Look a store over; nothing is changed, and servers may go on beside it.

    Raises:
        NotFound: There is no store.
        StoreFailed: It cannot be reached, or not be read.
    """
    connection = connect(url, default_transaction_read_only="on")
    try:
        facts = {"store": without_password(url), "program": _program(connection)}
        findings = list(_settings(connection, now))
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")  # rows and counters are of one moment
        findings += _schema(connection, url, facts)
        if not findings or findings[-1].name != "schema":
            findings += _content(WriterReading(executor(connection)), facts, now)
    except psycopg.Error as error:
        raise StoreFailed(f"the store cannot be read: {' '.join(str(error).split())}") from error
    finally:
        connection.close()
    return Examination(facts, findings)


def _program(connection: Connection) -> str:
    server = connection.info.parameter_status("server_version")
    return f"anew {__version__}, PostgreSQL {server}, Python {platform.python_version()}"


def _settings(connection: Connection, now: int) -> Iterator[Finding]:
    """Look at what an answer's promise rests on."""
    for name, mend in (
        ("fsync", "Set fsync = on: without it a crash may lose everything"),
        ("full_page_writes", "Set full_page_writes = on: without it a crash may damage the database"),
    ):
        ((value,),) = connection.execute("SELECT current_setting(%s)", (name,)).fetchall()
        if value == "off":
            yield Finding(name, f"{name} is off", mend)
    ((there,),) = connection.execute(
        "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    ).fetchall()
    apart = int(there) - now
    if abs(apart) > APART_MS:
        side = "ahead of" if apart > 0 else "behind"
        yield Finding(
            "clock",
            f"the database's clock is {abs(apart) / 1_000:.1f} s {side} this machine's",
            "Have both keep time by NTP: jobs are due by the database's clock, and delays count from a client's",
        )
    for pid, who, open_s in connection.execute(_OLDEST_SNAPSHOT).fetchall():
        if open_s >= OLD_SNAPSHOT_S:
            yield Finding(
                "snapshot",
                f"a transaction of {who} (process {pid}) has been open for {open_s // 60} minutes: rows that were "
                "deleted or changed since then are kept, and tables grow",
                f"End it: SELECT pg_terminate_backend({pid}); idle_in_transaction_session_timeout of its role ends forgotten ones",
            )


def _schema(connection: Connection, url: str, facts: dict[str, str]) -> Iterator[Finding]:
    found = connection.execute("SELECT to_regclass(%s)::text", (f"{SCHEMA}.schema_version",)).fetchall()
    if found == [(None,)]:
        raise NotFound(
            f"{without_password(url)} holds no store; expected the database of: anew serve --store"
        )
    ((present,),) = connection.execute("SELECT version FROM schema_version").fetchall()
    yield from examine_schema(PACKAGE, int(present), facts)


def _content(reading: WriterReading, facts: dict[str, str], now: int) -> Iterator[Finding]:
    meta = dict(reading.run("read_meta").fetchall())
    ((jobs,),), ((_, size, _),) = reading.run("count_jobs").fetchall(), reading.run("store_facts").fetchall()
    facts["jobs"], facts["size"] = str(jobs), f"{size / (1 << 20):.1f} MiB"
    alive = {session for (session,) in reading.run("alive_sessions").fetchall()}
    ids, last_key = IdText(str(meta["tag"])), int(meta["last_key"])
    yield from content(reading, ids, last_key, alive.__contains__, facts, now)
    ((refused,),) = reading.run("count_refused").fetchall()
    if refused:
        yield Finding(
            "outbox",
            f"{refused} rows of the outbox are no jobs",
            "Look at them (SELECT id, refused FROM anew.outbox WHERE refused IS NOT NULL), and delete them",
        )
