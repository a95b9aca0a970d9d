"""What any number of waits come to: mean and standard deviation of their sum, its ends, and the blocks that stand for many."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from anew.backoff import Decorrelated, Policy
from anew.lab.laws.spans import spans
from anew.lab.laws.wait import law, laws, phase_starts
from anew.lab.sums.decorrelated_moments import decorrelated_moments
from anew.lab.sums.walks import MAX_STEPS

MANY: Final = 400
"""Beyond so many waits a sum is as good as normal."""


def moments(policy: Policy, retries: int) -> tuple[float, float]:
    """Give mean and standard deviation of the sum of waits; where they depend on each other, of ``decorrelated`` alone."""
    if isinstance(policy.jitter, Decorrelated):
        return decorrelated_moments(policy, blocks(policy, retries))
    if retries <= MANY:
        each = [(1, found) for found in laws(policy, retries) if found is not None]
    else:
        each = [
            (n, found) for retry, n in blocks(policy, retries) if (found := law(policy, retry)) is not None
        ]
    mean = math.fsum(count * found.mean_ms for count, found in each)
    return mean, math.sqrt(math.fsum(count * found.sd_ms**2 for count, found in each))


def ends(policy: Policy) -> tuple[int, int]:
    """Give the earliest and the latest time of the last retry, no deadline."""
    retries = policy.retries or 0
    *_, last = spans(policy, min(retries, MAX_STEPS))
    earliest, latest = last.window_earliest_ms or 0, last.window_latest_ms or 0
    before = float(last.latest_ms or 0)
    for retry, count in blocks(policy, retries, start=MAX_STEPS + 1):
        nominal = policy.nominal(retry)
        reach = policy.jitter.reach(retry, policy.place(retry)[1], nominal, policy.nominal, before)
        low, high = (min(max(int(end), policy.floor_ms), policy.highest_ms) for end in reach[:2])
        earliest, latest = earliest + count * low, latest + count * high
    return earliest, latest


def blocks(policy: Policy, retries: int, start: int = 1) -> Iterator[tuple[int, int]]:
    """Give retries that stand for many: one by one at first, then in blocks that end where a phase does.

    Args:
        policy: The policy.
        retries: The last retry.
        start: The first one.

    Yields:
        A retry in the middle of its block, and how many it stands for.
    """
    over = [first - 1 for first in phase_starts(policy) if 1 < first <= retries]
    begun = 1
    for end in [*over, retries]:
        at = max(begun, start)
        while at <= end:
            # A hundredth of the way from the phase's beginning: no curve but an explosive one bends in that.
            size = min(max(1, (at - begun) // 200), end - at + 1)
            yield at + size // 2, size
            at += size
        begun = end + 1
