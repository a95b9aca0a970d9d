"""Every engine of the store: how many records a job keeps, and what deleting very many of them costs others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from anew.jobs import State
from anew.store.protocol import Store
from anew.store.sqlite import open_sqlite
from anew.tasks.opening import open_engine

from .helpers import ALL, NOW, batch, change, check_counts, new_job, one, put, take

Keeper = Callable[[int, int], Store]


@pytest.fixture
def keeping() -> Iterator[Keeper]:
    """Open stores that keep so many first and last records."""
    with ExitStack() as opened:

        def open_one(first: int, last: int) -> Store:
            store = open_sqlite(keep_first=first, keep_last=last)
            opened.callback(store.close)
            return store

        yield open_one


def fail(store: Store, key: int, times: int, **record: object) -> None:
    """Fail a job so often, each time as attempt number so and so many."""
    done = len(store.records.errors(key, ALL)) + sum(n for _, _, n in store.records.dropped_errors(key))
    for number in range(done + 1, done + times + 1):
        take(store)
        with batch(store):
            failed = change(
                key, State.RETRYING, attempts=number, ready_at=NOW, record={"message": "m"} | record
            )
            assert store.apply([failed]) == [key]
            store.promote(NOW, 10)


def kept(store: Store, key: int) -> list[int]:
    return [record.attempt for record in store.records.errors(key, ALL)]


@pytest.mark.parametrize(
    ("first", "last", "times", "numbers"),
    [
        (2, 3, 5, [1, 2, 3, 4, 5]),
        (2, 3, 6, [1, 2, 4, 5, 6]),
        (2, 3, 9, [1, 2, 7, 8, 9]),
        (0, 3, 9, [7, 8, 9]),
        (2, 0, 9, [1, 2, 9]),
        (0, 1, 9, [9]),
        (0, 0, 9, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_the_first_and_the_last_records_are_kept(
    keeping: Keeper, first: int, last: int, times: int, numbers: list[int]
) -> None:
    store = keeping(first, last)
    put(store, new_job())
    fail(store, 1, times)
    assert kept(store, 1) == numbers
    dropped = store.records.dropped_errors(1)
    assert sum(n for _, _, n in dropped) == times - len(numbers)
    assert {(outcome, kind) for outcome, kind, _ in dropped} <= {("error", "Oops")}


def test_what_is_dropped_is_counted_by_outcome_and_type(keeping: Keeper) -> None:
    store = keeping(1, 1)
    put(store, new_job())
    for times, record in (
        (3, {"error_type": "A"}),
        (5, {"error_type": "B"}),
        (2, {"error_type": None}),
        (1, {}),
    ):
        fail(store, 1, times, **record)
    fail(store, 1, 2, outcome="interrupted", error_type="Interrupted")
    assert store.records.dropped_errors(1) == [
        ("error", "B", 5),
        ("error", "", 2),
        ("error", "A", 2),
        ("error", "Oops", 1),
        ("interrupted", "Interrupted", 1),
    ]
    assert store.records.dropped_errors(2) == []


def test_what_is_dropped_is_counted_by_the_first_200_characters_of_its_type(keeping: Keeper) -> None:
    store = keeping(1, 1)
    put(store, new_job())
    for kind in ("first", "é" * 200, "é" * 200 + "a", "é" * 201, "é" * 199, "last"):
        fail(store, 1, 1, error_type=kind)
    assert store.records.dropped_errors(1) == [("error", "é" * 200, 3), ("error", "é" * 199, 1)]


def test_fewer_are_kept_from_the_next_failure_on(keeping: Keeper) -> None:
    """A store with other settings has left many; each failure drops some of them, so that none takes long."""
    store = keeping(0, 0)
    put(store, new_job())
    fail(store, 1, 378)
    store.records._first = store.records._last = 2  # type: ignore[attr-defined]
    lengths = []
    for _ in range(4):
        fail(store, 1, 1)
        lengths.append(len(kept(store, 1)))
    assert lengths == [251, 124, 4, 4]
    assert kept(store, 1) == [1, 2, 381, 382]
    assert store.records.dropped_errors(1) == [("error", "Oops", 378)]


def test_a_deleted_jobs_records_are_gone_at_once_or_swept_some_at_a_time(store: Store) -> None:
    put(store, new_job(), new_job(payload=b"x" * 3_000))
    for key in (1, 2):
        fail_in_bulk(store, key, 1_500 if key == 1 else 3)
    with batch(store):
        assert sorted(store.delete([1, 2])) == [1, 2]
    assert store.load([1, 2]) == []
    check_counts(store)
    rounds = 0
    while sweep(store, 100):
        rounds += 1
        assert rounds < 50
    assert rounds >= 15
    assert store.records.errors(1, ALL) == store.records.errors(2, ALL) == []
    assert leftovers(store) == {"attempt": 0, "payload": 0, "attempt_count": 0, "leftover": 0}


def test_long_payloads_of_deleted_jobs_are_swept_part_by_part(store: Store) -> None:
    put(store, *(new_job(payload=b'"' + b"x" * (3 << 20) + b'"') for _ in range(3)))
    with batch(store):
        store.delete([1, 2, 3])
    rounds = 0
    while sweep(store, 4):
        rounds += 1
        assert rounds < 50
    assert rounds > 3
    assert leftovers(store) == {"attempt": 0, "payload": 0, "attempt_count": 0, "leftover": 0}


def test_a_new_job_is_not_swept(store: Store) -> None:
    put(store, *(new_job(payload=b'"' + b"x" * (3 << 20) + b'"') for _ in range(3)))
    with batch(store):
        store.delete([1, 2, 3])
    put(store, new_job(payload=b"x" * 3_000), first_key=4)
    while sweep(store, 1_000):
        pass
    assert one(store, 4).payload == b"x" * 3_000


def sweep(store: Store, limit: int) -> bool:
    with batch(store):
        return store.records.sweep(limit)


def fail_in_bulk(store: Store, key: int, times: int) -> None:
    """Give a job many records without so many transactions."""
    link = store._link  # type: ignore[attr-defined]

    def execute(text: str, bound: tuple[object, ...]) -> None:
        link.execute(link.statements.say(text), bound)

    with batch(store):
        execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO attempt "
            "(job_id, attempt, outcome, message, dequeued_at, failed_at) SELECT ?, i, 'error', '', 0, 0 FROM n",
            (times, key),
        )
        execute("INSERT INTO attempt_count VALUES (?, 'error', 'E', 3)", (key,))
        execute("UPDATE job SET records = ? WHERE id = ?", (times, key))


def leftovers(store: Store) -> dict[str, int]:
    execute = store._link.execute  # type: ignore[attr-defined]
    tables = ("attempt", "payload", "attempt_count", "leftover")
    return {table: execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


def test_a_programs_store_keeps_the_first_10_and_the_last_90() -> None:
    engine = open_engine(None)
    store = engine.engine.store
    (key,) = put(store, new_job())
    fail(store, key, 102)
    assert kept(store, key) == [*range(1, 11), *range(13, 103)]
    engine.close()
