"""The way to a store in a PostgreSQL database, for any number of processes on any number of machines.

One process writes at a time: whose turn it is has the lock on the one row of `turn`. So what is remembered of the rows is a cache
that the row's number keeps true, as a file's change counter does on one machine, and the engine decides on what nobody else
changes meanwhile. A batch shares one commit, whoever its operations come from.

A lost connection is made again, in a thread of its own (`renewal.py`); until then the store is busy. What was not committed is done
again. Where a COMMIT was under way, the new connection tells whether it lasts.

A COMMIT may wait for a standby as well. Whoever cancels that wait has it succeed with only a warning: it lasts here, all see
it, and it is lost with this server. So a warning puts the batch in doubt, and what rests on rows that others have written is
answered only when a COMMIT of this process has been confirmed after them.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from anew.clock import Clock, DistantClock
from anew.errors import AnewError, ForkedStore, InDoubt, StoreBusy, StoreFailed, StoreFull
from anew.store.postgres.begun import Begun
from anew.store.postgres.opening import (
    Connection,
    executor,
    identify,
    is_lost,
    let_go_in_child,
    migrate,
    refuse_unsafe,
)
from anew.store.postgres.presence import Grace, Presence
from anew.store.postgres.primary import Primary
from anew.store.postgres.reading import TURN, PostgresReading, WriterReading, version_of
from anew.store.postgres.renewal import Renewal
from anew.store.postgres.texts import RefusedValue
from anew.store.postgres.words import STATEMENTS
from anew.store.protocol import Device
from anew.store.sql.reader import ReadLink
from anew.store.sql.statements import Run, in_lists
from anew.store.sql.store import SqlStore

log = logging.getLogger("anew.store")

TURN_MS = 50
"""How long `begin` waits for its turn, in the line of those who do: some batches of other processes."""

AGAIN_S = 0.01
"""When to ask for the turn again after it has not come, or for a new connection."""

DOUBT_S = 60.0
"""How long to look for a database that was lost while a COMMIT was under way: a standby may have to take over."""

LOCK_S = 10.0
"""How long an opening waits for its session's lock, which nobody else can have."""

UNDONE = "40"
"""Class of errors after which the same transaction may go through: two have waited for each other."""

UNTRUSTED = ("", "XX", "58", "F0")
"""Classes of errors after which nothing may be trusted: damaged data, a failure of the system below; or of no class."""

REMEMBERED = 1_000
"""Of so many sessions before this one it is remembered what they wrote last."""

_WAITS = "EXISTS (SELECT 1 FROM outbox WHERE refused IS NULL)"
_NEWS = f"SELECT version, {_WAITS} {TURN}"

_UNSYNCED = (
    "SELECT set_config('synchronous_commit', "
    "CASE current_setting('synchronous_standby_names') WHEN '' THEN 'off' ELSE current_setting('synchronous_commit') END, true)"
)
"""What needs no sync waits for a standby all the same, if there is to be one: a primary that nobody follows commits nothing."""

CONFIRM = f"UPDATE turn SET version = version WHERE version = (SELECT version {TURN}); COMMIT"  # noqa: S608 - ours
"""Ends a transaction that has nothing to write: PostgreSQL waits for disk and standby only where something was written."""

NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""The database's clock, epoch ms."""

_BEGIN = "; ".join(
    (
        "BEGIN",
        f"SET LOCAL lock_timeout = '{TURN_MS}ms'",
        # The time is read once the turn has come.
        f"WITH mine AS MATERIALIZED (SELECT version, writer, buried {TURN} FOR UPDATE) "  # noqa: S608 - ours
        f"SELECT version, writer, buried, {_WAITS}, {NOW} FROM mine",
    )
)


def open_postgres(url: str, *, relaxed: bool = False, keep_first: int = 10, keep_last: int = 90) -> SqlStore:
    """Open a store in a PostgreSQL database; its tables are made at the first opening, in the schema ``anew``.

    Args:
        url: ``postgresql://user@host/database``; with a standby, all hosts. A pooler between must keep one session.
        relaxed: Let commits return before they reach the server's disk; its crash may then lose what was answered.
        keep_first, keep_last: See `SqlStore`.

    Raises:
        InvalidConfig: The server is older than 15, or does not sync what it writes; or the database is not in UTF-8.
        NewerStore: A newer program wrote it.
        StoreFailed: It cannot be reached, or refuses.
    """
    link = PostgresLink(url, relaxed=relaxed)
    try:
        return SqlStore(link, keep_first=keep_first, keep_last=keep_last)
    except BaseException as error:
        link.give_up(error)
        raise


