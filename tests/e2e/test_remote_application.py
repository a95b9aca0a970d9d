"""An application whose jobs are a server's, and its workers: everything over HTTP, as it is with a file."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anew import (
    Anew,
    Cancel,
    Debounce,
    Discard,
    Downstream,
    Enqueuing,
    JobFailed,
    Limit,
    Merge,
    Retry,
    Running,
    Snooze,
    ctx,
)
from anew.cli.exit_codes import NOT_FOUND
from anew.client import Client, ErrorView, Page
from anew.client.views import RateView
from anew.errors import InvalidInput, TooLarge, Unreachable
from anew.tasks.events import Event

from .command import anew, anew_json
from .server import ServerProcess


def tasks_of(app: Anew) -> Anew:
    """The same tasks for any place of the jobs."""

    @app.task(name="double", queue="sums", policy=["1ms"], keep_result="1h")
    def double(n: int) -> int:
        if n < 0:
            raise ValueError("below zero")
        return 2 * n

    @app.task(name="triple", queue="sums", keep_result="1h")
    async def triple(n: int) -> int:
        await asyncio.sleep(0)
        return 3 * n

    @app.task(name="signal", queue="signals", policy=["1ms", "1ms"], keep_result="1h")
    def signal(what: str) -> str:
        if ctx.attempt > 1 or what == "nothing":
            return f"attempt {ctx.attempt}"
        if what == "snooze" and ctx.job_id not in snoozed:
            snoozed.add(ctx.job_id)
            raise Snooze("1ms", reason="later")
        if what == "cancel":
            raise Cancel("no longer wanted")
        if what == "discard":
            raise Discard("never")
        if what == "retry":
            raise Retry("soon", after="1ms")
        return "slept"

    @app.task(name="late", queue="late", timeout="1ms", max_attempts=1)
    async def late() -> None:
        await asyncio.Event().wait()

    @app.task(name="ruled", queue="ruled", policy={KeyError: None, ValueError: ["1ms"]})
    def ruled(kind: str) -> None:
        raise {"key": KeyError, "value": ValueError}[kind](kind)

    snoozed: set[str] = set()
    seen: list[Event] = []
    app.on()(seen.append)
    app.seen = seen  # type: ignore[attr-defined]
    return app


@pytest.fixture
def server(fresh_server: Callable[..., ServerProcess], tmp_path: Path) -> ServerProcess:
    return fresh_server(root_dir=tmp_path / "data")


@pytest.fixture
def apps(server: ServerProcess, tmp_path: Path) -> Iterator[tuple[Anew, Anew]]:
    """One application over HTTP, and one on the server's directory."""
    host, port = server.address
    with Anew(f"http://{host}:{port}") as remote, Anew(tmp_path / "data") as near:
        yield tasks_of(remote), tasks_of(near)


def run_until(app: Anew, done: Callable[[], bool]) -> None:
    """Run a worker in another thread until something is so; every event that it emits is a moment to look."""
    moved = threading.Semaphore(0)
    app.on()(lambda event: moved.release())
    worker = app.worker()
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        while not done():
            assert moved.acquire(timeout=30), f"nothing happens any more: {app.counts()}"
    finally:
        worker.stop()
        thread.join()


@pytest.mark.parametrize("producer", [0, 1], ids=["remote", "near"])
@pytest.mark.parametrize("worker", [0, 1], ids=["remote", "near"])
def test_what_jobs_carry_goes_over_http_both_ways(
    apps: tuple[Anew, Anew], producer: int, worker: int
) -> None:
    carried = {"user": "ada", "path": "\u00fc/\u2603"}
    ran: list[Running] = []

    @apps[producer].around("enqueue")
    def send(jobs: Enqueuing) -> Iterator[None]:
        jobs.carried |= carried
        yield

    @apps[worker].around("run")
    def hear(run: Running) -> Iterator[None]:
        yield
        ran.append(run)

    double = apps[producer].tasks["double"]
    plain, tied = double.enqueue(4), double.using(unique=True, expires="1h").enqueue(5)
    many = double.enqueue_many([(n,) for n in range(150)])
    apps[producer].around_enqueues.clear()
    bare = double.enqueue(6)
    apps[worker].run_worker(burst=True)
    heard = {run.job_id: run.carried for run in ran}
    assert len(ran) == len(many) + 3
    assert heard.pop(bare.id) == {}
    assert [*heard.values()] == [carried] * 152
    assert (plain.result(), tied.result(), bare.result()) == (8, 10, 12)


