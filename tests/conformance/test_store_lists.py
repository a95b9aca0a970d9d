"""Every engine of the store: jobs in the orders that people look at, and what tells that something has changed."""

from __future__ import annotations

import random

import pytest

from anew.jobs import State
from anew.jobs.key_limits import Place
from anew.store.protocol import FIRST_PLACE, LAST_PLACE, JobList, Lengths, Store

from .helpers import NOW, batch, change, new_job, put, take

WAITING = (State.SCHEDULED, State.RETRYING)


def mixed(store: Store) -> None:
    """Jobs in every state and many queues, one of them paused; some wait for a near time, some for a far one."""
    chance = random.Random(7)
    jobs = [
        new_job(
            f"q{chance.randrange(9)}",
            priority=chance.randrange(3),
            ready_at=chance.choice([None, None, NOW + n]),
        )
        for n in range(600)
    ]
    put(store, *jobs)
    for n in range(4):
        take(store, ["q1", "q2", "q3"], limit=10, now=NOW + 100 - n)
    held = [job.key for job in store.load(range(1, 601)) if job.state is State.IN_FLIGHT]
    with batch(store):
        store.apply(
            [change(key, State.RETRYING, ready_at=NOW + 10 * 2 ** chance.randrange(30)) for key in held[::2]]
        )
        store.queues.pause(["q4"], True)


def in_order(store: Store, of: JobList) -> list[Place]:
    """All places of a list, sorted here."""
    jobs = store.load(range(1, 601))
    match of:
        case JobList.READY:
            return sorted((job.priority, job.key) for job in jobs if job.state is State.READY)
        case JobList.IN_FLIGHT:
            return sorted((job.dequeued_at or 0, job.key) for job in jobs if job.state is State.IN_FLIGHT)
        case JobList.SCHEDULED:
            return sorted((job.ready_at, job.key) for job in jobs if job.state in WAITING)


@pytest.mark.parametrize("of", JobList)
@pytest.mark.parametrize("limit", [0, 1, 7, 1_000])
def test_places_are_read_in_order_from_anywhere_and_both_ways(store: Store, of: JobList, limit: int) -> None:
    mixed(store)
    expected, reader = in_order(store, of), store.reader()
    assert len(expected) > 15
    assert reader.places(of, FIRST_PLACE, limit, forward=True) == expected[:limit]
    assert reader.places(of, LAST_PLACE, limit, forward=False) == expected[::-1][:limit]
    for at in range(0, len(expected), 5):
        place = expected[at]
        assert reader.places(of, place, limit, forward=True) == expected[at + 1 :][:limit]
        assert reader.places(of, place, limit, forward=False) == expected[:at][::-1][:limit]
    reader.close()


@pytest.mark.parametrize("of", JobList)
def test_jobs_before_and_behind_a_place_are_counted_up_to_a_bound(store: Store, of: JobList) -> None:
    mixed(store)
    expected, reader = in_order(store, of), store.reader()
    for at, place in enumerate(expected):
        assert reader.rank(of, place, 1_000, forward=True) == at
        assert reader.rank(of, place, 1_000, forward=False) == len(expected) - at - 1
        assert reader.rank(of, place, 3, forward=True) == min(at, 3)
    reader.close()


def test_lengths_are_those_of_the_lists(store: Store) -> None:
    reader = store.reader()
    assert reader.lengths() == Lengths(0, 0, 0, 0)
    mixed(store)
    ready, in_flight, scheduled = (len(in_order(store, of)) for of in JobList)
    assert reader.lengths() == Lengths(ready=ready, blocked=0, in_flight=in_flight, scheduled=scheduled)
    reader.close()


def test_a_reader_loads_jobs_as_the_store_does(store: Store) -> None:
    mixed(store)
    reader = store.reader()
    assert reader.load([5, 1, 1, 999]) == store.load([1, 5])
    assert reader.load([]) == []
    assert reader.names([5, 1, 1, 999]) == {job.key: (job.queue, job.type) for job in store.load([1, 5])}
    assert reader.names([]) == {}
    reader.close()


def test_a_version_is_another_as_soon_as_something_was_written(store: Store) -> None:
    reader = store.reader()
    first = reader.version()
    assert reader.version() == first
    put(store, new_job())
    second = reader.version()
    assert second != first
    take(store)
    assert reader.version() != second
    reader.close()
