"""What a batch that did not last leaves: holders, slots, counters and promises as they were before."""

from __future__ import annotations

from pathlib import Path

import pytest

from anew.clock import ManualClock
from anew.engine import Limits
from anew.store.selection import Page
from anew.store.sqlite import open_sqlite

from .failing import Failing, picture, undone
from .rig import NOW, Rig, Worker, call, fail, new_job, plain, succeed, tick


@pytest.fixture
def rig() -> Failing:
    return Failing()


@undone
def test_holders_and_slots_are_as_before(rig: Failing, error: Exception) -> None:
    keys = rig.put(*(new_job() for _ in range(8)))
    first, second = rig.worker(prefetch=3), rig.worker(prefetch=2)
    before = picture(rig)
    rig.fail_next(error, error, error, error, error, error)
    rig.apply(succeed(*keys[:2]), fail(keys[3]), fail(keys[2], kill=True), call(tick))
    assert picture(rig) == before
    assert (first.keys, second.keys) == (keys[:3], keys[3:5])
    assert rig.broken_rules() == []
    rig.fail_next()
    assert rig.do(succeed(*keys[:5])) == []
    assert sorted(first.keys + second.keys) == keys
    assert rig.broken_rules() == []


@undone
def test_a_taker_that_was_leaving_still_gives_back_later(rig: Failing, error: Exception) -> None:
    rig.put(new_job(), new_job())
    leaving, stays = rig.worker(prefetch=2), rig.worker(prefetch=2)
    release = rig.leave(leaving)
    rig.fail_next(error, error, error)
    rig.do(release)
    assert len(leaving.held) == 2
    assert stays.held == set()
    rig.fail_next()
    assert rig.do(release) == 2
    assert len(stays.held) == 2
    assert rig.broken_rules() == []


@undone
def test_a_take_that_did_not_last_leaves_no_other_taker_asleep(rig: Failing, error: Exception) -> None:
    """The first taker got the only job and the second found nothing; then it all came undone and the first went away."""
    first, second = Worker(["mail"], 1), Worker(["mail"], 1)
    for worker in (first, second):
        rig.engine.dispatcher.add(worker.taker)
    rig.put(new_job("other"))
    (key,) = rig.put(new_job("mail"))
    assert first.keys == [key]
    rig.do(fail(key, retry_at=NOW + 10))
    rig.clock.advance(10)
    rig.fail_next(error, error, error)
    rig.engine.apply([])
    rig.fail_next()
    rig.engine.dispatcher.remove(first.taker)
    rig.engine.apply([])
    assert rig.broken_rules() == []
    assert second.keys == [key]


@undone
def test_a_promotion_that_did_not_last_is_made_again(rig: Failing, error: Exception) -> None:
    (key,) = rig.put(new_job(ready_at=NOW + 5))
    worker = rig.worker()
    rig.clock.advance(5)
    rig.fail_next(error, error, error)
    rig.engine.apply([])
    rig.fail_next()
    assert rig.engine.due_at == NOW + 5
    assert worker.keys == []
    rig.engine.apply([])
    assert worker.keys == [key]
    assert rig.broken_rules() == []


@undone
def test_the_promise_of_keys_holds_over_a_batch_that_did_not_last(tmp_path: Path, error: Exception) -> None:
    """The promise is written once a minute; if that batch is undone, the next one must write it again, or a restart with
    the clock set back would give keys out twice."""
    rig = Failing(open_sqlite(tmp_path))
    rig.fail_next(error, error, error)
    rig.do(plain(5))
    rig.engine.parts.full = False
    rig.fail_next()
    keys = rig.put(*(new_job() for _ in range(5)))
    rig.worker()
    assert rig.do(succeed(*keys)) == []
    rig.store.close()
    again = Rig(open_sqlite(tmp_path), clock=ManualClock(NOW - 3_600_000))
    assert again.put(new_job())[0] > keys[-1]
    again.store.close()


@undone
def test_a_failure_that_did_not_last_leaves_no_record(rig: Failing, error: Exception) -> None:
    (key,) = rig.put(new_job())
    rig.worker()
    rig.fail_next(error, error, error)
    rig.do(fail(key))
    assert rig.job(key).attempts == 0
    assert rig.store.records.errors(key, Page()) == []
    rig.fail_next()
    assert rig.do(fail(key)).attempts == 1
    assert len(rig.store.records.errors(key, Page())) == 1


def test_the_counters_of_what_happened_count_what_lasted(rig: Failing) -> None:
    keys = rig.put(new_job(), new_job())
    rig.worker()
    rig.fail_next(RuntimeError("odd"))
    rig.apply(plain(3), succeed(keys[0]), fail(keys[1]))
    stats = rig.engine.stats
    assert (stats.enqueued, stats.completed, stats.failed, stats.taken) == (5, 1, 1, 5)
    assert stats.retries[1] == 1


def test_the_global_limit_still_counts_rightly_after_failures() -> None:
    rig = Failing(limits=Limits(global_in_flight=2))
    rig.put(*(new_job() for _ in range(6)))
    rig.fail_next(RuntimeError("odd"))
    worker = rig.worker()
    rig.engine.apply([])
    assert len(worker.held) == 2
    rig.fail_next(RuntimeError("odd"))
    rig.do(succeed(*worker.keys))
    assert rig.broken_rules() == []
    rig.do(succeed(*worker.keys))
    assert len(worker.keys) == 4
    assert rig.broken_rules() == []