def test_calls_become_one_job_over_http_and_beside_the_server(
    apps: tuple[Anew, Anew], server: ServerProcess
) -> None:
    """Both enqueue calls of the same keys: one job each, whoever came first."""
    for app in apps:
        app.task(name="wait", queue="waits", debounce=Debounce("1h", key="{n}"))(lambda n: None)
        app.task(name="join", queue="joins", merge={"ids": "append"}, keep_result="1h")(lambda ids: ids)
    waits, joins = ([app.tasks[name] for app in apps] for name in ("wait", "join"))
    first = [waits[0].enqueue(1), waits[1].enqueue(2)]
    second = [waits[1].enqueue(1), waits[0].enqueue(2)]
    assert [one.id for one in second] == [one.id for one in first]
    assert [(one.created, one.folded) for one in second] == [(False, True)] * 2
    assert [app.job(first[0].id).info().folded for app in apps] == [1, 1]  # type: ignore[union-attr]
    handles = [joins[n % 2].enqueue([n]) for n in range(6)]
    assert len({one.id for one in handles}) == 1
    shown = anew(server.address, "jobs", "show", handles[0].id).stdout
    assert "5 more calls into this job" in shown
    apps[0].run_worker(burst=True)
    assert handles[0].result() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(InvalidInput, match="merge dry-run: fold"):
        joins[0].using(merge=Merge("$new | .ids.x", key="k")).enqueue([1])
    with pytest.raises(TooLarge, match="at most 1000"):
        waits[0].enqueue_many([(n,) for n in range(1_001)])
    assert apps[0].counts("waits") == apps[1].counts("waits")


def test_a_worker_over_http_runs_what_was_enqueued_anywhere(apps: tuple[Anew, Anew]) -> None:
    remote, near = apps
    good = remote.tasks["double"].enqueue(4)
    other = near.tasks["triple"].enqueue(5)
    bad = remote.tasks["double"].enqueue(n=-1)
    run_until(remote, lambda: bad.status() == "dead" and other.status() == "completed")
    assert (good.wait(), near.job(good.id).result(), remote.tasks["triple"].app.job(other.id).result()) == (
        8,
        8,
        15,
    )
    with pytest.raises(JobFailed, match="is dead: ValueError: below zero"):
        bad.wait(timeout=5)
    info = bad.info()
    assert info is not None
    assert [(one.attempt, one.outcome, one.error_type) for one in info.errors] == [
        (1, "error", "ValueError"),
        (2, "error", "ValueError"),
    ]
    assert "below zero" in (info.errors[0].backtrace or "")
    bad.redrive()
    assert bad.status() == "ready"


def test_what_handlers_say_is_the_same_over_http(apps: tuple[Anew, Anew]) -> None:
    remote, _ = apps
    jobs = {what: remote.tasks["signal"].enqueue(what) for what in ("snooze", "cancel", "discard", "retry")}
    ended = ("completed", "dead", "cancelled")
    run_until(remote, lambda: all(job.status() in ended for job in jobs.values()))
    infos = {what: job.info() for what, job in jobs.items()}
    assert {what: info and (str(info.state), info.attempts) for what, info in infos.items()} == {
        "snooze": ("completed", 0),
        "cancel": ("cancelled", 0),
        "discard": ("dead", 1),
        "retry": ("completed", 1),
    }
    snoozed = infos["snooze"]
    assert snoozed is not None
    assert [one.outcome for one in snoozed.errors] == ["snoozed"]


