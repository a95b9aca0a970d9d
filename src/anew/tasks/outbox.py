"""The outbox: jobs that are enqueued within a transaction of the user's own; here of a `sqlite3` connection.

`Outbox.enqueue` writes a row there, so that it commits or rolls back with the user's data. `drain` moves committed
rows into the queue, then deletes them. A row's id is its job's `jid`, marked as `once`: rows that are moved a second time, because
the process died before it deleted them or because two processes drain, are the jobs that are there already.

The user's file is opened by the standard library's SQLite alone, and the queue's by apsw alone: POSIX locks belong to a process,
and a second SQLite library in it would drop those of the first when it closes the file.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import uuid
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol

import msgspec

from anew.errors import AnewError, Conflict, InvalidInput, NotFound, NotSupported, StoreBusy, StoreFailed
from anew.jobs import NewJob, Retention
from anew.jobs.codec import JobHooks, PushedJob
from anew.store.sqlite import Places
from anew.tasks.around import enqueue_around
from anew.tasks.task import Submission, Task
from anew.units import refused

if TYPE_CHECKING:
    from anew.tasks.app import Anew

P = ParamSpec("P")

log = logging.getLogger("anew.tasks")

CHUNK: Final = 500
"""Rows that are moved in one transaction."""

POLL_S: Final = 0.2
"""How often a worker looks for rows."""

MOST_SAID: Final = 1_000
"""Rows that are no jobs and that a drainer remembers; of more of them the log is told more often."""

KEPT_MS: Final = 86_400_000
"""How long a job that came through an outbox is kept at least after it has succeeded: so late may its row come a second time."""

_CREATE: Final = """
CREATE TABLE IF NOT EXISTS anew_outbox (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, job BLOB NOT NULL)
"""
_INSERT: Final = "INSERT INTO anew_outbox (id, job) VALUES (?, ?)"
_READ: Final = "SELECT seq, id, job FROM anew_outbox WHERE seq > ? ORDER BY seq LIMIT ?"
# By id: SQLite gives the seq of a deleted row to a new one.
_DELETE: Final = "DELETE FROM anew_outbox WHERE id = ?"

Row = tuple[int, str, bytes]

UNREADABLE: Final = (msgspec.DecodeError, UnicodeError, TypeError, RecursionError)
"""What reading a row raises that is no job: no JSON, no UTF-8, a number, or one that nests too deeply."""


class OutboxPlace(Protocol):
    """Where the rows of an outbox go."""

    def create(self) -> None:
        """Make the place if it is missing."""

    def identified(self, job: NewJob, jid: str) -> PushedJob:
        """Give a job the row's id, and what else lets it come once."""

    def write(self, job: PushedJob) -> None:
        """Write a row, as part of the connection's transaction."""


