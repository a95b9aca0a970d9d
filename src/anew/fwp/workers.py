"""The workers that are connected: who they are, when they were last heard, and what they are told to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from anew.fwp.commands import Hello
from anew.fwp.connection import FwpConnection

SILENT_MS = 60_000
"""A worker that has sent no BEAT for longer is taken for dead. Source: Faktory 1.10."""


class WorkerState(IntEnum):
    """What a worker does; it only ever goes forward."""

    RUNNING = 0
    QUIET = 1
    TERMINATE = 2


STATES = {"quiet": WorkerState.QUIET, "terminate": WorkerState.TERMINATE}


@dataclass(slots=True, eq=False)
class Worker:
    """One worker process.

    Attributes:
        beat_ms: When it was last heard; the monotonic clock.
        connections: All that have named its id.
    """

    wid: str
    beat_ms: int
    state: WorkerState = WorkerState.RUNNING
    connections: set[FwpConnection] = field(default_factory=set)


class Workers:
    """The workers of one server.

    Args:
        now_ms: The monotonic clock.

    Attributes:
        by_wid: Those that have a connection.
        reaped: How many were taken for dead.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.by_wid: dict[str, Worker] = {}
        self.reaped = 0

    def join(self, connection: FwpConnection, hello: Hello) -> None:
        """Take note of a connection that names a worker."""
        if not hello.wid:
            return
        worker = self.by_wid.get(hello.wid)
        if worker is None:
            worker = self.by_wid[hello.wid] = Worker(hello.wid, self._now_ms())
        worker.connections.add(connection)
        connection.worker = worker

    def leave(self, connection: FwpConnection) -> None:
        """Forget a connection, and a worker with its last one."""
        worker = connection.worker
        if worker is not None:
            worker.connections.discard(connection)
            if not worker.connections and self.by_wid.get(worker.wid) is worker:
                del self.by_wid[worker.wid]

    def beat(self, wid: str, state: str) -> Worker | None:
        """Take note of a sign of life; None if nobody has this id."""
        worker = self.by_wid.get(wid)
        if worker is not None:
            worker.beat_ms = self._now_ms()
            worker.state = max(worker.state, STATES.get(state, WorkerState.RUNNING))
        return worker

    def reap(self) -> list[str]:
        """Close the connections of workers that have been silent for too long; what they hold stays reserved. Give their ids."""
        silent_ms = self._now_ms() - SILENT_MS
        reaped: list[str] = []
        for worker in list(self.by_wid.values()):
            if worker.beat_ms < silent_ms:
                self.reaped += 1
                reaped.append(worker.wid)
                del self.by_wid[worker.wid]
                for connection in list(worker.connections):
                    connection.close()
        return reaped
