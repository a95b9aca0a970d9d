"""One suite for every engine of the store: what jobs are tied to."""

from __future__ import annotations

import msgspec
import pytest

from anew.jobs import State
from anew.jobs.batches import BatchRow, CallbackState
from anew.jobs.codec import JobHooks, PushedJob, UniqueKey
from anew.jobs.hooks import Hook, Hooked
from anew.jobs.progress import Progress, Word
from anew.jobs.unique import Lock, Scope
from anew.store.hook_rows import BatchParts, TrackedProgress
from anew.store.protocol import Store

from .helpers import NOW, batch, change, hold, insert, new_job

KEY = b"k" * 16
OTHER = b"o" * 16


def tied(jid: str = "", **ties: object) -> PushedJob:
    hooks = JobHooks(**ties)  # type: ignore[arg-type]
    return PushedJob(type="send", queue="mail", payload=msgspec.Raw(b"[1]"), jid=jid, hooks=hooks)


def test_the_ties_of_jobs_are_read_and_plain_ones_have_none(store: Store) -> None:
    with batch(store):
        insert(
            store,
            1,
            [tied("a", unique=UniqueKey(KEY, "active"), expires_at=9, batch=3, tracked=True), new_job()],
        )
        insert(store, 3, [tied(batch=4, callback="success"), new_job(ready_at=NOW + 5)])
        assert store.hooks.among([1, 2, 3, 4]) == [
            Hooked(1, State.READY, 15, 9, 3, KEY, "active", "a"),
            Hooked(3, State.READY, 64, None, 4, None, None, None),
        ]
        store.hooks.add([1], Hook.FAILED)
        assert [job.hooks for job in store.load([1, 2, 3])] == [31, 0, 64]


def test_a_dropped_expiry_leaves_the_other_ties(store: Store) -> None:
    with batch(store):
        insert(store, 1, [tied("a", expires_at=9, batch=3), tied("b", expires_at=9)])
        store.hooks.add([1, 2], Hook.EXPIRED)
        store.hooks.drop_expiry([1])
        assert store.hooks.among([1, 2]) == [
            Hooked(1, State.READY, 8, None, 3, None, None, "a"),
            Hooked(2, State.READY, 258, 9, None, None, None, "b"),
        ]


@pytest.mark.parametrize("payload", [b"[2]", b'"' + b"x" * 5_000 + b'"'])
def test_what_is_folded_into_a_job_is_counted_and_replaces_its_payload(store: Store, payload: bytes) -> None:
    with batch(store):
        insert(store, 1, [tied(fold=KEY, expires_at=9), tied(fold=OTHER)])
        store.fold_into(1, b"[0]", 2, 7)
        store.fold_into(1, payload, 3, None)
        assert store.hooks.among([1, 2]) == [
            Hooked(1, State.READY, 3, None, None, KEY, "open", None, 5),
            Hooked(2, State.READY, 1, None, None, OTHER, "open", None, 0),
        ]
        assert [job.payload for job in store.load([1, 2], payload=True)] == [payload, b"[1]"]


def test_a_take_names_the_jobs_that_are_tied_and_a_plain_finish_leaves_them(store: Store) -> None:
    with batch(store):
        insert(store, 1, [new_job(), tied(expires_at=9), new_job()])
        assert store.take(["mail"], 10, 1_000, hold()).hooked == [2]
        assert store.finish([1, 2, 3]) == [1, 3]


def test_jobs_that_are_stored_once_are_found_by_their_producers_ids_in_any_state(store: Store) -> None:
    with batch(store):
        insert(
            store,
            1,
            [tied("a", once=True), tied("b", once=True), tied("c", tracked=True), tied("d", once=True)],
        )
        take_all = store.take(["mail"], 2, 1_000, hold())
        assert take_all.hooked == []  # a take means nothing to them
        store.apply([change(1, State.DEAD)])
        assert store.hooks.stored_once(["a", "b", "c", "d", "e"]) == {"a": 1, "b": 2, "d": 4}
        assert store.finish([2]) == [2]
        store.delete([4])
        assert store.hooks.stored_once(["a", "b", "d"]) == {"a": 1}