def test_a_task_that_the_worker_does_not_know_burns_no_attempt_over_http(apps: tuple[Anew, Anew]) -> None:
    remote, _ = apps
    job = remote.task(name="newer", max_attempts=1)(lambda: None).enqueue()
    del remote.tasks["newer"]
    run_until(remote, lambda: job.status() == "scheduled")
    info = job.info()
    assert info is not None
    assert (info.attempts, [(one.outcome, one.error_type) for one in info.errors]) == (
        0,
        [("unknown_task", "UnknownTask")],
    )


def test_rules_and_time_outs_hold_over_http(apps: tuple[Anew, Anew]) -> None:
    remote, _ = apps
    late = remote.tasks["late"].enqueue()
    never, twice = (remote.tasks["ruled"].enqueue(kind) for kind in ("key", "value"))
    run_until(remote, lambda: {job.status() for job in (late, never, twice)} == {"dead"})
    outcomes = {}
    for name, job in (("late", late), ("never", never), ("twice", twice)):
        info = job.info()
        assert info is not None
        outcomes[name] = [one.outcome for one in info.errors]
    assert outcomes == {"late": ["timeout"], "never": ["error"], "twice": ["error", "error"]}


def test_a_burst_ends_when_the_server_has_nothing_more(fresh_server: Callable[..., ServerProcess]) -> None:
    host, port = fresh_server().address
    with Anew(f"http://{host}:{port}") as app:
        tasks_of(app)
        jobs = app.tasks["double"].enqueue_many([(n,) for n in range(50)])
        app.run_worker(burst=True)
        assert [job.result() for job in jobs] == [2 * n for n in range(50)]


def test_limits_of_keys_hold_over_http(apps: tuple[Anew, Anew]) -> None:
    remote, near = apps
    limit = Limit("key {n}", concurrency=1, rate="1000/s", burst=1000)
    first = near.tasks["double"].using(limit=limit).enqueue(1)
    jobs = [first, *remote.tasks["double"].using(limit=limit).enqueue_many([(1,), (1,)])]
    infos = [remote.job(job.id).info() for job in jobs]
    assert [info and info.waits_for for info in infos] == [None, "limit key 1", "limit key 1"]
    run_until(remote, lambda: all(job.status() == "completed" for job in jobs))


def test_keys_ties_and_batches_hold_over_http(apps: tuple[Anew, Anew]) -> None:
    remote, near = apps
    unique = remote.tasks["double"].using(unique="n {n}", delay="1h").enqueue(1)
    again = near.tasks["double"].using(unique="n {n}").enqueue(1)
    assert (unique.created, again.created, again.id) == (True, False, unique.id)
    timed = {"unique": True, "delay": "1h"}
    first, second = (remote.tasks["double"].using(**timed).enqueue(2) for _ in range(2))
    assert (first.created, second.created) == (True, False)
    with remote.batch(on_success=remote.tasks["triple"].call(7)) as batch:
        parts = remote.tasks["double"].using(batch=batch).enqueue_many([(1,), (2,)])
        expiring = remote.tasks["double"].using(expires="1d").enqueue(3)
    run_until(remote, lambda: len([e for e in remote.seen if e.name == "succeeded"]) == 4)  # type: ignore[attr-defined]
    assert [part.result() for part in (*parts, expiring)] == [2, 4, 6]
    assert remote.counts("sums")["completed"] == 4


def test_a_batchs_callback_asks_for_it_over_http(apps: tuple[Anew, Anew]) -> None:
    remote, _ = apps
    told: list[tuple[int, int, int]] = []

    @remote.task(name="whole", queue="sums")
    def whole() -> None:
        assert ctx.batch is not None
        told.append((ctx.batch.total, ctx.batch.succeeded, ctx.batch.failed))

    with remote.batch(on_complete=whole.call()) as batch:
        remote.tasks["double"].using(batch=batch, max_attempts=1).enqueue_many([(1,), (-1,)])
    run_until(remote, lambda: bool(told))
    assert told == [(2, 1, 1)]


