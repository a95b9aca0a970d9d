"""The testing kit: an application whose clock stands still until the test moves it."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from anew import Anew, Cancel, Discard, Event, Limit, Retry, Snooze, Unique, ctx
from anew.errors import Conflict, ForkedStore, InvalidInput
from anew.testing import AppTest, Ran
from tests.unit.docs import ROOT, blocks

START = datetime(2026, 1, 1, tzinfo=UTC)

FAKTORY_S = [
    15, 16, 31, 96, 271, 640, 1311, 2416, 4111, 6576, 10_015, 14_656, 20_751, 28_576, 38_431, 50_640, 65_551, 83_536,
    104_991, 130_336, 160_015, 194_496, 234_271, 279_856, 331_791,
]  # fmt: skip
"""15 + (k-1)**4 s for the k-th retry: the Faktory wiki's formula without its die, calculated by hand."""


@pytest.fixture
def app() -> Iterator[Anew]:
    """An application whose own jobs are in memory too."""
    with Anew(":memory:") as made:
        yield made


@pytest.fixture
def test(app: Anew) -> Iterator[AppTest]:
    """A test of it."""
    with app.test() as made:
        yield made


# -- retries


def test_25_retries_come_at_their_instants(app: Anew, test: AppTest) -> None:
    seen: list[tuple[int, int]] = []

    @app.task(policy=FAKTORY_S)
    def broken() -> None:
        seen.append((ctx.attempt, ctx.now()))
        raise ConnectionError("refused")

    broken.enqueue()
    report = test.clock.advance("21d")
    instants = [START + timedelta(seconds=sum(FAKTORY_S[:k])) for k in range(26)]
    assert [ran.at for ran in report] == instants
    assert instants[-1] - START == timedelta(
        seconds=1_763_395
    )  # 25 * 15 + the sum of the fourth powers up to 24
    assert seen == [(k + 1, int(at.timestamp() * 1_000)) for k, at in enumerate(instants)]
    assert report.outcomes == {"failed": 25, "discarded": 1}
    assert [ran.next_at for ran in report] == [*instants[1:], None]
    (dead,) = test.jobs("dead")
    assert (dead.attempts, dead.errors[-1].message) == (26, "refused")
    assert test.clock.now() == START + timedelta(days=21)


def test_a_preset_with_a_die_keeps_its_bounds_and_a_seed_its_throws(app: Anew) -> None:
    @app.task(policy="faktory")
    def broken() -> None:
        raise ConnectionError

    def waits(seed: int) -> list[float]:
        with app.test(seed=seed) as test:
            broken.enqueue()
            at = [ran.at for ran in test.clock.advance("30d")]
        return [(after - before).total_seconds() for before, after in pairwise(at)]

    first = waits(1)
    assert len(first) == 25
    # The die adds 0 to 29 s times k (Faktory's wiki: rand(30) * (count + 1)).
    for k, (wait, least) in enumerate(zip(first, FAKTORY_S, strict=True), start=1):
        assert least <= wait <= least + 29 * k
    assert waits(1) == first
    assert waits(2) != first


def test_the_default_policy_and_ids_are_the_same_each_time(app: Anew) -> None:
    @app.task
    def broken() -> None:
        raise ConnectionError

    def once() -> list[Ran]:
        with app.test() as test:
            broken.enqueue()
            broken.enqueue()
            return test.clock.advance("60d")

    assert len(once()) == 52
    assert once() == once()


def test_a_time_that_the_handler_asks_for(app: Anew, test: AppTest) -> None:
    @app.task(policy=["1h"])
    def limited() -> None:
        raise Retry(after=90)

    limited.enqueue()
    assert [ran.next_at for ran in test.drain()] == [START + timedelta(seconds=90)]
    assert test.clock.advance("89s") == []
    (ran,) = test.clock.advance(1)
    assert (ran.attempt, ran.outcome, ran.at) == (2, "discarded", START + timedelta(seconds=90))


