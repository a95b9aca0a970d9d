"""What is left in a PostgreSQL database after kills of everything that has to do with it, and of the network between."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from anew import Anew
from anew.engine import Call, ThreadCommit
from anew.errors import StoreBusy
from anew.store.postgres import opening
from anew.store.selection import Filter
from anew.tasks.opening import open_engine
from tests.database import Database
from tests.waiting import until

from .crash import FLAGS
from .crash import run as run_server
from .load import count
from .pg_crash import FINDS_BUGS, Run
from .server import Server
from .test_crash import fresh_seed
from .test_processes import ALL, IN_FLIGHT, fork_amid_transactions, put, spawning
from .wire import Client, Taker

pytestmark = pytest.mark.alone

KILLS = 60
READY_AGAIN_S = 5.0
"""Three looks, a second apart, find a lock free for two seconds."""


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    """A server with its data safe on the disk."""
    with closing(Database()) as one:
        yield one


@pytest.fixture
def database(server: Database) -> Database:
    """The same, with nothing stored."""
    server.empty()
    return server


def test_some_blows_lose_resurrect_and_strand_nothing(database: Database, tmp_path: Path) -> None:
    report = Run(fresh_seed(), tmp_path, database).go(6)
    print(report)
    assert report.counts["enqueued"] > 100, f"too little load to mean anything: {report}"
    assert report.ok, report


@pytest.mark.nightly
@pytest.mark.parametrize("round_", range(10))
def test_a_thousand_blows(database: Database, tmp_path: Path, round_: int) -> None:
    report = Run(fresh_seed(), tmp_path, database).go(100)
    print(report)
    assert report.ok, report


def test_the_rig_catches_a_commit_in_doubt_that_is_taken_to_last(database: Database, tmp_path: Path) -> None:
    """The control run: it has cut the connection before PostgreSQL got the COMMIT, and the jobs are lost."""
    report = Run(fresh_seed(), tmp_path, database, "lasts").go(6)
    print(report)
    assert report.wrong["lost"] + report.wrong["resurrected"] > 0, report


@pytest.mark.nightly
def test_the_rig_catches_a_commit_in_doubt_that_is_taken_to_be_undone(
    database: Database, tmp_path: Path
) -> None:
    """The other one: what has been stored is stored again."""
    report = Run(fresh_seed(), tmp_path, database, "undone").go(60)
    print(report)
    assert report.wrong["settled twice"] + report.wrong["there twice"] + report.wrong["resurrected"] > 0, (
        report
    )
    assert report.blows[FINDS_BUGS] == 60


# -- servers


@pytest.mark.nightly
@pytest.mark.parametrize("round_", range(5))
def test_sixty_kills_of_a_server_and_many_of_its_database(
    database: Database, tmp_path: Path, round_: int
) -> None:
    """Its streams, and what is reported to it, are judged as in `test_crash`."""
    seed = fresh_seed()
    chance = random.Random(seed)

    def crash_database() -> None:
        if chance.random() < 0.6:
            time.sleep(chance.uniform(0.0, 0.5))
            database.stop()
            database.start()

    flags = (*FLAGS, "--store", database.url())
    report = run_server(KILLS, seed, tmp_path / "data", flags=flags, load_s=(0.3, 1.5), beside=crash_database)
    print(report)
    assert report.verdict["accepted"] > KILLS * 10, f"too little load to mean anything\n{report}"
    assert not report.deaths, report
    # Takes are not synced: a crash of the database forgets some, and their jobs are handed out once more (rule 5).
    assert set(report.verdict["broken"]) <= {5}, report


# -- one process dies, or stands still


def begin_two_and_wait(url: str, sign: str) -> None:
    """Take all there is, and begin with two."""
    engine = open_engine(url)
    rows = engine.take(None, 1_000).rows
    engine.engine.store.processes.note_begun(0, 0)
    for slot, row in enumerate(rows[:2], 1):
        engine.engine.store.processes.note_begun(slot, row[0])
    Path(sign).touch()
    threading.Event().wait()


def test_a_killed_process_has_its_jobs_back_within_seconds_and_what_it_had_only_prefetched_is_not_interrupted(
    database: Database, tmp_path: Path
) -> None:
    engine = open_engine(database.url())
    keys = put(engine, 10)
    sign = tmp_path / "begun"
    holder = spawning.Process(target=begin_two_and_wait, args=(database.url(), str(sign)), daemon=True)
    holder.start()
    until(sign.exists)
    holder.kill()
    holder.join()
    began = time.monotonic()
    assert [row[0] for row in engine.take(["a"], 10, timeout_s=10.0).rows] == keys
    assert time.monotonic() - began < READY_AGAIN_S
    assert [job.interruptions for job in engine.engine.store.load(keys)] == [1, 1] + [0] * 8
    engine.close()


def stop_in_transaction(url: str, sign: str) -> None:
    """Stand still inside a transaction, once."""
    opening.SETTINGS["idle_in_transaction_session_timeout"] = "2s"
    engine = open_engine(url)

    def verb(batch: object) -> None:
        if not Path(sign).exists():
            Path(sign).touch()
            os.kill(os.getpid(), signal.SIGSTOP)

    engine.apply(Call(verb, print))
    Path(sign + "-went-on").touch()
    threading.Event().wait()


def test_a_process_that_is_stopped_in_its_transaction_makes_others_answer_busy_and_then_go_on(
    database: Database, tmp_path: Path
) -> None:
    sign = tmp_path / "sign"
    engine = open_engine(database.url())
    impatient = ThreadCommit(engine.engine, busy_s=0.2)
    stopped = spawning.Process(target=stop_in_transaction, args=(database.url(), str(sign)), daemon=True)
    stopped.start()
    until(sign.exists)
    with pytest.raises(
        StoreBusy, match=r"PostgreSQL's backend \d+\) has been writing to the store for too long"
    ):
        put(impatient, 1)
    began = time.monotonic()
    while True:
        try:
            keys = put(engine, 1)
            break
        except StoreBusy:
            assert time.monotonic() - began < 10.0
    assert stopped.pid is not None
    os.kill(stopped.pid, signal.SIGCONT)
    until(Path(f"{sign}-went-on").exists)
    reader = engine.engine.store.reader()
    assert reader.find(Filter(), ALL) == keys
    reader.close()
    stopped.kill()
    stopped.join()
    engine.close()


# -- a worker whose database goes


def test_a_worker_outlives_its_database_and_its_long_job_runs_once(database: Database) -> None:
    """It says nothing to the database while its only lane is busy, and still nobody takes it for dead."""
    app, other = Anew(database.url()), open_engine(database.url())
    begun, go_on = threading.Event(), threading.Event()
    runs = []

    @app.task
    def long() -> None:
        runs.append(1)
        begun.set()
        go_on.wait(30)

    job = long.enqueue()
    worker = app.worker(concurrency=1)
    worker.start()
    assert begun.wait(20)
    put(other, 1, "another")  # a commit that is synced: the take, which is not, is on the disk with it
    database.stop()
    database.start()
    long_enough = time.monotonic() + READY_AGAIN_S - 1.0
    while time.monotonic() < long_enough:
        with suppress(StoreBusy):
            put(other, 1, "another")  # whoever is in a call looks after the others, once a second
    reader = other.engine.store.reader()
    assert len(reader.find(IN_FLIGHT, ALL)) == 1
    go_on.set()
    until(lambda: not reader.find(IN_FLIGHT, ALL))
    assert runs == [1]
    assert job.id
    reader.close()
    worker.stop()
    app.close()
    other.close()


# -- a server whose database goes


def test_reliability_36_a_server_outlives_its_database(database: Database, tmp_path: Path) -> None:
    """Its health is answered all along, new jobs are refused after two seconds, and all goes on."""
    job = {"type": "t", "queue": "q", "payload": None}
    with Server(tmp_path, "--store", database.url()) as server, Client(server.address, timeout=20) as client:
        stored = client.request("POST", "/jobs", job).json()["id"]
        pid = server.pid
        with Taker(server.address, queue="other") as taker:
            database.stop()
            began = time.monotonic()
            refused = client.request("POST", "/jobs", job)
            assert refused.status == 503
            assert (
                "the connection to the database was lost, and is being made again" in refused.json()["error"]
            )
            assert 1.5 < time.monotonic() - began < 4.0
            for path, status in (
                ("/health", 200),
                (f"/jobs/{stored}", 503),
                ("/jobs", 503),
                ("/readyz", 503),
            ):
                began = time.monotonic()
                assert client.request("GET", path).status == status, path
                assert time.monotonic() - began < 1.0, path
            database.start()
            until(lambda: client.request("GET", "/readyz").status == 200, within_s=10, what="it is ready")
            assert client.request("POST", "/jobs", job | {"queue": "other"}).status == 201
            (taken,) = taker.take()
            assert client.request("POST", f"/jobs/{taken['id']}/success").status < 300
            assert count(client, "queue=q") == 1
            assert client.request("GET", f"/jobs/{stored}").status == 200
        assert server.pid == pid
        database.stop()
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 10.0
        database.start()


# -- forks


def test_a_child_that_is_forked_amid_a_transaction_of_another_thread_can_write(database: Database) -> None:
    parent = spawning.Process(target=fork_amid_transactions, args=(database.url(), 10), daemon=True)
    parent.start()
    parent.join(60)
    try:
        assert parent.exitcode == 0
    finally:
        parent.kill()
    engine = open_engine(database.url())
    assert engine.engine.store.queues.takeable("child") == 10
    engine.close()
