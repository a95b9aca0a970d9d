"""Instants of a herd: sums of the engine's own waits, the same in parts as in the whole."""

from __future__ import annotations

import pytest

from anew.backoff import Policy, Previous, Wait, next_wait
from anew.errors import InvalidInput
from anew.lab.chance import LabDraws

np = pytest.importorskip("numpy", reason="pip install 'anew[lab]'")

from anew.lab.herd import instants  # noqa: E402  (it needs NumPy)


def test_constant_waits_add_up() -> None:
    table = instants(Policy.from_json({"curve": {"constant": "5m"}, "limit": 3}), 4)
    assert table.tolist() == [[300_000] * 4, [600_000] * 4, [900_000] * 4]


def test_sidekiqs_curve_adds_up_by_hand() -> None:
    """15 + (k-1)**4 s: 15, 16, 31, 96 s; sums 15, 31, 62, 158."""
    policy = Policy.from_json({"curve": {"power": {"base": "15s", "exponent": 4}}})
    assert instants(policy, 1, retries=4)[:, 0].tolist() == [15_000, 31_000, 62_000, 158_000]


@pytest.mark.parametrize(
    "jitter", ["full", "even", {"decorrelated": 3}, {"full": {"source": "hash"}}], ids=str
)
def test_each_instant_is_the_sum_of_the_engines_waits(jitter: object) -> None:
    policy = Policy.from_json({"curve": {"exponential": {"base": "1s"}}, "cap": "60s", "jitter": jitter})
    table = instants(policy, 8, retries=12, seed=77, phase="hash")
    for job in range(8):
        previous, at, expected = None, 0, []
        for retry in range(1, 13):
            wait = next_wait(policy, retry, LabDraws.of(77, job, retry, "hash"), previous=previous)
            assert isinstance(wait, Wait)
            previous, at = Previous(wait.carry), at + wait.wait_ms
            expected.append(at)
        assert table[:, job].tolist() == expected


def test_a_large_herd_begins_as_a_small_one_does() -> None:
    policy = Policy.from_json("even")
    whole = instants(policy, 20_000, retries=5)
    assert np.array_equal(instants(policy, 100, retries=5), whole[:, :100])


def test_even_herds_keep_their_distance() -> None:
    """Golden-ratio phases: n in a row are at least 0.44 / n apart, so on a flat curve no two jobs come closer."""
    policy = Policy.from_json({"curve": {"constant": "1000s"}, "jitter": "even"})
    row = np.sort(instants(policy, 100, retries=2, seed=5)[1])
    assert np.diff(row).min() >= 4_400 - 1
    assert row[-1] - row[0] < 1_000_000


def test_seeds_and_kinds_of_phases_matter() -> None:
    policy = Policy.from_json("even")
    base = instants(policy, 50, retries=3)
    assert np.array_equal(base, instants(policy, 50, retries=3))
    assert not np.array_equal(base, instants(policy, 50, retries=3, seed=2))
    assert not np.array_equal(base, instants(policy, 50, retries=3, phase="hash"))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"jobs": 0}, "jobs"),
        ({"jobs": 2**40 + 1, "retries": 0}, "jobs"),
        ({"jobs": 5, "retries": -1}, "retries"),
        ({"jobs": 5, "retries": 1_000_001}, "retries"),
        ({"jobs": 10_000_000, "retries": 31}, "jobs"),
    ],
)
def test_bounds_have_an_error(arguments: dict[str, int], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        instants(Policy.from_json("even"), **arguments)
    assert caught.value.field == field


def test_a_policy_without_end_needs_a_number() -> None:
    with pytest.raises(InvalidInput, match="retries: None"):
        instants(Policy.from_json({"curve": {"constant": 1}, "limit": None}), 5)