def test_a_snooze_is_no_attempt(app: Anew, test: AppTest) -> None:
    @app.task(policy=["10s"])
    def patient() -> None:
        if ctx.now() < int((START + timedelta(hours=2)).timestamp() * 1_000):
            raise Snooze("1h")
        raise ConnectionError

    patient.enqueue()
    report = test.clock.advance("1d")
    assert [(ran.outcome, ran.attempt, (ran.at - START).total_seconds()) for ran in report] == [
        ("snoozed", 1, 0),
        ("snoozed", 1, 3_600),
        ("failed", 1, 7_200),
        ("discarded", 2, 7_210),
    ]


def test_a_job_that_kills_its_worker_is_dead_after_three(app: Anew, test: AppTest) -> None:
    calls = []

    @app.task
    def fatal(number: int) -> None:
        calls.append(number)

    test.crash(fatal.enqueue(1), times=3)
    test.crash(fatal.enqueue(2))
    report = test.clock.advance("1m")
    # A first interruption brings the job back at once, a second one after 2 s, a third is the limit.
    assert [(ran.outcome, ran.attempt, (ran.at - START).total_seconds()) for ran in report] == [
        ("interrupted", 1, 0),
        ("interrupted", 1, 0),
        ("interrupted", 1, 0),
        ("succeeded", 1, 0),
        ("discarded", 1, 2),
    ]
    assert calls == [2]
    assert [job.arguments for job in test.jobs("dead")] == [{"number": 1}]
    assert [event.name for event in test.events].count("rescued") == 3


# -- cron


def test_cron_slots_where_the_clocks_go_forward(app: Anew) -> None:
    @app.cron("30 2 * * *", tz="Europe/Berlin")
    @app.task
    def nightly() -> None: ...

    # 2026-03-29 has no 02:30 in Berlin: at 02:00 CET, 01:00 UTC, it is 03:00 CEST.
    with app.test(now=datetime(2026, 3, 28, tzinfo=UTC)) as test:
        assert [ran.at for ran in test.clock.advance("3d")] == [
            datetime(2026, 3, 28, 1, 30, tzinfo=UTC),
            datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
            datetime(2026, 3, 30, 0, 30, tzinfo=UTC),
        ]


def test_cron_slots_where_the_clocks_go_back(app: Anew) -> None:
    @app.cron("30 2 * * *", tz="Europe/Berlin")
    @app.task
    async def nightly() -> None: ...

    # 2026-10-25 has 02:30 twice in Berlin, at 00:30 and 01:30 UTC.
    with app.test(now=datetime(2026, 10, 24, tzinfo=UTC)) as test:
        assert [ran.at for ran in test.clock.advance("3d")] == [
            datetime(2026, 10, 24, 0, 30, tzinfo=UTC),
            datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
            datetime(2026, 10, 26, 1, 30, tzinfo=UTC),
        ]


def test_cron_entries_and_retries_come_in_the_order_of_time(app: Anew, test: AppTest) -> None:
    order: list[str] = []

    @app.cron("*/10 * * * *", tz="UTC")  # known to a test that has begun already
    @app.task
    def tick() -> None:
        order.append(f"tick {test.clock.now():%H:%M}")

    @app.task(policy=["15m"])
    def broken() -> None:
        order.append(f"run {test.clock.now():%H:%M}")
        raise ConnectionError

    broken.enqueue()
    test.clock.advance("20m")
    assert order == ["run 00:00", "tick 00:10", "run 00:15", "tick 00:20"]


@pytest.mark.parametrize(("late", "ran"), [("10m", 1), ("10m1s", 0)])
def test_a_cron_job_expires_by_the_time_of_its_slot(app: Anew, late: str, ran: int) -> None:
    @app.cron("0 1 * * *", tz="UTC")
    @app.task(expires="10m")
    def tick() -> None: ...

    with app.test() as test:
        test.clock.advance("1h", run=False)
        test.clock.advance(late, run=False)
        assert len(test.drain()) == ran


