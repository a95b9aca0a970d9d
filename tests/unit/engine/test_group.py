"""Group commit in a loop: what is gathered, when it is applied, and what wakes it. The loop is moved by hand."""

from __future__ import annotations

from typing import Any

import pytest

from anew.engine.group import GATHER
from anew.errors import Overloaded, StoreFailed, StoreFull
from anew.store.sqlite import SqliteStore

from .grouped import Group
from .rig import NOW, FaultyStore, Once, call, enqueue, new_job, plain, succeed


@pytest.fixture
def group() -> Group:
    return Group()


# -- gathering


def test_what_one_turn_of_the_loop_has_gathered_makes_one_batch(group: Group) -> None:
    answers = [group.submit(plain(1)) for _ in range(5)]
    assert all(answer.calls == [] for answer in answers)
    group.batch()
    assert group.batches == [5]
    assert [answer.result[1] for answer in answers] == [NOW] * 5
    assert group.loop.soon == []


def test_a_lone_operation_waits_for_one_look_whether_more_comes(group: Group) -> None:
    answer = group.submit(plain(1))
    assert group.loop.settle() == 2
    assert answer.result


def test_a_batch_waits_as_long_as_each_turn_brings_more(group: Group) -> None:
    for _ in range(4):
        group.submit(plain(1))
        assert group.batches == []
        group.loop.turn()
    group.loop.turn()
    assert group.batches == [4]
    assert group.loop.soon == []


def test_a_crowd_waits_for_nobody(group: Group) -> None:
    for _ in range(GATHER):
        group.submit(plain(1))
    group.loop.turn()
    assert group.batches == [GATHER]


def test_what_an_answer_submits_goes_into_the_next_batch(group: Group) -> None:
    second = Once()
    op = plain(1)
    op.done = lambda result: group.commit.submit(_with(call(lambda engine, now: 7), second))
    group.commit.submit(op)
    group.batch()
    assert second.calls == []
    group.batch()
    assert second.result == 7
    assert group.batches == [1, 1]


def _with(op: Any, done: Once) -> Any:
    op.done = done
    return op


def test_too_many_new_jobs_waiting_are_refused_but_nothing_else() -> None:
    group = Group(max_waiting=3)
    for _ in range(3):
        group.submit(plain(1))
    with pytest.raises(Overloaded, match="try again"):
        group.submit(plain(1))
    settled = group.submit(succeed(1))
    group.batch()
    assert group.batches == [4]
    assert settled.result == [1]
    group.submit(plain(1))
    group.batch()
    assert group.rig.store.ready(None) == 4


def test_new_jobs_that_have_waited_too_long_are_refused_but_nothing_else(group: Group) -> None:
    group.submit(plain(1))
    group.batch()
    group.commit.set_late(True)
    with pytest.raises(Overloaded, match="try again"):
        group.submit(plain(1))
    settled = group.submit(succeed(1))
    group.commit.set_late(False)
    group.submit(plain(1))
    group.batch()
    assert group.batches == [1, 2]
    assert settled.calls


# -- takers


def test_a_new_taker_gets_what_is_there_in_the_next_turn(group: Group) -> None:
    group.submit(plain(2))
    group.loop.settle()
    worker = group.worker(prefetch=1)
    group.loop.settle()
    assert len(worker.keys) == 1
    group.rig.check()


def test_a_waiting_taker_gets_a_job_in_the_batch_that_stores_it(group: Group) -> None:
    worker = group.worker()
    group.loop.settle()
    group.submit(plain(1))
    group.batch()
    assert len(worker.keys) == 1


def test_idle_takers_cost_no_turns(group: Group) -> None:
    for _ in range(300):
        group.worker(["mail"], 1)
    group.loop.settle()
    before = len(group.batches)
    for _ in range(100):
        assert group.loop.settle() == 0
    assert len(group.batches) == before


def test_a_paused_taker_is_served_in_the_turn_after_it_goes_on(group: Group) -> None:
    worker = group.worker()
    group.commit.pause_taker(worker.taker)
    group.submit(plain(1))
    group.loop.settle()
    assert worker.keys == []
    group.commit.resume_taker(worker.taker)
    group.loop.settle()
    assert len(worker.keys) == 1


def test_a_taker_that_leaves_gives_back_in_the_next_turn(group: Group) -> None:
    first, second = group.worker(prefetch=2), group.worker(prefetch=5)
    group.loop.settle()
    group.submit(plain(2))
    group.loop.settle()
    group.commit.remove_taker(first.taker)
    group.loop.settle()
    assert len(first.keys) == 1
    assert second.keys[-1:] == first.keys
    assert {job.interruptions for job in group.rig.store.load(first.keys)} == {1}
    group.rig.check()


def test_a_taker_that_held_nothing_leaves_without_a_batch(group: Group) -> None:
    worker = group.worker()
    group.loop.settle()
    before = len(group.batches)
    group.commit.remove_taker(worker.taker)
    assert group.loop.settle() == 0
    assert len(group.batches) == before


# -- when something is wrong


@pytest.mark.parametrize("error", [StoreFull("no space"), RuntimeError("odd")], ids=["full", "odd"])
def test_takes_that_do_not_go_through_are_tried_by_the_tick_and_do_not_spin(error: Exception) -> None:
    store = FaultyStore(SqliteStore())
    group = Group(store)
    group.submit(plain(1))
    group.submit(enqueue(new_job(ready_at=NOW + 50)))
    group.loop.settle()
    store.verbs["commit"] = [error] * 1_000
    worker = group.worker()
    assert group.loop.settle() <= 2
    before = len(group.batches)
    group.loop.advance(10_000)
    assert 10 <= len(group.batches) - before <= 21
    assert worker.keys == []
    store.verbs.clear()
    group.loop.advance(1_000)
    assert len(worker.keys) == 2
    group.rig.check()


def test_a_failed_store_is_reported_once_and_everything_refused() -> None:
    store = FaultyStore(SqliteStore())
    group = Group(store)
    store.verbs["commit"] = [StoreFailed("the disk is gone")]
    first, second = group.submit(plain(1)), group.submit(succeed(1))
    group.loop.settle()
    assert isinstance(first.result, StoreFailed)
    assert isinstance(second.result, StoreFailed)
    later = group.submit(plain(1))
    group.loop.advance(5_000)
    assert isinstance(later.result, StoreFailed)
    assert group.fatal == 1


def test_closing_applies_what_waits_and_stops_the_timers(group: Group) -> None:
    group.submit(enqueue(new_job(ready_at=NOW + 100)))
    group.loop.settle()
    answer = group.submit(plain(1))
    group.commit.close()
    assert answer.result[1] == NOW
    assert group.loop.live() == []
    assert group.loop.settle() <= 1


def test_what_comes_after_closing_is_still_answered(group: Group) -> None:
    group.commit.close()
    answer = group.submit(plain(1))
    group.loop.settle()
    assert answer.result
    assert group.loop.live() == []