def test_crons_limits_and_counts_are_steered_over_http(
    apps: tuple[Anew, Anew], server: ServerProcess
) -> None:
    remote, near = apps

    @remote.cron("0 4 * * *", tz="Europe/Berlin", catch_up=True)
    @remote.task(name="nightly")
    def nightly() -> None: ...

    remote.backend.put_crons(
        "app", [remote.crons["nightly"].entry("nightly")]
    )  # as older versions named the group
    remote.put_crons()
    with Client("http://{}:{}".format(*server.address)) as client:
        (shown,) = client.crons()
        assert (shown.group, shown.name, shown.schedule, shown.timezone) == (
            __name__, "nightly", "0 4 * * *", "Europe/Berlin"
        )  # fmt: skip
        assert anew_json(server.address, "cron", "remove", __name__, "nightly") == {"removed": ["nightly"]}
        assert client.crons() == []
        assert anew(server.address, "cron", "remove", __name__, "nightly").returncode == NOT_FOUND
        remote.put_crons()
        assert anew(server.address, "cron", "remove", __name__, "--yes").stdout == "Removed nightly.\n"
        assert anew(server.address, "cron", "remove", __name__, "--yes").returncode == NOT_FOUND
        remote.put_crons()
        remote.crons.clear()
        remote.run_worker(burst=True)
        assert client.crons() == []
        remote.limit("sums", concurrency=2, rate="10/m", burst=3)
        (queue,) = [one for one in client.queue_counts() if one.name == "sums"]
        assert queue.limit is not None
        assert (queue.limit.concurrency, queue.limit.rate) == (2, RateView(count=10, per_ms=60_000, burst=3))
        remote.unlimit("sums")
        assert [one.limit for one in client.queue_counts() if one.name == "sums"] in ([], [None])
    waiting = remote.tasks["double"].using(delay="1d", priority=7, max_attempts=4).enqueue(1)
    remote.tasks["double"].enqueue(2)
    waiting.cancel()
    assert waiting.status() == "cancelled"
    assert remote.counts("sums") == near.counts("sums")
    assert remote.counts()["cancelled"] == 1
    assert remote.clear("cancelled", older_than="1d") == 0
    assert remote.clear("cancelled", "completed") == 1
    waiting.delete() if waiting.status() else None
    assert waiting.status() is None


def test_a_queue_is_paused_over_http(apps: tuple[Anew, Anew]) -> None:
    remote, near = apps
    remote.pause("sums")
    remote.tasks["double"].enqueue(1)
    near.run_worker(burst=True)
    assert near.counts("sums")["ready"] == 1
    remote.resume("sums")
    near.run_worker(burst=True)
    assert near.counts("sums")["ready"] == 0


def test_a_breaker_opens_for_workers_over_http(apps: tuple[Anew, Anew]) -> None:
    remote, _ = apps
    stripe = Downstream("stripe", least=3, failures=0.5, cooldown="1h", budget=None)

    @remote.task(name="charge", queue="charges", policy=["1h"], downstream=stripe)
    def charge(n: int) -> None:
        raise ConnectionError("refused")

    charge.enqueue_many([(n,) for n in range(60)])

    def is_over() -> bool:
        counts = remote.counts("charges")
        return not (counts["ready"] or counts["in_flight"])

    run_until(remote, is_over)
    assert [breaker.state for breaker in remote.breakers()] == ["open"]
    failed = remote.counts("charges")["retrying"]
    assert 3 <= failed < 60  # the others were held, and not called
    assert remote.counts("charges")["scheduled"] == 60 - failed
    remote.close_breaker("stripe")
    assert [breaker.state for breaker in remote.breakers()] == ["closed"]


