"""Unique keys: who is a duplicate of whom, and when a key is free again."""

from __future__ import annotations

from typing import Any

import msgspec

from anew.engine import Acknowledge, Batch, Enqueued, Entry, Fetch, Reject
from anew.engine.verbs import cancel_one, delete_one, redrive_one
from anew.jobs import Failed, State
from anew.jobs.codec import JobHooks, PushedJob, UniqueKey
from anew.jobs.unique import Scope, text_digest
from anew.store.sql import SqlStore
from anew.store.sqlite import open_sqlite

from .rig import NOW, FaultyStore, Rig, call, enqueue, ignore, new_job, succeed, tick

MINUTE = 60_000


def unique(
    jid: str, scope: Scope = Scope.ACTIVE, key: str = "k", ends_at: int | None = None, **members: Any
) -> PushedJob:
    hooks = JobHooks(unique=UniqueKey(text_digest(key), scope, ends_at))
    return PushedJob(type="send", queue="mail", payload=msgspec.Raw(b"[1]"), jid=jid, hooks=hooks, **members)


def put(rig: Rig, *jobs: PushedJob) -> Enqueued:
    result = rig.do(enqueue(*jobs))
    assert isinstance(result, Enqueued)
    return result


def is_free(rig: Rig, scope: Scope = Scope.ACTIVE) -> bool:
    """Whether a new job gets the key; it is taken out again, and so is its lock if it was stored."""
    entered = put(rig, unique("probe", scope))
    if entered.existing:
        return False
    rig.do(call(delete_one(entered.keys[0])))
    return True


def fetch(rig: Rig) -> str | None:
    answers: list[Any] = []
    rig.engine.apply([op := Fetch(["mail"], answers.append)])
    rig.engine.fetches.call_off(op)
    return answers[0].jid if answers else None


def test_a_second_job_is_a_duplicate_of_the_first_and_one_without_a_key_is_not(rig: Rig) -> None:
    """Faktory checklist 94."""
    (first,) = put(rig, unique("a")).keys
    second = put(rig, unique("b"))
    assert (list(second.keys), second.existing) == ([first], {0: Entry.DUPLICATE})
    assert not put(rig, PushedJob(type="send", queue="mail", payload=msgspec.Raw(b"[1]"), jid="c")).existing
    assert [fetch(rig), fetch(rig), fetch(rig)] == ["a", "c", None]
    assert rig.engine.stats.enqueued == 2


def test_a_later_job_of_one_call_is_a_duplicate_of_an_earlier_one(rig: Rig) -> None:
    entered = put(rig, unique("a"), unique("b", key="other"), unique("c"))
    assert entered.existing == {2: Entry.DUPLICATE}
    assert entered.keys[2] == entered.keys[0]


def test_requests_of_one_batch_are_each_answered_for_their_own_jobs(rig: Rig) -> None:
    one, two, three = rig.apply(enqueue(unique("a")), enqueue(unique("b")), enqueue(new_job()))
    assert (one.existing, two.existing, three.existing) == ({}, {0: Entry.DUPLICATE}, {})
    assert list(two.keys) == list(one.keys)


def test_success_frees_the_key_and_a_failure_does_not(rig: Rig) -> None:
    """Faktory checklist 94: freed on ACK."""
    put(rig, unique("a", Scope.SUCCEEDED, ends_at=NOW + MINUTE))
    assert fetch(rig) == "a"
    rig.do(Reject("a", Failed(message="no"), ignore))
    assert not is_free(rig)
    rig.advance(10_000)
    assert fetch(rig) == "a"
    assert rig.do(Acknowledge("a", ignore))
    assert is_free(rig)


def test_a_fetch_frees_the_key_of_a_job_that_holds_it_until_it_starts(rig: Rig) -> None:
    """Faktory checklist 94: freed on FETCH."""
    put(rig, unique("a", Scope.STARTED, ends_at=NOW + MINUTE))
    assert not is_free(rig)
    assert fetch(rig) == "a"
    assert is_free(rig)


def test_a_timed_lock_outlives_its_job_and_ends_by_time(rig: Rig) -> None:
    (key,) = put(rig, unique("a", Scope.SUCCEEDED, ends_at=NOW + MINUTE)).keys
    rig.do(call(delete_one(key)))
    rig.advance(MINUTE - 1)
    assert not is_free(rig)
    rig.advance(1)
    assert is_free(rig)


