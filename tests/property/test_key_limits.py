"""Limits of keys under whatever happens to jobs: bounds hold, order holds, nothing is forgotten, and what is counted is so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from anew.engine import Fail, Fetch, Succeed
from anew.engine.throttles import limit_queue
from anew.engine.upkeep import lapse
from anew.engine.verbs import cancel_one, delete_one, patch_one, pause_one, redrive_one
from anew.jobs import Failed, HoldEnd, HoldKind, Job, Snoozed, State
from anew.jobs.codec import JobHooks, LimitKey, PushedJob
from anew.jobs.limits import Throttle
from anew.jobs.patch import Patch
from anew.store.protocol import Hold
from anew.store.selection import Filter
from tests.property.examples import examples
from tests.unit.engine.rig import ALL, Rig, Worker, call, ignore

QUEUES = ("mail", "news")
KEYS = ("a", "b", "c")
BOUNDS = {"a": (1, None), "b": (2, (2, 60_000, 2)), "c": (None, (1, 10_000, 1))}
RESERVE_MS = 30_000

queues = st.sampled_from(QUEUES)
numbers = st.integers(0, 10**9)


class Limits(RuleBasedStateMachine):
    """One engine with takers of every kind, and a clock."""

    @initialize(keeps=st.booleans())
    def start(self, keeps: bool) -> None:
        self.rig = Rig(dead_ms=3_600_000 if keeps else 0)
        self.key_of: dict[int, str] = {}
        self.runs: set[int] = set()
        self.gone: set[int] = set()
        self.streams: list[Worker] = []
        self.starts: dict[str, list[int]] = {}
        self.others = 0

    # -- what happens

    @rule(
        jobs=st.lists(
            st.tuples(
                queues, st.sampled_from([*KEYS, None]), st.integers(0, 2), st.sampled_from([0, 0, 5_000])
            ),
            min_size=1,
            max_size=8,
        )
    )
    def come(self, jobs: list[tuple[str, str | None, int, int]]) -> None:
        made = [self._job(*one) for one in jobs]
        with self._taking():
            keys = self.rig.put(*made)
        self.key_of |= {
            key: name for key, (_, name, _, _) in zip(keys, jobs, strict=True) if name is not None
        }

    def _job(self, queue: str, name: str | None, priority: int, delay: int) -> PushedJob:
        limit = None if name is None else LimitKey(name, *BOUNDS[name])
        return PushedJob(
            type="send",
            queue=queue,
            payload=msgspec.Raw(b"1"),
            priority=priority,
            ready_at=self.rig.clock.now() + delay if delay else None,
            jid="j",
            reserve_ms=RESERVE_MS,
            hooks=None if limit is None else JobHooks(limit=limit),
        )

    @rule(named=st.sampled_from([None, ("mail",), ("news",)]), most=st.integers(1, 5))
    def take(self, named: tuple[str, ...] | None, most: int) -> None:
        def verb(batch: Any) -> None:
            batch.unblock()
            hold = Hold(HoldKind.SESSION, batch.new_token(), batch.store.session, None, batch.now)
            batch.take_under(hold, named, most, 1 << 20)

        self._do(call(verb))

    @rule(queue=queues)
    def fetch(self, queue: str) -> None:
        op = Fetch([queue], ignore)
        self._do(op, answered=False)
        self.rig.engine.fetches.call_off(op)

    @rule(prefetch=st.integers(1, 3), named=st.sampled_from([None, ("mail",)]))
    def stream(self, prefetch: int, named: tuple[str, ...] | None) -> None:
        if len(self.streams) < 2:
            with self._taking():
                self.streams.append(self.rig.worker(named, prefetch))

    @rule(number=numbers, interrupted=st.booleans())
    def leave(self, number: int, interrupted: bool) -> None:
        if self.streams:
            self._do(self.rig.leave(self.streams.pop(number % len(self.streams)), interrupted=interrupted))

    @rule(
        number=numbers,
        how=st.sampled_from(
            ["well", "well", "badly", "dead", "snoozed", "died", "cancel", "delete", "given"]
        ),
    )
    def end(self, number: int, how: str) -> None:
        running = self._in(State.IN_FLIGHT)
        if not running:
            return
        job = running[number % len(running)]
        ends: dict[str, Any] = {
            "well": Succeed([job.key], ignore),
            "died": call(lambda batch: batch.end_holds([job.key], HoldEnd.PROCESS_DIED)),
            "given": call(lambda batch: batch.release([job.key], None)),
            "cancel": call(cancel_one(job.key)),
            "delete": call(delete_one(job.key)),
        }
        if how in ends:
            self._do(ends[how])
            return
        outcomes: dict[str, Any] = {
            "badly": Failed(message="no", retry_at=self.rig.clock.now() + 1_000),
            "dead": Failed(message="no", kill=True),
            "snoozed": Snoozed(ready_at=self.rig.clock.now() + 2_000, reason=""),
        }
        self._do(Fail(job.key, outcomes[how], ignore))

    @rule(
        number=numbers,
        what=st.sampled_from(["cancel", "delete", "queue", "priority", "later", "redrive"]),
        queue=queues,
    )
    def change(self, number: int, what: str, queue: str) -> None:
        wanted = (
            (State.DEAD, State.CANCELLED)
            if what == "redrive"
            else (State.READY, State.SCHEDULED, State.RETRYING)
        )
        waiting = self._in(*wanted)
        if not waiting:
            return
        key = waiting[number % len(waiting)].key
        verbs: dict[str, Any] = {
            "cancel": cancel_one(key),
            "delete": delete_one(key),
            "queue": patch_one(key, Patch(queue=queue)),
            "priority": patch_one(key, Patch(priority=number % 3)),
            "later": patch_one(key, Patch(ready_at=self.rig.clock.now() + 3_000)),
            "redrive": redrive_one(key),
        }
        self._do(call(verbs[what]))

    @rule(ms=st.sampled_from([1, 1_000, 5_000, 10_000, 31_000]))
    def pass_time(self, ms: int) -> None:
        self.rig.clock.advance(ms)
        self._do(call(lapse))

    @rule(queue=queues, paused=st.booleans())
    def pause(self, queue: str, paused: bool) -> None:
        self._do(call(pause_one(queue, paused)))

    @rule(most=st.sampled_from([1, 3, None]))
    def limit_queue(self, most: int | None) -> None:
        self._do(call(limit_queue("mail", None if most is None else Throttle(concurrency=most))))

    # -- what must hold

    @invariant()
    def bounds_hold(self) -> None:
        running = [self.key_of[job.key] for job in self._in(State.IN_FLIGHT) if job.key in self.key_of]
        for name, (most, _) in BOUNDS.items():
            assert most is None or running.count(name) <= most, (name, running)

    @invariant()
    def rates_hold(self) -> None:
        """In any period at most the burst and what has run in since start."""
        for name, (_, rate) in BOUNDS.items():
            starts = self.starts.get(name, [])
            if rate is None:
                continue
            count, per_ms, burst = rate
            for first, at in enumerate(starts):
                for last in range(first, len(starts)):
                    most = burst + (starts[last] - at) * count // per_ms
                    assert last - first + 1 <= most, (name, starts)

    @invariant()
    def what_is_derived_is_right(self) -> None:
        reader = self.rig.store.reader()
        found = reader.recount()
        reader.close()
        assert (found.counters, found.blocked, found.heads, found.forgotten) == ({}, {}, [], [])
        amiss = self._rows("SELECT count(*) FROM limited WHERE job_id NOT IN (SELECT id FROM job)")
        assert amiss == [(0,)]

    @invariant()
    def nothing_is_forgotten(self) -> None:
        """Where a key lets jobs start, the first of it in each queue is in line; where its rate does not, its time is known."""
        blocked = self._rows(
            "SELECT name, queue, min(priority) FROM limited WHERE standing = 1 GROUP BY name, queue"
        )
        for name, queue, priority in blocked:
            most, _ = BOUNDS[name]
            running = sum(self.key_of.get(job.key) == name for job in self._in(State.IN_FLIGHT))
            look = self._rows("SELECT look_at FROM limit_key WHERE name = ?", name)[0][0]
            in_line = self._rows(
                "SELECT count(*) FROM job JOIN limited ON job_id = id WHERE name = ? AND job.queue = ? AND state = 30"
                " AND job.priority <= ?", name, queue, priority,
            )[0][0]  # fmt: skip
            full = most is not None and running >= most
            assert full or in_line or look is not None, (name, queue)
            if look is not None:
                assert self.rig.engine.wake_at is not None
                assert self.rig.engine.wake_at <= look

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        for queue in QUEUES:
            self._do(call(pause_one(queue, False)))
        self.limit_queue(None)
        self.stream(3, None)
        for _ in range(5_000):
            running = self._in(State.IN_FLIGHT)
            if running:
                self._do(Succeed([job.key for job in running], ignore))
            elif self._in(State.READY, State.SCHEDULED, State.RETRYING):
                at = self.rig.engine.wake_at
                self.take(None, 5)
                if at is not None and not self._in(State.IN_FLIGHT):
                    self.rig.clock.advance(max(1, at - self.rig.clock.now()))
                    self._do(call(lapse))
            else:
                break
        assert self._in(State.READY, State.SCHEDULED, State.RETRYING, State.IN_FLIGHT) == []
        self.what_is_derived_is_right()
        for key in self.rig.store.find(Filter(), ALL):
            self._do(call(delete_one(key)))
        self.rig.advance(3_600_000)
        assert self._rows("SELECT name FROM limit_key") == []
        assert self._rows("SELECT job_id FROM limited") == []

    # -- short hands

    def _do(self, op: Any, *, answered: bool = True) -> None:
        with self._taking():
            if answered:
                self.rig.do(op)
            else:
                self.rig.engine.apply([op])

    def _in(self, *states: State) -> list[Job]:
        store = self.rig.store
        return store.load(store.find(Filter(states=frozenset(states)), ALL))

    def _rows(self, statement: str, *bound: object) -> list[Any]:
        return self.rig.store._link.execute(statement, bound).fetchall()  # type: ignore[attr-defined, no-any-return]

    def _taking(self) -> Any:
        return _Noted(self)


class _Noted:
    """Sees which jobs start in between: of those of a key and queue that were ready before and after, none stood before them."""

    def __init__(self, machine: Limits) -> None:
        self._machine = machine

    def __enter__(self) -> None:
        self._before = {job.key: job for job in self._machine._in(State.READY)}
        self._tokens = {job.key: job.hold_token for job in self._machine._in(State.IN_FLIGHT)}

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            return
        machine = self._machine
        running = [job for job in machine._in(State.IN_FLIGHT) if self._tokens.get(job.key) != job.hold_token]
        left = {job.key for job in machine._in(State.READY)}
        self._note(running)
        for job in running:
            name, was = machine.key_of.get(job.key), self._before.get(job.key)
            if name is None or was is None or was.queue != job.queue:
                continue
            overtaken = self._ahead_of(was, name, left)
            assert not overtaken, (job.key, overtaken)

    def _ahead_of(self, job: Job, name: str, left: Iterable[int]) -> list[int]:
        place = (job.priority, job.key)
        return [
            other.key
            for other in self._before.values()
            if other.key in left
            and self._machine.key_of.get(other.key) == name
            and other.queue == job.queue
            and (other.priority, other.key) < place
        ]

    def _note(self, running: Iterable[Job]) -> None:
        machine = self._machine
        for job in running:
            name = machine.key_of.get(job.key) or _name_of(machine, job.key)
            if name is not None:
                machine.starts.setdefault(name, []).append(machine.rig.clock.now())


def _name_of(machine: Limits, key: int) -> str | None:
    rows = machine._rows("SELECT name FROM limited WHERE job_id = ?", key)
    return rows[0][0] if rows else None


TestLimits = Limits.TestCase
TestLimits.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