def test_jobs_that_have_not_begun_are_given_back_at_the_end(apps: tuple[Anew, Anew]) -> None:
    remote, _ = apps
    begun, go = threading.Event(), threading.Event()

    @remote.task(name="gated", queue="gated", keep_result="1h")
    def gated(n: int) -> int:
        begun.set()
        go.wait(30)
        return n

    gated.enqueue_many([(n,) for n in range(3)])
    worker = remote.worker(concurrency=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert begun.wait(30)
    worker.stop()
    states = []
    while not states or states[-1]["in_flight"] > 1:
        states.append(remote.counts("gated"))
    assert (states[-1]["ready"], states[-1]["in_flight"]) == (2, 1)
    go.set()
    thread.join()
    assert remote.counts("gated") | {} == states[-1] | {"in_flight": 0, "completed": 1}


def test_a_run_outlives_a_restart_of_its_server(
    fresh_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = fresh_server(root_dir=tmp_path / "data")
    host, port = server.address
    with Anew(f"http://{host}:{port}") as app:
        begun, go, ran = threading.Event(), threading.Event(), []

        @app.task(name="gated", keep_result="1h", policy=[])
        def gated() -> str:
            ran.append(ctx.attempt)
            begun.set()
            go.wait(60)
            return "done"

        job = gated.enqueue()
        worker = app.worker()
        thread = threading.Thread(target=worker.run)
        thread.start()
        assert begun.wait(30)
        server.kill()
        fresh_server(port=port, root_dir=tmp_path / "data")
        while job.status() != "in_flight":
            pass  # the worker opens its stream again, and the job comes back to the run
        go.set()
        assert job.wait(timeout=30) == "done"
        worker.stop()
        thread.join()
        assert ran == [1]


def test_a_result_that_the_server_does_not_take_fails_its_run_and_holds_up_no_other(
    fresh_server: Callable[..., ServerProcess],
) -> None:
    server = fresh_server(max_body="256KiB")
    with Anew("http://{}:{}".format(*server.address)) as app:

        @app.task(keep_result="1h", max_attempts=1)
        def give(bytes_: int) -> str:
            return "x" * bytes_

        small = give.enqueue_many([(n,) for n in (1, 100_000, 100_000, 100_000)])
        large = give.enqueue(5_000_000)
        app.worker(burst=True, concurrency=5).run()
        assert [len(one.result()) for one in small] == [1, 100_000, 100_000, 100_000]
        info = large.info()
        assert info is not None
        assert (str(info.state), info.errors[0].error_type) == ("dead", "too_large")
        assert "at most 262144 bytes" in info.errors[0].message


def test_more_jobs_than_a_request_may_have_are_refused(apps: tuple[Anew, Anew]) -> None:
    remote, _ = apps
    with pytest.raises(TooLarge, match="expected at most 10000 in one request"):
        remote.tasks["double"].enqueue_many([(1,)] * 10_001)
    assert remote.counts("sums")["ready"] == 0


def test_no_server_is_an_error_that_says_where() -> None:
    app = tasks_of(Anew("http://127.0.0.1:9"))
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        app.tasks["double"].enqueue(1)
    with pytest.raises(InvalidInput, match="expected a file, a directory, postgresql"):
        Anew("redis://x")


def test_a_batch_is_known_after_its_application_was_closed(apps: tuple[Anew, Anew]) -> None:
    remote, _ = apps
    double, triple = remote.tasks["double"], remote.tasks["triple"]
    with remote.batch(on_success=triple.call(1)) as batch:
        remote.close()  # as a forked child, which opens the connection for itself
        double.using(batch=batch).enqueue(1)
    remote.run_worker(burst=True)
    assert remote.counts("sums")["completed"] == 2


def test_a_row_of_an_outbox_that_comes_twice_is_one_job(apps: tuple[Anew, Anew], tmp_path: Path) -> None:
    remote, _ = apps
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        remote.create_outbox(shop)
        with shop:
            remote.outbox(shop).enqueue(remote.tasks["double"], 1)
            remote.outbox(shop).enqueue(remote.tasks["double"], 1)
    shutil.copy(tmp_path / "shop.db", tmp_path / "again.db")  # as it is to one who drains at the same time
    assert remote.drain_outbox(tmp_path / "shop.db") == 2
    assert remote.drain_outbox(tmp_path / "again.db") == 2
    assert remote.counts("sums")["ready"] == 2


def test_a_job_that_is_removed_while_it_is_read_is_not_there(
    apps: tuple[Anew, Anew], monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, _ = apps
    job = remote.tasks["double"].enqueue(-1)
    remote.run_worker(burst=True)
    errors = Client.errors

    def removed(client: Client, job_id: str, **options: int) -> Page[ErrorView]:
        job.delete()
        return errors(client, job_id, **options)

    monkeypatch.setattr(Client, "errors", removed)
    assert job.info() is None
