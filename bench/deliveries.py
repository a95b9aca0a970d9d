"""Deliveries to webhooks, measured with the real `anew deliver` against a receiver on this machine. Every commit is synced.

    python -m bench.deliveries
    python -m bench.deliveries --load rate --rounds 3
    python -m bench.deliveries --load dead --scale 0.1 --json

rate: deliveries a second of one process, all of them waiting when it starts. hang: what one endpoint of a hundred that never
answers does to the others' time from publication to arrival. dead: the processor time of a process whose million deliveries
wait for an endpoint that is down. kill: after kill -9 of the process, how long until its deliveries come again.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from anew.engine import Call, ThreadCommit
from anew.tasks.opening import open_engine
from anew.topics.documents import NewMessage, SubscriptionDocument, TopicDocument
from anew.topics.keys import Box, load_or_make_secret
from anew.topics.publishing import publish
from anew.topics.registry import NewSubscription, put_topic, subscribe
from anew.topics.terms import TopicTerms

LOADS = ("rate", "hang", "dead", "kill")
ENDPOINTS = 100

RECEIVER = """
import asyncio, json, sys, time

class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.rest = transport, b""

    def data_received(self, data):
        data = self.rest + data
        while (end := data.find(b"\\r\\n\\r\\n")) >= 0:
            head = data[:end].lower()
            at = head.index(b"content-length:") + 15
            size = int(head[at : (head + b"\\r\\n").index(b"\\r\\n", at)])
            if len(data) < end + 4 + size:
                break
            path = head.split(b" ", 2)[1].decode()
            body, data = data[end + 4 : end + 4 + size], data[end + 4 + size :]
            print(path, time.time(), json.dumps(json.loads(body)["data"]), flush=True)
            if path != "/hang":
                self.transport.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 0\\r\\n\\r\\n")
        self.rest = data

async def main():
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

