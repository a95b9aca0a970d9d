"""Whatever policy is valid: lint looks at it and raises nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anew.lab import last_retry
from anew.lab.lint import Context, lint
from anew.lab.lint.documents import read_document
from anew.units import DAY_MS, HOUR_MS
from tests.property.backoff_forms import YEAR_MS, policies, slices

MINUTES = {"curve": {"exponential": {"base": "1m"}}, "limit": None, "deadline": "365d", "on_deadline": "clip"}
DAYS = {"curve": {"constant": "1d"}, "limit": None, "deadline": "365d"}
HELD = {"curve": {"exponential": {"base": "1s"}}, "jitter": "full", "floor": "1h", "limit": 8}
DENIED = {"waits-shrink", "thin-jitter", "full-halves-window", "curve-shrinks", "few-faces"}
"""Where every wait is the same, none of these can be so."""

SEVERAL_WAYS = Context(outages_ms=(HOUR_MS,), dead_retention_ms=DAY_MS, payload_retention_ms=DAY_MS)

bodies = st.builds(
    lambda form, more: form | more,
    st.one_of(policies(), slices()),
    st.fixed_dictionaries(
        # A million retries are no other rule, and take seconds.
        {"limit": st.one_of(st.none(), st.integers(0, 200))},
        optional={
            "deadline": st.one_of(st.integers(0, YEAR_MS), st.just("365d"), st.integers(0, 100_000)),
            "on_deadline": st.sampled_from(["finish", "clip"]),
        },
    ),
)


@pytest.fixture(autouse=True, scope="module")
def few_jobs_are_drawn() -> Iterator[None]:
    """Whether anything is raised does not depend on how many they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(last_retry, "_CALLS", 100_000)
        yield


@settings(max_examples=40, deadline=None)
@given(bodies)
@example(MINUTES)
@example(DAYS)
@example(HELD)
@example(HELD | {"jitter": {"add": {"by": "1s", "faces": 4}}})
@example(HELD | {"curve": {"exponential": {"base": "8s", "factor": 0.5}}})
@example(HELD | {"curve": {"constant": "20m"}, "jitter": {"above": 0.001}, "floor": 0, "ceil": "10m"})
def test_any_valid_policy_can_be_looked_at(body: dict[str, Any]) -> None:
    found = lint(body, SEVERAL_WAYS)
    for finding in found:
        assert finding.message
        assert "None" not in finding.message
    if any(finding.message.startswith("every wait is") for finding in found):
        assert {finding.rule for finding in found}.isdisjoint(DENIED)


@pytest.mark.parametrize("body", [MINUTES, DAYS])
def test_a_deadline_of_a_year_is_no_limit_out_of_reach(body: dict[str, Any]) -> None:
    assert "limit-out-of-reach" not in {finding.rule for finding in lint(body)}


@pytest.mark.parametrize("name", ["cap", "ceil", "deadline"])
def test_an_infinite_bound_is_none_and_hides_nothing(name: str) -> None:
    text = f'[policies.web]\ncurve = {{exponential = {{base = 15}}}}\n{name} = inf\n[policies.mail]\npreset = "constant"\n'
    document = read_document(text.encode(), "both.toml")
    assert document.problems == ()
    found = {(entry.name, finding.rule) for entry in document.entries for finding in lint(entry.value)}
    assert {("web", "unit-mistake"), ("mail", "no-jitter")} <= found
