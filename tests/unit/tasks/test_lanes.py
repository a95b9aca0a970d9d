"""A lane by hand: which jobs begin, whose ends are heard of, and what is given up. No store, and the time is an argument."""

from __future__ import annotations

import asyncio
import errno
import itertools
import queue
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from anew import Anew
from anew.errors import StoreFailed
from anew.tasks.lanes import Lane
from anew.tasks.running import CALLED_OFF, Run, Runner
from anew.tasks.source import Exchanged, Want
from anew.tasks.task import Task
from anew.tasks.worker import Worker

MS = 1_000_000
WAIT_S = 20
"""How long a test waits for what must happen; a green one never waits so long."""


class Boss:
    """What a lane asks of its worker."""

    def __init__(self, app: Anew) -> None:
        self.app = app
        self.runner = Runner(lambda: 0, lambda job_id, percent, text: None)
        self.open_breakers: Mapping[str, int] = {}
        self.recycling: dict[str, int | None] = {"most_jobs": None, "most_kib": None}
        self.began: queue.Queue[Run] = queue.Queue()
        self.over: queue.Queue[Run] = queue.Queue()
        self._slots = itertools.count()

    def next_slot(self) -> int:
        return next(self._slots)

    def begin(self, run: Run, slot: int) -> None:
        self.began.put(run)

    def ended(self, run: Run) -> None:
        self.over.put(run)


@pytest.fixture
def app() -> Iterator[Anew]:
    """An application in memory."""
    with Anew(":memory:") as made:
        yield made


def lane_of(app: Anew, concurrency: int) -> tuple[Lane, Boss]:
    """Make a lane of so many threads and coroutines, and what stands for its worker."""
    boss = Boss(app)
    return Lane(None, concurrency, concurrency, cast("Worker", boss)), boss


def run_of(task: Task[Any, Any, Any], key: int = 1, token: int = 1, payload: bytes = b"{}") -> Run:
    """Make a run of a task."""
    return Run(
        key=key, token=token, job_id=f"job-{key}", name=task.name, queue="default", payload=payload, attempts=0,
        max_attempts=None, task=task,
    )  # fmt: skip


def later(seconds: float) -> int:
    """Give an instant of the performance counter, ns."""
    return time.perf_counter_ns() + int(seconds * 1e9)


# -- runs that are given up


def test_the_end_of_a_run_that_was_given_up_leaves_the_jobs_next_run_open(app: Anew) -> None:
    """The retry runs in the same worker, under the same job's key, when the first handler ends at last."""
    gates = [threading.Event(), threading.Event()]
    threads: list[threading.Thread] = []

    @app.task(timeout="1s")
    def hang() -> None:
        threads.append(threading.current_thread())
        gates[len(threads) - 1].wait(WAIT_S)

    lane, boss = lane_of(app, 1)
    lane.add([run_of(hang, token=1)])
    boss.began.get(timeout=WAIT_S)
    ((given_up, _),) = lane.overdue(later(2))
    lane.claim(given_up)
    retry = run_of(hang, token=2)
    lane.add([retry])
    boss.began.get(timeout=WAIT_S)
    gates[0].set()
    threads[0].join(WAIT_S)
    assert list(lane.open) == [retry]
    gates[1].set()
    assert boss.over.get(timeout=WAIT_S) is retry
    lane.close()


# -- a worker whose store fails


class FailingSource:
    """A source that has some jobs, and fails when the first of them is reported."""

    seen = 0

    def __init__(self, runs: list[Run], is_time: threading.Event, closed: threading.Event) -> None:
        self._runs = runs
        self._is_time = is_time
        self._closed = closed

    def exchange(self, ended: Sequence[Run], given_back: Sequence[Run], wants: Sequence[Want]) -> Exchanged:
        if ended or given_back:
            self._is_time.wait(WAIT_S)
            raise StoreFailed("the disk is gone")
        runs, self._runs = self._runs, []
        return Exchanged([runs], [], [], [])

    def may_have_lost(self) -> bool:
        return False

    def sleep(self, seconds: float, seen: int) -> None: ...

    def wake(self) -> None: ...

    def note_begun(self, slot: int, run: Run) -> None: ...

    def progress(self, job_id: str, percent: int | None, text: str | None) -> None: ...

    def batch_of(self, job_id: str) -> None: ...

    def now(self) -> int:
        return 0

    def close(self) -> None:
        self._closed.set()


