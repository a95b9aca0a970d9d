"""One suite for every engine of the store: new jobs, takes, and the ends of attempts."""

from __future__ import annotations

import msgspec
import pytest

from anew.jobs import Backoff, HoldKind, Retention, State
from anew.store.protocol import Store
from anew.store.selection import Filter, Page

from .helpers import (
    ALL,
    BIG,
    HOUR_MS,
    NOW,
    batch,
    change,
    check_counts,
    fail_again,
    insert,
    insert_plain,
    new_job,
    one,
    put,
    state_of,
    take,
    taken_keys,
    told,
)

# -- new jobs


def test_a_plain_job_is_stored_with_the_defaults(store: Store) -> None:
    with batch(store):
        insert_plain(store, 7, [new_job(payload=b'{"a": 1}')], NOW)
    job = one(store, 7)
    assert (job.key, job.queue, job.type, job.priority) == (7, "mail", "send", 32_768)
    assert (job.state, job.ready_at, job.payload) == (State.READY, NOW, b'{"a": 1}')
    assert (job.attempts, job.interruptions, job.retry_limit, job.policy, job.retention) == (
        0,
        0,
        None,
        None,
        None,
    )
    assert (job.dequeued_at, job.failed_at, job.first_failed_at, job.completed_at) == (None, None, None, None)
    assert (job.purge_at, job.phase, job.carry) == (None, None, None)
    check_counts(store)


def test_keys_are_consecutive_in_the_order_given(store: Store) -> None:
    jobs = [new_job(payload=b"%d" % n) for n in range(250)]
    with batch(store):
        insert_plain(store, 1_000, jobs, NOW)
    assert [job.payload for job in store.load(range(1_000, 1_250), payload=True)] == [
        b"%d" % n for n in range(250)
    ]
    check_counts(store)


def test_a_mixed_batch_keeps_each_jobs_own_fields(store: Store) -> None:
    own_policy = b'{"curve":{"constant":"10s"}}'
    keys = put(
        store,
        new_job(),
        new_job("slow", priority=0, ready_at=NOW + 1),
        new_job(retry_limit=0),
        new_job(backoff=Backoff(2.0, 100, 0)),
        new_job(retention=Retention(completed_ms=0, dead_ms=2**64 - 1)),
        new_job(policy=msgspec.Raw(own_policy)),
        new_job(payload=b'"' + b"x" * BIG + b'"'),
        new_job(ready_at=NOW),
        new_job(ready_at=0, priority=65_535),
    )
    plain, later, limited, zizq, kept, special, big, due, old = store.load(keys, payload=True)
    assert (plain.state, plain.ready_at) == (State.READY, NOW)
    assert (later.queue, later.state, later.ready_at, later.priority) == ("slow", State.SCHEDULED, NOW + 1, 0)
    assert limited.retry_limit == 0
    assert zizq.policy == b'{"exponent":2.0,"base_ms":100,"jitter_ms":0}'
    assert kept.retention is not None
    assert msgspec.json.decode(kept.retention) == {"completed_ms": 0, "dead_ms": 2**64 - 1}
    assert special.policy == own_policy
    assert big.payload == b'"' + b"x" * BIG + b'"'
    assert (due.state, due.ready_at) == (State.READY, NOW)
    assert (old.state, old.ready_at, old.priority) == (State.READY, 0, 65_535)
    check_counts(store)


def test_a_time_past_all_time_is_stored_as_the_last_instant(store: Store) -> None:
    put(store, new_job(ready_at=2**64 - 1), new_job(ready_at=2**64 - 1, retry_limit=1))
    assert [job.ready_at for job in store.load([1, 2])] == [2**63 - 1] * 2
    assert store.next_due() == 2**63 - 1


@pytest.mark.parametrize(
    "payload",
    [
        b"null",
        b'"\\u0000"',
        b"123456789012345678901234567890",
        '{"käse":"\U0001f9c0"}'.encode(),
        b"x" * 2_048,
        b"x" * BIG,
    ],
    ids=["null", "nul", "30 digits", "unicode", "longest inline", "shortest apart"],
)
@pytest.mark.parametrize("plain", [True, False])
def test_a_payload_comes_back_byte_for_byte(store: Store, payload: bytes, plain: bool) -> None:
    with batch(store):
        (insert_plain if plain else insert)(store, 1, [new_job(payload=payload)])
    assert one(store, 1).payload == payload
    assert store.payload_sizes([1, 2]) == {1: len(payload)}
    (row,) = take(store)
    assert row[-1] == payload


def test_names_may_be_any_unicode_and_are_never_normalised(store: Store) -> None:
    names = ["é", "e\u0301", "a b", "x" * 200, "'; DROP TABLE job; --", "%", "\U0001f600"]
    put(store, *(new_job(name) for name in names))
    assert set(store.queues.counts()) == set(names)
    for at, name in enumerate(names, 1):
        assert taken_keys(take(store, [name])) == [at]
    check_counts(store)


