"""An application whose jobs are a server's: it enqueues and looks over HTTP; a worker runs beside the server, on its directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anew import Anew, Enqueuing, JobFailed, Running
from anew.errors import InvalidInput, NotSupported, Unreachable

from .server import ServerProcess


def tasks_of(app: Anew) -> Anew:
    """The same tasks for any place of the jobs."""

    @app.task(name="double", queue="sums", policy=["1ms"], keep_result="1h")
    def double(n: int) -> int:
        if n < 0:
            raise ValueError("below zero")
        return 2 * n

    return app


@pytest.fixture
def apps(fresh_server: Callable[..., ServerProcess], tmp_path: Path) -> Iterator[tuple[Anew, Anew]]:
    """One application over HTTP, and one on the server's directory."""
    server = fresh_server(root_dir=tmp_path / "data")
    host, port = server.address
    with Anew(f"http://{host}:{port}") as remote, Anew(tmp_path / "data") as near:
        yield tasks_of(remote), tasks_of(near)


def test_what_a_job_would_carry_does_not_go_over_http_and_the_job_does(apps: tuple[Anew, Anew]) -> None:
    remote, near = apps
    enqueued: list[Enqueuing] = []
    ran: list[Running] = []

    @remote.around("enqueue")
    def trace(jobs: Enqueuing) -> Iterator[None]:
        jobs.carried["user"] = "ada"
        enqueued.append(jobs)
        yield

    @near.around("run")
    def hear(run: Running) -> Iterator[None]:
        ran.append(run)
        yield

    job = remote.tasks["double"].enqueue(4)
    near.run_worker(burst=True)
    assert [jobs.job_ids for jobs in enqueued] == [[job.id]]
    assert [(run.outcome, run.carried) for run in ran] == [("succeeded", {})]


def test_what_is_enqueued_over_http_runs_beside_the_server(apps: tuple[Anew, Anew]) -> None:
    remote, near = apps
    double: Any = remote.tasks["double"]
    good, bad = double.enqueue_many([(4,), {"n": -1}])
    waiting = double.using(delay="1d", priority=7, max_attempts=4).enqueue(1)
    assert remote.counts("sums")["ready"] == 2
    while near.counts()["ready"] + near.counts()["retrying"]:
        near.run_worker(burst=True)
    assert (good.status(), bad.status(), waiting.status()) == ("completed", "dead", "scheduled")
    with pytest.raises(JobFailed, match="is dead: ValueError: below zero"):
        bad.wait(timeout=5)
    info = waiting.info()
    assert info is not None
    assert (info.task, info.queue, info.priority, info.attempts) == ("double", "sums", 7, 0)
    bad.redrive()
    assert bad.status() == "ready"
    waiting.cancel()
    assert waiting.status() == "dead"  # the server's word for a job that was called off
    waiting.delete()
    assert waiting.status() is None
    assert remote.clear("completed") == 1


def test_a_queue_is_paused_over_http(apps: tuple[Anew, Anew]) -> None:
    remote, near = apps
    remote.pause("sums")
    remote.tasks["double"].enqueue(1)
    near.run_worker(burst=True)
    assert near.counts("sums")["ready"] == 1
    remote.resume("sums")
    near.run_worker(burst=True)
    assert near.counts("sums")["ready"] == 0


def test_what_a_servers_api_has_no_words_for_is_refused_by_name(apps: tuple[Anew, Anew]) -> None:
    remote, _ = apps
    double: Any = remote.tasks["double"]
    refused: list[tuple[str, Callable[[], object]]] = [
        ("unique, expires and batch", lambda: double.using(unique=True).enqueue(1)),
        ("limits", lambda: remote.limit("sums", concurrency=1)),
        ("batches", lambda: remote.batch(on_success=double.call(1)).__enter__()),
        ("by their age", lambda: remote.clear("dead", older_than="1d")),
        ("1001 jobs at once", lambda: double.enqueue_many([(1,)] * 1_001)),
        ("beside which a worker runs", lambda: remote.run_worker()),
    ]
    for words, call in refused:
        with pytest.raises(NotSupported, match=words):
            call()
    assert remote.counts("sums")["ready"] == 0


def test_no_server_is_an_error_that_says_where() -> None:
    app = tasks_of(Anew("http://127.0.0.1:9"))
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        app.tasks["double"].enqueue(1)
    with pytest.raises(InvalidInput, match="expected a file, a directory, http"):
        tasks_of(Anew("redis://x")).counts()
