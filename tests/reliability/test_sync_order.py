"""A real server's own calls in their order: no byte of an answer to new jobs leaves before a sync that covers them has returned."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .server import Server, server_command
from .wire import Client, encode

SOURCE = Path(__file__).with_name("sync_order.c")
PLANTED = [sys.executable, str(Path(__file__).with_name("planted.py"))]
LINES = 20
AHEAD = 49
"""Requests that a client sends at once, so that batches have many members; then it sends one alone."""

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="what watches the calls is compiled")


@dataclass
class Order:
    """What a server did, as it was written down.

    Attributes:
        written: Marks in the order in which they were first written to the log.
        too_early: Those that were sent before a sync that had begun after they were written had returned.
        answered: How many were sent.
        syncs: How many have returned.
        lasting: Names of files in folders that had been synced before the first answer.
    """

    written: list[int] = field(default_factory=list)
    too_early: list[int] = field(default_factory=list)
    answered: int = 0
    syncs: int = 0
    lasting: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path) -> Order:
        """Read what was written down."""
        order = cls()
        begun: dict[int, int] = {}
        safe: set[int] = set()
        safe_up_to = 0
        for line in path.read_text().splitlines():
            what, text = line[0], line[2:]
            if what == "d":
                order.lasting |= set() if order.answered else {text}
                continue
            number = int(text)
            if what == "w":
                order.written.append(number)
            elif what == "b":
                begun[number] = len(order.written)
            elif what == "e":
                order.syncs += 1
                safe.update(order.written[safe_up_to : begun[number]])
                safe_up_to = max(safe_up_to, begun.pop(number))
            elif what == "r":
                order.answered += 1
                if number not in safe:
                    order.too_early.append(number)
        return order


@contextmanager
def watched(folder: Path, command: Sequence[str]) -> Iterator[Server]:
    """A server whose calls are written down."""
    library = folder / "sync_order.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl", "-pthread"], check=True)
    environment = ["env", f"LD_PRELOAD={library}", f"SYNC_ORDER_LOG={folder / 'calls'}"]
    with Server(folder / "data", "--no-fwp", command=[*environment, *command]) as server:
        yield server


def enqueue(server: Server, requests: int) -> None:
    """Store so many jobs over several connections, each with a mark of its own."""
    marks = range(requests)
    ahead = AHEAD
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(server.address)) for _ in range(LINES)]
        while marks:
            sent: list[int] = []
            for client in clients:
                mine, marks = marks[:ahead], marks[ahead:]
                jobs = [{"type": f"mark-{mark:06}", "queue": "q", "payload": 1} for mark in mine]
                client.socket.sendall(b"".join(encode("POST", "/jobs", job) for job in jobs))
                sent.append(len(mine))
            for client, answers in zip(clients, sent, strict=True):
                assert all(client.receive().status == 201 for _ in range(answers))
            ahead = AHEAD + 1 - ahead


def test_reliability_01_09_no_answer_is_sent_before_the_sync_that_covers_it(tmp_path: Path) -> None:
    """Nor the first one before the folders are synced in which a new store's files are."""
    requests = 10_000
    with watched(tmp_path, server_command()) as server:
        enqueue(server, requests)
        names = {path.name for path in (tmp_path / "data").glob("anew.db*")} - {"anew.db-shm"}
    order = Order.read(tmp_path / "calls")
    print(f"{order.answered} answers, {order.syncs} syncs")
    assert sorted(order.written) == [*range(requests)]
    assert order.answered == requests
    assert order.syncs > requests // (LINES * (AHEAD + 1))
    assert order.too_early == []
    assert names == {"anew.db", "anew.db-wal"}
    assert order.lasting >= {*names, "data"}


def test_reliability_59_answers_before_their_commit_are_seen(tmp_path: Path) -> None:
    """The control run, with this bug planted."""
    with watched(tmp_path, PLANTED) as server:
        enqueue(server, 200)
    assert len(Order.read(tmp_path / "calls").too_early) > 100
