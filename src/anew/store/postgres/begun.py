"""Which jobs this process has begun with, noted where others can read it after its death.

A note must have left the process before its job runs, which may kill it; but nobody waits for an answer, so that it costs a job a
system call. It goes over a connection of its own, from any thread.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import psycopg
from psycopg.pq import ExecStatus

from anew.store.postgres.opening import Connection, let_go_in_child
from anew.store.postgres.primary import Primary
from anew.store.postgres.renewal import Renewal
from anew.store.sql.link import MOST_SLOTS

MOST_UNANSWERED = 1_000
"""Notes without an answer, at which the connection counts as lost: libpq keeps what the network does not take."""

FIRST_S = 2.0
"""How long the first note waits for its connection."""

_NOTE = b"INSERT INTO begun VALUES ($1, $2, $3) ON CONFLICT (session, slot) DO UPDATE SET job_id = excluded.job_id"


class Begun:
    """The slots of one process.

    Args:
        primary: The server that is told.
        session: This process's.
    """

    def __init__(self, primary: Primary, session: int) -> None:
        self._primary, self._session = primary, session
        self._slots: dict[int, int] = {}
        self._unanswered = 0
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._renewal: Renewal | None = Renewal(self._connect)
        self._renewal.is_over(FIRST_S)

    def note(self, slot: int, key: int) -> None:
        """Note which job runs in a slot, 0 for none; while there is no connection, for when there is one."""
        with self._lock:
            if len(self._slots) < MOST_SLOTS or slot in self._slots:
                self._slots[slot] = key
                self._send({slot: key})

    def move(self, session: int) -> None:
        """Note all slots for another session of this process."""
        with self._lock:
            self._session = session
            self._send(self._slots)

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            if self._renewal is not None:
                self._renewal.stop()
            if self._connection is not None:
                self._connection.close()

    def close_in_child(self) -> None:
        """In a forked child: let go of the parent's connection."""
        let_go_in_child(self._connection)

    def _connect(self) -> Connection:
        connection = self._primary.connect(synchronous_commit="off")
        connection.pgconn.prepare(b"note", _NOTE)
        connection.pgconn.nonblocking = 1
        connection.pgconn.enter_pipeline_mode()
        return connection

    def _send(self, slots: dict[int, int]) -> None:
        if self._renewal is not None:
            self._connection = self._renewal.take()
            if self._connection is None:
                return
            self._renewal, self._unanswered, slots = None, 0, self._slots
        assert self._connection is not None
        try:
            self._take_answers(self._connection)
            for slot, key in slots.items():
                values = [b"%d" % value for value in (self._session, slot, key)]
                self._connection.pgconn.send_query_prepared(b"note", values)
                self._connection.pgconn.pipeline_sync()
                self._unanswered += 1
            self._connection.pgconn.flush()
            if self._unanswered > MOST_UNANSWERED + len(slots):
                raise psycopg.OperationalError("nobody answers")
        except psycopg.Error:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection, self._renewal = None, Renewal(self._connect)

    def _take_answers(self, connection: Connection) -> None:
        """Take what has been answered so far. What a note has come to is nobody's concern."""
        connection.pgconn.consume_input()
        while self._unanswered and not connection.pgconn.is_busy():
            answer = connection.pgconn.get_result()
            if answer is not None and answer.status == ExecStatus.PIPELINE_SYNC:
                self._unanswered -= 1
