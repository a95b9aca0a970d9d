"""What a job's ties cost: CPU time of plain jobs beside members of a batch, unique jobs and jobs of a queue with a limit.

    python -m bench.hooks
    python -m bench.hooks --jobs 4000 --rounds 7 --connections 10 50

Kinds take turns within each round. A figure is CPU time per job over PUSH, FETCH and ACK, the median of the rounds; a ratio is the
median of the rounds' own ratios to the plain jobs, so that a slow second of the machine meets both sides.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from anew.engine import Acknowledge, Call, Engine, Enqueue, Fetch
from anew.engine.job_batches import new_batch
from anew.engine.throttles import set_throttles
from anew.jobs.batches import Callback
from anew.jobs.codec import JobHooks, PushedJob, UniqueKey
from anew.jobs.limits import Throttle
from anew.jobs.unique import Scope, parts_digest
from anew.tasks.opening import open_engine

from .servers import OURS, Server

KINDS = ("plain", "member", "unique", "limited")
WIRE_KINDS = ("plain", "member", "unique")


def new_job(jid: str, queue: str, hooks: JobHooks | None = None) -> PushedJob:
    """A job as Faktory's protocol gives it."""
    return PushedJob(type="t", queue=queue, payload=msgspec.Raw(b"[1]"), jid=jid, hooks=hooks)


def engine_round(engine: Engine, kind: str, jobs: int, width: int, batch: int) -> float:
    """Push, fetch and acknowledge jobs, `width` operations a group commit; give the CPU time of one job, us."""
    queue = "limited" if kind == "limited" else "q"
    ties: Callable[[int], JobHooks | None] = {
        "member": lambda at: JobHooks(batch=batch),
        "unique": lambda at: JobHooks(
            unique=UniqueKey(parts_digest("t", queue, b"[%d]" % at), Scope.SUCCEEDED, 2_000_000_000_000)
        ),
    }.get(kind, lambda at: None)
    began = time.process_time()
    for first in range(0, jobs, width):
        each = range(first, first + width)
        got: list[Any] = []
        engine.apply([Enqueue([new_job(f"j{at}", queue, ties(at))], _ignore) for at in each])
        engine.apply([Fetch([queue], got.append) for _ in each])
        assert len(got) == width
        engine.apply([Acknowledge(job.jid, _ignore) for job in got])
    return (time.process_time() - began) / jobs * 1e6


def measure_engine(jobs: int, rounds: int, width: int) -> None:
    """Print the figures of one engine in this process."""
    with tempfile.TemporaryDirectory() as folder:
        threads = open_engine(str(Path(folder) / "jobs.db"))
        engine = threads.engine
        made: list[Any] = []
        engine.apply(
            [
                Call(new_batch(lambda key: {Callback.SUCCESS: new_job("cb", "calls")}), made.append),
                Call(set_throttles({"limited": Throttle(concurrency=1_000_000)}), _ignore),
            ]
        )
        taken = [
            {kind: engine_round(engine, kind, jobs, width, made[0]) for kind in KINDS}
            for _ in range(rounds + 1)
        ]
        report(f"engine, {width} operations a commit", taken[1:])
        threads.close()


class Client:
    """One connection of Faktory's protocol, blocking."""

    def __init__(self, port: int, name: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self.read()
        self.send(b'HELLO {"v":2,"wid":"%s"}' % name.encode())
        self.read()

    def send(self, line: bytes) -> None:
        """Send one command."""
        self._socket.sendall(line + b"\r\n")

    def read(self) -> bytes:
        """Give one reply; an error raises RuntimeError."""
        head: bytes = self._file.readline()
        if head[:1] == b"-":
            raise RuntimeError(head.decode())
        if head[:1] == b"$" and head != b"$-1\r\n":
            return self._file.read(int(head[1:]) + 2)[:-2]
        return head[1:].strip()

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()


def wire_round(clients: list[Client], server: Server, kind: str, jobs: int, batch: str) -> float:
    """Push, fetch and acknowledge jobs, one command a connection under way; give the server's CPU time of one job, us."""
    queue = "q"
    ties: dict[str, dict[str, Any]] = {"member": {"bid": batch}, "unique": {"unique_for": 3600}}
    custom = {"custom": ties[kind]} if kind in ties else {}
    began = server.usage().cpu_s
    for first in range(0, jobs, len(clients)):
        for at, client in enumerate(clients):
            job = {"jid": f"jid-{first + at:08d}", "jobtype": "t", "queue": queue, "args": [first + at]}
            client.send(b"PUSH " + json.dumps(job | custom).encode())
        for client in clients:
            client.read()
        for client in clients:
            client.send(b"FETCH " + queue.encode())
        got = [json.loads(client.read())["jid"] for client in clients]
        for client, jid in zip(clients, got, strict=True):
            client.send(b'ACK {"jid":"%s"}' % jid.encode())
        for client in clients:
            client.read()
    return (server.usage().cpu_s - began) / jobs * 1e6


def measure_wire(jobs: int, rounds: int, connections: int) -> None:
    """Print the figures of a server of its own; no queue of it has a limit."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server("anew", OURS, Path(folder) / "server")
        try:
            port = server.port_of("fwp")
            clients = [Client(port, f"w{at}") for at in range(connections)]
            clients[0].send(b'BATCH NEW {"success":{"jobtype":"cb","queue":"calls","args":[]}}')
            batch = clients[0].read().decode()
            measured = [
                {kind: wire_round(clients, server, kind, jobs, batch) for kind in WIRE_KINDS}
                for _ in range(rounds + 1)
            ]
            report(f"FWP, {connections} connections", measured[1:])
            for client in clients:
                client.close()
        finally:
            server.stop()


def report(title: str, rounds: list[dict[str, float]]) -> None:
    """Print the median of each kind, and of its ratio to the plain jobs."""
    print(title)
    for kind in rounds[0]:
        ratio = median([each[kind] / each["plain"] for each in rounds])
        print(f"  {kind:<8} {median([each[kind] for each in rounds]):7.1f} us  x {ratio:.3f}")
    sys.stdout.flush()


def _ignore(result: object) -> None:
    """Nobody waits for this."""


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=2_000, help="of each kind in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--connections", type=int, nargs="*", default=[10, 50])
    parser.add_argument(
        "--widths", type=int, nargs="*", default=[10, 50], help="operations a commit, in one process"
    )
    given = parser.parse_args()
    for width in given.widths:
        measure_engine(given.jobs, given.rounds, width)
    for connections in given.connections:
        measure_wire(given.jobs, given.rounds, connections)


if __name__ == "__main__":
    main()
