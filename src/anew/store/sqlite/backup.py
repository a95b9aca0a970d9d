"""Copies a store into one file while others write to it, and puts such a copy in a store's place.

A copy is written under another name, verified and synced, and only then gets its own: whatever kills the copying, what stands
under the name is whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from anew.errors import Conflict, InvalidInput, NotFound, StoreBusy, StoreFailed, StoreFull
from anew.store.sql.migrations import refuse_newer
from anew.store.sqlite.opening import APPLICATION_ID, PACKAGE, Places, make_folder, sync_path
from anew.store.sqlite.packing import is_archive, unpack
from anew.store.sqlite.presence import Presence, ServerLock
from anew.store.sqlite.turnstile import Turnstile
from anew.units import shown

STEP_PAGES = 256
"""Pages of a step, a megabyte: some milliseconds in which the disk works for the copy."""

REST = 0.5
"""Of a step's time, how long the disk is then left to others."""

ASKED_AFTER = 100_000
"""Steps of SQLite after which a verification asks whether anybody still wants it; some milliseconds."""

UNFINISHED = ".unfinished"
REPLACED = ".replaced"

Progress = Callable[[int, int], None]
"""Called after each step with how many pages are copied, and how many there are."""


class Copied(NamedTuple):
    """What was copied and verified."""

    path: Path
    jobs: int
    size: int


def _never() -> bool:
    return False


def back_up(places: Places, target: Path, progress: Progress, stopped: Callable[[], bool] = _never) -> Copied:
    """Copy a store as it is at one instant; a server and programs may go on writing to it.

    Their log grows while the copy is made, because its older part must stay; otherwise they notice nothing but a busier disk.

    Args:
        places: Of the store.
        target: The copy.
        progress: See `Progress`; what it raises ends the copying.
        stopped: Says, while the copy is verified, whether nobody wants it any more.

    Raises:
        NotFound: There is no store.
        InvalidInput: The target is one of the store's own files, or cannot be written.
        StoreFull: There is no space for the copy.
        StoreFailed: The store cannot be read, or is damaged.
    """
    if not places.database.is_file():
        raise NotFound(
            f"{shown(str(places.database.parent))} holds no store; expected the --root-dir of a server"
        )
    _refuse_own(target, places, "a file outside the store")
    unfinished = _fresh(target)
    try:
        with closing(apsw.Connection(str(places.database), flags=apsw.SQLITE_OPEN_READONLY)) as source:
            source.set_busy_timeout(5_000)
            with source:  # one transaction: every page is of the instant of the first read
                jobs = _first(source, "SELECT count(*) FROM job")
                _copy(source, unfinished, progress)
        if verify(unfinished, stopped) != jobs:
            raise StoreFailed(f"the copy does not hold the {jobs} jobs of the store; nothing was kept of it")
        return _finish(unfinished, target, jobs)
    except apsw.FullError as error:
        raise StoreFull(f"no space for a copy at {shown(str(target.parent))}") from error
    except apsw.Error as error:
        raise StoreFailed(f"the store cannot be copied: {type(error).__name__}: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{shown(str(target))} cannot be written: {error.strerror}") from error
    finally:
        _remove(unfinished)


def restore(source: Path, places: Places, progress: Progress, *, force: bool = False) -> Copied:
    """Put a copy in a store's place.

    Args:
        source: What `back_up` has made, an archive of a server, or the closed database of a data directory.
        places: Where the store is to be.
        progress: See `Progress`.
        force: Also where a store is; that one is kept under another name.

    Raises:
        NotFound: There is no such file.
        InvalidInput: It is one of the store's own files, or an archive that is none of a server of ours.
        Conflict: A store is there (or, for an archive, anything in its folder), or some process has it open.
        StoreFailed: The copy is damaged, or is no store of ours.
        NewerStore: A newer program wrote it.
    """
    if not source.is_file():
        raise NotFound(f"{shown(str(source))} is no file; expected a copy that anew backup has made")
    _refuse_own(source, places, "a copy of it that anew backup has made")
    sent = is_archive(source)
    folder = places.database.parent
    make_folder(folder)
    occupied = places.database.exists() and places.database.stat().st_size > 0
    if occupied and not force:
        raise Conflict(
            f"{shown(str(folder))} holds a store; choose another --root-dir, or replace it with --force"
        )
    if sent and not force and any(folder.iterdir()):
        raise Conflict(
            f"{shown(str(folder))} is not empty; expected a --root-dir that is missing or empty for an archive, or --force"
        )
    with _nobody_else(places):
        unfinished = _fresh(places.database)
        try:
            if sent:
                unpack(source, unfinished, progress)
            else:
                with closing(_opened(source)) as copy:
                    _copy(copy, unfinished, progress)
            jobs = verify(unfinished)
            if occupied:
                _put_aside(places.database)
            return _finish(unfinished, places.database, jobs)
        except apsw.Error as error:
            raise StoreFailed(
                f"{shown(str(source))} cannot be read: {type(error).__name__}: {error}"
            ) from error
        finally:
            _remove(unfinished)


