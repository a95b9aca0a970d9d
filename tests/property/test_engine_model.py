"""The engine beside its model: random operations in random batches, compared row by row after each."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from anew.backoff import Policy
from anew.clock import ManualClock
from anew.engine import (
    Batch,
    Call,
    Engine,
    Enqueue,
    Fail,
    Limits,
    Op,
    Release,
    Succeed,
    Taker,
    recover,
    verbs,
)
from anew.engine.upkeep import lapse, reap
from anew.errors import IllegalTransition, NotFound
from anew.jobs import Backoff, Defaults, Failed, NewJob, Retention, State
from anew.jobs.patch import Patch, RetentionPatch
from anew.store.postgres import open_postgres
from anew.store.protocol import Store, TakenRow
from anew.store.selection import Filter, Page
from anew.store.sqlite import open_sqlite
from tests.postgres import empty_database

from .engine_model import DEAD_MS, ENDED, LEASE_MS, Model, Row

NIGHTLY = bool(os.environ.get("ANEW_NIGHTLY"))
QUEUES = ("a", "b", "c")
ALL = Page(limit=1_000_000)
RANK = {Enqueue: 0, Succeed: 1, Fail: 2}

queues = st.sampled_from(QUEUES)
picks = st.integers(0, 2**16)
more = st.booleans()
delays_ms = st.sampled_from([-5_000, 0, 1, 1_000, 20_000])


@dataclass
class Planned:
    """An operation of the next batch, and how the model does it: called with the answer and now."""

    op: Op
    check: Callable[[Any, int], None]
    answers: list[Any]


class EngineMachine(RuleBasedStateMachine):
    """Operations gather in `batch` until one comes that says so; then engine and model apply them."""

    lasting = False

    def __init__(self) -> None:
        super().__init__()
        # The model promotes, lapses and reaps without bounds; the bounds have cases of their own.
        self.unbounded = [
            mock.patch(f"anew.engine.{name}.PROMOTE_JOBS", 1_000_000) for name in ("engine", "upkeep")
        ]
        for patch in self.unbounded:
            patch.start()
        self.directory = Path(tempfile.mkdtemp()) if self.lasting else None
        self.clock = ManualClock()
        self.batch: list[Planned] = []
        self.takers: list[Taker] = []
        self.delivered: list[tuple[Taker, list[TakenRow], int]] = []
        self.last_key = -1

    @initialize(limit=st.sampled_from([0, 1, 4]), completed_ms=st.sampled_from([0, 30_000]))
    def begin(self, limit: int, completed_ms: int) -> None:
        self.limit = limit
        self.model = Model(completed_ms)
        self.store: Store = self.open()
        self.engine = self.new_engine()

    def open(self) -> Store:
        return open_sqlite(self.directory, relaxed=True)

    def new_engine(self) -> Engine:
        return Engine(
            self.store,
            clock=self.clock,
            defaults=Defaults(
                policy=Policy.from_json({"curve": {"constant": "10s"}, "limit": 2}),
                completed_ms=self.model.completed_ms,
                dead_ms=DEAD_MS,
            ),
            limits=Limits(global_in_flight=self.limit, max_lease_ms=LEASE_MS, min_free_bytes=0),
        )

    def teardown(self) -> None:
        for patch in self.unbounded:
            patch.stop()
        self.store.close()
        if self.directory is not None:
            shutil.rmtree(self.directory)

    # -- batches

    def plan(self, op: Op, more: bool, check: Callable[[Any, int], None]) -> None:
        answers: list[Any] = []
        op.done = answers.append
        self.batch.append(Planned(op, check, answers))
        if not more:
            self.flush()

    def flush(self) -> None:
        """Apply the batch: promote; new jobs first, then successes, failures, the rest; promote again; then hand out."""
        batch, self.batch = self.batch, []
        now = self.clock.now()
        self.engine.apply([planned.op for planned in batch])
        self.model.promote(now)
        for planned in sorted(batch, key=lambda planned: RANK.get(type(planned.op), 3)):
            (answer,) = planned.answers
            planned.check(answer, now)
        self.model.promote(now)
        delivered, self.delivered = self.delivered, []
        for taker, rows, at in delivered:
            assert at == now
            self.hand_out(taker, rows, now)
        self.nobody_waits()

    def hand_out(self, taker: Taker, rows: list[TakenRow], now: int) -> None:
        """What a taker was given must be the first in line of its queues, as it stood."""
        assert taker in self.takers
        assert not taker.paused
        keys = [row[0] for row in rows]
        assert keys == self.model.line(taker.queues)[: len(keys)]
        for key, queue, _, priority, ready_at, attempts, *_ in rows:
            job = self.model.rows[key]
            assert (queue, priority, ready_at, attempts) == (
                job.queue,
                job.priority,
                job.ready_at,
                job.attempts,
            )
            job.state, job.holder, job.deadline = State.IN_FLIGHT, taker.number, now + LEASE_MS

    def nobody_waits(self) -> None:
        """No ready job waits beside a taker with a free slot, unless the global limit holds it."""
        held = self.model.held()
        assert not self.limit or held <= self.limit
        if self.limit and held == self.limit:
            return
        for taker in self.takers:
            mine = sum(row.holder == taker.number for row in self.model.rows.values())
            assert mine <= taker.prefetch
            if not taker.paused and mine < taker.prefetch:
                assert self.model.line(taker.queues) == []

    def pick(self, number: int, *states: State) -> int:
        """Choose a job, one in these states where there is one; an unknown key where there is none at all."""
        keys = sorted(key for key, row in self.model.rows.items() if row.state in states) or sorted(
            self.model.rows
        )
        return keys[number % len(keys)] if keys else number

    # -- new jobs

    def plan_enqueue(
        self, jobs: list[NewJob], rows: list[dict[str, Any]], more: bool, *, plain: bool = False
    ) -> None:
        def check(answer: Any, now: int) -> None:
            keys, at = answer.keys, answer.now
            assert at == now
            assert [*keys] == sorted(set(keys))
            for key, job, extra in zip(keys, jobs, rows, strict=True):
                assert key > self.last_key
                self.last_key = key
                ready_at = now if job.ready_at is None else job.ready_at
                state = State.SCHEDULED if ready_at > now else State.READY
                self.model.add(Row(key, job.queue, job.priority, state, ready_at, **extra))

        self.plan(Enqueue(jobs, print, plain=plain), more, check)

    @rule(queue=queues, n=st.integers(1, 3), more=more)
    def enqueue_plain(self, queue: str, n: int, more: bool) -> None:
        jobs = [NewJob("send", queue, msgspec.Raw(b"{}")) for _ in range(n)]
        self.plan_enqueue(jobs, [{}] * n, more, plain=True)

    @rule(
        queue=queues,
        priority=st.sampled_from([0, 32_768, 65_535]),
        delay_ms=st.none() | delays_ms,
        limit=st.none() | st.integers(0, 3),
        base_ms=st.none() | st.sampled_from([0, 500]),
        completed_ms=st.none() | st.sampled_from([0, 20_000]),
        dead_ms=st.none() | st.sampled_from([0, 90_000]),
        size=st.sampled_from([2, 3_000]),
        more=more,
    )
    def enqueue_rich(
        self,
        queue: str,
        priority: int,
        delay_ms: int | None,
        limit: int | None,
        base_ms: int | None,
        completed_ms: int | None,
        dead_ms: int | None,
        size: int,
        more: bool,
    ) -> None:
        """Own backoff with exponent 0: a second plus the base, whichever retry it is."""
        keeps = completed_ms is not None or dead_ms is not None
        job = NewJob(
            "send",
            queue,
            msgspec.Raw(b"7" * size),
            priority=priority,
            ready_at=None if delay_ms is None else self.clock.now() + delay_ms,
            retry_limit=limit,
            backoff=None if base_ms is None else Backoff(0.0, base_ms, 0),
            retention=Retention(completed_ms, dead_ms) if keeps else None,
        )
        row = {
            "limit": limit,
            "wait_ms": None if base_ms is None else 1_000 + base_ms,
            "completed_ms": completed_ms,
            "dead_ms": dead_ms,
        }
        self.plan_enqueue([job], [row], more)

    @rule(n=st.sampled_from([0, 99, 101]), delay_ms=st.sampled_from([None, 1_000]), more=more)
    @precondition(lambda self: len(self.model.rows) < 300)
    def enqueue_bulk(self, n: int, delay_ms: int | None, more: bool) -> None:
        at = None if delay_ms is None else self.clock.now() + delay_ms
        jobs = [
            NewJob("send", QUEUES[i % 3], msgspec.Raw(b"1"), priority=i % 5, ready_at=at) for i in range(n)
        ]
        self.plan_enqueue(jobs, [{}] * n, more)

    # -- takers

    @rule(
        names=st.none() | st.lists(queues, min_size=1, max_size=3), prefetch=st.sampled_from([1, 2, 5, 150])
    )
    @precondition(lambda self: len(self.takers) < 6)
    def add_taker(self, names: list[str] | None, prefetch: int) -> None:
        taker = Taker(names, prefetch, lambda rows, now: self.delivered.append((taker, rows, now)))
        self.takers.append(taker)
        self.engine.dispatcher.add(taker)
        self.flush()

    @rule(number=picks, interrupted=st.booleans(), more=more)
    @precondition(lambda self: self.takers)
    def release(self, number: int, interrupted: bool, more: bool) -> None:
        taker = self.takers.pop(number % len(self.takers))
        self.engine.dispatcher.remove(taker)

        def check(answer: Any, now: int) -> None:
            held = [row for row in self.model.rows.values() if row.holder == taker.number]
            assert answer == len(held)
            for row in held:
                self.model.give_back(row, now, interrupted=interrupted)

        self.plan(Release(taker, print, interrupted=interrupted), more, check)

    @rule(number=picks)
    @precondition(lambda self: self.takers)
    def pause_or_resume(self, number: int) -> None:
        taker = self.takers[number % len(self.takers)]
        dispatcher = self.engine.dispatcher
        (dispatcher.resume if taker.paused else dispatcher.pause)(taker)
        self.flush()

    # -- the ends of attempts

    @rule(numbers=st.lists(picks, min_size=1, max_size=4), stray=st.booleans(), more=more)
    def succeed(self, numbers: list[int], stray: bool, more: bool) -> None:
        """Single and in bulk, with keys twice, of jobs in other states and of no job at all."""
        states = () if stray else (State.IN_FLIGHT,)
        keys = tuple(self.pick(number, *states) for number in numbers) + ((12_345, -1) if stray else ())

        def check(answer: Any, now: int) -> None:
            assert answer == self.model.succeed(keys, now)

        self.plan(Succeed(keys, print), more, check)

    @rule(more=more)
    @precondition(lambda self: self.model.held() > 20)
    def succeed_in_bulk(self, more: bool) -> None:
        keys = tuple(key for key, row in self.model.rows.items() if row.state is State.IN_FLIGHT)

        def check(answer: Any, now: int) -> None:
            assert answer == self.model.succeed(keys, now)

        self.plan(Succeed(keys, print), more, check)

    @rule(number=picks, kill=st.booleans(), delay_ms=st.none() | delays_ms, stray=st.booleans(), more=more)
    def fail(self, number: int, kill: bool, delay_ms: int | None, stray: bool, more: bool) -> None:
        key = self.pick(number, *(() if stray else (State.IN_FLIGHT,)))
        retry_at = None if delay_ms is None else self.clock.now() + delay_ms

        def check(answer: Any, now: int) -> None:
            state = self.model.fail(key, now, kill=kill, retry_at=retry_at)
            assert isinstance(answer, NotFound) if state is None else answer.state is state

        self.plan(Fail(key, Failed(message="no", kill=kill, retry_at=retry_at), print), more, check)

    @rule(number=picks, more=more)
    def fail_plainly(self, number: int, more: bool) -> None:
        self.fail(number, kill=False, delay_ms=None, stray=False, more=more)

    # -- the rarer verbs

    @rule(
        number=picks,
        queue=st.none() | queues,
        priority=st.none() | st.integers(0, 9),
        delay_ms=st.sampled_from(["keep", None, -1, 0, 20_000]),
        limit=st.sampled_from(["keep", None, 0, 5]),
        completed_ms=st.sampled_from(["keep", "keep", None, 0, 15_000]),
        held=st.booleans(),
        more=more,
    )
    def patch(
        self,
        number: int,
        queue: str | None,
        priority: int | None,
        delay_ms: Any,
        limit: Any,
        completed_ms: Any,
        held: bool,
        more: bool,
    ) -> None:
        key = self.pick(number, *([State.IN_FLIGHT] if held else []))
        given: dict[str, Any] = {"queue": queue, "priority": priority}
        given = {name: value for name, value in given.items() if value is not None}
        if limit != "keep":
            given["retry_limit"] = limit
        if completed_ms != "keep":
            given["retention"] = RetentionPatch(completed_ms=completed_ms)
        if delay_ms != "keep":
            given["ready_at"] = None if delay_ms is None else self.clock.now() + delay_ms

        def check(answer: Any, now: int) -> None:
            row = self.model.rows.get(key)
            if row is None:
                assert isinstance(answer, NotFound)
                return
            if row.state in ENDED:
                assert isinstance(answer, IllegalTransition)
                return
            row.queue, row.priority = given.get("queue", row.queue), given.get("priority", row.priority)
            row.limit = given.get("retry_limit", row.limit)
            row.completed_ms = row.completed_ms if completed_ms == "keep" else completed_ms
            if "ready_at" in given:
                self.model.move(row, given["ready_at"], now)
            assert (answer.state, answer.ready_at, answer.queue) == (row.state, row.ready_at, row.queue)

        self.plan(Call(verbs.patch_one(key, Patch(**given)), print), more, check)

    @rule(number=picks, more=more)
    def delete(self, number: int, more: bool) -> None:
        key = self.pick(number)

        def check(answer: Any, now: int) -> None:
            if key in self.model.rows:
                assert answer is None
                self.model.remove(key)
            else:
                assert isinstance(answer, NotFound)

        self.plan(Call(verbs.delete_one(key), print), more, check)

    @rule(sure=st.integers(0, 5), more=more)
    def delete_all(self, sure: int, more: bool) -> None:
        if sure:
            return

        def check(answer: Any, now: int) -> None:
            assert answer == len(self.model.rows)
            for key in list(self.model.rows):
                self.model.remove(key)

        self.plan(Call(Batch.delete_all, print), more, check)

    @rule(number=picks, more=more)
    def cancel(self, number: int, more: bool) -> None:
        key = self.pick(number)

        def check(answer: Any, now: int) -> None:
            row = self.model.rows.get(key)
            if row is None:
                assert isinstance(answer, NotFound)
            elif row.state in ENDED:
                assert isinstance(answer, IllegalTransition)
            else:
                assert answer.state is State.CANCELLED
                self.model.end(row, State.CANCELLED, DEAD_MS if row.dead_ms is None else row.dead_ms, now)

        self.plan(Call(verbs.cancel_one(key), print), more, check)

    @rule(number=picks, reset=st.booleans(), more=more)
    def redrive(self, number: int, reset: bool, more: bool) -> None:
        key = self.pick(number, State.DEAD, State.CANCELLED)

        def check(answer: Any, now: int) -> None:
            row = self.model.rows.get(key)
            if row is None or (row.purge_at is not None and row.purge_at <= now):
                assert isinstance(answer, NotFound)
            elif row.state not in (State.DEAD, State.CANCELLED):
                assert isinstance(answer, IllegalTransition)
            else:
                row.state, row.ready_at, row.purge_at = State.READY, now, None
                row.attempts = 0 if reset else row.attempts
                assert (answer.state, answer.attempts) == (State.READY, row.attempts)

        self.plan(Call(verbs.redrive_one(key, reset_attempts=reset), print), more, check)

    # -- time

    @rule(ms=st.sampled_from([0, 1, 1_000, 1_500, 10_000, 30_000, 60_000, 90_000]))
    def advance(self, ms: int) -> None:
        """Promotion happens in whatever batch comes next."""
        self.clock.advance(ms)
        self.flush()

    @rule(more=more)
    def tick(self, more: bool) -> None:
        def check(answer: Any, now: int) -> None:
            assert answer == self.model.lapse(now)

        self.plan(Call(lapse, print), more, check)

    @rule(more=more)
    def reap(self, more: bool) -> None:
        def check(answer: Any, now: int) -> None:
            assert answer == self.model.reap(now)

        self.plan(Call(reap, print), more, check)

    @precondition(lambda self: self.lasting)
    @rule(jump_ms=st.sampled_from([0, 0, 5_000, -1, -3_600_000]), flushed=st.booleans())
    def restart(self, jump_ms: int, flushed: bool) -> None:
        """A batch that was never applied is never known; takers are gone; what was in flight is ready."""
        if flushed:
            self.flush()
        self.batch.clear()
        self.store.close()
        self.clock.jump(jump_ms)
        self.takers.clear()
        self.store = self.open()
        self.engine = self.new_engine()
        assert recover(self.engine, limit=7) == self.model.held()
        now = self.clock.now()
        for row in self.model.rows.values():
            if row.state is State.IN_FLIGHT:
                self.model.give_back(row, now, interrupted=False)
        self.flush()

    # -- what must hold after each step

    @invariant()
    def each_job_is_in_one_state_and_it_is_the_models(self) -> None:
        jobs = self.store.load(self.store.find(Filter(), ALL))
        stored = [
            (job.key, job.queue, job.priority, job.state, job.ready_at, job.attempts, job.interruptions, job.purge_at,
             job.retry_limit)
            for job in jobs
        ]  # fmt: skip
        expected = [
            (row.key, row.queue, row.priority, row.state, row.ready_at, row.attempts, row.interruptions, row.purge_at,
             row.limit)
            for row in sorted(self.model.rows.values(), key=lambda row: row.key)
        ]  # fmt: skip
        assert stored == expected

    @invariant()
    def counters_equal_the_rows(self) -> None:
        told = {
            (queue, state): n
            for queue, states in self.store.queues.counts().items()
            for state, n in states.items()
            if n != 0
        }
        assert told == self.model.counts()

    @invariant()
    def holders_mirror_what_is_in_flight(self) -> None:
        holders = {key: taker.number for key, taker in self.engine.dispatcher.holders.items()}
        assert holders == {
            row.key: row.holder for row in self.model.rows.values() if row.state is State.IN_FLIGHT
        }
        for taker in self.takers:
            assert set(taker.held) == {key for key, holder in holders.items() if holder == taker.number}

    @invariant()
    def the_next_due_time_is_known(self) -> None:
        known, earliest = self.store.next_due(), self.model.next_due()
        assert self.engine.due_at == known
        # It may come earlier, to prepare what is due later.
        assert known == earliest or (known is not None and earliest is not None and known < earliest)

    @invariant()
    def every_failed_attempt_is_kept_as_long_as_its_job(self) -> None:
        for row in self.model.rows.values():
            if row.records:
                assert len(self.store.records.errors(row.key, ALL)) == row.records
        for key in self.model.gone[-20:]:
            assert self.store.records.errors(key, ALL) == []


class LastingMachine(EngineMachine):
    """The same on a store that outlives restarts."""

    lasting = True


class PostgresMachine(LastingMachine):
    """The same in a PostgreSQL database, which each run finds empty."""

    def __init__(self) -> None:
        super().__init__()
        # A process whose connection is lost for a moment is not taken for dead; here all that go are.
        self.unbounded.append(mock.patch("anew.store.postgres.presence.GRACE_S", 0.0))
        self.unbounded[-1].start()
        self.url = empty_database()

    def open(self) -> Store:
        return open_postgres(self.url, relaxed=True)


def tuned(machine: type[EngineMachine], examples: int, steps: int) -> Any:
    """A test case of a machine, with so many runs of so many steps; more by night."""
    case = machine.TestCase
    case.settings = settings(
        max_examples=examples * (50 if NIGHTLY else 1),
        stateful_step_count=steps * (4 if NIGHTLY else 1),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return case


TestInMemory = tuned(EngineMachine, 80, 50)
TestInADirectory = tuned(LastingMachine, 40, 50)
TestInPostgres = tuned(PostgresMachine, 10, 30)
