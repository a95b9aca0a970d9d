"""Calls that become one job, beside a plain model: each call is in one job, and no job runs before or long after its calls say."""

from __future__ import annotations

import json
from dataclasses import dataclass

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from anew.engine.verbs import delete_one
from anew.jobs.codec import FoldRule, JobHooks, LimitKey, PushedJob
from anew.jobs.fold import call_digest
from anew.store.selection import Filter
from tests.property.examples import examples
from tests.unit.engine.rig import ALL, Rig, call, fail, succeed

KEYS = ("a", "b")
PERIOD_MS, MOST_MS = 1_000, 3_000


class Lists:
    """Stands for jq: joins two lists."""

    most_bytes = 1_000_000

    def folded(self, when: str, fold: str, existing: bytes, new: bytes) -> bytes:
        return json.dumps(json.loads(existing) + json.loads(new)).encode()

    def check_fold(self, when: str, fold: str, payload: bytes, what: str = "batch") -> bytes:
        raise NotImplementedError

    def close(self) -> None: ...


@dataclass
class Waiting:
    """A job of the model."""

    key: int
    calls: list[int]
    first_at: int
    due_at: int


class Calls(RuleBasedStateMachine):
    """One engine, and one worker that takes only when asked."""

    @initialize(limited=st.booleans())
    def start(self, limited: bool) -> None:
        self.rig = Rig()
        self.rig.engine.parts.expressions = Lists()
        self.limit = LimitKey("one", 1) if limited else None
        self.number = 0
        self.open: dict[str, Waiting] = {}
        self.ran: list[int] = []
        self.running: list[int] = []

    def _now(self) -> int:
        return self.rig.clock.now()

    @rule(calls=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=4))
    def call(self, calls: list[tuple[str, bool]]) -> None:
        """Debounced calls, or merged ones without a period, in one list."""
        now, jobs, expected = self._now(), [], []
        for key, debounced in calls:
            self.number += 1
            jobs.append(self._job(key, debounced))
            wait = PERIOD_MS if debounced else 0
            job = self.open.get(key)
            if job is None:
                job = self.open[key] = Waiting(0, [], now, now + wait)
            elif debounced:
                job.due_at = min(now + PERIOD_MS, job.first_at + MOST_MS)
            else:
                job.due_at = min(job.due_at, now)
            job.calls.append(self.number)
            expected.append(job)
        for job, key in zip(expected, self.rig.put(*jobs), strict=True):
            assert job.key in (0, key)
            job.key = key

    def _job(self, key: str, debounced: bool) -> PushedJob:
        waits = {"quiet_ms": PERIOD_MS, "most_ms": MOST_MS} if debounced else {}
        hooks = JobHooks(
            fold=call_digest("t", "", key.encode()), rule=FoldRule(**waits, merge="+"), limit=self.limit
        )
        return PushedJob("t", "q", msgspec.Raw(b"[%d]" % self.number), hooks=hooks)

    @rule(ms=st.sampled_from([1, 400, 999, 1_000, 2_500]))
    def wait(self, ms: int) -> None:
        self.rig.advance(ms)

    @rule()
    def take_all(self) -> None:
        """Whatever may start is taken; a limited key lets one start at a time."""
        worker = self.rig.worker(["q"], prefetch=100)
        payloads = {row[0]: json.loads(row[-1]) for row in worker.rows}
        due = {job.key: job.calls for job in self.open.values() if job.due_at <= self._now()}
        if self.limit is None:
            assert payloads == due
        else:
            assert payloads.items() <= due.items()
            assert bool(payloads) == (bool(due) and not self.running)
        self.rig.engine.dispatcher.remove(worker.taker)
        self.running += payloads
        self.ran += [one for calls in payloads.values() for one in calls]
        self.open = {key: job for key, job in self.open.items() if job.key not in payloads}

    @rule(well=st.booleans())
    def end(self, well: bool) -> None:
        """What runs ends; a job that has failed waits for its retry by itself, for longer than these tests last."""
        for key in self.running:
            if well:
                self.rig.do(succeed(key))
            else:
                self.rig.do(fail(key, kill=True))
        self.running.clear()

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: str) -> None:
        job = self.open.pop(key, None)
        if job is not None:
            self.rig.do(call(delete_one(job.key)))
            self.ran += job.calls

    @invariant()
    def every_call_is_in_one_job(self) -> None:
        waiting = [one for job in self.open.values() for one in job.calls]
        assert sorted(self.ran + waiting) == list(range(1, self.number + 1))
        stored = {job.key: job.ready_at for job in self.rig.store.load(self.rig.store.find(Filter(), ALL))}
        for job in self.open.values():
            due_at = stored[job.key]
            assert due_at == job.due_at or max(due_at, job.due_at) <= self._now()

    @invariant()
    def the_rows_and_what_is_counted_agree(self) -> None:
        found = self.rig.store.reader().recount()
        assert (found.counters, found.heads, found.blocked, list(found.forgotten)) == ({}, [], {}, [])


TestCalls = Calls.TestCase
TestCalls.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
