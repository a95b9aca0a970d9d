"""The load, as a process of its own: `python -m bench.loader SPEC` prints what it saw as one line of JSON.

The modes: `enqueue` (one job a request; HTTP/2 with `h2`), `bulk`, `work` (take and acknowledge until `jobs` are done),
and from `bench.paced` `beside`, `heavy` and `burst`, which send at a steady rate.
"""

import asyncio
import json
import resource
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import uvloop

from bench.figures import latencies
from bench.http1 import HOST, Caller, LoadError, TakeStream, request
from bench.http2 import Multiplexer

H2_CONNECTIONS = 4
BULK_ACK_MOST = 1_000
MOST_REFUSED = 10_000


@dataclass(frozen=True)
class Spec:
    """What to do to which server; each mode reads what it needs.

    `rate` is in requests a second, `heavy` in bytes, `due_at` in epoch milliseconds (also as `ready_at` of a fill).
    """

    port: int
    mode: str
    jobs: int = 0
    conns: int = 32
    batch: int = 1_000
    h2: bool = False
    queue: str = "default"
    payload: int = 100
    streams: int = 2
    prefetch: int = 200
    ack: str = "single"
    due_at: int | None = None
    rate: int = 500
    seconds: float = 3.0
    heavy: int = 0
    heavy_rate: int = 0
    last_id: str = ""
    limit_s: float = 120.0


