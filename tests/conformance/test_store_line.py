"""One suite for every engine of the store: who is first over all queues, whatever has changed since the last look."""

from __future__ import annotations

from random import Random

import pytest

from anew.jobs import State
from anew.store.protocol import Store

from .helpers import NOW, batch, check_counts, hold, insert, new_job, one, put, rewrite, take, taken_keys


def first_in_line(store: Store) -> int | None:
    """The job that would be taken next; it is not taken."""
    store.begin(synced=False)
    rows = store.take(None, 1, 1 << 30, hold()).rows
    store.rollback()
    return rows[0][0] if rows else None


def since(store: Store) -> int | None:
    """Since when the ready job at the head of some line has waited that has waited longest."""
    reader = store.reader()
    try:
        return reader.oldest_ready()
    finally:
        reader.close()


def test_jobs_of_all_queues_come_by_priority_then_by_age(store: Store) -> None:
    for n in range(40):
        put(store, new_job(f"q{n % 7}", priority=n % 3), first_key=n + 1)
    expected = sorted(range(1, 41), key=lambda key: ((key - 1) % 3, key))
    assert [row[0] for row in take(store, limit=15)] == expected[:15]
    assert [row[0] for row in take(store)] == expected[15:]


def test_more_queues_than_jobs_are_wanted(store: Store) -> None:
    for n in range(300):
        put(store, new_job(f"q{n}", priority=300 - n), first_key=n + 1)
    assert [row[0] for row in take(store, limit=5)] == [300, 299, 298, 297, 296]
    put(store, new_job("q7", priority=0), first_key=1_000)
    assert [row[0] for row in take(store, limit=2)] == [1_000, 295]


def test_each_of_several_queues_gives_its_first_jobs(store: Store) -> None:
    for n in range(30):
        put(store, new_job(f"q{n % 3}", priority=n % 2), first_key=n + 1)
    with batch(store):
        rows = store.take_each([("q1", 2), ("q0", 3), ("none", 1)], 1 << 30, hold()).rows
    # By priority, then by age: of q1 2, 8 ... come behind 5, 11 ...; keys are one above n.
    assert [row[0] for row in rows] == [5, 11, 1, 7, 13]
    assert [row[0] for row in take(store, limit=3)] == [3, 9, 15]


def test_what_has_no_space_in_a_take_of_several_queues_stays_first_in_line(store: Store) -> None:
    for n, queue in enumerate("aabb"):
        put(store, new_job(queue, payload=b"x" * 5_000), first_key=n + 1)
    with batch(store):
        taken = store.take_each([("a", 2), ("b", 2)], 10_100, hold())
    assert [row[0] for row in taken.rows] == [1, 2]
    assert [row[0] for row in take(store)] == [3, 4]


def test_a_rolled_back_change_has_changed_no_line(store: Store) -> None:
    put(store, new_job("a", priority=5), new_job("b", priority=6))
    assert first_in_line(store) == 1
    store.begin(synced=False)
    insert(store, 9, [new_job("c", priority=1)], NOW)
    store.delete([1])
    store.rollback()
    assert [row[0] for row in take(store, limit=1)] == [1]
    assert [row[0] for row in take(store)] == [2]


def test_a_removed_queue_is_nobody(store: Store) -> None:
    put(store, new_job("a"), first_key=3)
    put(store, new_job("b"), first_key=4)
    assert first_in_line(store) == 3
    with batch(store):
        store.delete_all()
    assert first_in_line(store) is None
    assert taken_keys(take(store)) == []


@pytest.mark.parametrize("seed", range(6))
def test_any_history_leaves_the_line_in_order(store: Store, seed: int) -> None:
    """Inserts, takes, releases, deletes, patches and undone batches in any order, against a plain list of what is ready."""
    rng = Random(seed)
    ready: dict[int, tuple[int, str]] = {}
    held: dict[int, tuple[int, str]] = {}
    for step in range(120):
        key = step + 1
        move = rng.choice(("put", "put", "take", "release", "delete", "patch", "undone"))
        if move == "put":
            ready[key] = rng.randrange(4), f"q{rng.randrange(6)}"
            put(store, new_job(ready[key][1], priority=ready[key][0]), first_key=key)
        elif move == "take":
            limit = rng.randrange(1, 5)
            expected = sorted(ready, key=lambda key: (ready[key][0], key))[:limit]
            assert [row[0] for row in take(store, limit=limit)] == expected
            for key in expected:
                held[key] = ready.pop(key)
        elif move == "release" and held:
            key = rng.choice(sorted(held))
            with batch(store):
                store.release([key], NOW, interrupted=False)
            ready[key] = held.pop(key)
        elif move == "delete" and ready:
            key = rng.choice(sorted(ready))
            with batch(store):
                store.delete([key])
            del ready[key]
        elif move == "patch" and ready:
            key = rng.choice(sorted(ready))
            ready[key] = rng.randrange(4), f"q{rng.randrange(6)}"
            with batch(store):
                store.rewrite([rewrite(one(store, key), priority=ready[key][0], queue=ready[key][1])])
        elif move == "undone":
            store.begin(synced=False)
            insert(store, key, [new_job("q0", priority=0)], NOW)
            store.take(None, 3, 1 << 30, hold())
            store.rollback()
    expected = sorted(ready, key=lambda key: (ready[key][0], key))
    assert since(store) == (NOW if expected else None)
    assert first_in_line(store) == (expected[0] if expected else None)
    assert [row[0] for row in take(store)] == expected
    assert all(one(store, key).state is State.IN_FLIGHT for key in [*expected, *held])


