"""A part of a load: the calls that a simulation counts, seen more finely."""

from __future__ import annotations

from typing import Any

import pytest

from anew.backoff import Policy, preset
from anew.errors import InvalidInput
from anew.lab import waves as waves_module
from anew.lab.charts.data import load
from anew.lab.named import Named
from anew.lab.simulation import simulate as simulate_module
from anew.lab.simulation.scenario import Scenario

HOUR = 3_600_000
TEN = Named("ten", Policy.from_json({"curve": {"constant": "10s"}, "limit": 6}))


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(jobs=60, outage_ms=3 * HOUR),
        Scenario(jobs=60, outage_ms=600_000, over_ms=300_000, seed=3),
        Scenario(jobs=60, over_ms=300_000, outage_ms=60_000, phase="hash"),
        Scenario(jobs=60, success=0.0, over_ms=60_000),
        Scenario(jobs=60),
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        "even",
        "celery",
        {"preset": "zizq", "deadline": "20m", "limit": 9},
        {"preset": "aws_decorrelated", "limit": 9},
    ],
)
@pytest.mark.parametrize("numpy", [False, True])
def test_all_of_it_is_what_is_simulated(
    form: Any, scenario: Scenario, numpy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [Named("x", Policy.from_json(form).with_limit(9))]
    whole = load(named, scenario)
    if not numpy:
        monkeypatch.setattr(waves_module, "has_numpy", lambda: False)
        monkeypatch.setattr(simulate_module, "has_numpy", lambda: False)
    seen = load(named, scenario, to_ms=400 * 24 * HOUR)
    assert (seen.bin_ms, seen.lines) == (whole.bin_ms, whole.lines)


def test_a_part_is_counted_from_its_beginning_to_before_its_end() -> None:
    # Two jobs call at 10, 20, 30 s; the first two fail.
    scenario = Scenario(jobs=2, outage_ms=30_000)
    found = load([TEN], scenario, from_ms=20_000, to_ms=30_000)
    # 10 s in at most 2,000 bins of 10 ms.
    assert (found.bin_ms, len(found.lines[0].counts)) == (10, 1_000)
    assert {place: count for place, count in enumerate(found.lines[0].counts) if count} == {0: 2}
    counts = load([TEN], scenario, from_ms=15_000).lines[0].counts
    assert [place for place, count in enumerate(counts) if count] == [500, 1_500]


def test_policies_are_seen_in_the_same_bins() -> None:
    named = [TEN, Named("even", preset("even", limit=4))]
    lines = load(named, Scenario(jobs=5, outage_ms=HOUR), from_ms=5_000).lines
    assert len({len(line.counts) for line in lines}) == 1


def test_a_part_of_calls_that_meet_in_a_queue_is_seen_too() -> None:
    """Ten jobs call at 10 s, of which one worker makes one a second: the eleventh second has the call of 10 s, and no other."""
    scenario = Scenario(jobs=10, capacity=1.0, workers=1)
    counts = load([TEN], scenario, from_ms=10_000, to_ms=12_000).lines[0].counts
    assert {place: count for place, count in enumerate(counts) if count} == {0: 1, 1_000: 1}


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
