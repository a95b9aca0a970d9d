"""Jobs whose workers go away with them, in the engine: counted always, acted upon where there is a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from anew.engine import Limits, recover
from anew.engine.reports import GOES_ON, Report, Reports
from anew.engine.verbs import redrive_one
from anew.errors import NotFound, StoreFull
from anew.jobs import Interrupted, State
from anew.store.selection import Page
from anew.store.sqlite import open_sqlite

from .rig import FaultyStore, Rig, call, fail, ignore, new_job, succeed, tick


def interrupted(rig: Rig) -> int:
    """Take the only job and go away with it; give its key."""
    worker = rig.worker()
    (key,) = worker.held
    assert rig.do(rig.leave(worker)) == 1
    assert rig.broken_rules() == []
    return key


def test_without_a_limit_a_job_is_offered_again_for_ever() -> None:
    rig = Rig()
    (key,) = rig.put(new_job())
    for _ in range(30):
        interrupted(rig)
    job = rig.job(key)
    assert (job.state, job.interruptions, job.failed_at) == (State.READY, 30, None)
    assert rig.store.records.errors(key, Page()) == []


def test_reliability_22_a_job_that_kills_every_worker_dies_after_ten_with_growing_delays() -> None:
    rig = Rig(interruption_limit=10)
    (key,) = rig.put(new_job())
    for wait_s in (0, 2, 4, 8, 16, 32, 60, 60, 60):
        interrupted(rig)
        if wait_s:
            assert (rig.state(key), rig.job(key).ready_at) == (
                State.RETRYING,
                rig.clock.now() + wait_s * 1_000,
            )
            rig.advance(wait_s * 1_000 - 1)
            assert rig.state(key) is State.RETRYING
            rig.advance(1)
        assert rig.state(key) is State.READY
    interrupted(rig)
    dead = rig.job(key)
    assert (dead.state, dead.attempts, dead.interruptions) == (State.DEAD, 0, 0)
    assert dead.purge_at == rig.clock.now() + 7 * 86_400_000
    records = rig.store.records.errors(key, Page())
    assert [(record.outcome, record.attempt) for record in records] == [("interrupted", 1)] * 10
    assert b'"poison: 10 interruptions in a row' in (records[-1].decision or b"")
    assert rig.engine.stats.died == 1
    assert rig.engine.stats.failed == 0


@pytest.mark.parametrize("verdict", [succeed, fail])
def test_any_verdict_begins_the_count_anew(verdict: object) -> None:
    rig = Rig(interruption_limit=3, completed_ms=60_000)
    (key,) = rig.put(new_job())
    interrupted(rig)
    interrupted(rig)
    assert rig.job(key).interruptions == 2
    rig.advance(2_000)
    worker = rig.worker()
    rig.do(succeed(key) if verdict is succeed else fail(key))
    assert worker.held == set()
    assert rig.job(key).interruptions == 0


def test_an_interruption_is_no_failure_of_the_policys() -> None:
    """Neither its limit nor its deadline hears of it, and the first failure is still the first."""
    rig = Rig(interruption_limit=10, policy={"curve": {"constant": "10s"}, "limit": 1, "deadline": "1m"})
    (key,) = rig.put(new_job())
    interrupted(rig)
    interrupted(rig)
    assert (rig.job(key).first_failed_at, rig.job(key).phase) == (None, None)
    rig.advance(3_600_000)
    rig.worker()
    failed = rig.do(fail(key))
    assert (failed.state, failed.attempts, failed.ready_at) == (State.RETRYING, 1, rig.clock.now() + 10_000)
    assert rig.job(key).first_failed_at == rig.clock.now()


def test_a_job_that_interruptions_ended_has_still_not_failed() -> None:
    """Sent round again as it is, its policy's deadline begins with the failure to come."""
    rig = Rig(interruption_limit=1, policy={"curve": {"constant": "10s"}, "limit": 1, "deadline": "1m"})
    (key,) = rig.put(new_job())
    interrupted(rig)
    assert (rig.state(key), rig.job(key).first_failed_at) == (State.DEAD, None)
    rig.advance(3_600_000)
    rig.do(call(redrive_one(key)))
    rig.worker()
    assert rig.do(fail(key)).state is State.RETRYING


def test_what_was_recorded_goes_with_the_job() -> None:
    """A job with records is not all in its row, so its success must look for them."""
    rig = Rig(interruption_limit=10)
    (key,) = rig.put(new_job())
    interrupted(rig)
    rig.worker()
    assert rig.do(succeed(key)) == []
    assert rig.state(key) is None
    assert rig.store.records.errors(key, Page()) == []