def test_a_cron_job_holds_its_key_from_its_slot_on(app: Anew) -> None:
    @app.cron("0 * * * *", tz="UTC")
    @app.task(unique=Unique(within="90m"), max_attempts=1)
    def fails() -> None:
        raise ConnectionError

    with app.test() as test:  # from 01:00 to 02:30 the key is held, and from 03:00 to 04:30
        assert [ran.at.hour for ran in test.clock.advance("5h")] == [1, 3, 5]


# -- the rest of the engine


def test_a_unique_key_is_free_again_when_its_job_has_ended(app: Anew, test: AppTest) -> None:
    @app.task(unique="invoice {id}", policy=["1h"])
    def invoice(id: int) -> None:
        if ctx.attempt == 1:
            raise ConnectionError

    @app.task(unique=Unique(within="1d"))
    def daily() -> None: ...

    assert [invoice.enqueue(7).created, invoice.enqueue(7).created, invoice.enqueue(8).created] == [
        True,
        False,
        True,
    ]
    test.drain()
    assert invoice.enqueue(7).created is False  # it is retrying
    test.clock.advance("1h")
    assert invoice.enqueue(7).created is True

    assert daily.enqueue().created is True
    test.clock.advance("23h")
    assert daily.enqueue().created is True  # its job has succeeded


def test_an_expired_job_is_not_run(app: Anew, test: AppTest) -> None:
    ran = []

    @app.task(expires="1h")
    def fresh(number: int) -> None:
        ran.append(number)

    fresh.enqueue(1)
    test.clock.advance("59m", run=False)
    fresh.enqueue(2)
    test.clock.advance("2m", run=False)
    assert test.drain().outcomes == {"succeeded": 1}
    assert ran == [2]
    assert [job.arguments for job in test.jobs("cancelled")] == [{"number": 1}]


def test_a_batch_calls_back_when_all_have_succeeded(app: Anew, test: AppTest) -> None:
    order: list[object] = []

    @app.task(policy=["1h"])
    def part(number: int) -> None:
        order.append(number)
        if number == 2 and ctx.attempt == 1:
            raise ConnectionError

    @app.task
    def whole(name: str) -> None:
        order.append(name)

    with app.batch(on_success=whole.call("sums")) as batch:
        part.using(batch=batch).enqueue_many([(1,), (2,)])
    test.drain()
    test.assert_not_enqueued(whole)
    test.clock.advance("1h")
    assert order == [1, 2, 2, "sums"]


def test_a_limit_lets_jobs_start_at_its_rate(app: Anew, test: AppTest) -> None:
    @app.task(queue="api")
    def call() -> None: ...

    app.limit("api", rate="2/m", burst=1)
    call.enqueue_many([()] * 3)
    report = test.clock.advance("5m")
    assert [(ran.at - START).total_seconds() for ran in report] == [0, 30, 60]


def test_jobs_of_a_key_start_at_its_rate_and_hold_up_no_others(app: Anew, test: AppTest) -> None:
    """Ten a minute, two at once: at 0, 0 and then every 6 s."""
    seen: list[tuple[int, float]] = []

    @app.task(limit=Limit("customer {customer}", rate="10/m", burst=2))
    def sync(customer: int) -> None:
        seen.append((customer, (ctx.now() - START.timestamp() * 1_000) / 1_000))

    for customer in (1, 1, 1, 1, 2):
        sync.enqueue(customer)
    test.drain()
    assert seen == [(1, 0), (1, 0), (2, 0)]
    assert [job.waits_for for job in test.jobs("ready")] == ["limit customer 1"] * 2
    test.clock.advance("5m")
    assert seen[3:] == [(1, 6), (1, 12)]


def test_drain_goes_on_behind_very_many_jobs_that_wait_for_their_key(app: Anew, test: AppTest) -> None:
    @app.task(limit=Limit("all", rate="1/h"))
    def sync(number: int) -> None: ...

    sync.using(delay="1m").enqueue_many([(number,) for number in range(1_200)])
    other = sync.using(delay="61s", limit=None).enqueue(1)
    test.clock.advance("2m", run=False)
    assert len(test.drain()) == 2
    assert other.status() is None


