"""What is measured: each scenario as the loads that make it up."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.http1 import NotServed
from bench.loader import MOST_NAMED, NOT_SERVED
from bench.servers import Server

WAITING = {"full": 1_000_000, "quick": 100_000}
"""Jobs that wait in another queue in the `backlog` rows."""
BURST = {"full": 100_000, "quick": 20_000}
_FILL_CONNS = 4
_FILL_BATCH = 1_000
_SPREAD_S = 10.0
_WARM = 5_000
_FILL_S = 380
_LOADER_S = 400
_AHEAD_S = (5, 10, 20, 40, 80)
_SPARE_MS = 2_000


@dataclass(frozen=True)
class Rate:
    """One rate: how many jobs, whether they must be there beforehand, and the loader's settings."""

    full: int
    quick: int
    spec: dict[str, Any]
    fill: bool = field(default=False)

    def jobs(self, size: str) -> int:
        """Tell how many jobs a run of this size has."""
        return self.full if size == "full" else self.quick


RATES = {
    "enqueue1": Rate(8_000, 1_000, {"mode": "enqueue", "conns": 1}),
    "enqueue32": Rate(60_000, 10_000, {"mode": "enqueue", "conns": 32}),
    "enqueue128": Rate(80_000, 10_000, {"mode": "enqueue", "conns": 128}),
    "h2": Rate(80_000, 10_000, {"mode": "enqueue", "conns": 128, "h2": True}),
    "bulk": Rate(300_000, 50_000, {"mode": "bulk", "conns": 8, "batch": 1_000}),
    "ack-single": Rate(60_000, 10_000, {"mode": "work", "prefetch": 200, "settle": "ack"}, True),
    "ack-bulk": Rate(200_000, 40_000, {"mode": "work", "prefetch": 1_000, "settle": "ack-bulk"}, True),
    "fail": Rate(40_000, 5_000, {"mode": "work", "prefetch": 200, "settle": "fail"}, True),
    "fail-bulk": Rate(100_000, 20_000, {"mode": "work", "prefetch": 1_000, "settle": "fail-bulk"}, True),
    "cycle": Rate(30_000, 4_000, {"mode": "cycle"}),
}
NAMES = [*RATES, "backlog", "bursts", "queues", "takers"]
QUEUES = (10, 100, 1_000, 10_000, 50_000)
TAKERS = {"full": (10, 100, 500, 1_000, 2_000), "quick": (10, 2_000)}


def load(server: Server, **spec: Any) -> dict[str, Any]:
    """Run the loader in its own process.

    Raises:
        NotServed: The server has no such route.
        RuntimeError: The load failed; the message is the loader's.
    """
    line = [sys.executable, "-m", "bench.loader", json.dumps({"port": server.port, **spec})]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=_LOADER_S, cwd=Path(__file__).parent.parent, check=False
    )
    if done.returncode == NOT_SERVED:
        raise NotServed(done.stderr.strip())
    if done.returncode:
        raise RuntimeError(f"{server.name}: {done.stderr.strip()[-800:]} ({spec})")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def fill(server: Server, queue: str, jobs: int, **spec: Any) -> dict[str, Any]:
    """Enqueue `jobs` in bulk, for another load to find."""
    return load(
        server,
        **{"mode": "bulk", "queue": queue, "jobs": jobs, "conns": _FILL_CONNS, "limit_s": _FILL_S, **spec},
    )


def _used(server: Server, queue: str, **spec: Any) -> dict[str, Any]:
    """Run one load and add what the server used for it."""
    before = server.usage()
    result = load(server, queue=queue, **spec)
    after = server.usage()
    cpu_s = after.cpu_s - before.cpu_s
    return {
        **result,
        "server": server.name,
        "cpu_us": cpu_s * 1e6 / max(1, result["jobs"]),
        "rss_mb": after.rss_mb,
        "loader_share": result["loader_cpu_s"] / result["seconds"],
    }


def warm(server: Server) -> None:
    """Bring a server that has just started to where it will stay: code run once, files grown to their size."""
    load(server, mode="enqueue", queue="warm", jobs=_WARM)
    load(server, mode="work", queue="warm", jobs=_WARM, settle="ack-bulk")


