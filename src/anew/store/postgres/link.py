"""The way to a store in a PostgreSQL database, for any number of processes on any number of machines.

One process writes at a time: whose turn it is has the lock on the one row of `turn`. So what is remembered of the rows is a cache
that the row's number keeps true, as a file's change counter does on one machine, and the engine decides on what nobody else
changes meanwhile. A batch shares one commit, whoever its operations come from.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from anew.errors import AnewError, ForkedStore, StoreBusy, StoreFailed, StoreFull
from anew.store.postgres.opening import connect, executor, identify, migrate
from anew.store.postgres.outbox import Outbox
from anew.store.postgres.reading import PostgresReading, WriterReading, version_of
from anew.store.postgres.waking import CHANNEL, Waking
from anew.store.postgres.words import STATEMENTS
from anew.store.protocol import Device
from anew.store.sql.reader import ReadLink
from anew.store.sql.store import SqlStore

TURN_MS = 50
"""How long `begin` waits for its turn, in the line of those who do: some batches of other processes."""

AGAIN_S = 0.01
"""When to ask for the turn again after it has not come."""

_BEGIN = "; ".join(
    (
        "BEGIN",
        f"SET LOCAL lock_timeout = '{TURN_MS}ms'",
        "SELECT version, EXISTS (SELECT 1 FROM outbox WHERE refused IS NULL) FROM turn FOR UPDATE",
    )
)


def open_postgres(url: str, *, relaxed: bool = False, keep_first: int = 10, keep_last: int = 90) -> SqlStore:
    """Open a store in a PostgreSQL database; its tables are made at the first opening, in the schema ``anew``.

    Args:
        url: ``postgresql://user@host/database``. A pooler between must keep one connection for one session.
        relaxed: Let commits return before they reach the server's disk; its crash may then lose what was answered.
        keep_first, keep_last: See `SqlStore`.

    Raises:
        InvalidConfig: The server is older than 15, or the database is not in UTF-8.
        NewerStore: A newer program wrote it.
        StoreFailed: It cannot be reached, or refuses.
    """
    link = PostgresLink(url, relaxed=relaxed)
    try:
        return SqlStore(link, keep_first=keep_first, keep_last=keep_last)
    except BaseException as error:
        link.disconnect()
        known = link.explain(error) if isinstance(error, Exception) else None
        if known is not None:
            raise known from error
        raise


class PostgresLink:
    """See `anew.store.sql.link.Link`, and `open_postgres` for the arguments."""

    def __init__(self, url: str, *, relaxed: bool) -> None:
        self._url, self._relaxed = url, relaxed
        self.statements = STATEMENTS
        self._abandoned = self._forked = self._synced = self._wrote = False
        self._waking: Waking | None = None
        self.connection = connect(url)
        try:
            migrate(self.connection)
            self.identity = identify(self.connection)
            run = executor(self.connection)
            self.outbox = Outbox(STATEMENTS.runner(self.execute))
            self.run = self.run_apart = self.run_write = STATEMENTS.runner(self.execute)
            self._execute = run
            ((self.session,),) = self.run(
                "open_session", (os.getpid(), time.time_ns() // 1_000_000)
            ).fetchall()
            self.run("show_alive", (self.session,))
            self._version = version_of(run)
        except BaseException as error:
            self.disconnect()
            known = self.explain(error) if isinstance(error, Exception) else None
            if known is not None:
                raise known from error
            raise

    def execute(self, text: str, bound: Sequence[Any] = ()) -> Any:
        """Run a text whose marks are ``$1``, ``$2``; note whether it writes."""
        if text[0] != "S":
            self._wrote = True
        return self._execute(text, bound)

    # -- transactions

    def begin(self, *, synced: bool) -> bool:
        """Start a transaction; tell whether another process has written since the last one."""
        if self._forked:
            raise ForkedStore
        if self._abandoned:
            raise StoreFailed("the store has failed; nothing more is written")
        try:
            cursor = self.connection.execute(_BEGIN)
            while cursor.nextset():
                pass
            ((version, self.outbox.waits),) = cursor.fetchall()
        except psycopg.errors.LockNotAvailable as error:
            self.connection.execute("ROLLBACK")
            raise StoreBusy("another process is writing to the store") from error
        except psycopg.OperationalError as error:
            raise _failed(error) from error
        self._synced = synced and not self._relaxed
        self._wrote = False
        changed = int(version) != self._version
        self._version = int(version)
        return changed

    def is_open(self) -> bool:
        """Tell whether a transaction is open."""
        return self.connection.info.transaction_status != TransactionStatus.IDLE

    def commit(self, *, made_ready: bool) -> None:
        """Make the transaction last, on the disk if it was begun so; tell those who wait for ready jobs."""
        if not self._wrote:
            self.connection.execute("ROLLBACK")
            return
        steps = ["UPDATE turn SET version = version + 1"]
        if not self._synced:
            steps.append("SET LOCAL synchronous_commit = off")
        if made_ready:
            steps.append(f"NOTIFY {CHANNEL}, '{self.session}'")
        self.connection.execute("; ".join([*steps, "COMMIT"]))
        self._version += 1

    def sync(self) -> None:
        """Nothing: a commit has waited for the disk, where it had to."""

    def rollback(self, forget: Callable[[], None]) -> None:
        """Undo the transaction, if one is open; have what is cached of the rows forgotten."""
        if self.is_open():
            self.connection.execute("ROLLBACK")
        forget()

    def busy(self) -> StoreBusy:
        """Say who has kept the store busy for too long, for whoever is refused for it."""
        rows = self.run("holds_turn").fetchall()
        if not rows:
            return StoreBusy("other processes have been writing to the store for too long; try again")
        pid, host, name = rows[0]
        return StoreBusy(
            f"a process on {host} ({name!r}, PostgreSQL's backend {pid}) has been writing to the store for too long; "
            "if it is stopped, let it go on or kill it: nothing is lost either way"
        )

    def when_free(self, call: Callable[[], None]) -> None:
        """After a StoreBusy: call a function once, from some thread, when `begin` is worth trying again."""
        timer = threading.Timer(AGAIN_S, call)
        timer.daemon = True
        timer.start()

    def wait_until_free(self, timeout_s: float) -> bool:
        """After a StoreBusy, in a thread that may wait: tell whether `begin` is worth trying again within this time."""
        time.sleep(min(AGAIN_S, timeout_s))
        return timeout_s > AGAIN_S

    def let_go(self) -> None:
        """Nothing: a turn is taken by `begin` alone."""

    def has_changed(self) -> bool:
        """Tell whether another process has written since the last transaction; outside of one."""
        return version_of(self._execute) != self._version

    def explain(self, error: Exception) -> AnewError | None:
        """Tell PostgreSQL's exception in our words; anything but "no space" and "busy" means that nothing may be trusted."""
        if isinstance(error, psycopg.errors.DiskFull):
            return StoreFull("no space left on the device that holds the database")
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return StoreBusy("another process is writing to the store")
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
            return _failed(error)
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            return _failed(error)
        return None

    # -- reading

    @property
    def device(self) -> Device | None:
        """The disk is the database server's."""
        return None

    def reading(self) -> ReadLink:
        """Read on the connection that writes."""
        return WriterReading(self.connection, self._execute)

    def open_reading(self) -> ReadLink:
        """Open a connection that reads."""
        return PostgresReading(self._url)

    # -- other processes

    def is_alive(self, session: int) -> bool:
        """Tell whether the process of a session still has the connection that its lock belongs to."""
        return session == self.session or bool(self.run("is_alive", (session,)).fetchall())

    def note_begun(self, slot: int, key: int) -> None:
        """Nothing: of a process that dies, all that it held is suspected."""

    def begun(self, session: int) -> frozenset[int] | None:
        """Nobody notes it."""
        return None

    def forget(self, session: int) -> None:
        """Nothing is left but its row."""

    def listen(self) -> int | None:
        """Begin to be woken when another process commits ready jobs; gives a descriptor to wait on."""
        if self._waking is None:
            self._waking = Waking(self._url, self.session)
        return self._waking.fileno()

    def poke_self(self) -> None:
        """Wake whoever of this process waits at that descriptor."""
        if self._waking is not None:
            self._waking.wake()

    def hear(self) -> None:
        """Take what has come to that descriptor."""
        if self._waking is not None:
            self._waking.hear()

    # -- the end

    def abandon(self, reason: str) -> None:
        """After StoreFailed: write nothing more. Other processes see for themselves what the database says."""
        self._abandoned = True

    def enter_to_close(self) -> None:
        """Nothing: `begin` waits for the turn."""

    def close(self, say_goodbye: Callable[[], None]) -> None:
        """Close cleanly; what was committed is on disk. After `abandon` nothing is written."""
        if self._forked:
            return
        try:
            if not self._abandoned:
                say_goodbye()
        except (StoreBusy, StoreFailed, psycopg.Error):
            pass  # whoever comes next finds the lock free, and forgets this session
        finally:
            self.disconnect()

    def close_in_child(self) -> None:
        """In a forked child: let go of the parent's connections, whose sessions the child would keep alive."""
        self._forked = True
        os.close(self.connection.fileno())
        if self._waking is not None:
            self._waking.close_in_child()

    def disconnect(self) -> None:
        """Let go of the connections."""
        if self._waking is not None:
            self._waking.close()
            self._waking = None
        self.connection.close()


def _failed(error: Exception) -> StoreFailed:
    return StoreFailed(f"the database failed: {type(error).__name__}: {' '.join(str(error).split())}")
