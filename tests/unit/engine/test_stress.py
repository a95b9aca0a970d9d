"""The rule of the dispatcher, tried at random: a ready job and a free slot never both wait."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from anew.engine import Batch, Limits, Release, Taker
from anew.errors import StoreFull
from anew.store.sqlite import open_sqlite
from tests.conformance.helpers import ready_total

from .rig import (
    FaultyStore,
    Rig,
    Worker,
    call,
    differences,
    fail,
    idle_beside_ready,
    new_job,
    plain,
    succeed,
    tick,
)

TRIALS = 200_000 if os.environ.get("ANEW_NIGHTLY") else 10_000


class Trial:
    """Random operations on one engine, with the rule checked after each."""

    QUEUES = ("a", "b", "c")

    def __init__(self, seed: int, *, limit: int, faults: float = 0.0) -> None:
        self.random = Random(seed)
        self.faulty = FaultyStore(open_sqlite())
        self.rig = Rig(self.faulty, limits=Limits(global_in_flight=limit, max_lease_ms=10_000))
        self.workers: list[Worker] = []
        self.faults = faults

    def queues(self) -> list[str] | None:
        n = self.random.randrange(4)
        return None if n == 0 else self.random.sample(self.QUEUES, n)

    def any_worker(self) -> Worker | None:
        return self.random.choice(self.workers) if self.workers else None

    def step(self) -> None:
        rig, random = self.rig, self.random
        dispatcher = rig.engine.dispatcher
        ops: list[Any] = []
        for _ in range(random.choice((1, 1, 2, 3))):
            worker = self.any_worker()
            match random.randrange(10):
                case 0 | 1 | 2 if ready_total(rig.store) < 4:  # else nobody would ever wait
                    ops.append(plain(random.choice((1, 1, 1, 2, 5)), random.choice(self.QUEUES)))
                case 3:
                    later = rig.clock.now() + random.choice((0, 5, 50))
                    ops.append(call(_enqueue_later(random.choice(self.QUEUES), later)))
                case 4 if len(self.workers) < 8:
                    worker = Worker(self.queues(), random.choice((1, 1, 2, 5)))
                    self.workers.append(worker)
                    dispatcher.add(worker.taker)
                case 5 | 6 if worker and worker.held:
                    held = sorted(worker.held)
                    ops.append(succeed(*random.sample(held, random.randint(1, len(held)))))
                case 7 if worker and worker.held:
                    ops.append(fail(min(worker.held), retry_at=rig.clock.now() + random.choice((0, 5, 50))))
                case 8 if worker:
                    (dispatcher.resume if worker.taker.paused else dispatcher.pause)(worker.taker)
                case 9 if worker and random.random() < 0.4:
                    self.workers.remove(worker)
                    ops.append(rig.leave(worker))
        rig.clock.advance(random.choice((0, 0, 1, 5, 20)))
        if random.random() < 0.02:
            ops.append(call(tick))
        if random.random() < self.faults:
            self.break_something()
            rig.engine.apply(ops)
            self.faulty.verbs.clear()
            rig.engine.parts.full = False
            for worker in list(dispatcher.holders.values()):
                if worker not in dispatcher.takers:  # its release was among what broke
                    rig.do(_release(worker))
        else:
            rig.engine.apply(ops)

    def break_something(self) -> None:
        verb = self.random.choice(("commit", "commit", "take", "insert_plain", "release", "promote"))
        error = self.random.choice((StoreFull("no space"), RuntimeError("odd")))
        times = self.random.choice((1, 1, 2, 5))
        self.faulty.verbs[verb] = [None] * self.random.choice((0, 0, 1)) + [error] * times

    def left_waiting(self) -> list[str]:
        """The takers that wait beside a ready job, once a batch that broke has been followed by another."""
        if self.rig.engine.stalled:
            self.rig.engine.apply([])
        return idle_beside_ready(self.rig.engine)


def _enqueue_later(queue: str, at: int) -> Any:
    def verb(batch: Batch) -> None:
        batch.insert([new_job(queue, ready_at=at)])

    return verb


def _release(taker: Taker) -> Any:
    return Release(taker, print)


@pytest.mark.parametrize(("seed", "limit", "share"), [(1, 0, 0.5), (2, 4, 0.25), (3, 1, 0.25)])
def test_a_ready_job_and_a_free_slot_never_both_wait(seed: int, limit: int, share: float) -> None:
    """Ten thousand trials over three limits: none, one that is often met, and a single job at a time."""
    trial = Trial(seed, limit=limit)
    for number in range(int(TRIALS * share)):
        trial.step()
        assert trial.left_waiting() == []
        if number % 50 == 0:
            assert differences(trial.rig.engine) == []
    assert trial.rig.engine.stats.taken > 0


@pytest.mark.parametrize(("seed", "limit"), [(4, 0), (5, 3)])
def test_the_rule_also_holds_where_batches_break(seed: int, limit: int) -> None:
    trial = Trial(seed, limit=limit, faults=0.2)
    for _ in range(TRIALS // 10):
        trial.step()
        assert trial.left_waiting() == []
        assert differences(trial.rig.engine) == []
