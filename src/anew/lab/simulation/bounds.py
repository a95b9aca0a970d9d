"""How much one simulation may do, and how it tells how far it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab.laws.spans import spans
from anew.lab.simulation.scenario import Scenario
from anew.units import SECOND_MS, format_duration

MAX_CALLS: Final = 120_000_000
"""The most calls of a simulation of jobs that do not hinder each other: 10 million with 12 retries, in some 2 GB."""

MAX_COUPLED_CALLS: Final = 10_000_000
"""The most calls of a simulation with a limited downstream, which goes call by call."""

MAX_EXACT_CALLS: Final = 5_000_000
"""The most calls that go through the engine's own decision, at some 20 µs each."""

MAX_EXACT_JOBS: Final = 100_000
"""The largest herd that does."""

PLAIN_JOBS: Final = 20_000
"""The largest herd where NumPy is missing, so that everything goes that way."""

COUPLED_CALL: Final = 10
"""A call that meets a queue takes as long as so many that do not."""

MAX_ROUNDS: Final = 110_000
"""The most retries of one job, unless a thousandth of the calls' bound is less: Amazon SNS makes 100,015. So many take
some ten seconds, however few the jobs."""

# A retry of a few jobs takes as long as one of about so many.
_CALLS_A_ROUND: Final = 1_000

_TELL_EVERY: Final = 4_096

_ROWS: Final = 10_000
"""Retries that are looked at; a job of a simulation with a queue has no more."""


class Budget:
    """Counts calls against a bound, refuses what is beyond it, and passes on how far a simulation is.

    Args:
        calls: The most calls.
        progress: Is told a share of the work from 0 to 1, now and then; what it raises ends the simulation.
    """

    def __init__(self, calls: int, progress: Callable[[float], None] | None = None) -> None:
        self._calls = self._left = calls
        self._rounds = min(MAX_ROUNDS, calls // _CALLS_A_ROUND)
        self._progress = progress
        self._told = 0

    def admit(self, callers: int) -> None:
        """Refuse more callers than there may be calls, before any memory is spent on them."""
        if callers > self._calls:
            raise self._too_much()

    def foresee(self, jobs: int, retries: int) -> None:
        """Refuse at once what is certain to end beyond the bounds."""
        self.admit(jobs * retries)
        self._follow(retries)

    def spend(self, calls: int, retry: int) -> None:
        """Count calls, of which ``retry`` is the highest retry."""
        self._left -= calls
        if self._left < 0:
            raise self._too_much()
        self._follow(retry)

    def _follow(self, retry: int) -> None:
        if retry > self._rounds:
            raise InvalidInput(
                f"policy: a job of this scenario is retried more than {self._rounds:,} times; "
                "expected longer waits, a limit, a shorter outage, or a horizon",
                field="policy",
            )

    def tell(self, done: float, whole: float) -> None:
        """Say how far the simulation is, not at every step."""
        if self._progress is None:
            return
        step = int(done / whole * _TELL_EVERY) if whole else _TELL_EVERY
        if step > self._told:
            self._told = step
            self._progress(min(step / _TELL_EVERY, 1.0))

    def _too_much(self) -> InvalidInput:
        return InvalidInput(
            f"jobs: this scenario makes more than {self._calls:,} calls; expected fewer jobs or retries, "
            "a shorter outage, a lower base rate, or a horizon",
            field="jobs",
        )


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
    """Refuse at once what is certain to be more calls than may be."""
    calls = foreseen(policy, scenario)
    if calls > most:
        until = format_duration(scenario.end_ms or 0)
        outage = f", with an outage of {format_duration(scenario.outage_ms)}," if scenario.outage_ms else ""
        fresh = f"{scenario.base_rate:g} fresh {'call' if scenario.base_rate == 1 else 'calls'} a second"
        raise InvalidInput(
            f"base_rate: {fresh} until {until}{outage} are at least {calls:,} calls with their retries; expected at most {most:,}: "
            "a lower base rate, a shorter outage, or an earlier horizon",
            field="base_rate",
            value=scenario.base_rate,
        )