def job(spec: Spec, size: int | None = None) -> bytes:
    """Write one job of the load; `size` is the payload's, in bytes."""
    fields: dict[str, Any] = {"queue": spec.queue, "type": "load"}
    if spec.due_at is not None and spec.mode == "bulk":
        fields["ready_at"] = spec.due_at
    fields["payload"] = {"n": 1, "a": "a" * (spec.payload if size is None else size)}
    return json.dumps(fields, separators=(",", ":")).encode()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Load:
    """What all modes share: the connections, the samples, and the end."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.samples_ns: list[int] = []
        self.done = 0
        self.refused = 0
        self.extra: dict[str, Any] = {}
        self._cpu_s = _cpu_s()
        self.loop = asyncio.get_running_loop()
        self.finished: asyncio.Future[None] = self.loop.create_future()

    def lost(self, reason: str) -> None:
        """End the run as void, unless it has ended already."""
        if not self.finished.done():
            self.finished.set_exception(LoadError(reason))

    def count(self, jobs: int) -> None:
        """Count finished jobs; the last one ends the run."""
        self.done += jobs
        if self.done >= self.spec.jobs and not self.finished.done():
            self.finished.set_result(None)

    async def connect(self, make: Callable[[], asyncio.Protocol]) -> Any:
        """Open one connection and give its protocol."""
        return (await self.loop.create_connection(make, HOST, self.spec.port))[1]

    async def callers(self, count: int, answered: Callable[[Caller, int, bytes], None]) -> list[Caller]:
        """Open `count` connections that report to `answered`."""
        return [await self.connect(lambda: Caller(answered, self.lost)) for _ in range(count)]

    async def wait(self, begun: int) -> dict[str, Any]:
        """Wait for the end and sum up; `begun` is when the first request left (`perf_counter_ns`)."""
        async with asyncio.timeout(self.spec.limit_s):
            await self.finished
        seconds = (perf_counter_ns() - begun) / 1e9
        return {
            "jobs": self.done,
            "seconds": seconds,
            "rate": self.done / seconds,
            **latencies(self.samples_ns),
            "refused": self.refused,
            "loader_cpu_s": _cpu_s() - self._cpu_s,
            **self.extra,
        }


async def enqueue(load: Load) -> dict[str, Any]:
    """Send one job, or `batch` jobs in bulk, a request; each connection has one request under way."""
    spec = load.spec
    step = spec.batch if spec.mode == "bulk" else 1
    body = job(spec)
    wire = request("POST", "/jobs", body)
    if step > 1:
        wire = request("POST", "/jobs/bulk", b'{"jobs":[' + b",".join([body] * step) + b"]}")
    issued = 0
    keep, sample = load.samples_ns.append, perf_counter_ns

    def send(caller: Caller) -> None:
        nonlocal issued
        if issued < spec.jobs:
            issued += step
            caller.send(wire)

    def answered(caller: Caller, status: int, body: bytes) -> None:
        keep(sample() - caller.started)
        if status != 201:
            load.lost(f"an enqueue was answered {status} {body[:200]!r}")
        elif step > 1:
            at = body.rindex(b'"id":"') + 6
            load.extra["last_id"] = max(
                load.extra.get("last_id", ""), body[at : body.index(b'"', at)].decode()
            )
        send(caller)
        load.count(step)

    callers = await load.callers(spec.conns, answered)
    begun = perf_counter_ns()
    for caller in callers:
        send(caller)
    return await load.wait(begun)


async def enqueue_h2(load: Load) -> dict[str, Any]:
    """Send one job a request over HTTP/2: `conns` streams on four connections."""
    spec = load.spec
    issued = 0

    def more() -> bool:
        nonlocal issued
        issued += 1
        return issued <= spec.jobs

    def answered(status: int, took_ns: int) -> None:
        load.samples_ns.append(took_ns)
        if status != 201:
            load.lost(f"an enqueue was answered {status}")
        load.count(1)

    streams = max(1, spec.conns // H2_CONNECTIONS)
    wires: list[Multiplexer] = [
        await load.connect(lambda: Multiplexer(streams, job(spec), more, answered, load.lost))
        for _ in range(min(H2_CONNECTIONS, spec.conns))
    ]
    begun = perf_counter_ns()
    for wire in wires:
        wire.start()
    return await load.wait(begun)


class Work:
    """Takes over `streams` streams and acknowledges over `conns` connections.

    A delivered job whose acknowledgement is refused is counted and acknowledged again: the peer does that at times.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._most = 1 if load.spec.ack == "single" else BULK_ACK_MOST
        self._ids: deque[bytes] = deque()
        self._idle: list[Caller] = []
        self._woken = False

    async def run(self) -> dict[str, Any]:
        """Take and acknowledge until the jobs are done."""
        load, spec = self._load, self._load.spec
        self._idle = await load.callers(spec.conns, self._answered)
        begun = perf_counter_ns()
        for _ in range(spec.streams):
            await load.connect(lambda: TakeStream(spec.queue, spec.prefetch, self._took, load.lost))
        return await load.wait(begun)

    def _took(self, ids: list[bytes]) -> None:
        self._ids.extend(ids)
        if not self._woken:  # once a turn of the loop, so that a bulk gathers what all streams brought
            self._woken = True
            self._load.loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._woken = False
        while self._idle and self._ids:
            self._settle(self._idle.pop())

    def _settle(self, caller: Caller) -> None:
        ids = [self._ids.popleft() for _ in range(min(self._most, len(self._ids)))]
        caller.carried = ids
        if self._most == 1:
            caller.send(_ACK_HEAD + ids[0] + _ACK_TAIL)
        else:
            caller.send(request("POST", "/jobs/success", b'{"ids":["' + b'","'.join(ids) + b'"]}'))

    def _answered(self, caller: Caller, status: int, body: bytes) -> None:
        load = self._load
        load.samples_ns.append(perf_counter_ns() - caller.started)
        if status == 204:
            load.count(len(caller.carried))
        else:
            load.refused += len(caller.carried)
            self._ids.extend(caller.carried)
            if load.refused > MOST_REFUSED:
                load.lost(f"acknowledgements are refused: {status} {body[:200]!r}")
        if self._ids:
            self._settle(caller)
        else:
            self._idle.append(caller)


_ACK_HEAD = b"POST /jobs/"
_ACK_TAIL = f"/success HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 0\r\n\r\n".encode()


async def run(spec: Spec) -> dict[str, Any]:
    """Run one load to its end and give its figures."""
    from bench import paced

    load = Load(spec)
    if spec.mode == "work":
        return await Work(load).run()
    if spec.mode in ("beside", "heavy", "burst"):
        return await paced.run(load)
    return await (enqueue_h2(load) if spec.h2 else enqueue(load))


def main() -> None:
    """Run what the first argument, a `Spec` in JSON, asks for."""
    try:
        result = uvloop.run(run(Spec(**json.loads(sys.argv[1]))))
    except (LoadError, TimeoutError) as error:
        raise SystemExit(f"the load failed: {error!r}") from error
    print(json.dumps(result))


if __name__ == "__main__":
    main()
