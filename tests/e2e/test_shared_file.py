"""A server and programs that embed the engine on one file: whatever one does, the others see and may go on with."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from anew.engine import ThreadCommit
from anew.errors import StoreBusy
from anew.jobs import Failed, NewJob
from anew.store.sqlite import open_sqlite
from anew.tasks.opening import open_engine

from .client import Client, now_ms
from .server import ServerProcess

Start = Callable[..., ServerProcess]
Connect = Callable[..., Client]

SHELL = """
import sqlite3, sys
shell = sqlite3.connect(sys.argv[1], isolation_level=None)
shell.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
shell.execute("ROLLBACK")
"""


@contextmanager
def locked_by_a_shell(server: ServerProcess) -> Iterator[None]:
    """Somebody has begun a transaction in a database shell and gone for coffee."""
    path = str(server.root_dir / "anew.db")
    with subprocess.Popen(
        [sys.executable, "-c", SHELL, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "locked\n"
        try:
            yield
        finally:
            shell.communicate("\n")


@pytest.fixture
def embedded(fresh_server: Start) -> Iterator[tuple[ServerProcess, ThreadCommit]]:
    """A server, and an engine of this process on its file."""
    server = fresh_server()
    engine = open_engine(server.root_dir)
    yield server, engine
    engine.close()


def new_job(queue: str = "q", **members: object) -> NewJob:
    """A job as a program makes it."""
    return NewJob(type="t", queue=queue, payload=msgspec.Raw(b'{"n":1}'), **members)  # type: ignore[arg-type]


def test_a_job_that_a_program_enqueues_reaches_a_waiting_stream(
    embedded: tuple[ServerProcess, ThreadCommit], fresh: Connect
) -> None:
    server, engine = embedded
    client = fresh(server)
    with client.take("q") as stream:
        stream.expect_idle()
        (key,) = engine.enqueue([new_job()])
        job = stream.next_job()
        assert job["id"].endswith(f"{key:016x}")
        assert job["payload"] == {"n": 1}
        client.succeed(job["id"])
    assert client.count() == 0
    assert engine.engine.store.queues.counts() == {}


def test_a_job_from_the_server_reaches_a_waiting_program_and_its_failure_is_seen_everywhere(
    embedded: tuple[ServerProcess, ThreadCommit], fresh: Connect
) -> None:
    server, engine = embedded
    client = fresh(server)
    sender = threading.Thread(target=lambda: client.enqueue("q"))
    sender.start()
    taken = engine.take(["q"], 10, timeout_s=20.0)
    sender.join()
    (row,) = taken.rows
    (seen,) = client.jobs(queue="q")
    assert seen["status"] == "in_flight"
    engine.fail(row[0], Failed(message="no"), taken.token)
    assert client.job(seen["id"])["attempts"] == 1
    assert [error["message"] for error in client.errors(seen["id"])] == ["no"]


def test_a_job_that_a_program_schedules_becomes_ready_in_the_server(
    embedded: tuple[ServerProcess, ThreadCommit], fresh: Connect
) -> None:
    server, engine = embedded
    client = fresh(server)
    with client.take("q") as stream:
        engine.enqueue([new_job(ready_at=now_ms() + 300)])
        assert stream.next_job()["attempts"] == 0


def test_keys_stay_in_order_of_arrival_whoever_gives_them(
    embedded: tuple[ServerProcess, ThreadCommit], fresh: Connect
) -> None:
    server, engine = embedded
    client = fresh(server)
    given: list[str] = []
    for _ in range(20):
        given.append(client.enqueue("q")["id"])
        (key,) = engine.enqueue([new_job()])
        given.append(engine.engine.ids.write(key))
    assert given == sorted(given)
    assert [job["id"] for job in client.jobs(queue="q")] == given


def test_a_killed_server_leaves_a_programs_jobs_alone_and_its_own_go_back(
    embedded: tuple[ServerProcess, ThreadCommit], fresh: Connect, fresh_server: Start
) -> None:
    server, engine = embedded
    client = fresh(server)
    client.enqueue_many("mine", 3)
    client.enqueue_many("its", 3)
    held = engine.take(["mine"], 3)
    with client.take("its", prefetch=3) as stream:
        stream.next_jobs(3)
        server.kill()
    again = engine.take(["its"], 3, timeout_s=10.0)
    assert len(again.rows) == 3
    restarted = fresh(fresh_server(root_dir=server.root_dir))
    assert restarted.count(status="in_flight") == 6, "a start gives back only what dead processes held"
    assert engine.succeed([row[0] for row in held.rows], held.token) == []
    assert engine.succeed([row[0] for row in again.rows], again.token) == []


def test_a_second_server_is_refused_and_a_program_is_not(
    embedded: tuple[ServerProcess, ThreadCommit],
) -> None:
    server, _ = embedded
    with pytest.raises(StoreBusy, match="another server"):
        open_sqlite(server.root_dir)
    open_engine(server.root_dir).close()


def test_a_lock_that_a_shell_holds_stops_no_reader_and_refuses_new_jobs_after_two_seconds(
    fresh_server: Start, fresh: Connect
) -> None:
    server = fresh_server()
    client, other = fresh(server), fresh(server)
    (first, second) = client.enqueue_many("q", 2)
    settled: list[int] = []
    with client.take("q", prefetch=2) as stream:
        stream.next_jobs(2)
        with locked_by_a_shell(server):
            settling = threading.Thread(
                target=lambda: settled.append(other.post(f"/jobs/{first}/success").status)
            )
            settling.start()
            began = time.monotonic()
            refused = client.post("/jobs", {"type": "t", "queue": "q", "payload": None})
            took_s = time.monotonic() - began
            assert (refused.status, refused.header("retry-after")) == (503, "1")
            assert "another program holds the lock of the database file" in refused.error
            assert took_s < 10.0  # 2 s from the first one that waits, which `test_busy` shows by a hand clock
            assert client.get("/health").status == 200
            assert client.job(second)["status"] == "in_flight"
            began = time.monotonic()
            assert client.post("/jobs", {"type": "t", "queue": "q", "payload": None}).status == 503
            assert time.monotonic() - began < took_s, "who comes after is refused at once"
            assert settled == []
        settling.join()
        assert settled == [204]
        assert client.post("/jobs", {"type": "t", "queue": "q", "payload": None}).status == 201


def test_the_sign_of_life_of_a_program_that_ended_is_gone(
    embedded: tuple[ServerProcess, ThreadCommit], tmp_path: Path
) -> None:
    server, engine = embedded
    program = open_engine(server.root_dir)
    assert len(engine.engine.store.processes.sessions()) == 3
    program.close()
    assert len(engine.engine.store.processes.sessions()) == 2
    assert len([path for path in (server.root_dir / "sessions").iterdir() if path.name.isdigit()]) == 2


COUNTERS_WRONG = """
import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.execute("UPDATE queue SET ready = ready + 7, head_id = NULL WHERE name = 'more'")
store.execute("DELETE FROM queue WHERE name = 'none'")
store.commit()
"""


def test_counters_that_are_wrong_after_a_crash_strand_no_job(fresh_server: Start, fresh: Connect) -> None:
    server = fresh_server()
    client = fresh(server)
    client.enqueue_many("more", 2)
    sent = client.enqueue_many("none", 3)
    server.kill()
    path = str(server.root_dir / "anew.db")
    subprocess.run([sys.executable, "-c", COUNTERS_WRONG, path], check=True)
    again = fresh(fresh_server(root_dir=server.root_dir))
    with again.take("none", prefetch=3) as stream:
        assert [job["id"] for job in stream.next_jobs(3)] == sent
    with again.take(prefetch=10) as stream:
        assert len(stream.next_jobs(5)) == 5
    again.eventually(lambda: again.count(queue="more") == 2, "the counters are right again")
