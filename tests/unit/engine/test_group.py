"""Group commit in a loop: what is gathered, when it is applied, and what wakes it. The loop is moved by hand."""

from __future__ import annotations

from typing import Any

import pytest

from anew.engine import Enqueue, GroupCommit, Limits
from anew.errors import Overloaded, StoreFailed, StoreFull
from anew.jobs import State
from anew.store.sqlite import SqliteStore

from .handloop import HandLoop
from .rig import NOW, FaultyStore, Once, Rig, Worker, call, enqueue, fail, new_job, plain, succeed


class Group:
    """A group commit with its rig and loop."""

    def __init__(
        self, store: Any = None, *, started: bool = True, limits: Limits | None = None, **given: Any
    ) -> None:
        self.rig = Rig(store, limits=limits)
        self.loop = HandLoop(self.rig)
        self.fatal = 0
        self.batches: list[int] = []
        self.commit = GroupCommit(self.rig.engine, self.loop, self._fatal, **given)  # type: ignore[arg-type]
        real = self.rig.engine.apply

        def counted(ops: Any) -> None:
            self.batches.append(len(ops))
            real(ops)

        self.rig.engine.apply = counted  # type: ignore[method-assign]
        if started:
            self.commit.start()

    def _fatal(self) -> None:
        self.fatal += 1

    def submit(self, op: Any) -> Once:
        op.done = Once()
        if isinstance(op, Enqueue):
            self.commit.submit_new(op)
        else:
            self.commit.submit(op)
        return op.done

    def worker(self, queues: list[str] | None = None, prefetch: int = 1_000) -> Worker:
        worker = Worker(queues, prefetch)
        self.commit.add_taker(worker.taker)
        return worker


@pytest.fixture
def group() -> Group:
    return Group()


# -- gathering


def test_one_turn_of_the_loop_makes_one_batch(group: Group) -> None:
    answers = [group.submit(plain(1)) for _ in range(5)]
    assert all(answer.calls == [] for answer in answers)
    group.loop.turn()
    assert group.batches == [5]
    assert [answer.result[1] for answer in answers] == [NOW] * 5
    assert group.loop.soon == []


def test_a_lone_operation_waits_for_the_next_turn_only(group: Group) -> None:
    answer = group.submit(plain(1))
    assert group.loop.settle() == 1
    assert answer.result


def test_what_an_answer_submits_goes_into_the_next_batch(group: Group) -> None:
    second = Once()
    op = plain(1)
    op.done = lambda result: group.commit.submit(_with(call(lambda engine, now: 7), second))
    group.commit.submit(op)
    group.loop.turn()
    assert second.calls == []
    group.loop.turn()
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
    group.loop.turn()
    assert group.batches == [4]
    assert settled.result == [1]
    group.submit(plain(1))
    group.loop.turn()
    assert group.rig.store.ready(None) == 4


def test_new_jobs_that_have_waited_too_long_are_refused_but_nothing_else(group: Group) -> None:
    group.submit(plain(1))
    group.loop.turn()
    group.commit.set_late(True)
    with pytest.raises(Overloaded, match="try again"):
        group.submit(plain(1))
    settled = group.submit(succeed(1))
    group.commit.set_late(False)
    group.submit(plain(1))
    group.loop.turn()
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


def test_a_waiting_taker_gets_a_job_in_the_turn_that_stores_it(group: Group) -> None:
    worker = group.worker()
    group.loop.settle()
    group.submit(plain(1))
    group.loop.turn()
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


# -- time


def test_a_job_runs_when_it_is_due_not_at_the_next_tick(group: Group) -> None:
    worker = group.worker()
    group.submit(enqueue(new_job(ready_at=NOW + 300)))
    group.loop.advance(299)
    assert worker.keys == []
    group.loop.advance(1)
    assert len(worker.keys) == 1


def test_an_earlier_job_moves_the_timer_forward(group: Group) -> None:
    worker = group.worker()
    group.submit(enqueue(new_job("late", ready_at=NOW + 900)))
    group.loop.settle()
    group.submit(enqueue(new_job("early", ready_at=NOW + 200)))
    group.loop.advance(200)
    assert [row[1] for row in worker.rows] == ["early"]
    group.loop.advance(700)
    assert [row[1] for row in worker.rows] == ["early", "late"]


