"""Every engine of the store: jobs that come with their past, queues that are listed before they have any, and notes."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from anew.jobs import HoldKind, State
from anew.jobs.limits import Throttle
from anew.jobs.moved import LatestFailure, MovedJob, Reservation
from anew.store.protocol import Hold, Store

from .conftest import Opened
from .helpers import (
    ALL,
    BIG,
    HOUR_MS,
    NOW,
    batch,
    change,
    check_counts,
    counted,
    new_job,
    one,
    put,
    state_of,
    take,
    taken_keys,
)

FAILURE = LatestFailure(
    message="no answer",
    error_type="Timeout",
    backtrace="a\nb",
    first_failed_at=NOW - 5_000,
    failed_at=NOW - 1_000,
    decision=b'{"verdict":"retry"}',
)


def moved_job(state: State, queue: str = "mail", **members: Any) -> MovedJob:
    payload = Raw(members.pop("payload", b"[1]"))
    return MovedJob(type="send", queue=queue, payload=payload, state=state, **{"jid": "abcdefgh"} | members)


def move(store: Store, *jobs: MovedJob, first_key: int = 1) -> None:
    hold = Hold(HoldKind.RESERVATION, 77, store.session, NOW, NOW)
    with batch(store):
        store.insert_moved(range(first_key, first_key + len(jobs)), jobs, hold)


def test_each_stands_where_it_stood(store: Store) -> None:
    move(
        store,
        moved_job(State.READY, ready_at=NOW - 10),
        moved_job(State.SCHEDULED, ready_at=NOW + 10),
        moved_job(State.RETRYING, ready_at=NOW + 10, attempts=3, failure=FAILURE),
        moved_job(State.DEAD, attempts=3, failure=FAILURE, purge_at=NOW + HOUR_MS),
        moved_job(State.IN_FLIGHT, reserved=Reservation(NOW - 100, NOW + 50, "w")),
    )
    assert [one(store, key).state for key in range(1, 6)] == [
        State.READY, State.SCHEDULED, State.RETRYING, State.DEAD, State.IN_FLIGHT,
    ]  # fmt: skip
    check_counts(store)
    assert sum(counted(store).values()) == 5
    assert one(store, 1).ready_at == NOW - 10
    retry = one(store, 3)
    assert (retry.attempts, retry.first_failed_at, retry.failed_at) == (3, NOW - 5_000, NOW - 1_000)
    assert one(store, 4).purge_at == NOW + HOUR_MS
    held = one(store, 5)
    assert (held.hold_kind, held.hold_token, held.dequeued_at) == (HoldKind.RESERVATION, 77, NOW - 100)


def test_the_latest_failure_is_a_record_and_others_follow_it(store: Store) -> None:
    move(store, moved_job(State.RETRYING, ready_at=NOW, attempts=3, failure=FAILURE))
    (record,) = store.records.errors(1, ALL)
    assert (record.attempt, record.outcome, record.message) == (3, "error", "no answer")
    assert (record.error_type, record.backtrace, record.failed_at) == ("Timeout", "a\nb", NOW - 1_000)
    with batch(store):
        assert store.promote(NOW, 10) == 1
    take(store)
    with batch(store):
        assert store.apply([change(1, State.DEAD, attempts=4)]) == [1]
    assert [record.attempt for record in store.records.errors(1, ALL)] == [3, 4]
    with batch(store):
        assert store.delete([1]) == [1]
    assert store.records.errors(1, ALL) == []


def test_waiting_ones_become_ready_at_their_times(store: Store) -> None:
    move(
        store,
        moved_job(State.SCHEDULED, ready_at=NOW + 20),
        moved_job(State.RETRYING, ready_at=NOW + 10, attempts=1, failure=FAILURE),
    )
    assert store.next_due() == NOW + 10
    with batch(store):
        assert store.promote(NOW + 10, 10) == 1
    assert (state_of(store, 1), state_of(store, 2)) == (State.SCHEDULED, State.READY)


def test_a_reservation_lapses_when_it_would_have(store: Store) -> None:
    move(store, moved_job(State.IN_FLIGHT, reserved=Reservation(NOW - 100, NOW + 50, "w")))
    with batch(store):
        assert store.lapsed(NOW + 49, 10) == []
        assert store.lapsed(NOW + 51, 10) == [1]
        assert [named.key for named in store.named(["abcdefgh"])] == [1]


def test_a_running_job_of_a_limited_queue_has_its_workers_slot(store: Store) -> None:
    with batch(store):
        store.slots.set_limits({"mail": Throttle(concurrency=2, timeout_ms=HOUR_MS, per_worker=1)})
    move(
        store,
        moved_job(State.IN_FLIGHT, reserved=Reservation(NOW - 100, NOW + 50, "w")),
        moved_job(State.READY),
        moved_job(State.READY),
    )
    with batch(store):
        store.slots.pass_time(NOW)
        assert [
            store.queues.takeable("mail"),
            store.queues.takeable("mail", "w"),
            store.queues.takeable("mail", "v"),
        ] == [1, 0, 1]


def test_they_stand_in_line_behind_what_is_there_in_their_order(store: Store) -> None:
    put(store, new_job())
    move(store, moved_job(State.READY), moved_job(State.READY, payload=b"[%s]" % (b"1" * BIG)), first_key=2)
    assert one(store, 3).payload == b"[%s]" % (b"1" * BIG)
    assert taken_keys(take(store)) == [1, 2, 3]


def test_a_listed_queue_can_be_paused_before_it_has_jobs(store: Store) -> None:
    with batch(store):
        store.queues.keep_listed(["mail", "idle"])
        store.queues.pause(["mail"], True)
    assert store.reader().listed() == {"idle": False, "mail": True}
    move(store, moved_job(State.READY))
    assert take(store) == []
    with batch(store):
        store.queues.pause(["mail"], False)
    assert taken_keys(take(store)) == [1]


def test_jobs_and_note_last_together_or_not_at_all(store: Store) -> None:
    store.begin(synced=True)
    store.insert_moved([1], [moved_job(State.READY)], Hold(HoldKind.RESERVATION, 77, 1, NOW, NOW))
    store.imports.write("q:mail", "one")
    store.rollback()
    with batch(store):
        assert store.imports.all() == {}
    assert counted(store) == {}


def test_notes_last_until_they_or_all_jobs_are_removed(lasting: Opened) -> None:
    store = lasting.open()
    with batch(store):
        store.imports.write("q:mail", "one")
        store.imports.write("dead", "two")
        store.imports.write("q:mail", "three")
    store = lasting.reopen(store)
    with batch(store):
        assert store.imports.all() == {"q:mail": "three", "dead": "two"}
        assert (store.imports.read("q:mail"), store.imports.read("retries")) == ("three", None)
        store.imports.drop_all()
        assert store.imports.all() == {}
        store.imports.write("dead", "four")
        store.delete_all()
        assert store.imports.all() == {}
