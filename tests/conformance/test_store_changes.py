"""Every engine of the store: time, changes from outside, and transactions that do not last."""

from __future__ import annotations

from anew.errors import StoreFailed, StoreFull
from anew.jobs import State
from anew.store.protocol import Store
from anew.store.selection import Filter, Page

from .helpers import (
    ALL,
    BIG,
    NOW,
    batch,
    change,
    check_counts,
    counted,
    fail_again,
    hold,
    insert,
    new_job,
    one,
    put,
    ready_total,
    rewrite,
    state_of,
    take,
    told,
)

# -- time


def test_promote_takes_what_is_due_earliest_first(store: Store) -> None:
    put(store, *(new_job(ready_at=NOW + after) for after in (30, 10, 20, 40)), new_job())
    assert store.next_due() == NOW + 10
    with batch(store):
        assert store.promote(NOW + 9, 10) == 0
        assert store.promote(NOW + 30, 2) == 2
    assert {key for key in range(1, 6) if state_of(store, key) is State.READY} == {2, 3, 5}
    assert store.next_due() == NOW + 30
    with batch(store):
        assert store.promote(NOW + 30, 10) == 1
        assert store.promote(NOW + 40, 10) == 1
    assert store.next_due() is None
    assert one(store, 1).ready_at == NOW + 30
    check_counts(store)


def test_promote_counts_by_queue_and_by_the_state_it_leaves(store: Store) -> None:
    put(store, new_job("a"), new_job("b", ready_at=NOW + 5))
    take(store)
    with batch(store):
        store.apply([change(1, State.RETRYING, ready_at=NOW + 3)])
    assert store.next_due() == NOW + 3
    with batch(store):
        assert store.promote(NOW + 5, 10) == 2
    assert told(store) == counted(store) == {("a", State.READY): 1, ("b", State.READY): 1}


def test_a_job_that_waits_for_long_is_promoted_at_its_time_and_not_before(store: Store) -> None:
    put(store, new_job("a"), new_job("b"), new_job("c"))
    take(store, limit=3)
    due = NOW + 45_000
    with batch(store):
        store.apply([change(key, State.RETRYING, failed_at=NOW, ready_at=due + key) for key in (1, 2, 3)])
    looks = 0
    while (
        at := store.next_due()
    ) is not None and at <= due:  # earlier than its time there is at most something to prepare
        looks += 1
        with batch(store):
            assert store.promote(at, 10) == 0
    assert looks < 5
    assert at == due + 1
    with batch(store):
        assert store.promote(due + 2, 10) == 2
    assert told(store) == counted(store)
    assert [state_of(store, key) for key in (1, 2, 3)] == [State.READY, State.READY, State.RETRYING]
    assert store.next_due() == due + 3


def test_a_job_that_waits_for_long_and_is_given_an_earlier_time_is_promoted_then(store: Store) -> None:
    put(store, new_job("a"))
    take(store)
    with batch(store):
        store.apply([change(1, State.RETRYING, failed_at=NOW, ready_at=NOW + 3_600_000)])
    with batch(store):
        store.rewrite([rewrite(one(store, 1), ready_at=NOW + 5)])
        assert store.next_due() == NOW + 5
        assert store.promote(NOW + 4, 10) == 0
        assert store.promote(NOW + 5, 10) == 1


def test_jobs_that_waited_for_long_while_nobody_looked_are_promoted_at_the_first_look(store: Store) -> None:
    put(store, *(new_job("a") for _ in range(3)))
    take(store, limit=3)
    with batch(store):
        store.apply(
            [change(key, State.RETRYING, failed_at=NOW, ready_at=NOW + 20_000 * key) for key in (1, 2, 3)]
        )
    with batch(store):
        assert store.promote(NOW + 86_400_000, 10) == 3
    assert store.next_due() is None


def test_a_lease_lapses_at_its_deadline(store: Store) -> None:
    put(store, *(new_job() for _ in range(4)))
    for deadline in (30, 10, 20):
        take(store, limit=1, deadline=NOW + deadline)
    assert store.lapsed(NOW + 9, 10) == []
    assert store.lapsed(NOW + 20, 10) == [2, 3]
    assert store.lapsed(NOW + 30, 2) == [2, 3]
    with batch(store):
        store.release([2], NOW, interrupted=True)
    assert store.lapsed(NOW + 30, 10) == [3, 1]


