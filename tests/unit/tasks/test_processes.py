"""Tasks that run in processes of their own: real processes, which die as they like."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anew.clock import ManualClock
from anew.errors import StoreBusy
from anew.tasks.around import Running
from anew.tasks.embedded import EmbeddedBackend
from anew.tasks.opening import open_engine
from anew.tasks.processes import Processes
from anew.tasks.running import Run, Runner
from anew.tasks.worker import Worker
from tests.unit.tasks import processing
from tests.unit.tasks.processing import app


@pytest.fixture(autouse=True)
def clock() -> Iterator[ManualClock]:
    """An empty engine for each test, and its clock."""
    made = ManualClock()
    commit = open_engine(None, clock=made)
    before = app.replace_store(EmbeddedBackend(commit), app.events)
    yield made
    app.replace_store(*before)
    commit.close()


def work(**options: int) -> dict[str, int]:
    """Run what is ready; give what the runs have come to, without the kinds of which there were none."""
    worker: Worker = app.worker(burst=True, concurrency=1, **options)
    worker.run()
    return {name: count for name, count in worker.done.items() if count}


def is_there(pid: int) -> bool:
    """Report whether there is a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_worker_runs_threads_a_loop_and_processes() -> None:
    apart, plain, coroutine = (
        processing.where.enqueue(),
        processing.here.enqueue(),
        processing.in_loop.enqueue(),
    )
    assert work() == {"succeeded": 3}
    assert plain.result() == coroutine.result() == os.getpid()
    assert apart.result() != os.getpid()
    assert not is_there(apart.result())


def test_threads_that_begin_together_share_the_processes_of_their_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    makers: list[str] = []
    make = Processes.__init__

    def noted(self: Processes, *args: Any, **options: Any) -> None:
        makers.append(threading.current_thread().name)
        make(self, *args, **options)

    monkeypatch.setattr(Processes, "__init__", noted)
    pids = processing.where.enqueue_many([()] * 4)
    app.worker(burst=True, concurrency=4).run()
    assert makers == [threading.current_thread().name]
    assert not any(is_there(job.result()) for job in pids)


def test_what_imports_pass_over_in_the_path_holds_up_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*sys.path, Path()])
    processing.where.enqueue()
    assert work() == {"succeeded": 1}


def test_what_cannot_be_carried_into_a_process_is_logged_and_the_job_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: list[str | None] = []

    def spoil(run: Running) -> Iterator[None]:
        run.carried["a"] = 7  # type: ignore[assignment]
        yield
        outcomes.append(run.outcome)

    monkeypatch.setattr(app, "around_runs", [])
    app.around("run")(spoil)
    processing.where.enqueue()
    assert work() == {"succeeded": 1}
    assert outcomes == ["succeeded"]
    assert "jobs carry nothing: expected texts by name" in [record.message for record in caplog.records]


def test_a_process_runs_one_job_after_the_other_until_it_has_had_its_number() -> None:
    kept = [processing.where.enqueue() for _ in range(4)]
    assert work() == {"succeeded": 4}
    assert len({handle.result() for handle in kept}) == 1
    fresh = [processing.where.enqueue() for _ in range(4)]
    assert work(process_jobs=2) == {"succeeded": 4}
    assert len({handle.result() for handle in fresh}) == 2


