"""Rules about how long a policy goes on, and what is left when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from anew.lab.laws.outlive import Window
from anew.lab.lint.facts import Facts
from anew.lab.lint.finding import Context, Severity, rule
from anew.units import DAY_MS, MINUTE_MS, format_duration, format_duration_about, format_share

_YEAR_MS: Final = 365 * DAY_MS
_STEADY: Final = {"constant": "1m"}
_STEEP: Final = {"power": {"base": "15s", "exponent": 4, "origin": 1}}


@rule(
    "outage-outlives-window", Severity.ERROR,
    {"curve": {"exponential": {"base": "1s"}}, "jitter": "even", "limit": 12}, outages_ms=(3 * DAY_MS,),
)  # fmt: skip
def outage_outlives_window(facts: Facts, context: Context) -> Iterator[str]:
    """Jobs whose last retry comes before the end of an outage die, though waiting longer would have saved them."""
    window = facts.window
    if window is None:
        return
    earliest, latest = (format_duration_about(ms) for ms in (window.earliest_ms, window.latest_ms))
    when = earliest if earliest == latest else f"{earliest} to {latest}"
    for outage in sorted(set(context.outages_ms)):
        dead = 1 - window.outlives(outage)
        if dead > 0:
            who = "every job dies" if dead == 1 else f"{format_share(dead)} of the jobs die"
            yield (
                f"{who} in an outage of {format_duration(outage)}: the last retry comes {when} after the first "
                "failure; raise limit, or let the curve grow"
            )


@rule("brief-window", Severity.INFO, {"curve": {"constant": "1s"}, "jitter": "even", "limit": 3})
def brief_window(facts: Facts, context: Context) -> Iterator[str]:
    """Retries that are all over within a minute do not even outlive the restart of what they call."""
    if facts.window and not context.outages_ms and facts.rows and facts.window.latest_ms < MINUTE_MS:
        latest = format_duration_about(facts.window.latest_ms)
        yield f"the last retry comes at most {latest} after the first failure; raise limit to outlive a restart"


@rule("unlimited", Severity.WARNING, {"curve": _STEADY, "jitter": "even", "limit": None})
def unlimited(facts: Facts, context: Context) -> Iterator[str]:
    """A job that can never succeed is tried for ever, and nobody finds it among the dead."""
    if facts.endless:
        yield "neither limit nor deadline ever ends the retries; give one of them"


@rule("limit-out-of-reach", Severity.WARNING, {"curve": _STEEP, "jitter": "even", "limit": 60})
def limit_out_of_reach(facts: Facts, context: Context) -> Iterator[str]:
    """A limit that is met after years is one that no job and no team outlives."""
    if facts.window and _is_years(facts.window):
        yield (
            f"the last of {facts.policy.retries:,} retries comes {format_duration(facts.window.earliest_ms)} after the first "
            "failure; lower limit, or give a cap"
        )


def _is_years(window: Window) -> bool:
    return window.earliest_ms >= _YEAR_MS


@rule(
    "deadline-cuts-limit",
    Severity.WARNING,
    {"curve": _STEADY, "jitter": "even", "deadline": "5m", "limit": 20},
)
def deadline_cuts_limit(facts: Facts, context: Context) -> Iterator[str]:
    """Limit and deadline are both given, and the deadline always comes first: the limit says nothing."""
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
    """Who retries for weeks and keeps the dead for days leaves people less time than the machine took."""
    kept, window = context.dead_retention_ms, facts.window
    if kept is None or window is None or facts.policy.on_exhausted != "dead" or window.latest_ms <= kept:
        return
    if _is_years(window):
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
    """A retry after the upload, the link or the token of its payload has expired can only fail."""
    kept, rows = context.payload_retention_ms, facts.rows
    if kept is None or not rows or (facts.window is not None and facts.window.latest_ms <= kept):
        return
    late = next((row.retry for row in rows if (row.window_latest_ms or 0) > kept), len(rows) + 1)
    yield (
        f"from retry {late} on a job may run when what its payload points at is gone "
        f"({format_duration(kept)} after the first failure); lower limit, or give a deadline"
    )


@rule("discard", Severity.INFO, {"curve": _STEADY, "jitter": "even", "limit": 5, "on_exhausted": "discard"})
def discard(facts: Facts, context: Context) -> Iterator[str]:
    """A discarded job leaves nothing to look at and nothing to bring back."""
    if facts.policy.on_exhausted == "discard" and not facts.endless:
        yield 'jobs that spend their retries vanish with their errors; "on_exhausted": "dead" keeps them'


@rule("no-retry", Severity.INFO, {"curve": _STEADY, "limit": 0})
def no_retry(facts: Facts, context: Context) -> Iterator[str]:
    """Without a retry the first failure is final, and the curve is there for nothing."""
    if facts.policy.retries == 0:
        yield "the first failure is final; raise limit if that is not meant"