def test_a_paused_queue_waits(app: Anew, test: AppTest) -> None:
    @app.task(queue="mail")
    def send() -> None: ...

    send.enqueue()
    send.using(delay="1m").enqueue()
    app.pause("mail")
    assert test.clock.advance("1h") == []
    app.resume("mail")
    assert test.drain().outcomes == {"succeeded": 2}


def test_results_are_kept_for_their_time(app: Anew, test: AppTest) -> None:
    @app.task(keep_result="1h")
    def add(a: int, b: int) -> int:
        return a + b

    handle = add.enqueue(1, 2)
    test.clock.advance("59m")
    assert handle.result() == 3
    test.clock.advance("1m")
    assert handle.status() is None
    assert app.counts()["completed"] == 0


# -- handlers


def test_every_kind_of_handler_runs_in_the_tests_own_thread(app: Anew, test: AppTest) -> None:
    seen: list[tuple[str, int, int]] = []

    def note(kind: str) -> None:
        seen.append((kind, os.getpid(), threading.get_ident()))

    @app.task
    def plain() -> None:
        note("plain")

    @app.task
    async def coroutine() -> None:
        await asyncio.sleep(0)
        note("coroutine")

    @app.task(process=True)
    def process() -> None:
        note("process")

    for task in (plain, coroutine, process):
        task.enqueue()
    assert test.drain().outcomes == {"succeeded": 3}
    here = (os.getpid(), threading.get_ident())
    assert seen == [("plain", *here), ("coroutine", *here), ("process", *here)]


def test_an_async_test_can_drain_too(app: Anew) -> None:
    @app.task(keep_result="1h")
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    @app.task(keep_result="1h")
    def with_a_loop_of_its_own(number: int) -> int:
        return asyncio.run(double(number))

    async def main() -> list[int]:
        with app.test() as test:
            handles = [await double.aenqueue(4), await with_a_loop_of_its_own.aenqueue(5)]
            test.drain().check()
            return [handle.result() for handle in handles]

    assert asyncio.run(main()) == [8, 10]


def test_what_a_handler_sets_in_its_context_stays_there(app: Anew, test: AppTest) -> None:
    user: ContextVar[str] = ContextVar("user", default="nobody")
    seen = []

    @app.task
    def plain() -> None:
        seen.append(user.get())
        user.set("plain")

    @app.task
    async def coroutine() -> None:
        seen.append(user.get())
        user.set("coroutine")

    for task in (plain, coroutine, plain, coroutine):
        task.enqueue()
    test.drain()
    assert seen == ["nobody"] * 4
    assert user.get() == "nobody"


def test_jobs_that_a_handler_enqueues_run_too(app: Anew, test: AppTest) -> None:
    @app.task
    def down(number: int) -> None:
        if number:
            down.enqueue(number - 1)

    down.enqueue(3)
    assert test.drain().outcomes == {"succeeded": 4}


def test_one_after_the_other(app: Anew, test: AppTest) -> None:
    @app.task
    def number(n: int) -> None: ...

    number.enqueue_many([(1,), (2,)])
    ran = test.run_next()
    assert ran is not None
    assert (ran.task, ran.outcome, ran.error, ran.next_at) == (number.name, "succeeded", None, None)
    assert [job.arguments["n"] for job in test.jobs()] == [2]
    assert test.run_next() is not None
    assert test.run_next() is None


def test_a_handler_that_moves_the_clock_takes_so_long(app: Anew, test: AppTest) -> None:
    @app.task(timeout="30s", policy=["1m"])
    def slow(seconds: int) -> None:
        test.clock.advance(seconds)

    slow.enqueue(29)
    slow.enqueue(30)
    assert [ran.outcome for ran in test.drain()] == ["succeeded", "failed"]
    ended = [event for event in test.events if event.duration_ms is not None]
    assert [(event.duration_ms, event.outcome) for event in ended] == [(29_000, None), (30_000, "timeout")]


