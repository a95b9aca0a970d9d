"""Group commit and time: what is due, what has lapsed, what is over, and clocks that jump. The loop is moved by hand."""

from __future__ import annotations

import pytest

from anew.engine import Limits
from anew.jobs import State
from tests.conformance.helpers import ready_total

from .grouped import Group
from .rig import NOW, enqueue, fail, new_job, plain

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.fixture
def group() -> Group:
    return Group()


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
        seen.append(ready_total(group.rig.store))
    assert seen[:5] == [0, 150, 300, 450, 525]  # the first turn only looks whether more comes
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


def test_reliability_19_lapsed_leases_go_back_within_a_tick() -> None:
    group = Group(limits=Limits(max_lease_ms=20_000))
    worker = group.worker(prefetch=1)
    group.submit(plain(1))
    group.loop.settle()
    group.loop.advance(19_000)
    assert len(worker.keys) == 1
    group.loop.advance(2_000)
    assert len(worker.keys) == 2
    assert group.rig.broken_rules() == []


def test_what_is_over_is_reaped_in_chunks_at_its_interval() -> None:
    group = Group(reap_ms=30_000)
    group.submit(plain(2_500))
    worker = group.worker(prefetch=2_500)
    group.loop.settle()
    for key in worker.keys:
        group.submit(fail(key, kill=True))
    group.loop.settle()
    assert group.rig.store.queues.counts()["mail"][State.DEAD] == 2_500
    group.rig.clock.advance(7 * 86_400_000)
    group.loop.advance(1_000)
    assert group.rig.store.queues.counts() == {}
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
    assert reaps == [1_000, 31_000, 61_000, 91_000]


def test_a_crowd_that_a_jump_of_the_clock_made_due_does_not_wait_for_the_tick(group: Group) -> None:
    """The timer was set for an instant that has passed unseen; a thousand a second would take for ever."""
    group.submit(enqueue(*(new_job(ready_at=NOW + 900_000) for _ in range(5_500))))
    group.loop.settle()
    group.rig.clock.jump(900_000)
    group.loop.advance(1_000)
    assert ready_total(group.rig.store) == 5_500


def test_before_the_start_no_time_is_kept() -> None:
    group = Group(started=False)
    assert group.loop.live() == []
    group.submit(plain(1))
    group.loop.settle()
    assert group.loop.live() == []
