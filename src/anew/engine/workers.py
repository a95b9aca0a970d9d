"""Who is connected to work, whichever door they came by."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol


class WorkerState(IntEnum):
    """What a worker does; it only ever goes forward. QUIET: it takes nothing more. TERMINATE: it ends."""

    RUNNING = 0
    QUIET = 1
    TERMINATE = 2


class ConnectedWorker(NamedTuple):
    """One worker.

    Attributes:
        id: What it calls itself, or was called.
        door: How it is connected: ``http`` or ``faktory``.
        state: What it does.
        connections: Its take streams, or its connections.
        jobs: How many jobs it holds; None where its door does not know.
        since: When it came, epoch ms.
        queues: From which it takes; None: from all, or it says so each time.
        host, pid, labels, rss_kb: What it has said of itself.
    """

    id: str
    door: str
    state: WorkerState
    connections: int
    jobs: int | None
    since: int
    queues: Sequence[str] | None = None
    host: str | None = None
    pid: int | None = None
    labels: Sequence[str] = ()
    rss_kb: int | None = None


class WorkerDoor(Protocol):
    """A door that workers come by."""

    def connected(self) -> list[ConnectedWorker]:
        """List its workers."""

    def tell(self, worker: str, state: WorkerState) -> int:
        """Tell the workers with an id what to do; give how many streams or workers that was."""


class Workers:
    """The workers of one server.

    Attributes:
        doors: By which they come.
    """

    def __init__(self) -> None:
        self.doors: list[WorkerDoor] = []

    def connected(self) -> list[ConnectedWorker]:
        """List all workers by id."""
        found = [worker for door in self.doors for worker in door.connected()]
        return sorted(found, key=lambda worker: (worker.id, worker.door))

    def tell(self, worker: str, state: WorkerState) -> int:
        """Tell the workers with an id what to do; see `WorkerDoor.tell`."""
        return sum(door.tell(worker, state) for door in self.doors)
