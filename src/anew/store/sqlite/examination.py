"""Looks a store over: what is derived against its rows, what belongs to nobody, and the machine that it lives on."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from anew import __version__
from anew.errors import NotFound, StoreFailed
from anew.jobs.ids import COUNTER_BITS, IdText
from anew.store.sql.reader import SqlReader
from anew.store.sqlite.opening import (
    APPLICATION_ID,
    NETWORK_FILE_SYSTEMS,
    Places,
    file_system,
    migrations,
)
from anew.store.sqlite.presence import Presence
from anew.store.sqlite.reading import SqliteReading
from anew.store.sqlite.words import STATEMENTS
from anew.units import shown

FEW = 5
"""How many of very many are named."""

FREE_BYTES = 512 << 20
LOG_BYTES = 256 << 20
OPEN_FILES = 4_096
CLOCK_MS = 60_000

RESTORE = "Stop the server and restore a backup: anew restore FILE --force"
REPAIR = "anew doctor --repair"


class Finding(NamedTuple):
    """Something that is not as it should be.

    Attributes:
        name: What was looked at; never changes.
        found: What is wrong.
        mend: What to do.
        derived: `mend` can make it anew from the rows.
        keys: The jobs concerned, where `mend` needs them.
    """

    name: str
    found: str
    mend: str
    derived: bool = False
    keys: tuple[int, ...] = ()


class Examination(NamedTuple):
    """What was found.

    Attributes:
        facts: What is so, by name, for people.
        findings: What should not be so.
    """

    facts: dict[str, str]
    findings: list[Finding]


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
    present, newest = connection.pragma("user_version"), max(number for number, _ in migrations())
    facts["schema"] = str(present)
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StoreFailed("the database file belongs to another program; expected a store of Anew's")
    if present > newest:
        mend = "Use the newer Anew that wrote it"
        yield Finding("schema", f"the store has schema {present}, this program knows up to {newest}", mend)
    elif present < newest:
        mend = "Start its server once with this version, which brings it up to date"
        yield Finding("schema", f"the store has schema {present}, this program writes {newest}", mend)


def _content(
    connection: apsw.Connection, places: Places, facts: dict[str, str], now: int
) -> Iterator[Finding]:
    damage = [str(text) for (text,) in connection.execute(f"PRAGMA integrity_check({FEW})")]
    if damage != ["ok"]:
        yield Finding("integrity", "; ".join(damage), RESTORE)
        return  # what else is read of it proves nothing
    meta: dict[str, Any] = {str(row[0]): row[1] for row in connection.execute(STATEMENTS.text("read_meta"))}
    facts["jobs"] = str(_first(connection, "SELECT count(*) FROM job"))
    reader = SqlReader(SqliteReading(connection, owned=False))
    damaged = len(reader.damaged_texts()) + len(reader.damaged_names())
    if damaged:
        yield Finding(
            "texts", f"{damaged} rows have a queue or a type that cannot be read", REPAIR, derived=True
        )
        return  # what follows reads those texts
    yield from _derived(connection)
    yield from _of_nobody(connection)
    yield from _sessions(connection, places, facts)
    yield from _damaged(connection, IdText(str(meta["tag"])))
    ahead = (int(meta["last_key"]) >> COUNTER_BITS) - now
    if ahead > CLOCK_MS:
        yield Finding(
            "clock",
            f"the newest job was stored {ahead // 1_000} s ahead of this machine's clock",
            "Set the clock right; jobs that wait for a time wait so much longer",
        )


def _derived(connection: apsw.Connection) -> Iterator[Finding]:
    _, counters, queues, blocked, forgotten = SqlReader(SqliteReading(connection, owned=False)).recount()
    wrong = [(queue, str(state), n) for (queue, state), n in counters.items()]
    wrong += [(queue, "blocked", n) for queue, n in blocked.items()]
    if wrong:
        few = ", ".join(f"{queue} {state} by {n:+d}" for queue, state, n in wrong[:FEW])
        yield Finding(
            "counters", f"{len(wrong)} counters are not what the rows say: {few}", REPAIR, derived=True
        )
    if queues:
        few = ", ".join(queues[:FEW])
        yield Finding(
            "heads", f"{len(queues)} queues have a wrong head of their line: {few}", REPAIR, derived=True
        )
    amiss = {*_keys(connection, "blocked_amiss"), *_keys(connection, "limited_amiss")}
    amiss.update(_keys(connection, "limited_of_nobody"))
    if amiss or forgotten:
        found = f"{len(amiss)} jobs stand otherwise with their limits' keys than the rows say, {len(forgotten)} keys are forgotten"
        yield Finding("limits", found, REPAIR, derived=True)
    keys = _keys(connection, "records_amiss")
    if keys:
        found = f"{len(keys)} jobs have another number of records than their rows say"
        yield Finding("records", found, REPAIR, derived=True, keys=keys)


def _of_nobody(connection: apsw.Connection) -> Iterator[Finding]:
    for name, statement, what in (
        ("payloads", "parts_of_nobody", "payloads"),
        ("attempts", "records_of_nobody", "records of failures"),
    ):
        keys = _keys(connection, statement)
        if keys:
            yield Finding(
                name, f"there are {what} of {len(keys)} jobs that are gone", REPAIR, derived=True, keys=keys
            )
    if staged := _keys(connection, "staged_by_nobody"):
        found = f"{len(staged)} payloads were begun by processes that have died"
        yield Finding("staged", found, REPAIR, derived=True)


def _sessions(connection: apsw.Connection, places: Places, facts: dict[str, str]) -> Iterator[Finding]:
    presence = Presence(places.sessions) if places.sessions.is_dir() else None
    rows = list(connection.execute(STATEMENTS.text("sessions")))
    alive = [pid for id_, pid, _ in rows if presence is not None and presence.is_alive(id_)]
    if presence is not None:
        presence.close_descriptors()
    facts["processes"] = ", ".join(map(str, alive)) or "none"
    if len(alive) < len(rows):
        found = f"{len(rows) - len(alive)} processes have died and have not been cleared away"
        yield Finding("sessions", found, f"Any start does it, or: {REPAIR}", derived=True)
    lost = connection.execute(STATEMENTS.text("held_by_nobody"), (1 << 40,)).fetchall()
    if lost:
        yield Finding(
            "holds", f"{len(lost)} jobs are held by processes that nobody knows", REPAIR, derived=True
        )


def _damaged(connection: apsw.Connection, ids: IdText) -> Iterator[Finding]:
    keys = _keys(connection, "damaged")
    if keys:
        few = ", ".join(map(ids.write, keys[:FEW]))
        yield Finding(
            "jobs",
            f"of {len(keys)} jobs a payload, a policy or a state cannot be read: {few}",
            "Nothing: each is set aside when it is met, and the others run",
        )


def _keys(connection: apsw.Connection, statement: str) -> tuple[int, ...]:
    return tuple(key for (key,) in connection.execute(STATEMENTS.text(statement)))


def _first(connection: apsw.Connection, statement: str) -> Any:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]