@pytest.mark.parametrize("ends_at", [None, NOW + 5])
def test_locks_are_taken_claimed_and_released(store: Store, ends_at: int | None) -> None:
    with batch(store):
        insert(store, 1, [new_job(), new_job()])
        first = Lock(KEY, 1, Scope.SUCCEEDED, ends_at)
        store.hooks.take_locks([first, Lock(OTHER, 9, Scope.ACTIVE)])
        assert sorted(store.hooks.locks([KEY, OTHER, b"none"]), key=lambda one: one[0].digest) == [
            (first, State.READY),
            (Lock(OTHER, 9, Scope.ACTIVE), None),
        ]
        store.hooks.claim_locks([Lock(KEY, 2, Scope.QUEUED)], NOW + 4)
        assert store.hooks.locks([KEY]) == [(first, State.READY)]
        store.hooks.claim_locks([Lock(KEY, 2, Scope.QUEUED)], NOW + 5)
        holder = 1 if ends_at is None else 2
        assert store.hooks.locks([KEY])[0][0].job_key == holder
        store.hooks.release_locks([holder])
        assert store.hooks.locks([KEY]) == []
        assert len(store.hooks.locks([OTHER])) == 1


def test_locks_go_when_their_time_is_over(store: Store) -> None:
    with batch(store):
        store.hooks.take_locks([Lock(bytes([n]), n, Scope.SUCCEEDED, NOW + n) for n in range(5)])
        store.hooks.take_locks([Lock(KEY, 9, Scope.ACTIVE)])
        assert [store.hooks.reap_locks(NOW + 3, 2) for _ in range(3)] == [2, 2, 0]
        assert len(store.hooks.locks([KEY, bytes([4])])) == 2


def test_batches_are_kept_with_what_was_given(store: Store) -> None:
    row = BatchRow(key=5, parent=4, success=CallbackState.WAITING)
    parts = BatchParts(b"meta", None, b"{}")
    with batch(store):
        store.hooks.insert_batch(row, parts, NOW)
        assert store.hooks.batches([5, 6]) == [row]
        assert store.hooks.batch_parts(5) == parts
        changed = BatchRow(
            key=5, parent=4, total=7, pending=3, failed=2, committed=True, complete=CallbackState.ENQUEUED,
            success=CallbackState.SUCCEEDED, open_children=1, unsuccessful_children=2,
        )  # fmt: skip
        store.hooks.write_batches([(changed, NOW + 9)])
        assert store.hooks.batches([5]) == [changed]
        assert store.hooks.batch_parts(5) == parts
        assert (store.hooks.purgeable_batches(NOW + 8, 10), store.hooks.purgeable_batches(NOW + 9, 10)) == (
            [],
            [5],
        )
        store.hooks.delete_batches([5])
        assert store.hooks.batches([5]) == []


def test_records_of_progress_are_written_over_and_reaped(store: Store) -> None:
    old = TrackedProgress(Progress(Word.WORKING, 3, "x", NOW), 1)
    new = TrackedProgress(Progress(Word.SUCCESS, None, None, NOW + 5), None)
    with batch(store):
        store.hooks.write_progress([("a", old), ("b", old)])
        store.hooks.write_progress([("b", new)])
        assert store.hooks.progress(["a", "b", "c"]) == {"a": old, "b": new}
        assert store.hooks.reap_progress(NOW + 4, 10) == 1
        assert store.hooks.progress(["a", "b"]) == {"b": new}


def test_removing_all_jobs_removes_what_they_were_tied_to(store: Store) -> None:
    with batch(store):
        store.hooks.take_locks([Lock(KEY, 1, Scope.SUCCEEDED, NOW + 5)])
        store.hooks.insert_batch(BatchRow(key=5), BatchParts(None, None, None), None)
        store.hooks.write_progress([("a", TrackedProgress(Progress(), None))])
        store.delete_all()
        found = (store.hooks.locks([KEY]), store.hooks.batches([5]), store.hooks.progress(["a"]))
        assert found == ([], [], {})


def test_a_finish_that_counts_removes_pending_members_with_no_other_tie(store: Store) -> None:
    with batch(store):
        member = tied(batch=3)
        other = tied(batch=4)
        insert(store, 1, [new_job(), member, member, other, tied(expires_at=9), member])
        store.hooks.add([6], Hook.FAILED)
        store.take(["mail"], 10, 1_000, hold())
        members: dict[int, int] = {}
        assert sorted(store.finish([1, 2, 3, 4, 5, 6], members)) == [1, 2, 3, 4]
        assert members == {3: 2, 4: 1}
        assert store.finish([5, 6]) == []
