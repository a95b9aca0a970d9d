"""The load, as a process of its own: `python -m bench.loader SPEC` prints what it saw as one line of JSON.

The modes: `enqueue` (one job a request; HTTP/2 with `h2`), `bulk`, `work` (take and settle until `jobs` are done), `cycle`
(enqueue, fail, wait, run again, succeed), `takers` (many streams wait for one batch), and from `bench.paced` `beside`, `heavy` and
`burst`, which send at a steady rate.
"""

import asyncio
import json
import resource
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from statistics import median_low
from time import perf_counter_ns
from typing import Any

import uvloop

from bench.figures import latencies
from bench.http1 import HOST, Caller, LoadError, NotServed, TakeStream, job_id, request
from bench.http2 import Multiplexer

H2_CONNECTIONS = 4
BULK_SETTLE_MOST = 1_000
MOST_REFUSED = 10_000
NOT_SERVED = 3
"""Exit code of a load whose route the server does not have."""
MOST_NAMED = 500
"""Queues that one take names; the server allows 1,000."""


@dataclass(frozen=True)
class Spec:
    """What to do to which server; each mode reads what it needs.

    Attributes:
        queues: Spread the jobs over so many queues, `queue`0, `queue`1 and so on; 0: all are in `queue`.
        take_all: The streams take from all queues and name none.
        settle: `ack` and `fail` settle one job a request, `ack-bulk` and `fail-bulk` up to 1,000.
        due_at: Epoch ms; also the `ready_at` of a fill.
        rate: Requests a second.
        heavy: Bytes.
        rounds: How often the takers wait for a batch.
        limit_s: When the load ends at the latest; if `part` is set, with what is done by then.
    """

    port: int
    mode: str
    jobs: int = 0
    conns: int = 32
    batch: int = 1_000
    h2: bool = False
    queue: str = "default"
    queues: int = 0
    take_all: bool = False
    payload: int = 100
    streams: int = 2
    prefetch: int = 200
    settle: str = "ack"
    rounds: int = 5
    due_at: int | None = None
    rate: int = 500
    seconds: float = 3.0
    heavy: int = 0
    heavy_rate: int = 0
    last_id: str = ""
    limit_s: float = 120.0
    part: bool = False


def job(spec: Spec, size: int | None = None, **more: Any) -> bytes:
    """Write one job of the load; `size` is the payload's, in bytes."""
    fields: dict[str, Any] = {"queue": spec.queue, "type": "load", **more}
    if spec.due_at is not None and spec.mode == "bulk":
        fields["ready_at"] = spec.due_at
    fields["payload"] = {"n": 1, "a": "a" * (spec.payload if size is None else size)}
    return json.dumps(fields, separators=(",", ":")).encode()


def bulk(spec: Spec, first: int, count: int) -> bytes:
    """Build the request that enqueues `count` jobs; the n-th job of the load goes to queue n modulo `queues`."""
    if not spec.queues:
        jobs = [job(spec)] * count
    else:
        jobs = [job(spec, queue=f"{spec.queue}{n % spec.queues}") for n in range(first, first + count)]
    return request("POST", "/jobs/bulk", b'{"jobs":[' + b",".join(jobs) + b"]}")


def names(spec: Spec, stream: int) -> str:
    """Write which queues a stream takes from: all, `queue`, or its share of `queue`0, `queue`1 and so on."""
    if spec.take_all:
        return ""
    if not spec.queues:
        return spec.queue
    share = islice(range(stream, spec.queues, spec.streams), MOST_NAMED)
    return ",".join(f"{spec.queue}{n}" for n in share)


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

    def lost(self, reason: str, error: type[Exception] = LoadError) -> None:
        """End the run as void, unless it has ended already."""
        if not self.finished.done():
            self.finished.set_exception(error(reason))

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
        try:
            async with asyncio.timeout(self.spec.limit_s):
                await self.finished
        except TimeoutError:
            if not self.spec.part:
                raise
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
    wire = request("POST", "/jobs", job(spec)) if step == 1 else bulk(spec, 0, step)
    issued = 0
    keep, sample = load.samples_ns.append, perf_counter_ns

    def send(caller: Caller) -> None:
        nonlocal issued
        if issued < spec.jobs:
            caller.send(bulk(spec, issued, step) if spec.queues else wire)
            issued += step

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


