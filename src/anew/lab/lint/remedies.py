"""Which limit, or which deadline, would let jobs outlive an outage: reckoned, not guessed, and in little time."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from typing import Final

from anew.backoff import CEILING_MS
from anew.lab.last_retry import LastRetry, shares_by_limit
from anew.lab.lint.facts import Facts
from anew.units import MINUTE_MS, SECOND_MS, format_duration_short

MOST: Final = 400
"""No limit above this is proposed: whoever needs more retries needs another curve."""

SURE: Final = 1e-9
"""A share that is less by no more than this is the share: floating sums are off by that much, and it is a job in 10^9."""


def remedy(facts: Facts, outage_ms: int, survivors: float) -> str:
    """Say what to do so that enough jobs outlive an outage.

    Args:
        facts: The policy, which lets too many die.
        outage_ms: The outage's length from the first failure.
        survivors: The share of jobs that shall outlive it.
    """
    policy = facts.policy
    if policy.deadline_ms is None or policy.deadline_ms >= outage_ms:
        limit = _limit(facts, outage_ms, survivors)
        if limit is not None and limit <= MOST:
            return f"raise limit to {limit}, or let the curve grow"
        if limit is not None and policy.deadline_ms is None:
            return f"no limit up to {MOST} is enough; let the curve grow"
    if policy.deadline_ms is not None:
        deadline_ms = _deadline(facts, outage_ms, survivors)
        if deadline_ms is not None:
            return f"raise deadline to {format_duration_short(deadline_ms)}"
        if _never_reach(facts, outage_ms):
            return f"no deadline and no limit up to {MOST} are enough; let the curve grow"
        both = "deadline" if policy.limit is None else "deadline and limit"
        return f"raise {both}, or let the curve grow"
    if policy.phases and policy.retries != policy.limit:
        return "give a phase more retries, or let its curve grow"
    return "raise limit, or let the curve grow"


def _never_reach(facts: Facts, outage_ms: int) -> bool:
    """Tell whether all waits that anybody would allow end before an outage does."""
    rows = facts.rows_of(MOST, limit=MOST, deadline_ms=None)
    return len(rows) == MOST and (rows[-1].window_latest_ms or 0) < outage_ms


def _limit(facts: Facts, outage_ms: int, survivors: float) -> int | None:
    """Find the lowest limit that is enough: `MOST` + 1 if none is so far; None if something else ends the retries."""
    most = dataclasses.replace(facts.policy, limit=MOST).retries or MOST
    rows = facts.rows_of(most, limit=MOST)
    least = facts.policy.retries
    if least is None or len(rows) <= least:
        return None
    if survivors < 1:
        shares = shares_by_limit(facts.policy, outage_ms, len(rows))
        found = bisect_left(shares, survivors, lo=least) + 1
        while found <= len(rows) and not _enough(facts.window_of(limit=found), outage_ms, survivors):
            found += 1  # the one draw and that of the limit alone differ by chance
    else:
        found = bisect_left(rows, outage_ms, lo=least, key=lambda row: row.window_earliest_ms or 0) + 1
    return None if found > len(rows) != MOST else found


def _enough(last: LastRetry | None, outage_ms: int, survivors: float) -> bool:
    return last is not None and last.outlives(outage_ms) >= survivors - SURE


def _deadline(facts: Facts, outage_ms: int, survivors: float) -> int | None:
    """Find a deadline that is enough with the limit as it is: the outage and the longest wait that may cross its end."""
    waits = [
        row.latest_ms or 0
        for row in facts.rows_of(MOST, deadline_ms=None)
        if (row.window_earliest_ms or 0) < outage_ms
    ]
    if not waits:
        return None
    longest_ms = 0 if facts.policy.on_deadline == "clip" else max(waits)
    step_ms = MINUTE_MS if outage_ms >= 60 * MINUTE_MS else SECOND_MS
    # Once is enough but for what the draw is off; twice leaves no doubt.
    for times in (1, 2):
        deadline_ms = -(-(outage_ms + times * longest_ms) // step_ms) * step_ms
        window = facts.window_of(deadline_ms=deadline_ms) if deadline_ms <= CEILING_MS else None
        if _enough(window, outage_ms, survivors):
            return deadline_ms
    return None