def test_no_jobs_at_all_is_fine(store: Store) -> None:
    with batch(store):
        insert(store, 1, [], NOW)
        insert_plain(store, 1, [], NOW)
    assert told(store) == {}


# -- take


def test_lower_priority_numbers_come_first_then_older_keys(store: Store) -> None:
    put(store, *(new_job(priority=p) for p in (5, 1, 5, 0, 1)))
    assert taken_keys(take(store, limit=3)) == [4, 2, 5]
    assert taken_keys(take(store, limit=3)) == [1, 3]
    assert take(store) == []


@pytest.mark.parametrize("queues", [["a"], ["a", "b"], ["b", "a"], None, ["a", "b", "never"]])
def test_order_is_the_same_over_one_queue_several_and_all(store: Store, queues: list[str] | None) -> None:
    wanted = {"a", "b"} if queues is None else set(queues)
    jobs = [new_job("ab"[n % 2], priority=(n * 7) % 5) for n in range(300)]
    put(store, *jobs)
    expected = sorted((job.priority, key) for key, job in enumerate(jobs, 1) if job.queue in wanted)
    rows = take(store, queues, limit=260)
    assert [(row[3], row[0]) for row in rows] == expected[:260]
    check_counts(store)
    assert len(take(store, queues)) == max(0, len(expected) - 260)
    check_counts(store)


def test_a_take_touches_its_queues_only(store: Store) -> None:
    put(store, new_job("a"), new_job("b"), new_job("c"))
    assert taken_keys(take(store, ["b", "c"], limit=10)) == [2, 3]
    assert taken_keys(take(store, ["never"])) == []
    assert state_of(store, 1) is State.READY
    check_counts(store)


def test_a_take_hands_out_all_that_a_worker_is_told(store: Store) -> None:
    put(store, new_job("a", b"[1]", priority=3, ready_at=NOW - 9, retry_limit=4, backoff=Backoff(1.0, 2, 3)))
    (row,) = take(store)
    assert row == (
        1, "a", "send", 3, NOW - 9, 0, None, 4, b'{"exponent":1.0,"base_ms":2,"jitter_ms":3}', None, None, None, b"[1]",
    )  # fmt: skip


def test_a_payload_kept_apart_tells_its_size(store: Store) -> None:
    put(store, new_job(payload=b"x" * 10_000))
    (row,) = take(store)
    assert row[10] == 10_000


def test_what_was_taken_is_in_flight_with_its_instant(store: Store) -> None:
    put(store, new_job())
    take(store, now=NOW + 5)
    job = one(store, 1)
    assert (job.state, job.dequeued_at, job.attempts) == (State.IN_FLIGHT, NOW + 5, 0)
    assert told(store) == {("mail", State.IN_FLIGHT): 1}


def test_what_waits_has_ended_or_is_held_is_not_taken(store: Store) -> None:
    put(store, new_job(ready_at=NOW + 1), *(new_job() for _ in range(4)))
    take(store, limit=3)
    with batch(store):
        store.apply([change(2, State.RETRYING), change(3, State.DEAD)])
    assert taken_keys(take(store)) == [5]


def test_large_payloads_end_a_turn_early_but_never_before_one_job(store: Store) -> None:
    put(store, *(new_job(payload=b"x" * 10_000) for _ in range(5)))
    assert taken_keys(take(store, max_bytes=1)) == [1]
    assert taken_keys(take(store, ["mail"], max_bytes=25_000)) == [2, 3]
    assert taken_keys(take(store, ["mail", "other"], max_bytes=25_000)) == [4, 5]
    check_counts(store)


# -- the ends of attempts


def test_finish_removes_what_is_in_flight_and_tells_which(store: Store) -> None:
    put(store, *(new_job("ab"[n % 2]) for n in range(260)))
    take(store, limit=250)
    with batch(store):
        done = store.finish([*range(1, 261), 999, -1])
    assert sorted(done) == list(range(1, 251))
    assert store.find(Filter(), ALL) == list(range(251, 261))
    check_counts(store)
    with batch(store):
        assert store.finish([1]) == []


def test_finish_leaves_jobs_alone_that_are_more_than_their_row(store: Store) -> None:
    """Whoever asks may not know what another process has made of a job meanwhile."""
    put(
        store,
        new_job(),
        new_job(retention=Retention(completed_ms=5)),
        new_job(payload=b"x" * 10_000),
        new_job(retry_limit=1),
        new_job(),
    )
    take(store, limit=4)
    with batch(store):
        assert sorted(store.finish([1, 2, 3, 4, 5])) == [1, 4]
    assert [job.key for job in store.load(range(1, 6))] == [2, 3, 5]
    check_counts(store)