def verify(path: Path, stopped: Callable[[], bool] = _never) -> int:
    """Read a copy from end to end; give the number of its jobs.

    Args:
        path: The copy.
        stopped: Asked now and then; the reading ends when it says so, as if the copy were damaged.

    Raises:
        StoreFailed: It is damaged, or no store of ours.
        NewerStore: A newer program wrote it.
    """
    with closing(apsw.Connection(_still(path), flags=_STILL)) as copy:
        try:
            copy.set_progress_handler(stopped, ASKED_AFTER)
            if copy.pragma("application_id") != APPLICATION_ID:
                raise StoreFailed(f"{shown(str(path))} is no store of Anew's")
            refuse_newer(PACKAGE, copy.pragma("user_version"), shown(str(path)))
            verdict = _first(copy, "PRAGMA integrity_check(1)")
            if verdict != "ok":
                raise StoreFailed(f"{shown(str(path))} is damaged: {verdict}")
            return int(_first(copy, "SELECT count(*) FROM job"))
        except apsw.Error as error:
            raise StoreFailed(f"{shown(str(path))} is damaged: {type(error).__name__}: {error}") from error


def _refuse_own(file: Path, places: Places, expected: str) -> None:
    """Make sure that a file is none of a store's own, by whatever path or link it is named.

    Raises:
        InvalidInput: It is one of them, or lies in the folder of the sessions.
    """
    real = Path(os.path.realpath(file))
    own = [Path(f"{places.database}{ending}") for ending in ("", "-wal", "-shm", "-journal", UNFINISHED)]
    own += (places.turnstile, places.sessions, places.reserve, places.server)
    within = Path(os.path.realpath(places.sessions)) in real.parents
    if within or any(_is_same(real, Path(os.path.realpath(one))) for one in own):
        raise InvalidInput(
            f"file: {shown(str(file))} belongs to the store in {shown(str(places.database.parent))}; expected {expected}",
            field="file",
            value=str(file),
        )


def _is_same(one: Path, other: Path) -> bool:
    """Say whether two real paths are equal or, as hard links are, of one file."""
    try:
        return one == other or one.samefile(other)
    except OSError:  # one of them is not there
        return False


_STILL = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def _still(path: Path) -> str:
    """Name a file that nobody writes to, so that SQLite makes no log beside it."""
    return f"{path.absolute().as_uri()}?immutable=1"


def _opened(source: Path) -> apsw.Connection:
    """Open a copy; the one of a whole data directory may have a log beside it."""
    log = source.with_name(f"{source.name}-wal")
    if log.exists() and log.stat().st_size:
        return apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    return apsw.Connection(_still(source), flags=_STILL)


def _first(connection: apsw.Connection, statement: str) -> Any:
    """Give the first value of a statement's first row."""
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def _copy(source: apsw.Connection, path: Path, progress: Progress) -> None:
    """Copy page by page, in steps between which the disk has time for others."""
    with closing(apsw.Connection(str(path))) as copy:
        copy.pragma("synchronous", "off")  # it is synced as a whole
        with copy.backup("main", source, "main") as steps:
            while not steps.done:
                begun = time.monotonic()
                steps.step(STEP_PAGES)
                progress(steps.page_count - steps.remaining, steps.page_count)
                if not steps.done:
                    time.sleep((time.monotonic() - begun) * REST)
        copy.pragma("journal_mode", "delete")  # one file, that needs no log beside it


def _finish(unfinished: Path, target: Path, jobs: int) -> Copied:
    """Sync a verified copy and give it its name."""
    sync_path(unfinished)
    os.replace(unfinished, target)
    sync_path(target.parent)
    return Copied(target, jobs, target.stat().st_size)


def _fresh(target: Path) -> Path:
    """Make the empty file that is written first, in the place of what a killed copying has left."""
    path = target.with_name(target.name + UNFINISHED)
    _remove(path)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise InvalidInput(f"{shown(str(target))} cannot be written: {error.strerror}") from error
    return path


def _remove(path: Path) -> None:
    for ending in ("", "-journal", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{ending}")


def _put_aside(database: Path) -> None:
    """Keep a store that is to be replaced under another name; under its own it stays whole until the very replacing."""
    aside = database.with_name(database.name + REPLACED)
    _remove(aside)
    with suppress(apsw.Error), closing(apsw.Connection(str(database))) as old:
        old.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    log = database.with_name(f"{database.name}-wal")
    if log.exists() and log.stat().st_size:  # it could not be copied into the database, which is damaged then
        os.replace(log, aside.with_name(f"{aside.name}-wal"))
    os.link(database, aside)
    for ending in ("-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.unlink(f"{database}{ending}")


@contextmanager
def _nobody_else(places: Places) -> Iterator[None]:
    """Keep servers and programs off a store while its file is replaced.

    Raises:
        Conflict: Some process has it open.
    """
    with ExitStack() as held:
        try:
            held.callback(ServerLock(places.server).release)
        except StoreBusy as error:
            raise Conflict(f"nothing was changed: {error}") from error
        turnstile = Turnstile(places.turnstile)
        held.callback(turnstile.close)
        presence = Presence(places.sessions)
        held.callback(presence.close_descriptors)
        if not turnstile.enter(heed_mark=False) or presence.anybody():
            raise Conflict("nothing was changed: a program has this store open; end it first")
        yield
