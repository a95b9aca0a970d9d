"""What becomes of a job whose handler asks to run later, or calls its own job off. Neither is a failure."""

from __future__ import annotations

from anew.jobs.change import Change, Decision, ended
from anew.jobs.codec import LAST_INSTANT
from anew.jobs.decide import Defaults, dead_purge_at
from anew.jobs.job import Job
from anew.jobs.outcomes import Cancelled, Failed, Snoozed
from anew.jobs.transitions import Move

_WORDS = {
    "snoozed": "the worker asked to run it later",
    "rate_limited": "what it calls is limited now",
    "held": "what it calls is failing",
}


def decide_snooze(job: Job, snoozed: Snoozed, *, before: int, defaults: Defaults, now: int) -> Change:
    """Decide what a snooze makes of its job: it waits, its attempts and its policy's waits stay as they are.

    Args:
        job: The job as stored, still in flight.
        snoozed: What the worker asked for. A time that has passed means now.
        before: How often the job has been snoozed already.
        defaults: What holds for jobs that do not set it.
        now: Epoch ms.
    """
    if snoozed.most is not None and before >= snoozed.most:
        times = "1 time" if before == 1 else f"{before} times"
        decision = Decision("dead", f"snoozed {times}, the limit")
        return _ended(job, snoozed, Move.DIE, decision, now, dead_purge_at(job.retention, defaults, now))
    due_at = min(max(snoozed.ready_at, now), LAST_INSTANT)
    move = Move.DELAY if job.attempts else Move.SNOOZE
    decision = Decision("retry", _WORDS[snoozed.outcome], wait_ms=due_at - now, due_at=due_at)
    return _ended(job, snoozed, move, decision, now, None)


def decide_cancel(job: Job, cancelled: Cancelled, *, defaults: Defaults, now: int) -> Change:
    """Decide what becomes of a job that its handler calls off: it is kept as long as a dead one."""
    decision = Decision("cancelled", "the worker called it off")
    return _ended(job, cancelled, Move.CANCEL, decision, now, dead_purge_at(job.retention, defaults, now))


def _ended(
    job: Job, outcome: Snoozed | Cancelled, move: Move, decision: Decision, now: int, purge_at: int | None
) -> Change:
    name = outcome.outcome if isinstance(outcome, Snoozed) else "cancelled"
    return ended(
        job,
        Failed(message=outcome.reason, error_type=type(outcome).__name__),
        move,
        decision,
        now,
        outcome=name,
        attempts=job.attempts,
        first_failed_at=job.first_failed_at,
        purge_at=purge_at,
        phase=job.phase,
        carry=job.carry,
        counts=False,
    )
