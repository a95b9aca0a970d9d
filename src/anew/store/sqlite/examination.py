"""Looks a store over: what is derived against its rows, what belongs to nobody, and the machine that it lives on."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from anew import __version__
from anew.errors import NotFound, StoreFailed
from anew.jobs.ids import IdText
from anew.store.sql.examination import FEW, REPAIR, Examination, Finding, content
from anew.store.sql.migrations import examine_schema
from anew.store.sql.reader import SqlReader
from anew.store.sqlite.opening import (
    APPLICATION_ID,
    NETWORK_FILE_SYSTEMS,
    PACKAGE,
    Places,
    file_system,
)
from anew.store.sqlite.presence import Presence
from anew.store.sqlite.reading import SqliteReading
from anew.store.sqlite.words import STATEMENTS
from anew.units import shown

FREE_BYTES = 512 << 20
LOG_BYTES = 256 << 20
OPEN_FILES = 4_096

RESTORE = "Stop the server and restore a backup: anew restore FILE --force"


def examine(places: Places, now: int) -> Examination:
    """Look a store over; nothing is changed, and a server may go on beside it.

    Raises:
        NotFound: There is no store.
        StoreFailed: It is no store of ours, or cannot be read at all.
    """
    folder = places.database.parent
    if not places.database.is_file():
        raise NotFound(f"{shown(str(folder))} holds no store; expected the --root-dir of a server")
    facts = {"store": str(places.database), "program": _program(), "size": _sizes(places)}
    findings = [*_machine(places)]
    try:
        with closing(apsw.Connection(str(places.database), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(5_000)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            with connection:  # one transaction, so that rows and counters are of one moment
                findings += _schema(connection, facts)
                if not findings or findings[-1].name != "schema":
                    findings += _content(connection, places, facts, now)
    except apsw.CorruptError as error:
        findings.append(Finding("integrity", str(error), RESTORE))
    except apsw.Error as error:
        raise StoreFailed(f"the store cannot be read: {type(error).__name__}: {error}. {RESTORE}") from error
    return Examination(facts, findings)


# -- the machine


def _program() -> str:
    return f"anew {__version__}, SQLite {apsw.sqlite_lib_version()}, Python {platform.python_version()}"


def _sizes(places: Places) -> str:
    device = os.statvfs(places.database.parent)
    return (
        f"{_mib(_size(places.database))}, log {_mib(_size(_log(places)))}, "
        f"free {_mib(device.f_bavail * device.f_frsize)}"
    )


def _log(places: Places) -> Path:
    return places.database.with_name(f"{places.database.name}-wal")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def _machine(places: Places) -> Iterator[Finding]:
    folder = places.database.parent
    system = file_system(folder)
    if system in NETWORK_FILE_SYSTEMS:
        yield Finding(
            "file-system",
            f"{shown(str(folder))} lies on a file system of the network ({system})",
            "Move the store to a local disk: anew backup FILE there, anew restore FILE here",
        )
    device = os.statvfs(folder)
    free = device.f_bavail * device.f_frsize
    if free < FREE_BYTES:
        yield Finding(
            "disk", f"{_mib(free)} are free", "Make space: below --min-free-disk new jobs are refused"
        )
    if _size(_log(places)) > LOG_BYTES:
        yield Finding(
            "log",
            f"the log has grown to {_mib(_size(_log(places)))}",
            "End whichever program keeps an old state open (a sqlite3 shell, a backup); the log is then used again",
        )
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < OPEN_FILES:
        yield Finding("open-files", f"a process may open {hard} files", f"Allow {OPEN_FILES} (ulimit -Hn)")
    mark = places.turnstile.read_text("utf-8", "replace") if places.turnstile.exists() else ""
    if mark:
        yield Finding(
            "failed-sync",
            f"a write to the disk has failed: {mark}",
            "See to the disk, end every process that has the store open, and start again",
        )


# -- the file


def _schema(connection: apsw.Connection, facts: dict[str, str]) -> Iterator[Finding]:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StoreFailed("the database file belongs to another program; expected a store of Anew's")
    yield from examine_schema(PACKAGE, connection.pragma("user_version"), facts)


def _content(
    connection: apsw.Connection, places: Places, facts: dict[str, str], now: int
) -> Iterator[Finding]:
    damage = [str(text) for (text,) in connection.execute(f"PRAGMA integrity_check({FEW})")]
    if damage != ["ok"]:
        yield Finding("integrity", "; ".join(damage), RESTORE)
        return  # what else is read of it proves nothing
    meta: dict[str, Any] = {str(row[0]): row[1] for row in connection.execute(STATEMENTS.text("read_meta"))}
    ((jobs,),) = connection.execute("SELECT count(*) FROM job").fetchall()
    facts["jobs"] = str(jobs)
    reader = SqlReader(SqliteReading(connection, owned=False))
    damaged = len(reader.damaged_texts()) + len(reader.damaged_names())
    if damaged:
        yield Finding(
            "texts", f"{damaged} rows have a queue or a type that cannot be read", REPAIR, derived=True
        )
        return  # what follows reads those texts
    presence = Presence(places.sessions) if places.sessions.is_dir() else None
    try:
        yield from content(
            SqliteReading(connection, owned=False),
            IdText(str(meta["tag"])),
            int(meta["last_key"]),
            lambda session: presence is not None and presence.is_alive(session),
            facts,
            now,
        )
    finally:
        if presence is not None:
            presence.close_descriptors()
