"""A process's sign of life, and how processes wake each other: a connection of its own, kept by a thread of its own.

The connection that writes would not do: a worker whose jobs run for hours says nothing on it, and would not notice its loss.
Nor would it do to wake others: a transaction with a NOTIFY takes a lock at its COMMIT that the whole server has once, and keeps it
until disk and standby have the COMMIT. So others are told after it, from here, and no more often than `TELL_S`.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import closing, suppress
from typing import Any

import psycopg

from anew.errors import AnewError
from anew.store.postgres.opening import Connection, executor, let_go_in_child
from anew.store.postgres.primary import Primary
from anew.store.postgres.words import STATEMENTS

CHANNEL = "anew_ready"

AGAIN_S = 0.25
"""When to connect again after that has failed, and when to try the lock again while the lost connection has it still."""

BEAT_S = 2.0
"""How often the connection is tried: one that is lost without a word would leave the process without its lock."""

ANSWER_S = 3.0
"""How long an answer may take before the connection counts as lost."""

TELL_S = 0.05
"""How often others are told of ready jobs at most; they look by themselves as often."""

TELL_LOCK = "100ms"
"""How long to wait for the lock of a NOTIFY, which a transaction of any other program may have; then nobody is told."""

CLOSE_S = 1.0

GRACE_S = 2.0
"""For how long a session's lock must have been free before its process counts as dead: who has lost the connection, as all do when
PostgreSQL is started again, has its lock again within some tenths of a second."""

MOST_FREE = 1_000
"""Sessions whose locks were found free that are remembered; more than that are looked at anew."""


class Presence:
    """Has the lock of this process's session, as long as there is a way to the database; hears of ready jobs.

    Args:
        primary: The server that it is shown to.

    Attributes:
        failure: Why the last connection was not made, or was lost.
    """

    def __init__(self, primary: Primary) -> None:
        self._primary, self._session, self.failure = primary, 0, ""
        self._shown = threading.Event()
        self._out, self._in = socket.socketpair()
        self._stop_in, self._stop_out = socket.socketpair()
        for one in (self._out, self._in, self._stop_in):
            one.setblocking(False)
        self._connection: Connection | None = None
        self._pace = TellPace()
        self._thread = threading.Thread(target=self._live, name="anew-presence", daemon=True)
        self._thread.start()

    def appear(self, session: int, timeout_s: float) -> bool:
        """Take the lock of a session in place of the last one's; report whether that was done within a time. It is tried on."""
        self._shown.clear()
        self._session = session
        self._stop_out.send(b"!")
        return self._shown.wait(timeout_s)

    # -- wake-ups

    def tell(self) -> None:
        """Have other processes woken, soon; from the thread that commits."""
        if self._pace.ask():
            self._stop_out.send(b"!")

    def fileno(self) -> int:
        """Give what can be waited on."""
        return self._in.fileno()

    def wake(self) -> None:
        """Wake whoever waits."""
        with suppress(OSError):  # full: it is readable already
            self._out.send(b"!")

    def hear(self) -> None:
        """Take what has come."""
        with suppress(BlockingIOError):
            while self._in.recv(64):
                pass

    # -- the end

    def close(self) -> None:
        """End the thread and let go of everything; a thread that waits for the network is left to itself."""
        self._stop_out.close()
        self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            for one in (self._out, self._in, self._stop_in):
                one.close()

    def close_in_child(self) -> None:
        """In a forked child, which has no such thread: let go of the sockets."""
        let_go_in_child(self._connection)
        for one in (self._out, self._in, self._stop_in, self._stop_out):
            one.close()

    # -- the thread

    def _live(self) -> None:
        while True:
            try:
                with closing(self._connect()) as self._connection:
                    if not self._keep(self._connection):
                        return
            except (psycopg.Error, AnewError) as error:
                self.failure = str(error)
            if self._is_over(_readable([self._stop_in], AGAIN_S)):
                return

    def _connect(self) -> Connection:
        return self._primary.connect(answer_s=ANSWER_S, synchronous_commit="off", lock_timeout=TELL_LOCK)

    def _keep(self, connection: Connection) -> bool:
        """Keep the lock and pass on what is told, both ways, until the connection is lost; report whether to go on after it."""
        connection.add_notify_handler(self._heard)
        connection.execute(f"LISTEN {CHANNEL}")
        self.wake()  # something may have been told meanwhile
        shown = 0
        while not self._primary.has_newer(connection):
            session = self._session
            if shown != session and _show(connection, session):
                shown = session
                self._shown.set()
            if self._pace.is_due():
                self._tell(connection)
            wait_s = self._pace.left_s(BEAT_S if shown == session else AGAIN_S)
            ready = _readable([connection, self._stop_in], wait_s)
            if self._is_over(ready):
                return False
            if not ready:
                connection.execute("SELECT 1")
            connection.pgconn.consume_input()
            while (note := connection.pgconn.notifies()) is not None:
                if note.extra.decode() != str(self._session):
                    self.wake()
        return True

    def _tell(self, connection: Connection) -> None:
        with suppress(psycopg.errors.LockNotAvailable):  # others look by themselves
            connection.execute(f"NOTIFY {CHANNEL}, '{self._session}'")

    def _heard(self, note: psycopg.Notify) -> None:
        """Called for what has come while a statement ran."""
        self.wake()

    def _is_over(self, ready: Collection[int]) -> bool:
        """Take what the thread was told; report whether it is to end."""
        if self._stop_in.fileno() not in ready:
            return False
        with suppress(BlockingIOError):
            return self._stop_in.recv(64) == b""
        return False


def _readable(sources: Iterable[Any], timeout_s: float) -> set[int]:
    """Wait until something can be read; give the descriptors of what can."""
    waiting = select.poll()  # a server has too many descriptors for `select`
    for source in sources:
        waiting.register(source, select.POLLIN)
    return {fd for fd, _ in waiting.poll(timeout_s * 1_000)}


def _show(connection: Connection, session: int) -> bool:
    """Take the lock of a session, and let go of any other; report whether it was free."""
    if not session:
        return False
    connection.execute("SELECT pg_advisory_unlock_all()")
    ((taken,),) = executor(connection)(STATEMENTS.text("show_alive"), (session,)).fetchall()
    return bool(taken)


class TellPace:
    """When others are told that there are ready jobs: at once, and no more often than every `TELL_S`.

    Args:
        clock: Gives seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked = False
        self._next_at = clock()

    def ask(self) -> bool:
        """Have others told; report whether whoever does it is to be woken: once for all that ask before it is done."""
        if self._asked:
            return False
        self._asked = True
        return True

    def is_due(self) -> bool:
        """Report whether to tell others now; what is asked for from then on is told later."""
        now = self._clock()
        if not self._asked or now < self._next_at:
            return False
        self._asked, self._next_at = False, now + TELL_S
        return True

    def left_s(self, most_s: float) -> float:
        """Give the seconds until others are to be told, or a number if that is less or nobody is."""
        return min(most_s, max(0.0, self._next_at - self._clock())) if self._asked else most_s


class Grace:
    """Tells a process that is gone from one that has lost its connection for a moment.

    Args:
        clock: Gives seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free_since: dict[int, float] = {}

    def is_alive(self, session: int, *, locked: bool) -> bool:
        """Report whether a session's process counts as alive, whose lock somebody has or nobody."""
        if locked:
            self._free_since.pop(session, None)
            return True
        if len(self._free_since) >= MOST_FREE:
            self._free_since.clear()
        now = self._clock()
        return now - self._free_since.setdefault(session, now) < GRACE_S
