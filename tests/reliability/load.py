"""Pieces of load for the rigs: fill a server, watch its latency, take and settle in the background."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from .wire import Address, Client, Hangup, Reply, Taker, encode

BULK = 10_000
GENEROSITY = 3
"""How many times a benchmark's figure a test allows: it may share its processors with anything."""
AS_PROMISED = 1 if os.environ.get("ANEW_NIGHTLY") else GENEROSITY
"""The same where the figure is a promise: by night, where tests run alone, it is kept to."""

JOB: dict[str, object] = {"type": "t", "queue": "q", "payload": None}


def fill(address: Address, count: int, *, payload: object = None, **fields: object) -> float:
    """Enqueue so many equal jobs in bulk.

    Args:
        address: Where the server listens.
        count: Jobs; a multiple of `BULK`, or less than it.
        payload: Of each.
        fields: Further fields of each, such as ``queue`` or ``ready_at``.

    Returns:
        Seconds it took.
    """
    job = {"type": "fill", "queue": "fill", "payload": payload} | fields
    size = min(count, BULK)
    request = encode("POST", "/jobs/bulk", {"jobs": [job] * size})
    begun = time.monotonic()
    with Client(address) as client:
        for _ in range(count // size):
            client.socket.sendall(request)
            reply = client.receive()
            assert reply.status == 201, reply
    return time.monotonic() - begun


def enqueue(client: Client, **fields: object) -> Reply:
    """Enqueue one small job."""
    return client.request("POST", "/jobs", JOB | fields)


def count(client: Client, query: str = "") -> int:
    """Ask how many jobs match."""
    reply = client.request("GET", f"/jobs/count?{query}")
    assert reply.status == 200, reply
    return int(reply.json()["count"])


def quantile(values: list[float], share: float) -> float:
    """Give the value that this share of all values does not exceed; at least one value is needed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def probe(address: Address, until: Callable[[int], bool], *, queue: str = "probe") -> list[float]:
    """Enqueue small jobs one after another on one connection.

    Args:
        address: Where the server listens.
        until: Called with the number of enqueues so far; true ends the probe.
        queue: Where they go.

    Returns:
        Milliseconds that each took from the first byte out to the last byte in.
    """
    request = encode("POST", "/jobs", {"type": "probe", "queue": queue, "payload": None})
    waits: list[float] = []
    with Client(address) as client:
        while not until(len(waits)):
            begun = time.perf_counter()
            client.socket.sendall(request)
            reply = client.receive()
            waits.append((time.perf_counter() - begun) * 1000)
            assert reply.status == 201, reply
    return waits


def measure(address: Address, number: int = 1000) -> list[float]:
    """Give the latencies of so many single enqueues, ms."""
    return probe(address, lambda so_far: so_far >= number)


class Background:
    """Runs one function in a thread until it returns, and brings its error back.

    The function gets an event that is set when it should come to its end.
    """

    def __init__(self, work: Callable[[threading.Event], Any]) -> None:
        self.stopping = threading.Event()
        self.result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def _run(self, work: Callable[[threading.Event], Any]) -> None:
        try:
            self.result = work(self.stopping)
        except BaseException as error:  # raised again where the result is wanted
            self._error = error

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def stop(self, timeout: float = 30) -> Any:
        """Ask it to end, wait, and give what it returned."""
        self.stopping.set()
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "did not come to its end"
        if self._error is not None:
            raise self._error
        return self.result


class Drainer:
    """A worker that takes and settles in bulk, in a thread.

    Attributes:
        done: Jobs settled so far.
        refused: Settlements that were answered with anything but success.
    """

    def __init__(self, address: Address, *, queue: str = "", prefetch: int = 200) -> None:
        self.done = 0
        self.refused: list[int] = []
        self._address = address
        self._taker = Taker(address, queue=queue, prefetch=prefetch)
        self._work = Background(self._drain)

    def __enter__(self) -> Drainer:
        self._work.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._work.stopping.set()
        self._taker.client.close_both_ways()
        self._work.stop()
        self._taker.client.close()

    def _drain(self, stopping: threading.Event) -> None:
        with Client(self._address) as settler:
            while not stopping.is_set():
                try:
                    jobs = self._taker.take(1000)
                except (TimeoutError, Hangup, OSError):
                    if stopping.is_set():
                        return
                    raise
                reply = settler.request("POST", "/jobs/success", {"ids": [job["id"] for job in jobs]})
                if reply.status == 204:
                    self.done += len(jobs)
                else:
                    self.refused.append(reply.status)