def test_finish_leaves_a_job_alone_of_which_there_are_records(store: Store) -> None:
    """They would stay behind it: a success removes the records of earlier failures too."""
    put(store, new_job())
    fail_again(store, 1, 1)
    take(store)
    with batch(store):
        assert store.finish([1]) == []
    assert state_of(store, 1) is State.IN_FLIGHT


def test_complete_keeps_the_job_until_the_instant_beside_it(store: Store) -> None:
    put(store, new_job(), new_job("b"), new_job())
    take(store, limit=2)
    with batch(store):
        written = store.complete([(1, NOW + 50), (2, 2**63 - 1), (3, NOW), (99, NOW)], NOW + 20)
    assert sorted(written) == [1, 2]
    assert [(j.state, j.completed_at, j.purge_at) for j in store.load([1, 2])] == [
        (State.COMPLETED, NOW + 20, NOW + 50),
        (State.COMPLETED, NOW + 20, 2**63 - 1),
    ]
    assert state_of(store, 3) is State.READY
    check_counts(store)


def test_apply_writes_the_change_and_the_attempts_record(store: Store) -> None:
    put(store, new_job(), new_job(), new_job())
    take(store)
    record = {
        "message": "m\u0001",
        "backtrace": "b" * 70_000,
        "error_type": None,
        "decision": b'{"verdict":"retry"}',
    }
    with batch(store):
        store.apply(
            [
                change(1, State.RETRYING, ready_at=NOW + 4_100, phase=0.25, carry=3.5, record=record),
                change(2, State.DEAD, purge_at=NOW + 9),
                change(3, State.DEAD, remove=True, purge_at=None),
            ]
        )
    retried, dead = store.load([1, 2, 3])
    assert (retried.state, retried.ready_at, retried.attempts) == (State.RETRYING, NOW + 4_100, 1)
    assert (retried.failed_at, retried.first_failed_at, retried.phase, retried.carry) == (
        NOW + 10,
        NOW + 10,
        0.25,
        3.5,
    )
    assert (dead.state, dead.ready_at, dead.purge_at) == (State.DEAD, NOW, NOW + 9)
    (error,) = store.records.errors(1, Page())
    assert (error.attempt, error.outcome, error.message, error.error_type) == (1, "error", "m\u0001", None)
    assert (error.dequeued_at, error.failed_at, error.decision) == (NOW, NOW + 10, b'{"verdict":"retry"}')
    assert error.backtrace == "b" * 70_000
    assert store.records.errors(3, Page()) == []
    check_counts(store)


def test_the_first_failure_is_remembered_and_every_attempt_kept(store: Store) -> None:
    put(store, new_job())
    fail_again(store, 1, 5)
    job = one(store, 1)
    assert (job.attempts, job.first_failed_at, job.failed_at) == (5, NOW + 1, NOW + 5)
    assert [error.attempt for error in store.records.errors(1, Page())] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("page", "attempts"),
    [
        (Page(limit=2), [1, 2]),
        (Page(after=2, limit=2), [3, 4]),
        (Page(after=5), []),
        (Page(order="desc", limit=2), [5, 4]),
        (Page(order="desc", after=4), [3, 2, 1]),
    ],
)
def test_error_records_come_in_pages_either_way(store: Store, page: Page, attempts: list[int]) -> None:
    put(store, new_job())
    fail_again(store, 1, 5)
    assert [error.attempt for error in store.records.errors(1, page)] == attempts


def test_error_records_end_where_their_texts_grow_too_much(store: Store) -> None:
    put(store, new_job())
    for number in (1, 2, 3):
        take(store)
        with batch(store):
            record = {"message": "m" * 100, "error_type": None}
            store.apply([change(1, State.RETRYING, attempts=number, record=record)])
            store.promote(NOW + HOUR_MS, 10)
    assert len(store.records.errors(1, Page(), max_bytes=100)) == 2
    assert len(store.records.errors(1, Page(), max_bytes=99)) == 1
    assert len(store.records.errors(1, Page(), max_bytes=300)) == 3


def test_the_latest_error_of_each_of_several_jobs(store: Store) -> None:
    put(store, new_job(), new_job(), new_job())
    fail_again(store, 1, 3)
    take(store)
    with batch(store):
        record = {"message": "m" * 5_000, "backtrace": "b", "error_type": "IOError"}
        store.apply([change(2, State.DEAD, purge_at=NOW + 9, record=record)])
    found = store.records.last_errors([1, 2, 3, 9])
    assert found.keys() == {1, 2}
    assert (found[1].attempt, found[1].message) == (3, store.records.errors(1, Page())[-1].message)
    assert (found[2].attempt, found[2].error_type, found[2].message) == (1, "IOError", "m" * 1_000)
    assert (found[2].backtrace, found[2].decision) == (None, None)


