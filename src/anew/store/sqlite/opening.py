"""Opens the file: its folder and space, the settings of the connection, the migrations."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import apsw

from anew.errors import InvalidConfig, StoreFailed
from anew.store.protocol import Identity
from anew.store.sql.migrations import steps_from
from anew.store.sqlite.words import STATEMENTS

APPLICATION_ID = 0x414E4557
"""``ANEW`` in the file's header tells our databases from others."""

PACKAGE = "anew.store.sqlite"
FILE = "anew.db"
CHECKPOINT_PAGES = 1_000
CACHE_KIB = 8_000
"""Small on purpose: where a B-tree is rebalanced, SQLite reads its whole cache at the commit. The head and the tail of each
queue fit in, and what else is read comes from the system's cache."""

PREPARED = 512
"""Prepared statements that are kept: as many as apsw can, whatever it is told."""

FILE_ENDINGS = (".db", ".sqlite", ".sqlite3")

RESERVE_BYTES = 8 << 20
"""Enough for some thousand settled jobs in the write-ahead log while a full device is being cleared."""

OPENING_WAIT_S = 30.0
"""How long an opening waits for its turn: another process may be bringing the schema up to date."""

CLOSING_WAIT_S = 2.0
"""How long a closing waits for its turn to end its session."""

OPENING_BYTES = 1 << 20
"""More than the files take that SQLite makes at an opening."""

_TAG_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one store.

    Attributes:
        database: The SQLite file; its log lies beside it.
        turnstile: The lock that writers pass.
        sessions: The folder in which each process shows that it lives.
        reserve: Space that is given up when the disk is full.
        server: The lock that keeps a second server out.
        webhook_key: What the keys of subscriptions are encrypted with; made with the first subscription.
    """

    database: Path
    turnstile: Path
    sessions: Path
    reserve: Path
    server: Path
    webhook_key: Path

    @classmethod
    def at(cls, path: Path) -> Places:
        """Give the files of the store that people name by a path: a data directory, or a database file.

        The name decides, and not what is there, so that a server and programs mean the same by one path, whoever comes first: what
        ends as a database's does is a file, unless a directory has that name.
        """
        # Never by a look into the file: whoever closes it drops all locks that SQLite has on it in this process.
        is_file = path.suffix in FILE_ENDINGS and not os.path.isdir(path)
        return cls.beside(path) if is_file else cls.in_directory(path)

    @classmethod
    def in_directory(cls, directory: Path) -> Places:
        """Give the files of a server's data directory."""
        return cls.beside(directory / FILE)

    @classmethod
    def beside(cls, database: Path) -> Places:
        """Give the files of a database: the same ones by whatever path or link it is named.

        They stand beside it and have its name, but for the file of a data directory, which has that folder to itself.
        """
        real = Path(os.path.realpath(database))
        if real.name == FILE:
            names = [FILE, "turnstile", "sessions", "reserve", "anew.lock", "webhooks.key"]
        else:
            endings = ("", "-turnstile", "-sessions", "-reserve", "-server", "-webhooks.key")
            names = [real.name + ending for ending in endings]
        return cls(*(real.with_name(name) for name in names))

    def make(self) -> None:
        """Make the folder and the database file if need be, readable by their owner only.

        Raises:
            InvalidConfig: The folder lies on a file system of the network, where locks and shared memory cannot be relied on.
        """
        folder = self.database.parent
        make_folder(folder)
        system = file_system(folder)
        if system in NETWORK_FILE_SYSTEMS:
            raise InvalidConfig(
                f"{str(folder)!r} lies on a file system of the network ({system}); expected a local disk",
                field="root_dir",
                value=str(folder),
            )
        if not self.database.exists():
            os.close(os.open(self.database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            sync_path(folder)


NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ceph", "lustre", "gpfs", "ocfs2", "gfs2"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "glusterfs", "ncpfs"}
)
"""Processes on different machines share no memory there, and SQLite's write-ahead log needs it."""


_OCTAL = re.compile(rb"\\([0-3][0-7]{2})")
"""How mountinfo writes a space, a tab, a newline and a backslash in a mount point; every other byte stands as it is."""


def file_system(folder: Path) -> str:
    """Name the file system on which a folder lies; "" where the system does not tell.

    Source:
        proc_pid_mountinfo(5): the mount point is the fifth field, the type the first behind a lone hyphen.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().rstrip(b"\n").split(b"\n")
    except OSError:
        return ""
    real = os.fsencode(os.path.realpath(folder))
    best, found = -1, ""
    for line in lines:
        fields = line.split(b" ")
        point = _OCTAL.sub(lambda code: bytes([int(code[1], 8)]), fields[4])
        inside = real == point or real.startswith(point.rstrip(b"/") + b"/")
        if inside and len(point) >= best:
            best, found = len(point), fields[fields.index(b"-") + 1].decode("ascii", "replace")
    return found


def sync_path(path: Path) -> None:
    """Make a file's bytes last; of a directory, the names in it, as a new file's bytes alone do not."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """Make a folder if need be, readable by its owner only, and have its name last, as those above it that were missing."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        with suppress(PermissionError):  # who may write in a folder need not be allowed to read it
            sync_path(one.parent)


def make_room(reserve: Path) -> None:
    """Give the reserve up where there is not even space for an opening; SQLite would call that an error of the disk."""
    device = os.statvfs(reserve.parent)
    if device.f_bavail * device.f_frsize < OPENING_BYTES:
        reserve.unlink(missing_ok=True)


def reserve_space(path: Path) -> None:
    """Hold some space in a file, to be given up when the device is full; where there is none, hold less."""
    if path.exists() and path.stat().st_size >= RESERVE_BYTES:
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, RESERVE_BYTES)
    except OSError:
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


