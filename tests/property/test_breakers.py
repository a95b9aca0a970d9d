"""Breakers whatever happens: held jobs come back no faster than the rate, one probe at a time, and no hold burns an attempt."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from anew import Anew
from anew.backoff import Policy
from anew.clock import ManualClock
from anew.jobs import Failed, Outcome, Snoozed, State
from anew.jobs.breaker import BreakerRow, BreakerSettings, BreakerState, closed, may_start, ran
from anew.tasks.downstream import Downstream
from anew.tasks.embedded import EmbeddedBackend
from anew.tasks.opening import open_engine
from anew.tasks.running import Run
from anew.tasks.source import EmbeddedSource, Want
from tests.property.examples import examples

NOW = 1_700_000_000_000

SETTINGS = st.builds(
    BreakerSettings,
    failures=st.floats(0.01, 1),
    least=st.integers(1, 5),
    window_ms=st.integers(1, 100_000),
    cooldown=st.just(Policy.from_json({"curve": {"exponential": {"base": "1s"}}, "cap": "10s"})),
    spacing_ms=st.integers(1, 2_000),
    budget=st.none() | st.floats(0, 1),
)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.booleans()),
        st.tuples(st.just("end"), st.sampled_from([True, False, False, None])),
        st.tuples(st.just("pass"), st.integers(-5_000, 20_000)),
        st.tuples(st.just("close"), st.none()),
    ),
    max_size=120,
)


@settings(max_examples=examples(200), deadline=None)
@given(SETTINGS, STEPS)
def test_held_jobs_are_released_one_by_one_and_probes_start_one_by_one(
    given_settings: BreakerSettings, steps: list[tuple[str, Any]]
) -> None:
    row, now, job = BreakerRow(key="k"), NOW, 0
    running: list[tuple[int, bool]] = []
    released: list[int] = []
    for kind, value in steps:
        if kind == "start":
            job += 1
            before = row
            start = may_start(row, given_settings, now, job=job, retry=value)
            row = start.row
            if start.held_until is not None:
                assert start.held_until > now
                released.append(start.held_until)
            else:
                running.append((job, value))
                if before.state is not BreakerState.CLOSED:
                    assert (row.state, row.probe) == (BreakerState.HALF_OPEN, job)
                    # A probe before it has been given up, or there was none.
                    assert before.state is BreakerState.OPEN or now >= before.reopen_at
        elif kind == "end" and running:
            ended, retry = running.pop(0)
            row = ran(row, given_settings, value, now, job=ended, retry=retry)
        elif kind == "pass":
            now += value
        elif kind == "close":
            row = closed(row, now)
        assert 0 <= row.failures <= row.runs + 1e-9
        assert row.retries >= 0
    spacing = given_settings.spacing_ms
    assert all(later - one >= spacing for one, later in pairwise(released))


OUTCOMES = st.sampled_from(["ok", "error", "error", "snooze", "limited"])


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), OUTCOMES, st.integers(0, 40_000)), min_size=5, max_size=40))
def test_only_reported_failures_are_attempts(turns: list[tuple[int, str, int]]) -> None:
    clock, app = ManualClock(), Anew()
    commit = open_engine(None, clock=clock)
    app.replace_store(EmbeddedBackend(commit), app.events)

    @app.task(name="call", downstream=Downstream("k", least=3, cooldown="5s", release=2), policy=["1s"] * 9)
    def call() -> None: ...

    source = EmbeddedSource(app, commit)
    handles = call.enqueue_many([()] * 30)
    failed: Counter[str] = Counter()
    succeeded: set[str] = set()
    running: list[Run] = []
    for number, outcome, ms in turns:
        clock.advance(ms)
        ended, running = running[:number], running[number:]
        for run in ended:
            run.end(_outcome(outcome, clock.now()))
            failed[run.job_id] += outcome == "error"
            succeeded |= {run.job_id} if outcome == "ok" else set()
        done = source.exchange(ended, (), [Want(None, number)])
        assert done.lost == done.again == []
        running += done.taken[0]
    for handle in handles:
        job = app.backend.find(handle.id)
        assert (job is None) is (handle.id in succeeded)
        if job is not None:
            assert job.attempts == failed[handle.id]
            assert (job.state is State.DEAD) is (failed[handle.id] == 10)
    app.close()


def _outcome(name: str, now: int) -> Outcome | None:
    match name:
        case "ok":
            return None
        case "error":
            return Failed(message="no", error_type="OSError")
        case "snooze":
            return Snoozed(ready_at=now + 1_000)
        case _:
            return Snoozed(ready_at=now + 3_000, outcome="rate_limited")
