"""Expiry: a job that was not started in time is passed over where it would be handed out, and nowhere else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anew.engine import Fetch, Reject, takers
from anew.engine.takers import TURNED_AWAY
from anew.engine.verbs import cancel_one, redrive_one
from anew.jobs import Failed, HoldKind, State
from anew.jobs.codec import JobHooks, PushedJob
from anew.jobs.expiry import has_expired
from anew.jobs.limits import Throttle, rate
from anew.store.protocol import Hold

from .rig import NOW, Rig, call, ignore

MINUTE = 60_000


def expiring(jid: str, expires_at: int | None, **members: Any) -> PushedJob:
    hooks = None if expires_at is None else JobHooks(expires_at=expires_at)
    return PushedJob(type="send", queue="mail", payload=msgspec.Raw(b"[1]"), jid=jid, hooks=hooks, **members)


def fetch(rig: Rig) -> str | None:
    answers: list[Any] = []
    rig.engine.apply([op := Fetch(["mail"], answers.append)])
    rig.engine.fetches.call_off(op)
    return answers[0].jid if answers else None


@pytest.fixture
def rig() -> Rig:
    return Rig(dead_ms=MINUTE)


def test_an_expired_job_is_passed_over_and_the_next_one_fetched(rig: Rig) -> None:
    """Faktory checklist 100: a job past expires_at is skipped by FETCH."""
    late, _ = rig.put(expiring("late", NOW + 1_000), expiring("good", None))
    rig.advance(1_001)
    assert rig.state(late) is State.READY
    assert [fetch(rig), fetch(rig)] == ["good", None]
    assert rig.state(late) is State.CANCELLED
    assert rig.job(late).purge_at == NOW + 1_001 + MINUTE
    stats = rig.engine.stats
    assert (stats.expired, stats.taken, stats.completed, stats.failed) == (1, 1, 0, 0)


def test_an_expired_job_says_so_and_runs_once_it_is_redriven(rig: Rig) -> None:
    (late,) = rig.put(expiring("late", NOW + 1_000))
    rig.advance(1_001)
    assert fetch(rig) is None
    assert has_expired(rig.job(late))
    rig.do(call(redrive_one(late)))
    assert not has_expired(rig.job(late))
    assert fetch(rig) == "late"


def test_a_redrive_takes_the_expiry_away_also_from_a_job_that_was_cancelled_before_its_time(rig: Rig) -> None:
    (key,) = rig.put(expiring("a", NOW + 1_000))
    rig.do(call(cancel_one(key)))
    assert not has_expired(rig.job(key))
    rig.do(call(redrive_one(key)))
    rig.advance(1_001)
    assert fetch(rig) == "a"


def test_at_the_very_instant_it_still_starts(rig: Rig) -> None:
    rig.put(expiring("a", NOW + 1_000))
    rig.advance(1_000)
    assert fetch(rig) == "a"


def test_nothing_is_kept_where_ended_jobs_are_not_kept() -> None:
    rig = Rig(dead_ms=0)
    (late,) = rig.put(expiring("late", NOW))
    rig.clock.advance(1)
    assert fetch(rig) is None
    assert rig.state(late) is None
    assert rig.store.queues.counts() == {}


def test_a_stream_gets_the_jobs_behind_expired_ones(rig: Rig) -> None:
    jobs = [expiring(f"late{n}", NOW) for n in range(20)] + [expiring("good", None)]
    *_, good = rig.put(*jobs)
    rig.clock.advance(1)
    worker = rig.worker(["mail"], prefetch=3)
    assert worker.keys == [good]
    assert rig.broken_rules() == []
    assert rig.engine.stats.expired == 20


def test_an_embedded_take_gets_the_jobs_behind_expired_ones(rig: Rig) -> None:
    *_, good = rig.put(*[expiring(f"late{n}", NOW) for n in range(5)], expiring("good", None))
    rig.clock.advance(1)

    def take(batch: Any) -> list[int]:
        hold = Hold(HoldKind.SESSION, batch.new_token(), batch.store.session, None, batch.now)
        return [row[0] for row in batch.take_under(hold, ["mail"], 2, 1_000)]

    assert rig.do(call(take)) == [good]


def test_one_batch_ends_a_bounded_number_and_the_next_ones_go_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert takers.TURNED_AWAY == 500
    *_, good = rig.put(
        *[expiring(f"late{n}", NOW) for n in range(2 * TURNED_AWAY + 10)], expiring("good", None)
    )
    rig.clock.advance(1)
    worker = rig.worker(["mail"], prefetch=1)
    batches = 1
    while not worker.keys:
        assert rig.engine.dispatcher.waits()
        rig.engine.apply([])
        batches += 1
    assert (worker.keys, batches) == ([good], 3)


def test_a_retry_expires_too_and_a_job_in_flight_does_not(rig: Rig) -> None:
    (key,) = rig.put(expiring("a", NOW + 1_000))
    assert fetch(rig) == "a"
    rig.advance(2_000)
    rig.do(Reject("a", Failed(message="no"), ignore))
    assert rig.state(key) is State.RETRYING
    rig.advance(10_000)
    assert fetch(rig) is None
    assert rig.state(key) is State.CANCELLED


def test_an_expired_job_gives_the_slot_of_its_queue_to_the_next_one(rig: Rig) -> None:
    rig.do(call(lambda batch: batch.store.slots.set_limits({"mail": Throttle(concurrency=1)})))
    *_, good, _ = rig.put(
        *[expiring(f"late{n}", NOW) for n in range(3)], expiring("good", None), expiring("more", None)
    )
    rig.clock.advance(1)
    assert rig.worker(["mail"], prefetch=3).keys == [good]


def test_expired_jobs_are_no_starts_for_the_rate_of_their_queue(rig: Rig) -> None:
    rig.do(call(lambda batch: batch.store.slots.set_limits({"mail": Throttle(rate=rate(2, 1_000))})))
    late = [expiring(f"late{n}", NOW) for n in range(3)]
    *_, one, two, three = rig.put(*late, *[expiring(f"good{n}", None) for n in range(3)])
    rig.clock.advance(1)
    worker = rig.worker(["mail"], prefetch=6)
    assert worker.keys == [one, two]
    rig.advance(499)
    assert worker.keys == [one, two]
    rig.advance(1)
    assert worker.keys == [one, two, three]
