"""Whatever policy is accepted: its laws are laws, its window is a window, and neither takes for ever."""

import math
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from anew.backoff import Draws, Policy, Wait, next_wait
from anew.lab.explain import explain
from anew.lab.last_retry import last_retry
from anew.lab.laws.wait import law
from tests.property.examples import examples

from .backoff_forms import YEAR_MS, policies, slices, units

deadlines = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {"deadline": st.integers(1, YEAR_MS)}, optional={"on_deadline": st.sampled_from(["finish", "clip"])}
    ),
)
TINY = {
    "curve": {"scale": {"by": 3e-49, "curve": {"constant": 1}}},
    "limit": None,
    "jitter": {"decorrelated": 980.0},
}
"""Grows from next to nothing to a year within twenty retries."""

PERCENTS = (0, 1, 5, 50, 95, 99, 100)


@settings(max_examples=examples(60), deadline=None)
@given(policies(), st.integers(1, 40))
def test_a_law_is_a_law(form: dict[str, Any], retry: int) -> None:
    found = law(Policy.from_json(form), 1 if "decorrelated" in form["jitter"] else retry)
    assert found is not None
    assert 0 <= found.earliest_ms <= found.latest_ms <= YEAR_MS
    # Cutting to milliseconds and a grid both cost a little at the ends.
    assert found.earliest_ms - 1 <= found.mean_ms * (1 + 1e-9) + 1
    assert found.mean_ms * (1 - 1e-9) <= found.latest_ms + 1
    assert 0 <= found.sd_ms <= (found.latest_ms - found.earliest_ms) / 2 * (1 + 1e-6) + 1
    values = [found.percentile(percent) for percent in PERCENTS]
    assert values == sorted(values)
    assert found.earliest_ms - 1 <= values[0]
    assert values[-1] <= found.latest_ms + 1
    for percent, value in zip(PERCENTS, values, strict=True):
        assert found.cdf(value + 1) >= percent / 100 - 1e-6
        assert found.cdf(value - 2) <= percent / 100 + 1e-6


@settings(max_examples=examples(60), deadline=None)
@given(policies(), st.integers(1, 40), units, units)
def test_no_wait_leaves_its_law(form: dict[str, Any], retry: int, number: float, phase: float) -> None:
    policy = Policy.from_json(form)
    retry = 1 if "decorrelated" in form["jitter"] else retry
    found = law(policy, retry)
    assert found is not None
    wait = next_wait(policy, retry, Draws(lambda: number, b"job", phase), beyond_limit=True)
    assert isinstance(wait, Wait)
    assert found.earliest_ms - 1 <= wait.wait_ms <= found.latest_ms + 1


@settings(max_examples=examples(80), deadline=None)
@given(st.one_of(policies(), slices()), deadlines, st.one_of(st.just(...), st.integers(0, 300)))
@example(TINY, {}, 25)
def test_a_window_is_a_window(form: dict[str, Any], deadline: dict[str, Any], limit: Any) -> None:
    body = form | deadline | ({} if limit is ... else {"limit": limit})
    policy = Policy.from_json(body)
    last_retry.cache_clear()
    shown = explain(policy, 25, outages_ms=[0, 10**6, 10**25], drawn=2_000)
    written = shown.to_json()
    lines = shown.words()
    assert lines
    assert written["outlives"][0]["share"] in (1, None)
    if policy.retries is None and policy.deadline_ms is None:
        assert written["window"] is None
        return
    found = shown.window
    if found is None:
        return
    assert written["outlives"][2]["share"] == 0
    assert 0 <= found.earliest_ms <= found.mean_ms <= found.latest_ms
    assert found.latest_ms <= (policy.deadline_ms or math.inf)
    values = [found.percentile(percent) for percent in PERCENTS]
    assert values == sorted(values)
    assert found.earliest_ms <= values[0]
    shares = [found.outlives(value) for value in values]
    assert shares == sorted(shares, reverse=True)
    for percent, value in zip(PERCENTS, values, strict=True):
        assert found.outlives(value) >= 1 - percent / 100 - 0.02
