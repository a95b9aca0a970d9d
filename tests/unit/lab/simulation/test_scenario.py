"""A scenario says what it may hold, and refuses the rest by name, value and expectation."""

from __future__ import annotations

from typing import Any

import pytest

from anew.errors import InvalidInput
from anew.lab.simulation.scenario import Scenario


def test_defaults_are_a_thousand_jobs_that_fail_at_once_and_succeed_at_the_first_retry() -> None:
    scenario = Scenario()
    assert (scenario.jobs, scenario.seed, scenario.over_ms, scenario.outage_ms) == (1_000, 1, 0, 0)
    assert (scenario.success, scenario.coupled, scenario.end_ms) == (1.0, False, None)


def test_json_takes_durations_both_ways_and_gives_milliseconds() -> None:
    scenario = Scenario.from_json(
        {"jobs": 5, "outage": "2h", "over_ms": 600_000, "timeout": None, "capacity": 50}
    )
    assert (scenario.outage_ms, scenario.over_ms, scenario.timeout_ms, scenario.capacity) == (
        7_200_000,
        600_000,
        None,
        50.0,
    )
    body = scenario.to_json()
    assert body["outage_ms"] == 7_200_000
    assert Scenario.from_json(body) == scenario
    assert Scenario.from_json(scenario) is scenario


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"jobs": 0}, "jobs", ["0", "from 1 to 10000000"]),
        ({"jobs": 10_000_001}, "jobs", ["10000001"]),
        ({"jobs": "many"}, "jobs", ['"many"']),
        ({"success": 1.5}, "success", ["1.5", "from 0 to 1"]),
        ({"success": float("nan")}, "success", ["nan"]),
        ({"capacity": 0}, "capacity", ["0.001", "null"]),
        ({"capacity": "ten"}, "capacity", ['"ten"', "null"]),
        ({"workers": 0}, "workers", ["from 1 to 1000000"]),
        ({"timeout": "0s"}, "timeout", ["above 0"]),
        ({"timeout": "2d"}, "timeout", ["1d"]),
        ({"outage": "-1s"}, "outage", ["-1s"]),
        ({"outage": "2 parsecs"}, "outage", ["parsecs"]),
        ({"base_rate": -1}, "base_rate", ["from 0"]),
        ({"base_rate": 100_001}, "base_rate", ["100001", "to 100000"]),
        ({"capacity": 1_000_001}, "capacity", ["1000001", "1e+06"]),
        ({"workers": 1_000_001}, "workers", ["to 1000000"]),
        ({"latency": "25h"}, "latency", ["from 0 to 1d"]),
        ({"over": "366d"}, "over", ["from 0 to 365d"]),
        ({"outage": "366d"}, "outage", ["from 0 to 365d"]),
        ({"horizon": -1}, "horizon", ["-1", "null"]),
        ({"phase": "random"}, "phase", ["seq, hash"]),
        ({"seed": -1}, "seed", ["from 0"]),
        ({"seed": 2**60}, "seed", ["9007199254740991"]),
        ({"workerz": 5}, "workerz", ["no known field", "workers"]),
        ({"outage": "1h", "outage_ms": 5}, "outage_ms", ["twice"]),
        ([1], "scenario", ["an object"]),
    ],
)  # fmt: skip
def test_bad_values_are_named(body: Any, field: str, words: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Scenario.from_json(body)
    assert caught.value.field == field
    assert type(caught.value) is InvalidInput
    for word in [field, *words]:
        assert word in str(caught.value)


def test_python_is_checked_as_json_is() -> None:
    with pytest.raises(InvalidInput, match="outage: "):
        Scenario(outage_ms=-5)


@pytest.mark.parametrize("limited", [{"capacity": 5}, {"workers": 3}, {"base_rate": 0.5}])
def test_what_is_limited_couples_the_jobs(limited: dict[str, Any]) -> None:
    assert Scenario(**limited).coupled
    assert not Scenario(latency_ms=50, timeout_ms=100).coupled


def test_fresh_calls_end_ten_minutes_and_twice_the_trouble_later() -> None:
    scenario = Scenario(base_rate=5, over_ms=60_000, outage_ms=120_000)
    assert scenario.end_ms == 600_000 + 2 * 180_000
    assert Scenario(base_rate=5, horizon_ms=1_000).end_ms == 1_000
