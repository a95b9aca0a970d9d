"""What is around enqueues and runs: where it is called, what it hears, what it carries, and that its errors change nothing."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path

import pytest

from anew import Anew, Cancel, Discard, Retry, Snooze, ctx
from anew.errors import InvalidInput, InvalidJob, StoreBusy
from anew.jobs.carried import MOST_BYTES
from anew.tasks.around import Enqueuing, Running

here: ContextVar[str] = ContextVar("here", default="nowhere")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Anew]:
    with Anew(tmp_path / "jobs.db", policy=["1h"]) as made:
        yield made


def work(app: Anew, **options: int) -> dict[str, int]:
    """Run what is ready; give what the runs have come to, without the kinds of which there were none."""
    worker = app.worker(burst=True, **options)
    worker.run()
    return {name: count for name, count in worker.done.items() if count}


def heard_by(app: Anew) -> list[Running]:
    """Have a hook keep what it hears of runs that have ended."""
    heard: list[Running] = []

    @app.around("run")
    def keep(run: Running) -> Iterator[None]:
        assert run.outcome is None
        yield
        heard.append(run)

    return heard


def test_what_is_set_around_a_run_is_set_in_the_thread_and_in_the_coroutine(app: Anew) -> None:
    @app.around("run")
    def mark(run: Running) -> Iterator[None]:
        token = here.set(run.job_id)
        yield
        here.reset(token)

    seen: list[tuple[str, str]] = []

    @app.task
    def plain() -> None:
        seen.append((ctx.job_id, here.get()))

    @app.task
    async def coroutine(turns: int) -> None:
        await asyncio.sleep(0)  # both begin before either goes on
        seen.append((ctx.job_id, await asyncio.to_thread(here.get)))

    ids = [plain.enqueue().id, coroutine.enqueue(1).id, coroutine.enqueue(2).id]
    assert work(app) == {"succeeded": 3}
    assert sorted(seen) == sorted((one, one) for one in ids)
    assert here.get() == "nowhere"


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize(
    ("error", "outcome", "error_type", "text"),
    [
        (None, "succeeded", None, None),
        (ValueError("no"), "error", "ValueError", "no"),
        (Retry("again"), "error", "Retry", "again"),
        (Discard("gone"), "error", "Discard", "gone"),
        (Snooze("1h", "later"), "snoozed", None, "later"),
        (Cancel("left"), "cancelled", None, "left"),
    ],
)
def test_a_hook_hears_what_the_run_has_come_to(
    app: Anew, kind: str, error: Exception | None, outcome: str, error_type: str | None, text: str | None
) -> None:
    heard = heard_by(app)

    def handle() -> None:
        if error is not None:
            raise error

    async def ahandle() -> None:
        handle()

    job = app.task(handle if kind == "plain" else ahandle).enqueue()
    work(app)
    (run,) = heard
    assert (run.job_id, run.queue, run.attempt, run.process) == (job.id, "default", 1, False)
    assert (run.outcome, run.error_type, run.error, run.exception) == (outcome, error_type, text, error)


def test_a_coroutine_that_takes_too_long_ends_as_timeout(app: Anew) -> None:
    heard = heard_by(app)

    @app.task(timeout=0.01)
    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    hang.enqueue()
    work(app)
    assert [(run.outcome, type(run.exception)) for run in heard] == [("timeout", TimeoutError)]


def test_the_first_hook_is_the_outermost(app: Anew) -> None:
    order: list[str] = []

    def named(name: str) -> None:
        @app.around("run")
        @contextmanager
        def note(run: Running) -> Iterator[None]:
            order.append(f"+{name}")
            yield
            order.append(f"-{name}")

    named("a")
    named("b")
    app.task(lambda: order.append("run"), name="t").enqueue()
    work(app)
    assert order == ["+a", "+b", "run", "-b", "-a"]


def never(subject: object) -> AbstractContextManager[None]:
    raise OSError("never")


def at_once(subject: object) -> Iterator[None]:
    raise OSError("at once")
    yield


def later(subject: object) -> Iterator[None]:
    yield
    raise OSError("later")


def leaves(subject: object) -> Iterator[None]:
    yield
    raise SystemExit(1)


def twice(subject: object) -> Iterator[None]:
    yield
    yield


def nothing(subject: object) -> object:
    return None


@pytest.mark.parametrize("hook", [never, at_once, later, leaves, twice, nothing])
@pytest.mark.parametrize("error", [None, ValueError("no")])
def test_an_error_around_a_job_changes_nothing_and_is_logged(
    app: Anew, caplog: pytest.LogCaptureFixture, hook: object, error: Exception | None
) -> None:
    app.around("enqueue")(hook)  # type: ignore[type-var]
    app.around("run")(hook)  # type: ignore[type-var]
    heard = heard_by(app)
    ran: list[str] = []

    def handle(kind: str) -> None:
        ran.append(kind)
        if error is not None:
            raise error

    async def ahandle() -> None:
        handle("async")

    app.task(handle).enqueue("plain")
    app.task(ahandle).enqueue()
    assert work(app) == {"succeeded" if error is None else "failed": 2}
    assert sorted(ran) == ["async", "plain"]
    assert [run.exception for run in heard] == [error, error]
    logged = [record for record in caplog.records if record.message == "what is around a job failed"]
    assert len(logged) == 4  # two enqueues, two runs
    assert {getattr(record, "task", "").rpartition(".")[2] for record in logged} == {"handle", "ahandle"}


def test_a_hook_cannot_swallow_what_an_enqueue_raises(app: Anew, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Enqueuing] = []

    @app.around("enqueue")
    @contextmanager
    def swallow(jobs: Enqueuing) -> Iterator[None]:
        heard.append(jobs)
        try:
            yield
        except BaseException:
            pytest.fail("a hook is left as if all were well")

    @app.task
    def handle() -> None: ...

    def refuse(jobs: object, *, plain: bool) -> None:
        raise StoreBusy("another program writes")

    monkeypatch.setattr(app.backend, "enqueue", refuse)
    with pytest.raises(StoreBusy) as caught:
        handle.enqueue()
    assert heard[0].exception is caught.value
    assert heard[0].job_ids == ()


def test_what_is_carried_reaches_each_run_also_after_a_failure_and_not_other_jobs(app: Anew) -> None:
    heard = heard_by(app)
    app.around("enqueue")(
        lambda jobs: nullcontext(jobs.carried.update({"user": "ada", "n": str(jobs.count)}))
    )

    @app.task
    def flaky(n: int) -> None:
        if not ctx.is_last and ctx.attempt == 1:
            raise Retry(after=0)

    @app.task(priority=7, unique=True, expires="1h", max_attempts=5)
    def tied(n: int) -> None: ...

    first = flaky.enqueue(1)
    many = flaky.enqueue_many([(2,), (3,)])
    other = tied.enqueue(1)
    app.around_enqueues.clear()
    bare = flaky.enqueue(4)
    while sum(app.counts().values()):
        work(app)
    found: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for run in heard:
        found.setdefault(run.job_id, []).append((run.attempt, run.carried))
    one, two = {"user": "ada", "n": "1"}, {"user": "ada", "n": "2"}
    assert found == {
        first.id: [(1, one), (2, one)],
        many[0].id: [(1, two), (2, two)],
        many[1].id: [(1, two), (2, two)],
        other.id: [(1, one)],
        bare.id: [(1, {}), (2, {})],
    }


@pytest.mark.parametrize("value", [None, 0, {"a": "b"}, ["", 0, {"a": "b"}]])
def test_what_a_job_carries_is_never_taken_for_its_result(app: Anew, value: object) -> None:
    app.around("enqueue")(lambda jobs: nullcontext(jobs.carried.update(a="b")))
    job = app.task(lambda: value, name="give", keep_result="1h").enqueue()
    work(app)
    assert job.status() == "completed"
    assert job.result() == value


@pytest.mark.parametrize("carried", [{"a": 7}, {7: "a"}, {"a": "\ud800"}, {"a": "x" * MOST_BYTES}])
def test_what_cannot_be_carried_is_logged_and_the_job_is_stored(
    app: Anew, caplog: pytest.LogCaptureFixture, carried: dict[str, str]
) -> None:
    heard = heard_by(app)
    app.around("enqueue")(lambda jobs: nullcontext(jobs.carried.update(carried)))
    app.task(lambda: None, name="t").enqueue()
    work(app)
    assert [run.carried for run in heard] == [{}]
    assert [record.message.partition(":")[0] for record in caplog.records if record.levelname == "ERROR"] == [
        "jobs carry nothing"
    ]


def test_what_is_carried_comes_through_an_outbox(app: Anew, tmp_path: Path) -> None:
    heard = heard_by(app)
    enqueued: list[Enqueuing] = []

    @app.around("enqueue")
    def trace(jobs: Enqueuing) -> Iterator[None]:
        jobs.carried["user"] = "ada"
        enqueued.append(jobs)
        yield

    @app.task
    def pack(order: int) -> None: ...

    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        app.create_outbox(shop)
        app.outbox(shop).enqueue(pack, 7)
    app.drain_outbox(tmp_path / "shop.db")
    work(app)
    assert [(jobs.task, jobs.count, jobs.job_ids) for jobs in enqueued] == [(pack.name, 1, ())]
    assert [run.carried for run in heard] == [{"user": "ada"}]


def test_arguments_that_do_not_fit_are_refused_before_any_hook(app: Anew) -> None:
    app.around("enqueue")(lambda jobs: pytest.fail("there is nothing to enqueue"))

    @app.task
    def handle(n: int) -> None: ...

    with pytest.raises(InvalidJob):
        handle.enqueue("one")  # type: ignore[arg-type]
    assert handle.enqueue_many([]) == []


def test_hooks_are_around_runs_in_the_testing_kit_too(app: Anew) -> None:
    heard = heard_by(app)
    job = app.task(lambda: here.get(), name="t")
    with app.test() as test:
        handle = job.enqueue()
        test.drain()
    assert [(run.job_id, run.outcome) for run in heard] == [(handle.id, "succeeded")]


def test_what_may_be_surrounded_is_named(app: Anew) -> None:
    with pytest.raises(InvalidInput, match='"enqueue" or "run"'):
        app.around("start")  # type: ignore[call-overload]


def test_threads_go_on_after_a_hook_has_left(app: Anew) -> None:
    app.around("run")(leaves)
    names: list[str] = []
    task = app.task(lambda: names.append(threading.current_thread().name), name="t")
    task.enqueue_many([()] * 3)
    assert work(app, concurrency=1) == {"succeeded": 3}
    assert len(set(names)) == 1


class Mistake(Exception):
    """What a weak reference can name."""


def test_what_an_enqueue_raised_is_freed_at_once(app: Anew, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(jobs: object, *, plain: bool) -> None:
        raise Mistake

    app.around("enqueue")(lambda jobs: nullcontext())
    task = app.task(lambda: None, name="t")
    monkeypatch.setattr(app.backend, "enqueue", refuse)
    gc.collect()
    gc.disable()
    try:
        try:
            task.enqueue()
        except Mistake as error:
            raised = weakref.ref(error)
        assert raised() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("hooks", [0, 1])
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_what_a_handler_raised_is_freed_at_once_with_all_that_its_frames_hold(
    app: Anew, hooks: int, kind: str
) -> None:
    """Sockets and responses among them: they must not wait for the collector of cycles."""
    for _ in range(hooks):
        app.around("run")(lambda run: nullcontext())
    raised: list[weakref.ref[Mistake]] = []

    def handle() -> None:
        error = Mistake()
        raised.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    async def ahandle() -> None:
        handle()

    app.task(handle if kind == "plain" else ahandle).enqueue()
    gc.collect()
    gc.disable()
    try:
        work(app)
        assert [one() for one in raised] == [None]
    finally:
        gc.enable()
