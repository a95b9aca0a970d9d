"""An application as its user meets it: tasks, jobs, a worker that runs what is ready and ends."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from anew import Anew, Cancel, Discard, Event, JobFailed, Limit, Retry, Snooze, Unique, ctx
from anew.engine.crontab import list_crons
from anew.engine.progress import read_progress
from anew.errors import Conflict, ForkedStore, IllegalTransition, InvalidInput, InvalidJob, NotFound
from anew.jobs import State
from anew.tasks.embedded import EmbeddedBackend
from anew.tasks.running import Run
from tests.waiting import until

FAR = timedelta(days=1)


@pytest.fixture
def app() -> Iterator[Anew]:
    """An application in memory."""
    with Anew(":memory:") as made:
        yield made


def work(app: Anew, **options: object) -> dict[str, int]:
    """Run what is ready; give what the runs have come to, without the kinds of which there were none."""
    worker = app.worker(**({"burst": True} | options))
    worker.run()
    return {name: count for name, count in worker.done.items() if count}


# -- a task


def test_a_task_that_is_called_runs_here_and_now(app: Anew) -> None:
    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3
    assert app.counts()["ready"] == 0


def test_a_coroutine_that_nobody_awaits_is_a_failure(app: Anew) -> None:
    async def send() -> None: ...

    @app.task(max_attempts=1)
    @functools.wraps(send)
    def wrapper() -> Any:
        return send()

    job = wrapper.enqueue()
    assert work(app) == {"discarded": 1}
    with pytest.raises(JobFailed, match=r"TypeError: .*\.send is no async def and gave a coroutine"):
        job.result()


def test_what_would_run_nothing_or_has_no_name_is_refused(app: Anew) -> None:
    def walk() -> Iterator[int]:
        yield 1

    async def awalk() -> AsyncIterator[int]:
        yield 1

    for generator in (walk, awalk):
        with pytest.raises(InvalidInput, match="expected a function without yield"):
            app.task(generator)
    part = functools.partial(print, "a")
    with pytest.raises(InvalidInput, match="has no name of its own; expected name="):
        app.task(part)
    assert app.task(name="part")(part).name == "part"


def test_plain_functions_and_coroutines_run_and_their_results_are_kept(app: Anew) -> None:
    @app.task(keep_result="1h")
    def add(a: int, b: int) -> int:
        return a + b

    @app.task(keep_result="1h")
    async def later(at: datetime) -> datetime:
        await asyncio.sleep(0)
        return at + timedelta(hours=1)

    noon = datetime(2026, 11, 22, 12, tzinfo=UTC)
    one, two = add.enqueue(1, b=2), later.enqueue(noon)
    assert work(app) == {"succeeded": 2}
    assert (one.result(), one.status()) == (3, "completed")
    assert two.result() == noon + timedelta(hours=1)


def test_a_result_is_kept_where_the_job_alone_asks_for_it(
    app: Anew, caplog: pytest.LogCaptureFixture
) -> None:
    give = app.task(name="give")(lambda value: {1, 2} if value == "set" else object() if value else None)
    kept, nothing, unwritable = (
        give.using(keep_result="1h").enqueue(value) for value in ("set", "", "object")
    )
    assert work(app) == {"succeeded": 3}
    assert kept.result() == [1, 2]
    assert nothing.result() is unwritable.result() is None
    assert [record.message for record in caplog.records if "result" in record.message] == [
        f"give {unwritable.id}: the result cannot be written: object is no such type"
    ]


def test_an_attempt_is_recorded_with_the_machine_and_the_process_that_ran_it(app: Anew) -> None:
    @app.task(policy={"preset": "even", "limit": 0})
    def fail() -> None:
        raise ValueError

    job = fail.enqueue()
    app.run_worker(burst=True)
    assert [error.worker for error in job.info().errors] == [f"{socket.gethostname()}:{os.getpid()}"]


def test_a_job_that_is_not_kept_is_gone_when_it_has_succeeded(app: Anew) -> None:
    @app.task
    def nothing() -> None: ...

    handle = nothing.enqueue()
    work(app)
    assert handle.status() is None
    assert handle.wait(timeout=1) is None
    with pytest.raises(NotFound, match="keep_result"):
        handle.result()


def test_arguments_are_refused_where_they_are_enqueued(app: Anew) -> None:
    @app.task(name="send")
    def send(user: int, note: str = "") -> None: ...

    for args, words in (
        (("seven",), "Expected `int`, got `str` - at `user`"),
        ((), "missing a required argument: 'user'"),
        ((1, "a", 3), "too many positional arguments"),
    ):
        with pytest.raises(InvalidJob, match=r"^send: .*expected send\(user: int") as caught:
            send.enqueue(*args)  # type: ignore[arg-type]
        assert words in str(caught.value)
    assert app.counts()["ready"] == 0


def test_two_tasks_of_one_name_are_refused(app: Anew) -> None:
    app.task(name="send")(lambda: None)
    with pytest.raises(InvalidInput, match="two of the name 'send'"):
        app.task(name="send")(lambda: 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"priority": 65_536}, "priority: 65536 is not valid; expected a number from 0 to 65535"),
        ({"max_attempts": 0}, "max_attempts: 0 is not valid"),
        ({"max_attempts": 2.5}, "max_attempts: 2.5 is not valid; expected a number of runs, 1 or more"),
        ({"max_attempts": "3"}, 'max_attempts: "3" is not valid'),
        ({"process": "no"}, 'process: "no" is not valid; expected True or False'),
        ({"timeout": 0}, "timeout: 0 is not valid; expected a duration above 0"),
        ({"timeout": -1}, "timeout: -1 is not valid"),
        ({"queue": "a,b"}, 'queue: "a,b" is not valid'),
        ({"queue": "$deliveries"}, 'queue: "$deliveries" is not valid; expected the name of another queue'),
        ({"limit": "customer"}, 'limit: "customer" is not valid; expected Limit('),
        ({"limit": Limit("a")}, 'limit: "a" is not valid; expected a concurrency, a rate, or both'),
        (
            {"limit": Limit("a", concurrency=0)},
            "limit.concurrency: 0 is not valid; expected a number of jobs, 1",
        ),
        ({"limit": Limit("a", rate="often")}, 'rate: "often" is not valid'),
        ({"limit": Limit("a", rate="1/s", burst=1.5)}, "burst: 1.5 is not valid; expected a whole number"),  # type: ignore[arg-type]
        (
            {"limit": Limit("a", concurrency=1, burst=2)},
            "limit.burst: 2 is not valid; expected a rate with it",
        ),
        ({"unique": Unique(until="never")}, 'unique.until: "never" is not valid; expected one of'),
        ({"policy": "evn"}, "evn"),
        ({"policy": {int: "even"}}, "expected a class of exceptions"),
        ({"policy": lambda attempt: 1}, "expected a function of two parameters"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(
    app: Anew, options: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        app.task(**options)(print)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_an_option_that_is_unknown_is_named_with_those_that_are_known(app: Anew) -> None:
    words = r"dealy: is no option; expected some of queue, .*delay.*; did you mean 'delay'\?"
    with pytest.raises(InvalidInput, match=words):
        app.task(name="t")(lambda: None).using(dealy="1s")
    with pytest.raises(InvalidInput, match="retries: is no option; expected some of queue"):
        app.task(retries=3)  # type: ignore[call-overload]


def test_a_limit_of_a_queue_without_a_bound_is_refused_in_the_words_of_the_call(app: Anew) -> None:
    with pytest.raises(
        InvalidInput, match='limit: "mail" is not valid; expected a concurrency, a rate, or both'
    ):
        app.limit("mail")


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"concurrency": 2.5}, "limit.concurrency: 2.5 is not valid; expected a number of jobs, 0 or more"),
        ({"concurrency": True}, "limit.concurrency: true is not valid"),
        ({"concurrency": 2, "burst": 5}, "limit.burst: 5 is not valid; expected a rate with it"),
        ({"rate": "10/s", "burst": 2.5}, "burst: 2.5 is not valid; expected a whole number"),
    ],
)
def test_a_limit_of_a_queue_that_no_process_could_read_again_is_refused(
    tmp_path: Path, bounds: dict[str, Any], words: str
) -> None:
    with Anew(tmp_path / "jobs.db") as app, pytest.raises(InvalidInput) as caught:
        app.limit("mail", **bounds)
    assert words in str(caught.value)
    with Anew(tmp_path / "jobs.db") as app:
        app.limit("mail", concurrency=0)
        assert app.counts()["ready"] == 0


@pytest.mark.parametrize("queue", ["", None, 5, "$deliveries"])
def test_a_queue_without_a_name_and_that_of_deliveries_are_refused(app: Anew, queue: Any) -> None:
    for call in (app.pause, app.resume, app.unlimit, lambda name: app.worker(queues=[name])):
        with pytest.raises(InvalidInput, match=r"queue: .* is not valid; expected the name of a"):
            call(queue)


def test_a_batch_takes_calls_and_batches_alone(app: Anew) -> None:
    task = app.task(name="t")(lambda: None)
    for given, words in (
        ({"on_success": task}, "on_success: <task t> is not valid; expected a call of a task"),
        ({"on_complete": task.call(), "parent": 7}, "parent: 7 is not valid; expected what app.batch"),
    ):
        with pytest.raises(InvalidInput, match=words), app.batch(**given):
            pass
    with pytest.raises(InvalidInput, match=r"batch: 7 is not valid; expected what app\.batch"):
        task.using(batch=7)


@pytest.mark.parametrize(
    "changes",
    [
        {"timeout": 5},
        {"process": True},
        {"downstream": "stripe"},
        {"policy": {ValueError: None}},
        {"policy": lambda attempt, exception: 10},
    ],
)
def test_what_a_worker_asks_the_task_for_cannot_be_changed_for_a_job(
    app: Anew, changes: dict[str, Any]
) -> None:
    task = app.task(name="t")(lambda: None)
    with pytest.raises(InvalidInput, match=f"{next(iter(changes))}: .*expected (it|them) in @app.task"):
        task.using(**changes)


def test_a_worker_with_values_that_do_not_fit_is_refused(app: Anew) -> None:
    for options, words in (
        ({"coroutines": 0}, "coroutines: 0 is not valid; expected a number from 1 to 100000"),
        ({"most_jobs": 0}, "most_jobs: 0 is not valid; expected a number of runs, 1 or more"),
        ({"process_jobs": "5"}, 'process_jobs: "5" is not valid'),
        ({"outboxes": "shop.db"}, 'outboxes: "shop.db" is not valid; expected a list of files'),
    ):
        with pytest.raises(InvalidInput, match=words):
            app.worker(**options)


def test_an_empty_dict_of_queues_means_all_of_them(app: Anew) -> None:
    app.task(name="t")(lambda: None).enqueue()
    assert work(app, queues={}) == {"succeeded": 1}


def test_a_store_of_another_kind_is_refused_at_once_and_its_password_not_shown() -> None:
    with pytest.raises(InvalidInput, match="store: redis://… is not valid; expected a file") as caught:
        Anew("redis://:secret@localhost")
    assert "secret" not in str(caught.value)


def test_the_token_of_a_server_may_stand_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    monkeypatch.setenv("ANEW_TOKEN", f"@{tmp_path / 'token'}")
    seen: list[Any] = []
    monkeypatch.setattr("anew.tasks.remote.Client", lambda url, *, token, **_: seen.append((url, token)))
    assert Anew("http://127.0.0.1:9").backend is not None
    assert seen == [("http://127.0.0.1:9", "secret")]


def test_a_time_without_its_zone_is_refused(app: Anew) -> None:
    task = app.task(name="t")(lambda: None)
    with pytest.raises(InvalidInput, match="a datetime with a time zone"):
        task.using(at=datetime(2030, 1, 1))
    with pytest.raises(InvalidInput, match="one of them, not both"):
        task.using(at=datetime(2030, 1, 1, tzinfo=UTC), delay=1)


# -- when a run fails


def test_a_failed_job_runs_again_and_knows_which_run_it_is(app: Anew) -> None:
    runs: list[tuple[int, bool]] = []

    @app.task(policy=[0, 0], keep_result="1h")
    def flaky() -> str:
        runs.append((ctx.attempt, ctx.is_last))
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return "done"

    handle = flaky.enqueue()
    assert work(app) == {"failed": 2, "succeeded": 1}
    assert runs == [(1, False), (2, False), (3, True)]
    info = handle.info()
    assert info is not None
    assert [(one.attempt, one.outcome, one.error_type, one.message) for one in info.errors] == [
        (1, "error", "ValueError", "not yet"),
        (2, "error", "ValueError", "not yet"),
    ]
    assert handle.result() == "done"


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_backtrace_begins_with_the_handler(app: Anew, kind: str) -> None:
    def plain() -> None:
        raise ValueError("no")

    async def coroutine() -> None:
        plain()

    function = coroutine if kind == "async def" else plain
    handle = app.task(name="broken", policy={Exception: None})(function).enqueue()
    work(app)
    info = handle.info()
    assert info is not None
    lines = str(info.errors[0].backtrace).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert f'"{__file__}"' in lines[1]
    assert lines[-1] == "ValueError: no"


def test_a_job_without_attempts_left_is_dead_and_can_run_again(app: Anew) -> None:
    broken = True

    @app.task(max_attempts=1, keep_result="1h")
    def once() -> str:
        if broken:
            raise ValueError("no")
        return "yes"

    handle = once.enqueue()
    assert work(app) == {"discarded": 1}
    assert handle.status() == "dead"
    with pytest.raises(JobFailed, match="is dead: ValueError: no"):
        handle.wait()
    broken = False
    handle.redrive()
    assert work(app) == {"succeeded": 1}
    assert handle.result() == "yes"
    with pytest.raises(IllegalTransition):
        handle.redrive()


def test_the_jobs_own_limit_wins_over_its_tasks(app: Anew) -> None:
    @app.task(max_attempts=5, policy=[0] * 10)
    def never() -> None:
        raise ValueError

    never.using(max_attempts=2).enqueue()
    assert work(app) == {"failed": 1, "discarded": 1}


def test_rules_by_exception_name_the_narrowest_class(app: Anew) -> None:
    @app.task(policy={LookupError: None, KeyError: [0], Exception: ["1d"]}, max_attempts=3)
    def choose(kind: str) -> None:
        raise {"key": KeyError, "index": IndexError, "value": ValueError}[kind]("x")

    key, index, value = (choose.enqueue(kind) for kind in ("key", "index", "value"))
    work(app)
    assert (key.status(), index.status(), value.status()) == ("dead", "dead", "retrying")
    found = [handle.info() for handle in (key, index, value)]
    assert [one.attempts for one in found if one] == [2, 1, 1]


def test_a_function_says_when_or_that_it_is_over(app: Anew) -> None:
    asked: list[tuple[int, str]] = []

    def policy(attempt: int, exception: BaseException) -> float | None:
        asked.append((attempt, str(exception)))
        return 0 if attempt < 3 else None

    @app.task(policy=policy)
    def never() -> None:
        raise ValueError("x")

    handle = never.enqueue()
    work(app)
    assert asked == [(1, "x"), (2, "x"), (3, "x")]
    assert handle.status() == "dead"


def test_a_function_in_djangos_shape_is_asked_with_the_exception_first(app: Anew) -> None:
    asked: list[tuple[str, int]] = []

    @app.task(policy=lambda exception, task_result: asked.append((str(exception), task_result.attempts)))
    def never() -> None:
        raise ValueError("x")

    never.enqueue()
    work(app)
    assert asked == [("x", 1)]


def test_a_function_that_fails_leaves_it_to_the_default(app: Anew, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(policy=lambda attempt, exception: 1 / 0)
    def never() -> None:
        raise ValueError("x")

    handle = never.enqueue()
    assert work(app) == {"failed": 1}
    assert handle.status() == "retrying"
    assert "a policy's function failed" in caplog.text


def test_a_policy_function_that_exits_leaves_its_worker_alone(app: Anew) -> None:
    @app.task(policy=lambda attempt, exception: sys.exit(1))
    def never() -> None:
        raise ValueError("x")

    never.enqueue()
    assert work(app, concurrency=1) == {"failed": 1}


# -- what a handler says


def test_a_snoozed_job_burns_no_attempt(app: Anew) -> None:
    runs: list[int] = []

    @app.task(max_attempts=1)
    def poll() -> None:
        runs.append(ctx.attempt)
        if len(runs) < 4:
            raise Snooze(0, "not there yet")

    poll.enqueue()
    assert work(app) == {"snoozed": 3, "succeeded": 1}
    assert runs == [1, 1, 1, 1]


@pytest.mark.parametrize("most", ["3", 2.5, -1])
def test_a_number_of_snoozes_that_is_none_fails_its_run_and_the_worker_goes_on(app: Anew, most: Any) -> None:
    @app.task(max_attempts=1)
    def later() -> None:
        raise Snooze(1, most=most)

    handle = later.enqueue()
    assert work(app) == {"discarded": 1}
    info = handle.info()
    assert info is not None
    assert "most: " in info.errors[0].message


def test_so_many_snoozes_and_no_more(app: Anew) -> None:
    @app.task
    def poll() -> None:
        raise Snooze(0, most=2)

    handle = poll.enqueue()
    assert work(app) == {"snoozed": 2, "discarded": 1}
    assert handle.status() == "dead"


def test_a_retry_names_its_time_and_keeps_to_the_limit(app: Anew) -> None:
    @app.task(max_attempts=2)
    def busy() -> None:
        raise Retry("busy", after=0)

    handle = busy.enqueue()
    assert work(app) == {"failed": 1, "discarded": 1}
    info = handle.info()
    assert info is not None
    assert [one.message for one in info.errors] == ["busy", "busy"]


def test_discard_and_cancel_end_a_job_at_once(app: Anew) -> None:
    @app.task
    def hopeless() -> None:
        raise Discard("no such user")

    @app.task
    async def unwanted() -> None:
        raise Cancel("the user has left")

    dead, cancelled = hopeless.enqueue(), unwanted.enqueue()
    assert work(app) == {"discarded": 1, "cancelled": 1}
    assert (dead.status(), cancelled.status()) == ("dead", "cancelled")
    info = cancelled.info()
    assert info is not None
    assert (info.attempts, info.errors[0].outcome, info.errors[0].message) == (
        0,
        "cancelled",
        "the user has left",
    )


def test_there_is_no_context_without_a_job() -> None:
    with pytest.raises(Conflict, match="no job runs here"):
        _ = ctx.attempt


def test_a_job_of_no_known_task_burns_no_attempt_and_waits_for_a_worker_that_has_it(
    app: Anew, caplog: pytest.LogCaptureFixture
) -> None:
    task = app.task(name="gone", max_attempts=1)(lambda: None)
    handles = task.enqueue_many([(), ()])
    del app.tasks["gone"]
    assert work(app) == {"snoozed": 2}
    info = handles[0].info()
    assert info is not None
    assert (info.state, info.attempts) == (State.SCHEDULED, 0)
    (error,) = info.errors
    assert (error.outcome, error.error_type) == ("unknown_task", "UnknownTask")
    assert "has no task 'gone'" in error.message
    assert error.reason == "its worker does not know its task: it waits 10 s for one that does"
    assert 0 < info.ready_at - error.ended_at <= 10_000
    (told,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "no task 'gone' here" in told.getMessage()


def test_the_log_is_told_of_an_unknown_task_once_a_minute(
    app: Anew, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = app.worker(burst=True)
    now = 1_000_000
    monkeypatch.setattr(worker._source, "now", lambda: now)

    def told(name: str) -> int:
        caplog.clear()
        worker._tell_unknown(
            Run(
                key=1,
                token=1,
                job_id="j",
                name=name,
                queue="q",
                payload=b"",
                attempts=0,
                max_attempts=1,
                task=None,
            ),
            None,
        )
        return len(caplog.records)

    assert (told("a"), told("a"), told("b")) == (1, 0, 1)
    now += 59_999
    assert told("a") == 0
    now += 1
    assert told("a") == 1


# -- time-outs and processes


def test_a_coroutine_that_runs_too_long_is_cancelled(app: Anew) -> None:
    stopped = threading.Event()

    @app.task(timeout=0.01, policy={TimeoutError: None})
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    handle = hang.enqueue()
    assert work(app) == {"discarded": 1}
    assert stopped.is_set()
    info = handle.info()
    assert info is not None
    assert (info.errors[0].outcome, info.errors[0].error_type) == ("timeout", "TimeoutError")


def test_a_thread_that_runs_too_long_is_given_up_and_its_word_means_nothing(app: Anew) -> None:
    go_on, after = threading.Event(), threading.Event()

    @app.task(timeout=0.01, max_attempts=1)
    def hang() -> None:
        go_on.wait(20)
        after.set()

    handle = hang.enqueue()
    assert work(app, concurrency=1) == {"discarded": 1}
    go_on.set()
    assert after.wait(20)
    assert handle.status() == "dead"
    assert app.task(name="next")(lambda: None).enqueue().created
    assert work(app, concurrency=1) == {"succeeded": 1}


# -- unique jobs


def test_the_same_key_is_the_same_job_until_it_has_ended(app: Anew) -> None:
    @app.task(unique="invoice {number}")
    def bill(number: int, note: str = "") -> None: ...

    first, again, other = bill.enqueue(1), bill.enqueue(1, "x"), bill.enqueue(2)
    assert (first.created, again.created, other.created) == (True, False, True)
    assert again.id == first.id
    work(app)
    assert bill.enqueue(1).created


def test_a_key_can_be_all_arguments_or_a_function_of_them(app: Anew) -> None:
    @app.task(unique=True)
    def one(number: int) -> None: ...

    @app.task(unique=Unique(key=lambda number: str(number % 2)))
    def two(number: int) -> None: ...

    assert [one.enqueue(n).created for n in (1, 1, 2)] == [True, False, True]
    assert [two.enqueue(n).created for n in (1, 3, 2)] == [True, False, True]


def test_a_key_that_cannot_be_made_of_the_arguments_is_refused(app: Anew) -> None:
    @app.task(unique="{numbers:x}")
    def one(numbers: list[int]) -> None: ...

    with pytest.raises(InvalidInput, match="a text that names arguments of"):
        one.enqueue([1])


@pytest.mark.parametrize("key", ["c {x}", "c {}", "c {number:{x}}", "c {number", "c {x.y[0]}"])
def test_a_key_of_what_is_no_argument_is_refused_at_the_task(app: Anew, key: str) -> None:
    def bill(number: int) -> None: ...

    for options in ({"unique": key}, {"unique": Unique(key=key)}, {"limit": Limit(key, concurrency=1)}):
        with pytest.raises(
            InvalidInput, match=r"(unique|limit): .* expected a text that names arguments of bill in braces"
        ):
            app.task(name="bill", **options)(bill)  # type: ignore[call-overload]
        with pytest.raises(InvalidInput, match="arguments of fine in braces"):
            app.task(name="fine")(bill).using(**options)
    assert "bill" not in app.tasks


def test_a_key_may_name_a_part_of_an_argument_and_all_of_loose_ones(app: Anew) -> None:
    @app.task(unique="{order[id]:>4} {kwargs[b]}")
    def bill(order: dict[str, int], **kwargs: int) -> None: ...

    assert [bill.enqueue({"id": 1}, b=b).created for b in (1, 1, 2)] == [True, False, True]


# -- limits of keys


def test_a_key_bounds_its_jobs_in_one_worker_whatever_their_tasks(app: Anew) -> None:
    """Eight slots, and of one customer never more than two at a time; all run in the end."""
    running: Counter[int] = Counter()
    most: Counter[int] = Counter()
    lock = threading.Lock()

    def run(customer: int) -> None:
        with lock:
            running[customer] += 1
            most[customer] = max(most[customer], running[customer])
        with lock:
            running[customer] -= 1

    by_two = Limit("customer {customer}", concurrency=2)
    one = app.task(name="one", limit=by_two)(run)
    two = app.task(name="two", limit=Limit(lambda customer: f"customer {customer}", concurrency=2))(run)
    one.enqueue_many([(n % 3,) for n in range(60)])
    two.enqueue_many([(n % 3,) for n in range(60)])
    assert work(app, concurrency=8) == {"succeeded": 120}
    assert max(most.values()) <= 2


def test_a_job_that_waits_for_its_key_says_so_and_can_be_called_off(app: Anew) -> None:
    @app.task(limit=Limit("customer {customer}", rate="1/h"))
    def sync(customer: int) -> None: ...

    sync.enqueue(7)
    waits, free = sync.enqueue(7), sync.using(limit=None).enqueue(7)
    assert work(app) == {"succeeded": 2}
    info = waits.info()
    assert info is not None
    assert (info.state, info.waits_for) == ("ready", "limit customer 7")
    assert free.status() is None
    waits.cancel()
    assert (waits.status(), app.counts()["ready"]) == ("cancelled", 0)


@pytest.mark.parametrize(
    "key", ["{customer[0]}", "", "x" * 256, "$subscription/{customer}", "$confirmation/1a"]
)
def test_a_limits_key_that_cannot_be_is_refused(app: Anew, key: str) -> None:
    @app.task(limit=Limit(key, concurrency=1))
    def sync(customer: int) -> None: ...

    with pytest.raises(InvalidInput, match="limit"):
        sync.enqueue(7)


def test_a_word_of_progress_may_be_the_name_of_any_file(app: Anew) -> None:
    """A name whose bytes are no UTF-8 has lone surrogates in Python."""

    @app.task
    def read() -> None:
        ctx.progress(50, "caf\udce9.txt")

    with app.test() as test:
        job = read.enqueue()
        assert test.drain().outcomes == {"succeeded": 1}
        told = test.backend.call(read_progress(job.id))
    assert told is not None
    assert told.description == r"caf\udce9.txt"


# -- queues, times, batches, cron


def test_a_paused_queue_hands_out_nothing(app: Anew) -> None:
    @app.task(queue="mail")
    def send() -> None: ...

    send.enqueue()
    app.pause("mail")
    assert work(app) == {}
    app.resume("mail")
    assert work(app) == {"succeeded": 1}


def test_low_priorities_come_first(app: Anew) -> None:
    order: list[int] = []

    @app.task
    def note(n: int) -> None:
        order.append(n)

    for n, priority in ((1, 10), (2, 5), (3, 10), (4, 0)):
        note.using(priority=priority).enqueue(n)
    work(app, concurrency=1)
    assert order == [4, 2, 1, 3]


def test_delayed_jobs_wait_and_expired_ones_do_not_run(app: Anew) -> None:
    @app.task
    def send() -> None: ...

    later = send.using(delay=FAR).enqueue()
    at = send.using(at=datetime.now(UTC) + FAR).enqueue()
    expired = send.using(expires=0.001).enqueue()
    over = time.time() + 0.002
    until(
        lambda: time.time() > over
    )  # the machine's clock, as there is no other for an application in memory
    assert work(app) == {}
    assert (later.status(), at.status(), expired.status()) == ("scheduled", "scheduled", "cancelled")


def test_a_batch_calls_back_once_all_have_succeeded(app: Anew) -> None:
    calls: list[str] = []

    @app.task
    def part(n: int) -> None:
        calls.append(f"part {n}")

    @app.task
    def whole(name: str) -> None:
        calls.append(name)

    with app.batch(on_success=whole.call("success"), on_complete=whole.call("complete")) as batch:
        for n in (1, 2):
            part.using(batch=batch).enqueue(n)
    work(app, concurrency=1)
    assert sorted(calls[:2]) == ["part 1", "part 2"]
    assert sorted(calls[2:]) == ["complete", "success"]


def test_a_batchs_callback_asks_what_has_become_of_its_jobs(app: Anew) -> None:
    told: list[tuple[str, int, int, int, int] | None] = []

    def tell(name: str) -> None:
        seen = ctx.batch
        told.append(None if seen is None else (name, seen.total, seen.succeeded, seen.failed, seen.pending))

    part = app.task(name="part", policy=[])(lambda fails: 1 / (not fails))
    told_by = app.task(name="tell")(tell)
    with app.batch(on_complete=told_by.call("complete")) as batch:
        part.using(batch=batch).enqueue_many([(False,), (True,), (False,)])
        told_by.using(batch=batch).enqueue("member")
    told_by.enqueue("alone")
    work(app, concurrency=1)
    assert sorted(told, key=str) == [("complete", 4, 3, 1, 0), ("member", 4, 2, 1, 1), None]


def test_a_job_of_a_batch_that_is_not_there_is_refused(app: Anew) -> None:
    task = app.task(name="t")(lambda: None)
    with Anew(":memory:") as other, other.batch(on_success=other.task(name="c")(print).call()) as batch:
        pass
    with pytest.raises(NotFound, match="no such batch"):
        task.using(batch=batch).enqueue()
    assert not any(app.counts().values())


def test_arguments_may_have_the_names_of_our_own_parameters(app: Anew) -> None:
    seen: list[dict[str, int]] = []
    task = app.task(name="t")(lambda **given: seen.append(given))
    task.enqueue(self=1, args=2, app=3)
    task.using(priority=1).enqueue(self=4)
    work(app, concurrency=1)
    assert sorted(seen, key=len) == [{"self": 4}, {"self": 1, "args": 2, "app": 3}]
    with pytest.raises(InvalidInput, match="job_id"):
        app.job(None)  # type: ignore[arg-type]


def made_in(module: str, path: Path, *crons: str, name: str | None = None) -> Anew:
    """Make an application in a module, with cron entries."""
    names: dict[str, Any] = {"__name__": module}
    exec("from anew import Anew\ndef make(*args, **more): return Anew(*args, **more)", names)
    made: Anew = names["make"](path, name=name)
    for cron in crons:
        made.cron("0 4 * * *", tz="UTC", name=cron)(made.task(name=f"{cron}.task")(lambda: None))
    return made


def crons_of(app: Anew) -> list[tuple[str, str]]:
    assert isinstance(app.backend, EmbeddedBackend)
    return [(row.group, row.name) for row in app.backend.call(list_crons())]


def test_two_applications_on_one_file_keep_their_cron_entries(tmp_path: Path) -> None:
    shop = made_in("shop.jobs", tmp_path / "jobs.db", "bills")
    mail = made_in("mail.jobs", tmp_path / "jobs.db", "digest")
    with shop, mail:
        for app in (shop, mail, shop):
            app.put_crons()
        assert crons_of(shop) == [("mail.jobs", "digest"), ("shop.jobs", "bills")]


def test_the_entries_of_an_older_store_go_over_to_the_module_that_has_them(tmp_path: Path) -> None:
    """Applications without a name were all called app."""
    path = tmp_path / "jobs.db"
    with made_in("shop.jobs", path, "bills", "digest", name="app") as old:
        old.put_crons()
    with made_in("shop.jobs", path, "bills") as shop, made_in("mail.jobs", path, "digest") as mail:
        shop.put_crons()
        assert crons_of(shop) == [("app", "digest"), ("shop.jobs", "bills")]
        mail.put_crons()
        assert crons_of(shop) == [("mail.jobs", "digest"), ("shop.jobs", "bills")]


def test_a_worker_removes_the_entries_of_an_application_that_has_none_any_more(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with made_in("shop.jobs", path, "bills") as before, made_in("mail.jobs", path, "digest") as other:
        before.run_worker(burst=True)
        other.run_worker(burst=True)
    with made_in("shop.jobs", path) as after:
        after.run_worker(burst=True)
        assert crons_of(after) == [("mail.jobs", "digest")]


def test_an_application_that_never_had_entries_writes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(EmbeddedBackend, "put_crons")
    with made_in("shop.jobs", tmp_path / "jobs.db") as app:
        app.run_worker(burst=True)


def test_an_application_that_removes_entries_says_so_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "jobs.db"
    with made_in("a", path, "bills", name="x") as one, made_in("b", path, "digest", name="x") as other:
        one.put_crons()
        one.put_crons()
        assert caplog.records == []
        other.put_crons()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "does not have: bills; if they are another application's" in record.getMessage()


def test_cron_entries_of_one_task_call_it_with_their_arguments(app: Anew) -> None:
    called: list[tuple[str, int]] = []

    @app.task(name="weekly")
    def weekly(region: str, days: int = 7) -> None:
        called.append((region, days))

    app.cron("0 6 * * 1", tz="UTC", name="eu", args=("eu",))(weekly)
    app.cron("0 7 * * 1", tz="UTC", name="us", args=["us"], kwargs={"days": 5})(weekly)
    with app.test(now=datetime(2026, 1, 5, 5, tzinfo=UTC)) as test:  # a Monday
        test.clock.advance("3h")
    assert called == [("eu", 7), ("us", 5)]


def test_a_cron_task_needs_arguments_that_fit_and_a_readable_expression(app: Anew) -> None:
    task = app.task(name="a")(lambda day: None)
    with pytest.raises(
        InvalidInput, match="missing a required argument: 'day'; expected args= and kwargs= for a"
    ):
        app.cron("@daily")(task)
    with pytest.raises(InvalidInput, match="too many positional"):
        app.cron("@daily", args=(1, 2))(task)
    with pytest.raises(InvalidInput, match="args: "):
        app.cron("@daily", args="monday")(task)
    assert app.crons == {}
    with pytest.raises(InvalidInput):
        app.cron("61 * * * *")(app.task(name="b")(lambda: None))
    with pytest.raises(InvalidInput):
        app.cron("@daily", tz="Nowhere/City")(app.task(name="c")(lambda: None))


def test_removing_what_has_ended_before_a_time(app: Anew) -> None:
    task = app.task(name="t", keep_result="1d")(lambda: 1)
    task.enqueue_many([() for _ in range(1_200)])
    work(app)
    assert app.clear("completed", older_than="1h") == 0
    assert app.clear("completed", queue="other") == 0
    assert app.clear("completed") == 1_200
    with pytest.raises(InvalidInput, match='states: "completd" is not valid'):
        app.clear("completd")


# -- many at once


def test_two_times_before_which_jobs_have_ended_are_refused(app: Anew) -> None:
    with pytest.raises(InvalidInput, match="older_than and before: expected one of them"):
        app.clear("dead", older_than=FAR, before=datetime.now(UTC))


def test_many_calls_are_stored_all_or_none(app: Anew) -> None:
    @app.task(keep_result="1h")
    def double(n: int) -> int:
        return 2 * n

    handles = double.enqueue_many([(1,), {"n": 2}, [3]])
    work(app)
    assert [handle.result() for handle in handles] == [2, 4, 6]
    with pytest.raises(InvalidJob):
        double.enqueue_many([(1,), ("x",)])
    with pytest.raises(InvalidInput, match="a tuple of positional arguments, or a dict"):
        double.enqueue_many([1])  # type: ignore[list-item]
    assert app.counts()["ready"] == 0
    assert double.enqueue_many([]) == []


# -- events


def test_hooks_hear_what_happens_and_change_nothing(app: Anew, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[tuple[str, int, str | None]] = []

    @app.on()
    def note(event: Event) -> None:
        heard.append((event.name, event.attempt, event.error))

    @app.on("failed")
    def broken(event: Event) -> None:
        raise RuntimeError("a hook")

    @app.task(policy=[0])
    def never() -> None:
        raise ValueError("x")

    never.enqueue()
    assert work(app) == {"failed": 1, "discarded": 1}
    assert heard == [
        ("enqueued", 0, None),
        ("started", 1, None),
        ("failed", 1, "x"),
        ("started", 2, None),
        ("discarded", 2, "x"),
    ]
    assert "a hook failed" in caplog.text
    with pytest.raises(InvalidInput, match="is no event"):
        app.on("faild")


# -- processes of the machine


def test_a_forked_child_opens_the_file_for_itself(tmp_path: Path) -> None:
    with Anew(tmp_path / "jobs.db") as app:
        task = app.task(name="t")(lambda: None)
        task.enqueue()
        child = os.fork()
        if child == 0:
            try:
                task.enqueue()
                app.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert app.counts()["ready"] == 2


def test_jobs_in_memory_stay_with_the_process_that_made_them(app: Anew) -> None:
    task = app.task(name="t")(lambda: None)
    task.enqueue()
    child = os.fork()
    if child == 0:
        try:
            task.enqueue()
        except ForkedStore:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


# -- the end of a worker


def test_what_has_not_begun_goes_back_and_what_runs_may_end(app: Anew) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.task
    def slow() -> None:
        begun.set()
        go_on.wait(20)

    slow.enqueue_many([() for _ in range(5)])
    worker = app.worker(concurrency=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert begun.wait(20)
    worker.stop()
    go_on.set()
    thread.join(20)
    assert worker.done["succeeded"] == 1
    assert (app.counts()["ready"], app.counts()["in_flight"]) == (4, 0)


def test_what_does_not_end_in_time_is_given_back_uncounted(app: Anew) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.task
    def slow() -> None:
        begun.set()
        go_on.wait(20)

    handle = slow.enqueue()
    worker = app.worker(drain=0)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert begun.wait(20)
    worker.stop()
    thread.join(20)
    info = handle.info()
    assert info is not None
    assert (str(info.state), info.attempts, info.errors) == ("ready", 0, ())
    go_on.set()


def test_a_worker_can_stop_after_so_many_runs(app: Anew) -> None:
    task = app.task(name="t")(lambda: None)
    task.enqueue_many([() for _ in range(50)])
    assert work(app, burst=False, most_jobs=10, concurrency=1)["succeeded"] >= 10
    assert app.counts()["in_flight"] == 0


def test_lanes_keep_to_their_queues(app: Anew) -> None:
    running: list[str] = []
    most: dict[str, int] = {"a": 0, "b": 0}
    lock = threading.Lock()

    @app.task
    def note() -> None:
        with lock:
            running.append(ctx.queue)
            most[ctx.queue] = max(most[ctx.queue], running.count(ctx.queue))
        with lock:
            running.remove(ctx.queue)

    for queue in ("a", "b", "c"):
        note.using(queue=queue).enqueue_many([() for _ in range(20)])
    assert work(app, queues={"a": 1, "b": 2}) == {"succeeded": 40}
    assert (most["a"], most["b"] <= 2, app.counts("c")["ready"]) == (1, True, 20)


# -- the application's own policy


@pytest.mark.parametrize(
    ("policy", "runs"),
    [
        ([0, 0], 3),
        ({ValueError: None}, 1),
        ({ValueError: [0], Exception: None}, 2),
        (lambda attempt, exception: 0 if attempt < 3 else None, 3),
    ],
    ids=["waits", "never", "rules", "function"],
)
def test_an_applications_policy_has_every_form_and_holds_for_tasks_that_name_none(
    policy: object, runs: int
) -> None:
    with Anew(":memory:", policy=policy) as app:
        begun: list[str] = []

        @app.task
        def plain() -> None:
            begun.append("plain")
            raise ValueError

        @app.task(policy=[])
        def own() -> None:
            begun.append("own")
            raise ValueError

        plain.enqueue()
        own.enqueue()
        while sum(app.counts().values()) > app.counts()["dead"]:
            work(app)
        assert (begun.count("plain"), begun.count("own")) == (runs, 1)


# -- a file that another program keeps


def test_a_worker_outlasts_a_program_that_keeps_the_file(tmp_path: Path) -> None:
    with Anew(tmp_path / "jobs.db") as app:
        begun, go_on = threading.Event(), threading.Event()

        @app.task
        def gated() -> None:
            begun.set()
            go_on.wait(20)

        gated.enqueue_many([() for _ in range(3)])
        backend = app.backend
        assert isinstance(backend, EmbeddedBackend)
        backend.commit._busy_s = 0.05
        other = apsw.Connection(str(tmp_path / "jobs.db"))
        worker = app.worker(concurrency=1, burst=True)
        refused = threading.Event()
        exchange = worker._source.exchange

        def watched(*args: Any) -> Any:
            done = exchange(*args)
            if done.busy or done.again or done.kept:
                refused.set()
            return done

        worker._source.exchange = watched  # type: ignore[method-assign]
        thread = threading.Thread(target=worker.run)
        thread.start()
        assert begun.wait(20)
        other.execute("BEGIN IMMEDIATE")
        go_on.set()
        assert refused.wait(20)  # the first run has ended, and that cannot be written
        other.execute("COMMIT")
        other.close()
        thread.join(20)
        assert (worker.done["succeeded"], worker.done["lost"]) == (3, 0)


def test_a_worker_that_begins_while_the_file_is_kept_waits_for_it(tmp_path: Path) -> None:
    with Anew(tmp_path / "jobs.db") as app:
        app.task(name="t")(lambda: None).enqueue()
        backend = app.backend
        assert isinstance(backend, EmbeddedBackend)
        backend.commit._busy_s = 0.05
        worker = app.worker(burst=True)
        other = apsw.Connection(str(tmp_path / "jobs.db"))
        other.execute("BEGIN IMMEDIATE")
        refused = threading.Event()
        exchange = worker._source.exchange

        def watched(*args: Any) -> Any:
            done = exchange(*args)
            if done.busy:
                refused.set()
            return done

        worker._source.exchange = watched  # type: ignore[method-assign]
        thread = threading.Thread(target=worker.run)
        thread.start()
        assert refused.wait(20)
        other.execute("COMMIT")
        other.close()
        thread.join(20)
        assert worker.done["succeeded"] == 1


# -- errors that cannot be said


class Unsaid(Exception):
    """An error whose message cannot be asked for."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_cannot_be_said_fails_its_run_and_the_worker_goes_on(app: Anew) -> None:
    @app.task(max_attempts=1)
    def plain() -> None:
        raise Unsaid

    @app.task(max_attempts=1)
    async def coroutine() -> None:
        raise Unsaid

    handles = [plain.enqueue(), coroutine.enqueue()]
    assert work(app, concurrency=1, drain=5) == {"discarded": 2}
    for handle in handles:
        info = handle.info()
        assert info is not None
        assert info.errors[0].message == "(the error's message cannot be read)"
        assert info.errors[0].error_type == f"{__name__}.Unsaid"


def test_lone_surrogates_in_what_a_handler_says_are_escaped(app: Anew) -> None:
    """Such as the names of files have that are not UTF-8."""

    @app.task(max_attempts=1)
    def fail() -> None:
        raise ValueError("no file \udcff")

    @app.task
    def drop() -> None:
        raise Discard("no file \udcff")

    @app.task
    def snooze() -> None:
        raise Snooze("1d", "no file \udcff")

    @app.task
    async def cancel() -> None:
        raise Cancel("no file \udcff")

    handles = [fail.enqueue(), drop.enqueue(), snooze.enqueue(), cancel.enqueue()]
    assert work(app) == {"discarded": 2, "snoozed": 1, "cancelled": 1}
    for handle in handles:
        info = handle.info()
        assert info is not None
        assert info.errors[0].message == r"no file \udcff"