def test_when_the_store_has_failed_nothing_begins_that_other_workers_may_have_by_then(app: Anew) -> None:
    began: list[int] = []
    threads: list[threading.Thread] = []
    is_time, closed = threading.Event(), threading.Event()

    @app.task
    def note() -> None:
        began.append(len(began) + 1)
        if len(began) == 2:
            threads.append(threading.current_thread())
            is_time.set()
            closed.wait(WAIT_S)

    worker = app.worker(concurrency=1)
    worker._source = FailingSource([run_of(note, key=key) for key in range(5)], is_time, closed)
    with pytest.raises(StoreFailed):
        worker.run()
    threads[0].join(WAIT_S)
    assert began == [1, 2]


# -- what hangs


def test_coroutines_that_were_given_up_leave_their_places_to_others(app: Anew) -> None:
    @app.task(timeout="1h")
    async def hang() -> None:
        await asyncio.Event().wait()

    lane, boss = lane_of(app, 2)
    lane.add([run_of(hang, key=1), run_of(hang, key=2)])
    for _ in range(2):
        boss.began.get(timeout=WAIT_S)
    for run, _ in lane.overdue(later(7_200)):
        lane.claim(run)
    others = [run_of(hang, key=key) for key in (3, 4, 5)]
    lane.add(others)
    assert [boss.began.get(timeout=WAIT_S) for _ in range(2)] == others[:2]
    assert lane.unbegun() == others[2:]
    lane.close()


def test_a_coroutine_that_is_given_up_before_its_turn_is_given_back_and_never_begins(app: Anew) -> None:
    gate = threading.Event()

    @app.task
    async def block() -> None:
        gate.wait(WAIT_S)

    lane, boss = lane_of(app, 2)
    lane.add([run_of(block, key=1), run_of(block, key=2)])
    first = boss.began.get(timeout=WAIT_S)
    given_up = [*lane.unbegun(), *lane.abandon_all()]
    assert first.key == 1
    assert sorted(run.key for run in given_up) == [1, 2]
    gate.set()
    lane.close()
    assert boss.began.empty()
    assert boss.over.empty()


def test_a_coroutine_that_is_stopped_before_its_turn_leaves_its_place(app: Anew) -> None:
    gate = threading.Event()

    @app.task
    async def block() -> None:
        gate.wait(WAIT_S)

    lane, boss = lane_of(app, 2)
    runs = [run_of(block, key=key) for key in (1, 2, 3)]
    lane.add(runs)
    assert boss.began.get(timeout=WAIT_S) is runs[0]
    lane.stop({runs[1]: CALLED_OFF})
    gate.set()
    assert {boss.over.get(timeout=WAIT_S) for _ in runs} == set(runs)
    assert not lane.open
    lane.close()


def test_a_coroutine_that_is_stopped_gives_its_reason_and_leaves_its_place(app: Anew) -> None:
    @app.task
    async def hang() -> None:
        await asyncio.Event().wait()

    lane, boss = lane_of(app, 1)
    runs = [run_of(hang, key=key) for key in (1, 2)]
    lane.add(runs)
    for run in runs:
        assert boss.began.get(timeout=WAIT_S) is run
        lane.stop({run: CALLED_OFF})
        assert boss.over.get(timeout=WAIT_S) is run
        assert run.outcome is CALLED_OFF
    lane.close()


@pytest.mark.parametrize("is_async", [True, False])
def test_no_more_is_taken_than_may_run_of_a_kind_that_was_not_known_at_first(
    app: Anew, is_async: bool
) -> None:
    gate = threading.Event()

    async def wait_in_loop() -> None:
        await asyncio.to_thread(gate.wait, WAIT_S)

    def wait() -> None:
        gate.wait(WAIT_S)

    first, second = (wait, wait_in_loop) if is_async else (wait_in_loop, wait)
    app.task(name="first")(first)
    lane, _ = lane_of(app, 2)
    later = app.task(name="later")(second)
    for key in range(5):
        lane.add([run_of(later, key=10 * key + more) for more in range(lane.want().limit)])
    assert lane.held == 2
    gate.set()
    lane.close()


def test_a_process_has_time_to_start_before_its_run_is_given_up(app: Anew) -> None:
    task = app.task(name="apart", timeout="1s", process=True)(lambda: None)
    lane, _ = lane_of(app, 1)
    run = run_of(task)
    run.began_ns = later(0)  # the thread has it, and its process still imports the application
    lane.open.add(run)
    assert lane.overdue(later(60)) == []
    ((given_up, timeout_ms),) = lane.overdue(later(70))
    assert (given_up.key, timeout_ms) == (run.key, 1_000)