SOUND: Final = (3, 51, 3)
BACKPORTED: Final = ((3, 50, 7), (3, 44, 6))
"""The first releases without the WAL-reset bug: two connections that write or checkpoint at the same instant may damage the file.

Source:
    sqlite.org/wal.html, "The WAL-reset bug": 3.7.0 to 3.51.2; repaired in 3.51.3, and in later releases of 3.50 and 3.44.
"""


def require_sound_library(version: str) -> None:
    """Refuse a SQLite library that may damage the file.

    Args:
        version: As it says itself: ``3.51.3``.

    Raises:
        InvalidConfig: It has the WAL-reset bug.
    """
    release = tuple(int(part) for part in version.split(".")[:3])
    if release >= SOUND or any(release[:2] == first[:2] and release >= first for first in BACKPORTED):
        return
    raise InvalidConfig(
        f"SQLite {version}, which the package apsw brings or was built with, can damage a database (its WAL-reset bug); expected "
        "3.51.3 or newer, 3.50.7 or newer of 3.50, or 3.44.6 or newer of 3.44: pip install --upgrade apsw",
        field="sqlite",
        value=version,
    )


def connect(path: str, *, vfs: str | None = None) -> apsw.Connection:
    """Open the writer's connection with the settings that everything else relies on."""
    connection = apsw.Connection(path, vfs=vfs, statementcachesize=PREPARED)
    # Without this SQLite prepares a statement again whenever a bound value could change its plan; ours name their indexes.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # After a crash whoever first reads the file repairs the log, a program that only looks too, and locks out all others meanwhile.
    connection.set_busy_timeout(int(OPENING_WAIT_S * 1_000))
    # After a failed sync nothing may be copied or synced any more, and SQLite would do both when it closes.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    for setting in (
        "journal_mode = wal",
        "synchronous = full",
        "wal_autocheckpoint = 0",
        f"cache_size = -{CACHE_KIB}",
        "temp_store = memory",
        "mmap_size = 0",
        "journal_size_limit = 67108864",
    ):
        connection.pragma(*setting.split(" = "))
    # From now on a lock that another program holds must not stop the caller: it is told at once and tries again.
    connection.set_busy_timeout(0)
    return connection


def migrate(connection: apsw.Connection, require_alone: Callable[[], None] = lambda: None) -> None:
    """Bring the schema up to date, forward only: a new store in one transaction, an older one with each step in its own.

    Args:
        connection: The writer's.
        require_alone: Called before an older store is changed; raises StoreBusy where another process has it open.

    Raises:
        StoreBusy: See there.
        NewerStore: The file was written by a newer program.
        StoreFailed: The file is a database of something else.
    """
    present = connection.pragma("user_version")
    owner = connection.pragma("application_id")
    if owner not in (0, APPLICATION_ID):
        raise StoreFailed(
            "the database file belongs to another program; give --root-dir a directory of its own"
        )
    if not present and connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:
        _begin(connection)
        return
    steps = steps_from(PACKAGE, present)
    if present and steps:
        require_alone()
    _take(connection, steps)


def _take(connection: apsw.Connection, steps: list[tuple[int, str]]) -> None:
    for number, script in steps:
        with connection:
            connection.execute(script)
            connection.pragma("user_version", number)
            connection.pragma("application_id", APPLICATION_ID)


def _begin(connection: apsw.Connection) -> None:
    """Make an empty database a new store, by a copy: the steps take far longer, and each would be a sync of its own."""
    image = apsw.Connection(":memory:")
    image.deserialize("main", _new_store())
    with connection.backup("main", image, "main") as copying:
        copying.step()
    image.close()


@cache
def _new_store() -> bytes:
    """Take all steps, once in the life of this process."""
    connection = apsw.Connection(":memory:")
    _take(connection, steps_from(PACKAGE, 0))
    image = connection.serialize("main")
    connection.close()
    return image


def identify(connection: apsw.Connection) -> Identity:
    """Read the store's identity, or create it at the first opening."""
    known: dict[str, Any] = {str(row[0]): row[1] for row in connection.execute(STATEMENTS.text("read_meta"))}
    if "tag" not in known:
        fresh: dict[str, Any] = {
            "tag": "0" + "".join(secrets.choice(_TAG_LETTERS) for _ in range(8)),
            "secret": secrets.token_bytes(32),
            "last_key": 0,
            "last_failure": 0,
        }
        with connection:
            for name, value in fresh.items():
                connection.execute(STATEMENTS.text("write_meta"), (name, value))
        known = fresh
    return Identity(
        tag=str(known["tag"]),
        secret=bytes(known["secret"]),
        last_key=int(known["last_key"]),
        last_failure=int(known["last_failure"]),
    )


def now_ms() -> int:
    """Give the wall clock, for people who ask how long a process has had the store open; nothing is decided by it."""
    return time.time_ns() // 1_000_000
