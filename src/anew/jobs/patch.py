"""What a patch, a cancellation, a kill, a redrive or a release makes of a stored job."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from anew.errors import IllegalTransition
from anew.jobs.codec import LAST_INSTANT, U64, Retention
from anew.jobs.job import Job
from anew.jobs.state import ENDED, WAITING, State
from anew.jobs.terms import retention_and_note
from anew.jobs.transitions import Move, target


class RetentionPatch(msgspec.Struct, frozen=True):
    """How long an ended job is kept, in milliseconds: absent keeps what was, None means the server's default."""

    completed_ms: U64 | UnsetType | None = UNSET
    dead_ms: U64 | UnsetType | None = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Changes to a job that has not ended; UNSET keeps, None clears to the server's default (or to "now").

    Attributes:
        policy: JSON of a policy or of Zizq's three numbers.
    """

    queue: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    ready_at: int | UnsetType | None = UNSET
    retry_limit: int | UnsetType | None = UNSET
    policy: bytes | UnsetType | None = UNSET
    retention: RetentionPatch | UnsetType | None = UNSET


def patched(job: Job, patch: Patch, now: int) -> Job:
    """Give the job as it is after a patch.

    Raises:
        IllegalTransition: The job has ended.
    """
    if job.state in ENDED:
        raise IllegalTransition(f"cannot patch a job in state {job.state}")
    state, ready_at = _moved(job, patch.ready_at, now)
    return replace(
        job,
        queue=job.queue if isinstance(patch.queue, UnsetType) else patch.queue,
        priority=job.priority if isinstance(patch.priority, UnsetType) else patch.priority,
        state=state,
        ready_at=ready_at,
        retry_limit=job.retry_limit if isinstance(patch.retry_limit, UnsetType) else patch.retry_limit,
        policy=job.policy if isinstance(patch.policy, UnsetType) else patch.policy,
        retention=_merged(job.retention, patch.retention),
    )


def cancelled(job: Job, purge_at: int | None) -> Job:
    """Give the job as it is after being called off.

    Raises:
        IllegalTransition: The job has ended.
    """
    return replace(
        job, state=target(job.state, Move.CANCEL), purge_at=purge_at, hold_kind=None, hold_token=None
    )


def killed(job: Job, purge_at: int) -> Job:
    """Give a waiting or dead job as it is among the dead, kept until this instant.

    Raises:
        IllegalTransition: The job is neither.
    """
    state = job.state if job.state is State.DEAD else target(job.state, Move.KILL)
    return replace(job, state=state, purge_at=purge_at)


def redriven(job: Job, ready_at: int, now: int, *, reset_attempts: bool) -> Job:
    """Give a dead or cancelled job as a redrive makes it.

    Args:
        job: The ended job.
        ready_at: When it is to run, epoch ms.
        now: Epoch ms.
        reset_attempts: Begin its policy again, failures counted from zero; else the policy goes on where it stood, and
            a job that died of its limit dies again at its next failure.

    Raises:
        IllegalTransition: The job is neither dead nor cancelled.
    """
    after = replace(job, state=target(job.state, Move.REDRIVE), ready_at=ready_at, purge_at=None)
    if reset_attempts:
        # A deadline counts from the first failure, and a stateful jitter from the wait before: both begin again too.
        after = replace(after, attempts=0, first_failed_at=None, carry=None)
    return replace(after, state=waiting_state(after)) if ready_at > now else after


def released(job: Job, *, counted: bool) -> Job:
    """Give a job in flight as it is when it is given back and its time, which somebody has changed meanwhile, is still to come.

    Args:
        job: The job in flight.
        counted: The hold's end counts as an interruption.
    """
    ready = replace(
        job,
        state=target(job.state, Move.RELEASE),
        interruptions=job.interruptions + counted,
        hold_kind=None,
        hold_token=None,
    )
    return replace(ready, state=waiting_state(ready))


def waiting_state(job: Job) -> State:
    """Report in which state a ready job waits that gets a later time: SCHEDULED means that it has not failed."""
    return target(job.state, Move.DELAY if job.attempts else Move.POSTPONE)


def _moved(job: Job, ready_at: int | UnsetType | None, now: int) -> tuple[State, int]:
    """Give state and time after a new `ready_at`; a job in flight only notes it."""
    if isinstance(ready_at, UnsetType):
        return job.state, job.ready_at
    if ready_at is None:
        return (target(job.state, Move.HASTEN), now) if job.state in WAITING else (job.state, job.ready_at)
    ready_at = min(ready_at, LAST_INSTANT)
    if job.state in WAITING and ready_at <= now:
        return target(job.state, Move.HASTEN), ready_at
    if job.state is State.READY and ready_at > now:
        return waiting_state(job), ready_at
    return job.state, ready_at


def _merged(stored: bytes | None, patch: RetentionPatch | UnsetType | None) -> bytes | None:
    """Merge retention member by member; where nothing is left set, the whole goes."""
    if isinstance(patch, UnsetType):
        return stored
    if patch is None:
        return None
    old = Retention() if stored is None else retention_and_note(stored)[0]
    new = Retention(
        completed_ms=old.completed_ms if isinstance(patch.completed_ms, UnsetType) else patch.completed_ms,
        dead_ms=old.dead_ms if isinstance(patch.dead_ms, UnsetType) else patch.dead_ms,
    )
    return None if new == Retention() else msgspec.json.encode(new)
