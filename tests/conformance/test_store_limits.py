"""Limits of queues, as every store keeps them: slots stand in the rows, and takes go no further than they leave room."""

from __future__ import annotations

from anew.jobs import HoldKind, State
from anew.jobs.limits import Origin, Throttle, rate
from anew.store.protocol import Store

from .conftest import Opened
from .helpers import NOW, batch, change, hold, insert, new_job, put, take, taken_keys

TWO = {"mail": Throttle(concurrency=2)}
MINUTE = {"mail": Throttle(concurrency=2, timeout_ms=60_000)}
EACH = {"mail": Throttle(per_worker=1)}


def limit(store: Store, limits: dict[str, Throttle]) -> None:
    with batch(store):
        store.slots.set_limits(limits)


def reserve(store: Store, worker: str, now: int = NOW) -> list[int]:
    """Reserve one job of the queue for a worker that may have one."""
    with batch(store):
        store.slots.pass_time(now)
        if store.queues.takeable("mail", worker) == 0:
            return []
        found = store.reserve([("mail", 1)], 1 << 20, hold(kind=HoldKind.RESERVATION, now=now))
        store.slots.occupy([(job.key, job.queue, worker) for job in found.jobs], now)
        return [job.key for job in found.jobs]


def takeable(store: Store, now: int = NOW, worker: str | None = None) -> int:
    with batch(store):
        store.slots.pass_time(now)
        return store.queues.takeable("mail", worker)


def test_a_take_stops_at_the_limit(store: Store) -> None:
    limit(store, TWO)
    put(store, *[new_job() for _ in range(3)], new_job("other"))
    assert taken_keys(take(store, ["mail"])) == [1, 2]
    assert taken_keys(take(store, ["mail"])) == []
    assert taken_keys(take(store)) == [4]
    assert store.slots.limits == TWO


def test_takes_of_all_queues_and_of_each_stop_there_too(store: Store) -> None:
    limit(store, {"mail": Throttle(concurrency=1), "news": Throttle(concurrency=2)})
    put(store, *[new_job(queue) for queue in ("mail", "mail", "news", "news", "news", "bulk")])
    assert taken_keys(take(store, limit=3)) == [1, 3, 4]
    with batch(store):
        rows, *_ = store.take_each([("mail", 2), ("news", 2), ("bulk", 2)], 1 << 20, hold())
    assert taken_keys(rows) == [6]


def test_the_line_goes_on_where_the_limit_stopped_it(store: Store) -> None:
    limit(store, TWO)
    put(store, *[new_job() for _ in range(4)], new_job("other"))
    assert taken_keys(take(store)) == [1, 2, 5]
    with batch(store):
        store.finish([1, 2])
    assert taken_keys(take(store)) == [3, 4]


def test_a_slot_is_free_when_its_job_is_in_flight_no_more(store: Store) -> None:
    limit(store, TWO)
    put(store, *[new_job() for _ in range(4)])
    take(store)
    with batch(store):
        store.apply([change(1, State.DEAD)])
        assert store.queues.fresh_ready() == ["mail"]
    assert takeable(store) == 1


def test_a_slot_is_free_when_its_time_is_over(store: Store) -> None:
    limit(store, MINUTE)
    put(store, *[new_job() for _ in range(5)])
    take(store)
    assert takeable(store, NOW + 59_999) == 0
    assert store.slots.next_end() == NOW + 60_000
    with batch(store):
        store.slots.pass_time(NOW + 60_000)
        assert store.slots.next_end() is None
        assert store.queues.fresh_ready() == ["mail"]
        assert store.queues.takeable("mail") == 2


def test_slots_of_one_worker_are_counted_apart(store: Store) -> None:
    limit(store, EACH)
    put(store, *[new_job() for _ in range(4)])
    assert reserve(store, "w1") == [1]
    assert reserve(store, "w1") == []
    assert reserve(store, "w2") == [2]
    assert (takeable(store), takeable(store, worker="w1"), takeable(store, worker="w3")) == (2, 0, 1)


def test_slots_last(lasting: Opened) -> None:
    store = lasting.open()
    limit(store, EACH)
    put(store, *[new_job() for _ in range(4)])
    reserve(store, "w1")
    store = lasting.reopen(store)
    assert store.slots.limits == EACH
    assert (reserve(store, "w1"), reserve(store, "w2")) == ([], [2])


