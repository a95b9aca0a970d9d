"""One suite for every engine of the store: long payloads, written ahead of their jobs in portions."""

from __future__ import annotations

import pytest

from anew.jobs import NewJob
from anew.store.protocol import Staging, Store

from .conftest import Opened
from .helpers import NOW, batch, insert, new_job, one, put, stage, take

KIB = 1 << 10


def staging_of(store: Store) -> Staging:
    """What writes ahead; an engine without it has no such cases."""
    assert store.staging is not None
    return store.staging


def text(size: int, letter: str = "x") -> bytes:
    """A JSON string of this many bytes."""
    return b'"' + letter.encode() * (size - 2) + b'"'


def stage_all(store: Store, first: int, jobs: list[NewJob], portion: int) -> int:
    """Stage in transactions of their own; tells how many that took."""
    at, steps = (0, 0), 0
    while at is not None:
        with batch(store):
            at = stage(store, first, jobs, at, portion)  # type: ignore[assignment]
        steps += 1
    return steps


@pytest.mark.parametrize("size", [2_049, 256 * KIB - 1, 256 * KIB, 256 * KIB + 1, 1_000 * KIB])
def test_a_long_payload_is_read_back_as_it_was(store: Store, size: int) -> None:
    payload = text(size)
    put(store, new_job(payload=payload), first_key=7)
    assert one(store, 7).payload == payload
    assert [row[-1] for row in take(store)] == [payload]


@pytest.mark.parametrize("portion", [1, 300 * KIB, 10_000 * KIB])
def test_staged_jobs_are_stored_as_any_others(store: Store, portion: int) -> None:
    jobs = [
        new_job(payload=text(700 * KIB, "a")),
        new_job(payload=b"1"),
        new_job("other", payload=text(3_000, "b")),
    ]
    stage_all(store, 7, jobs, portion)
    with batch(store):
        insert(store, 7, jobs, NOW, staged=True)
    assert [one(store, key).payload for key in (7, 8, 9)] == [bytes(job.payload) for job in jobs]
    with batch(store):
        staging_of(store).unstage(7, 9)
    assert [one(store, key).payload for key in (7, 8, 9)] == [bytes(job.payload) for job in jobs]


def test_a_portion_is_as_long_as_it_may_be_and_no_longer(store: Store) -> None:
    """Parts of 256 KiB: of 1,000 KiB there are four, and each portion of a byte takes one."""
    assert stage_all(store, 7, [new_job(payload=text(1_000 * KIB))], 1) == 4
    assert stage_all(store, 8, [new_job(payload=text(1_000 * KIB))], 512 * KIB) == 2
    assert stage_all(store, 9, [new_job(payload=b"1")], 1) == 1


def test_what_was_staged_and_never_came_is_removed(store: Store) -> None:
    left = new_job(payload=text(600 * KIB))
    with batch(store):
        assert stage(store, 7, [left], (0, 0), 1) is not None
    put(store, new_job(payload=text(5_000)), first_key=8)
    with batch(store):
        staging_of(store).unstage(0, 8)
    jobs = [new_job(payload=text(600 * KIB, "y"))]
    stage_all(store, 7, jobs, 1 << 20)  # nothing of the first is in the way
    with batch(store):
        insert(store, 7, jobs, NOW, staged=True)
    assert one(store, 7).payload == text(600 * KIB, "y")
    assert one(store, 8).payload == text(5_000)


def test_only_the_named_keys_are_removed(store: Store) -> None:
    jobs = [new_job(payload=text(4_000, "a")), new_job(payload=text(4_000, "b"))]
    stage_all(store, 7, jobs, 1 << 20)
    with batch(store):
        staging_of(store).unstage(8, 8)
        insert(store, 7, jobs[:1], NOW, staged=True)
    assert one(store, 7).payload == text(4_000, "a")


def test_a_portion_that_did_not_last_is_written_again(store: Store) -> None:
    jobs = [new_job(payload=text(600 * KIB))]
    store.begin(synced=False)
    stage(store, 7, jobs, (0, 0), 1)
    store.rollback()
    stage_all(store, 7, jobs, 1)
    with batch(store):
        insert(store, 7, jobs, NOW, staged=True)
    assert one(store, 7).payload == bytes(jobs[0].payload)


@pytest.mark.parametrize("portions", [1, 2, 3])
def test_removing_all_jobs_leaves_what_is_written_ahead(store: Store, portions: int) -> None:
    """The jobs to come are no jobs yet: they appear later, whole."""
    coming = [new_job(payload=text(700 * KIB))]
    put(store, new_job(payload=text(5_000, "a")), first_key=6)
    at = (0, 0)
    for _ in range(portions):
        with batch(store):
            at = stage(store, 7, coming, at, 1)  # type: ignore[assignment]
    with batch(store):
        assert store.delete_all() == 1
    while at is not None:
        with batch(store):
            at = stage(store, 7, coming, at, 1)  # type: ignore[assignment]
    with batch(store):
        insert(store, 7, coming, NOW, staged=True)
    assert one(store, 7).payload == bytes(coming[0].payload)
    put(store, new_job(payload=text(5_000, "b")), first_key=6)  # nothing of the first is in the way
    assert one(store, 6).payload == text(5_000, "b")


def test_removing_a_job_that_has_not_come_leaves_what_is_written_ahead(store: Store) -> None:
    """Its id can be guessed before it is answered for."""
    coming = [new_job(payload=text(700 * KIB))]
    stage_all(store, 7, coming, 1)
    with batch(store):
        assert store.delete([7]) == []
        insert(store, 7, coming, NOW, staged=True)
    assert one(store, 7).payload == bytes(coming[0].payload)


def test_a_job_that_was_written_ahead_stands_before_those_that_came_meanwhile(store: Store) -> None:
    """Its key is older than theirs; each is taken once, in the order of the keys."""
    coming = [new_job(payload=text(3_000))]
    stage_all(store, 7, coming, 1)
    put(store, new_job(), new_job(), first_key=8)
    with batch(store):
        insert(store, 7, coming, NOW, staged=True)
    assert [row[0] for row in take(store, limit=2)] == [7, 8]
    put(store, new_job(), first_key=10)
    assert [row[0] for row in take(store)] == [9, 10]


def test_the_head_that_was_written_ahead_is_the_one_that_lasts(lasting: Opened) -> None:
    """Another process goes by the row."""
    store = lasting.open()
    coming = [new_job(payload=text(3_000))]
    stage_all(store, 7, coming, 1)
    put(store, new_job(), new_job("other", priority=1), first_key=8)
    with batch(store):
        insert(store, 7, coming, NOW, staged=True)
    store = lasting.reopen(store)
    assert [row[0] for row in take(store, limit=3)] == [9, 7, 8]
