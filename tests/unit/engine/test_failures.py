"""When a batch does not go through: no space, a store that fails, something odd; neighbours are answered rightly."""

from __future__ import annotations

import pytest

from anew.engine import Batch, Call, Succeed
from anew.engine.engine import left_of
from anew.engine.upkeep import wait_and_apply
from anew.errors import InDoubt, InternalError, NotFound, StoreBusy, StoreFailed, StoreFull
from anew.jobs import State
from anew.jobs.carried import result_of
from anew.store.selection import Page
from anew.store.sqlite import open_sqlite
from tests.conformance.helpers import ready_total

from .failing import Failing, failed, full, odd, picture
from .rig import (
    NOW,
    FaultyStore,
    Once,
    Rig,
    Worker,
    call,
    enqueue,
    fail,
    ignore,
    new_job,
    plain,
    succeed,
    tick,
)


@pytest.fixture
def rig() -> Failing:
    return Failing()


# -- no space


@full
def test_no_space_refuses_new_jobs_and_settles_the_rest(rig: Failing, error: Exception) -> None:
    done, failing, left = rig.put(new_job("a"), new_job("a"), new_job("b"))
    rig.worker(["a"])
    gone = rig.worker(["b"])
    rig.fail_next(error)
    refused, settled, retried, released, called = rig.apply(
        plain(1), succeed(done), fail(failing), rig.leave(gone), call(lambda batch: 5)
    )
    assert isinstance(refused, StoreFull)
    assert settled == []
    assert retried.state is State.RETRYING
    assert released == 1
    assert called == 5
    assert rig.engine.parts.full
    assert rig.engine.failed is None
    assert (rig.state(done), rig.state(failing), rig.state(left)) == (None, State.RETRYING, State.READY)
    assert rig.broken_rules() == []


def test_without_space_large_results_and_errors_are_not_kept_so_that_settling_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Failing(completed_ms=60_000)
    large, small, failing = rig.put(*[new_job("a")] * 3)
    rig.worker(["a"])
    rig.engine.parts.full = True
    results = {large: b'"%s"' % (b"x" * 10_000), small: b"7"}
    message = "begin" + "y" * 10_000 + "end"
    rig.apply(Succeed([large, small], ignore, None, results), fail(failing, message, backtrace="z" * 10_000))
    jobs = {job.key: job for job in rig.store.load([large, small])}
    assert (result_of(jobs[large]), result_of(jobs[small])) == (None, b"7")
    (error,) = rig.store.records.errors(failing, Page(limit=1))
    assert (len(error.message) <= 256, error.message[:5], error.message[-3:], error.backtrace) == (
        True, "begin", "end", None
    )  # fmt: skip
    assert "no space left: jobs have completed whose results are not kept" in caplog.messages


@full
def test_no_space_even_for_settling_leaves_everything_as_it_was(rig: Failing, error: Exception) -> None:
    keys = rig.put(new_job("a"), new_job("a"), new_job("b", ready_at=NOW + 50))
    rig.worker(["a"])
    before = picture(rig)
    rig.fail_next(error, error, error)
    results = rig.apply(plain(1), succeed(keys[0]), fail(keys[1]))
    assert all(isinstance(result, StoreFull) for result in results)
    assert picture(rig) == before
    assert rig.broken_rules() == []
    assert rig.apply(succeed(keys[0]), fail(keys[1]))[0] == []
    assert rig.broken_rules() == []


@full
def test_where_all_but_new_jobs_is_too_much_settling_still_goes_on(rig: Failing, error: Exception) -> None:
    (key,) = rig.put(new_job())
    rig.worker()
    rig.fail_next(error, error)
    refused, settled, called = rig.apply(plain(1), succeed(key), call(lambda batch: 5))
    assert isinstance(refused, StoreFull)
    assert settled == []
    assert isinstance(called, StoreFull)
    assert rig.broken_rules() == []


