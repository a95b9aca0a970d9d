"""Group commit in a loop: what is gathered, when it is applied, and what wakes it. The loop is moved by hand."""

from __future__ import annotations

from typing import Any

import pytest

from anew.engine import group as module
from anew.engine.group import GATHER, LOOKS
from anew.errors import Overloaded, StoreFailed, StoreFull
from anew.store.sqlite import open_sqlite
from tests.conformance.helpers import ready_total

from .grouped import Group
from .rig import NOW, FaultyStore, Once, call, enqueue, new_job, plain, succeed

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.fixture
def group() -> Group:
    return Group()


# -- gathering


def test_what_one_turn_of_the_loop_has_gathered_makes_one_batch(group: Group) -> None:
    answers = [group.submit(plain(1)) for _ in range(5)]
    assert all(answer.calls == [] for answer in answers)
    group.batch()
    assert group.batches == [5]
    assert [answer.result.now for answer in answers] == [NOW] * 5
    assert group.loop.soon == []


def test_a_lone_operation_waits_for_one_look_whether_more_comes(group: Group) -> None:
    answer = group.submit(plain(1))
    assert group.loop.settle() == 2
    assert answer.result


@pytest.mark.parametrize("clients", [1, 3])
def test_nobody_is_waited_for_when_every_client_has_asked(clients: int) -> None:
    group = Group(peers=lambda: clients)
    for _ in range(clients):
        assert group.batches == []
        group.submit(plain(1))
    group.loop.turn()
    assert group.batches == [clients]
    assert group.loop.soon == []


def test_a_batch_waits_as_long_as_each_turn_brings_more(group: Group) -> None:
    for _ in range(4):
        group.submit(plain(1))
        assert group.batches == []
        group.loop.turn()
    for _ in range(LOOKS - 1):
        group.loop.turn()
        assert group.batches == []
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
    op.done = lambda result: group.commit.submit(_with(call(lambda batch: 7), second))
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
    assert isinstance(group.submit(plain(1)).result, Overloaded)
    settled = group.submit(succeed(1))
    group.batch()
    assert group.batches == [4]
    assert settled.result == [1]
    group.submit(plain(1))
    group.batch()
    assert ready_total(group.rig.store) == 4


# -- crowds of bulks


def test_new_jobs_above_a_batchs_bound_wait_for_the_next_and_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bulks of 4, 5, 1, 2 and 7 jobs, ten a batch: 4 + 5 + 1, then 2 + 7."""
    monkeypatch.setattr(module, "BATCH_JOBS", 10)
    group = Group()
    answers = [group.submit(plain(n)) for n in (4, 5, 1, 2, 7)]
    settled = group.submit(succeed(1))
    group.batch()
    assert [bool(answer.calls) for answer in answers] == [True, True, True, False, False]
    assert settled.result == [1]  # nobody else waits for the crowd
    assert ready_total(group.rig.store) == 10
    group.batch()
    keys = [answer.result.keys[0] for answer in answers]
    assert keys == sorted(keys)
    assert group.batches == [4, 2]
    assert ready_total(group.rig.store) == 19
    assert group.loop.settle() == 0


def test_a_bulk_above_the_bound_makes_a_batch_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_JOBS", 10)
    group = Group()
    for n in (3, 11, 3):
        group.submit(plain(n))
    group.loop.settle()
    assert group.batches == [1, 1, 1]
    assert ready_total(group.rig.store) == 17


def test_more_jobs_than_may_wait_are_refused_but_one_request_always_gets_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BATCH_JOBS", 10)
    monkeypatch.setattr(module, "WAITING_JOBS", 20)
    group = Group()
    first = group.submit(plain(21))
    assert isinstance(group.submit(plain(1)).result, Overloaded)
    group.batch()
    assert first.result
    accepted = [group.submit(plain(10)) for _ in range(2)]
    assert isinstance(group.submit(plain(1)).result, Overloaded)
    group.batch()
    accepted.append(group.submit(plain(10)))  # ten still wait, ten more may
    group.loop.settle()
    assert all(answer.result for answer in accepted)
    assert ready_total(group.rig.store) == 51


def test_closing_applies_a_whole_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_JOBS", 10)
    group = Group()
    answers = [group.submit(plain(8)) for _ in range(5)]
    group.commit.close()
    assert all(answer.result for answer in answers)


@pytest.mark.parametrize(
    "error", [StoreFull("no space"), StoreFailed("the disk is gone")], ids=["full", "failed"]
)
def test_a_crowd_is_answered_whatever_happens_to_its_first_batch(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_JOBS", 10)
    store = FaultyStore(open_sqlite())
    group = Group(store)
    store.verbs["commit"] = [error] * 3
    answers = [group.submit(plain(8)) for _ in range(5)]
    group.loop.settle()
    assert all(isinstance(answer.result, type(error)) for answer in answers)


# -- takers


def test_a_new_taker_gets_what_is_there_in_the_next_turn(group: Group) -> None:
    group.submit(plain(2))
    group.loop.settle()
    worker = group.worker(prefetch=1)
    group.loop.settle()
    assert len(worker.keys) == 1
    assert group.rig.broken_rules() == []


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
    assert group.rig.broken_rules() == []


@pytest.mark.parametrize("error", [StoreFull("no space"), RuntimeError("odd")], ids=["full", "odd"])
@pytest.mark.parametrize("interrupted", [True, False])
def test_what_a_gone_taker_held_is_given_back_as_soon_as_that_is_possible(
    error: Exception, interrupted: bool
) -> None:
    """Else it would be stuck until its lease lapses, half a day later."""
    store = FaultyStore(open_sqlite())
    group = Group(store)
    gone = group.worker()
    group.submit(plain(3))
    group.loop.settle()
    store.verbs["release"] = [error] * 5
    group.commit.remove_taker(gone.taker, interrupted=interrupted)
    group.loop.settle()
    assert gone.held == set(gone.keys)
    group.loop.advance(10_000)
    assert gone.held == set()
    assert {job.interruptions for job in group.rig.store.load(gone.keys)} == {int(interrupted)}
    assert ready_total(group.rig.store) == 3
    assert group.rig.broken_rules() == []


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
    store = FaultyStore(open_sqlite())
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
    assert group.rig.broken_rules() == []


def test_a_failed_store_is_reported_once_and_everything_refused() -> None:
    store = FaultyStore(open_sqlite())
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
    assert answer.result.now == NOW
    assert group.loop.live() == []
    assert group.loop.settle() <= 1


def test_what_comes_after_closing_is_still_answered(group: Group) -> None:
    group.commit.close()
    answer = group.submit(plain(1))
    group.loop.settle()
    assert answer.result
    assert group.loop.live() == []
