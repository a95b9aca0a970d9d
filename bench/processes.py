"""Any number of processes and threads on one file, through the engine that programs embed; beside a floor, if one is given.

    python -m bench.processes
    python -m bench.processes --floor ../shared/prototypes/embedded.py --seconds 3 --rounds 3

A floor is a program that takes the same modes (enqueue, drain, latency) and prints its rate.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from anew.jobs import NewJob
from anew.tasks.opening import open_engine

PAYLOAD = msgspec.Raw(b'"' + b"x" * 98 + b'"')
SWITCH_INTERVAL_S = 0.0005
BUFFER = 100
"""Jobs that a draining process holds at a time."""

Result = dict[str, float]


def new_job() -> NewJob:
    """A job of 100 bytes of payload."""
    return NewJob(type="t", queue="q", payload=PAYLOAD)


def produce(path: str, threads: int, seconds: float, bulk: int, out: Any) -> None:
    """Enqueue from some threads for some seconds."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    engine = open_engine(path)
    end = time.perf_counter() + seconds
    done = [0] * threads
    waits: list[list[float]] = [[] for _ in range(threads)]

    def run(at: int) -> None:
        jobs = [new_job() for _ in range(bulk)]
        while (began := time.perf_counter()) < end:
            engine.enqueue(jobs, plain=True)
            waits[at].append(time.perf_counter() - began)
            done[at] += bulk

    _in_threads(run, threads)
    engine.close()
    out.put((sum(done), sorted(wait for each in waits for wait in each)))