class Outbox:
    """Enqueues jobs through a connection of the user's; see `Anew.outbox`.

    Args:
        app: Whose queue the jobs go to.
        place: Where they go first.
    """

    def __init__(self, app: Anew, place: OutboxPlace) -> None:
        self._app = app
        self._place = place

    def create(self) -> None:
        """Make what it needs if that is missing."""
        self._place.create()

    def enqueue(
        self, task: Task[P, Any, Any] | Submission[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Write a call into the outbox, as part of the connection's transaction; the job comes after its commit.

        Args:
            task: A task, or one with options (``task.using(delay=60)``); a delay counts from now.
            args, kwargs: Of the call.

        Raises:
            InvalidJob: The arguments do not fit.
            NotSupported: The job would join a batch, which may be over when the transaction commits; or its call is debounced or
                merged, and the outbox is one in SQLite, or has an expression to merge by.
            Exception: The connection's own: the row cannot be written.
        """
        plain = task.call(*args, **kwargs).job()
        ties = getattr(plain, "hooks", None)
        if ties is not None and ties.batch is not None:
            raise NotSupported("outbox: a job that joins a batch cannot go through an outbox")
        job = self._place.identified(plain, uuid.uuid4().hex)

        def store(jobs: Sequence[NewJob]) -> None:
            for one in jobs:
                assert isinstance(one, PushedJob)
                self._place.write(one)

        enqueue_around(self._app.around_enqueues, job.type, [job], store, lambda _: ())


class FilePlace:
    """The table `anew_outbox` in a SQLite file of the user's.

    Args:
        app: Whose queue the jobs go to.
        connection: To a file that is not the queue's.

    Raises:
        InvalidInput: It is no connection of `sqlite3`.
        Conflict: It has the queue's own file open.
    """

    def __init__(self, app: Anew, connection: object) -> None:
        if not isinstance(connection, sqlite3.Connection):
            raise refused("connection", connection, "a connection of Python's sqlite3")
        cursor = connection.cursor()
        cursor.row_factory = None  # whatever the user's rows are
        for _, _, path in cursor.execute("PRAGMA database_list").fetchall():
            refuse_queue(app, os.fsdecode(path or b""))
        self._connection = connection

    def create(self) -> None:
        """Make the table."""
        self._connection.execute(_CREATE)

    def identified(self, job: NewJob, jid: str) -> PushedJob:
        """Have a repeat be known by the row's id while the job is kept."""
        ties = getattr(job, "hooks", None) or JobHooks()
        if ties.fold is not None:
            raise NotSupported(
                "outbox: a call that is debounced or merged cannot go through the outbox of a SQLite file, whose rows may "
                "come twice; enqueue it after the commit"
            )
        kept = max(KEPT_MS, (job.retention and job.retention.completed_ms) or 0)
        fields = {name: getattr(job, name) for name in NewJob.__struct_fields__}
        fields["retention"] = Retention(completed_ms=kept)
        return PushedJob(**fields, jid=jid, hooks=msgspec.structs.replace(ties, once=True))

    def write(self, job: PushedJob) -> None:
        """Write a row."""
        self._connection.execute(_INSERT, (job.jid, msgspec.json.encode(job)))


def refuse_queue(app: Anew, path: str) -> None:
    """Refuse a file that is the queue's own.

    Raises:
        Conflict: It is.
    """
    if not path or app.location == ":memory:" or "://" in app.location:
        return
    queue = Places.at(Path(app.location)).database
    if os.path.realpath(path) == os.path.realpath(queue) or _is_same(path, queue):
        raise Conflict(
            f"outbox: {path} is the queue's own file, which sqlite3 must not open beside Anew in one process; "
            "expected a file of the user's own"
        )


def _is_same(one: str, two: Path) -> bool:
    try:
        return os.path.samefile(one, two)
    except OSError:  # one of them cannot be looked at, which SQLite will say in its own words
        return False


def drain(app: Anew, path: str | os.PathLike[str], said: set[str] | None = None) -> int:
    """Move what is committed in an outbox into the queue; see `Anew.drain_outbox`.

    Args:
        app, path: See there.
        said: Ids of rows that are no jobs, and of which the log knows that; changed. None: it knows none.
    """
    refuse_queue(app, os.fspath(path))
    try:
        with closing(_open(path)) as connection:
            return _drain(app, connection, set() if said is None else said)
    except sqlite3.Error as error:
        raise _told(error, path) from error


def _open(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Open a file that is there; each statement commits by itself."""
    return sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)


def _drain(app: Anew, connection: sqlite3.Connection, said: set[str]) -> int:
    moved, after = 0, 0
    while rows := connection.execute(_READ, (after, CHUNK)).fetchall():
        after = rows[-1][0]
        stored = _store(app, rows, said)
        _forget(connection, stored)
        moved += len(stored)
    return moved


def _store(app: Anew, rows: Sequence[Row], said: set[str]) -> list[str]:
    """Store the rows' jobs; give the ids of those that are on the disk. What cannot be a job stays, and holds up no other."""
    try:
        jobs = [msgspec.json.decode(text, type=PushedJob) for _, _, text in rows]
        placed = app.backend.enqueue(jobs, plain=False)
    except (InvalidInput, *UNREADABLE) as error:
        if len(rows) > 1:
            return [jid for row in rows for jid in _store(app, [row], said)]
        jid = rows[0][1]
        if jid not in said:
            log.error("a row of an outbox is no job", extra={"outbox_id": jid, "error": str(error)})
            if len(said) >= MOST_SAID:
                said.clear()
            said.add(jid)
        return []
    for job, one in zip(jobs, placed, strict=True):
        app.events.enqueued(job.type, [job], [one])
    return [jid for _, jid, _ in rows]


def _forget(connection: sqlite3.Connection, ids: Sequence[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_DELETE, [(jid,) for jid in ids])
    connection.execute("COMMIT")


def _told(error: sqlite3.Error, path: str | os.PathLike[str]) -> AnewError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return StoreBusy(f"outbox {path}: another program is writing")
    if code == sqlite3.SQLITE_CANTOPEN or "no such table" in str(error):
        return NotFound(f"outbox {path}: there is none; expected app.create_outbox(connection) first")
    return StoreFailed(f"outbox {path}: {error}")


class Drainer:
    """Drains outboxes in a thread of its own, for a worker.

    Args:
        app: Whose queue the jobs go to.
        paths: The users' files; one that is missing yet is looked for again.
    """

    def __init__(self, app: Anew, paths: Sequence[str | os.PathLike[str]]) -> None:
        if isinstance(paths, str | os.PathLike):
            raise refused("outboxes", os.fspath(paths), "a list of files")
        for path in paths:
            refuse_queue(app, os.fspath(path))
        self._app = app
        self._paths = paths
        self._said: dict[str, str] = {}
        self._said_rows: set[str] = set()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def drain(self) -> None:
        """Drain each once. An outbox that cannot be drained is logged, once for each reason, and a row that is no job once."""
        for path in self._paths:
            name = os.fspath(path)
            try:
                drain(self._app, path, self._said_rows)
                self._said.pop(name, None)
            except AnewError as error:
                if self._said.get(name) != str(error):
                    log.warning("an outbox cannot be drained", extra={"outbox": name, "error": str(error)})
                self._said[name] = str(error)

    def start(self) -> None:
        """Drain now, so that a burst meets what is there, and from now on beside the worker."""
        if self._paths:
            self.drain()
            self._thread = threading.Thread(target=self._run, name="anew-outbox", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; what it is doing is done first."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(POLL_S):
            self.drain()