def test_a_job_that_is_cancelled_in_the_middle_of_its_run_is_stopped(app: Anew, test: AppTest) -> None:
    seen: list[object] = []

    @app.task(name="poll")
    def poll() -> None:
        began = test.clock.now()
        while ctx.sleep("10m"):
            seen.append(test.clock.now() - began)
            if len(seen) == 2:
                app.job(ctx.job_id).cancel()
        seen.append(ctx.cancelled)

    @app.task(name="hang")
    async def hang() -> None:
        app.job(ctx.job_id).delete()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled)

    @app.task(name="calm")
    async def calm(job: str) -> None:
        app.job(job).cancel()  # somebody else's
        await asyncio.sleep(0)
        seen.append(ctx.cancelled)

    poll.enqueue()
    hang.enqueue()
    calm.enqueue(calm.using(delay="1d").enqueue("").id)
    assert [(ran.task, ran.outcome) for ran in test.drain()] == [
        ("poll", "lost"), ("hang", "lost"), ("calm", "succeeded"),
    ]  # fmt: skip
    minutes = timedelta(minutes=10)
    assert seen == [minutes, 2 * minutes, True, True, False]
    assert [job.task for job in test.jobs("cancelled")] == ["poll", "calm"]
    assert [event.name for event in test.events if event.name in ("failed", "interrupted")] == []


def test_what_a_handler_raised_is_in_the_report(app: Anew, test: AppTest) -> None:
    @app.task(policy=["1m"])
    def broken() -> None:
        raise LookupError("no such user")

    @app.task
    def unwanted() -> None:
        raise Cancel("unsubscribed")

    @app.task
    def hopeless() -> None:
        raise Discard("no address")

    unwanted.enqueue()
    assert test.drain().check().outcomes == {"cancelled": 1}
    broken.enqueue()
    with pytest.raises(LookupError, match="no such user"):
        test.drain().check()
    hopeless.enqueue()
    assert test.drain().outcomes == {"discarded": 1}
    assert test.ran.outcomes == {"cancelled": 1, "failed": 1, "discarded": 1}


def test_a_test_that_ends_in_a_handler_ends(app: Anew, test: AppTest) -> None:
    @app.task
    def failing() -> None:
        pytest.fail("not so")

    @app.task
    async def interrupted() -> None:
        raise KeyboardInterrupt

    failing.enqueue()
    with pytest.raises(pytest.fail.Exception, match="not so"):
        test.drain()
    assert app.counts()["ready"] == 1  # given back
    app.clear("ready")
    interrupted.enqueue()
    with pytest.raises(KeyboardInterrupt):
        test.drain()


def test_a_handler_does_not_run_jobs(app: Anew, test: AppTest) -> None:
    @app.task(policy=[])
    def greedy() -> None:
        test.drain()

    greedy.enqueue()
    with pytest.raises(Conflict, match="a handler runs"):
        test.drain().check()


