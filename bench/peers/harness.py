"""One load on one queue, run by the interpreter that has its packages; standard library alone.

    python harness.py MODULE LOAD SCALE

MODULE is an adapter of this folder:
- `WORKER`: the queue's own worker program, its path or a name beside the interpreter, and its arguments;
- `enqueue(task, argument)`: its normal call, of the tasks `noop`, `stamp` and `slow` (bodies.py), or `aenqueue`,
  a coroutine function: then `start()` is awaited first, and callers are coroutines where others are threads;
- `enqueue_many(task, arguments)` or `aenqueue_many`, where it has it;
- `EVERY`: every how many no-op jobs its worker writes a byte, 100 or, for a slow one, 1;
- `setup()` makes its tables; `connect()` opens what a producer needs.

Environment: BENCH_FOLDER, an empty folder; BENCH_URL, an empty Redis or database. Prints one JSON object: figures.
"""

import asyncio
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median

from bodies import EVERY

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
LIMIT_S = 6.0  # no load goes on for longer: a slow queue does fewer jobs
SINGLE, CONCURRENT, BULK, CHUNK, DRAINED, WOKEN = 2_000, 9_600, 40_000, 2_000, 20_000, 200
KILL_LIMIT_S = 90.0


class Producer:
    """The adapter's calls, from threads or coroutines."""

    def __init__(self, peer):
        self.peer = peer
        self.asynchronous = hasattr(peer, "aenqueue")
        self.bulk = hasattr(peer, "enqueue_many") or hasattr(peer, "aenqueue_many")
        self.runner = asyncio.Runner()
        if self.asynchronous:
            self.runner.run(peer.start())
        elif hasattr(peer, "connect"):
            peer.connect()

    def enqueue(self, task, argument):
        """Enqueue one job from this thread."""
        if self.asynchronous:
            self.runner.run(self.peer.aenqueue(task, argument))
        else:
            self.peer.enqueue(task, argument)

    def enqueue_many(self, task, arguments):
        """Enqueue some in one call."""
        if self.asynchronous:
            self.runner.run(self.peer.aenqueue_many(task, arguments))
        else:
            self.peer.enqueue_many(task, arguments)

    def concurrently(self, callers, numbers):
        """Enqueue a `noop` for each number, so many at once; give when it began, when it ended, seconds of each call."""
        began = time.perf_counter()
        took = []
        left = iter(numbers)
        if self.asynchronous:
            self.runner.run(self._coroutines(callers, left, took, began + LIMIT_S))
        else:
            self._threads(callers, left, took, began + LIMIT_S)
        return began, time.perf_counter(), took

    def _threads(self, callers, left, took, end):
        def call():
            for number in left:
                before = time.perf_counter()
                self.peer.enqueue("noop", number)
                took.append(time.perf_counter() - before)
                if before > end:
                    break

        threads = [threading.Thread(target=call) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async def _coroutines(self, callers, left, took, end):
        async def call():
            for number in left:
                before = time.perf_counter()
                await self.peer.aenqueue("noop", number)
                took.append(time.perf_counter() - before)
                if before > end:
                    break

        await asyncio.gather(*(call() for _ in range(callers)))


def single(peer, scale, callers):
    """Single enqueues of one process, a second."""
    producer = Producer(peer)
    producer.enqueue("noop", 1)
    count = int((SINGLE if callers == 1 else CONCURRENT) * scale)
    began, ended, took = producer.concurrently(callers, range(1, count + 1))
    return {f"single enqueue, {callers} at once, /s": len(took) / (ended - began)}


def processes(peer, scale):
    """Four processes of four callers; their clocks are one, so that begins and ends compare."""
    command = [sys.executable, __file__, peer.__name__, "produce", str(scale)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for child in children:
        child.stdout.readline()  # it has connected and enqueued one
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    told = [json.loads(child.communicate()[0]) for child in children]
    took = sorted(one for _, _, times in told for one in times)
    span = max(ended for _, ended, _ in told) - min(began for began, _, _ in told)
    return {
        "single enqueue, 4 x 4, /s": len(took) / span,
        "single enqueue, 4 x 4, p99, ms": took[len(took) * 99 // 100] * 1_000,
    }


def produce(peer, scale):
    """One of the four processes."""
    producer = Producer(peer)
    producer.enqueue("noop", 1)
    print("ready", flush=True)
    sys.stdin.readline()
    return producer.concurrently(4, range(1, int(CONCURRENT / 4 * scale) + 1))


def bulk(peer, scale):
    """Jobs a second in calls of 2,000."""
    producer = Producer(peer)
    if not producer.bulk:
        return {}
    producer.enqueue("noop", 1)
    done = 0
    began = time.perf_counter()
    while done < BULK * scale and time.perf_counter() < began + LIMIT_S:
        producer.enqueue_many("noop", range(done, done + CHUNK))
        done += CHUNK
    return {"bulk of 2,000, /s": done / (time.perf_counter() - began)}


def drain(peer, scale, task="noop", workers=1):
    """How many no-op jobs a second a worker runs, from the first to the last: its start is not counted."""
    producer = Producer(peer)
    every = getattr(peer, "EVERY", EVERY)
    numbers = range(0, int(DRAINED * workers * scale) * (EVERY // every), EVERY // every)
    if producer.bulk:
        for at in range(0, len(numbers), CHUNK):
            producer.enqueue_many(task, numbers[at : at + CHUNK])
        count = len(numbers)
    else:
        count = len(producer.concurrently(16, numbers[: len(numbers) // 4])[2])
    done = FOLDER / "done"
    with contextlib.ExitStack() as stack:
        for _ in range(workers):
            stack.enter_context(worker(peer))
        until(lambda: size(done) > 0, 20.0)
        began, first = time.perf_counter(), size(done)
        until(lambda: size(done) >= count // every, LIMIT_S)
        ended, last = time.perf_counter(), size(done)
    return {drained(task, workers): (last - first) * every / (ended - began)}


def drained(task, workers):
    """The figure's name."""
    kind = "coroutines" if task == "coroutine" else "one worker" if workers == 1 else f"{workers} workers"
    return f"drain, {kind}, /s"


def wake(peer, scale):
    """Milliseconds from a single enqueue to the job's start in an idle worker."""
    producer = Producer(peer)
    stamps = FOLDER / "stamps"
    with worker(peer):
        producer.enqueue("stamp", time.time())
        until(lambda: size(stamps) > 0, 20.0)
        time.sleep(0.5)
        end = time.perf_counter() + LIMIT_S
        for n in range(1, int(WOKEN * scale) + 1):
            time.sleep(0.01)
            producer.enqueue("stamp", time.time())
            until(lambda n=n: len(lines(stamps)) > n, 10.0)
            if time.perf_counter() > end:
                break
    times = sorted(map(float, lines(stamps)[1:]))
    return {
        "enqueue to start, p50, ms": median(times),
        "enqueue to start, p99, ms": times[len(times) * 99 // 100],
    }


def kill(peer, scale):
    """Seconds from `kill -9` of a worker to the next run of its job by another; none within 90 s is infinite."""
    runs = FOLDER / "runs"
    Producer(peer).enqueue("slow", 1)
    with worker(peer) as first:
        until(lambda: lines(runs), 20.0)
        with worker(peer):
            time.sleep(2.0)  # until it waits for jobs
            end(first.pid)
            at = time.time()
            until(lambda: len(lines(runs)) > 1, KILL_LIMIT_S)
            again = lines(runs)[1:]
    return {"kill -9 to run again, s": float(again[0]) - at if again else float("inf")}


@contextlib.contextmanager
def worker(peer):
    """The queue's worker program, a session of its own, ended with all its processes."""
    program, *arguments = peer.WORKER
    with open(FOLDER / "worker.log", "ab") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / program), *arguments],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
        if process.poll() not in (None, -signal.SIGKILL):
            raise SystemExit(f"its worker ended: {(FOLDER / 'worker.log').read_text()[-2000:]}")
    finally:
        end(process.pid)
        process.wait()


def end(session):
    """Kill all processes of a session: RQ's worker runs each job in a process group of its own."""
    for process in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(process) == session:
                os.kill(process, signal.SIGKILL)


def until(condition, timeout_s):
    """Wait for what another process does, or until the time is over."""
    end = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.0005)


def size(path):
    """Bytes in a file; 0 without it."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def lines(path):
    """Whole lines of a file; none without it."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


LOADS = {
    "single": lambda peer, scale: single(peer, scale, 1),
    "concurrent": lambda peer, scale: single(peer, scale, 16),
    "processes": processes,
    "bulk": bulk,
    "drain": drain,
    "wake": wake,
    "kill": kill,
    "coroutines": lambda peer, scale: drain(peer, scale, task="coroutine"),
    "workers": lambda peer, scale: drain(peer, scale, workers=2),
    "produce": produce,
}

if __name__ == "__main__":
    module, load, scale = sys.argv[1:]
    adapter = importlib.import_module(module)
    if load != "produce" and hasattr(adapter, "setup"):
        adapter.setup()
    print(json.dumps(LOADS[load](adapter, float(scale))), flush=True)
    os._exit(0)  # clients' own threads and pools have no say