def test_a_stop_of_the_server_is_not_counted() -> None:
    rig = Rig(interruption_limit=1)
    (key,) = rig.put(new_job())
    rig.do(rig.leave(rig.worker(), interrupted=False))
    assert (rig.state(key), rig.job(key).interruptions) == (State.READY, 0)
    assert rig.store.records.errors(key, Page()) == []


def test_a_crash_of_the_server_is_not_counted(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path)
    rig = Rig(store, interruption_limit=2)
    (key,) = rig.put(new_job())
    interrupted(rig)
    rig.worker()
    store.close()
    again = Rig(open_sqlite(tmp_path), interruption_limit=2)
    assert recover(again.engine) == 1
    assert (again.state(key), again.job(key).interruptions) == (State.READY, 1)
    again.store.close()


def test_a_lease_that_lapses_is_an_interruption() -> None:
    rig = Rig(interruption_limit=1, limits=Limits(global_in_flight=0, max_lease_ms=5_000))
    (key,) = rig.put(new_job())
    worker = rig.worker()
    rig.clock.advance(5_000)
    rig.do(call(tick))
    assert (rig.state(key), worker.held) == (State.DEAD, set())
    (record,) = rig.store.records.errors(key, Page())
    assert record.message == "its worker kept the job longer than a lease lasts"


def test_all_that_the_worker_held_is_counted_and_nothing_else() -> None:
    rig = Rig(interruption_limit=2)
    keys = rig.put(*(new_job() for _ in range(4)))
    worker = rig.worker(prefetch=3)
    rig.do(succeed(keys[0]))
    assert worker.held == set(keys[1:])
    rig.do(rig.leave(worker))
    assert [job.interruptions for job in rig.store.load(keys)] == [1, 1, 1]
    assert {job.state for job in rig.store.load(keys)} == {State.READY}


def test_a_batch_that_does_not_last_leaves_the_jobs_with_their_worker() -> None:
    store = FaultyStore(open_sqlite())
    rig = Rig(store, interruption_limit=1)
    (key,) = rig.put(new_job())
    worker = rig.worker()
    store.commits[:] = [StoreFull("full")] * 3
    assert isinstance(rig.do(rig.leave(worker)), StoreFull)
    assert (rig.state(key), worker.held) == (State.IN_FLIGHT, {key})
    assert rig.store.records.errors(key, Page()) == []


def test_what_a_failure_answers_is_the_job_as_it_is_stored() -> None:
    rig = Rig(interruption_limit=10)
    (key,) = rig.put(new_job())
    interrupted(rig)
    for _ in range(2):
        rig.worker()
        assert rig.do(fail(key)) == rig.job(key)
        rig.advance(10_000)


def test_a_stream_with_a_limit_of_its_own_has_poison_end_whatever_the_servers_is() -> None:
    rig = Rig()
    (key,) = rig.put(new_job())
    for state in (State.READY, State.RETRYING, State.DEAD):
        worker = rig.worker()
        worker.taker.interruption_limit = 3
        assert [*worker.held] == [key]
        rig.do(rig.leave(worker))
        assert rig.state(key) is state
        rig.advance(2_000)
    assert b'"poison: 3 interruptions in a row' in (rig.store.records.errors(key, Page())[-1].decision or b"")


def test_a_report_of_a_crash_says_its_limit() -> None:
    rig = Rig()
    (key,) = rig.put(new_job())
    rig.worker()
    gone = Report(key, None, Interrupted("worker gone", 1))
    (job,) = rig.do(Reports([gone], ignore))
    assert job.state is rig.state(key) is State.DEAD


def test_a_worker_that_goes_on_with_its_job_has_not_died() -> None:
    rig = Rig(interruption_limit=3)
    (key,) = rig.put(new_job())
    interrupted(rig)
    interrupted(rig)
    rig.advance(2_000)
    worker = rig.worker()
    taken_at = rig.job(key).dequeued_at
    (late,) = rig.do(Reports([Report(key, 1, GOES_ON)], ignore))
    assert isinstance(late, NotFound)
    assert rig.job(key).interruptions == 2
    (job,) = rig.do(Reports([Report(key, taken_at, GOES_ON)], ignore))
    assert (job.state, job.interruptions) == (State.IN_FLIGHT, 0)
    assert rig.job(key).interruptions == 0
    assert rig.broken_rules() == []
    rig.do(rig.leave(worker))
    assert rig.state(key) is State.READY
