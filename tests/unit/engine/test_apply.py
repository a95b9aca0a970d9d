"""One batch, one transaction: what each operation does, and what its answer is."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from anew.engine import Batch, FailMany, Limits
from anew.engine.batch import Enqueued, Entry
from anew.engine.upkeep import reap
from anew.engine.verbs import patch_one
from anew.errors import IllegalTransition, InternalError, NotFound, StoreFull
from anew.jobs import Backoff, Failed, Retention, State
from anew.jobs.patch import Patch
from anew.store.selection import Page
from anew.store.sqlite.link import SqliteLink
from tests.conformance.helpers import ready_total

from .rig import NOW, Once, Rig, call, enqueue, fail, new_job, plain, succeed, tick

# -- new jobs


def test_an_enqueue_answers_with_its_first_key_and_the_instant(rig: Rig) -> None:
    three, two = rig.apply(plain(3), plain(2))
    first, second, now = three.keys[0], two.keys[0], three.now
    assert now == NOW
    assert first == NOW << 20
    assert second == first + 3
    assert [job.ready_at for job in rig.store.load(range(first, first + 5))] == [NOW] * 5
    assert rig.engine.stats.enqueued == 5


def test_plain_and_rich_jobs_share_a_batch(rig: Rig) -> None:
    first, second = rig.apply(plain(1), enqueue(new_job(ready_at=NOW + 5, retry_limit=1)))
    one, two = first.keys[0], second.keys[0]
    assert (rig.state(one), rig.state(two)) == (State.READY, State.SCHEDULED)
    assert rig.engine.due_at == NOW + 5


def test_nothing_enqueued_takes_no_key(rig: Rig) -> None:
    assert list(rig.do(enqueue()).keys) == []
    assert rig.put(new_job()) == [NOW << 20]


@pytest.mark.parametrize(
    ("start", "n", "keys", "existing"),
    [
        (0, 2, [10, 7], {1: Entry.DUPLICATE}),
        (2, 1, [11], {}),
        (3, 2, [8, 12], {0: Entry.FOLDED}),
        (1, 3, [7, 11, 8], {0: Entry.DUPLICATE, 2: Entry.FOLDED}),
        (5, 1, [9], {0: Entry.DUPLICATE}),
        (0, 6, [10, 7, 11, 8, 12, 9], {1: Entry.DUPLICATE, 3: Entry.FOLDED, 5: Entry.DUPLICATE}),
        (2, 0, [], {}),
    ],
)
def test_a_part_of_an_answer_counts_its_places_from_its_own_start(
    start: int, n: int, keys: list[int], existing: dict[int, Entry]
) -> None:
    entered = Enqueued([10, 7, 11, 8, 12, 9], NOW, {1: Entry.DUPLICATE, 3: Entry.FOLDED, 5: Entry.DUPLICATE})
    assert entered.part(start, n) == Enqueued(keys, NOW, existing)


def test_a_part_of_an_answer_without_existing_jobs_has_none() -> None:
    assert Enqueued([10, 11, 12], NOW).part(1, 2) == Enqueued([11, 12], NOW, {})


def test_an_empty_batch_is_fine(rig: Rig) -> None:
    assert rig.apply() == []


def test_jobs_of_a_batch_are_offered_in_the_order_of_their_operations(rig: Rig) -> None:
    worker = rig.worker()
    first, urgent, last = rig.apply(plain(2), enqueue(new_job(priority=0)), plain(1))
    assert worker.keys == [*urgent.keys, *first.keys, *last.keys]
    assert worker.instants == [NOW]


# -- success


def test_a_success_removes_the_job_by_default(rig: Rig) -> None:
    (key,) = rig.put(new_job())
    rig.worker()
    assert rig.do(succeed(key)) == []
    assert rig.state(key) is None
    assert rig.engine.stats.completed == 1
    assert rig.broken_rules() == []


def test_a_success_names_the_keys_that_were_not_in_flight(rig: Rig) -> None:
    held, other, waiting = rig.put(new_job("a"), new_job("a"), new_job("b"))
    rig.worker(["a"])
    assert rig.do(succeed(held, waiting, 12_345, -1)) == [waiting, 12_345, -1]
    assert (rig.state(held), rig.state(other), rig.state(waiting)) == (None, State.IN_FLIGHT, State.READY)


def test_a_success_that_is_told_twice_counts_once(rig: Rig) -> None:
    one, two = rig.put(new_job(), new_job())
    rig.worker()
    assert rig.apply(succeed(one, one), succeed(two), succeed(two, one)) == [[one], [], [two, one]]
    assert rig.do(succeed(one)) == [one]
    assert rig.engine.stats.completed == 2
    assert rig.broken_rules() == []


@pytest.mark.parametrize("own", [None, 70])
def test_a_success_keeps_the_job_for_its_retention(own: int | None) -> None:
    rig = Rig(completed_ms=50)
    (key,) = rig.put(new_job(retention=None if own is None else Retention(completed_ms=own)))
    rig.worker()
    rig.clock.advance(10)
    assert rig.do(succeed(key)) == []
    job = rig.job(key)
    assert (job.state, job.completed_at, job.purge_at) == (State.COMPLETED, NOW + 10, NOW + 10 + (own or 50))
    assert rig.broken_rules() == []


def test_a_jobs_own_zero_retention_beats_the_default() -> None:
    rig = Rig(completed_ms=50)
    (key,) = rig.put(new_job(retention=Retention(completed_ms=0)))
    rig.worker()
    rig.do(succeed(key))
    assert rig.state(key) is None


@pytest.mark.parametrize("n", [1, 99, 100, 101, 1_000])
def test_successes_in_bulk(rig: Rig, n: int) -> None:
    rig.do(plain(n))
    worker = rig.worker(prefetch=n)
    assert rig.do(succeed(*worker.keys)) == []
    assert rig.store.queues.counts() == {}
    assert rig.broken_rules() == []


def test_a_success_after_failures_leaves_no_records(rig: Rig) -> None:
    (key,) = rig.put(new_job())
    rig.worker()
    rig.do(fail(key))
    rig.advance(10_000)
    assert rig.do(succeed(key)) == []
    assert rig.store.records.errors(key, Page()) == []


def test_a_success_of_a_job_with_a_large_payload_leaves_no_payload(rig: Rig) -> None:
    (key,) = rig.put(new_job(payload=b"x" * 5_000))
    rig.worker()
    rig.do(succeed(key))
    assert rig.store._link.connection.execute("SELECT count(*) FROM payload").fetchall() == [(0,)]  # type: ignore[attr-defined]


# -- failure


def test_a_failure_answers_with_the_job_as_it_is_now(rig: Rig) -> None:
    (key,) = rig.put(new_job(backoff=Backoff(2.0, 100, 0)))
    rig.worker()
    job = rig.do(fail(key, "boom", error_type="Oops", backtrace="line 1"))
    assert (job.state, job.ready_at, job.attempts, job.failed_at) == (State.RETRYING, NOW + 1_100, 1, NOW)
    assert rig.job(key).ready_at == NOW + 1_100
    (record,) = rig.store.records.errors(key, Page())
    assert (record.message, record.error_type, record.backtrace, record.dequeued_at) == (
        "boom",
        "Oops",
        "line 1",
        NOW,
    )
    assert record.decision is not None
    assert json.loads(record.decision)["wait_ms"] == 1_100
    assert rig.broken_rules() == []


def test_a_job_is_retried_as_its_policy_says_until_it_is_dead(rig: Rig) -> None:
    """Squares of seconds plus 100 ms: 1.1 s, 4.1 s, 9.1 s, and no fourth retry."""
    (key,) = rig.put(new_job(backoff=Backoff(2.0, 100, 0), retry_limit=3))
    worker = rig.worker()
    for wait in (1_100, 4_100, 9_100):
        rig.do(fail(key))
        rig.advance(wait - 1)
        assert rig.state(key) is State.RETRYING
        rig.advance(1)
        assert rig.state(key) is State.IN_FLIGHT
    assert rig.do(fail(key)).state is State.DEAD
    assert rig.job(key).purge_at == rig.clock.now() + 7 * 86_400_000
    assert worker.keys == [key] * 4
    assert [row[5] for row in worker.rows] == [0, 1, 2, 3]
    assert [record.attempt for record in rig.store.records.errors(key, Page())] == [1, 2, 3, 4]
    assert (rig.engine.stats.failed, rig.engine.stats.died) == (4, 1)
    assert rig.engine.stats.retries[:5] == [0, 1, 1, 1, 0]
    assert rig.broken_rules() == []


def test_only_what_is_in_flight_can_fail(rig: Rig) -> None:
    waiting, gone = rig.put(new_job("b"), new_job("a"))
    rig.worker(["a"])
    results = rig.apply(succeed(gone), fail(gone), fail(waiting), fail(999))
    assert results[0] == []
    assert all(isinstance(result, NotFound) for result in results[1:])
    assert rig.job(waiting).attempts == 0


def test_a_failure_that_is_told_twice_counts_once(rig: Rig) -> None:
    (key,) = rig.put(new_job())
    rig.worker()
    first, second = rig.apply(fail(key), fail(key))
    assert first.attempts == 1
    assert isinstance(second, NotFound)
    assert isinstance(rig.do(fail(key)), NotFound)
    assert len(rig.store.records.errors(key, Page())) == 1


def test_a_retry_that_is_due_at_once_is_offered_in_the_same_batch(rig: Rig) -> None:
    (key,) = rig.put(new_job())
    worker = rig.worker()
    rig.do(fail(key, retry_at=NOW - 5))
    assert worker.keys == [key, key]
    assert rig.broken_rules() == []


def test_many_failures_in_one_operation_are_answered_each_by_itself(rig: Rig) -> None:
    """The second report of a job in one list finds it in flight no longer, as does one of a job that nobody holds."""
    first, second, ready = rig.put(new_job(), new_job(), new_job())
    rig.worker(prefetch=2)
    done = Once()
    failure = Failed(message="no answer")
    rig.engine.apply([FailMany([(key, failure) for key in (second, ready, first, second)], done)])
    assert [getattr(result, "key", type(result)) for result in done.result] == [
        second,
        NotFound,
        first,
        NotFound,
    ]
    assert [rig.job(key).state for key in (first, second)] == [State.RETRYING, State.RETRYING]
    assert [record.message for record in rig.store.records.errors(second, Page())] == ["no answer"]
    assert rig.engine.stats.failed == 2


def test_a_failure_without_retention_leaves_nothing(rig: Rig) -> None:
    (key,) = rig.put(new_job(retry_limit=0, retention=Retention(dead_ms=0)))
    rig.worker()
    assert rig.do(fail(key)).state is State.DEAD
    assert rig.state(key) is None
    assert rig.store.records.errors(key, Page()) == []
    assert rig.broken_rules() == []


def test_a_retry_limit_of_32_bits_can_fail(rig: Rig) -> None:
    """Zizq's wire allows 4,294,967,295 retries; a policy counts to a thousand million."""
    (key,) = rig.put(new_job(retry_limit=4_294_967_295))
    rig.worker()
    assert rig.do(fail(key)).state is State.RETRYING


