"""What a scenario with fresh calls is certain to cost, reckoned before any of it is simulated."""

from __future__ import annotations

import math
from typing import Final

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.laws.spans import spans
from anew.lab.simulation.scenario import Scenario
from anew.units import SECOND_MS, format_duration

_ROWS: Final = 10_000
"""Retries that are looked at; a job of a simulation with a queue has no more."""


def foreseen(policy: Policy, scenario: Scenario) -> int:
    """Count the calls that are certain: the fresh ones, and the retries of which the longest waits leave no doubt."""
    end_ms, rate = scenario.end_ms or 0, scenario.base_rate
    if not rate:
        return 0
    outage_ms = min(scenario.outage_ms, end_ms)

    def before(ms: int) -> int:
        return max(math.ceil(ms * rate / SECOND_MS) - 1, 0)

    fresh = int(end_ms * rate / SECOND_MS)
    if policy.deadline_ms is not None:
        return fresh  # a job may be dead before it is retried
    refused = last_ms = earliest_ms = 0
    for row in spans(policy, min(_ROWS if policy.retries is None else policy.retries, _ROWS)):
        at_ms = row.window_latest_ms
        if at_ms is None or row.window_earliest_ms is None or earliest_ms >= outage_ms:
            break
        # Whoever comes so long before the end of the outage is refused at the retry before, and calls once more.
        refused += before(min(outage_ms - last_ms, end_ms - at_ms))
        last_ms, earliest_ms = at_ms, row.window_earliest_ms
    return fresh + refused


def admit_calls(policy: Policy, scenario: Scenario, most: int) -> None:
    """Refuse at once more calls than may be.

    Raises:
        InvalidInput: They are certain to be too many.
    """
    calls = foreseen(policy, scenario)
    if calls > most:
        raise InvalidInput(
            f"{_said(scenario)} are at least {calls:,} calls with their retries; expected at most {most:,}: "
            "a lower base rate, a shorter outage, or an earlier horizon",
            field="base_rate",
            value=scenario.base_rate,
        )


def _said(scenario: Scenario) -> str:
    until = format_duration(scenario.end_ms or 0)
    outage = f", with an outage of {format_duration(scenario.outage_ms)}," if scenario.outage_ms else ""
    calls = "call" if scenario.base_rate == 1 else "calls"
    return f"base_rate: {scenario.base_rate:g} fresh {calls} a second until {until}{outage}"
