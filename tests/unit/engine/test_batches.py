"""Batches: counters, callbacks that are enqueued once, batches within batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from anew.engine import Acknowledge, Enqueued, Entry, Fetch, Reject
from anew.engine.job_batches import batch_status, commit_batch, new_batch, open_batch
from anew.engine.verbs import cancel_one, delete_one
from anew.errors import InvalidInput, NotFound, StoreFull
from anew.jobs import Failed
from anew.jobs.batches import Callback, CallbackState
from anew.jobs.codec import JobHooks, PushedJob
from anew.store.sql import SqlStore
from anew.store.sqlite import open_sqlite

from .rig import NOW, FaultyStore, Rig, call, enqueue, ignore, succeed, tick

MINUTE = 60_000
DAY = 86_400_000
WAITING, ENQUEUED, SUCCEEDED = CallbackState.WAITING, CallbackState.ENQUEUED, CallbackState.SUCCEEDED


def job(jid: str, queue: str = "mail", batch: int | None = None, **members: Any) -> PushedJob:
    hooks = None if batch is None else JobHooks(batch=batch)
    return PushedJob(
        **{"type": "send", "queue": queue, "payload": msgspec.Raw(b"[1]"), "jid": jid, "hooks": hooks}
        | members
    )


def make(
    rig: Rig, *callbacks: Callback, parent: int | None = None, name: str = "", commit: bool = False
) -> int:
    """A batch whose callbacks are jobs in queue ``calls``, each named after it."""

    def jobs(key: int) -> dict[Callback, PushedJob]:
        return {one: job(f"{name}{one}", "calls", meta=b"of %d" % key) for one in callbacks}

    key = rig.do(call(new_batch(jobs, parent=parent, meta=b"door's")))
    assert isinstance(key, int)
    if commit:
        rig.do(call(commit_batch(key)))
    return key


def counted(rig: Rig, key: int) -> tuple[int, int, int]:
    row = rig.do(call(batch_status(key))).row
    return (row.total, row.pending, row.failed)


def states(rig: Rig, key: int) -> tuple[CallbackState, CallbackState]:
    row = rig.do(call(batch_status(key))).row
    return (row.complete, row.success)


def fetch(rig: Rig, queue: str = "calls") -> str | None:
    answers: list[Any] = []
    rig.engine.apply([op := Fetch([queue], answers.append)])
    rig.engine.fetches.call_off(op)
    return answers[0].jid if answers else None


def ack(rig: Rig, jid: str) -> None:
    assert rig.do(Acknowledge(jid, ignore)) is True


def reject(rig: Rig, jid: str) -> None:
    rig.do(Reject(jid, Failed(message="no"), ignore))


def run(rig: Rig, jid: str, queue: str = "calls") -> None:
    """Fetch and acknowledge one job."""
    assert fetch(rig, queue) == jid
    ack(rig, jid)


@pytest.fixture
def rig() -> Rig:
    return Rig(dead_ms=DAY)


BOTH = (Callback.COMPLETE, Callback.SUCCESS)


def test_the_callbacks_come_one_after_the_other(rig: Rig) -> None:
    """Faktory checklist 97."""
    key = make(rig, *BOTH)
    rig.put(job("a", batch=key), job("b", batch=key))
    assert counted(rig, key) == (2, 2, 0)
    rig.do(call(commit_batch(key)))
    run(rig, "a", "mail")
    assert counted(rig, key) == (2, 1, 0)
    assert fetch(rig) is None
    run(rig, "b", "mail")
    assert (counted(rig, key), states(rig, key)) == ((2, 0, 0), (ENQUEUED, WAITING))
    run(rig, "complete")
    assert states(rig, key) == (SUCCEEDED, ENQUEUED)
    run(rig, "success")
    assert states(rig, key) == (SUCCEEDED, SUCCEEDED)
    assert fetch(rig) is None


def test_a_callback_bears_what_its_door_has_given(rig: Rig) -> None:
    key = make(rig, Callback.SUCCESS, commit=True)
    answers: list[Any] = []
    rig.engine.apply([Fetch(["calls"], answers.append)])
    (found,) = answers
    assert (found.jid, found.meta, bytes(found.payload)) == ("success", b"of %d" % key, b"[1]")
    assert rig.do(call(batch_status(key))).meta == b"door's"


def test_an_empty_batch_fires_when_it_is_committed_and_no_other_ever(rig: Rig) -> None:
    """Faktory checklist 98."""
    never = make(rig, *BOTH, name="never ")
    rig.put(job("a", batch=never))
    run(rig, "a", "mail")
    assert states(rig, never) == (WAITING, WAITING)
    key = make(rig, Callback.SUCCESS, commit=True)
    assert states(rig, key) == (CallbackState.ABSENT, ENQUEUED)
    run(rig, "success")
    assert fetch(rig) is None


def test_a_parents_callback_waits_for_the_childs_to_be_acknowledged(rig: Rig) -> None:
    """Faktory checklist 99."""
    parent = make(rig, Callback.SUCCESS, name="parent ")
    child = make(rig, Callback.SUCCESS, parent=parent, name="child ")
    rig.put(job("p", batch=parent), job("c", batch=child))
    rig.do(call(commit_batch(child)))
    rig.do(call(commit_batch(parent)))
    run(rig, "p", "mail")
    run(rig, "c", "mail")
    assert states(rig, parent)[1] is WAITING
    assert fetch(rig) == "child success"
    assert fetch(rig) is None
    ack(rig, "child success")
    assert states(rig, parent)[1] is ENQUEUED
    assert counted(rig, parent) == (1, 0, 0)
    run(rig, "parent success")


def test_three_levels_end_from_the_innermost_outwards(rig: Rig) -> None:
    keys: list[int] = []
    for name in ("outer ", "middle ", "inner "):
        keys.append(make(rig, Callback.SUCCESS, parent=keys[-1] if keys else None, name=name))
    for key in keys:
        rig.do(call(commit_batch(key)))
    for name in ("inner success", "middle success", "outer success"):
        assert fetch(rig) == name
        assert fetch(rig) is None  # the next one waits for this one
        ack(rig, name)
    assert [states(rig, key)[1] for key in keys] == [SUCCEEDED] * 3


def test_a_failure_completes_the_batch_and_a_later_success_lets_it_succeed(rig: Rig) -> None:
    key = make(rig, *BOTH, commit=False)
    rig.put(job("a", batch=key))
    rig.do(call(commit_batch(key)))
    assert fetch(rig, "mail") == "a"
    reject(rig, "a")
    assert (counted(rig, key), states(rig, key)) == ((1, 0, 1), (ENQUEUED, WAITING))
    run(rig, "complete")
    rig.advance(10_000)
    assert fetch(rig, "mail") == "a"
    reject(rig, "a")  # again: it is counted once
    assert counted(rig, key) == (1, 0, 1)
    rig.advance(10_000)
    run(rig, "a", "mail")
    assert (counted(rig, key), states(rig, key)) == ((1, 0, 0), (SUCCEEDED, ENQUEUED))


def test_an_interruption_is_no_report_and_another_doors_success_is_one(rig: Rig) -> None:
    key = make(rig, Callback.SUCCESS)
    (member,) = rig.put(job("a", batch=key))
    rig.do(call(commit_batch(key)))
    rig.engine.apply([rig.leave(rig.worker(["mail"]))])
    assert counted(rig, key) == (1, 1, 0)
    rig.worker(["mail"])
    assert rig.do(succeed(member)) == []
    assert (counted(rig, key), states(rig, key)[1]) == ((1, 0, 0), ENQUEUED)


def test_what_will_never_run_counts_as_failed_and_what_has_ended_stays_counted(rig: Rig) -> None:
    key = make(rig, Callback.COMPLETE)
    late, gone, dead = rig.put(
        job("late", hooks=JobHooks(batch=key, expires_at=NOW)), job("gone", batch=key), job("dead", batch=key)
    )
    rig.do(call(commit_batch(key)))
    rig.do(call(delete_one(gone)))
    rig.do(call(cancel_one(dead)))
    assert counted(rig, key) == (3, 1, 2)
    rig.do(call(delete_one(dead)))
    assert counted(rig, key) == (3, 1, 2)
    rig.clock.advance(1)
    assert fetch(rig, "mail") is None
    assert rig.state(late) is not None
    assert (counted(rig, key), states(rig, key)[0]) == ((3, 0, 3), ENQUEUED)
    assert fetch(rig) == "complete"


def test_a_callback_that_an_expiry_brings_reaches_who_waits_for_it(rig: Rig) -> None:
    key = make(rig, Callback.COMPLETE)
    rig.put(job("late", hooks=JobHooks(batch=key, expires_at=NOW)))
    rig.do(call(commit_batch(key)))
    calls = rig.worker(["calls"])
    rig.clock.advance(1)
    rig.worker(["mail"])
    assert len(calls.keys) == 1
    assert rig.broken_rules() == []


def test_a_fetch_that_waits_gets_the_callback_of_a_job_that_expired_in_the_same_batch(rig: Rig) -> None:
    key = make(rig, Callback.COMPLETE)
    rig.put(job("late", hooks=JobHooks(batch=key, expires_at=NOW)))
    rig.do(call(commit_batch(key)))
    rig.clock.advance(1)
    answers: list[Any] = []
    rig.engine.apply([Fetch(["calls", "mail"], answers.append)])
    assert rig.engine.fetches.unfinished
    rig.engine.apply([])
    assert [one.jid for one in answers] == ["complete"]


def test_a_failed_callback_stays_enqueued_and_is_tried_again(rig: Rig) -> None:
    key = make(rig, *BOTH, commit=True)
    assert fetch(rig) == "complete"
    reject(rig, "complete")
    assert states(rig, key) == (ENQUEUED, WAITING)
    rig.advance(10_000)
    run(rig, "complete")
    assert states(rig, key) == (SUCCEEDED, ENQUEUED)


def test_jobs_that_come_after_the_end_are_counted_and_fire_nothing_again(rig: Rig) -> None:
    key = make(rig, Callback.SUCCESS, commit=True)
    run(rig, "success")
    rig.do(call(open_batch(key)))
    rig.put(job("more", batch=key))
    assert counted(rig, key) == (1, 1, 0)
    run(rig, "more", "mail")
    rig.do(call(commit_batch(key)))
    assert (counted(rig, key), states(rig, key)[1]) == ((1, 0, 0), SUCCEEDED)
    assert fetch(rig) is None


def test_an_unknown_batch_refuses_its_own_job_alone(rig: Rig) -> None:
    entered = rig.do(enqueue(job("a"), job("b", batch=7), job("c")))
    assert isinstance(entered, Enqueued)
    assert (entered.existing, entered.keys[1]) == ({1: Entry.NO_BATCH}, -1)
    assert [fetch(rig, "mail") for _ in range(3)] == ["a", "c", None]
    for verb in (open_batch(7), commit_batch(7), batch_status(7), new_batch(lambda _: {}, parent=7)):
        assert isinstance(rig.do(call(verb)), NotFound)
    assert isinstance(rig.do(call(new_batch(lambda _: {}))), InvalidInput)


def test_without_space_no_batch_is_made_and_those_that_are_there_go_on(rig: Rig) -> None:
    """A callback is stored all the same: it belongs to the acknowledgement that brings it."""
    key = make(rig, Callback.SUCCESS, commit=False, name="the ")
    rig.put(job("a", batch=key))
    rig.engine.parts.full = True
    assert isinstance(rig.do(call(new_batch(lambda _: {Callback.SUCCESS: job("b")}))), StoreFull)
    rig.do(call(commit_batch(key)))
    run(rig, "a", "mail")
    assert fetch(rig) == "the success"


def test_a_commit_that_fails_fires_nothing_and_the_next_one_fires_once() -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store)
    key = make(rig, Callback.SUCCESS)
    rig.put(job("a", batch=key))
    rig.do(call(commit_batch(key)))
    assert fetch(rig, "mail") == "a"
    store.commits[:] = [ValueError("no")]
    rig.do(Acknowledge("a", ignore))
    assert (counted(rig, key), states(rig, key)[1]) == ((1, 1, 0), WAITING)
    assert fetch(rig) is None
    ack(rig, "a")
    assert (counted(rig, key), states(rig, key)[1]) == ((1, 0, 0), ENQUEUED)
    assert [fetch(rig), fetch(rig)] == ["success", None]


def test_a_batch_is_written_once_in_a_transaction(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make(rig, Callback.SUCCESS)
    written: list[int] = []
    write = rig.store.hooks.write_batches
    monkeypatch.setattr(
        rig.store.hooks,
        "write_batches",
        lambda rows: (written.extend(row.key for row, _ in rows), write(rows)),
    )
    keys = rig.put(*[job(f"j{n}", batch=key) for n in range(300)])
    rig.worker(["mail"])
    rig.do(succeed(*keys))
    assert written == [key, key]
    assert counted(rig, key) == (300, 0, 0)


def test_batches_go_when_their_time_is_over_and_a_parent_waits_no_longer(rig: Rig) -> None:
    parent = make(rig, Callback.SUCCESS, name="parent ")
    child = make(rig, Callback.SUCCESS, parent=parent)
    rig.do(call(commit_batch(parent)))
    rig.clock.advance(30 * MINUTE)
    rig.do(call(tick))
    assert isinstance(rig.do(call(batch_status(child))), NotFound)
    run(rig, "parent success")
    rig.clock.advance(30 * DAY - 1)
    rig.do(call(tick))
    assert states(rig, parent)[1] is SUCCEEDED
    rig.clock.advance(MINUTE)
    rig.do(call(tick))
    assert isinstance(rig.do(call(batch_status(parent))), NotFound)


def test_a_batch_is_counted_in_all_processes(pair: tuple[Rig, Rig]) -> None:
    one, other = pair
    key = make(one, Callback.SUCCESS)
    one.put(job("a", batch=key))
    other.put(job("b", batch=key))
    other.do(call(commit_batch(key)))
    assert [fetch(one, "mail"), fetch(other, "mail")] == ["a", "b"]
    ack(one, "a")
    ack(other, "b")
    assert (counted(one, key), counted(other, key)) == ((2, 0, 0), (2, 0, 0))
    assert [fetch(one), fetch(other)] == ["success", None]


def test_a_batch_stands_after_a_restart(tmp_path: Path) -> None:
    rig = Rig(open_sqlite(tmp_path))
    key = make(rig, Callback.SUCCESS)
    rig.put(job("a", batch=key))
    rig.do(call(commit_batch(key)))
    rig.store.close()
    again = Rig(open_sqlite(tmp_path), clock=rig.clock)
    second = make(again, Callback.SUCCESS, name="second ")
    assert second > key
    run(again, "a", "mail")
    assert fetch(again) == "success"
    again.store.close()


def test_a_member_whose_texts_cannot_be_read_is_counted_as_failed(rig: Rig) -> None:
    key = make(rig, Callback.COMPLETE)
    (member,) = rig.put(job("a", batch=key))
    rig.do(call(commit_batch(key)))
    assert isinstance(rig.store, SqlStore)
    rig.store._link.execute("UPDATE job SET type = CAST(x'ff' AS TEXT) WHERE id = ?", (member,))
    rig.worker(["mail"])
    assert (counted(rig, key), states(rig, key)[0]) == ((1, 0, 1), ENQUEUED)


def test_members_that_succeed_in_one_commit_are_neither_loaded_nor_read_one_by_one(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (make(rig, Callback.SUCCESS, name=f"{name} ", commit=False) for name in "ab")
    keys = rig.put(*[job(f"j{n}", batch=(first, second)[n % 2]) for n in range(6)])
    for batch in (first, second):
        rig.do(call(commit_batch(batch)))
    rig.worker(["mail"])
    read: list[str] = []
    monkeypatch.setattr(rig.store, "load", lambda keys, **_: read.append("load") or [])
    monkeypatch.setattr(rig.store.hooks, "among", lambda keys: read.append("among") or [])
    rig.do(succeed(*keys))
    assert read == []
    monkeypatch.undo()
    assert [counted(rig, batch) for batch in (first, second)] == [(3, 0, 0), (3, 0, 0)]
    assert [fetch(rig), fetch(rig), fetch(rig)] == ["a success", "b success", None]


def test_members_with_and_without_a_failure_behind_them_succeed_in_one_commit(rig: Rig) -> None:
    key = make(rig, Callback.SUCCESS)
    keys = rig.put(job("a", batch=key), job("b", batch=key))
    rig.do(call(commit_batch(key)))
    assert fetch(rig, "mail") == "a"
    rig.do(Reject("a", Failed(message="no"), ignore))
    rig.advance(10_000)
    rig.worker(["mail"])
    rig.do(succeed(*keys))
    assert (counted(rig, key), states(rig, key)[1]) == ((2, 0, 0), ENQUEUED)
    assert [fetch(rig), fetch(rig)] == ["success", None]


# -- damaged rows: whoever settles a job of such a batch goes on


def spoil(rig: Rig, change: str) -> None:
    """Change rows behind the engine's back."""
    rig.store._link.connection.execute(change)  # type: ignore[attr-defined]


def test_a_callback_that_cannot_be_read_never_comes_and_holds_nobody_up(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    key = make(rig, Callback.SUCCESS)
    rig.put(job("a", batch=key))
    rig.do(call(commit_batch(key)))
    spoil(rig, "UPDATE batch SET on_success = x'7b'")
    run(rig, "a", "mail")
    assert (counted(rig, key), states(rig, key)[1]) == ((1, 0, 0), ENQUEUED)
    assert fetch(rig) is None
    (record,) = caplog.records
    assert record.getMessage() == "a batch's callback cannot be read, and never comes"


def test_a_callback_whose_state_is_damaged_comes_no_second_time(rig: Rig) -> None:
    key = make(rig, Callback.SUCCESS)
    rig.put(job("a", batch=key))
    rig.do(call(commit_batch(key)))
    spoil(rig, "UPDATE batch SET success = -1")
    run(rig, "a", "mail")
    assert fetch(rig) is None
    assert rig.broken_rules() == []
