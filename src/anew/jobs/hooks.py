"""What ties a job to something beside it: a unique key, a time to start by, a record of its progress, a batch, a limit's key.

A job with no ties has `hooks` 0, and nothing of this is ever looked at for it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from anew.jobs.batches import Callback, Result, Standing
from anew.jobs.codec import JobHooks
from anew.jobs.state import ENDED, State
from anew.jobs.transitions import Move
from anew.jobs.unique import End


class Hook(IntEnum):
    """The bits of a job's `hooks`, as stored.

    UNIQUE, EXPIRES, TRACKED and MEMBER (of a batch) say what it is tied to, for good; UNIQUE is a key to fold by too. COMPLETE and
    SUCCESS: it is this callback of a batch. FAILED: its batch counts it as failed; set at its first report that is no success.
    ONCE: it is found by its producer's id, so that it is not stored again, whatever happens to it.
    EXPIRED: it was not started in time, and ended by that; not set where its record goes with its end. LIMITED: a key bounds it
    (`anew.jobs.key_limits`).
    """

    UNIQUE = 1
    EXPIRES = 2
    TRACKED = 4
    MEMBER = 8
    FAILED = 16
    COMPLETE = 32
    SUCCESS = 64
    ONCE = 128
    EXPIRED = 256
    LIMITED = 512


SEEN_BY_TAKES = int(Hook.UNIQUE | Hook.EXPIRES | Hook.TRACKED | Hook.LIMITED)
"""A take changes nothing for jobs that have none of these."""

CALLBACKS = {Callback.COMPLETE: Hook.COMPLETE, Callback.SUCCESS: Hook.SUCCESS}

Event = Move | End


class Hooked(NamedTuple):
    """What is stored of a job's ties, with what else deciding about them needs.

    Attributes:
        key: The job.
        state: Before what happens to it.
        hooks: Its `Hook` bits.
        expires_at: Epoch ms.
        batch: Key of the batch that it is a member or a callback of.
        digest, scope: Of its unique key, whether it holds the key now or not.
        jid: Its producer's id.
        folded: How many new jobs were folded into it.
    """

    key: int
    state: State
    hooks: int
    expires_at: int | None
    batch: int | None
    digest: bytes | None
    scope: str | None
    jid: str | None
    folded: int = 0


def bits_of(ties: JobHooks) -> int:
    """Give the bits of a new job."""
    bits = int(Hook.UNIQUE) if ties.unique is not None or ties.fold is not None else 0
    if ties.expires_at is not None:
        bits |= Hook.EXPIRES
    if ties.tracked:
        bits |= Hook.TRACKED
    if ties.once:
        bits |= Hook.ONCE
    if ties.limit is not None:
        bits |= Hook.LIMITED
    if ties.batch is not None:
        bits |= Hook.MEMBER if ties.callback is None else CALLBACKS[Callback(ties.callback)]
    return bits


def standing_of(job: Hooked) -> Standing:
    """Report how its batch counts a member until now."""
    if job.state is State.COMPLETED:
        return Standing.SUCCEEDED
    return Standing.FAILED if job.hooks & Hook.FAILED else Standing.PENDING


_RESULTS: dict[Event, Result] = {
    Move.COMPLETE: Result.SUCCEEDED,
    Move.RETRY: Result.FAILED,
    Move.DIE: Result.DROPPED,
    Move.CANCEL: Result.DROPPED,
    Move.KILL: Result.DROPPED,
    End.EXPIRED: Result.DROPPED,
    End.DELETED: Result.DROPPED,
}


def result_of(job: Hooked, event: Event) -> Result | None:
    """Report what an event is to the batch of a member; None if it is no report."""
    return None if job.state in ENDED else _RESULTS.get(event)


def move_between(before: State, after: State) -> Move:
    """Name the move behind a change from outside; PROMOTE stands for all moves among waiting states, which change no tie."""
    if after is State.DEAD:
        return Move.KILL
    if after is State.CANCELLED:
        return Move.CANCEL
    if before in ENDED:
        return Move.REDRIVE
    return Move.RELEASE if before is State.IN_FLIGHT else Move.PROMOTE
