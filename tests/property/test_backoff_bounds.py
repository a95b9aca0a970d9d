"""Whatever policy is accepted: no wait is negative, past 365 days, no number, or outside its band."""

import math
from fractions import Fraction
from random import Random
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anew.backoff import Draws, Even, Exhausted, Policy, Previous, Wait, next_wait, policy_from_json
from anew.errors import InvalidPolicy
from anew.lab import explain
from tests.property.examples import examples

from .backoff_forms import YEAR_MS, evens, policies, slices, units

retries = st.one_of(st.integers(1, 60), st.integers(1, 10_000))


def policy_of(form: dict[str, Any]) -> Policy:
    """The policy without limits, so that every retry has a wait."""
    return Policy.from_json(form).with_limit(None)


def band_ms(policy: Policy, retry: int) -> tuple[int, int]:
    """The documented band of a wait whose jitter remembers nothing: jitter's reach, then the clamp."""
    nominal, place = policy.nominal(retry), policy.place(retry)
    reach = policy.jitter.reach(retry, place[1], nominal, policy.nominal, 0.0)
    low, high = policy.floor_ms, policy.highest_ms
    return int(min(max(reach.earliest, low), high)), int(min(max(reach.latest, low), high))


@settings(max_examples=examples(600), deadline=None)
@given(policies(), retries, units, units, st.one_of(st.none(), st.floats(allow_nan=True)))
def test_never_negative_never_past_the_ceiling_never_no_number(
    form: dict[str, Any], retry: int, number: float, phase: float, carry: float | None
) -> None:
    policy = policy_of(form)
    wait = next_wait(policy, retry, Draws(lambda: number, b"job", phase), previous=Previous(carry))
    if isinstance(wait, Exhausted):
        assert policy.retries is not None
        assert retry > policy.retries
        return
    assert type(wait.wait_ms) is int
    assert policy.floor_ms <= wait.wait_ms <= (policy.ceil_ms if policy.ceil_ms is not None else YEAR_MS)
    assert 0 <= wait.nominal_ms <= YEAR_MS
    assert policy.cap_ms is None or wait.nominal_ms <= policy.cap_ms
    assert wait.draw is None or 0 <= wait.draw < 1
    assert wait.carry is None or math.isfinite(wait.carry)
    assert wait.reason.startswith(f"retry {retry}: ")


@settings(max_examples=examples(600), deadline=None)
@given(policies(), retries, units, units)
def test_reliability_31_every_wait_lies_in_its_band(
    form: dict[str, Any], retry: int, number: float, phase: float
) -> None:
    assume("decorrelated" not in form["jitter"])
    policy = policy_of(form)
    wait = next_wait(policy, retry, Draws(lambda: number, b"job", phase))
    assume(isinstance(wait, Wait))
    assert isinstance(wait, Wait)
    low, high = band_ms(policy, retry)
    # Sliding along a curve of 365 days costs the last bits of a float: a millisecond in a year.
    slack = 1 if isinstance(policy.jitter, Even) else 0
    assert low - slack <= wait.wait_ms <= high + slack


@settings(max_examples=examples(60), deadline=None)  # some take seconds: slices of a curve that is zero
@given(st.one_of(policies(), slices()), st.integers(0, 2**32), units, st.integers(1, 30))
def test_whole_chains_stay_in_the_window_that_explain_gives(
    form: dict[str, Any], seed: int, phase: float, count: int
) -> None:
    policy = policy_of(form)
    draws = Draws(Random(seed).random, b"job", phase)
    previous, total = None, 0
    for row in explain(policy, count).rows:
        wait = next_wait(policy, row.retry, draws, previous=previous)
        assert isinstance(wait, Wait)
        previous = Previous(wait.carry)
        total += wait.wait_ms
        assert row.earliest_ms is not None
        assert row.latest_ms is not None
        assert row.window_earliest_ms is not None
        assert row.window_latest_ms is not None
        assert row.nominal_ms == wait.nominal_ms
        assert row.earliest_ms - 1 <= wait.wait_ms <= row.latest_ms + 1
        # Each wait is cut to milliseconds by itself, so a sum may fall short by one per retry.
        assert row.window_earliest_ms - row.retry <= total <= row.window_latest_ms + row.retry


@settings(max_examples=examples(300), deadline=None)
@given(policies(jitters=evens), st.integers(2, 300), units)
def test_even_never_shrinks_on_a_curve_that_never_falls(
    form: dict[str, Any], retry: int, phase: float
) -> None:
    policy = policy_of(form)
    assume(isinstance(policy.jitter, Even))
    assert isinstance(policy.jitter, Even)
    assume(policy.jitter.dither == 0)
    nominal = [policy.nominal(k) for k in range(max(1, retry - 1), retry + 3)]
    assume(nominal == sorted(nominal))
    draws = Draws(lambda: 0.0, b"job", phase)
    earlier, later = next_wait(policy, retry, draws), next_wait(policy, retry + 1, draws)
    if isinstance(earlier, Wait) and isinstance(later, Wait):
        assert earlier.wait_ms <= later.wait_ms + 1


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(policies(), slices()))
def test_json_round_trips(form: dict[str, Any]) -> None:
    policy = Policy.from_json(form)
    assert Policy.from_json(policy.to_json()) == policy
    assert Policy.from_json(policy.to_json()).to_json() == policy.to_json()
    assert policy_from_json(policy.to_bytes()) == policy


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 3e38), st.integers(0, 2**32 - 1), retries, units)
def test_zizqs_law_for_every_accepted_parameter(
    base_ms: int, exponent: float, jitter_ms: int, retry: int, number: float
) -> None:
    policy = policy_of({"base_ms": base_ms, "exponent": exponent, "jitter_ms": jitter_ms})
    wait = next_wait(policy, retry, Draws(lambda: number))
    assert isinstance(wait, Wait)
    assert min(base_ms, YEAR_MS) <= wait.wait_ms <= YEAR_MS
    if retry == 1:
        exactly = 1_000 + base_ms + Fraction(number) * jitter_ms
        rounded = (
            1_000 + base_ms + number * jitter_ms
        )  # may reach the next millisecond, or not quite this one
        assert wait.wait_ms in {math.floor(min(value, YEAR_MS)) for value in (exactly, rounded)}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(
            ["curve", "jitter", "preset", "limit", "power", "constant", "sum", "grow", "phases", "base_ms", "even"]
        )
        | st.text(max_size=4),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=examples(600), deadline=None)
@given(json_values)
def test_any_json_is_a_policy_or_an_error_that_says_why(value: Any) -> None:
    refusal = None
    try:
        assert isinstance(explain(Policy.from_json(value), 3).to_json(), dict)
    except InvalidPolicy as error:
        refusal = error
    if refusal is not None:
        assert refusal.field
        assert str(refusal).startswith(f"{refusal.field}: ")
        assert len(str(refusal)) < 1_000
