"""Calls that become one job: what the options `debounce` and `merge` say, and what they are refused beside."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anew import Anew, Debounce, Limit, Merge, ctx
from anew.errors import InvalidInput, NotSupported, TooLarge
from anew.jobs.codec import FoldRule, PushedJob
from anew.tasks.debouncing import WORDS, expression_of, fold_rule
from anew.tasks.task import Submission
from anew.testing import AppTest
from tests.unit.docs import ROOT


@pytest.fixture
def app() -> Iterator[Anew]:
    with Anew(":memory:") as made:
        yield made


@pytest.fixture
def test(app: Anew) -> Iterator[AppTest]:
    with app.test() as made:
        yield made


@pytest.fixture
def seen() -> list[Any]:
    """What handlers were called with."""
    return []


# -- debounce


def test_calls_of_the_same_arguments_become_one_job_that_runs_when_they_have_stopped(
    app: Anew, test: AppTest, seen: list[Any]
) -> None:
    @app.task(debounce="10s")
    def reindex(page: int) -> None:
        seen.append((page, ctx.now()))

    began = test.clock.now()
    first = reindex.enqueue(7)
    test.clock.advance("6s")
    second, other = reindex.enqueue(page=7), reindex.enqueue(8)
    assert (first.created, first.folded) == (True, False)
    assert (second.id, second.created, second.folded) == (first.id, False, True)
    assert (other.id != first.id, other.created) == (True, True)
    info = first.info()
    assert info is not None
    assert (info.state, info.folded) == ("scheduled", 1)
    assert test.clock.advance("9999ms") == []
    assert test.clock.advance("1ms").outcomes == {"succeeded": 2}
    at = int((began + timedelta(seconds=16)).timestamp() * 1_000)
    assert sorted(seen) == [(7, at), (8, at)]


def test_the_latest_call_of_a_key_gives_the_arguments(app: Anew, test: AppTest, seen: list[Any]) -> None:
    @app.task(debounce=Debounce("10s", key="page {page}"))
    def save(page: int, text: str = "empty") -> None:
        seen.append((page, text))

    handles = [save.enqueue(1, "a"), save.enqueue(2, "b"), save.enqueue(1, "c"), save.enqueue(1)]
    assert [handle.folded for handle in handles] == [False, False, True, True]
    test.clock.advance("10s")
    assert sorted(seen) == [(1, "empty"), (2, "b")]


@pytest.mark.parametrize(("max_wait", "seconds"), [(None, 100), ("25s", 25)])
def test_calls_that_do_not_stop_put_a_job_off_up_to_a_bound(
    app: Anew, test: AppTest, seen: list[Any], max_wait: str | None, seconds: int
) -> None:
    """Without one it is ten periods."""

    @app.task(debounce=Debounce("10s", max_wait=max_wait))
    def reindex() -> None:
        seen.append(test.clock.now())

    began = test.clock.now()
    for _ in range(2 * seconds):
        reindex.enqueue()
        test.clock.advance(1)
    assert seen == [began + timedelta(seconds=seconds), began + timedelta(seconds=2 * seconds)]


def test_a_call_while_the_job_runs_or_waits_for_its_retry_makes_another(
    app: Anew, test: AppTest, seen: list[Any]
) -> None:
    @app.task(debounce=Debounce("10s", key="all"), policy=["1h"])
    def sync(n: int) -> None:
        seen.append(n)
        if n == 1:
            other = sync.enqueue(2)
            assert (other.created, other.folded) == (True, False)
            raise ConnectionError

    sync.enqueue(1)
    test.clock.advance("10s")
    (retrying,) = test.jobs("retrying")
    third = sync.enqueue(3)
    assert (third.folded, third.id != retrying.id) == (True, True)
    test.clock.advance("10s")
    assert seen == [1, 3]
    sync.enqueue(4)
    assert [job.arguments for job in test.jobs("retrying")] == [{"n": 1}]


def test_one_call_may_have_another_period_or_none(app: Anew, test: AppTest) -> None:
    @app.task(debounce=Debounce("10s", key="all"))
    def sync(n: int) -> None: ...

    first = sync.enqueue(1)
    assert sync.using(debounce=Debounce("1m", key="all")).enqueue(2).id == first.id
    assert [job.at - test.clock.now() for job in test.jobs()] == [timedelta(minutes=1)]
    assert sync.using(debounce=None).enqueue(3).created
    assert test.drain().outcomes == {"succeeded": 1}


@pytest.mark.parametrize(("seconds", "outcomes"), [(24, {"succeeded": 1}), (24.001, {})])
def test_a_job_that_is_put_off_expires_so_long_after_the_time_that_the_latest_call_gave_it(
    app: Anew, test: AppTest, seconds: float, outcomes: dict[str, int]
) -> None:
    @app.task(debounce="10s", expires="5s")
    def sync() -> None: ...

    sync.enqueue()
    test.clock.advance("9s")
    sync.enqueue()  # due after 19 s
    test.clock.advance(seconds - 9, run=False)
    assert test.drain().outcomes == outcomes


def test_the_job_stays_the_first_calls_in_all_else(app: Anew, test: AppTest) -> None:
    @app.task(debounce=Debounce("10s", key="all"), priority=7, queue="slow")
    def sync(n: int) -> None: ...

    sync.enqueue(1)
    assert sync.using(priority=1, queue="fast").enqueue(2).folded
    (job,) = test.jobs()
    assert (job.queue, job.priority, job.arguments) == ("slow", 7, {"n": 2})


def test_a_limited_job_is_folded_into(app: Anew, test: AppTest, seen: list[Any]) -> None:
    @app.task(limit=Limit("one", rate="1/h"), debounce=Debounce("1s", key="k {key}"))
    def sync(key: str, n: int) -> None:
        seen.append((key, n))

    sync.enqueue("a", 1)
    test.clock.advance("1s")
    sync.enqueue("b", 1)
    test.clock.advance("1s")
    (waiting,) = test.jobs("ready")
    assert waiting.waits_for == "limit one"
    assert sync.enqueue("b", 2).id == waiting.id
    test.clock.advance("1h")
    assert seen == [("a", 1), ("b", 2)]


def test_cron_entries_are_folded_too(app: Anew, test: AppTest, seen: list[Any]) -> None:
    @app.cron("* * * * *", tz="UTC")
    @app.task(debounce="30s")
    def sync() -> None:
        seen.append(test.clock.now())

    test.clock.advance("50s")
    sync.enqueue()
    test.clock.advance("1m")
    assert seen == [datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC)]


def test_a_callback_of_a_batch_is_a_job_of_its_own(app: Anew, test: AppTest, seen: list[Any]) -> None:
    @app.task(debounce="10s")
    def publish() -> None:
        seen.append(test.clock.now())

    @app.task
    def resize() -> None: ...

    waiting = publish.enqueue()
    with app.batch(on_success=publish.call()) as batch:
        resize.using(batch=batch).enqueue()
    assert test.drain().outcomes == {"succeeded": 2}
    assert (len(seen), waiting.status()) == (1, "scheduled")


def test_a_folded_call_is_an_event_of_the_job_that_waits(app: Anew, test: AppTest) -> None:
    @app.task(debounce="10s")
    def sync() -> None: ...

    job = sync.enqueue()
    sync.enqueue()
    assert [(event.name, event.job_id) for event in test.events] == [("enqueued", job.id), ("folded", job.id)]


def test_arguments_in_message_pack_are_debounced(seen: list[Any]) -> None:
    with Anew(":memory:", serializer="msgpack") as app, app.test() as test:

        @app.task(debounce=Debounce("10s", key="{page}"))
        def save(page: int, text: bytes) -> None:
            seen.append((page, text))

        save.enqueue(1, b"\xff")
        save.enqueue(1, b"\xfe")
        test.clock.advance("10s")
        assert seen == [(1, b"\xfe")]


# -- merge


def test_calls_that_agree_in_the_other_arguments_are_merged(
    app: Anew, test: AppTest, seen: list[Any]
) -> None:
    @app.task(merge={"ids": "append", "urgent": "max", "by": "latest"})
    def reindex(index: str, ids: list[int], urgent: bool = False, by: str = "nobody") -> None:
        seen.append((index, ids, urgent, by))

    first = reindex.enqueue("a", [1])
    handles = [
        reindex.enqueue("a", [2, 3], urgent=True), reindex.enqueue("b", [9]), reindex.enqueue("a", [1], by="me")
    ]  # fmt: skip
    assert [handle.folded for handle in handles] == [True, False, True]
    assert first.info().folded == 2  # type: ignore[union-attr]
    test.drain()
    assert seen == [("a", [1, 2, 3, 1], True, "me"), ("b", [9], False, "nobody")]


@pytest.mark.parametrize(
    ("word", "calls", "expected"),
    [
        ("latest", [1, 3, 2], 2),
        ("first", [1, 3, 2], 1),
        ("append", [["b"], ["a"], ["b"]], ["b", "a", "b"]),
        ("union", [["b"], ["a"], ["b"]], ["a", "b"]),
        ("sum", [1, 3, 2], 6),
        ("max", [1, 3, 2], 3),
        ("min", [2, 3, 1], 1),
    ],
)
def test_what_becomes_of_an_argument(
    app: Anew, test: AppTest, seen: list[Any], word: str, calls: list[Any], expected: Any
) -> None:
    app.task(name="work", merge={"value": word})(lambda value: seen.append(value)).enqueue_many(
        [(value,) for value in calls]
    )
    test.drain()
    assert seen == [expected]


def test_every_word_is_tested_above_and_stands_in_the_documents() -> None:
    table = (ROOT / "docs" / "python.md").read_text().partition("| word |")[2].partition("\n\n")[0]
    assert set(re.findall(r'`"(\w+)"`', table)) == set(WORDS)
    marks = test_what_becomes_of_an_argument.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for case in marks[0].args[1]} == set(WORDS)


def test_an_argument_that_a_call_leaves_out_counts_as_its_default(
    app: Anew, test: AppTest, seen: list[Any]
) -> None:
    @app.task(merge={"by": "sum"})
    def count(page: str, by: int = 1) -> None:
        seen.append((page, by))

    for _ in range(3):
        count.enqueue("a")
    count.enqueue("a", by=10)
    test.drain()
    assert seen == [("a", 13)]


def test_an_expression_merges_whatever_it_says(app: Anew, test: AppTest, seen: list[Any]) -> None:
    @app.task(merge=Merge("$new | .lines = ($existing.lines + $new.lines)[-3:]", key="log {name}"))
    def log(name: str, lines: list[str]) -> None:
        seen.append((name, lines))

    for line in "abcde":
        log.enqueue("x", [line])
    test.drain()
    assert seen == [("x", ["c", "d", "e"])]


def test_with_a_delay_calls_are_collected_for_so_long_from_the_first_on(
    app: Anew, test: AppTest, seen: list[Any]
) -> None:
    @app.task(merge={"ids": "append"})
    def send(ids: list[int]) -> None:
        seen.append((ids, test.clock.now()))

    began = test.clock.now()
    collected = send.using(delay="10s")
    for n in range(4):
        collected.enqueue([n])
        test.clock.advance("3s")
    assert seen == [([0, 1, 2, 3], began + timedelta(seconds=10))]


def test_a_debounced_job_may_merge_its_calls(app: Anew, test: AppTest, seen: list[Any]) -> None:
    @app.task(debounce="10s", merge={"ids": "union"})
    def send(to: str, ids: list[int]) -> None:
        seen.append((to, ids))

    for n in (2, 1, 2):
        send.enqueue("ada", [n])
        test.clock.advance("9s")
    assert seen == []
    test.clock.advance("1s")
    assert seen == [("ada", [1, 2])]


def test_arguments_that_grow_too_long_begin_a_new_job(app: Anew, test: AppTest) -> None:
    @app.task(merge={"texts": "append"})
    def send(texts: list[str]) -> None: ...

    long = "x" * (100 << 10)
    assert [send.enqueue([long]).folded for _ in range(4)] == [False, True, False, True]


def test_an_expression_that_fails_refuses_the_call(app: Anew, test: AppTest) -> None:
    @app.task(merge=Merge("$existing | .n.m += 1", key="all"))
    def send(n: int) -> None: ...

    with pytest.raises(InvalidInput, match="merge dry-run: fold: "):
        send.enqueue(1)
    with pytest.raises(InvalidInput, match=r"merge expression: fold: .*syntax error"):
        send.using(merge=Merge("$existing |", key="all")).enqueue(1)
    assert test.jobs() == []


def test_a_cron_entry_whose_expression_fails_is_refused_when_it_is_put(app: Anew) -> None:
    @app.cron("* * * * *", tz="UTC", args=(1,))
    @app.task(merge=Merge("$existing |", key="all"))
    def send(n: int) -> None: ...

    with pytest.raises(InvalidInput, match="merge expression"):
        app.put_crons()


def test_a_list_of_calls_is_bounded(app: Anew, test: AppTest) -> None:
    @app.task(debounce="10s")
    def one(n: int) -> None: ...

    @app.task(merge={"n": "sum"})
    def two(n: int) -> None: ...

    with pytest.raises(TooLarge, match="at most 1000 that are debounced or merged"):
        one.enqueue_many([(n,) for n in range(1_001)])
    with pytest.raises(TooLarge, match="at most 100 that are merged by an expression"):
        two.enqueue_many([(1,) for _ in range(101)])
    assert test.jobs() == []
    assert len({handle.id for handle in two.enqueue_many([(1,) for _ in range(100)])}) == 1


def test_a_call_is_bounded(app: Anew, test: AppTest) -> None:
    @app.task(debounce="10s")
    def one(text: str) -> None: ...

    one.enqueue("x" * ((1 << 20) - len('{"text":""}')))
    with pytest.raises(TooLarge, match="payload: 1048577 bytes; expected at most 1048576"):
        one.enqueue("x" * ((1 << 20) - len('{"text":""}') + 1))


# -- what is stored


def test_the_words_are_expressions_of_jq() -> None:
    assert expression_of(Merge({"ids": "append", "at": "max", "by": "latest"})) == (
        '$new | .["ids"] = ($existing["ids"] + $new["ids"]) | .["at"] = ([$existing["at"], $new["at"]] | max)'
    )
    assert expression_of(Merge({"by": "latest"})) is None


def test_what_goes_with_a_call() -> None:
    assert fold_rule(Debounce("1m"), None) == FoldRule(quiet_ms=60_000, most_ms=600_000)
    assert fold_rule(Debounce(1, max_wait=1.5), Merge("$new", "k")) == FoldRule(1_000, 1_500, "$new")


def test_keys_of_tasks_queues_and_texts_keep_apart(app: Anew) -> None:
    def handler(a: int, b: int = 0) -> None: ...

    one, two = app.task(name="one", debounce="1s")(handler), app.task(name="two", debounce="1s")(handler)

    def digest(submission: Submission[Any, Any], *args: Any) -> bytes | None:
        job = submission.call(*args).job(0)
        assert isinstance(job, PushedJob)
        assert job.hooks is not None
        return job.hooks.fold

    merged, keyed = one.using(merge={"a": "sum"}), one.using(debounce=Debounce("1s", key="{a}"))
    alike = [(digest(merged, 1, 2), digest(merged, 9, 2)), (digest(keyed, 1, 2), digest(keyed, 1, 3))]
    other = two.using(debounce=Debounce("1s", key="{a}"))
    apart = [
        digest(one.using(), 1), digest(one.using(), 2), digest(two.using(), 1), digest(one.using(queue="other"), 1),
        digest(merged, 1, 2), digest(merged, 1, 3), digest(keyed, 1), digest(keyed, 2), digest(other, 1),
    ]  # fmt: skip
    assert all(first == second for first, second in alike)
    assert len(set(apart)) == len(apart)


def test_a_task_without_these_options_costs_nothing_more(app: Anew) -> None:
    @app.task
    def plain(n: int) -> None: ...

    assert not isinstance(plain.call(1).job(), PushedJob)


# -- what is refused


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"debounce": 0}, "debounce: 0 is not valid; expected a duration above 0"),
        ({"debounce": "soon"}, "debounce"),
        ({"debounce": True}, "debounce"),
        (
            {"debounce": Debounce("10s", max_wait="9s")},
            'max_wait: "9s" is not valid; expected at least the period, 10 s',
        ),
        ({"debounce": Debounce("10s", key="{nobody}")}, "debounce.key: .* names arguments of .*; it has n"),
        (
            {"debounce": "10s", "unique": True},
            "unique: cannot stand beside debounce; expected only one of them",
        ),
        (
            {"debounce": Debounce("1s", key="k"), "merge": {"n": "sum"}},
            "debounce.key: cannot stand beside merge",
        ),
        ({"merge": {"n": "add"}}, 'merge.n: "add" is not valid; expected one of latest, first, append'),
        ({"merge": {"n": 1}}, "merge.n: 1 is not valid"),
        ({"merge": {"m": "sum"}}, 'merge: "m" is not valid; expected some of the arguments n'),
        ({"merge": {}}, "merge: .* expected arguments by name"),
        ({"merge": ["n"]}, "merge: .* expected arguments by name"),
        ({"merge": "$new"}, r'merge: "\$new" is not valid; expected a key beside an expression'),
        ({"merge": Merge({"n": "sum"}, key="{m}")}, "merge.key: .* it has n"),
        ({"merge": {"n": "sum"}, "unique": "k"}, "unique: cannot stand beside merge"),
    ],
)
def test_options_that_do_not_fit_are_refused_where_they_stand(
    app: Anew, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):

        @app.task(**options)
        def work(n: int) -> None: ...


def test_what_a_call_cannot_have_beside_them_is_refused(app: Anew) -> None:
    @app.task(debounce="10s")
    def work(n: int) -> None: ...

    @app.task
    def done() -> None: ...

    for given in ({"delay": 1}, {"at": datetime(2030, 1, 1, tzinfo=UTC)}):
        with pytest.raises(
            InvalidInput, match="cannot stand beside debounce; expected none: the period says"
        ):
            work.using(**given)
    with app.batch(on_complete=done.call()) as batch:
        with pytest.raises(
            InvalidInput, match=r"batch: cannot stand .* expected using\(debounce=None, batch=...\)"
        ):
            work.using(batch=batch)
        work.using(batch=batch, debounce=None).enqueue(1)


@pytest.mark.parametrize("serializer", ["json", "msgpack"])
def test_a_task_whose_arguments_have_no_names_in_json_cannot_merge(serializer: str) -> None:
    def loose(*ids: int) -> None: ...

    def named(ids: list[int]) -> None: ...

    with (
        Anew(":memory:", serializer=serializer) as app,
        pytest.raises(InvalidInput, match="expected a task with arguments of names"),
    ):
        app.task(merge={"ids": "append"})(loose if serializer == "json" else named)


def test_a_key_that_is_no_text_is_refused(app: Anew) -> None:
    @app.task(debounce=Debounce("1s", key=lambda n: n))
    def work(n: int) -> None: ...

    with pytest.raises(
        InvalidInput, match=r"debounce\.key: 1 is not valid; expected a function that gives a text"
    ):
        work.enqueue(1)


def test_an_outbox_in_sqlite_refuses_them(app: Anew, test: AppTest, tmp_path: Path) -> None:
    """Its rows may be moved twice."""

    @app.task(debounce="10s")
    def work() -> None: ...

    shop = sqlite3.connect(tmp_path / "shop.db")
    app.create_outbox(shop)
    with pytest.raises(NotSupported, match=r"debounced or merged .* enqueue it after the commit"):
        app.outbox(shop).enqueue(work)
    shop.close()


def test_a_call_goes_through_the_store_and_back_as_json(app: Anew) -> None:
    """As rows of an outbox and cron entries are written."""

    @app.task(debounce="10s", merge={"n": "sum"})
    def work(n: int) -> None: ...

    job = work.call(1).job(0)
    assert msgspec.json.decode(msgspec.json.encode(job), type=PushedJob) == job