def test_failures_share_out_phases_as_evenly_as_the_golden_ratio(rig: Rig) -> None:
    keys = rig.put(*(new_job() for _ in range(100)))
    rig.worker()
    rig.apply(*(fail(key) for key in keys))
    phases = sorted(job.phase for job in rig.store.load(keys) if job.phase is not None)
    assert len(phases) == 100
    assert min(after - before for before, after in pairwise(phases)) >= 0.44 / 100
    rig.advance(10_000)
    rig.do(fail(keys[0]))
    assert sorted(job.phase for job in rig.store.load(keys) if job.phase is not None) == phases


# -- the rarer verbs and the end of a taker


def test_a_verb_runs_inside_the_batch_and_its_value_is_the_answer(rig: Rig) -> None:
    def count(batch: Batch) -> tuple[int, int]:
        return ready_total(batch.store), batch.now

    assert rig.apply(plain(3), call(count))[1] == (3, NOW)


def test_a_verb_that_refuses_answers_with_the_error_and_hurts_nobody(rig: Rig) -> None:
    def refuse(batch: Batch) -> None:
        raise IllegalTransition("no")

    entered, refused = rig.apply(plain(1), call(refuse))
    (key,) = entered.keys
    assert isinstance(refused, IllegalTransition)
    assert rig.state(key) is State.READY


