"""The application of docs/fastapi.md under Starlette's test client, and a worker that lasts as long as a block."""

from __future__ import annotations

import asyncio
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from anew import Anew
from anew.tasks.worker import Worker
from tests.unit.docs import ROOT, blocks

with warnings.catch_warnings():  # of httpx, which the next Starlette wants replaced
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient


@pytest.fixture
def main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the page."""
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(ROOT / "docs" / "fastapi.md", "python")
    module = ModuleType("main")
    exec(compile(block.text, "main.py", "exec", dont_inherit=True), module.__dict__)
    return module


def test_a_handler_enqueues_and_the_lifespans_worker_runs_it(main: Any) -> None:
    with TestClient(main.api) as client:
        answer = client.post("/photos/cat?width=300")
        assert answer.status_code == 202
        job_id = answer.json()["job"]
        assert main.app.job(job_id).wait(timeout="30s") == "cat-300.jpg"
        assert client.get(f"/jobs/{job_id}").json() == {
            "state": "completed", "errors": [], "result": "cat-300.jpg",
        }  # fmt: skip
        assert client.get("/jobs/nobody").status_code == 404
    assert not [thread for thread in threading.enumerate() if thread.name == "anew-worker"]


def test_without_the_lifespan_a_job_waits(main: Any) -> None:
    client = TestClient(main.api)
    job_id = client.post("/photos/cat").json()["job"]
    assert client.get(f"/jobs/{job_id}").json() == {"state": "ready", "errors": [], "result": None}
    main.app.close()


@pytest.fixture
def gated(tmp_path: Path) -> Any:
    """An application whose handler says that it has begun, and waits."""
    app = Anew(tmp_path / "jobs.db")
    begun, go = threading.Event(), threading.Event()

    @app.task(name="wait", keep_result="1h")
    def wait() -> int:
        begun.set()
        return 7 if go.wait(30) else 0

    yield app, wait, begun, go
    go.set()
    app.close()


def test_the_end_of_the_block_waits_for_what_runs(gated: Any) -> None:
    app, wait, begun, go = gated
    job = wait.enqueue()
    with app.worker(concurrency=1) as worker:
        assert begun.wait(30)
        assert worker.is_alive
        go.set()
    assert not worker.is_alive
    assert job.result() == 7


def test_the_loop_goes_on_while_the_worker_drains(gated: Any) -> None:
    app, wait, begun, go = gated

    async def run() -> None:
        async with app.worker(concurrency=1):
            await asyncio.to_thread(begun.wait, 30)
            asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, go.set)

    job = wait.enqueue()
    asyncio.run(run())
    assert job.result() == 7


def test_what_still_runs_at_the_deadline_is_given_back_uncounted(gated: Any) -> None:
    app, wait, begun, _ = gated
    job = wait.enqueue()
    with app.worker(concurrency=1, drain=0) as worker:
        assert begun.wait(30)
    info = job.info()
    assert (worker.given_back, str(info.state), info.attempts, info.errors) == (1, "ready", 0, ())


def test_a_drain_that_is_cancelled_gives_back_at_once(gated: Any) -> None:
    app, wait, begun, _ = gated
    job = wait.enqueue()

    async def run() -> None:
        worker = app.worker(concurrency=1, drain="1h")

        async def block() -> None:
            async with worker:
                await asyncio.to_thread(begun.wait, 30)

        task = asyncio.create_task(block())
        while not worker.is_stopping:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(worker.join)

    asyncio.run(run())
    assert job.status() == "ready"


def test_what_ends_a_worker_is_raised_at_the_end_of_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Worker) -> None:
        raise OSError("the disk has failed")

    monkeypatch.setattr(Worker, "_turn", fail)
    with Anew(tmp_path / "jobs.db") as app:
        worker = app.worker()
        worker.start()
        with pytest.raises(OSError, match="the disk has failed"):
            worker.join()
    assert "the worker has ended" in caplog.text