def test_reliability_27_reap_removes_ended_jobs_whose_retention_is_over_and_no_other(store: Store) -> None:
    put(store, *(new_job(payload=b"x" * BIG) for _ in range(7)), new_job(ready_at=NOW + 1))
    take(store, limit=5)
    with batch(store):
        store.complete([(1, NOW + 10), (2, NOW + 20)], NOW)
        store.apply([change(3, State.DEAD, purge_at=NOW + 10), change(4, State.RETRYING, ready_at=NOW)])
    with batch(store):
        assert store.reap(NOW + 9, 10) == 0
        assert store.reap(NOW + 10, 1) == 1
        assert store.reap(NOW + 10, 10) == 1
        assert store.reap(2**63 - 1, 10) == 1
        assert store.reap(2**63 - 1, 10) == 0
    assert store.find(Filter(), ALL) == [4, 5, 6, 7, 8]
    assert [job.state for job in store.load([4, 5, 7, 8])] == [
        State.RETRYING,
        State.IN_FLIGHT,
        State.READY,
        State.SCHEDULED,
    ]
    assert store.records.errors(3, Page()) == []
    assert len(store.records.errors(4, Page())) == 1
    check_counts(store)


# -- changes from outside


def test_rewrite_sets_what_a_patch_may_set(store: Store) -> None:
    put(store, new_job("a"))
    policy, retention = b'{"preset":"even"}', b'{"dead_ms":1}'
    with batch(store):
        store.rewrite(
            [
                rewrite(
                    one(store, 1),
                    queue="b", priority=1, state=State.SCHEDULED, ready_at=NOW + 9, attempts=3, retry_limit=2,
                    policy=policy, retention=retention, purge_at=None, first_failed_at=NOW - 1, carry=0.5,
                )
            ]
        )  # fmt: skip
    job = one(store, 1)
    assert (job.queue, job.priority, job.state, job.ready_at, job.attempts) == (
        "b",
        1,
        State.SCHEDULED,
        NOW + 9,
        3,
    )
    assert (job.retry_limit, job.policy, job.retention, job.first_failed_at) == (
        2,
        policy,
        retention,
        NOW - 1,
    )
    assert (job.carry, job.payload) == (0.5, b"{}")
    assert told(store) == {("b", State.SCHEDULED): 1}
    check_counts(store)


def test_a_rewritten_job_in_flight_keeps_its_lease(store: Store) -> None:
    put(store, new_job("a"), new_job("a"))
    take(store, deadline=NOW + 10)
    with batch(store):
        store.rewrite(
            [
                rewrite(one(store, 1), priority=9, queue="b"),
                rewrite(one(store, 2), state=State.CANCELLED, purge_at=NOW + 5),
            ]
        )
    assert store.lapsed(NOW + 10, 10) == [1]
    assert [(job.state, job.queue, job.dequeued_at) for job in store.load([1, 2])] == [
        (State.IN_FLIGHT, "b", NOW),
        (State.CANCELLED, "a", NOW),
    ]
    check_counts(store)
    with batch(store):
        assert store.finish([1, 2]) == [1]
    check_counts(store)


def test_rewrite_leaves_a_row_alone_that_is_not_where_it_was_read(store: Store) -> None:
    put(store, new_job("a"), new_job("a"), new_job("a"))
    moved, taken, same = (rewrite(one(store, key), priority=9, queue="c") for key in (1, 2, 3))
    with batch(store):
        store.rewrite([rewrite(one(store, 1), queue="b")])
    take(store, ["a"], limit=1)
    with batch(store):
        assert store.rewrite([moved, taken, same]) == [3]
    assert [(job.queue, job.state, job.priority) for job in store.load([1, 2, 3])] == [
        ("b", State.READY, 32_768),
        ("a", State.IN_FLIGHT, 32_768),
        ("c", State.READY, 9),
    ]
    check_counts(store)


def test_a_change_of_a_job_that_is_in_flight_no_longer_leaves_no_trace(store: Store) -> None:
    put(store, new_job(), new_job())
    take(store)
    with batch(store):
        store.release([1], NOW, interrupted=False)
        assert store.apply([change(1, State.RETRYING), change(2, State.RETRYING)]) == [2]
    assert [job.state for job in store.load([1, 2])] == [State.READY, State.RETRYING]
    assert [len(store.records.errors(key, Page())) for key in (1, 2)] == [0, 1]
    check_counts(store)


def test_rewrite_is_wide(store: Store) -> None:
    put(store, *(new_job() for _ in range(250)))
    with batch(store):
        store.rewrite([rewrite(job, queue="b", priority=job.key) for job in store.load(range(1, 251))])
    assert [job.priority for job in store.load(range(1, 251))] == list(range(1, 251))
    check_counts(store)