_FAILURE = b'"message":"connection refused","error_type":"IOError","backtrace":"a.go:1\\nb.go:2"}'
_FAIL_BODY = b"{" + _FAILURE


def settling(how: str, ids: list[bytes]) -> bytes:
    """Build the request that settles some jobs."""
    if how == "ack":
        return b"POST /jobs/" + ids[0] + _ACK_TAIL
    if how == "fail":
        return b"POST /jobs/" + ids[0] + _FAIL_TAIL
    if how == "ack-bulk":
        return request("POST", "/jobs/success", b'{"ids":["' + b'","'.join(ids) + b'"]}')
    failures = b",".join([b'{"id":"' + one + b'",' + _FAILURE for one in ids])
    return request("POST", "/v1/jobs/failure", b'{"failures":[' + failures + b"]}")


_ACK_TAIL = f"/success HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 0\r\n\r\n".encode()
_FAIL_TAIL = request("POST", "/failure", _FAIL_BODY).removeprefix(b"POST ")


class Work:
    """Takes over `streams` streams and settles over `conns` connections.

    A delivered job whose settlement is refused is counted and settled again: the peer does that at times.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._how = load.spec.settle
        self._most = BULK_SETTLE_MOST if self._how.endswith("-bulk") else 1
        self._ids: deque[bytes] = deque()
        self._idle: list[Caller] = []
        self._woken = False

    async def run(self) -> dict[str, Any]:
        """Take and settle until the jobs are done."""
        load, spec = self._load, self._load.spec
        self._idle = await load.callers(spec.conns, self._answered)
        begun = perf_counter_ns()
        for n in range(spec.streams):
            queues = names(spec, n)
            await load.connect(lambda queues=queues: TakeStream(queues, spec.prefetch, self._took, load.lost))  # type: ignore[misc]
        return await load.wait(begun)

    def _took(self, lines: list[bytes]) -> None:
        self._ids.extend(map(job_id, lines))
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
        caller.send(settling(self._how, ids))

    def _answered(self, caller: Caller, status: int, body: bytes) -> None:
        load = self._load
        load.samples_ns.append(perf_counter_ns() - caller.started)
        if status in (200, 204):
            load.count(len(caller.carried))
        elif status in (404, 405) and self._how == "fail-bulk":
            load.lost("the server takes no reports of failure in bulk", NotServed)
        else:
            load.refused += len(caller.carried)
            self._ids.extend(caller.carried)
            if load.refused > MOST_REFUSED:
                load.lost(f"settlements are refused: {status} {body[:200]!r}")
        if self._ids:
            self._settle(caller)
        else:
            self._idle.append(caller)


class Cycle:
    """Sends each job through a whole life: enqueued alone, taken, failed, waited for, taken again, acknowledged.

    Every connection settles what has been taken; one that finds nothing to settle enqueues.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._enqueue = request("POST", "/jobs", job(load.spec, backoff=_BACKOFF))
        self._left = load.spec.jobs
        self._lines: deque[bytes] = deque()
        self._idle: list[Caller] = []

    async def run(self) -> dict[str, Any]:
        """Run until every job has succeeded."""
        load, spec = self._load, self._load.spec
        callers = await load.callers(spec.conns, self._answered)
        for _ in range(spec.streams):
            await load.connect(lambda: TakeStream(spec.queue, spec.prefetch, self._took, load.lost))
        begun = perf_counter_ns()
        for caller in callers:
            self._next(caller)
        return await load.wait(begun)

    def _took(self, lines: list[bytes]) -> None:
        self._lines.extend(lines)
        while self._idle and self._lines:
            self._next(self._idle.pop())

    def _next(self, caller: Caller) -> None:
        if self._lines:
            line = self._lines.popleft()
            caller.carried = ["fail" if b'"attempts":0,' in line else "ack"]
            caller.send(settling(caller.carried[0], [job_id(line)]))
        elif self._left:
            self._left -= 1
            caller.carried = ["enqueue"]
            caller.send(self._enqueue)
        else:
            self._idle.append(caller)

    def _answered(self, caller: Caller, status: int, body: bytes) -> None:
        load, (what,) = self._load, caller.carried
        load.samples_ns.append(perf_counter_ns() - caller.started)
        if status != _EXPECTED[what]:
            load.lost(f"{what} was answered {status} {body[:200]!r}")
        if what == "ack":
            load.count(1)
        self._next(caller)


