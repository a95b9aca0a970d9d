"""A job that kills its worker each time, against a real server and real workers that are killed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .client import Client
from .command import anew, anew_json
from .server import ServerProcess
from .task_worker import Project, TaskWorker
from .worker import Gate, Worker


def kill_a_worker(server: ServerProcess, gate: Gate) -> str:
    """Start a worker, wait until it runs a job, kill it (SIGKILL); give the job."""
    worker = Worker(server.address, "--queue", "q", "--", *gate.program)
    try:
        job_id = gate.begun()
        worker.signal(signal.SIGKILL)
        assert worker.ended() == -signal.SIGKILL
        return job_id
    finally:
        gate.let_through()
        worker.close()


def test_reliability_22_a_job_that_kills_its_workers_waits_and_dies(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client], gate: Gate
) -> None:
    server = fresh_server(interruption_limit=3)
    client = fresh(server)
    job_id = client.enqueue("q")["id"]

    assert kill_a_worker(server, gate) == job_id
    client.when_status(job_id, "ready")

    assert kill_a_worker(server, gate) == job_id
    waiting = client.when_status(job_id, "scheduled")
    assert (waiting["attempts"], waiting["ready_at"] - waiting["failed_at"]) == (0, 2_000)
    client.patch(f"/jobs/{job_id}", {"ready_at": None})

    assert kill_a_worker(server, gate) == job_id
    assert client.when_status(job_id, "dead")["attempts"] == 0

    records = client.errors(job_id)
    assert [(record["attempt"], record["error_type"]) for record in records] == [(1, "Interrupted")] * 3
    assert [record["decision"]["verdict"] for record in records] == ["retry", "retry", "dead"]
    assert records[2]["decision"]["reason"] == "poison: 3 interruptions in a row, the limit"

    shown = anew_json(server.address, "jobs", "show", job_id)
    assert [error["error_type"] for error in shown["errors"]] == ["Interrupted"] * 3
    assert "poison: 3 interruptions in a row" in anew(server.address, "jobs", "show", job_id).stdout
    assert "Interrupted: its worker went away" in anew(server.address, "dead", "list").stdout


def test_without_a_limit_it_is_offered_again_each_time(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client], gate: Gate
) -> None:
    server = fresh_server()
    client = fresh(server)
    stored = client.enqueue("q")
    for _ in range(2):
        assert kill_a_worker(server, gate) == stored["id"]
        job = client.when_status(stored["id"], "ready")
    assert (job["attempts"], job["ready_at"], "failed_at" in job) == (0, stored["ready_at"], False)
    assert client.errors(stored["id"]) == []


def test_a_stop_of_the_server_is_not_counted(
    fresh_server: Callable[..., ServerProcess], fresh: Callable[..., Client]
) -> None:
    root_dir = None
    job_id = ""
    for end in ("terminate", "kill", "terminate"):
        server = fresh_server(root_dir=root_dir, interruption_limit=1)
        root_dir = server.root_dir
        client = fresh(server)
        job_id = job_id or client.enqueue("q")["id"]
        with client.take("q") as stream:
            assert stream.next_job()["id"] == job_id
            getattr(server, end)()
    client = fresh(fresh_server(root_dir=root_dir, interruption_limit=1))
    assert client.job(job_id)["status"] == "ready"
    assert client.errors(job_id) == []


CRASHES = """
import os, signal
from anew import Anew

app = Anew({store!r})

@app.task(process=True)
def child():
    os.kill(os.getpid(), signal.SIGKILL)

@app.task
def whole():
    os._exit(9)
"""


@pytest.fixture
def crashes(fresh_server: Callable[..., ServerProcess], tmp_path: Path) -> tuple[ServerProcess, Project]:
    """A server as it is by default, and a Python application of it whose tasks crash."""
    server = fresh_server()
    host, port = server.address
    project = Project(tmp_path)
    project.write("crashes.py", CRASHES.format(store=f"http://{host}:{port}"))
    return server, project


def quarantined(
    server: ServerProcess,
    client: Client,
    job_id: str,
    told: str = "its worker went away while it had the job",
) -> None:
    job = client.when_status(job_id, "dead")
    assert job["attempts"] == 0
    records = client.errors(job_id)
    assert [record["error_type"] for record in records] == ["Interrupted"] * 3
    assert [record["decision"]["reason"] for record in records] == [
        "1 interruption: back to its place at once",
        "2 interruptions in a row: it waits 2 s",
        "poison: 3 interruptions in a row, the limit",
    ]
    shown = anew(server.address, "jobs", "show", job_id).stdout
    assert shown.count(f"Interrupted: {told}") == 3


def test_a_python_task_whose_process_is_killed_dies_after_three_times_whatever_the_servers_limit_is(
    crashes: tuple[ServerProcess, Project], fresh: Callable[..., Client]
) -> None:
    server, project = crashes
    client = fresh(server)
    job_id = project.python("import crashes; print(crashes.child.enqueue().id)")
    worker = TaskWorker(project, "crashes:app")
    try:
        client.when_status(job_id, "scheduled")
        client.patch(f"/jobs/{job_id}", {"ready_at": None})
        worker.wait_for("discarded", job_id=job_id)
        quarantined(server, client, job_id, "its process was killed by SIGKILL")
    finally:
        worker.close()


def test_a_python_task_that_takes_its_worker_along_dies_after_three_times(
    crashes: tuple[ServerProcess, Project], fresh: Callable[..., Client]
) -> None:
    server, project = crashes
    client = fresh(server)
    job_id = project.python("import crashes; print(crashes.whole.enqueue().id)")
    for status in ("ready", "scheduled", "dead"):
        worker = TaskWorker(project, "crashes:app")
        try:
            assert worker.ended() == 9
        finally:
            worker.close()
        client.when_status(job_id, status)
        if status == "scheduled":
            client.patch(f"/jobs/{job_id}", {"ready_at": None})
    quarantined(server, client, job_id)
