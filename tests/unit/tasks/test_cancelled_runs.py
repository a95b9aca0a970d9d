"""Jobs that are cancelled, deleted or taken away while their handlers run: the runs are stopped, and nothing else comes of it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from anew import Anew, ctx
from anew.engine import Fail
from anew.engine.batch import Batch
from anew.errors import Conflict, InternalError, InvalidInput, StoreBusy
from anew.jobs import Failed
from anew.tasks.embedded import EmbeddedBackend
from anew.tasks.handle import JobHandle
from anew.tasks.opening import open_engine
from anew.tasks.processes import Processes
from anew.tasks.running import CALLED_OFF, TAKEN_AWAY, Run, Runner
from anew.tasks.source import EmbeddedSource, report_of
from anew.tasks.worker import Worker
from tests.postgres import empty_database
from tests.unit.tasks import processing

WAIT_S = 20
"""How long a test waits for what must happen; a green one never waits so long."""


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker waits a second before it looks."""
    monkeypatch.setattr("anew.tasks.worker.LOOK_S", 0.0)


@pytest.fixture(params=["sqlite", "postgres"])
def apps(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Anew, Anew]]:
    """An application, and the same store opened by somebody else."""
    place = empty_database("cancelled_runs") if request.param == "postgres" else str(tmp_path / "jobs.db")
    with Anew(place) as app, Anew(place) as other:
        yield app, other


@pytest.fixture
def app() -> Iterator[Anew]:
    """An application in memory."""
    with Anew(":memory:") as made:
        yield made


