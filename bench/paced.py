"""Load at a steady rate, whatever the server does: what others wait while something big goes on."""

import asyncio
import json
import sys
import time
from collections import deque
from dataclasses import asdict, replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from bench import loader
from bench.http1 import Caller, request

if TYPE_CHECKING:
    from bench.loader import Load, Spec

_TICK_S = 0.001
_LOOK_S = 0.01
_LEAD_MS = 1_000
"""How long the steady load runs before the burst is due; its samples are dropped."""
_LEAST_S = 1.0
"""How long it runs at least after that, so that a fast server has enough samples."""


class Pace:
    """Sends `rate` requests a second over a few connections.

    A request that finds no connection free waits, and its latency counts from when it was due (no coordinated omission).
    """

    def __init__(self, load: "Load", wire: bytes, rate: int, samples_ns: list[int]) -> None:
        self._load = load
        self._wire = wire
        self._rate = rate
        self._samples_ns = samples_ns
        self._idle: list[Caller] = []
        self._due: deque[int] = deque()
        self.sent = 0

    async def start(self, conns: int) -> None:
        """Open the connections and begin."""
        self._idle = await self._load.callers(conns, self._answered)
        self._begun = perf_counter_ns()
        self._tick()

    def _tick(self) -> None:
        now = perf_counter_ns()
        while self.sent < (now - self._begun) * self._rate // 1_000_000_000:
            self._due.append(now)
            self.sent += 1
        self._pump()
        self._load.loop.call_later(_TICK_S, self._tick)

    def _pump(self) -> None:
        while self._idle and self._due:
            self._idle.pop().send(self._wire, self._due.popleft())

    def _answered(self, caller: Caller, status: int, body: bytes) -> None:
        self._samples_ns.append(perf_counter_ns() - caller.started)
        if status != 201:
            self._load.lost(f"an enqueue was answered {status} {body[:200]!r}")
        self._load.done += 1
        self._idle.append(caller)
        self._pump()


async def run(load: "Load") -> dict[str, Any]:
    """Run `beside` (small jobs beside heavy ones), `heavy` (those alone) or `burst` (small jobs while very many come due)."""
    await {"beside": _beside, "heavy": _heavy, "burst": _burst}[load.spec.mode](load)
    if not load.finished.done():
        load.finished.set_result(None)
    return await load.wait(load.extra.pop("begun"))


async def _beside(load: "Load") -> None:
    """Send small jobs. The heavy ones have a process of their own: to write ten megabytes would hold up the small ones here."""
    spec = load.spec
    load.extra["begun"] = perf_counter_ns()
    heavy = await _other(replace(spec, mode="heavy")) if spec.heavy else None
    await _small(load).start(spec.conns)
    await asyncio.wait({load.finished}, timeout=spec.seconds)
    if heavy is not None:
        told, _ = await heavy.communicate()
        load.extra["heavy_sent"] = json.loads(told)["jobs"]


async def _other(spec: "Spec") -> asyncio.subprocess.Process:
    words = (sys.executable, "-m", "bench.loader", json.dumps(asdict(spec)))
    return await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)


async def _heavy(load: "Load") -> None:
    spec = load.spec
    load.extra["begun"] = perf_counter_ns()
    big = request("POST", "/jobs", loader.job(spec, spec.heavy))
    await Pace(load, big, spec.heavy_rate, load.samples_ns).start(2)
    await asyncio.wait({load.finished}, timeout=spec.seconds)


def _small(load: "Load") -> Pace:
    return Pace(load, request("POST", "/jobs", loader.job(load.spec)), load.spec.rate, load.samples_ns)


async def _burst(load: "Load") -> None:
    spec, small = load.spec, _small(load)
    assert spec.due_at is not None
    watch = Watch(load)
    await watch.start()
    await asyncio.sleep(max(0.0, spec.due_at - _LEAD_MS - time.time() * 1000) / 1000)
    await small.start(spec.conns)
    await asyncio.sleep(max(0.0, spec.due_at - time.time() * 1000) / 1000)
    load.samples_ns.clear()
    load.done = 0
    load.extra["begun"] = begun = perf_counter_ns()
    await asyncio.wait(
        {load.finished, asyncio.ensure_future(watch.until_ready())}, return_when="FIRST_COMPLETED"
    )
    load.extra["last_late_ms"] = round(time.time() * 1000 - spec.due_at, 1)
    rest = _LEAST_S - (perf_counter_ns() - begun) / 1e9
    await asyncio.wait({load.finished}, timeout=max(0.0, rest))


class Watch:
    """Asks after the job that was enqueued last, and once it is ready, whether any other still waits."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._answer: asyncio.Future[bytes] = load.loop.create_future()

    async def start(self) -> None:
        """Open the connection."""
        (self._caller,) = await self._load.callers(1, self._answered)

    def _answered(self, caller: Caller, status: int, body: bytes) -> None:
        if status != 200:
            self._load.lost(f"a look at the jobs was answered {status} {body[:200]!r}")
        self._answer.set_result(body)

    async def _ask(self, path: str) -> Any:
        self._answer = self._load.loop.create_future()
        self._caller.send(request("GET", path))
        return json.loads(await self._answer)

    async def until_ready(self) -> None:
        """Return when no job of the queue is scheduled any more."""
        queue = self._load.spec.queue + "-burst"
        while (await self._ask(f"/jobs/{self._load.spec.last_id}"))["status"] == "scheduled":
            await asyncio.sleep(_LOOK_S)
        while (await self._ask(f"/jobs?queue={queue}&status=scheduled&limit=1"))["jobs"]:
            await asyncio.sleep(_LOOK_S)
