"""What becomes of a job whose handler asks to run later, or calls its own job off. Neither is a failure."""

from __future__ import annotations

from anew.backoff import Draws, Exhausted, Policy, next_wait
from anew.jobs.change import Change, Decision, ended
from anew.jobs.codec import LAST_INSTANT
from anew.jobs.decide import Defaults, dead_purge_at, no_chance
from anew.jobs.job import Job
from anew.jobs.outcomes import Cancelled, Failed, Snoozed
from anew.jobs.transitions import Move
from anew.units import format_duration

_UNKNOWN = Policy.from_json({"curve": {"exponential": {"base": "10s"}}, "cap": "1h", "limit": 32})
"""For jobs whose task their worker does not know, as in the middle of a deployment: 10, 20, 40 s ... 42 min 40 s, then 1 h each,
24 h 25 min 10 s in all. No jitter: each try is a take by a worker that takes jobs anyway, and calls no service."""

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
    if snoozed.outcome == "unknown_task":
        return _decide_unknown(job, snoozed, before, defaults, now)
    if snoozed.most is not None and before >= snoozed.most:
        times = "1 time" if before == 1 else f"{before} times"
        decision = Decision("dead", f"snoozed {times}, the limit")
        return _ended(job, snoozed, Move.DIE, decision, now, dead_purge_at(job.retention, defaults, now))
    due_at = min(max(snoozed.ready_at, now), LAST_INSTANT)
    move = Move.DELAY if job.attempts else Move.SNOOZE
    decision = Decision("retry", _WORDS[snoozed.outcome], wait_ms=due_at - now, due_at=due_at)
    return _ended(job, snoozed, move, decision, now, None)


def _decide_unknown(job: Job, snoozed: Snoozed, before: int, defaults: Defaults, now: int) -> Change:
    answer = next_wait(_UNKNOWN, before + 1, Draws(rng=no_chance))
    if isinstance(answer, Exhausted):
        decision = Decision("dead", f"no worker that had it in {before + 1} tries knew its task, the limit")
        return _ended(job, snoozed, Move.DIE, decision, now, dead_purge_at(job.retention, defaults, now))
    due_at = min(now + answer.wait_ms, LAST_INSTANT)
    reason = (
        f"its worker does not know its task: it waits {format_duration(answer.wait_ms)} for one that does"
    )
    decision = Decision("retry", reason, wait_ms=answer.wait_ms, due_at=due_at)
    return _ended(job, snoozed, Move.DELAY if job.attempts else Move.SNOOZE, decision, now, None)


def decide_cancel(job: Job, cancelled: Cancelled, *, defaults: Defaults, now: int) -> Change:
    """Decide what becomes of a job that its handler calls off: it is kept as long as a dead one."""
    decision = Decision("cancelled", "the worker called it off")
    return _ended(job, cancelled, Move.CANCEL, decision, now, dead_purge_at(job.retention, defaults, now))


def _ended(
    job: Job, outcome: Snoozed | Cancelled, move: Move, decision: Decision, now: int, purge_at: int | None
) -> Change:
    name = outcome.outcome if isinstance(outcome, Snoozed) else "cancelled"
    kind = "UnknownTask" if name == "unknown_task" else type(outcome).__name__
    return ended(
        job,
        Failed(message=outcome.reason, error_type=kind),
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
