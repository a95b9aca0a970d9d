"""Any policy in any scenario: the vectorised simulation and the engine's own decisions give one outcome."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anew.backoff import Policy
from anew.lab import Outcome, Scenario, simulate
from tests.property.examples import examples

from .backoff_forms import policies, slices

pytest.importorskip("numpy", reason="pip install 'anew[lab]'")

times_ms = st.one_of(st.just(0), st.integers(0, 100_000), st.integers(0, 40 * 86_400_000))
some = st.one_of(st.none(), st.integers(1, 60_000))


@st.composite
def limited(draw: st.DrawFn) -> Policy:
    """Any policy of few retries, sometimes with a deadline."""
    body: dict[str, Any] = draw(st.one_of(policies(), slices()))
    body["limit"] = draw(st.integers(0, 8))
    if draw(st.booleans()):
        body["deadline"] = draw(st.integers(0, 10_000_000))
        body["on_deadline"] = draw(st.sampled_from(["finish", "clip"]))
    return Policy.from_json(body)


scenarios = st.fixed_dictionaries(
    {
        "jobs": st.integers(1, 15),
        "seed": st.integers(0, 2**40),
        "over_ms": times_ms,
        "outage_ms": times_ms,
        "success": st.sampled_from([0.0, 0.3, 1.0]),
        "latency_ms": st.integers(0, 5_000),
        "timeout_ms": some,
        "phase": st.sampled_from(["seq", "hash"]),
        "horizon_ms": st.one_of(st.none(), times_ms),
    }
)
limits = st.fixed_dictionaries(
    {
        "capacity": st.one_of(st.none(), st.floats(0.01, 1_000)),
        "workers": st.one_of(st.none(), st.integers(1, 9)),
        "base_rate": st.one_of(st.just(0.0), st.floats(0.001, 2.0)),
        "horizon_ms": st.integers(0, 60_000),
    }
)


def add_up(outcome: Outcome) -> None:
    """What must hold whatever happens."""
    assert outcome.succeeded + outcome.dead + outcome.waiting == outcome.jobs
    assert sum(line.calls for line in outcome.retries) == outcome.calls == sum(outcome.load.counts)
    assert outcome.peak_second <= outcome.peak_minute <= outcome.calls
    assert outcome.herd_calls + (outcome.fresh.retries if outcome.fresh else 0) == outcome.calls
    assert outcome.even_second is None or 0 < outcome.even_second <= outcome.peak_second
    assert outcome.silence is None or 0 <= outcome.silence.share < 1
    assert all(line.earliest_ms <= line.median_ms <= line.latest_ms for line in outcome.retries)
    down = outcome.downstream
    if down is not None:
        assert (
            len(down.offered)
            == len(down.served)
            == len(down.abandoned)
            == len(down.backlog)
            == len(down.held)
        )
        assert sum(down.offered) == outcome.calls + (outcome.fresh.calls if outcome.fresh else 0)
        assert min(down.backlog, default=0) >= 0
        assert min(down.held, default=0) >= 0


def end_in_time(outcome: Outcome, scenario: Scenario) -> None:
    """No bin begins at the horizon or later, and none is missing."""
    if scenario.end_ms:
        bins = -(-scenario.end_ms // outcome.load.bin_ms)
        assert len(outcome.load.counts) <= bins
        assert outcome.downstream is None or len(outcome.downstream.offered) <= bins


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(limited(), scenarios)
def test_jobs_apart(policy: Policy, body: dict[str, Any]) -> None:
    scenario = Scenario.from_json(body)
    outcome = simulate(policy, scenario)
    add_up(outcome)
    end_in_time(outcome, scenario)
    assert outcome == simulate(policy, scenario, exact=True)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(limited(), scenarios, limits)
def test_jobs_that_hinder_each_other(policy: Policy, body: dict[str, Any], bounds: dict[str, Any]) -> None:
    scenario = Scenario.from_json(body | bounds)
    outcome = simulate(policy, scenario)
    add_up(outcome)
    end_in_time(outcome, scenario)
    assert outcome == simulate(policy, scenario, exact=True)