def test_only_threads_that_still_hang_count_against_a_worker(
    app: Anew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anew.tasks.worker.MOST_ABANDONED", 0)
    gates = [threading.Event(), threading.Event()]
    began: queue.Queue[threading.Thread] = queue.Queue()

    @app.task(timeout="1h")
    def hang(gate: int) -> None:
        began.put(threading.current_thread())
        gates[gate].wait(WAIT_S)

    @app.task(timeout="1h")
    async def hang_in_loop() -> None:
        began.put(threading.current_thread())
        await asyncio.Event().wait()

    worker = app.worker(concurrency=1)
    (lane,) = worker._lanes

    def give_up(run: Run) -> threading.Thread:
        lane.add([run])
        thread = began.get(timeout=WAIT_S)
        run.began_ns -= 7_200_000 * MS
        worker._look_after_time_outs()
        return thread

    give_up(run_of(hang_in_loop))
    worker._is_over()
    assert not worker.is_stopping
    thread = give_up(run_of(hang, payload=b'{"gate":0}'))
    gates[0].set()
    thread.join(WAIT_S)
    worker._is_over()
    assert not worker.is_stopping
    thread = give_up(run_of(hang, payload=b'{"gate":1}'))
    worker._is_over()
    assert worker.is_stopping
    gates[1].set()
    thread.join(WAIT_S)
    assert worker.has_given_up, "whoever asks does so when it has ended"
    lane.close()


# -- the event loop


def test_a_coroutine_that_is_cancelled_at_the_end_can_still_await(app: Anew) -> None:
    cleaned: list[str] = []

    @app.task
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            cleaned.append("all")

    lane, boss = lane_of(app, 1)
    lane.add([run_of(hang)])
    boss.began.get(timeout=WAIT_S)
    lane.abandon_all()
    lane.close()
    assert cleaned == ["all"]


def test_a_worker_that_can_make_no_event_loop_ends_and_gives_its_jobs_back(
    app: Anew, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> asyncio.AbstractEventLoop:
        raise OSError(errno.EMFILE, "Too many open files")

    @app.task
    async def coroutine() -> None: ...

    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    handle = coroutine.enqueue()
    with pytest.raises(OSError, match="Too many open files"):
        app.worker().run()
    assert handle.status() == "ready"


# -- what is taken ahead


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_what_waits_behind_jobs_that_are_suddenly_long_is_given_back(app: Anew, kind: str) -> None:
    """After many runs of 1 ms the lane takes jobs ahead; the ones that come now do not end."""
    gate = threading.Event()

    @app.task
    def long() -> None:
        gate.wait(WAIT_S)

    @app.task
    async def long_in_loop() -> None:
        await asyncio.Event().wait()

    task = long if kind == "plain" else long_in_loop
    lane, boss = lane_of(app, 2)
    pace = lane._plain if kind == "plain" else lane._async
    for _ in range(1_000):
        pace.note(1.0)
    assert pace.free() > 40
    runs = [run_of(task, key=key) for key in range(40)]
    lane.add(runs)
    first = [boss.began.get(timeout=WAIT_S) for _ in range(2)]
    began_ns = max(run.began_ns for run in first)
    assert lane.surplus(began_ns + 99 * MS) == []
    assert lane.surplus(began_ns + 101 * MS) == runs[2:]
    assert (lane.held, pace.free()) == (2, 0)
    assert lane.surplus(began_ns + 200 * MS) == []
    first[0].end(None)
    lane.claim(first[0])
    assert pace.free() > 0
    gate.set()
    lane.close()


def test_a_worker_gives_back_what_waits_behind_long_jobs(app: Anew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anew.tasks.lanes.STALLED_NS", 0)
    gate, began = threading.Event(), threading.Event()

    @app.task
    def long() -> None:
        began.set()
        gate.wait(WAIT_S)

    worker = app.worker(concurrency=1)
    (lane,) = worker._lanes
    for _ in range(1_000):
        lane._plain.note(1.0)
    long.enqueue_many([()] * 10)
    worker._turn()
    assert app.counts()["in_flight"] == 10
    assert began.wait(WAIT_S)
    worker._turn()
    assert (app.counts()["in_flight"], app.counts()["ready"]) == (1, 9)
    gate.set()
    lane.close()
