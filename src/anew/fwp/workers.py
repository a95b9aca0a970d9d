"""The workers that are connected: who they are, when they were last heard, and what they are told to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anew.clock import Clock
from anew.engine.workers import ConnectedWorker, WorkerState
from anew.fwp.commands import Hello
from anew.fwp.connection import FwpConnection

SILENT_MS = 60_000
"""A worker that has sent no BEAT for longer is taken for dead. Source: Faktory 1.10."""


MOST_LABELS = 20
MOST_LETTERS = 200
"""Labels of a worker that are kept, and characters of each and of its host: people read them, and a HELLO may have 64 KiB."""

STATES = {"quiet": WorkerState.QUIET, "terminate": WorkerState.TERMINATE}


@dataclass(slots=True, eq=False)
class Worker:
    """One worker process.

    Attributes:
        host, pid, labels: What it said of itself when it came, cut short.
        since: When that was, epoch ms.
        beat_ms: When it was last heard; the monotonic clock.
        rss_kb: Its memory, as its heartbeats say.
        connections: All that have named its id.
    """

    wid: str
    since: int
    beat_ms: int
    host: str | None = None
    pid: int | None = None
    labels: Sequence[str] = ()
    rss_kb: int | None = None
    state: WorkerState = WorkerState.RUNNING
    connections: set[FwpConnection] = field(default_factory=set)


class Workers:
    """The workers of one server.

    Args:
        clock: Where time comes from.

    Attributes:
        by_wid: Those that have a connection.
        reaped: How many were taken for dead.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now_ms = clock.monotonic
        self.by_wid: dict[str, Worker] = {}
        self.reaped = 0

    def join(self, connection: FwpConnection, hello: Hello) -> None:
        """Take note of a connection that names a worker."""
        if not hello.wid:
            return
        worker = self.by_wid.get(hello.wid)
        if worker is None:
            worker = self.by_wid[hello.wid] = self._met(hello.wid, hello)
        worker.connections.add(connection)
        connection.worker = worker

    def leave(self, connection: FwpConnection) -> None:
        """Forget a connection, and a worker with its last one."""
        worker = connection.worker
        if worker is not None:
            worker.connections.discard(connection)
            if not worker.connections and self.by_wid.get(worker.wid) is worker:
                del self.by_wid[worker.wid]

    def _met(self, wid: str, hello: Hello) -> Worker:
        labels = [label[:MOST_LETTERS] for label in hello.labels or () if label is not None]
        return Worker(
            wid,
            since=self._clock.now(),
            beat_ms=self._now_ms(),
            host=None if hello.hostname is None else hello.hostname[:MOST_LETTERS],
            pid=hello.pid,
            labels=labels[:MOST_LABELS],
            rss_kb=hello.rss_kb,
        )

    def beat(self, wid: str, state: str, rss_kb: int) -> Worker | None:
        """Take note of a sign of life; None if nobody has this id."""
        worker = self.by_wid.get(wid)
        if worker is not None:
            worker.beat_ms = self._now_ms()
            worker.rss_kb = rss_kb or worker.rss_kb
            worker.state = max(worker.state, STATES.get(state, WorkerState.RUNNING))
        return worker

    def connected(self) -> list[ConnectedWorker]:
        """List the workers that have a connection."""
        return [_connected(worker) for worker in self.by_wid.values()]

    def tell(self, worker: str, state: WorkerState) -> int:
        """Tell a worker what to do: it hears of it with its next heartbeat. Gives 1, or 0 where there is none of the id."""
        meant = self.by_wid.get(worker)
        if meant is None:
            return 0
        meant.state = max(meant.state, state)
        return 1

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


def _connected(worker: Worker) -> ConnectedWorker:
    return ConnectedWorker(
        id=worker.wid,
        door="faktory",
        state=worker.state,
        connections=len(worker.connections),
        jobs=None,
        since=worker.since,
        host=worker.host,
        pid=worker.pid,
        labels=worker.labels,
        rss_kb=worker.rss_kb,
    )
