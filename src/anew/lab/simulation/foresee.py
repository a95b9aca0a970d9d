"""What a scenario with fresh calls is certain to cost, reckoned before any of it is simulated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from anew.backoff import Policy
from anew.errors import InvalidInput, TooLarge
from anew.lab.laws.spans import spans
from anew.lab.simulation.scenario import Scenario
from anew.units import SECOND_MS, format_duration

LESS_TRAFFIC: Final = "a lower base rate, a shorter outage, or an earlier horizon"
"""What makes fewer calls where they come beside the herd; to be read after "expected"."""

_ROWS: Final = 10_000
"""Retries that are looked at; a job of a simulation with a queue has no more."""

_QUEUED_S: Final = 2e-6
_EXACT_S: Final = 20e-6
"""Seconds that a call in the queue takes at least; and any call, where each decision is the engine's own."""


class Foreseen(NamedTuple):
    """Calls that are certain to be made.

    Attributes:
        calls: All of them.
        queued: Those at or after the end of the outage, which meet in the queue and cost by far the most time.
    """

    calls: int
    queued: int


def foreseen(policy: Policy, scenario: Scenario) -> Foreseen:
    """Count the fresh calls, and the retries of which the longest waits leave no doubt."""
    end_ms, rate = scenario.end_ms or 0, scenario.base_rate
    outage_ms = min(scenario.outage_ms, end_ms)

    def before(ms: int) -> int:
        return max(math.ceil(ms * rate / SECOND_MS) - 1, 0)

    fresh = int(end_ms * rate / SECOND_MS)
    refused = last_ms = earliest_ms = longest_ms = 0
    for row in spans(policy, min(_ROWS if policy.retries is None else policy.retries, _ROWS)):
        at_ms, latest_ms = row.window_latest_ms, row.latest_ms
        if at_ms is None or latest_ms is None or row.window_earliest_ms is None or earliest_ms >= outage_ms:
            break
        # Whoever comes so long before the end of the outage is refused at the retry before, and calls once more.
        refused += before(min(outage_ms - last_ms, end_ms - at_ms))
        last_ms, earliest_ms = at_ms, row.window_earliest_ms
        longest_ms = max(longest_ms, latest_ms)
    if policy.deadline_ms is not None:
        # A job may be dead by then.
        return Foreseen(fresh, fresh - before(outage_ms))
    queued = fresh - before(outage_ms)
    if outage_ms + longest_ms <= end_ms:
        queued = fresh - before(outage_ms - earliest_ms)
    return Foreseen(fresh + refused, queued)


def admit_calls(policy: Policy, scenario: Scenario, most: int) -> None:
    """Refuse at once more calls than may be.

    Raises:
        InvalidInput: They are certain to be too many.
    """
    if not scenario.base_rate:
        return
    calls = foreseen(policy, scenario).calls
    if calls > most:
        raise InvalidInput(
            f"{_said(scenario)} are at least {calls:,} calls with their retries; expected at most {most:,}: {LESS_TRAFFIC}",
            field="base_rate",
            value=scenario.base_rate,
        )


def admit_time(policies: Sequence[Policy], scenario: Scenario, left_s: float | None, *, exact: bool) -> None:
    """Refuse at once what takes more time than there is.

    Args:
        policies: All that the scenario is played with, one after the other.
        scenario: The scenario.
        left_s: Seconds of processor time; None: any.
        exact: Whether each decision is the engine's own.

    Raises:
        TooLarge: They are certain to take longer; its ``field`` is "time".
    """
    if not scenario.base_rate or left_s is None:
        return
    each = [foreseen(policy, scenario) for policy in policies]
    calls = sum(found.calls if exact else found.queued for found in each)
    # In tenths, so that what the command has spent already does not change the words.
    left_ms = round(left_s * 10) * SECOND_MS // 10
    most = int(left_ms / SECOND_MS / (_EXACT_S if exact else _QUEUED_S))
    if calls > most:
        where = "" if exact else " into the queue"
        under = "" if len(each) == 1 else f" under {len(each)} policies"
        raise TooLarge(
            f"{_said(scenario)} bring at least {calls:,} calls{where}{under}, and {format_duration(left_ms)} of processor "
            f"time suffice for {most:,} at most; expected {LESS_TRAFFIC}",
            field="time",
        )


def _said(scenario: Scenario) -> str:
    until = format_duration(scenario.end_ms or 0)
    outage = f", with an outage of {format_duration(scenario.outage_ms)}," if scenario.outage_ms else ""
    calls = "call" if scenario.base_rate == 1 else "calls"
    return f"base_rate: {scenario.base_rate:g} fresh {calls} a second until {until}{outage}"