@full
def test_the_reserve_is_given_up_for_settling(
    rig: Failing, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[bool] = []
    monkeypatch.setattr(FaultyStore, "device", property(lambda store: store))
    monkeypatch.setattr(rig.faulty.inner._link, "free_reserve", lambda: given_up.append(True))
    (key,) = rig.put(new_job())
    rig.worker()
    rig.fail_next(error)
    rig.apply(plain(1))
    assert not given_up
    rig.engine.parts.full = False
    rig.fail_next(error)
    assert rig.do(succeed(key)) == []
    assert given_up


@full
def test_the_reserve_is_given_up_for_takes_too(
    rig: Failing, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a full device with idle workers would never get emptier."""
    given_up: list[bool] = []
    monkeypatch.setattr(FaultyStore, "device", property(lambda store: store))
    monkeypatch.setattr(rig.faulty.inner._link, "free_reserve", lambda: given_up.append(True))
    rig.put(new_job())
    rig.fail_next(error)
    worker = rig.worker()
    assert given_up
    assert len(worker.keys) == 1
    assert rig.broken_rules() == []


@full
def test_the_reserve_is_kept_where_nobody_could_take_anything(
    rig: Failing, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[bool] = []
    monkeypatch.setattr(FaultyStore, "device", property(lambda store: store))
    monkeypatch.setattr(rig.faulty.inner._link, "free_reserve", lambda: given_up.append(True))
    rig.put(new_job("other"))
    rig.worker(["mail"])
    rig.fail_next(error)
    assert isinstance(rig.do(plain(1)), StoreFull)
    assert not given_up


@full
def test_after_no_space_new_jobs_are_refused_until_there_is_some(
    rig: Failing, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.fail_next(error)
    assert isinstance(rig.do(plain(1)), StoreFull)
    assert isinstance(rig.do(plain(1)), StoreFull)
    monkeypatch.setattr(FaultyStore, "device", property(lambda store: store))
    monkeypatch.setattr(rig.faulty.inner._link, "free_bytes", lambda: 1 << 40)
    rig.do(call(tick))
    assert len(rig.put(new_job())) == 1


@full
def test_where_nobody_can_be_asked_for_space_new_jobs_are_tried_again_at_the_next_look(
    rig: Failing, error: Exception
) -> None:
    assert rig.store.device is None
    rig.fail_next(error)
    assert isinstance(rig.do(plain(1)), StoreFull)
    assert isinstance(rig.do(plain(1)), StoreFull)
    rig.do(call(tick))
    assert len(rig.put(new_job())) == 1


@full
def test_no_space_for_a_take_alone_gives_the_jobs_later(rig: Failing, error: Exception) -> None:
    rig.put(*(new_job() for _ in range(3)))
    rig.fail_next(error, error, error)
    worker = rig.worker(prefetch=2)
    assert (worker.keys, worker.held) == ([], set())
    rig.engine.apply([])
    assert len(worker.keys) == 2
    assert rig.broken_rules() == []


def test_something_odd_after_no_space_is_answered_too(rig: Failing) -> None:
    one, two = rig.put(new_job(), new_job())
    rig.worker()
    rig.fail_next(StoreFull("no space"), RuntimeError("odd"), None, None)
    refused, first, second = rig.apply(plain(1), succeed(one), succeed(two))
    assert isinstance(refused, StoreFull)
    assert (first, second) == ([], [])
    assert rig.broken_rules() == []


# -- the store fails


@failed
def test_reliability_06_a_failed_store_ends_everything(rig: Failing, error: Exception) -> None:
    (key,) = rig.put(new_job())
    rig.worker()
    rig.fail_next(error)
    results = rig.apply(plain(1), succeed(key), call(lambda batch: 5))
    assert all(isinstance(result, StoreFailed) for result in results)
    assert rig.engine.failed is results[0]
    commits = rig.faulty.committed
    later = rig.apply(plain(1), succeed(key), fail(key), call(lambda batch: 5))
    assert all(isinstance(result, StoreFailed) for result in later)
    rig.engine.apply([])
    assert rig.faulty.committed == commits


@failed
@pytest.mark.parametrize("verb", ["begin", "insert_plain", "finish", "take", "promote", "rollback"])
def test_wherever_the_store_fails_it_is_the_end(rig: Failing, error: Exception, verb: str) -> None:
    """Not only at the commit: a page that cannot be read or a log that cannot be locked says as much."""
    (key, _) = rig.put(new_job(), new_job(ready_at=NOW + 5))
    worker = rig.worker(prefetch=2)
    rig.clock.advance(5)
    rig.fail_next(error, verb=verb)
    if verb == "rollback":
        rig.fail_next(RuntimeError("odd"))
    results = rig.apply(plain(1), succeed(key))
    assert all(isinstance(result, StoreFailed) for result in results)
    assert rig.engine.failed is not None
    assert worker.keys == [key]


@failed
def test_a_store_that_fails_while_it_is_full_is_the_end(rig: Failing, error: Exception) -> None:
    (key,) = rig.put(new_job())
    rig.worker()
    rig.fail_next(StoreFull("no space"), error)
    refused, settled = rig.apply(plain(1), succeed(key))
    assert isinstance(refused, StoreFull)
    assert isinstance(settled, StoreFailed)
    assert rig.engine.failed is settled


@failed
def test_nothing_taken_under_a_failed_commit_is_handed_out(rig: Failing, error: Exception) -> None:
    rig.put(new_job())
    rig.fail_next(error)
    worker = rig.worker()
    assert worker.keys == []


# -- a batch is there, and perhaps not for good


def test_a_batch_in_doubt_is_told_to_all_that_rest_on_it_and_stands(rig: Failing) -> None:
    (done,) = rig.put(new_job("a"))
    rig.worker(["a"])
    rig.fail_next(InDoubt("no standby has it"), verb="sync")
    new, settled, refused, took = rig.apply(
        plain(1), succeed(done), fail(99), Call(lambda batch: 5, ignore, durable=False)
    )
    assert isinstance(new, InDoubt)
    assert isinstance(settled, InDoubt)
    assert settled.result == []
    assert isinstance(refused, NotFound), "a refusal stays one"
    assert took == 5, "what needs no sync was answered before it"
    assert (rig.state(done), rig.state(new.result.keys[0])) == (None, State.READY)
    assert rig.engine.failed is None
    assert rig.broken_rules() == []


def test_jobs_that_were_taken_in_a_batch_in_doubt_are_handed_out(rig: Failing) -> None:
    worker = rig.worker()
    rig.fail_next(InDoubt("no standby has it"), verb="sync")
    new = rig.do(plain(1))
    assert worker.keys == list(new.result.keys)
    assert rig.do(succeed(worker.keys[0])) == []


def test_setting_damaged_jobs_aside_may_be_in_doubt(rig: Failing) -> None:
    (key,) = rig.put(new_job())
    rig.fail_next(UnicodeDecodeError("utf-8", b"", 0, 1, "odd"), verb="insert_plain")
    rig.fail_next(InDoubt("no standby has it"), verb="sync")
    assert isinstance(rig.do(plain(1)), InternalError)
    assert rig.engine.failed is None
    assert rig.state(key) is State.READY


# -- something that nobody foresaw


@odd
def test_a_batch_that_breaks_is_applied_one_by_one(rig: Failing, error: Exception) -> None:
    one, two = rig.put(new_job("a"), new_job("a"))
    rig.worker(["a"])
    rig.fail_next(error)
    entered, settled, retried = rig.apply(plain(2), succeed(one), fail(two))
    first = entered.keys[0]
    assert settled == []
    assert retried.state is State.RETRYING
    assert [rig.state(first), rig.state(first + 1)] == [State.READY] * 2
    assert rig.broken_rules() == []


@odd
def test_only_the_operation_that_breaks_is_answered_with_an_error(rig: Failing, error: Exception) -> None:
    one, two = rig.put(new_job(), new_job())
    rig.worker()
    rig.fail_next(error, None, error, None)
    put, settled, retried = rig.apply(plain(1, "b"), succeed(one), fail(two))
    assert put.now == NOW
    assert type(settled) is InternalError
    assert "odd" not in str(settled)
    assert retried.attempts == 1
    assert rig.state(one) is State.IN_FLIGHT
    assert rig.do(succeed(one)) == []
    assert rig.broken_rules() == []


def test_reliability_13_a_verb_that_breaks_hurts_nobody_else(rig: Failing) -> None:
    def broken(batch: Batch) -> None:
        batch.store.delete_all()
        raise ZeroDivisionError

    (key,) = rig.put(new_job())
    rig.worker()
    entered, error, settled = rig.apply(plain(1), call(broken), succeed(key))
    (first,) = entered.keys
    assert type(error) is InternalError
    assert settled == []
    assert rig.state(first) is State.IN_FLIGHT
    assert rig.broken_rules() == []


def test_reliability_13_a_job_that_the_store_cannot_take_hurts_nobody_else(rig: Failing) -> None:
    one, error, two = rig.apply(plain(1), enqueue(new_job("\ud800")), plain(1))
    (first,), (second,) = one.keys, two.keys
    assert type(error) is InternalError
    assert ready_total(rig.store) == 2
    assert [rig.state(first), rig.state(second)] == [State.READY] * 2
    assert rig.broken_rules() == []


@odd
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_take_that_breaks_halfway_puts_all_takers_back(rig: Failing, error: Exception, at: int) -> None:
    """The first takers have theirs in memory when a later take breaks: none of it may stay."""
    keys = rig.put(*(new_job("mail") for _ in range(6)))
    workers = []
    for queues in (
        None,
        ["mail", "fax"],
        ["mail", "web"],
    ):  # of the same queues, one take would serve them all
        worker = Worker(queues, 2)
        rig.engine.dispatcher.add(worker.taker)
        workers.append(worker)
    rig.fail_next(*[None] * at, error, verb="take")
    rig.engine.apply([])
    assert all(worker.keys == [] and worker.held == set() for worker in workers)
    assert rig.engine.dispatcher.holders == {}
    assert {job.state for job in rig.store.load(keys)} == {State.READY}
    rig.engine.apply([])
    assert sorted(key for worker in workers for key in worker.keys) == keys
    assert rig.broken_rules() == []


def test_not_found_is_no_failure_of_the_batch(rig: Failing) -> None:
    commits = rig.faulty.committed
    assert isinstance(rig.apply(fail(1), plain(1))[0], NotFound)
    assert rig.faulty.committed == commits + 1


def test_on_a_full_device_what_meets_a_busy_store_waits_and_nobody_is_answered_yet() -> None:
    rig = Failing()
    (key,) = rig.put(new_job())
    rig.worker()
    rig.fail_next(StoreFull("no space"))
    rig.fail_next(None, StoreBusy("another process is writing"), verb="begin")
    ops = [plain(1), succeed(key)]
    answers = [Once(), Once()]
    for op, done in zip(ops, answers, strict=True):
        op.done = done
    with pytest.raises(StoreBusy):
        rig.engine.apply(ops)
    assert [done.calls for done in answers] == [[], []]
    rig.engine.apply(ops)
    assert isinstance(answers[0].result, StoreFull)
    assert answers[1].result == []


def test_one_by_one_what_meets_a_busy_store_is_left_to_be_applied_again() -> None:
    rig = Failing()
    keys = rig.put(*(new_job() for _ in range(3)))
    rig.worker()
    rig.fail_next(RuntimeError("odd"))
    rig.fail_next(None, None, StoreBusy("another process is writing"), verb="begin")
    ops = [succeed(key) for key in keys]
    answers = [Once(), Once(), Once()]
    for op, done in zip(ops, answers, strict=True):
        op.done = done
    with pytest.raises(StoreBusy) as busy:
        rig.engine.apply(ops)
    assert [done.calls for done in answers] == [[[]], [], []]
    assert left_of(ops, busy.value) == ops[1:]
    rig.engine.apply(left_of(ops, busy.value))
    assert [done.result for done in answers] == [[], [], []]
    assert rig.broken_rules() == []


def test_on_a_full_device_what_is_refused_is_answered_before_the_rest_is_applied_one_by_one() -> None:
    rig = Failing()
    keys = rig.put(new_job(), new_job())
    rig.worker()
    rig.fail_next(StoreFull("no space"), RuntimeError("odd"))
    rig.fail_next(None, None, None, StoreBusy("another process is writing"), verb="begin")
    ops = [plain(1), *map(succeed, keys)]
    answers = [Once(), Once(), Once()]
    for op, done in zip(ops, answers, strict=True):
        op.done = done
    with pytest.raises(StoreBusy) as busy:
        rig.engine.apply(ops)
    assert left_of(ops, busy.value) == ops[2:]
    assert isinstance(answers[0].result, StoreFull)
    rig.engine.apply(left_of(ops, busy.value))
    assert [done.result for done in answers[1:]] == [[], []]


def test_whoever_waits_in_a_thread_applies_only_what_is_left() -> None:
    rig = Failing()
    rig.fail_next(RuntimeError("odd"))
    rig.fail_next(None, None, StoreBusy("another process is writing"), verb="begin")
    answers = [Once(), Once()]
    wait_and_apply(rig.engine, [Call(lambda batch: 5, answers[0]), Call(lambda batch: 6, answers[1])])
    assert [done.result for done in answers] == [5, 6]


def test_what_another_process_wrote_before_damaged_jobs_are_set_aside_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = iter([False, True, False])

    class Changed(FaultyStore):
        def begin(self, *, synced: bool) -> bool:
            self.inner.begin(synced=synced)
            return next(changed)

    rig = Rig(store := Changed(open_sqlite()))
    noticed: list[bool] = []
    monkeypatch.setattr(rig.engine.dispatcher, "notice_others", lambda: noticed.append(True))
    store.verbs["insert_plain"] = [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")]
    monkeypatch.setattr(store, "mend_texts", lambda: 1, raising=False)
    assert len(rig.do(plain(1)).keys) == 1
    assert noticed == [True]


def test_where_the_sync_fails_while_damaged_jobs_are_set_aside_the_engine_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(store := FaultyStore(open_sqlite()))
    store.verbs["insert_plain"] = [UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")]
    store.verbs["sync"] = [StoreFailed("disk I/O error")]
    monkeypatch.setattr(store, "mend_texts", lambda: 1, raising=False)
    assert isinstance(rig.do(plain(1)), StoreFailed)
    assert isinstance(rig.do(plain(1)), StoreFailed)
    assert store.verbs["sync"] == []
