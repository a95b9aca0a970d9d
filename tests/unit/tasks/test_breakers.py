"""Breakers and retry budgets of applications: what is held, who sees it, and what it costs those that have none."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from anew import Anew, Discard, Event, Retry, Snooze
from anew.clock import ManualClock
from anew.errors import InvalidInput, StoreBusy
from anew.jobs import Failed, Snoozed, State
from anew.tasks.downstream import Downstream
from anew.tasks.embedded import EmbeddedBackend
from anew.tasks.opening import open_engine
from anew.tasks.running import HELD, Run, failed_with
from anew.tasks.source import EmbeddedSource, Exchanged, Want
from anew.tasks.worker import Worker

SETTINGS: dict[str, Any] = {"least": 4, "cooldown": "30s", "release": 10}


class Bench:
    """An application on a file or in memory whose worker is played by the test.

    Attributes:
        clock: Stands still until it is moved.
        source: What its worker asks.
    """

    def __init__(self, path: Path | None = None, clock: ManualClock | None = None, **settings: Any) -> None:
        self.clock = clock or ManualClock()
        self.app = Anew()
        self.commit = open_engine(path, clock=self.clock)
        self.app.replace_store(EmbeddedBackend(self.commit), self.app.events)

        @self.app.task(name="call", downstream=Downstream("stripe", **SETTINGS | settings), policy=["1h"])
        def call(n: int) -> None: ...

        @self.app.task(name="plain")
        def plain(n: int) -> None: ...

        self.call, self.plain = call, plain
        self.source = EmbeddedSource(self.app, self.commit)

    def take(self, limit: int = 100, ended: Sequence[Run] = (), given_back: Sequence[Run] = ()) -> Exchanged:
        """One exchange of its worker."""
        return self.source.exchange(ended, given_back, [Want(None, limit)])

    def start(self, limit: int = 100) -> list[Run]:
        """The runs that it may start."""
        (runs,) = self.take(limit).taken
        return runs

    def end(self, runs: Sequence[Run], error: BaseException | None = None) -> Exchanged:
        """Report runs, and take nothing."""
        for run in runs:
            run.end(None if error is None else failed_with(error))
        return self.take(0, runs)

    def open(self) -> None:
        """Have the breaker opened by four failures, of jobs that run again much later."""
        self.call.enqueue_many([(n,) for n in range(4)])
        for run in (runs := self.start()):
            run.end(Failed(message="no", error_type="OSError", retry_at=None))
        self.take(0, runs)
        assert self.state() == "open"

    def state(self) -> str:
        (breaker,) = self.app.breakers()
        return breaker.state


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.app.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Bench, Bench]]:
    """Two engines on one file, as two processes have them."""
    clock = ManualClock()
    one, other = Bench(tmp_path / "jobs.db", clock), Bench(tmp_path / "jobs.db", clock)
    yield one, other
    one.app.close()
    other.app.close()


def test_a_held_job_is_not_started_waits_for_its_instant_and_burns_no_attempt(bench: Bench) -> None:
    bench.open()
    handles = bench.call.enqueue_many([(n,) for n in range(3)])
    done = bench.take()
    assert done.taken == [[]]
    assert done.held == 3
    now = bench.clock.now()
    for n, handle in enumerate(handles):
        job = bench.app.backend.find(handle.id)
        assert job is not None
        assert (job.state, job.attempts, job.ready_at) == (State.SCHEDULED, 0, now + 30_000 + n * 100)
        (error,) = job.errors
        assert (error.outcome, error.message) == ("held", "stripe is failing")


def test_one_job_probes_and_the_others_follow_at_the_rate_once_it_has_succeeded(bench: Bench) -> None:
    bench.open()
    bench.call.enqueue_many([(n,) for n in range(3)])
    bench.take()
    bench.clock.advance(30_000)
    (probe,) = bench.start()
    bench.clock.advance(99)
    assert bench.end([probe]).open == {}
    assert bench.state() == "closed"
    assert bench.start() == []
    bench.clock.advance(1)
    assert len(bench.start()) == 1
    bench.clock.advance(100)
    assert len(bench.start()) == 1


def test_a_probe_that_fails_holds_the_others_for_longer(bench: Bench) -> None:
    bench.open()
    bench.call.enqueue(1)
    bench.take()
    bench.clock.advance(30_000)
    bench.end(bench.start(), OSError("still"))
    (breaker,) = bench.app.breakers()
    assert (breaker.state, breaker.opened) == ("open", 2)
    assert breaker.reopens_at == bench.clock.now() + 30_000  # its policy is constant


def test_jobs_of_other_tasks_are_not_held(bench: Bench) -> None:
    bench.open()
    bench.plain.enqueue(1)
    bench.call.enqueue(1)
    (run,) = bench.start()
    assert run.name == "plain"


def test_two_processes_share_a_breaker_and_its_probe(pair: tuple[Bench, Bench]) -> None:
    one, other = pair
    one.call.enqueue_many([(n,) for n in range(4)])
    mine, theirs = one.start(2), other.start(2)
    one.end(mine, OSError("no"))
    assert other.state() == "closed"
    assert other.end(theirs, OSError("no")).open == {"stripe": 0}
    assert one.state() == "open"
    one.call.enqueue_many([(n,) for n in range(6)])
    assert one.start(3) == other.start() == []
    one.clock.advance(30_500)  # six are ready
    probes = other.start(2) + one.start(2) + other.start() + one.start()
    assert len(probes) == 1


def test_a_breaker_outlives_its_process(tmp_path: Path) -> None:
    clock = ManualClock()
    one = Bench(tmp_path / "jobs.db", clock)
    one.open()
    one.app.close()
    other = Bench(tmp_path / "jobs.db", clock)
    other.call.enqueue(1)
    assert other.start() == []
    other.app.close()


@pytest.mark.parametrize("limit", [1, 7, 100])
def test_a_backlog_is_spread_over_as_many_instants(bench: Bench, limit: int) -> None:
    bench.open()
    handles = bench.call.enqueue_many([(n,) for n in range(50)])
    while bench.take(limit).held:
        pass
    found = [bench.app.backend.find(handle.id) for handle in handles]
    instants = sorted(job.ready_at for job in found if job is not None)
    assert instants == [bench.clock.now() + 30_000 + n * 100 for n in range(50)]


def test_holds_do_not_count_among_the_answers_of_429_that_a_job_may_have(bench: Bench) -> None:
    handle = bench.call.enqueue(1)
    (run,) = bench.start()
    bench.open()
    later = bench.clock.now() + 1
    run.end(Snoozed(ready_at=later, outcome="rate_limited", most=2))
    bench.take(0, [run])
    for _ in range(3):
        bench.clock.advance(2)
        assert bench.take().held == 1
        bench.app.close_breaker("stripe")
        bench.clock.advance(40_000)
        (run,) = bench.start()
        bench.open()
        run.end(Snoozed(ready_at=bench.clock.now() + 1, outcome="rate_limited", most=4))
        bench.take(0, [run])
    job = bench.app.backend.find(handle.id)
    assert job is not None
    assert [error.outcome for error in job.errors] == ["rate_limited", "held"] * 3 + ["rate_limited"]
    assert job.state is State.SCHEDULED


def test_signals_open_nothing_and_errors_and_time_outs_do(bench: Bench) -> None:
    def end(*outcomes: Any) -> str:
        bench.app.close_breaker("stripe")
        bench.call.enqueue_many([(n,) for n in range(len(outcomes))])
        runs = bench.start()
        for run, outcome in zip(runs, outcomes, strict=True):
            run.end(outcome)
        bench.take(0, runs)
        state = bench.state() if bench.app.breakers() else "closed"
        bench.app.clear(*State)
        return state

    later = bench.clock.now() + 60_000
    assert end(*[Failed(message="", error_type="Retry", retry_at=later)] * 9) == "closed"
    assert end(*[Failed(message="", error_type="Discard", kill=True)] * 9) == "closed"
    assert end(*[Snoozed(ready_at=later)] * 9) == "closed"
    assert end(*[Failed(message="", error_type="TimeoutError", outcome="timeout")] * 9) == "open"
    assert end(*[Snoozed(ready_at=later, outcome="rate_limited")] * 9) == "open"


def test_a_run_that_has_not_begun_when_the_breaker_opens_is_held_too(bench: Bench) -> None:
    bench.call.enqueue_many([(n,) for n in range(6)])
    runs = bench.start()
    worker = bench.app.worker()
    for run in runs[:4]:
        run.end(failed_with(OSError("no")))
    worker.open_breakers = bench.take(0, runs[:4]).open or {}
    assert [worker.holds(run) for run in runs[4:]] == [True, True]
    done = bench.take(0, runs[4:])
    ready = sorted(job.ready_at for run, job in done.settled if run.held and job is not None)
    assert ready == [bench.clock.now() + 30_000, bench.clock.now() + 30_100]
    assert [job.attempts for run, job in done.settled if job is not None] == [0, 0]


def test_the_probe_is_the_one_run_that_a_worker_does_not_hold(bench: Bench) -> None:
    bench.open()
    bench.call.enqueue_many([(1,), (2,)])
    bench.take()
    bench.clock.advance(30_000)
    done = bench.take()
    ((probe,),) = done.taken
    assert done.open == {"stripe": probe.key}
    worker = bench.app.worker()
    worker.open_breakers = done.open
    assert not worker.holds(probe)


def test_a_worker_knows_of_a_probe_before_it_can_begin(bench: Bench) -> None:
    bench.open()
    bench.call.enqueue(1)
    bench.take()
    bench.clock.advance(30_000)
    worker = bench.app.worker()
    worker.open_breakers = {"stripe": 0}
    (lane,) = worker._lanes
    held: list[bool] = []
    lane.add = lambda runs: held.extend(worker.holds(run) for run in runs)  # type: ignore[method-assign]
    worker._exchange([], [], [lane.want()])
    assert held == [False]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_what_waits_in_a_worker_when_a_breaker_opens_is_not_called(bench: Bench, kind: str) -> None:
    called: list[str] = []

    @bench.app.task(name="sync", downstream="stripe")
    def sync() -> None:
        called.append("sync")

    @bench.app.task(name="async", downstream="stripe")
    async def coroutine() -> None:
        called.append("async")

    (sync if kind == "plain" else coroutine).enqueue_many([()] * 3)
    runs = bench.start()
    worker = bench.app.worker(concurrency=1)
    ended: queue.SimpleQueue[Run] = queue.SimpleQueue()
    worker.ended = ended.put  # type: ignore[method-assign]
    worker.open_breakers = {"stripe": runs[1].key}  # the second one probes
    (lane,) = worker._lanes
    lane.add(runs)
    for _ in range(3):
        ended.get(timeout=30)
    lane.close()
    assert [run.held for run in runs] == [True, False, True]
    assert len(called) == 1
    assert not lane.open


def test_a_job_that_another_has_meanwhile_is_not_held(bench: Bench) -> None:
    bench.call.enqueue(1)
    (mine,) = bench.start()
    bench.take(0, (), [mine])
    (theirs,) = bench.start()
    mine.held = True
    mine.end(Snoozed(ready_at=0, reason=HELD, outcome="held"))
    assert bench.take(0, [mine]).lost == [mine]
    assert bench.end([theirs]).settled == [(theirs, None)]


def test_jobs_that_were_held_are_no_runs_after_which_a_worker_is_replaced() -> None:
    bench = Bench()
    bench.open()
    bench.call.enqueue_many([(n,) for n in range(20)])
    bench.plain.enqueue_many([(n,) for n in range(5)])
    worker = Worker(bench.app, burst=True, concurrency=1, most_jobs=5)
    worker.run()
    assert worker.done["succeeded"] == 5
    bench.app.close()


def test_what_a_busy_store_has_not_settled_is_settled_and_reported_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.call.enqueue_many([(n,) for n in range(5)])
    runs = bench.start()
    for run in runs:
        run.end(failed_with(OSError("no")))
    runs[4].held = True
    with monkeypatch.context() as patch:
        patch.setattr(bench.commit, "apply_all", lambda ops: [StoreBusy("busy") for _ in ops])
        done = bench.take(10, runs)
    assert (done.settled, done.taken, done.held) == ([], [[]], 0)
    assert sorted(run.key for run in done.again) == [run.key for run in runs]
    again = bench.take(0, done.again)
    assert len(again.settled) == 5
    (breaker,) = bench.app.breakers()
    assert (breaker.state, breaker.runs) == ("open", 4)


def test_a_held_job_that_somebody_deleted_meanwhile_is_lost(bench: Bench) -> None:
    handle = bench.call.enqueue(1)
    (run,) = bench.start()
    run.held = True
    run.end(Snoozed(ready_at=0, reason=HELD, outcome="held"))
    bench.app.backend.delete(handle.id)
    done = bench.take(0, [run])
    assert (done.lost, done.settled) == ([run], [])


def test_a_probe_that_is_given_back_leaves_its_place_to_the_next(bench: Bench) -> None:
    bench.open()
    bench.call.enqueue(1)
    bench.take()
    bench.clock.advance(30_000)
    (probe,) = bench.start()
    bench.take(0, (), [probe])
    (again,) = bench.start()
    assert again.key == probe.key


def test_retries_are_held_while_too_many_of_them_fail() -> None:
    """With 4 in all that may fail, whatever is counted: the share of the budget is 0."""
    one = Bench(failures=1, least=4, budget=0)
    one.call.enqueue_many([(n,) for n in range(12)])
    one.end(one.start(6))  # so that not all runs fail
    one.end(one.start(6), OSError("no"))
    assert one.state() == "closed"
    one.clock.advance(3_600_000)
    done = one.take()
    assert ([len(runs) for runs in done.taken], done.held) == ([4], 2)
    (message,) = {job.errors[-1].message for job in map(one.app.backend.find, _ids(done)) if job is not None}
    assert message == "too many retries of stripe fail"
    one.end(done.taken[0])  # they went well: the budget is as it was
    one.clock.advance(1_000)
    assert len(one.start()) == 2
    one.app.close()


def _ids(done: Exchanged) -> list[str]:
    return [run.job_id for run, _ in done.settled]


def test_a_breaker_is_closed_by_hand(bench: Bench) -> None:
    bench.open()
    events: list[Event] = []
    bench.app.on("breaker_closed")(events.append)
    bench.app.close_breaker("stripe")
    bench.app.close_breaker("stripe")  # it is closed already
    bench.app.close_breaker("unknown")
    bench.app.events.close()
    assert [(event.name, event.downstream) for event in events] == [("breaker_closed", "stripe")]
    bench.call.enqueue(1)
    assert len(bench.start()) == 1


def test_a_worker_reports_what_its_breakers_do() -> None:
    bench = Bench()
    bad = True
    events: list[tuple[str, str | None]] = []

    @bench.app.task(name="flaky", downstream="stripe", policy=[])
    def flaky() -> None:
        if bad:
            raise OSError("no")

    bench.app.on("breaker_opened", "breaker_closed")(
        lambda event: events.append((event.name, event.downstream))
    )
    flaky.enqueue_many([()] * 20)
    worker = Worker(bench.app, burst=True, concurrency=1)
    worker.run()
    assert events == [("breaker_opened", "stripe")]
    assert worker.done["discarded"] >= 4
    assert worker.done["discarded"] + worker.done["snoozed"] == 20
    bad = False
    bench.clock.advance(30_000)
    again = Worker(bench.app, burst=True)
    again.run()
    assert events[1:] == [("breaker_closed", "stripe")]
    assert again.done["succeeded"] == 1
    bench.app.close()


def test_async_handlers_are_held_as_well() -> None:
    bench = Bench()

    @bench.app.task(name="flaky", downstream="stripe", policy=[])
    async def flaky() -> None:
        raise OSError("no")

    flaky.enqueue_many([()] * 300)
    worker = Worker(bench.app, burst=True, coroutines=1)
    worker.run()
    assert worker.done["snoozed"] > 0
    assert worker.done["discarded"] + worker.done["snoozed"] == 300
    bench.app.close()


def test_a_test_drains_what_is_behind_a_held_job_and_lets_its_time_pass() -> None:
    app, bad = Anew(), True

    @app.task(name="flaky", downstream=Downstream("stripe", **SETTINGS), policy=["1h"])
    def flaky() -> None:
        if bad:
            raise OSError("no")

    @app.task(name="plain")
    def plain() -> None: ...

    with app.test() as test:
        flaky.enqueue_many([()] * 6)
        plain.enqueue()
        assert [ran.task for ran in test.drain()] == ["flaky"] * 4 + ["plain"]
        bad = False
        later = test.clock.advance("31s")
        assert [ran.outcome for ran in later] == ["succeeded"] * 2
        assert later[1].at - later[0].at == timedelta(milliseconds=100)


@pytest.mark.parametrize("signal", [Retry(after=60), Snooze(60), Discard("no")])
def test_handlers_signals_open_nothing(signal: Exception) -> None:
    bench = Bench()

    @bench.app.task(name="signals", downstream="stripe")
    def signals() -> None:
        raise signal

    signals.enqueue_many([()] * 20)
    Worker(bench.app, burst=True).run()
    assert bench.app.breakers() in ([], [b for b in bench.app.breakers() if b.state == "closed"])
    bench.app.close()


def test_jobs_without_a_downstream_read_and_write_no_breaker(bench: Bench) -> None:
    """Also those of an application that has some: a breaker is looked at when a job of its tasks comes or ends."""
    ran: list[str] = []
    bench.commit.engine.store._link.connection.exec_trace = lambda cursor, text, bound: (
        ran.append(text) or True
    )  # type: ignore[attr-defined]
    bench.plain.enqueue(1)
    bench.end(bench.start())
    assert not [text for text in ran if "breaker" in text]
    bench.call.enqueue(1)
    bench.end(bench.start())
    assert len([text for text in ran if "breaker" in text]) == 3  # read at each end, written once


# -- settings


@pytest.mark.parametrize(
    "given",
    [
        {"failures": 0},
        {"failures": 1.1},
        {"failures": True},
        {"least": 0},
        {"least": 2.5},
        {"window": 0},
        {"window": "soon"},
        {"cooldown": "soon"},
        {"cooldown": lambda attempt, error: 3},
        {"release": 0},
        {"release": 1e-9},
        {"release": 1_001},
        {"release": float("nan")},
        {"budget": -0.1},
        {"most": 0},
    ],
)
def test_settings_that_do_not_fit_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Downstream("stripe", **given)


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", 7, None])
def test_names_that_do_not_fit_are_refused(key: Any) -> None:
    with pytest.raises(InvalidInput):
        Downstream(key)


@pytest.mark.parametrize(("release", "spacing_ms"), [(10, 100), (1_000, 1), (3, 334), (0.5, 2_000), (300, 4)])
def test_the_rate_is_never_passed_by_rounding(release: float, spacing_ms: int) -> None:
    assert Downstream("stripe", release=release).settings.spacing_ms == spacing_ms


def test_a_bare_name_takes_the_settings_that_another_task_gives() -> None:
    app = Anew()

    @app.task(name="a", downstream="stripe")
    def a() -> None: ...

    @app.task(name="b", downstream=Downstream("stripe", least=3))
    def b() -> None: ...

    @app.task(name="c", downstream="stripe")
    def c() -> None: ...

    assert app.downstreams["stripe"].least == 3
    with pytest.raises(InvalidInput, match="two settings of 'stripe'"):
        app.task(name="d", downstream=Downstream("stripe", least=4))(lambda: None)