def test_slots_of_a_worker_that_is_gone_are_free(store: Store) -> None:
    limit(store, {"mail": Throttle(concurrency=1)})
    put(store, *[new_job() for _ in range(3)])
    reserve(store, "w1")
    with batch(store):
        store.slots.free_held_by("w2")
        assert store.queues.takeable("mail") == 0
        store.slots.free_held_by("w1")
        assert store.queues.fresh_ready() == ["mail"]
    assert takeable(store) == 1


def test_what_is_in_flight_takes_slots_when_its_queue_gets_a_limit(store: Store) -> None:
    put(store, *[new_job() for _ in range(4)])
    take(store, limit=2)
    limit(store, {"mail": Throttle(concurrency=3, timeout_ms=60_000)})
    assert takeable(store) == 1


def test_a_limit_that_was_rolled_back_holds_nothing(store: Store) -> None:
    put(store, *[new_job() for _ in range(3)])
    store.begin(synced=False)
    store.slots.set_limits({"mail": Throttle(concurrency=0)})
    store.rollback()
    assert store.slots.limits == {}
    assert len(take(store)) == 3


def test_a_line_that_has_a_limit_is_in_order(store: Store) -> None:
    """Heads behind what a limit has left are the right ones, also with jobs of other priorities that come later."""
    limit(store, TWO)
    put(store, *[new_job(priority=5) for _ in range(4)])
    take(store)
    with batch(store):
        insert(store, 10, [new_job(priority=1)])
        store.finish([1])
    assert taken_keys(take(store)) == [10]
    with batch(store):
        store.finish([2, 10])
    assert taken_keys(take(store)) == [3, 4]


RATE = {"mail": Throttle(rate=rate(2, 1_000))}
"""Two starts at once, then one each half second."""


def started(store: Store, now: int) -> list[int]:
    """Take what may start at an instant."""
    with batch(store):
        store.slots.pass_time(now)
        rows, *_ = store.take(["mail"], 100, 1 << 20, hold(now=now))
    return taken_keys(rows)


def next_start(store: Store, now: int) -> int | None:
    """When somebody who wants all should look again."""
    with batch(store):
        store.slots.pass_time(now)
        store.queues.takeable("mail", "")
        return store.slots.next_end()


def test_starts_keep_to_a_rate(store: Store) -> None:
    limit(store, RATE)
    put(store, *[new_job() for _ in range(6)])
    assert started(store, NOW) == [1, 2]
    assert started(store, NOW + 499) == []
    assert next_start(store, NOW + 499) == NOW + 500
    assert started(store, NOW + 500) == [3]
    assert started(store, NOW + 2_000) == [4, 5]  # no more than two at once, however long it was quiet
    assert started(store, NOW + 2_500) == [6]


def test_the_end_of_a_job_gives_no_start_back(store: Store) -> None:
    limit(store, RATE)
    put(store, *[new_job() for _ in range(3)])
    assert started(store, NOW) == [1, 2]
    with batch(store):
        store.finish([1, 2])
    assert started(store, NOW) == []


def test_a_rate_and_a_bound_hold_together(store: Store) -> None:
    limit(store, {"mail": Throttle(concurrency=1, rate=rate(10, 1_000))})
    put(store, *[new_job() for _ in range(3)])
    assert started(store, NOW) == [1]
    assert started(store, NOW + 1_000) == []
    with batch(store):
        store.finish([1])
    assert started(store, NOW + 1_000) == [2]


def test_an_undone_take_draws_nothing(store: Store) -> None:
    limit(store, RATE)
    put(store, *[new_job() for _ in range(2)])
    store.begin(synced=True)
    store.slots.pass_time(NOW)
    store.take(["mail"], 100, 1 << 20, hold(now=NOW))
    store.rollback()
    assert started(store, NOW) == [1, 2]


def test_another_start_knows_what_was_drawn(lasting: Opened) -> None:
    store = lasting.open()
    limit(store, RATE)
    put(store, *[new_job() for _ in range(4)])
    assert started(store, NOW) == [1, 2]
    store = lasting.reopen(store)
    assert started(store, NOW + 500) == [3]
    assert started(store, NOW + 600) == []
    assert store.slots.limits["mail"].origin is Origin.CONFIG
