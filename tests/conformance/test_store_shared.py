"""Every engine of the store that lasts: two that have it open at once, each with a memory of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anew.clock import SystemClock
from anew.errors import StoreBusy
from anew.jobs import HoldKind, State
from anew.store.postgres import open_postgres
from anew.store.protocol import LeaseClock, Recount, Store
from anew.store.selection import Filter
from anew.store.sqlite import open_sqlite
from tests.postgres import database_of

from .helpers import ALL, HOUR_MS, NOW, batch, check_counts, new_job, one, put, stage, take, taken_keys, told

SHARED: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda place: open_sqlite(place, exclusive=False),
    "postgres": lambda place: open_postgres(database_of(place)),
}
"""What opens one more store on the same place."""


@pytest.fixture(params=list(SHARED))
def another(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Opens one more store on one place."""
    return lambda: SHARED[request.param](tmp_path / "data")


@pytest.fixture
def pair(another: Callable[[], Store]) -> Iterator[tuple[Store, Store]]:
    """Two stores on one place."""
    opened = [another(), another()]
    yield opened[0], opened[1]
    for store in opened:
        store.close()


def dead(store: Store) -> list[int]:
    """The sessions whose processes are gone; one that has just gone may still count as there for some seconds."""
    until = time.monotonic() + 10.0
    while True:
        with batch(store):
            found = [session.id for session in store.processes.sessions() if not session.alive]
        if found or time.monotonic() > until:
            return found


def begun(store: Store) -> bool:
    """Whether a store finds that another one has written since it last looked."""
    changed = store.begin(synced=False)
    store.rollback()
    return changed


def test_each_sees_what_the_other_has_written(pair: tuple[Store, Store]) -> None:
    one_, other = pair
    put(one_, new_job("a"), new_job("b", priority=1), new_job("a", ready_at=NOW + 5))
    assert taken_keys(take(other, limit=1)) == [2]
    assert taken_keys(take(one_)) == [1]
    with batch(other):
        assert sorted(other.finish([1, 2])) == [1, 2]
    with batch(one_):
        assert one_.promote(NOW + 5, 10) == 1
    for store in pair:
        with batch(store):
            assert told(store) == {("a", State.READY): 1}
            check_counts(store)
            assert (store.queues.takeable("a"), store.queues.takeable("b"), store.next_due()) == (1, 0, None)


def test_a_change_by_the_other_is_noticed_once_and_ones_own_not_at_all(pair: tuple[Store, Store]) -> None:
    one_, other = pair
    begun(one_)
    begun(other)
    assert (one_.turns.has_changed(), other.turns.has_changed()) == (False, False)
    put(one_, new_job())
    assert (one_.turns.has_changed(), other.turns.has_changed()) == (False, True)
    assert (begun(one_), begun(other)) == (False, True)
    assert (other.turns.has_changed(), begun(other)) == (False, False)


def test_a_look_leaves_nothing_open_that_keeps_later_ones_from_the_truth(pair: tuple[Store, Store]) -> None:
    one_, other = pair
    looks: list[Callable[[], object]] = [one_.turns.has_changed, one_.next_due]
    for first, look in enumerate(looks):
        put(one_, new_job("a", ready_at=NOW + 5), first_key=10 * first + 1)
        look()
        put(other, new_job("b", ready_at=NOW + 5), first_key=10 * first + 2)
        assert told(one_) == told(other)


def test_numbers_go_on_where_the_other_has_ended(pair: tuple[Store, Store]) -> None:
    one_, other = pair
    with batch(one_):
        one_.identity.last_key, one_.identity.last_failure = 700, 7
        one_.remember()
    begun(other)
    assert (other.identity.last_key, other.identity.last_failure) == (700, 7)
    assert other.identity.tag == one_.identity.tag


def test_only_one_writes_at_a_time_and_the_other_is_told_when_it_may(pair: tuple[Store, Store]) -> None:
    one_, other = pair
    one_.begin(synced=False)
    one_.insert([1], [new_job()], NOW)
    with pytest.raises(StoreBusy):
        other.begin(synced=False)
    free = threading.Event()
    other.turns.when_free(free.set)
    one_.commit()
    assert free.wait(10)
    with batch(other):
        assert other.find(Filter(), ALL) == [1]


def test_who_waits_in_a_thread_goes_on_when_the_other_has_committed(pair: tuple[Store, Store]) -> None:
    one_, other = pair
    one_.begin(synced=False)
    assert not other.turns.wait_until_free(0.0)
    came: list[bool] = []
    waiter = threading.Thread(target=lambda: came.append(other.turns.wait_until_free(20.0)))
    waiter.start()
    one_.insert([1], [new_job()], NOW)
    one_.commit()
    waiter.join(20)
    assert came == [True]
    with batch(other):
        assert other.find(Filter(), ALL) == [1]