_BACKOFF = {"exponent": 1.0, "base_ms": 0, "jitter_ms": 0}
"""The shortest first wait that Zizq's three numbers allow: 1 s."""
_EXPECTED = {"enqueue": 201, "fail": 200, "ack": 204}


_SHED = 503
AGAIN_S = 1.0
"""After how long a request that was shed is sent again."""


class Takers:
    """Opens a stream for each of `queues` queues, and enqueues one job for each of them in one request.

    Latency counts from sending that request to the job's arrival. After each round all jobs are acknowledged in one request.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._ids: list[bytes] = []
        self._opened = 0
        self._rounds_ns: list[int] = []
        self._began = 0
        self._all_opened: asyncio.Future[None] = load.loop.create_future()
        self._all_taken: asyncio.Future[None] = load.loop.create_future()
        self._answer: asyncio.Future[tuple[int, bytes]] = load.loop.create_future()

    async def run(self) -> dict[str, Any]:
        """Open the streams, run the rounds, and give the median of how long it took until all had theirs."""
        load, spec = self._load, self._load.spec
        (caller,) = await load.callers(1, self._answered)
        for n in range(spec.queues):
            queue = f"{spec.queue}{n}"
            await load.connect(lambda queue=queue: TakeStream(queue, 1, self._took, load.lost, self._open))  # type: ignore[misc]
        await self._either(self._all_opened)
        wire = bulk(spec, 0, spec.queues)
        begun = perf_counter_ns()
        for _ in range(spec.rounds):
            self._ids, self._all_taken = [], load.loop.create_future()
            await self._ask(caller, wire, 201, self._all_taken)
            await self._ask(caller, settling("ack-bulk", self._ids), 204)
        if not load.finished.done():
            load.finished.set_result(None)
        load.done = spec.queues * spec.rounds
        load.extra["all_ms"] = median_low(self._rounds_ns) / 1e6
        return await load.wait(begun)

    def _open(self) -> None:
        self._opened += 1
        if self._opened == self._load.spec.queues:
            self._all_opened.set_result(None)

    def _took(self, lines: list[bytes]) -> None:
        took_ns = perf_counter_ns() - self._began
        for line in lines:
            self._load.samples_ns.append(took_ns)
            self._ids.append(job_id(line))
        if len(self._ids) == self._load.spec.queues:
            self._rounds_ns.append(took_ns)
            self._all_taken.set_result(None)

    async def _ask(
        self, caller: Caller, wire: bytes, status: int, also: asyncio.Future[None] | None = None
    ) -> None:
        answered, body = _SHED, b""
        while answered == _SHED:  # after the crowd of the round before, on a slow machine; nothing was stored
            self._answer = self._load.loop.create_future()
            self._began = perf_counter_ns()
            caller.send(wire)
            await self._either(self._answer)
            answered, body = self._answer.result()
            if answered == _SHED:
                await asyncio.sleep(AGAIN_S)
        if answered != status:
            raise LoadError(f"a request was answered {answered} {body[:200]!r}")
        if also is not None:
            await self._either(also)

    def _answered(self, caller: Caller, status: int, body: bytes) -> None:
        self._answer.set_result((status, body))

    async def _either(self, wanted: "asyncio.Future[Any]") -> None:
        """Wait for a result, unless the run is void before."""
        async with asyncio.timeout(self._load.spec.limit_s):
            await asyncio.wait({wanted, self._load.finished}, return_when="FIRST_COMPLETED")
        if not wanted.done():
            self._load.finished.result()


async def run(spec: Spec) -> dict[str, Any]:
    """Run one load to its end and give its figures."""
    from bench import paced

    load = Load(spec)
    if spec.mode in ("work", "cycle", "takers"):
        return await {"work": Work, "cycle": Cycle, "takers": Takers}[spec.mode](load).run()
    if spec.mode in ("beside", "heavy", "burst"):
        return await paced.run(load)
    return await (enqueue_h2(load) if spec.h2 else enqueue(load))


def main() -> None:
    """Run what the first argument, a `Spec` in JSON, asks for."""
    try:
        result = uvloop.run(run(Spec(**json.loads(sys.argv[1]))))
    except NotServed as error:
        print(error, file=sys.stderr)
        raise SystemExit(NOT_SERVED) from error
    except (LoadError, TimeoutError) as error:
        raise SystemExit(f"the load failed: {error!r}") from error
    print(json.dumps(result))


if __name__ == "__main__":
    main()