def test_jobs_that_never_come_to_an_end_are_noticed(
    app: Anew, test: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    def again() -> None:
        again.enqueue()

    again.enqueue()
    monkeypatch.setattr("anew.tasks.harness.MOST_RUNS", 50)
    with pytest.raises(Conflict, match="still ready after 50 runs"):
        test.drain()


# -- events


def test_events_are_listed_and_hooks_called_at_once(app: Anew, test: AppTest) -> None:
    heard: list[Event] = []
    app.on("failed")(heard.append)

    @app.on("started")
    def wrong(event: Event) -> None:
        raise RuntimeError("logged, and nothing else")

    @app.task(policy=["1m"])
    def broken() -> None:
        raise ConnectionError("refused")

    broken.enqueue()
    test.clock.advance("1m")
    assert [(event.name, event.attempt) for event in test.events] == [
        ("enqueued", 0),
        ("started", 1),
        ("failed", 1),
        ("started", 2),
        ("discarded", 2),
    ]
    assert [(event.error_type, event.error, event.attempt) for event in heard] == [
        ("ConnectionError", "refused", 1)
    ]


# -- asserting


def test_what_waits_is_asserted(app: Anew, test: AppTest) -> None:
    @app.task(name="mail.send")
    def send(to: str, lines: tuple[str, ...] = (), note: str = "-") -> None: ...

    send.enqueue("ada", ("a", "b"))
    send.using(queue="late", delay="5m").enqueue("ada")
    test.assert_enqueued(send)
    test.assert_enqueued(send, "ada", count=2)
    test.assert_enqueued(send, "ada", ("a", "b"), note="-", count=1)
    test.assert_enqueued(send, lines=["a", "b"])
    test.assert_enqueued(send, queue="late", delay="5m")
    (job,) = test.assert_enqueued(send, at=START + timedelta(minutes=5))
    assert (str(job), job.at) == ("mail.send(to='ada', lines=(), note='-')", START + timedelta(minutes=5))
    test.assert_enqueued(send, "bob", count=0)
    test.assert_not_enqueued(send, "bob")
    test.assert_not_enqueued(send, queue="other")


def test_an_assertion_that_fails_says_what_waits_instead(app: Anew, test: AppTest) -> None:
    @app.task(name="mail.send")
    def send(to: str, copies: int = 1) -> None: ...

    with pytest.raises(AssertionError, match=r"a job of mail.send\(...\), found 0; nothing was enqueued"):
        test.assert_enqueued(send)
    send.enqueue("ada")
    test.drain()
    send.using(queue="late", delay="5m").enqueue("bob", copies=2)
    with pytest.raises(AssertionError) as raised:
        test.assert_enqueued(send, "ada", queue="late", delay=60)
    assert str(raised.value) == textwrap.dedent("""\
        expected a job of mail.send('ada') in queue 'late' due in 60, found 0; enqueued or run until now:
          mail.send(to='bob', copies=2), scheduled, due in 5 min, queue 'late'
          mail.send succeeded at 2026-01-01 00:00:00+00:00""")
    with pytest.raises(AssertionError, match=r"expected 2 jobs of mail.send\(copies=2\), found 1"):
        test.assert_enqueued(send, copies=2, count=2)
    with pytest.raises(AssertionError, match="expected no job of mail"):
        test.assert_not_enqueued(send)


# -- the test itself


def test_the_applications_own_jobs_are_not_touched(app: Anew) -> None:
    @app.task
    def nothing() -> None: ...

    nothing.enqueue()
    events = app.events
    with app.test() as test:
        assert app.counts()["ready"] == 0
        nothing.enqueue()
        assert len(test.drain()) == 1
    assert app.counts()["ready"] == 1
    assert app.events is events


def test_an_application_of_a_file_or_a_server_is_tested_without_it(tmp_path: Path) -> None:
    for location in (str(tmp_path / "jobs.db"), "http://127.0.0.1:9"):
        app = Anew(location)
        task = app.task(name="nothing")(lambda: None)
        with app.test() as test:
            task.enqueue()
            assert len(test.drain()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_application_that_closes_itself_keeps_the_tests_jobs(tmp_path: Path) -> None:
    app = Anew(str(tmp_path / "jobs.db"))
    task = app.task(name="nothing")(lambda: None)
    with app.test() as test:
        with app:
            task.enqueue()
        assert app.counts()["ready"] == 1
        assert len(test.drain()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_does_not_open_the_applications_file(tmp_path: Path) -> None:
    app = Anew(str(tmp_path / "jobs.db"))
    task = app.task(name="nothing")(lambda: None)
    with app.test():
        pid = os.fork()
        if pid == 0:
            try:
                task.enqueue()
            except ForkedStore:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert list(tmp_path.iterdir()) == []


def test_a_test_in_a_test_has_jobs_of_its_own(app: Anew, test: AppTest) -> None:
    @app.task
    def nothing() -> None: ...

    nothing.enqueue()
    with app.test() as inner:
        assert inner.drain() == []
    assert len(test.drain()) == 1


def test_failures_are_logged_as_a_worker_logs_them(
    app: Anew, test: AppTest, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="broken", policy=["1m"])
    def broken() -> None:
        raise ConnectionError("refused")

    job = broken.enqueue()
    test.drain()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"broken {job.id} failed: ConnectionError: refused")
    ]


def test_times_that_do_not_fit(app: Anew, test: AppTest) -> None:
    for wrong in ("soon", -1, "90"):
        with pytest.raises(InvalidInput, match="advance"):
            test.clock.advance(wrong)
    with pytest.raises(InvalidInput, match="advance_to"):
        test.clock.advance_to(START - timedelta(seconds=1))
    with pytest.raises(InvalidInput, match="time zone"):
        app.test(now=datetime(2026, 1, 1))
    with pytest.raises(InvalidInput, match="states"):
        test.jobs("late")


# -- pytest


def run_pytest(directory: Path, **files: str) -> str:
    """Run pytest in a process of its own with the plugin alone; give what it says."""
    for name, text in files.items():
        (directory / f"{name}.py").write_text(textwrap.dedent(text))
    (directory / "pytest.ini").write_text(
        "[pytest]\nanew_app = shop:app\nfilterwarnings = error\npythonpath = .\n"
    )
    environment = os.environ | {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "anew.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def test_the_fixture_finds_the_application(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        shop="""
            from anew import Anew
            app = Anew("jobs.db")
            @app.task
            def ship(order): ...
        """,
        test_shop="""
            import sys
            def test_nothing_is_loaded_before_it_is_used():
                assert "anew.testing" not in sys.modules and "anew.tasks" not in sys.modules
            def test_ship(anew_test):
                import shop
                shop.ship.enqueue(1)
                anew_test.assert_enqueued(shop.ship, 1)
                assert anew_test.drain().outcomes == {"succeeded": 1}
        """,
    )
    assert "2 passed" in said
    assert not (tmp_path / "jobs.db").exists()


def test_the_fixture_says_what_is_missing_and_can_be_replaced(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        shop="app = 1",
        test_none="def test_it(anew_test): ...",
        test_own="""
            import pytest
            from anew import Anew
            @pytest.fixture
            def anew_app():
                return Anew(":memory:")
            def test_it(anew_test, anew_app):
                assert anew_test.app is anew_app
        """,
    )
    assert "shop:app is no Anew application" in said
    assert "1 passed, 1 error" in said


def test_the_fixture_says_that_there_is_no_such_module(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, test_none="def test_it(anew_test): ...")
    assert "anew_app: there is no module 'shop' for shop:app" in said


def test_a_call_that_no_job_can_have_is_refused_with_the_tasks_name(app: Anew, test: AppTest) -> None:
    @app.task(name="welcome")
    def welcome(name: str) -> None: ...

    with pytest.raises(
        InvalidInput, match=r"^welcome cannot be called so: .*'nme'; expected arguments of welcome\("
    ):
        test.assert_enqueued(welcome, nme="ada")
    with pytest.raises(InvalidInput, match="too many positional arguments"):
        test.assert_not_enqueued(welcome, "ada", 2)


def test_whoever_waits_in_vain_is_told_that_nothing_runs_by_itself(app: Anew, test: AppTest) -> None:
    job = app.task(lambda: None, name="t").enqueue()
    with pytest.raises(TimeoutError, match=r"is ready after 0; in a test jobs run at drain\(\)"):
        job.wait(timeout=0)


# -- the document


def test_the_documents_examples_hold() -> None:
    said: dict[str, Any] = {"__name__": "shop"}
    for block in blocks(ROOT / "docs" / "testing.md", "python"):
        exec(compile(block.text, "testing.md", "exec"), said)
    tests = {name: value for name, value in said.items() if name.startswith("test_")}
    assert len(tests) == 7
    for each in tests.values():
        said["sent"].clear()
        if inspect.signature(each).parameters:
            with said["app"].test() as test:
                each(test)
        else:
            each()
