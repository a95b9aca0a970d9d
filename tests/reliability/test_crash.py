"""What is left after SIGKILL: everything that was accepted, and nothing that was settled."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import apsw
import pytest

from tests.waiting import until

from .crash import run
from .load import Drainer, count, fill
from .server import Server
from .test_connections import many_descriptors as many_descriptors
from .wire import Client, Taker

KILLS = 60
RESTART_LIMIT_S = 5.0
PLANTED = [sys.executable, str(Path(__file__).with_name("planted.py"))]


def fresh_seed() -> int:
    """A new seed for each run; a failure's report names it, and it replays the same load and kill points."""
    return int(os.environ.get("ANEW_TEST_SEED") or int.from_bytes(os.urandom(4)))


def test_reliability_02_03_sixty_kills_lose_resurrect_and_strand_nothing(tmp_path: Path) -> None:
    """Checklist 2 and 3 of the reliability programme, the short form."""
    report = run(KILLS, fresh_seed(), tmp_path / "data")
    print(report)
    assert report.kills == KILLS
    assert report.verdict["accepted"] > KILLS * 50, f"too little load to mean anything\n{report}"
    assert report.ok, report
    assert report.restart_s(1.0) < RESTART_LIMIT_S, report


@pytest.mark.nightly
@pytest.mark.parametrize("round_", range(10))
def test_reliability_02_03_a_thousand_kills(tmp_path: Path, round_: int) -> None:
    """In rounds, because a history is kept in memory."""
    report = run(100, fresh_seed(), tmp_path / "data")
    print(report)
    assert report.ok, report


@pytest.mark.alone
def test_reliability_59_the_rig_catches_answers_that_leave_before_the_commit(tmp_path: Path) -> None:
    """The control run: a server with this bug planted must be found out."""
    report = run(6, fresh_seed(), tmp_path / "data", command=PLANTED)
    print(report)
    assert not report.ok, report
    assert report.verdict["lost"] > 0 or report.verdict["resurrected"] > 0, report


@pytest.mark.alone
@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("held", [30_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_reliability_23_a_killed_server_with_a_million_jobs_serves_again_in_time(
    tmp_path: Path, held: int
) -> None:
    """Many of them in flight when it dies, and once more while it gives them back; each is there again, in its old place."""
    stored = 1_000_000
    with Server(tmp_path / "data", "--global-in-flight-limit", "0") as server:
        needs = server.peak_bytes()
        fill(server.address, stored, queue="many", payload={"n": 1})
        with Client(server.address) as client:
            takers = [Taker(server.address, queue="many", prefetch=1000) for _ in range(held // 1000)]
            firsts = [drained(taker, 1000) for taker in takers]
            assert count(client, "status=in_flight") == held
        server.kill()
        for taker in takers:
            taker.client.close()
        server.spawn()
        until(
            lambda: in_flight(tmp_path / "data") < held, within_s=60, what="some are given back", pause_s=0.01
        )
        server.kill()
        left = in_flight(tmp_path / "data")
        print(f"killed again with {left} of {held} in flight")
        begun = time.monotonic()
        server.start()
        with Client(server.address) as client:
            reply = client.request("POST", "/jobs", {"type": "t", "queue": "new", "payload": None})
            assert reply.status == 201
            with Taker(server.address, queue="many") as taker:
                again = taker.take()[0]
            serving_s = time.monotonic() - begun
            more = server.peak_bytes() - needs
            print(
                f"{stored} jobs stored, serving again after {serving_s:.2f} s, {more >> 20} MiB more than empty"
            )
            assert serving_s < RESTART_LIMIT_S * (1 if held < stored else 2)
            assert more < 200 << 20
            assert again["id"] == min(firsts)
            until(lambda: count(client, "status=in_flight") == 0, within_s=10, what="the last one is back")
            assert count(client, "queue=many") == stored


def drained(taker: Taker, jobs: int) -> str:
    """Read so many jobs of a stream; give the first one's id."""
    found: list[str] = []
    while len(found) < jobs:
        found += [job["id"] for job in taker.take(jobs)]
    return min(found)


def in_flight(directory: Path) -> int:
    """How many jobs are in flight, as another program reads it from the file."""
    connection = apsw.Connection(str(directory / "anew.db"), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(10_000)  # it may be repaired just now
    try:
        ((number,),) = connection.execute("SELECT sum(in_flight) FROM queue")
    finally:
        connection.close()
    return int(number)


def test_a_clean_stop_returns_jobs_too(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        fill(server.address, 100, queue="q")
        with Taker(server.address, queue="q", prefetch=100) as taker:
            assert taker.take()
            assert server.stop() == 0
        server.start()
        with Drainer(server.address, queue="q") as drainer:
            until(lambda: drainer.done == 100, within_s=10, what="all 100 jobs settled after the restart")