def test_a_record_says_who_ran_the_attempt_as_far_as_that_is_known(store: Store) -> None:
    put(store, new_job(), new_job(), new_job())
    take(store, limit=3)
    with batch(store):
        ends = [change(key, State.DEAD, purge_at=NOW + 9) for key in (1, 2, 3)]
        store.apply(ends, {1: "box:17", 2: "a\udc80\0" + "é" * 400})
    assert [record.worker for key in (1, 2, 3) for record in store.records.errors(key, Page())] == [
        "box:17",
        "a??" + "é" * 253,
        None,
    ]


def test_the_latest_decision_of_each_of_several_jobs_can_be_written_anew(store: Store) -> None:
    put(store, new_job(), new_job(), new_job())
    fail_again(store, 1, 3)
    fail_again(store, 2, 1)
    with batch(store):
        found = store.records.last_decisions([1, 2, 3, 9])
        assert {key: attempt for key, (_, attempt, _) in found.items()} == {1: 3, 2: 1}
        store.records.redecide([(found[1][0], b'{"reason":"other"}')])
        assert store.records.last_decisions([1, 2]) == {
            1: (found[1][0], 3, b'{"reason":"other"}'),
            2: found[2],
        }
    old = found[1][2]
    assert [record.decision for record in store.records.errors(1, Page())] == [
        old,
        old,
        b'{"reason":"other"}',
    ]


def test_release_puts_a_job_back_in_its_old_place(store: Store) -> None:
    put(store, new_job(ready_at=NOW - 7), new_job(), new_job())
    take(store, limit=2)
    with batch(store):
        assert store.release([1, 3, 99], NOW, interrupted=True) == [1]
    job = one(store, 1)
    assert (job.state, job.ready_at, job.attempts, job.interruptions) == (State.READY, NOW - 7, 0, 1)
    assert one(store, 3).interruptions == 0
    assert taken_keys(take(store)) == [1, 3]
    check_counts(store)


def test_interruptions_count_in_a_row_and_only_those_of_the_workers(store: Store) -> None:
    put(store, new_job())
    for interrupted in (True, False, True):
        take(store)
        with batch(store):
            store.release([1], NOW, interrupted=interrupted)
    assert one(store, 1).interruptions == 2
    take(store)
    with batch(store):
        store.apply([change(1, State.RETRYING)])
    assert one(store, 1).interruptions == 0


def test_a_success_ends_the_row_of_interruptions(store: Store) -> None:
    put(store, new_job())
    take(store)
    with batch(store):
        store.release([1], NOW, interrupted=True)
    take(store)
    with batch(store):
        store.complete([(1, NOW + HOUR_MS)], NOW)
    assert (one(store, 1).state, one(store, 1).interruptions) == (State.COMPLETED, 0)


def test_held_by_lists_what_a_session_holds_but_no_reservations(store: Store) -> None:
    put(store, *(new_job("ab"[n % 2]) for n in range(250)))
    take(store, limit=100, owner=1)
    take(store, limit=100, owner=2, deadline=None, kind=HoldKind.SESSION)
    take(store, limit=1, owner=2, kind=HoldKind.RESERVATION)
    assert sorted(store.processes.held_by(1, 1_000)) == list(range(1, 101))
    assert len(store.processes.held_by(2, 70)) == 70
    assert sorted(store.processes.held_by(2, 1_000)) == list(range(101, 201))
    assert store.processes.held_by(3, 10) == []
    with batch(store):
        store.release(range(1, 201), NOW, interrupted=False)
    assert store.processes.held_by(1, 10) == store.processes.held_by(2, 10) == []
    assert {job.state for job in store.load(range(1, 201))} == {State.READY}
    check_counts(store)


def test_a_token_names_one_attempt(store: Store) -> None:
    put(store, new_job(), new_job(), new_job())
    take(store, limit=2, token=7)
    assert store.held_under([(1, 7), (2, 8), (3, 7), (99, 7)]) == {(1, 7)}
    with batch(store):
        store.release([1], NOW, interrupted=False)
    assert store.held_under([(1, 7)]) == set()
    take(store, limit=1, token=9)
    assert store.held_under([(1, 7), (1, 9), (2, 7)]) == {(1, 9), (2, 7)}


def test_jobs_in_flight_are_told_with_the_kind_of_their_hold(store: Store) -> None:
    put(store, *[new_job()] * 4)
    take(store, limit=1, kind=HoldKind.SESSION)
    take(store, limit=2, kind=HoldKind.RESERVATION)
    assert store.hold_kinds([3, 99, 4, 1, 2]) == [(1, 30), (2, 20), (3, 20)]
    with batch(store):
        store.release([1, 2], NOW, interrupted=False)
    assert store.hold_kinds([1, 2, 3]) == [(3, 20)]