def work_while(app: Anew, act: Callable[[], object], **options: object) -> dict[str, int]:
    """Run what is ready while something is done; give what the runs have come to, without the kinds of which there were none."""
    worker: Worker = app.worker(burst=True, **options)
    worker.start()
    try:
        act()
    finally:
        worker.join()
    return {name: count for name, count in worker.done.items() if count}


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Give why runs were called off, as the log has it."""
    return [
        record.reason  # type: ignore[attr-defined]
        for record in caplog.records
        if record.getMessage().startswith("a run is called off")
    ]


ENDS: dict[str, Callable[[JobHandle[Any]], object]] = {
    "cancelled": lambda job: job.cancel(),
    "deleted": lambda job: job.delete(),
}


# -- what becomes of the run


@pytest.mark.parametrize("end", ENDS)
def test_a_coroutine_whose_job_is_ended_by_somebody_else_is_cancelled(
    apps: tuple[Anew, Anew], caplog: pytest.LogCaptureFixture, end: str
) -> None:
    app, other = apps
    began, steps = threading.Event(), list[str]()

    @app.task(timeout="1h")
    async def hang() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            steps.append("finally")

    job = hang.enqueue()

    def act() -> None:
        assert began.wait(WAIT_S)
        ENDS[end](other.job(job.id))

    caplog.set_level(logging.INFO, "anew.tasks")
    assert work_while(app, act) == {"lost": 1}
    assert steps == ["cancelled", "finally"]
    assert reasons(caplog) == ["its job was cancelled or deleted"]
    assert [record.event for record in caplog.records if hasattr(record, "event")] == ["lost"]
    info = job.info()
    assert (info is None) == (end == "deleted")
    assert info is None or (info.state, info.attempts) == ("cancelled", 0)


def test_a_coroutine_whose_job_is_ended_before_its_turn_does_not_begin(app: Anew) -> None:
    """The one before it keeps the loop, as a handler does that never awaits."""
    began, called_off, ran = threading.Event(), threading.Event(), list[str]()

    class Hears(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("a run is called off"):
                called_off.set()

    @app.task
    async def block() -> None:
        began.set()
        assert called_off.wait(WAIT_S)

    @app.task
    async def late() -> None:
        ran.append("late")

    def act() -> None:
        assert began.wait(WAIT_S)
        job.cancel()

    block.enqueue()
    job = late.enqueue()
    log, heard = logging.getLogger("anew.tasks"), Hears()
    level = log.level
    log.addHandler(heard)
    log.setLevel(logging.INFO)
    try:
        assert work_while(app, act, coroutines=2) == {"succeeded": 1, "lost": 1}
    finally:
        log.removeHandler(heard)
        log.setLevel(level)
    assert ran == []


def test_the_handler_in_a_thread_sees_it_and_need_not_wait(apps: tuple[Anew, Anew]) -> None:
    app, other = apps
    began, seen = threading.Event(), list[bool]()

    @app.task
    def poll() -> None:
        seen.append(ctx.cancelled)
        began.set()
        while ctx.sleep("1h"):
            raise AssertionError("an hour has passed")
        seen.append(ctx.cancelled)

    job = poll.enqueue()

    def act() -> None:
        assert began.wait(WAIT_S)
        other.job(job.id).cancel()

    assert work_while(app, act) == {"lost": 1}
    assert seen == [False, True]
    info = job.info()
    assert info is not None
    assert (info.state, info.attempts) == ("cancelled", 0)


def test_what_a_stopped_handler_raises_is_no_failure(app: Anew) -> None:
    began, outcomes = threading.Event(), list[str | None]()

    @app.around("run")
    def note(run: Any) -> Iterator[None]:
        yield
        outcomes.append(run.outcome)

    @app.task
    def poll() -> None:
        began.set()
        ctx.sleep("1h")
        raise ConnectionError("left alone")

    job = poll.enqueue()

    def act() -> None:
        assert began.wait(WAIT_S)
        job.cancel()

    assert work_while(app, act) == {"lost": 1}
    assert outcomes == ["cancelled"]


def test_the_process_of_a_cancelled_job_is_killed_and_the_next_job_has_another(tmp_path: Path) -> None:
    app, commit = processing.app, open_engine(None)
    before = app.replace_store(EmbeddedBackend(commit), app.events)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pids: list[int] = []

    try:
        job = processing.stay.enqueue(str(pipe))
        after = processing.where.enqueue()

        def act() -> None:
            pids.append(int(pipe.read_text()))
            job.cancel()

        assert work_while(app, act, concurrency=1) == {"lost": 1, "succeeded": 1}
        pids.append(after.result())
        assert job.status() == "cancelled"
    finally:
        app.replace_store(*before)
        commit.close()
    assert pids[0] != pids[1]
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def run_of(task: Any, **fields: Any) -> Run:
    """Make a run of a task."""
    facts: dict[str, Any] = {"key": 1, "token": 1, "job_id": "job-1", "name": task.name, "queue": "default"}
    return Run(**facts, payload=b"{}", attempts=0, max_attempts=None, task=task, **fields)


def test_a_run_that_is_stopped_before_its_process_has_the_job_does_not_begin() -> None:
    processes = Processes(processing.app, Runner(lambda: 0, lambda job_id, percent, text: None))
    run = run_of(processing.where, stopped=CALLED_OFF)
    processes.call(run)
    assert (run.outcome, run.result) == (CALLED_OFF, None)
    processes.stop(run)  # which nobody runs any more
    processes.close()


@pytest.mark.parametrize("why", [CALLED_OFF, TAKEN_AWAY])
def test_a_breaker_is_told_neither_success_nor_failure(app: Anew, why: Any) -> None:
    run = run_of(app.task(lambda: None, name="charge"))
    run.end(why)
    assert report_of(run, "stripe").ok is None


# -- what is no cancel


def give_back(batch: Batch, key: int) -> None:
    """Do what is done where a session is taken for dead."""
    batch.release([key], None)


TAKEN: dict[str, tuple[Callable[[Anew, int], object], int]] = {
    "given back": (lambda other, key: backend_of(other).call(lambda batch: give_back(batch, key)), 0),
    "retried": (
        lambda other, key: backend_of(other).commit.apply(
            Fail(key, Failed(message="by somebody", error_type="X", retry_at=1), lambda result: None, None)
        ),
        1,
    ),
}


def backend_of(app: Anew) -> EmbeddedBackend:
    """Give an application's backend."""
    backend = app.backend
    assert isinstance(backend, EmbeddedBackend)
    return backend


