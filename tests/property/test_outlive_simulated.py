"""Who outlives which outage: what `explain` says of any policy, against twenty thousand simulated jobs."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anew.backoff import Policy
from anew.lab import Scenario, simulate
from anew.lab.sums.outlive import LastRetry, window

pytest.importorskip("numpy", reason="pip install 'anew[lab]'")

JOBS = 20_000
SIGMAS = 5

curves = st.sampled_from(
    [
        {"constant": "1s"},
        {"constant": "250ms"},
        {"constant": 0},
        {"exponential": {"base": "1s"}},
        {"exponential": {"base": "500ms", "factor": 1.5}},
        {"exponential": {"base": "3s", "factor": 3}},
        {"power": {"exponent": 1}},
        {"power": {"exponent": 4}},
        {"linear": {"base": "1s", "step": "2s"}},
        {"table": ["1s", "5s", "5s", "1m"]},
        {"table": ["1m", "1s", "9s"]},
    ]
)
jitters = st.sampled_from(
    [
        "none",
        "full",
        "equal",
        "even",
        {"even": {"dither": 0.3}},
        "decorrelated",
        {"decorrelated": 1.5},
        {"around": 0.2},
        {"below": 0.5},
        {"above": {"share": 1, "step": "1s"}},
        {"above": {"share": 0.5, "source": "hash"}},
        {"above": {"share": 0.5, "source": "job"}},
        {"add": {"by": "4s", "faces": 2}},
        {"add": {"by": "4s", "faces": 30}},
        {"grow": {"by": "3s", "faces": 10}},
        {"full": {"cut": 700}},
    ]
)
clamps = {"cap": ["2s", "20s", "5m"], "ceil": ["2s", "3s", "30s", "5m"], "floor": ["500ms", "2s"]}
YEAR_MS = 365 * 86_400_000


@st.composite
def limited(draw: st.DrawFn) -> dict[str, Any]:
    """Policies that people might write: a curve, a jitter, a limit, and some of cap, ceil, floor and deadline."""
    form: dict[str, Any] = {"curve": draw(curves), "jitter": draw(jitters)}
    if draw(st.integers(0, 15)) == 0:
        form = {"curve": {"exponential": {"base": "1s"}}, "jitter": "slices"}
    form["limit"] = draw(st.sampled_from([1, 2, 3, 5, 8, 13, 25, 60]))
    for field, values in clamps.items():
        if draw(st.integers(0, 3)) == 0:
            form[field] = draw(st.sampled_from(values))
    if draw(st.integers(0, 2)) == 0:
        form["deadline"] = draw(st.sampled_from(["7s", "1m", "10m"]))
        form["on_deadline"] = draw(st.sampled_from(["finish", "clip"]))
    return form


def model_error(form: dict[str, Any]) -> float:
    """Give how far a share may be off: what a walk of a few thousand jobs cannot tell, else a grid's last bits."""
    walked = (
        "decorrelated" in str(form["jitter"]) or "dither" in str(form["jitter"]) or form["jitter"] == "slices"
    )
    return (0.01 if "deadline" in form or "ceil" in form else 0.005) if walked else 0.001


def believable(found: LastRetry, outage: int, seen: float, error: float) -> bool:
    """Whether a share could have been simulated by a right law: as a share, or where it jumps, a moment off in time."""
    moment = outage // 500 + 5
    least, said, most = (found.outlives(max(at, 0)) for at in (outage + moment, outage, outage - moment))

    def slack(share: float) -> float:
        return SIGMAS * math.sqrt(max(share * (1 - share), 1e-4) / JOBS) + error

    return abs(seen - said) <= slack(said) or least - slack(least) <= seen <= most + slack(most)


@settings(
    max_examples=120 if os.environ.get("ANEW_NIGHTLY") else 40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(limited(), st.integers(0, 2**30))
def test_who_outlives_an_outage_is_who_does_in_a_simulation(form: dict[str, Any], seed: int) -> None:
    policy = Policy.from_json(form)
    found = window(policy)
    assert found is not None
    for percent in (3, 40, 75, 98):
        for outage in (found.percentile(percent), found.percentile(percent) + 1):
            herd = {"jobs": JOBS, "outage": outage, "seed": seed, "phase": "hash"}
            if not 0 < outage <= YEAR_MS:
                continue
            seen = simulate(policy, Scenario.from_json(herd)).succeeded / JOBS
            said = found.outlives(outage)
            assert believable(found, outage, seen, model_error(form)), (outage, said, seen)
