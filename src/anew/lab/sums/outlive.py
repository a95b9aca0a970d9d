"""The whole window: when a job's last retry comes, which outages it outlives, when jobs that never succeed are dead.

Everything counts from the first failure, and runs take no time. A job *outlives* an outage that begins at its first
failure if its last retry comes at the outage's end or after it.
"""

from __future__ import annotations

import dataclasses
import functools

from anew.backoff import Policy
from anew.lab.laws.pieces import Mixture, Piece
from anew.lab.laws.shapes import Law
from anew.lab.laws.wait import asks_custom, phase_starts
from anew.lab.sums.last import last


@dataclasses.dataclass(frozen=True, slots=True)
class LastRetry:
    """When the last retry comes.

    Args:
        retries: Retries that the policy allows; None: as many as fit before the deadline.
        earliest_ms: The earliest time of the last retry after the first failure.
        latest_ms: The least upper bound of that time.
        mean_ms: Its expected value.
        sd_ms: Its standard deviation.
        law: Its law.
        walked: Both ends are those of some thousand jobs: a few of many more may come earlier or later.
    """

    retries: int | None
    earliest_ms: int
    latest_ms: int
    mean_ms: float
    sd_ms: float
    law: Law
    walked: bool = False

    def percentile(self, percent: float) -> int:
        """Give the time by which so many percent of the jobs that never succeed have made their last retry.

        At once the times by which they are dead: ``percentile(100)`` is the last one's.
        """
        if percent >= 100:
            return self.latest_ms
        return min(max(self.law.percentile(percent), self.earliest_ms), self.latest_ms)

    def outlives(self, outage_ms: int) -> float:
        """Give the share of jobs, 0 to 1, that have a retry left at or after the end of an outage.

        Args:
            outage_ms: Its length from the first failure.
        """
        if outage_ms <= self.earliest_ms:
            return 1.0
        if outage_ms > self.latest_ms:
            return 0.0
        return min(max(1 - self.law.below(outage_ms), 0.0), 1.0)

    def outlived_by(self, percent: float) -> int:
        """Give the longest outage that at least so many percent of the jobs outlive."""
        if percent <= 0:
            return self.latest_ms
        return min(max(self.law.reached_by(percent), self.earliest_ms), self.latest_ms)


def outlives(policy: Policy, outage_ms: int) -> float | None:
    """Give the share of jobs that have a retry left at or after the end of an outage.

    Args:
        policy: The policy.
        outage_ms: The outage's length from the jobs' first failure.

    Returns:
        0 to 1; 1 where retries never end; None where it cannot be told.
    """
    if is_endless(policy):
        return 1.0
    found = window(policy)
    return None if found is None else found.outlives(outage_ms)


def is_endless(policy: Policy) -> bool:
    """Tell whether nothing ends the retries: neither limit nor phases nor deadline."""
    return policy.retries is None and policy.deadline_ms is None


@functools.lru_cache(maxsize=64)
def window(policy: Policy) -> LastRetry | None:
    """Give the law of the last retry.

    Args:
        policy: The policy.

    Returns:
        The window; None where retries never end, where a custom function decides, or where a deadline comes only
        after more waits than can be walked.
    """
    if is_endless(policy) or _any_custom(policy):
        return None
    if policy.retries == 0:
        return LastRetry(0, 0, 0, 0.0, 0.0, Mixture([Piece.atom(1.0, 0.0)]))
    found = last(policy)
    if found is None:
        return None
    earliest, latest = found.ends
    mean = min(max(found.mean_ms, earliest), latest)
    sd = found.sd_ms if latest > earliest else 0.0
    return LastRetry(policy.retries, earliest, latest, mean, sd, found.law, found.walked)


def _any_custom(policy: Policy) -> bool:
    return any(asks_custom(policy, start) for start in phase_starts(policy))
