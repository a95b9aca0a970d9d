"""Many jobs without a fault: each is delivered once, and what the server needs does not grow with how many there were."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.waiting import until

from .load import BULK, Background, count, fill
from .server import Server
from .wire import Client, Taker

MIB = 1 << 20
TAKERS = 4
PREFETCH = 500


def run_through(server: Server, jobs: int) -> Counter[str]:
    """Have so many jobs enqueued, taken and settled meanwhile; give how often each was delivered."""
    delivered: Counter[str] = Counter()
    lock = threading.Lock()

    def work(stopping: threading.Event) -> None:
        with Taker(server.address, queue="q", prefetch=PREFETCH) as taker, Client(server.address) as client:
            while sum(delivered.values()) < jobs and not stopping.is_set():
                try:
                    ids = [job["id"] for job in taker.take(PREFETCH, timeout=0.2)]
                except TimeoutError:
                    continue
                with lock:
                    delivered.update(ids)
                assert client.request("POST", "/jobs/success", {"ids": ids}).status == 204

    workers = [Background(work) for _ in range(TAKERS)]
    try:
        for worker in workers:
            worker.__enter__()
        fill(server.address, jobs, queue="q", payload={"n": 1})
        until(lambda: sum(delivered.values()) >= jobs, within_s=60 + jobs / 1_000, what="all were taken")
    finally:
        for worker in workers:
            worker.__exit__(None, None, None)
    return delivered


@pytest.mark.parametrize("jobs", [20_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_reliability_15_without_a_fault_each_job_is_delivered_once(tmp_path: Path, jobs: int) -> None:
    with Server(tmp_path / "data", "--global-in-flight-limit", "0") as server:
        delivered = run_through(server, jobs)
        with Client(server.address) as client:
            until(lambda: count(client, "queue=q") == 0, within_s=30, what="all were settled")
    assert len(delivered) == jobs
    assert set(delivered.values()) == {1}


def needs(server: Server) -> tuple[int, int, int]:
    """What a server has: bytes of memory, open files, threads."""
    process = Path(f"/proc/{server.pid}")
    return server.rss_bytes(), len(os.listdir(process / "fd")), len(os.listdir(process / "task"))


@pytest.mark.parametrize(
    ("rounds", "jobs"), [(4, 10_000), pytest.param(20, 500_000, marks=pytest.mark.nightly)]
)
def test_reliability_48_memory_files_and_threads_do_not_grow_with_the_jobs(
    tmp_path: Path, rounds: int, jobs: int
) -> None:
    """By night ten million, with the slope itself; by day so few that their growth must be next to nothing."""
    with Server(tmp_path / "data", "--global-in-flight-limit", "0") as server:
        run_through(server, 2 * BULK)  # until everything is there that there is once
        seen = [needs(server)]
        for _ in range(rounds):
            run_through(server, jobs)
            seen.append(needs(server))
    memory, files, threads = zip(*seen, strict=True)
    print([round(one / MIB, 1) for one in memory], files, threads)
    # The last round's connections may not be gone yet; those of each round before it would be more than these.
    assert max(files) <= files[0] + 2 * TAKERS + 1
    assert max(threads) <= threads[0]
    millions = rounds * jobs / 1e6
    slope = (memory[-1] - memory[1]) / MIB / (millions - jobs / 1e6)
    assert slope <= 1 or memory[-1] - memory[1] < 3 * MIB
