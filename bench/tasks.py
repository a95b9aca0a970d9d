"""The Python way in, measured through its public names, beside other Python queues if they are installed somewhere.

    python -m bench.tasks
    python -m bench.tasks --peer huey=/path/to/venv/bin/python --rounds 3

Every commit is synced, of the peers too. A peer is a program of `bench/peers/`, run by the Python that has its packages.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
SINGLE, THREADED, BULK, DRAINED, WOKEN = 2_000, 600, 40_000, 20_000, 200

APPLICATION = """
import os, sys, time
from anew import Anew
sys.setswitchinterval(0.0005)
app = Anew({path!r})
@app.task(name="noop")
def noop(n: int) -> None: pass
@app.task(name="anoop")
async def anoop(n: int) -> None: pass
@app.task(name="stamp", queue="stamps")
def stamp(at: float) -> None:
    with open({path!r} + ".stamps", "a") as file: file.write(f"{{(time.time() - at) * 1000}}\\n")
@app.task(name="slow", queue="slow")
def slow(path: str) -> None:
    with open(path, "a") as file: file.write(f"{{time.time()}}\\n")
    time.sleep(60)
"""

Figures = dict[str, float]


def load(path: str) -> Any:
    """The application in this process."""
    names: dict[str, Any] = {"__name__": "bench_app"}
    exec(compile(APPLICATION.format(path=path), "bench_app.py", "exec"), names)
    return names


def start(path: str, code: str) -> subprocess.Popen[bytes]:
    """The application in another process."""
    source = APPLICATION.format(path=path) + code
    return subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.DEVNULL)


def rate(n: int, work: Callable[[], object]) -> float:
    """How many a second."""
    began = time.perf_counter()
    work()
    return n / (time.perf_counter() - began)


def in_threads(work: Callable[[], object], count: int) -> None:
    """Run the same in some threads."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(path: str) -> Figures:
    """All figures of ours on one file."""
    names = load(path)
    app, noop, anoop = names["app"], names["noop"], names["anoop"]
    noop.enqueue(0)

    def single(n: int) -> None:
        for at in range(n):
            noop.enqueue(at)

    figures = {
        "single enqueue, 1 thread, /s": rate(SINGLE, lambda: single(SINGLE)),
        "single enqueue, 16 threads, /s": rate(
            16 * THREADED, lambda: in_threads(lambda: single(THREADED), 16)
        ),
        "bulk of 2,000, /s": rate(
            BULK, lambda: [noop.enqueue_many([(at,) for at in range(2_000)]) for _ in range(BULK // 2_000)]
        ),
    }
    app.run_worker(burst=True)
    for task, name in ((noop, "threads"), (anoop, "coroutines")):
        for _ in range(DRAINED // 2_000):
            task.enqueue_many([(at,) for at in range(2_000)])
        figures[f"drain, {name}, /s"] = rate(DRAINED, lambda: app.run_worker(burst=True))
    figures |= four_processes(path)
    figures |= workers(path, noop)
    figures |= wake_up(path, names)
    figures |= killed(path, names)
    app.close()
    return figures


def four_processes(path: str) -> Figures:
    """Four processes of four threads enqueue single jobs."""
    code = f"""
import threading
def run():
    for at in range({THREADED}): noop.enqueue(at)
noop.enqueue(0)
threads = [threading.Thread(target=run) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    began = time.perf_counter()
    for process in [start(path, code) for _ in range(4)]:
        process.wait()
    # Without what starting an interpreter and importing takes.
    idle = time.perf_counter()
    for process in [start(path, "noop.enqueue(0)") for _ in range(4)]:
        process.wait()
    alone = time.perf_counter() - idle
    return {"single enqueue, 4 x 4, /s": 16 * THREADED / (idle - began - alone)}


def workers(path: str, noop: Any) -> Figures:
    """One worker process and two on one file."""
    rates = []
    for count in (1, 2):
        for _ in range(2 * DRAINED // 2_000):
            noop.enqueue_many([(at,) for at in range(2_000)])
        began = time.perf_counter()
        for process in [start(path, "app.run_worker(burst=True)") for _ in range(count)]:
            process.wait()
        rates.append(2 * DRAINED / (time.perf_counter() - began))
    return {"two workers beside one": rates[1] / rates[0]}


def wake_up(path: str, names: dict[str, Any]) -> Figures:
    """Enqueue here, start there, on an idle queue."""
    worker = start(path, "app.run_worker(queues=['stamps'])")
    stamps = Path(f"{path}.stamps")
    try:
        for n in range(WOKEN):
            time.sleep(0.01)
            names["stamp"].enqueue(time.time())
            until(lambda n=n: stamps.exists() and len(stamps.read_text().splitlines()) > n)
    finally:
        worker.terminate()
        worker.wait()
    times = sorted(map(float, stamps.read_text().splitlines()))[: WOKEN - 1]
    return {
        "enqueue to start, p50, ms": median(times),
        "enqueue to start, p99, ms": times[len(times) * 99 // 100],
    }


def killed(path: str, names: dict[str, Any]) -> Figures:
    """A worker is killed with kill -9; its job runs again in another one."""
    runs = Path(f"{path}.runs")
    names["slow"].enqueue(str(runs))
    first, second = None, None
    try:
        first = start(path, "app.run_worker(queues=['slow'])")
        until(lambda: runs.exists() and len(runs.read_text().splitlines()) == 1)
        second = start(path, "app.run_worker(queues=['slow'])")
        time.sleep(1.0)  # until it waits for jobs
        first.send_signal(signal.SIGKILL)
        at = time.time()
        until(lambda: len(runs.read_text().splitlines()) == 2)
        return {"kill -9 to run again, s": float(runs.read_text().splitlines()[1]) - at}
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait()


def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait for something that comes from another process."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("it did not come in 30 s")
        time.sleep(0.0005)


def import_ms(code: str) -> float:
    """What an import costs a program, beside an empty one."""

    def once(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began

    loaded, empty = (median(once(code) for _ in range(7)) for code in (code, "pass"))
    return (loaded - empty) * 1_000


def peer(name: str, python: str, folder: str) -> Figures:
    """A peer's figures: lines of name, tab, number."""
    program = HERE / "peers" / f"{name}_peer.py"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    found = subprocess.run(
        [python, str(program), folder], capture_output=True, text=True, timeout=300, env=environment
    )
    if found.returncode:
        raise SystemExit(f"{name}: {found.stderr[-500:]}")
    rows = [line.split("\t") for line in found.stdout.splitlines() if "\t" in line]
    return {key: float(value) for key, value in rows}


def main() -> None:
    """Measure in turns, print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument(
        "--folder", help="where the files lie: a disk whose syncs are real [a temporary folder]"
    )
    given = parser.parse_args()
    peers = dict(one.split("=", 1) for one in given.peer)
    found: dict[str, list[Figures]] = {name: [] for name in ("anew", *peers)}
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            found["anew"].append(measure(f"{folder}/jobs.db"))
        for name, python in peers.items():
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                found[name].append(peer(name, python, folder))
    medians = {
        name: {key: median(one[key] for one in rounds) for key in rounds[0]} for name, rounds in found.items()
    }
    for code in ("import anew", "from anew import Anew"):
        medians["anew"][f"{code}, ms"] = import_ms(code)
    for key, value in medians["anew"].items():
        beside = "  ".join(f"{name} {medians[name][key]:,.1f}" for name in peers if key in medians[name])
        print(f"{key:34}{value:12,.1f}  {beside}", flush=True)


if __name__ == "__main__":
    main()