def rate(server: Server, name: str, size: str) -> dict[str, Any]:
    """Measure one rate of one server, in a queue of its own."""
    what = RATES[name]
    queue = f"bench-{name}-{time.monotonic_ns()}"
    if what.fill:
        fill(server, queue, what.jobs(size))
    return _used(server, queue, jobs=what.jobs(size), **what.spec)


@dataclass(frozen=True)
class Spread:
    """How jobs that are spread over many queues are taken and acknowledged."""

    take_all: bool
    settle: str
    full: int
    quick: int


SPREADS = {
    "all, bulk": Spread(True, "ack-bulk", 100_000, 20_000),
    "all, single": Spread(True, "ack", 30_000, 5_000),
    "named, bulk": Spread(False, "ack-bulk", 100_000, 20_000),
    "named, single": Spread(False, "ack", 30_000, 5_000),
}
"""Takes from all queues, or two that name up to 500 queues each; acknowledged in bulk or one by one."""


def spread(server: Server, queues: int, how: Spread, size: str) -> dict[str, Any]:
    """Measure takes from jobs that lie in many queues; a server that is too slow is stopped after 10 s.

    Every queue has a ready job at the start. Where takes name queues, most of the jobs lie in those.
    """
    prefix, jobs = "bench-q", how.full if size == "full" else how.quick
    if how.take_all:
        fill(server, prefix, max(jobs, queues), queues=queues)
    else:
        fill(server, prefix, queues, queues=queues, batch=min(queues, _FILL_BATCH))
        queues = min(queues, 2 * MOST_NAMED)
        fill(server, prefix, jobs, queues=queues)
    prefetch = 1_000 if how.settle == "ack-bulk" else 200
    settings = {"queues": queues, "take_all": how.take_all, "settle": how.settle, "prefetch": prefetch}
    return _used(server, prefix, mode="work", jobs=jobs, limit_s=_SPREAD_S, part=True, **settings)


def takers(server: Server, streams: int, size: str) -> dict[str, Any]:
    """Measure how long it takes until each of many streams has its job of one batch."""
    rounds = 5 if size == "full" else 2
    return _used(server, f"bench-{time.monotonic_ns()}-", mode="takers", queues=streams, rounds=rounds)


def burst(server: Server, size: str) -> dict[str, Any]:
    """Measure how late the last of very many jobs due in one instant is, and what other enqueues wait meanwhile.

    The jobs must all be stored before they come due; a server too slow for the first guess gets longer.

    Raises:
        RuntimeError: Storing them takes longer than the longest guess.
    """
    for ahead_s in _AHEAD_S:
        queue = f"bench-{time.monotonic_ns()}"
        due_at = int((time.time() + ahead_s) * 1000)
        filled = fill(server, queue + "-burst", BURST[size], due_at=due_at)
        if time.time() * 1000 < due_at - _SPARE_MS:
            return _used(server, queue, mode="burst", conns=16, due_at=due_at, last_id=filled["last_id"])
    raise RuntimeError(f"{server.name}: {BURST[size]:,} scheduled jobs are not stored in {ahead_s} s")


def beside(server: Server, heavy: int, heavy_rate: int, size: str) -> dict[str, Any]:
    """Measure small enqueues (500 a second) beside `heavy_rate` jobs a second of `heavy` bytes each."""
    seconds = 5.0 if size == "full" else 2.0
    queue = f"bench-{time.monotonic_ns()}"
    settings = {"conns": 16, "heavy": heavy, "heavy_rate": heavy_rate, "seconds": seconds}
    return _used(server, queue, mode="beside", **settings)


BURSTS = {
    "burst": burst,
    "beside-none": lambda server, size: beside(server, 0, 0, size),
    "beside-1MB": lambda server, size: beside(server, 1_000_000, 10, size),
    "beside-10MB": lambda server, size: beside(server, 10_000_000, 2, size),
}
"""What others wait: rows whose measure is a latency, not a rate."""