def test_a_turn_that_is_not_wanted_any_more_is_given_on(pair: tuple[Store, Store]) -> None:
    one_, other = pair
    one_.begin(synced=False)
    with pytest.raises(StoreBusy):
        other.begin(synced=False)
    free = threading.Event()
    other.turns.when_free(free.set)
    one_.rollback()
    assert free.wait(10)
    other.turns.let_go()
    put(one_, new_job())
    assert one(one_, 1).state is State.READY


def test_sessions_are_told_apart_and_the_closed_one_is_gone(another: Callable[[], Store]) -> None:
    first, second = another(), another()
    with batch(first):
        assert [(session.id, session.alive) for session in first.processes.sessions()] == [
            (first.session, True),
            (second.session, True),
        ]
    second.close()
    with batch(first):
        assert [session.id for session in first.processes.sessions()] == [first.session]
    first.close()


def test_who_closes_with_jobs_in_flight_is_found_dead_with_them(
    pair: tuple[Store, Store], another: Callable[[], Store]
) -> None:
    one_, _ = pair
    third = another()
    put(one_, new_job(), new_job())
    take(third, limit=1, owner=third.session, kind=HoldKind.SESSION, deadline=None)
    session = third.session
    third.close()
    assert dead(one_) == [session]
    with batch(one_):
        assert one_.processes.held_by(session, 10) == [1]
        one_.release([1], NOW, interrupted=True)
        one_.processes.drop(session)
    with batch(one_):
        assert all(found.alive for found in one_.processes.sessions())


def test_what_a_dead_session_has_begun_to_write_is_removed_and_nothing_else(
    pair: tuple[Store, Store], another: Callable[[], Store]
) -> None:
    one_, other = pair
    third = another()
    long = new_job(payload=b'"' + b"x" * 600_000 + b'"')
    for key, store in ((7, other), (8, third)):
        with batch(store):
            stage(store, key, [long], (0, 0), 1)
    session = third.session
    third.close()
    with batch(one_):
        one_.processes.drop(session)
        assert one_.staging is not None
        one_.staging.unstage_abandoned()
    with batch(other):
        assert stage(other, 7, [long], (0, 256 << 10), 1 << 30) is None
        other.insert([7], [long], NOW, staged=True)
    assert one(one_, 7).payload == bytes(long.payload)
    put(one_, long, first_key=8)
    assert one(other, 8).payload == bytes(long.payload)


def test_a_duty_is_done_by_whoever_comes_first(pair: tuple[Store, Store]) -> None:
    one_, other = pair
    for store, now, is_due in (
        (one_, NOW, True),
        (other, NOW, False),
        (other, NOW + 999, False),
        (other, NOW + 1_000, True),
        (one_, NOW + 1_500, False),
        (one_, NOW - 1, True),  # the clock was set back: better twice than not for as long as that
    ):
        with batch(store):
            assert store.is_due("reap", now, 1_000) is is_due


def test_counters_that_are_wrong_are_put_right_by_what_a_recount_finds(pair: tuple[Store, Store]) -> None:
    one_, other = pair
    put(one_, new_job("a"), new_job("a"), new_job("b"))
    reader = other.reader()
    with batch(one_):
        one_.correct(Recount(0, {("a", State.READY): 5, ("c", State.DEAD): 1, ("b", State.READY): -1}, []))
    found = reader.recount()
    reader.close()
    assert found.counters == {("a", State.READY): -5, ("c", State.DEAD): -1, ("b", State.READY): 1}
    put(one_, new_job("b"), first_key=9)
    with batch(other):
        assert other.correct(found)
        check_counts(other)
    assert taken_keys(take(one_)) == [1, 2, 3, 9]
    check_counts(one_)


def test_what_two_recounts_have_found_is_put_right_once(pair: tuple[Store, Store]) -> None:
    one_, other = pair
    put(one_, *[new_job("a")] * 5)
    with batch(one_):
        one_.correct(Recount(0, {("a", State.READY): -2}, []))
    found = []
    for store in pair:
        reader = store.reader()
        found.append(reader.recount())
        reader.close()
    with batch(one_):
        assert one_.correct(found[0])
    with batch(other):
        assert not other.correct(found[1])
        check_counts(other)
    reader = other.reader()
    again = reader.recount()
    reader.close()
    assert again == (2, {}, [], {}, [])


def test_what_is_kept_of_lease_time_is_everybodys(pair: tuple[Store, Store]) -> None:
    one, other = pair
    with batch(one):
        assert one.lease_clock() is None
        one.note_lease_clock(LeaseClock(-HOUR_MS, NOW))
    with batch(other):
        assert other.lease_clock() == LeaseClock(-HOUR_MS, NOW)


def test_the_stores_clock_is_near_this_machines(another: Callable[[], Store]) -> None:
    """In these tests the database is on it."""
    store = another()
    with batch(store):
        apart = store.clock.now() - SystemClock().now()
    store.close()
    assert abs(apart) < 1_000
