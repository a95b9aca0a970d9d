"""What becomes of a job whose worker goes away with it, again and again: it may be what kills them."""

from __future__ import annotations

from functools import lru_cache

from anew.backoff import Draws, Exhausted, Policy, next_wait
from anew.jobs.change import Change, Decision, ended
from anew.jobs.decide import Defaults, dead_purge_at, no_chance
from anew.jobs.job import Job
from anew.jobs.outcomes import Failed, Interrupted
from anew.jobs.terms import retention_and_note
from anew.jobs.transitions import Move
from anew.units import format_duration

_MESSAGES = {
    "worker gone": "its worker went away while it had the job",
    "lease lapsed": "its worker kept the job longer than a lease lasts",
}
_WAITS = {
    "phases": [
        {"curve": {"constant": 0}, "count": 1},
        {"curve": {"exponential": {"base": "2s"}}},
    ],
    "cap": "1m",
}
"""After the first interruption no wait; from the second in a row on 2, 4, 8 ... 60 s. No jitter: so people can predict when such a
job comes back."""


def decide_interruption(job: Job, interrupted: Interrupted, *, defaults: Defaults, now: int) -> Change | None:
    """Decide what an interrupted attempt makes of its job; failures and their policy have no part in it.

    Args:
        job: The job as stored, still in flight.
        interrupted: How the hold on it ended.
        defaults: What holds for all jobs: above all the limit of interruptions where the worker has none of its own.
        now: Epoch ms.

    Returns:
        The change, with the attempt's record and the arithmetic of the decision; None where interruptions have no limit
        and are not recorded: then the job goes back to its place.
    """
    limit = limit_of(interrupted, defaults)
    if limit == 0:
        return None
    count = job.interruptions + 1
    text = "1 interruption" if count == 1 else f"{count} interruptions in a row"
    answer = next_wait(_waits(limit), count, Draws(rng=no_chance))
    if isinstance(answer, Exhausted):
        note = "" if job.retention is None else retention_and_note(job.retention)[1]
        purge_at = dead_purge_at(job.retention, defaults, now)
        decision = Decision("dead", f"poison: {text}, the limit{note}")
        return _change(job, interrupted, Move.DIE, decision, now, count=0, purge_at=purge_at)
    if answer.wait_ms == 0:
        decision = Decision("retry", f"{text}: back to its place at once")
        return _change(job, interrupted, Move.RELEASE, decision, now, count=count)
    decision = Decision(
        "retry",
        f"{text}: it waits {format_duration(answer.wait_ms)}",
        nominal_ms=answer.nominal_ms,
        cap_ms=answer.cap_ms,
        wait_ms=answer.wait_ms,
        due_at=now + answer.wait_ms,
    )
    return _change(job, interrupted, Move.DELAY, decision, now, count=count)


def limit_of(interrupted: Interrupted, defaults: Defaults) -> int:
    """Give how many interruptions in a row end a job; 0: no number does."""
    return defaults.interruption_limit if interrupted.limit is None else interrupted.limit


@lru_cache(maxsize=4)
def _waits(limit: int) -> Policy:
    return Policy.from_json(_WAITS | {"limit": limit - 1})


def _change(
    job: Job,
    interrupted: Interrupted,
    move: Move,
    decision: Decision,
    now: int,
    *,
    count: int,
    purge_at: int | None = None,
) -> Change:
    return ended(
        job,
        Failed(message=interrupted.how or _MESSAGES[interrupted.cause], error_type="Interrupted"),
        move,
        decision,
        now,
        outcome="interrupted",
        attempts=job.attempts,
        first_failed_at=job.first_failed_at,
        purge_at=purge_at,
        phase=job.phase,
        carry=job.carry,
        interruptions=count,
    )