class PostgresLink:
    """See `anew.store.sql.link.Link`, and `open_postgres` for the arguments."""

    def __init__(self, url: str, *, relaxed: bool) -> None:
        self._primary, self._relaxed = Primary(url), relaxed
        self.remote = True
        self._database_clock = DistantClock()
        self.clock: Clock = self._database_clock
        self.statements = STATEMENTS
        self._abandoned = self._forked = self._synced = self._wrote = False
        self._begun = False  # a transaction, which what is raised belongs to
        self._stale = False  # what is remembered of the rows may be wrong: the connection was lost
        self._version = self._writer = self._buried = -1
        self._confirmed = -1  # the last version that is known to be safe, here and on the standby
        self._warning = ""  # what has come with the last COMMIT
        self._renewal: Renewal | None = None
        self._losing = threading.Lock()
        self._presence: Presence | None = None
        self._notes: Begun | None = None
        self._readings: weakref.WeakSet[PostgresReading] = weakref.WeakSet()
        self._grace = Grace()
        self.connection = self._connect()
        try:
            migrate(self.connection)
            self.identity = identify(self.connection)
            self.outbox = _Outbox(STATEMENTS.runner(self.execute))
            self.run = self.run_apart = self.run_write = STATEMENTS.runner(self.execute)
            self._execute = executor(self.connection, RefusedValue)
            self._presence = Presence(self._primary)
            self._open_session(LOCK_S)
            self._version = version_of(self._execute)
            self._ask(f"SELECT {NOW}")
        except BaseException as error:
            self.give_up(error)
            raise

    def give_up(self, error: BaseException) -> None:
        """Let go of everything after an error of the opening; tell it in our words, if there are any.

        Raises:
            AnewError: What the error means.
        """
        self.disconnect()
        cause = error.__cause__ if isinstance(error, StoreBusy) else error
        if isinstance(cause, psycopg.Error):
            known = self.explain(cause)
            raise (known if isinstance(known, StoreFull) else _failed(cause)) from error

    def _open_session(self, timeout_s: float) -> None:
        """Give this process its session, and have its lock taken."""
        assert self._presence is not None
        self._started_at = time.time_ns() // 1_000_000
        ((self.session,),) = self.run("open_session", (os.getpid(), self._started_at)).fetchall()
        self.run("forget_commits", (self.session - REMEMBERED,))
        if not self._presence.appear(self.session, timeout_s) and timeout_s:
            raise StoreFailed(f"the lock of this process's session cannot be taken: {self._presence.failure}")
        if self._notes is not None:
            self._notes.move(self.session)

    # -- the connection that writes

    def _connect(self) -> Connection:
        connection = self._primary.connect(everywhere=True)
        try:
            if not self._relaxed:
                refuse_unsafe(connection)
        except BaseException:
            connection.close()
            raise
        connection.add_notice_handler(self._noticed)
        return connection

    def _noticed(self, notice: psycopg.errors.Diagnostic) -> None:
        """Called for what PostgreSQL tells beside its answer."""
        if notice.severity_nonlocalized == "WARNING":
            self._warning = notice.message_primary or "a warning"

    def execute(self, text: str, bound: Sequence[Any] = ()) -> Any:
        """Run a text whose marks are ``$1``, ``$2``; note whether it writes.

        Raises:
            StoreBusy: The connection is lost, and no transaction was open. Inside of one it is psycopg's own error: see `explain`.
        """
        if text[0] != "S":
            self._wrote = True
        try:
            return self._execute(text, bound)
        except psycopg.Error as error:
            if self._note_loss(error) and not self._begun:
                raise self._lost() from error
            raise

    def _say(self, text: str) -> Any:
        """Run a text without marks that may be several statements; gives the rows of the last one."""
        connection, kept = self.connection, self.connection.prepare_threshold
        connection.prepare_threshold = None  # or psycopg would drop all that is prepared after each ROLLBACK
        try:
            cursor = connection.execute(text)
            while cursor.nextset():
                pass
        except psycopg.Error as error:
            self._note_loss(error)
            raise
        finally:
            connection.prepare_threshold = kept
        return cursor

    def _ask(self, text: str) -> tuple[Any, ...]:
        """Run a text whose one row ends with the database's clock; give what stands before that."""
        asked = self.clock.monotonic()
        ((*row, now),) = self._say(text).fetchall()
        self._database_clock.hear(int(now), asked)
        return tuple(row)

    def _note_loss(self, error: psycopg.Error) -> bool:
        """Report whether an error means that the connection is lost; begin to make another one."""
        if not (is_lost(error) or self.connection.closed):
            return False
        with self._losing:  # whoever reads in another thread may meet it at the same time
            if self._renewal is None:
                self.connection.close()
                self._stale = True
                self._renewal = Renewal(self._connect)
                log.warning(
                    "the connection to the database was lost", extra={"reason": " ".join(str(error).split())}
                )
        return True

    def _lost(self) -> StoreBusy:
        why = "" if self._renewal is None else self._renewal.failure
        return StoreBusy(
            f"the connection to the database was lost, and is being made again{why and ': '}{why}"
        )

    def _renew(self, timeout_s: float = 0.0) -> None:
        """Go on with the new connection, if one is wanted.

        Raises:
            StoreBusy: There is none yet.
        """
        if self._renewal is None:
            return
        made = self._renewal.take(timeout_s)
        if made is None:
            raise self._lost()
        self._renewal, self._confirmed = None, -1
        self.connection, self._execute = made, executor(made, RefusedValue)
        log.warning("there is a connection to the database again")

    # -- transactions

    def begin(self, *, synced: bool) -> bool:
        if self._forked:
            raise ForkedStore
        if self._abandoned:
            raise StoreFailed("the store has failed; nothing more is written")
        if self._primary.has_newer(self.connection):
            self._note_loss(psycopg.OperationalError("another server has taken over from this one"))
        self._renew()
        try:
            version, self._writer, buried = self._take_turn()
            if (self._stale or buried != self._buried) and not self._stands():
                self._say("ROLLBACK")
                log.warning("this process was taken for dead: what it held is others' now")
                self._open_session(0)
                raise StoreBusy(
                    "this process was taken for dead: it was cut off from the database for too long"
                )
        except psycopg.Error as error:
            known = self.explain(error)
            raise (known if known is not None else _failed(error)) from error
        self._synced = synced and not self._relaxed
        self._wrote, self._begun = False, True
        changed = version != self._version or self._stale
        self._version, self._buried, self._stale = version, buried, False
        return changed

    def _take_turn(self) -> tuple[int, int, int]:
        """Begin a transaction with the lock on `turn`; give the row.

        Raises:
            StoreBusy: Somebody else has it; no transaction is open.
        """
        try:
            version, writer, buried, self.outbox.waits = self._ask(_BEGIN)
        except psycopg.errors.LockNotAvailable as error:
            self._say("ROLLBACK")
            raise StoreBusy("another process is writing to the store") from error
        return int(version), int(writer), int(buried)

    def _stands(self) -> bool:
        """Report whether this process's session is still there, in the turn, so that nobody removes it meanwhile."""
        return bool(self.run("session_stands", (self.session, os.getpid(), self._started_at)).fetchall())

    def is_open(self) -> bool:
        """Tell whether a transaction is open, or was when the connection was lost."""
        return self._begun and self.connection.info.transaction_status != TransactionStatus.IDLE

    def commit(self, *, made_ready: bool) -> None:
        """Make the transaction last, on the disk if it was begun so; tell those who wait for ready jobs.

        Raises:
            StoreFailed: The connection was lost meanwhile, and it cannot be found out whether it lasts.
        """
        self._warning = ""
        interruption = None
        if self._wrote:
            interruption = self._finish(self._ending())
            self._version += 1
        elif self._synced and self._confirmed < self._version:
            # Others have written what is answered now, and were perhaps never told that it is safe.
            interruption = self._finish([CONFIRM])
        else:
            self._say("ROLLBACK")
        self._begun = False
        if made_ready and self._presence is not None:
            self._presence.tell()
        if self._synced and not self._warning:
            self._confirmed = self._version
        if interruption is not None:
            raise interruption

    def _finish(self, steps: Sequence[str]) -> BaseException | None:
        """Run the last statements of a transaction, COMMIT among them; give what has interrupted that meanwhile."""
        connection = self.connection
        connection.shielded = True
        try:
            self._say("; ".join(steps))
        except psycopg.Error:
            if self._renewal is None or not self._wrote or not self._has_committed():
                if connection.interruption is not None:
                    raise connection.interruption from None
                raise
        except BaseException:  # the second Ctrl-C: what becomes of it nobody knows
            self._abandoned = True
            connection.close()
            raise
        finally:
            interruption, connection.interruption = connection.interruption, None
            connection.shielded = False
        return interruption

    def _ending(self) -> list[str]:
        mine = f"version = {self._version + 1}, writer = {self.session}"
        steps = [f"UPDATE turn SET {mine} WHERE version = {self._version}"]  # noqa: S608 - numbers
        if self._writer not in (0, self.session):
            steps.append(
                f"WITH old AS (UPDATE wrote SET version = {self._version} WHERE session = {self._writer} "  # noqa: S608 - numbers
                f"AND version = (SELECT version FROM wrote WHERE session = {self._writer} ORDER BY version DESC LIMIT 1) "
                f"RETURNING 1) INSERT INTO wrote SELECT {self._writer}, {self._version} WHERE NOT EXISTS (SELECT FROM old)"
            )
        if not self._synced:
            steps.append("SET LOCAL synchronous_commit = off" if self._relaxed else _UNSYNCED)
        return [*steps, "COMMIT"]

    def _has_committed(self) -> bool:
        """Find out whether the transaction lasts whose COMMIT was under way when the connection was lost.

        Who has the turn knows that it is over, and each version names who wrote it. That it lasts here does not mean that a
        standby has it: so there is another COMMIT, which waits for all before it.
        """
        until = time.monotonic() + DOUBT_S
        try:
            while time.monotonic() < until:
                try:
                    self._renew(AGAIN_S)
                    version, writer, _ = self._take_turn()
                    rows = self.run("committed", (self.session,)).fetchall()
                    last = version if writer == self.session else max((n for (n,) in rows), default=-1)
                    lasts = min(version, last) >= self._version + 1
                    self._warning = ""  # what came with the lost COMMIT; this one says more
                    self._say(CONFIRM if lasts and not self._relaxed else "ROLLBACK")
                except StoreBusy:
                    if self._renewal is None:  # the database is there; the lost COMMIT may have the turn yet
                        until = time.monotonic() + DOUBT_S
                    continue
                except psycopg.Error as error:
                    if not self._note_loss(error):
                        raise
                    continue
                return lasts
        except Exception as error:
            raise _failed(error) from error
        except BaseException:  # Ctrl-C: it stays in doubt
            self._abandoned = True
            raise
        raise StoreFailed(
            f"the database was lost while a batch was being committed, and has not come back within {DOUBT_S:.0f} s"
        )

    def sync(self) -> None:
        """Nothing: a commit has waited for the disk, where it had to.

        Raises:
            InDoubt: No standby has confirmed it, though it had to.
        """
        if self._warning:
            raise InDoubt(
                f"the change is stored, but PostgreSQL has not confirmed that it is safe ({self._warning}): "
                "after a failover it may be gone"
            )

    def rollback(self, forget: Callable[[], None]) -> None:
        """Undo the transaction, if one is open; have what is cached of the rows forgotten.

        Where the connection is lost there is nothing to undo, and the next `begin` has it forgotten.
        """
        try:
            if self._renewal is None and self.connection.info.transaction_status != TransactionStatus.IDLE:
                self._say("ROLLBACK")
            self._begun = False
            if self._renewal is None:
                forget()
        except (psycopg.Error, StoreBusy):
            if self._renewal is None:
                raise
        finally:
            self._begun = False

    def busy(self) -> StoreBusy:
        try:
            rows = self.run("holds_turn").fetchall()
        except StoreBusy as lost:
            return lost
        if not rows:
            return StoreBusy("other processes have been writing to the store for too long; try again")
        pid, host, name = rows[0]
        return StoreBusy(
            f"a process on {host} ({name!r}, PostgreSQL's backend {pid}) has been writing to the store for too long; "
            "if it is stopped, let it go on or kill it: nothing is lost either way"
        )

    def when_free(self, call: Callable[[], None]) -> None:
        timer = threading.Timer(AGAIN_S, call)
        timer.daemon = True
        timer.start()

    def wait_until_free(self, timeout_s: float) -> bool:
        if self._renewal is not None:
            return self._renewal.is_over(timeout_s)
        time.sleep(min(AGAIN_S, timeout_s))
        return timeout_s > AGAIN_S

    def let_go(self) -> None:
        """Nothing: a turn is taken by `begin` alone."""

    def has_changed(self) -> bool:
        """Tell whether another process has written since the last transaction, or the connection was lost; outside of one."""
        try:
            if self._renewal is not None:
                return True
            ((version, waits),) = self.execute(_NEWS).fetchall()
            return bool(waits) or version != self._version
        except StoreBusy:
            return True

    def explain(self, error: Exception) -> AnewError | None:
        """Tell PostgreSQL's exception in our words; None where one transaction alone has failed, as after a slow statement."""
        if isinstance(error, RefusedValue):
            return error.error
        if isinstance(error, psycopg.errors.DiskFull):
            return StoreFull("no space left on the device that holds the database")
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return StoreBusy("another process is writing to the store")
        if is_lost(error):
            return self._lost()
        if not isinstance(error, psycopg.OperationalError | psycopg.InternalError):
            return None
        kind = (error.sqlstate or "")[:2]
        if kind == UNDONE:
            return StoreBusy(f"the database has undone a batch, which is done again: {error}")
        return _failed(error) if kind in UNTRUSTED else None

    # -- reading

    @property
    def device(self) -> Device | None:
        """The disk is the database server's."""
        return None

    def reading(self) -> ReadLink:
        return WriterReading(self.execute)

    def open_reading(self) -> ReadLink:
        reading = PostgresReading(self._primary)
        self._readings.add(reading)
        return reading

    # -- other processes

    def is_alive(self, session: int) -> bool:
        """Tell whether somebody has the lock of a session, or had it a moment ago."""
        if session == self.session:
            return True
        return self._grace.is_alive(session, locked=bool(self.run("is_alive", (session,)).fetchall()))

    def note_begun(self, slot: int, key: int) -> None:
        if self._forked:
            return
        if self._notes is None:
            self._notes = Begun(self._primary, self.session)
        self._notes.note(slot, key)

    def begun(self, session: int) -> frozenset[int] | None:
        keys = self.run("begun", (session,)).fetchall()
        return frozenset(key for (key,) in keys) - {0} if keys else None

    def forget(self, session: int) -> None:
        """Have all others look whether it was theirs; what it has noted goes with its row."""
        self.execute("UPDATE turn SET buried = buried + 1 WHERE version = $1", (self._version,))
        self._buried += 1

    def listen(self) -> int | None:
        assert self._presence is not None
        return self._presence.fileno()

    def poke_self(self) -> None:
        if self._presence is not None:
            self._presence.wake()

    def hear(self) -> None:
        if self._presence is not None:
            self._presence.hear()

    # -- the end

    def abandon(self, reason: str) -> None:
        """After StoreFailed: write nothing more. Other processes see for themselves what the database says."""
        self._abandoned = True

    def enter_to_close(self) -> None:
        """Nothing: `begin` waits for the turn."""

    def close(self, end_session: Callable[[], None]) -> None:
        if self._forked:
            return
        try:
            if not self._abandoned:
                end_session()
        except (StoreBusy, StoreFailed, psycopg.Error):
            pass  # whoever comes next finds the lock free, and forgets this session
        finally:
            self.disconnect()

    def close_in_child(self) -> None:
        """In a forked child: let go of the parent's connections, whose sessions the child would keep alive.

        From now on no lock is taken that another thread of the parent may have had at the fork.
        """
        self._forked = True
        self._execute = _refuse
        let_go_in_child(self.connection)
        for one in (self._presence, self._notes, *self._readings):
            if one is not None:
                one.close_in_child()

    def disconnect(self) -> None:
        """Let go of the connections."""
        for one in (self._presence, self._notes):
            if one is not None:
                one.close()
        self._presence = self._notes = None
        if self._renewal is not None:
            self._renewal.stop()
        self.connection.close()


def _refuse(text: str, bound: Sequence[Any] = ()) -> Any:
    raise ForkedStore


def _failed(error: Exception) -> StoreFailed:
    return StoreFailed(f"the database failed: {type(error).__name__}: {' '.join(str(error).split())}")


class _Outbox:
    """Jobs that other transactions of the same database have left; see `anew.store.protocol.OutboxRows`.

    Args:
        run: Runs a statement on the writer's connection.

    Attributes:
        waits: As the open transaction has found at its begin.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.waits = False

    def rows(self, limit: int, most_bytes: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = self._run("outbox_rows", (limit, most_bytes)).fetchall()
        return found

    def drop(self, ids: Sequence[int]) -> None:
        for part in in_lists(ids):
            self._run("drop_outbox_rows", part, len(part))

    def refuse(self, id_: int, reason: str) -> None:
        self._run("refuse_outbox_row", (reason, id_))
