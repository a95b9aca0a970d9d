"""What a comparison tells of one policy."""

from __future__ import annotations

from typing import Any

import msgspec

from anew.lab.simulation.outcome import Outcome


class Spread(msgspec.Struct, frozen=True, gc=False):
    """How evenly a herd that fails together, and at every retry, comes back; see `anew.lab.measure`.

    Args:
        cv: Root mean square of the load's error in bins of 1/16 gap, as a share of the load; 0 is perfectly even.
        peak: The fullest such bin, in units of what it would hold if all were even.
        deviation: Standard deviation of a wait as a share of its mean, averaged over the retries from the second on.
    """

    cv: float
    peak: float
    deviation: float


class FirstWait(msgspec.Struct, frozen=True, gc=False):
    """The bounds of the first wait and the curve's own, in milliseconds."""

    earliest_ms: int
    nominal_ms: int
    latest_ms: int


class WindowEnds(msgspec.Struct, frozen=True, gc=False):
    """When the last retry comes after the first failure: the bounds, in milliseconds."""

    earliest_ms: int
    latest_ms: int


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One policy in the comparison. Shares are fractions of 1.

    Args:
        label: What it is called.
        policy: Its JSON form.
        limit: How many retries it allows; None: no end.
        first_wait: Earliest, nominal and latest first wait; None if there is none, or it cannot be told.
        window: Earliest and latest time of the last retry after the first failure; None: no end, or not known.
        outlives: Share of the jobs that have a retry left after the scenario's outage; None if it cannot be told.
        calls_a_job: Calls of the herd after its first failures, divided by the jobs; those of fresh calls are none of them.
        spread: Its evenness; None where it was not measured: without NumPy, with fewer than 6 retries, or with waits
            of nothing.
        outcome: All that the simulation gives.
    """

    label: str
    policy: Any
    limit: int | None
    first_wait: FirstWait | None
    window: WindowEnds | None
    outlives: float | None
    calls_a_job: float
    spread: Spread | None
    outcome: Outcome
