"""The rarer verbs, on a store in memory and a clock that stands still."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anew.backoff import policy_from_json
from anew.clock import ManualClock
from anew.engine import Batch, Call, Engine, Enqueue, Fail, Succeed, Taker, verbs
from anew.errors import IllegalTransition, NotFound, StoreFull
from anew.jobs import Defaults, Failed, Job, NewJob, Retention, State
from anew.jobs.patch import Patch, RetentionPatch
from anew.store.protocol import TakenRow
from anew.store.selection import Filter, Page
from anew.store.sqlite import open_sqlite

NOW = 1_700_000_000_000
WEEK_MS = 604_800_000
ZIZQ = b'{"exponent":2.0,"base_ms":100,"jitter_ms":0}'


class Bench:
    """An engine with one verb per method.

    Attributes:
        given: Keys of the jobs that takers got, in order; those that `die` needed left out.
    """

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.store = open_sqlite(None)
        self.engine = Engine(
            self.store,
            clock=self.clock,
            defaults=Defaults(policy=policy_from_json(b'"zizq"')),
            rng=lambda: 0.0,
        )
        self.given: list[int] = []

    def apply(self, *ops: Any) -> list[Any]:
        """Apply operations as one batch and give their results."""
        results: dict[int, Any] = {}
        for at, op in enumerate(ops):
            op.done = lambda result, at=at: results.__setitem__(at, result)
        self.engine.apply(ops)
        return [results[at] for at in range(len(ops))]

    def call(self, verb: Any) -> Any:
        """Run a verb in a batch of its own; an error it answers with is raised."""
        (result,) = self.apply(Call(verb, print))
        if isinstance(result, Exception):
            raise result
        return result

    def enqueue(self, count: int = 1, **fields: Any) -> list[int]:
        jobs = [
            NewJob(**({"type": "t", "queue": "q", "payload": msgspec.Raw(b"1")} | fields))
            for _ in range(count)
        ]
        (entered,) = self.apply(Enqueue(jobs, print))
        return list(entered.keys)

    def taker(self, prefetch: int = 1, queues: tuple[str, ...] | None = ("q",)) -> Taker:
        def deliver(rows: list[TakenRow], now: int) -> None:
            self.given += [row[0] for row in rows]

        taker = Taker(queues, prefetch, deliver)
        self.engine.dispatcher.add(taker)
        self.engine.apply([])
        return taker

    def die(self, count: int = 1, **fields: Any) -> list[int]:
        """Make dead jobs."""
        keys = self.enqueue(count, queue="dying", **fields)
        taker = self.taker(count, ("dying",))
        self.apply(*(Fail(key, Failed(message="m", kill=True), print) for key in keys))
        self.engine.dispatcher.remove(taker)
        self.given.clear()
        return keys

    def job(self, key: int) -> Job:
        (job,) = self.store.load([key])
        return job

    def check_counts(self) -> None:
        """Insist that the counters agree with the rows."""
        counted: dict[str, dict[State, int]] = {}
        for job in self.store.load(self.store.find(Filter(), Page(limit=10_000))):
            states = counted.setdefault(job.queue, {})
            states[job.state] = states.get(job.state, 0) + 1
        known = {
            queue: {state: n for state, n in states.items() if n}
            for queue, states in self.store.queues.counts().items()
        }
        assert known == counted


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_patch_writes_every_field(bench: Bench) -> None:
    (key,) = bench.enqueue(retention=Retention(completed_ms=5))
    patch = Patch(
        queue="other",
        priority=7,
        ready_at=NOW + 50,
        retry_limit=3,
        policy=ZIZQ,
        retention=RetentionPatch(completed_ms=None, dead_ms=9),
    )
    job = bench.call(verbs.patch_one(key, patch))
    assert (job.queue, job.priority, job.state, job.ready_at) == ("other", 7, State.SCHEDULED, NOW + 50)
    assert (job.retry_limit, job.policy, job.retention) == (3, ZIZQ, b'{"dead_ms":9}')
    assert bench.job(key) == job
    assert bench.engine.due_at == NOW + 50
    bench.check_counts()


def test_a_patch_of_no_job_and_of_an_ended_one(bench: Bench) -> None:
    (dead,) = bench.die()
    with pytest.raises(NotFound, match="job not found"):
        bench.call(verbs.patch_one(1, Patch(priority=1)))
    with pytest.raises(IllegalTransition):
        bench.call(verbs.patch_one(dead, Patch(priority=1)))


def test_retention_patched_in_flight_counts_at_the_end(bench: Bench) -> None:
    """A job whose row was all there was of it must not be removed by the short way then."""
    (key,) = bench.enqueue()
    bench.taker()
    bench.call(verbs.patch_one(key, Patch(retention=RetentionPatch(completed_ms=1_000))))
    assert bench.job(key).state is State.IN_FLIGHT
    assert bench.apply(Succeed([key], print)) == [[]]
    assert (bench.job(key).state, bench.job(key).purge_at) == (State.COMPLETED, NOW + 1_000)


def test_a_job_moved_to_another_queue_reaches_the_taker_that_waits_there(bench: Bench) -> None:
    bench.taker(queues=("there",))
    (key,) = bench.enqueue(queue="here")
    assert bench.given == []
    bench.call(verbs.patch_one(key, Patch(queue="there")))
    assert bench.given == [key]
    bench.check_counts()


def test_zizq_79_deleting_a_job_in_flight_frees_its_slot(bench: Bench) -> None:
    first, second = bench.enqueue(2)
    bench.taker()
    assert bench.given == [first]
    assert bench.call(verbs.delete_one(first)) is None
    assert bench.given == [first, second]
    assert bench.apply(Succeed([first], print)) == [[first]]
    with pytest.raises(NotFound, match="job not found"):
        bench.call(verbs.delete_one(first))


def test_zizq_80_deleting_everything_frees_every_slot(bench: Bench) -> None:
    bench.die()
    bench.enqueue(5)
    taker = bench.taker(2)
    assert len(taker.held) == 2
    assert bench.call(Batch.delete_all) == 6
    assert (taker.held, bench.engine.dispatcher.holders) == ({}, {})
    assert bench.store.queues.counts() == {}
    new = bench.enqueue(2)
    assert bench.given[2:] == new


def test_a_delete_whose_batch_does_not_last_leaves_the_job_with_its_holder(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key,) = bench.enqueue()
    taker = bench.taker()
    held = dict(taker.held)

    def full() -> None:
        raise StoreFull("full")

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "commit", full)
        patch.setattr(bench.store, "explain", lambda error: error)
        with pytest.raises(StoreFull):
            bench.call(verbs.delete_one(key))
    assert taker.held == held
    assert list(held) == [key]
    assert bench.engine.dispatcher.holders == {key: taker}
    assert bench.job(key).state is State.IN_FLIGHT
    bench.check_counts()


def test_a_redriven_job_is_ready_now_and_its_policy_goes_on(bench: Bench) -> None:
    (key,) = bench.die()
    bench.clock.advance(1_000)
    job = bench.call(verbs.redrive_one(key))
    assert (job.state, job.ready_at, job.attempts, job.purge_at) == (State.READY, NOW + 1_000, 1, None)
    assert (job.failed_at, job.first_failed_at) == (NOW, NOW)
    assert bench.job(key) == job
    bench.check_counts()


def test_a_redriven_job_may_begin_its_policy_again(bench: Bench) -> None:
    """Else a policy with a deadline would end it at its next failure."""
    (key,) = bench.die(policy=msgspec.Raw(b'{"preset":"zizq","deadline":"1h"}'))
    bench.clock.advance(WEEK_MS - 1)
    job = bench.call(verbs.redrive_one(key, reset_attempts=True))
    assert (job.attempts, job.first_failed_at, job.carry) == (0, None, None)
    bench.taker(queues=("dying",))
    (after,) = bench.apply(Fail(key, Failed(message="again"), print))
    assert (after.state, after.attempts) == (State.RETRYING, 1)
    assert [record.message for record in bench.store.records.errors(key, Page())] == ["m", "again"]


def test_what_cannot_be_redriven(bench: Bench) -> None:
    (ready,) = bench.enqueue()
    (dead,) = bench.die()
    with pytest.raises(IllegalTransition, match="expected cancelled or dead"):
        bench.call(verbs.redrive_one(ready))
    bench.clock.advance(WEEK_MS)
    with pytest.raises(NotFound):
        bench.call(verbs.redrive_one(dead))  # its retention is over: no reader sees it any more
    assert bench.store.count(verbs.redrivable(Filter(), bench.clock.now())) == 0


@pytest.mark.parametrize("ready_at", [None, NOW + 9])
def test_a_cancelled_job_is_kept_as_a_dead_one_and_can_come_back(bench: Bench, ready_at: int | None) -> None:
    (key,) = bench.enqueue(ready_at=ready_at)
    job = bench.call(verbs.cancel_one(key))
    assert (job.state, job.purge_at) == (State.CANCELLED, NOW + WEEK_MS)
    assert bench.job(key) == job
    with pytest.raises(IllegalTransition):
        bench.call(verbs.cancel_one(key))
    assert bench.call(verbs.redrive_one(key)).state is State.READY
    bench.check_counts()


def test_cancelling_a_job_in_flight_frees_its_slot(bench: Bench) -> None:
    first, second = bench.enqueue(2)
    bench.taker()
    bench.call(verbs.cancel_one(first))
    assert bench.given == [first, second]
    assert bench.apply(Succeed([first], print)) == [[first]]
    assert bench.job(first).state is State.CANCELLED


def test_a_cancelled_job_without_retention_is_gone(bench: Bench) -> None:
    (key,) = bench.enqueue(retention=Retention(dead_ms=0))
    assert bench.call(verbs.cancel_one(key)).purge_at is None
    assert bench.store.load([key]) == []
    bench.check_counts()
