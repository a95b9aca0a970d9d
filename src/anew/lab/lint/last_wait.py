"""The last retry of a policy that has too many to look at each: how long it waits, and when it comes."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from anew.backoff import Decorrelated, Policy
from anew.backoff.kinds import MAX_COUNT
from anew.lab.laws.spans import spans
from anew.lab.laws.wait import asks_custom
from anew.lab.sums.moments import ends
from anew.units import MAX_DURATION_MS


class LastWait(NamedTuple):
    """The bounds of the last retry in whole milliseconds, a deadline left aside; 0 where a custom function decides.

    Args:
        nominal_ms: The curve's wait, held to the cap.
        earliest_ms: The shortest wait.
        latest_ms: The least upper bound of the wait.
        ends_ms: The earliest and the latest time of this retry after the first failure, at most 36,500 days, which is the
            longest that can be read back; None of a policy without end.
    """

    nominal_ms: int
    earliest_ms: int
    latest_ms: int
    ends_ms: tuple[int, int] | None


def last_wait(policy: Policy, walked: int) -> LastWait:
    """Give the bounds of the last retry that limit and phases allow; without end, of the 10^9th.

    No law is worked out for it: bounds follow from the policy alone and stay the same whatever the lab learns.

    Args:
        policy: The policy.
        walked: Retries that may be walked one by one.
    """
    free = dataclasses.replace(policy, deadline_ms=None)
    retry = MAX_COUNT if policy.retries is None else policy.retries
    if asks_custom(policy, retry):
        return LastWait(0, 0, 0, None)
    nominal = policy.nominal(retry)
    before = _latest_before(free, retry, walked)
    reach = policy.jitter.reach(retry, policy.place(retry)[1], nominal, policy.nominal, before)
    earliest, latest = (int(min(max(end, policy.floor_ms), policy.highest_ms)) for end in reach[:2])
    return LastWait(int(nominal), earliest, latest, _ends(free))


def _ends(free: Policy) -> tuple[int, int] | None:
    if free.retries is None:
        return None
    first, last = (min(end, MAX_DURATION_MS) for end in ends(free))
    return first, last


def _latest_before(policy: Policy, retry: int, walked: int) -> float:
    """Give the latest wait before a retry, for the one jitter that asks: it grows at every retry until ceil holds it."""
    if not isinstance(policy.jitter, Decorrelated):
        return 0.0
    *_, row = spans(policy, walked)
    steps = max(0, retry - 1 - walked)
    grown = math.exp(min(steps * math.log(policy.jitter.times), 700.0))
    return min((row.latest_ms or 0) * grown, float(policy.highest_ms))