import uvloop
uvloop.run(main())
"""


class Receiver:
    """A receiver in a process of its own, and what it has told: path, instant, data of each request."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.arrived: list[tuple[str, float, Any]] = []
        self._came = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            path, at, data = line.split(" ", 2)
            with self._came:
                self.arrived.append((path, float(at), json.loads(data) if data.strip() else None))
                self._came.notify_all()

    def wait(self, number: int, timeout_s: float = 120) -> None:
        """Wait until so many requests have come."""
        with self._came:
            if not self._came.wait_for(lambda: len(self.arrived) >= number, timeout_s):
                raise SystemExit(f"only {len(self.arrived)} of {number} requests came")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Bench:
    """A store with one topic, and what is done to it.

    Args:
        place: Where its file is.
        policy: Blocks of the topic's delivery policy.
    """

    def __init__(self, place: Path, policy: dict[str, Any]) -> None:
        self.path = place / "jobs.db"
        self.commit: ThreadCommit = open_engine(self.path)
        key = Path(f"{self.path}-webhooks.key")
        self.terms = TopicTerms(box=Box(lambda: load_or_make_secret(key)), confirmation="off")
        self.do(put_topic("bench", TopicDocument(delivery_policy=policy)))

    def do(self, verb: Callable[[Any], Any]) -> Any:
        """Run a verb."""
        return self.commit.apply(Call(verb, lambda _: None))

    def subscribe(self, url: str) -> None:
        """Subscribe an endpoint."""
        new = NewSubscription(endpoint=url, document=SubscriptionDocument())
        self.do(subscribe(self.terms, "bench", new, secrets.token_bytes))

    def publish(self, number: int, data: object = None) -> None:
        """Publish so many messages, a hundred at a time."""
        message = NewMessage(type="bench", data=msgspec.Raw(msgspec.json.encode(data)))
        for start in range(0, number, 100):
            self.do(publish(self.terms, "bench", [message] * min(100, number - start)))

    @contextmanager
    def deliverer(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run a process that delivers."""
        words = [
            sys.executable,
            "-m",
            "anew",
            "deliver",
            "--root-dir",
            str(self.path),
            "--log-level",
            "error",
        ]
        words += ["--webhook-allow-http", "--webhook-allow-cidrs", "127.0.0.1/32"]
        process = subprocess.Popen(words)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def rate(place: Path, scale: float) -> dict[str, float]:
    """Deliveries a second of one process."""
    receiver, bench = Receiver(), Bench(place, {"throttle": {"max_in_flight": 100}})
    for number in range(2):
        bench.subscribe(f"http://127.0.0.1:{receiver.port}/{number}")
    total = int(10_000 * scale) * 2
    began = time.perf_counter()
    bench.publish(total // 2)
    published = time.perf_counter() - began
    with bench.deliverer():
        receiver.wait(total)
    times = [at for _, at, _ in receiver.arrived]
    receiver.close()
    return {"deliveries_a_second": total / (max(times) - min(times)), "made_a_second": total / published}


def hang(place: Path, scale: float) -> dict[str, float]:
    """What an endpoint that never answers does to 99 others."""
    alone, beside = _latencies(place / "alone", scale, False), _latencies(place / "beside", scale, True)
    return {
        "alone_p50_ms": median(alone),
        "alone_p99_ms": _p99(alone),
        "beside_p50_ms": median(beside),
        "beside_p99_ms": _p99(beside),
        "p99_ratio": _p99(beside) / _p99(alone),
    }


def _latencies(place: Path, scale: float, hangs: bool) -> list[float]:
    place.mkdir()
    receiver, bench = Receiver(), Bench(place, {})
    for number in range(ENDPOINTS - hangs):
        bench.subscribe(f"http://127.0.0.1:{receiver.port}/{number}")
    if hangs:
        bench.subscribe(f"http://127.0.0.1:{receiver.port}/hang")
    rounds = max(int(100 * scale), 10)
    with bench.deliverer():
        bench.publish(1)
        receiver.wait(ENDPOINTS)
        for _ in range(rounds):
            time.sleep(0.1)  # a message to each endpoint ten times a second
            bench.publish(1, time.time())
        receiver.wait((ENDPOINTS - hangs) * (rounds + 1))
    found = [
        (at - data) * 1_000 for path, at, data in receiver.arrived if data is not None and path != "/hang"
    ]
    receiver.close()
    return found


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def dead(place: Path, scale: float) -> dict[str, float]:
    """The processor time of a process with very many deliveries for an endpoint that is down."""
    bench = Bench(place, {"health": {"breaker_open": 3600, "breaker_open_max": 3600}})
    bench.subscribe(f"http://127.0.0.1:{_free_port()}/")
    number = int(1_000_000 * scale)
    bench.publish(number)
    with bench.deliverer() as process:
        while not _has_opened(bench):
            time.sleep(0.1)
        time.sleep(3)
        began, used = time.perf_counter(), _cpu_s(process.pid)
        time.sleep(20)
        share = (_cpu_s(process.pid) - used) / (time.perf_counter() - began)
    return {"deliveries": number, "core_percent": 100 * share}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _has_opened(bench: Bench) -> bool:
    rows = bench.do(lambda batch: batch.store.topics.subscribers("bench", -1, 1))
    return b"opened" in rows[0].health


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kill(place: Path, scale: float) -> dict[str, float]:
    """How long it takes until what a killed process was sending comes again."""
    receiver, bench = Receiver(), Bench(place, {})
    bench.subscribe(f"http://127.0.0.1:{receiver.port}/hang")
    with bench.deliverer() as first:
        bench.publish(1)
        receiver.wait(1)
        with bench.deliverer():
            time.sleep(1)  # it has started, and found nothing to do
            first.kill()
            killed = time.time()
            receiver.wait(2, 30)
    receiver.close()
    return {"again_after_s": receiver.arrived[1][1] - killed}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--load", action="append", choices=LOADS, help="only these")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the usual numbers")
    parser.add_argument("--folder", help="where the stores are put")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    loads: dict[str, Callable[[Path, float], dict[str, float]]] = {
        "rate": rate, "hang": hang, "dead": dead, "kill": kill
    }  # fmt: skip
    for name in given.load or LOADS:
        for _ in range(given.rounds):
            with tempfile.TemporaryDirectory(dir=given.folder) as place:
                figures = loads[name](Path(place), given.scale)
            if given.json:
                print(json.dumps({"load": name} | figures), flush=True)
            else:
                print(name, *(f"{key}={value:,.4g}" for key, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()
