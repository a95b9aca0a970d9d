"""Rules about how long a policy goes on, and what is left when it ends."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from anew.backoff import CEILING_MS, Policy
from anew.lab.last_retry import LastRetry, shares_by_limit
from anew.lab.lint.facts import Facts
from anew.lab.lint.finding import Context, Severity, rule
from anew.units import (
    DAY_MS,
    MINUTE_MS,
    SECOND_MS,
    format_duration,
    format_duration_about,
    format_duration_short,
    format_share,
)

_YEAR_MS: Final = 365 * DAY_MS
_NEAR: Final = 0.1
_STEADY: Final = {"constant": "1m"}
_STEEP: Final = {"power": {"base": "15s", "exponent": 4, "origin": 1}}


@rule(
    "outage-outlives-window", Severity.ERROR,
    {"curve": {"exponential": {"base": "1s"}}, "jitter": "even", "limit": 12}, outages_ms=(3 * DAY_MS,),
)  # fmt: skip
def outage_outlives_window(facts: Facts, context: Context) -> Iterator[str]:
    """Jobs whose last retry comes before an outage ends are lost, although a longer wait would have saved them."""
    window = facts.window
    if window is None:
        return
    earliest, latest = (format_duration_about(ms) for ms in (window.earliest_ms, window.latest_ms))
    when = earliest if earliest == latest else f"{earliest} to {latest}"
    for outage in sorted(set(context.outages_ms)):
        dead = 1 - window.outlives(outage)
        if dead > context.deaths + SURE:
            who = f"{_jobs(dead, context.deaths)} in an outage of {format_duration(outage)}"
            todo = remedy(facts, outage, 1 - context.deaths)
            yield f"{who}: the last retry comes {when} after the first failure; {todo}"


def _jobs(dead: float, allowed: float) -> str:
    """Say how many die; and how many may, where that is near."""
    if dead == 1:
        return "every job dies"
    if dead >= _NEAR:
        return f"{format_share(dead)} of the jobs die"
    return f"{100 * dead:.3g} % of the jobs die ({100 * allowed:.3g} % may)"


@rule("brief-window", Severity.INFO, {"curve": {"constant": "1s"}, "jitter": "even", "limit": 3})
def brief_window(facts: Facts, context: Context) -> Iterator[str]:
    """Retries that all happen within a minute do not even outlast a restart of the service they call."""
    if facts.window and not context.outages_ms and facts.rows and facts.window.latest_ms < MINUTE_MS:
        latest = format_duration_about(facts.window.latest_ms)
        yield f"the last retry comes at most {latest} after the first failure; {_longer(facts)} to outlive a restart"


def _longer(facts: Facts) -> str:
    """Say what to change for more retries: what ends them now."""
    policy = facts.policy
    if policy.deadline_ms is not None and (facts.ended_by_deadline or policy.retries is None):
        return "raise deadline"
    if policy.deadline_ms is not None and policy.deadline_ms < MINUTE_MS:
        return "raise deadline and limit"
    return "give a phase more retries" if policy.retries != policy.limit else "raise limit"


@rule("unlimited", Severity.WARNING, {"curve": _STEADY, "jitter": "even", "limit": None})
def unlimited(facts: Facts, context: Context) -> Iterator[str]:
    """A job that can never succeed is retried for ever and never shows up among the dead jobs."""
    if facts.endless:
        yield "neither limit nor deadline ever ends the retries; give one of them"


@rule("limit-out-of-reach", Severity.WARNING, {"curve": _STEEP, "jitter": "even", "limit": 60})
def limit_out_of_reach(facts: Facts, context: Context) -> Iterator[str]:
    """A limit that takes years to reach is no limit."""
    retries, window = facts.policy.retries, facts.window
    if retries is not None and window is not None and _is_years(facts):
        which = "the only retry" if retries == 1 else f"the last of {retries:,} retries"
        yield f"{which} comes {format_duration(window.earliest_ms)} after the first failure; {_sooner(facts)}"


def _is_years(facts: Facts) -> bool:
    """Tell whether a limit takes years to reach; where there is a deadline, which is a year at most, that ends them."""
    window = facts.window
    return facts.policy.deadline_ms is None and window is not None and window.earliest_ms >= _YEAR_MS


def _sooner(facts: Facts) -> str:
    return "lower limit, or give a cap" if facts.policy.cap_ms is None else "lower limit, or cap"


@rule(
    "deadline-cuts-limit",
    Severity.WARNING,
    {"curve": _STEADY, "jitter": "even", "deadline": "5m", "limit": 20},
)
def deadline_cuts_limit(facts: Facts, context: Context) -> Iterator[str]:
    """Both a limit and a deadline are given, and the deadline always comes first, so the limit has no effect."""
    policy = facts.policy
    if not facts.ended_by_deadline or not policy.limit_given or not facts.rows or policy.retries is None:
        return
    yield (
        f"the deadline of {format_duration(policy.deadline_ms or 0)} lets at most {len(facts.rows)} of "
        f"{policy.retries:,} retries happen; leave one of them out"
    )


@rule(
    "dead-gone-early", Severity.INFO, {"curve": _STEEP, "jitter": "even", "limit": 25},
    dead_retention_ms=7 * DAY_MS,
)  # fmt: skip
def dead_gone_early(facts: Facts, context: Context) -> Iterator[str]:
    """If dead jobs are deleted sooner than their retries took, people have less time to react than the machine had."""
    kept, window = context.dead_retention_ms, facts.window
    if kept is None or window is None or facts.policy.on_exhausted != "dead" or window.latest_ms <= kept:
        return
    if _is_years(facts):
        return  # The limit is what is wrong then: nobody keeps the dead for years.
    yield (
        f"retries take up to {format_duration(window.latest_ms)}, but a dead job is kept for {format_duration(kept)} only; "
        "raise default-dead-job-retention"
    )


@rule(
    "payload-gone", Severity.WARNING, {"curve": _STEEP, "jitter": "even", "limit": 25},
    payload_retention_ms=DAY_MS,
)  # fmt: skip
def payload_gone(facts: Facts, context: Context) -> Iterator[str]:
    """A retry that comes after the payload's upload, link or token has expired can only fail."""
    kept, rows, policy = context.payload_retention_ms, facts.rows, facts.policy
    if kept is None or not rows or (facts.window is not None and facts.window.latest_ms <= kept):
        return
    if policy.deadline_ms is not None and policy.deadline_ms <= kept:
        return
    late = next((row.retry for row in rows if (row.window_latest_ms or 0) > kept), None)
    if late is None and not rows[-1].latest_ms:
        return  # Retries without end that all wait nothing: nobody can say when.
    when = f"from retry {late} on" if late is not None else f"some time after retry {len(rows):,}"
    yield (
        f"{when} a job may run when what its payload points at is gone "
        f"({format_duration(kept)} after the first failure); {_earlier_end(policy)}"
    )