def test_a_taker_that_leaves_gives_back_all_it_holds(rig: Rig) -> None:
    keys = rig.put(*(new_job() for _ in range(3)))
    gone, stays = rig.worker(prefetch=3), rig.worker(prefetch=2)
    assert rig.do(rig.leave(gone)) == 3
    assert stays.keys == keys[:2]
    assert gone.held == set()
    assert [job.interruptions for job in rig.store.load(keys)] == [1, 1, 1]
    assert rig.broken_rules() == []


def test_a_stop_of_the_server_is_no_interruption(rig: Rig) -> None:
    (key,) = rig.put(new_job())
    rig.do(rig.leave(rig.worker(), interrupted=False))
    assert (rig.job(key).interruptions, rig.state(key)) == (0, State.READY)


@pytest.mark.parametrize(
    ("failed", "interrupted", "waits"), [(False, False, State.SCHEDULED), (True, True, State.RETRYING)]
)
def test_a_held_job_that_got_a_later_time_waits_for_it_once_it_is_given_back(
    rig: Rig, failed: bool, interrupted: bool, waits: State
) -> None:
    (key,) = rig.put(new_job())
    worker = rig.worker()
    if failed:
        rig.do(fail(key, retry_at=NOW))
        assert worker.keys == [key, key]
    rig.do(call(patch_one(key, Patch(ready_at=NOW + 50))))
    rig.do(rig.leave(worker, interrupted=interrupted))
    job = rig.job(key)
    assert (job.state, job.ready_at, job.interruptions) == (waits, NOW + 50, int(interrupted))
    assert rig.engine.due_at == NOW + 50
    again = rig.worker()
    rig.advance(49)
    assert again.keys == []
    rig.advance(1)
    assert again.keys == [key]
    assert rig.broken_rules() == []