def test_a_job_that_ends_its_process_three_times_is_dead(clock: ManualClock, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    handle = processing.vanish.enqueue(str(notes))
    assert work() == {"interrupted": 2}, "the first time it goes back to its place at once"
    info = handle.info()
    assert info is not None
    assert (info.state, info.ready_at) == ("retrying", clock.now() + 2_000)
    clock.advance(2_000)
    assert work() == {"discarded": 1}
    info = handle.info()
    assert info is not None
    assert (info.state, info.attempts) == ("dead", 0)
    assert [error.outcome for error in info.errors] == ["interrupted"] * 3
    assert {error.message for error in info.errors} == {"its process has ended with exit code 3"}
    assert len(set(notes.read_text().split())) == 3, "each run in a process of its own"


def test_the_signal_that_ended_a_process_is_told() -> None:
    handle = processing.signalled.enqueue()
    work()
    info = handle.info()
    assert info is not None
    assert info.errors[0].message == "its process was killed by SIGABRT"


def test_a_handler_in_a_process_asks_for_its_batch() -> None:
    with app.batch(on_success=processing.here.call()) as batch:
        members = processing.batch_total.using(batch=batch).enqueue_many([(), ()])
    alone = processing.batch_total.enqueue()
    assert work() == {"succeeded": 4}
    assert [one.result() for one in (*members, alone)] == [2, 2, -1]


def test_a_handler_in_a_process_hears_that_its_progress_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise StoreBusy("another program is writing")

    told = processing.say_progress.enqueue(50)
    assert work() == {"succeeded": 1}
    assert told.result() == "heard"
    monkeypatch.setattr("anew.tasks.source.EmbeddedSource.progress", refuse)
    refused, spoilt = processing.say_progress.enqueue(50), processing.say_progress.enqueue(50.5)
    beside = processing.where.enqueue()
    assert work() == {"succeeded": 3}
    assert refused.result() == "another program is writing"
    assert spoilt.result() == "percent: 50.5 is not valid; expected a whole number from 0 to 100, or None"
    assert not is_there(beside.result()), "no process is left behind"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("task", [processing.fork_here, processing.fork_in_loop, processing.fork_apart])
def test_a_forked_child_that_comes_back_from_a_handler_ends_there(task: Any) -> None:
    ends, fails = task.enqueue(0), task.enqueue(7)
    beside = [processing.where.enqueue() for _ in range(3)]
    assert work() == {"succeeded": 5}
    assert (ends.result(), fails.result()) == (0, 7)
    assert all(one.result() > 0 for one in beside), "no answer of another run was taken for theirs"


def test_jobs_beside_one_that_ends_its_process_go_on(tmp_path: Path) -> None:
    handles = [processing.where.enqueue(), processing.where.enqueue()]
    processing.vanish.enqueue(str(tmp_path / "notes"))
    handles += [processing.where.enqueue(), processing.where.enqueue()]
    assert work() == {"interrupted": 2, "succeeded": 4}
    assert all(handle.result() != os.getpid() for handle in handles)


def test_a_process_whose_job_runs_too_long_is_killed(tmp_path: Path) -> None:
    notes = tmp_path / "pid"
    handle = processing.hang.enqueue(str(notes))
    assert work() == {"discarded": 1}
    assert not is_there(int(notes.read_text()))
    info = handle.info()
    assert info is not None
    assert (info.errors[0].outcome, info.errors[0].error_type) == ("timeout", "TimeoutError")


def test_a_program_that_a_handler_starts_in_a_process_heeds_signals() -> None:
    job = processing.end_program.enqueue()
    assert work() == {"succeeded": 1}
    assert job.result() == -signal.SIGTERM


def test_tasks_of_a_package_that_runs_as_a_program_run_in_processes(tmp_path: Path) -> None:
    program = """
        from anew import Anew

        app = Anew(":memory:")

        @app.task(process=True)
        def apart() -> None: ...

        if __name__ == "__main__":
            apart.enqueue()
            worker = app.worker(burst=True, concurrency=1)
            worker.run()
            print(worker.done["succeeded"], apart.name, app.name)
    """
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__main__.py").write_text(textwrap.dedent(program))
    told = subprocess.check_output([sys.executable, "-m", "shop"], cwd=tmp_path, text=True, timeout=60)
    assert told == "1 shop.apart shop\n"


def test_rules_and_signals_hold_for_processes() -> None:
    never, again, later = (
        processing.fail.enqueue("key"),
        processing.fail.enqueue("value"),
        processing.later.enqueue(),
    )
    assert work() == {"discarded": 1, "failed": 1, "snoozed": 1}
    assert (never.status(), again.status(), later.status()) == ("dead", "retrying", "scheduled")
    info, snoozed = again.info(), later.info()
    assert info is not None
    assert snoozed is not None
    assert info.errors[0].error_type == "ValueError"
    assert snoozed.attempts == 0


def test_a_process_that_has_died_while_it_waited_costs_the_next_job_nothing() -> None:
    children = Processes(app, Runner(lambda: 0, lambda job_id, percent, text: None))
    try:
        pids = []
        for _ in range(2):
            run = Run(
                key=1, token=1, job_id="j", name=processing.where.name, queue="default", payload=b"{}",
                attempts=0, max_attempts=None, task=processing.where,
            )  # fmt: skip
            children.call(run)
            assert run.outcome is None
            pids.append(int(run.result or b"0"))
            (child,) = children._all
            child.process.kill()
            child.process.wait()
        assert pids[0] != pids[1]
    finally:
        children.close()