def drain(path: str, threads: int, most: int, out: Any) -> None:
    """Take, run jobs that do nothing, and settle them in bulk."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    engine = open_engine(path)
    began, ran = time.perf_counter(), 0
    while ran < most:
        taken = engine.take(["q"], BUFFER)
        if not taken.rows:
            break
        engine.succeed([row[0] for row in taken.rows], taken.token)
        ran += len(taken.rows)
    engine.close()
    out.put((ran, time.perf_counter() - began))


def receive(path: str, n: int, ready: Any, out: Any) -> None:
    """Take jobs whose payload is the instant of their enqueue; measure how old each is."""
    engine = open_engine(path)
    ready.set()
    ages: list[float] = []
    while len(ages) < n:
        taken = engine.take(["q"], 10, timeout_s=1.0)
        now = time.time()
        ages += [now - float(row[11]) for row in taken.rows]
        engine.succeed([row[0] for row in taken.rows], taken.token)
    engine.close()
    out.put(sorted(ages))


def enqueue_rate(path: str, processes: int, threads: int, seconds: float, bulk: int = 1) -> Result:
    """Jobs a second over all processes, and what one call waits."""
    out: Any = multiprocessing.Queue()
    open_engine(path).close()
    _processes(processes, produce, path, threads, seconds, bulk, out)
    results = [out.get() for _ in range(processes)]
    waits = sorted(wait for _, each in results for wait in each)
    return {
        "rate": sum(done for done, _ in results) / seconds,
        "p50 ms": waits[len(waits) // 2] * 1e3,
        "p99 ms": waits[int(len(waits) * 0.99)] * 1e3,
        "max ms": waits[-1] * 1e3,
    }


def drain_rate(path: str, processes: int, threads: int, jobs: int) -> Result:
    """Jobs a second, taken and settled over all processes."""
    engine = open_engine(path)
    for _ in range(jobs // 1_000):
        engine.enqueue([new_job() for _ in range(1_000)], plain=True)
    engine.close()
    out: Any = multiprocessing.Queue()
    _processes(processes, drain, path, threads, jobs // processes, out)
    results = [out.get() for _ in range(processes)]
    return {"rate": sum(ran / took for ran, took in results)}


def latency(path: str, n: int) -> Result:
    """From an enqueue in one process to the start in another, the queue idle."""
    out: Any = multiprocessing.Queue()
    ready = multiprocessing.Event()
    taker = multiprocessing.Process(target=receive, args=(path, n, ready, out))
    taker.start()
    ready.wait()
    engine = open_engine(path)
    for _ in range(n):
        engine.enqueue([NewJob(type="t", queue="q", payload=msgspec.Raw(repr(time.time()).encode()))])
        time.sleep(0.01)
    ages = out.get()
    taker.join()
    engine.close()
    return {"p50 ms": ages[n // 2] * 1e3, "p99 ms": ages[int(n * 0.99)] * 1e3}


def _in_threads(run: Any, threads: int) -> None:
    running = [threading.Thread(target=run, args=(at,)) for at in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def _processes(n: int, target: Any, *args: Any) -> None:
    for _ in range(n):
        multiprocessing.Process(target=target, args=args).start()


LOADS: dict[str, tuple[Any, tuple[Any, ...], tuple[str, ...]]] = {
    "enqueue 1 x 1": (enqueue_rate, (1, 1, "S"), ("enqueue", "1", "1", "S")),
    "enqueue 1 x 16": (enqueue_rate, (1, 16, "S"), ("enqueue", "1", "16", "S")),
    "enqueue 4 x 1": (enqueue_rate, (4, 1, "S"), ("enqueue", "4", "1", "S")),
    "enqueue 4 x 4": (enqueue_rate, (4, 4, "S"), ("enqueue", "4", "4", "S")),
    "bulk of 1,000": (enqueue_rate, (1, 1, "S", 1_000), ("enqueue", "1", "1", "S", "flock", "1000")),
    "drain 1 x 8": (drain_rate, (1, 8, 100_000), ("drain", "1", "8", "100000")),
    "drain 2 x 8": (drain_rate, (2, 8, 100_000), ("drain", "2", "8", "100000")),
    "latency": (latency, (200,), ("latency", "200")),
}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.processes", description=__doc__)
    parser.add_argument("--floor", type=Path, help="a program to run beside ours")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="loads whose name contains this")
    parser.add_argument("--work-dir", type=Path, default=Path(__file__).parent / ".work")
    chosen = parser.parse_args()
    multiprocessing.set_start_method("spawn")
    print("| load | ours | floor | share |\n| --- | --- | --- | --- |")
    for name, (measure, args, floor) in LOADS.items():
        if chosen.only and chosen.only not in name:
            continue
        ours: list[Result] = []
        theirs: list[float] = []
        for _ in range(chosen.rounds):
            with tempfile.TemporaryDirectory(dir=_made(chosen.work_dir)) as folder:
                given = [chosen.seconds if arg == "S" else arg for arg in args]
                ours.append(measure(str(Path(folder) / "jobs.db"), *given))
                if chosen.floor is not None:
                    words = [str(chosen.seconds) if arg == "S" else arg for arg in floor]
                    theirs.append(_floor(chosen.floor, words, str(Path(folder) / "floor.db")))
        print(_line(name, ours, theirs), flush=True)


def _line(name: str, ours: list[Result], theirs: list[float]) -> str:
    key = "rate" if "rate" in ours[0] else "p50 ms"
    result = sorted(ours, key=lambda one: one[key])[len(ours) // 2]
    words = ", ".join(
        f"{value:,.0f} jobs/s" if name == "rate" else f"{name[:3]} {value:.1f} ms"
        for name, value in result.items()
    )
    if not theirs:
        return f"| {name} | {words} | | |"
    floor = median(theirs)
    share = result[key] / floor if key == "rate" else floor / result[key]
    return f"| {name} | {words} | {floor:,.1f} | {share:.2f} |"


def _floor(program: Path, words: list[str], path: str) -> float:
    command = [sys.executable, str(program), words[0], path, *words[1:]]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"together (\d+)|p50/p99 ms \[([\d.]+)|(\d+) jobs/s; each", printed)
    assert found is not None, printed
    return float(next(group for group in found.groups() if group))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