def test_only_one_timer_waits_for_what_is_due(group: Group) -> None:
    for ms in (900, 800, 700, 600):
        group.submit(enqueue(new_job(ready_at=NOW + ms)))
        group.loop.settle()
    assert group.loop.live() == [600, 1_000]


def test_a_retry_runs_when_it_is_due(group: Group) -> None:
    worker = group.worker()
    group.submit(plain(1))
    group.loop.settle()
    group.submit(fail(worker.keys[0], retry_at=NOW + 40))
    group.loop.advance(39)
    assert len(worker.keys) == 1
    group.loop.advance(1)
    assert len(worker.keys) == 2


def test_a_crowd_that_is_due_is_promoted_in_turns_between_which_others_get_in(group: Group) -> None:
    group.submit(enqueue(*(new_job(ready_at=NOW + 10) for _ in range(525))))
    group.loop.settle()
    group.rig.clock.advance(10)
    seen = []
    group.submit(plain(0))
    while group.loop.turn():
        seen.append(group.rig.store.ready(None))
    assert seen[:4] == [150, 300, 450, 525]
    assert group.rig.engine.due_at is None


def test_a_job_of_the_distant_future_arms_no_timer_until_it_is_near(group: Group) -> None:
    worker = group.worker()
    group.submit(enqueue(new_job(ready_at=NOW + 2 * 3_600_000), new_job(ready_at=2**63 - 1)))
    group.loop.advance(2 * 3_600_000 - 1)
    assert worker.keys == []
    group.loop.advance(1)
    assert len(worker.keys) == 1
    assert len(group.loop.live()) == 1


def test_a_clock_that_was_set_back_delays_and_does_not_spin(group: Group) -> None:
    worker = group.worker()
    group.submit(enqueue(new_job(ready_at=NOW + 100)))
    group.loop.settle()
    group.rig.clock.jump(-5_000)
    group.loop.advance(5_099)
    assert worker.keys == []
    group.loop.advance(1)
    assert len(worker.keys) == 1


def test_a_clock_that_was_set_forward_is_noticed_within_a_tick(group: Group) -> None:
    worker = group.worker()
    group.submit(enqueue(new_job(ready_at=NOW + 3_000_000)))
    group.loop.settle()
    group.rig.clock.jump(3_000_000)
    group.loop.advance(1_000)
    assert len(worker.keys) == 1


def test_lapsed_leases_go_back_within_a_tick() -> None:
    group = Group(limits=Limits(max_lease_ms=20_000))
    worker = group.worker(prefetch=1)
    group.submit(plain(1))
    group.loop.settle()
    group.loop.advance(19_000)
    assert len(worker.keys) == 1
    group.loop.advance(2_000)
    assert len(worker.keys) == 2
    group.rig.check()


def test_what_is_over_is_reaped_in_portions_at_its_interval() -> None:
    group = Group(reap_ms=30_000)
    group.submit(plain(2_500))
    worker = group.worker(prefetch=2_500)
    group.loop.settle()
    for key in worker.keys:
        group.submit(fail(key, kill=True))
    group.loop.settle()
    assert group.rig.store.counts()["mail"][State.DEAD] == 2_500
    group.rig.clock.advance(7 * 86_400_000)
    group.loop.advance(1_000)
    group.loop.settle()
    assert group.rig.store.counts() == {}
    assert group.rig.engine.stats.reaped == 2_500


def test_nothing_is_reaped_between_the_intervals() -> None:
    group = Group(reap_ms=30_000)
    reaps: list[int] = []
    original = group.rig.store.reap

    def reap(now: int, limit: int) -> int:
        reaps.append(now - NOW)
        return original(now, limit)

    group.rig.store.reap = reap  # type: ignore[method-assign]
    group.loop.advance(95_000)
    assert reaps == [30_000, 60_000, 90_000]


def test_a_crowd_that_a_jump_of_the_clock_made_due_does_not_wait_for_the_tick(group: Group) -> None:
    """The timer was set for an instant that has passed unseen; a thousand a second would take for ever."""
    group.submit(enqueue(*(new_job(ready_at=NOW + 900_000) for _ in range(5_500))))
    group.loop.settle()
    group.rig.clock.jump(900_000)
    group.loop.advance(1_000)
    assert group.rig.store.ready(None) == 5_500


def test_before_the_start_no_time_is_kept() -> None:
    group = Group(started=False)
    assert group.loop.live() == []
    group.submit(plain(1))
    group.loop.settle()
    assert group.loop.live() == []


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