def test_delete_removes_jobs_in_every_state_with_all_that_is_theirs(store: Store) -> None:
    put(store, *(new_job(payload=b"x" * BIG) for _ in range(6)), new_job(ready_at=NOW + 1))
    take(store, limit=4)
    with batch(store):
        store.apply([change(1, State.RETRYING), change(2, State.DEAD)])
        store.complete([(3, NOW + 1)], NOW)
    with batch(store):
        assert sorted(store.delete([1, 2, 3, 4, 5, 7, 99])) == [1, 2, 3, 4, 5, 7]
        assert store.delete([1]) == []
    assert store.find(Filter(), ALL) == [6]
    assert store.records.errors(1, Page()) == store.records.errors(2, Page()) == []
    check_counts(store)
    put(store, new_job(payload=b"small"), first_key=1)
    assert (one(store, 1).payload, one(store, 6).payload) == (b"small", b"x" * BIG)


def test_delete_all_leaves_nothing(store: Store) -> None:
    put(store, *(new_job("ab"[n % 2], b"x" * BIG) for n in range(5)))
    fail_again(store, 1, 1)
    with batch(store):
        assert store.delete_all() == 5
        assert store.queues.fresh_ready() == []
    assert (store.queues.counts(), ready_total(store), store.next_due()) == ({}, 0, None)
    assert store.find(Filter(), ALL) == store.records.errors(1, Page()) == []
    with batch(store):
        assert store.delete_all() == 0
    put(store, new_job("c"), first_key=9)
    check_counts(store)


# -- transactions


def test_what_is_rolled_back_has_never_been(store: Store) -> None:
    put(store, *(new_job("a", ready_at=NOW + 5 * (n == 2)) for n in range(4)))
    take(store, limit=1)
    before = [one(store, key) for key in range(1, 5)]
    store.begin(synced=True)
    insert(store, 5, [new_job("b")], NOW)
    store.take(None, 2, 1 << 20, hold())
    store.promote(NOW + 5, 10)
    store.apply([change(1, State.RETRYING)])
    store.rewrite([rewrite(one(store, 3), queue="c")])
    store.delete([4])
    store.rollback()
    assert [one(store, key) for key in range(1, 5)] == before
    assert store.find(Filter(), ALL) == [1, 2, 3, 4]
    assert store.records.errors(1, Page()) == []
    check_counts(store)
    store.begin(synced=True)
    store.delete_all()
    store.rollback()
    assert [one(store, key) for key in range(1, 5)] == before
    check_counts(store)


def test_a_rollback_outside_a_transaction_is_harmless(store: Store) -> None:
    put(store, new_job())
    before = one(store, 1)
    store.rollback()
    assert one(store, 1) == before
    assert told(store) == counted(store) == {("mail", State.READY): 1}
    put(store, new_job(), first_key=2)
    assert store.find(Filter(), ALL) == [1, 2]


def test_numbers_that_were_rolled_back_were_never_given(store: Store) -> None:
    """Else a process would go on from numbers that no other one knows of."""
    with batch(store):
        store.identity.last_key, store.identity.last_failure = 100, 10
        store.remember()
    store.begin(synced=True)
    store.identity.last_key, store.identity.last_failure = 200, 20
    store.remember()
    store.rollback()
    assert (store.identity.last_key, store.identity.last_failure) == (100, 10)


def test_foreign_errors_are_not_explained(store: Store) -> None:
    assert store.explain(ValueError("no")) is None
    assert store.explain(StoreFull("ours already")) is None
    assert store.explain(StoreFailed("ours already")) is None


def test_a_job_whose_state_cannot_be_read_is_set_aside(store: Store) -> None:
    put(store, new_job(), new_job())
    with batch(store):
        store._link.execute("UPDATE job SET state = 33 WHERE id = 1")  # type: ignore[attr-defined]
    with batch(store):
        assert store.set_aside(10, NOW + 9, NOW) == [], "nobody has met it"
        assert [job.state for job in store.load([1, 2])] == [State.DEAD, State.READY]
        assert store.corrupt_among([1, 2]) == {1}
        assert store.set_aside(10, NOW + 9, NOW) == [1]
    assert (one(store, 1).state, one(store, 1).purge_at) == (State.DEAD, NOW + 9)
    (record,) = store.records.errors(1, Page())
    assert (record.outcome, record.message) == ("corrupt", "its state 33 is none")
    assert store.corrupt_among([1, 2]) == {1}
    with batch(store):
        assert store.set_aside(10, NOW + 9, NOW) == []
        assert store.reap(NOW + 9, 10) == 1
    assert store.load([1]) == []