def test_releasing_nothing_is_fine(rig: Rig) -> None:
    assert rig.do(rig.leave(rig.worker())) == 0


def test_an_answer_that_raises_hurts_nobody_else(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def explode(result: object) -> None:
        raise RuntimeError("the connection is gone")

    last = Once()
    ops = [plain(1), plain(1)]
    ops[0].done, ops[1].done = explode, last
    rig.engine.apply(ops)
    assert last.result.now == NOW
    assert "an answer could not be delivered" in caplog.text


def test_a_delivery_that_raises_hurts_nobody_else(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def explode(rows: object, now: int) -> None:
        raise RuntimeError("the connection is gone")

    broken, whole = rig.worker(["a"]), rig.worker(["b"])
    broken.taker.deliver = explode
    first, second = rig.put(new_job("a"), new_job("b"))
    assert whole.keys == [second]
    assert broken.held == {first}
    assert "could not be delivered" in caplog.text
    assert rig.broken_rules() == []


# -- time


def test_what_is_due_is_promoted_in_bounded_chunks(rig: Rig) -> None:
    rig.put(*(new_job(ready_at=NOW + 5) for _ in range(375)))
    rig.clock.advance(5)
    seen = []
    for _ in range(3):
        rig.engine.apply([])
        seen.append(ready_total(rig.store))
    assert seen == [150, 300, 375]
    assert rig.engine.due_at is None
    assert rig.engine.stats.promoted == 375


def test_reliability_29_nothing_runs_before_its_time(rig: Rig) -> None:
    (key,) = rig.put(new_job(ready_at=NOW + 5))
    worker = rig.worker()
    rig.advance(4)
    assert worker.keys == []
    rig.advance(1)
    assert worker.keys == [key]


def test_due_at_follows_the_earliest_waiting_job(rig: Rig) -> None:
    assert rig.engine.due_at is None
    rig.put(new_job(ready_at=NOW + 9))
    assert rig.engine.due_at == NOW + 9
    (key,) = rig.put(new_job())
    rig.worker()
    rig.do(fail(key, retry_at=NOW + 3))
    assert rig.engine.due_at == NOW + 3
    rig.advance(3)
    assert rig.engine.due_at == NOW + 9


def test_a_lapsed_lease_goes_back_at_the_next_tick() -> None:
    rig = Rig(limits=Limits(max_lease_ms=100, global_in_flight=0))
    (key,) = rig.put(new_job())
    worker = rig.worker()
    rig.clock.advance(99)
    rig.do(call(tick))
    assert worker.keys == [key]
    rig.clock.advance(1)
    rig.do(call(tick))
    assert worker.keys == [key, key]
    assert rig.job(key).interruptions == 1
    assert rig.broken_rules() == []


def test_ended_jobs_go_when_their_retention_is_over_and_no_sooner() -> None:
    rig = Rig(completed_ms=50, dead_ms=70)
    done, dead, waiting = rig.put(new_job("a"), new_job("a"), new_job("b"))
    rig.worker(["a"])
    rig.apply(succeed(done), fail(dead, kill=True))
    for after, gone in ((49, 0), (1, 1), (19, 0), (1, 1), (10**9, 0)):
        rig.clock.advance(after)
        assert rig.do(call(reap)) == gone
    assert (rig.state(done), rig.state(dead), rig.state(waiting)) == (None, None, State.READY)
    assert rig.engine.stats.reaped == 2


# -- space


def test_little_space_refuses_new_jobs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(limits=Limits(min_free_bytes=1_000, global_in_flight=0))
    one, two = rig.put(new_job(), new_job())
    rig.worker()
    free = 999
    reserved: list[int] = []
    monkeypatch.setattr(SqliteLink, "device", property(lambda link: link))
    monkeypatch.setattr(SqliteLink, "free_bytes", lambda link: free)
    monkeypatch.setattr(SqliteLink, "keep_reserve", lambda link: reserved.append(free))
    rig.do(call(tick))
    refused, settled, failed = rig.apply(plain(1), succeed(one), fail(two))
    assert isinstance(refused, StoreFull)
    assert settled == []
    assert failed.state is State.RETRYING
    assert reserved == []
    free = 1_000
    rig.do(call(tick))
    assert len(rig.put(new_job())) == 1
    assert reserved == [1_000], "the next shortage can be settled in too"


def test_a_store_in_memory_has_space_as_long_as_nothing_else_is_known(rig: Rig) -> None:
    rig.do(call(tick))
    assert len(rig.put(new_job())) == 1


def test_a_job_in_flight_that_is_set_aside_gives_its_slot_back() -> None:
    rig = Rig(limits=Limits(global_in_flight=1))
    damaged, sound = rig.put(new_job(), new_job())
    worker = rig.worker()
    assert worker.held == {damaged}

    def damage(batch: Batch) -> None:
        batch.store._link.execute("UPDATE job SET state = 33 WHERE id = ?", (damaged,))  # type: ignore[attr-defined]

    rig.do(call(damage))
    rig.store.load([damaged])
    assert rig.do(call(lambda batch: batch.set_aside_unreadable(limit=10))) == 1
    assert worker.held == {sound}
    assert rig.broken_rules() == []


def test_each_enqueue_of_a_batch_gets_its_own_keys(rig: Rig) -> None:
    """As many jobs as operations, but not one for each."""
    nothing, two = rig.apply(enqueue(), enqueue(new_job(), new_job()))
    assert list(nothing.keys) == []
    assert len(two.keys) == 2
    assert [rig.state(key) for key in two.keys] == [State.READY, State.READY]


def test_a_verb_that_has_written_before_it_refuses_is_an_error_of_the_engines(rig: Rig) -> None:
    """In tests: see `tests.refusals`. Its batch would be committed with what it wrote."""

    def enqueues_and_refuses(batch: Batch) -> None:
        batch.insert([new_job()])
        raise NotFound("no such thing")

    assert isinstance(rig.do(call(enqueues_and_refuses)), InternalError)
    assert rig.store.queues.counts() == {}
