"""Unique keys: while a job holds its key, a new job of the same key is a duplicate of it.

A key is remembered as a digest, and a digest has one lock at most. A scope says how long the lock lasts: while its job is in
certain states, or until an instant. `_EFFECTS` says for each scope what each move of the holder makes of its lock.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b

from msgspec import Struct

from anew.jobs.codec import LAST_INSTANT
from anew.jobs.state import State
from anew.jobs.transitions import Move
from anew.units import milliseconds_of

DIGEST_BYTES = 16


class Scope(StrEnum):
    """How long a key is held.

    QUEUED: while the job waits, for its time or for a worker. ACTIVE: until it ends. EXISTS: while its record exists. STARTED and
    SUCCEEDED end at an instant at the latest: STARTED when a worker takes the job before that, SUCCEEDED when the job completes
    before that. Until then a job that dies, is cancelled, expires or is removed keeps these two. OPEN is that of a fold key, which
    has the same locks: until a worker takes the job, or it ends; see `anew.jobs.fold`.
    """

    QUEUED = "queued"
    ACTIVE = "active"
    EXISTS = "exists"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    OPEN = "open"


TIMED = frozenset({Scope.STARTED, Scope.SUCCEEDED})
"""Scopes whose locks end at an instant, and outlive their job."""


class Effect(StrEnum):
    """What a move makes of the holder's lock.

    KEEP: nothing. RELEASE: it goes, if the job still owns it. CLAIM: the job gets it, if nobody has it.
    """

    KEEP = "keep"
    RELEASE = "release"
    CLAIM = "claim"


class End(StrEnum):
    """What ends a job or its record besides the moves.

    EXPIRED: it was not started in time, see `anew.jobs.expiry`. DELETED: somebody removed its record. REAPED: its retention is
    over, at once where there is none.
    """

    EXPIRED = "expired"
    DELETED = "deleted"
    REAPED = "reaped"


class Lock(Struct, frozen=True, gc=False):
    """One held key, as stored.

    Attributes:
        digest: What `text_digest` or `parts_digest` gives.
        job_key: The holder. Its record may be gone where the scope is timed.
        scope: The holder's own scope, which decides when it is released.
        ends_at: Epoch ms at which a timed lock ends; None for the other scopes.
    """

    digest: bytes
    job_key: int
    scope: Scope
    ends_at: int | None = None


def text_digest(key: str) -> bytes:
    """Give the digest of a key that the producer chose; any text, the empty one too. Such keys are global, over all queues."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES, person=b"key").digest()


def parts_digest(job_type: str, queue: str, args: bytes, *, use: bytes = b"parts") -> bytes:
    """Give the digest of a job's own parts. It never meets the digest of a text.

    Args:
        job_type: Its handler's name.
        queue: Its queue.
        args: Its arguments in one written form: equal arguments must come as equal bytes.
        use: What the digest is for; those of different uses never meet.
    """
    digest = blake2b(digest_size=DIGEST_BYTES, person=use)
    for part in (job_type.encode("utf-8", "surrogatepass"), queue.encode("utf-8", "surrogatepass"), args):
        # With its length before it, no part can run into the next.
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def lock_ends_at(seconds: object, ready_at: int | None, now: int) -> int:
    """Decide when a timed lock ends: so long after the push, or after the time for which the job is scheduled.

    Args:
        seconds: What the producer gave, an int or a float; a part of a millisecond counts as a whole one.
        ready_at: When the job may run, epoch ms; None means now.
        now: Epoch ms.

    Raises:
        InvalidInput: It is not a positive number of seconds.
    """
    begins_at = now if ready_at is None else max(ready_at, now)
    return min(begins_at + milliseconds_of(seconds, "unique_for"), LAST_INSTANT)


_WAITS = frozenset({State.SCHEDULED, State.RETRYING, State.READY})
_LIVES = _WAITS | {State.IN_FLIGHT}
_CONFLICTS: dict[Scope, frozenset[State]] = {
    Scope.QUEUED: _WAITS,
    Scope.ACTIVE: _LIVES,
    Scope.EXISTS: frozenset(State),
    Scope.STARTED: _WAITS,
    Scope.SUCCEEDED: _LIVES,
    Scope.OPEN: frozenset(),
}
"""For the scope of a new job, the states of the holder in which the new one is a duplicate."""


def conflicts(lock: Lock, scope: Scope, holder: State | None, now: int) -> bool:
    """Report whether a new job is a duplicate of the job that holds its key. If not, the new job takes the lock over.

    Args:
        lock: What is stored for the digest.
        scope: The new job's scope: that one decides, except against a timed lock, which holds whatever becomes of its job.
        holder: The holder's state; None if its record is gone.
        now: Epoch ms.
    """
    if lock.ends_at is not None:
        return now < lock.ends_at
    return holder in _CONFLICTS[scope]


_K, _R, _C = Effect.KEEP, Effect.RELEASE, Effect.CLAIM
# fmt: off
_EFFECTS: dict[Move | End, tuple[Effect, Effect, Effect, Effect, Effect, Effect]] = {
    #                 queued active exists started succeeded open
    Move.PROMOTE:     (_K,    _K,    _K,    _K,     _K,     _K),
    Move.HASTEN:      (_K,    _K,    _K,    _K,     _K,     _K),
    Move.POSTPONE:    (_K,    _K,    _K,    _K,     _K,     _K),
    Move.TAKE:        (_R,    _K,    _K,    _R,     _K,     _R),
    Move.COMPLETE:    (_R,    _R,    _K,    _K,     _R,     _R),
    Move.RETRY:       (_C,    _K,    _K,    _K,     _K,     _K),
    Move.DIE:         (_R,    _R,    _K,    _K,     _K,     _R),
    Move.RELEASE:     (_C,    _K,    _K,    _K,     _K,     _K),
    Move.SNOOZE:      (_C,    _K,    _K,    _K,     _K,     _K),
    Move.DELAY:       (_C,    _K,    _K,    _K,     _K,     _K),
    Move.CANCEL:      (_R,    _R,    _K,    _K,     _K,     _R),
    Move.KILL:        (_R,    _R,    _K,    _K,     _K,     _R),
    Move.REDRIVE:     (_C,    _C,    _C,    _K,     _K,     _K),
    End.EXPIRED:      (_R,    _R,    _K,    _K,     _K,     _R),
    End.DELETED:      (_R,    _R,    _R,    _K,     _K,     _R),
    End.REAPED:       (_R,    _R,    _R,    _K,     _K,     _R),
}
# fmt: on
_COLUMN = {scope: column for column, scope in enumerate(Scope)}


def effect_of(scope: Scope, event: Move | End) -> Effect:
    """Report what an event makes of a job's lock.

    Args:
        scope: The job's own scope.
        event: What happened. A job of which nothing is kept at its end meets two events: its end, then REAPED.
    """
    return _EFFECTS[event][_COLUMN[scope]]
