"""The vectorised waits are those that `next_wait` decides, to the millisecond, for every policy there is."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anew.backoff import PRESETS, Custom, Policy, Previous, Wait, next_wait, preset
from anew.lab.chance import LabDraws, PhaseKind

from .backoff_forms import YEAR_MS, durations, policies, slices

np = pytest.importorskip("numpy", reason="pip install 'anew[lab]'")

from anew.lab.vector import HerdChance, Waits  # noqa: E402  (it needs NumPy)
from tests.property.examples import examples  # noqa: E402

seeds = st.integers(0, 2**64 - 1)
kinds: st.SearchStrategy[PhaseKind] = st.sampled_from(["seq", "hash"])


def one_by_one(policy: Policy, seed: int, job: int, retries: range, kind: PhaseKind = "seq") -> list[int]:
    """One job's waits as the engine decides them, each handing its carry to the next."""
    previous, given_ms = None, []
    for retry in retries:
        wait = next_wait(
            policy, retry, LabDraws.of(seed, job, retry, kind), previous=previous, beyond_limit=True
        )
        assert isinstance(wait, Wait)
        previous = Previous(wait.carry)
        given_ms.append(wait.wait_ms)
    return given_ms


def in_bulk(policy: Policy, seed: int, jobs: int, retries: range, kind: PhaseKind = "seq") -> list[list[int]]:
    """The same of many jobs at once, turned round: one list per job."""
    numbers, carry, rows, waits = np.arange(jobs, dtype=np.uint64), None, [], Waits(policy)
    for retry in retries:
        row, carry = waits.one(retry, HerdChance(seed, numbers, retry, kind=kind), carry)
        rows.append(row.tolist())
    return [list(column) for column in zip(*rows, strict=True)]


def assert_equal(policy: Policy, seed: int, jobs: int, retries: range, kind: PhaseKind = "seq") -> None:
    singly = [one_by_one(policy, seed, job, retries, kind) for job in range(jobs)]
    assert in_bulk(policy, seed, jobs, retries, kind) == singly


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(policies(), slices()), seeds, st.one_of(st.just(1), st.integers(1, 1_500)), kinds)
def test_any_policy(form: dict[str, Any], seed: int, first: int, kind: PhaseKind) -> None:
    assert_equal(Policy.from_json(form), seed, 5, range(first, first + 4), kind)


def extras() -> st.SearchStrategy[dict[str, Any]]:
    """Windows with the options that the general strategy leaves out."""
    source = st.sampled_from(["rng", "hash", "job"])
    more = st.one_of(
        st.fixed_dictionaries({"cut": st.integers(1, 100_000)}),
        st.fixed_dictionaries({"redraw": st.integers(1, YEAR_MS)}),
        st.fixed_dictionaries({"redraw": st.integers(1, 200_000)}),
        st.fixed_dictionaries({"since": st.integers(1, 5)}),
    )
    base = st.fixed_dictionaries({"share": st.floats(0, 3), "source": source})
    return st.builds(lambda one, two: {"above": one | two}, base, more)


@settings(max_examples=examples(200), deadline=None)
@given(policies(jitters=extras()), seeds)
def test_any_window_with_cut_redraw_or_since(form: dict[str, Any], seed: int) -> None:
    assert_equal(Policy.from_json(form), seed, 20, range(1, 6))


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize("kind", ["seq", "hash"])
def test_every_preset(name: str, kind: PhaseKind) -> None:
    assert_equal(preset(name), 20_261, 300, range(1, 31), kind)


@settings(max_examples=examples(60), deadline=None)
@given(durations, seeds)
def test_slices_agree_although_numpy_rounds_tanh_in_its_own_way(base: Any, seed: int) -> None:
    policy = Policy.from_json({"curve": {"exponential": {"base": base}}, "jitter": "slices"})
    assert_equal(policy, seed, 200, range(1, 30))


def test_slices_agree_where_the_last_bit_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tanh that is off by one unit in its last place changes nothing: what is in doubt is drawn again."""
    from anew.lab import vector as vector_forms

    policy = Policy.from_json({"curve": {"exponential": {"base": 1_400}}, "jitter": "slices"})
    exact = in_bulk(policy, 5, 3_000, range(1, 20))
    honest = vector_forms._front
    monkeypatch.setattr(vector_forms, "_front", lambda t: np.nextafter(honest(t), math.inf))
    assert in_bulk(policy, 5, 3_000, range(1, 20)) == exact


def sometimes(k: int) -> float:
    """A user's function that fails at every third retry."""
    return math.nan if k % 3 == 0 else 1_000.5 * k


@pytest.mark.parametrize(
    "jitter",
    ["none", "full", {"add": "7s"}, {"grow": {"by": "9s", "faces": 7}}, "even", {"even": {"dither": 0.2}},
     {"up_to": {"power": {"base": "1d", "exponent": 1}}}, {"decorrelated": 3}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    "fails", [sometimes, lambda k: 1 / 0, lambda k: math.inf, lambda k: 250.0 if k > 1 else "x"]
)
def test_a_users_own_function_falls_back_as_there(jitter: Any, fails: Any) -> None:
    pieces = Policy.from_json({"curve": {"constant": 1}, "jitter": jitter})
    policy = Policy(curve=Custom(function=fails), jitter=pieces.jitter, cap_ms=3_600_000)
    assert_equal(policy, 3, 25, range(1, 12))


@pytest.mark.parametrize("jitter", ["full", "even", {"decorrelated": 3}], ids=str)
def test_the_deadline_is_the_callers_business(jitter: Any) -> None:
    form = {"curve": {"exponential": {"base": "1s"}}, "ceil": "1h", "jitter": jitter}
    endless = in_bulk(Policy.from_json(form), 4, 20, range(1, 8))
    assert in_bulk(Policy.from_json(form | {"deadline": 5}), 4, 20, range(1, 8)) == endless