@pytest.mark.parametrize("how", TAKEN)
def test_a_run_that_lost_its_job_otherwise_is_stopped_and_the_job_is_not_cancelled(
    apps: tuple[Anew, Anew], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    app, other = apps
    began, stopped, attempts = threading.Event(), list[bool](), list[int]()
    take_away, failures = TAKEN[how]

    @app.task(policy=["1h"])
    async def hang() -> None:
        attempts.append(ctx.attempt)
        if began.is_set():
            return
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(ctx.cancelled)

    job = hang.enqueue()

    def act() -> None:
        assert began.wait(WAIT_S)
        take_away(other, backend_of(other).commit.engine.ids.read(job.id))

    caplog.set_level(logging.INFO, "anew.tasks")
    assert work_while(app, act) == {"lost": 1, "succeeded": 1}
    assert stopped == [True]
    assert attempts == [1, 1 + failures]
    assert reasons(caplog) == ["its job was given back, and may run elsewhere"]


# -- what it costs


class Looks:
    """Notes when a worker asks whether jobs may be lost, and which runs it has looked at."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked = threading.Semaphore(0)
        self.looked: list[int] = []
        may, lost = EmbeddedSource.may_have_lost, EmbeddedSource.lost

        def may_have_lost(source: EmbeddedSource) -> bool:
            self.asked.release()
            return may(source)

        def noted(source: EmbeddedSource, runs: Sequence[Run]) -> Any:
            self.looked.append(len(runs))
            return lost(source, runs)

        patch.setattr(EmbeddedSource, "may_have_lost", may_have_lost)
        patch.setattr(EmbeddedSource, "lost", noted)

    def wait(self, times: int) -> None:
        """Wait until it was asked so often."""
        for _ in range(times):
            assert self.asked.acquire(timeout=WAIT_S)


def test_nothing_is_looked_at_while_nobody_else_writes_or_nothing_runs(
    apps: tuple[Anew, Anew], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, other = apps
    looks = Looks(monkeypatch)
    began, go = threading.Event(), threading.Event()

    @app.task
    def gated() -> None:
        began.set()
        go.wait(WAIT_S)

    assert work_while(app, lambda: None) == {}
    assert not looks.asked.acquire(blocking=False), "it runs nothing"
    gated.enqueue()
    counts: list[int] = []

    def act() -> None:
        assert began.wait(WAIT_S)
        looks.wait(4)
        for write in (lambda: None, lambda: other.pause("mail")):
            counts.append(len(looks.looked))
            write()
            looks.wait(4)
        counts.append(len(looks.looked))
        go.set()

    assert work_while(app, act, concurrency=1) == {"succeeded": 1}
    assert counts[0] == counts[1] < counts[2]
    assert set(looks.looked) == {1}


def test_one_look_has_a_bound_and_comes_round_to_all(app: Anew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anew.tasks.worker.MOST_LOOKED", 2)
    looks = Looks(monkeypatch)
    began = threading.Semaphore(0)

    @app.task
    async def hang() -> None:
        began.release()
        await asyncio.Event().wait()

    jobs = hang.enqueue_many([()] * 5)

    def act() -> None:
        for _ in jobs:
            assert began.acquire(timeout=WAIT_S)
        for job in jobs:
            job.cancel()

    assert work_while(app, act) == {"lost": 5}
    assert max(looks.looked) == 2


@pytest.mark.parametrize("error", [StoreBusy("another process is writing to the store"), InternalError()])
def test_a_look_that_does_not_succeed_is_made_again_and_ends_nothing(
    app: Anew, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    source = EmbeddedSource(app, backend_of(app).commit)
    app.counts()
    source.may_have_lost()
    assert not source.may_have_lost()

    def busy(op: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(backend_of(app).commit, "apply", busy)
        assert source.lost([run_of(app.task(lambda: None, name="charge"))]) == {}
    assert source.may_have_lost()


# -- what a handler may ask


def test_a_wait_ends_by_itself_and_is_refused_outside_of_a_job(app: Anew) -> None:
    seen: list[Any] = []

    @app.task
    def wait() -> None:
        seen.append(ctx.sleep(0))
        try:
            ctx.sleep("soon")
        except InvalidInput as error:
            seen.append(error.field)

    wait.enqueue()
    assert work_while(app, lambda: None) == {"succeeded": 1}
    assert seen == [True, "sleep"]
    with pytest.raises(Conflict, match=r"ctx\.cancelled: no job runs here"):
        _ = ctx.cancelled