def test_a_queued_key_is_free_while_the_job_runs_and_taken_back_by_its_retry(rig: Rig) -> None:
    (key,) = put(rig, unique("a", Scope.QUEUED)).keys
    worker = rig.worker()
    assert worker.keys == [key]
    rig.engine.dispatcher.pause(worker.taker)
    assert is_free(rig, Scope.QUEUED)
    rig.engine.apply([rig.leave(worker)])
    assert rig.state(key) is State.READY
    assert not is_free(rig, Scope.QUEUED)


def test_a_key_that_somebody_has_meanwhile_is_not_taken_back(rig: Rig) -> None:
    (first,) = put(rig, unique("a", Scope.QUEUED)).keys
    worker = rig.worker()
    rig.engine.dispatcher.pause(worker.taker)
    (second,) = put(rig, unique("b", Scope.QUEUED)).keys
    rig.engine.apply([rig.leave(worker)])
    assert list(put(rig, unique("c", Scope.QUEUED)).keys) == [second] != [first]


def test_a_job_that_is_called_off_frees_its_key_and_takes_it_back_when_redriven(rig: Rig) -> None:
    (key,) = put(rig, unique("a")).keys
    rig.do(call(cancel_one(key)))
    assert is_free(rig)
    rig.do(call(redrive_one(key)))
    assert not is_free(rig)


def test_a_key_of_a_record_is_held_until_the_record_goes() -> None:
    rig = Rig(completed_ms=MINUTE)
    (key,) = put(rig, unique("a", Scope.EXISTS)).keys
    rig.worker()
    assert rig.do(succeed(key)) == []
    assert not is_free(rig, Scope.EXISTS)
    rig.clock.advance(MINUTE)
    rig.do(call(tick))
    assert rig.state(key) is None
    assert rig.store.hooks.locks([text_digest("k")]) == [], "its lock goes with it, asked for again or not"
    assert is_free(rig, Scope.EXISTS)


def test_a_success_through_another_door_frees_the_key(rig: Rig) -> None:
    (key,) = put(rig, unique("a")).keys
    worker = rig.worker()
    assert worker.keys == [key]
    assert rig.do(succeed(key)) == []
    assert is_free(rig)
    assert rig.broken_rules() == []


def test_locks_whose_time_is_over_are_removed(rig: Rig) -> None:
    put(rig, unique("a", Scope.SUCCEEDED, ends_at=NOW + MINUTE))
    assert len(rig.store.hooks.locks([text_digest("k")])) == 1
    rig.clock.advance(MINUTE)
    rig.do(call(tick))
    assert rig.store.hooks.locks([text_digest("k")]) == []


def test_a_commit_that_fails_leaves_neither_job_nor_lock() -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store)
    store.commits[:] = [ValueError("once")]
    rig.do(enqueue(unique("a")))
    assert fetch(rig) is None
    assert put(rig, unique("b")).existing == {}


def test_a_key_holds_in_all_processes(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    (key,) = put(one, unique("a")).keys
    assert list(put(other, unique("b")).keys) == [key]
    assert fetch(other) == "a"
    assert one.do(Acknowledge("a", ignore))
    assert put(other, unique("c")).existing == {}


def test_a_long_payload_that_was_written_ahead_of_a_duplicate_is_removed(rig: Rig) -> None:
    jobs = [unique("a"), unique("b"), unique("c", key="other")]
    for job in jobs:
        job.payload = msgspec.Raw(b'["%s"]' % (b"x" * 5_000))

    def verb(batch: Batch) -> Enqueued:
        keys = batch.keys_for(3)
        at = batch.store.staging.stage(keys, jobs, (0, 0), 1 << 20)
        assert at is None
        return batch.insert(jobs, keys=keys)

    entered = rig.do(call(verb))
    assert entered.existing == {1: Entry.DUPLICATE}
    assert isinstance(rig.store, SqlStore)
    assert rig.store._link.execute("SELECT DISTINCT job_id FROM payload ORDER BY 1").fetchall() == [
        (entered.keys[0],),
        (entered.keys[2],),
    ]
    assert rig.store._link.execute("SELECT * FROM staged").fetchall() == []
    assert [fetch(rig), fetch(rig)] == ["a", "c"]


def test_a_damaged_scope_stops_nobody_and_its_lock_is_let_go_of_at_the_jobs_end(rig: Rig) -> None:
    put(rig, unique("a", Scope.QUEUED))
    for table, column in (("job", "unique_scope"), ("unique_lock", "scope")):
        rig.store._link.connection.execute(f"UPDATE {table} SET {column} = 'x'")  # type: ignore[attr-defined]
    assert not is_free(rig)
    assert fetch(rig) == "a"
    rig.do(Acknowledge("a", ignore))
    assert is_free(rig)