# -- since when


def test_who_has_been_ready_longest_is_found_at_the_head_of_any_priority_of_any_queue(store: Store) -> None:
    assert since(store) is None
    put(store, new_job("a", priority=1), now=NOW)
    put(store, new_job("a", priority=9), first_key=2, now=NOW - 50)
    put(store, new_job("b", priority=5), first_key=3, now=NOW - 20)
    assert since(store) == NOW - 50
    with batch(store):
        store.delete([2])
    assert since(store) == NOW - 20
    take(store, ["b"])
    assert since(store) == NOW


def test_ready_since_is_when_a_job_became_due_not_when_it_came(store: Store) -> None:
    put(store, new_job(ready_at=NOW + 500))
    assert since(store) is None
    with batch(store):
        store.promote(NOW + 700, 10)
    assert since(store) == NOW + 500
    put(store, new_job(), first_key=2, now=NOW + 600)
    assert since(store) == NOW + 500


def test_a_job_given_back_has_been_ready_since_it_first_was(store: Store) -> None:
    put(store, new_job())
    put(store, new_job("b"), first_key=2, now=NOW + 30)
    take(store, ["mail"])
    assert since(store) == NOW + 30
    with batch(store):
        store.release([1], NOW + 90, interrupted=True)
    assert since(store) == NOW


def test_the_look_for_the_oldest_ends_somewhere(store: Store) -> None:
    """By name of the queue and priority: of these six heads, the first three are looked at."""
    for n, (queue, priority) in enumerate([("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1), ("c", 2)]):
        put(store, new_job(queue, priority=priority), first_key=n + 1, now=NOW - n)
    reader = store.reader()
    try:
        assert reader.oldest_ready(3) == NOW - 2
        assert reader.oldest_ready() == NOW - 5
    finally:
        reader.close()


def test_a_queue_that_is_named_twice_gives_each_job_once(store: Store) -> None:
    put(store, *[new_job("a")] * 3, *[new_job("b")] * 2)
    assert taken_keys(take(store, ["a", "a"], limit=2)) == [1, 2]
    assert taken_keys(take(store, ["b", "a", "b"])) == [3, 4, 5]
    check_counts(store)


def test_a_queue_that_is_named_twice_with_others_gives_as_many_as_it_is_asked_for(store: Store) -> None:
    put(store, *[new_job("a")] * 5, new_job("b"))
    with batch(store):
        rows = store.take_each([("a", 1), ("b", 1), ("a", 2)], 1 << 20, hold()).rows
    assert sorted(taken_keys(rows)) == [1, 2, 3, 6]
    assert taken_keys(take(store)) == [4, 5]
    check_counts(store)


def test_a_job_that_comes_before_the_line_is_found_in_the_transaction_in_which_others_have_left(
    store: Store,
) -> None:
    """Searches begin where the line was last seen to begin."""
    put(store, *[new_job("q", priority=5) for _ in range(12)])
    assert taken_keys(take(store, limit=3)) == [1, 2, 3]
    with batch(store):
        assert [row[0] for row in store.take(["q"], 2, 1 << 30, hold()).rows] == [4, 5]
        insert(store, 100, [new_job("q", priority=9), new_job("q", priority=2), new_job("q", priority=2)])
        assert [row[0] for row in store.take(["q"], 2, 1 << 30, hold()).rows] == [101, 102]
        store.release([2, 101], NOW, interrupted=False)
        assert [row[0] for row in store.take_each([("q", 3)], 1 << 30, hold()).rows] == [101, 2, 6]
    assert [row[0] for row in take(store)] == [7, 8, 9, 10, 11, 12, 100]
    check_counts(store)
