"""A part of a load: the calls that a simulation counts, seen more finely."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anew.backoff import Policy, preset
from anew.errors import InvalidInput
from anew.lab import waves as waves_module
from anew.lab.charts.data import compose
from anew.lab.charts.pictures import Load
from anew.lab.named import Named
from anew.lab.simulation import simulate as simulate_module
from anew.lab.simulation.scenario import Scenario

HOUR = 3_600_000
TEN = Named("ten", Policy.from_json({"curve": {"constant": "10s"}, "limit": 6}))


def load(policies: Sequence[Named], scenario: Scenario, from_ms: int = 0, to_ms: int | None = None) -> Load:
    [panel] = compose("load", policies, scenario, from_ms=from_ms, to_ms=to_ms).panels
    assert isinstance(panel, Load)
    return panel


@pytest.mark.parametrize("numpy", [False, True])
def test_a_part_is_counted_from_its_beginning_to_before_its_end(
    numpy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not numpy:
        monkeypatch.setattr(waves_module, "has_numpy", lambda: False)
        monkeypatch.setattr(simulate_module, "has_numpy", lambda: False)
    # Two jobs call at 10, 20, 30 s; the first two fail.
    scenario = Scenario(jobs=2, outage_ms=30_000)
    found = load([TEN], scenario, from_ms=20_000, to_ms=30_000)
    assert found.edges_ms == tuple(range(20_000, 31_000, 1_000))
    assert found.lines[0].peaks == (2, *[0] * 9)
    found = load([TEN], scenario, from_ms=15_000)
    called = zip(found.edges_ms, found.lines[0].peaks, strict=False)
    assert [at for at, peak in called if peak] == [20_000, 30_000]


def test_policies_are_seen_in_the_same_columns() -> None:
    named = [TEN, Named("even", preset("even", limit=4))]
    lines = load(named, Scenario(jobs=5, outage_ms=HOUR), from_ms=5_000).lines
    assert len({len(line.peaks) for line in lines}) == 1


def test_a_part_of_calls_that_meet_in_a_queue_is_seen_too() -> None:
    """Ten jobs call at 10 s, of which one worker makes one a second: one begins at 10 s, and one at 11 s."""
    scenario = Scenario(jobs=10, capacity=1.0, workers=1)
    found = load([TEN], scenario, from_ms=10_000, to_ms=12_000)
    assert (found.edges_ms, found.lines[0].means) == ((10_000, 11_000, 12_000), (1.0, 1.0))


@pytest.mark.parametrize(
    ("scenario", "span", "said"),
    [
        (Scenario(jobs=2), (5_000, 5_000), 'to: "5s" is not valid; expected later than from, which is 5s'),
        (
            Scenario(jobs=2),
            (11_000, None),
            'from: "11s" is not valid; expected at most 10s, when the last call comes',
        ),
        (Scenario(jobs=10_000_000, success=0.0), (0, 5_000), "more than 25,000,000 calls"),
    ],
)
def test_what_does_not_fit_is_told(scenario: Scenario, span: tuple[int, int | None], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        load([TEN], scenario, from_ms=span[0], to_ms=span[1])
