"""Which limit, or which deadline, would let jobs outlive an outage: reckoned, not guessed, and in little time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from anew.backoff import CEILING_MS, Decorrelated, Even, Slices
from anew.lab.lint.facts import Facts
from anew.units import MINUTE_MS, SECOND_MS, format_duration_short

MOST: Final = 400
"""No limit above this is proposed: whoever needs more retries needs another curve."""

SURE: Final = 1e-9
"""A share that is less by no more than this is the share: floating sums are off by that much, and it is a job in 10^9."""

# What all windows that are worked out may cost, in retries: about half a second, a quarter of what lint has for a policy.
_BUDGET: Final = 800
_DEAR: Final = 5
"""Waits that remember, and dithered ones, are walked: each costs that many times as much."""


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
    """Find the lowest limit that is enough: `MOST` + 1 if none is so far; None if it takes too long to tell, or if something
    else ends the retries.
    """
    rows = facts.rows_of(MOST, limit=MOST)
    least = facts.policy.retries
    if least is None or len(rows) <= least:
        return None
    latest = [row.window_latest_ms or 0 for row in rows]
    middles = [((row.window_earliest_ms or 0) + (row.window_latest_ms or 0)) / 2 for row in rows]

    def enough(limit: int) -> tuple[bool, int]:
        """Tell whether a limit is enough, and which outage it is enough for."""
        window = facts.window_of(limit=limit)
        if window is None:
            return False, 0
        return window.outlives(outage_ms) >= survivors - SURE, window.outlived_by(100 * survivors)

    # Fewer retries cannot reach that far, whatever the jitter makes of them.
    least = max(least, bisect_left(latest, outage_ms))
    if least >= len(rows):
        return MOST + 1 if len(rows) == MOST else None
    found = _lowest(enough, least, middles, outage_ms, _BUDGET // (_DEAR if _is_dear(facts) else 1))
    return None if found is not None and found > len(rows) != MOST else found


def _lowest(
    enough: Callable[[int], tuple[bool, int]], least: int, middles: list[float], outage_ms: int, budget: int
) -> int | None:
    """Find the lowest number that is enough, above one that is not; one more than there are if none is.

    Each guess is set right by the one before: the middle of a retry's span is some way off the time that enough jobs
    reach, and a few retries on it is about as far off again.
    """
    found, shift = len(middles) + 1, 0.0
    while found - least > 1:
        guess = min(max(bisect_left(middles, outage_ms + shift) + 1, least + 1), found - 1)
        budget -= guess
        if budget < 0:
            return None if found > len(middles) else found
        is_enough, reached_ms = enough(guess)
        shift = middles[guess - 1] - reached_ms
        if is_enough:
            found = guess
        else:
            least = guess
    return found


def _deadline(facts: Facts, outage_ms: int, survivors: float) -> int | None:
    """Find a deadline that is enough with the limit as it is: the outage and the longest wait that may cross its end."""
    waits = [
        row.latest_ms or 0
        for row in facts.rows_of(MOST, deadline_ms=None)
        if (row.window_earliest_ms or 0) < outage_ms
    ]
    if not waits or _is_dear(facts):
        return None
    longest_ms = 0 if facts.policy.on_deadline == "clip" else max(waits)
    step_ms = MINUTE_MS if outage_ms >= 60 * MINUTE_MS else SECOND_MS
    # Once is enough but for what a sum told on a grid is off; twice leaves no doubt.
    for times in (1, 2):
        deadline_ms = -(-(outage_ms + times * longest_ms) // step_ms) * step_ms
        window = facts.window_of(deadline_ms=deadline_ms) if deadline_ms <= CEILING_MS else None
        if window is not None and window.outlives(outage_ms) >= survivors - SURE:
            return deadline_ms
    return None


def _is_dear(facts: Facts) -> bool:
    jitter = facts.policy.jitter
    return isinstance(jitter, (Decorrelated, Slices)) or (isinstance(jitter, Even) and jitter.dither > 0)