def _earlier_end(policy: Policy) -> str:
    """Say what ends the retries sooner."""
    deadline = "give a deadline" if policy.deadline_ms is None else "give an earlier deadline"
    return deadline if policy.retries is None else f"lower limit, or {deadline}"


@rule("discard", Severity.INFO, {"curve": _STEADY, "jitter": "even", "limit": 5, "on_exhausted": "discard"})
def discard(facts: Facts, context: Context) -> Iterator[str]:
    """A discarded job leaves nothing to inspect and nothing to bring back."""
    if facts.policy.on_exhausted == "discard" and not facts.endless:
        yield 'jobs that spend their retries vanish with their errors; "on_exhausted": "dead" keeps them'


@rule("no-retry", Severity.INFO, {"curve": _STEADY, "limit": 0})
def no_retry(facts: Facts, context: Context) -> Iterator[str]:
    """Without retries the first failure is final, and the curve is never used."""
    if facts.policy.retries == 0:
        yield "the first failure is final; raise limit if that is not meant"
    elif facts.none_in_time:
        deadline = format_duration(facts.policy.deadline_ms or 0)
        yield f"the first failure is final: no retry comes before the deadline of {deadline}; raise deadline"


# ---- which limit, or which deadline, would let jobs outlive an outage: calculated, not guessed, and in little time


MOST: Final = 400
"""No limit above this is proposed: whoever needs more retries needs another curve."""

SURE: Final = 1e-9
"""A share that is less by no more than this is the share: floating sums are off by that much, and it is a job in 10^9."""


def remedy(facts: Facts, outage_ms: int, survivors: float) -> str:
    """Say what to do so that enough jobs outlive an outage.

    Args:
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
