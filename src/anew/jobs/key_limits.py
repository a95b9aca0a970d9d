"""Limits of keys: how many jobs of one key, such as a customer, run at one time or start over a period, in whichever queues.

A job that may not start because its key is full is *blocked*. It is ready as everybody sees it, but stands in no line: takers pass
it by, hold nothing for it, and do not look at it again. So the jobs of one key never hold up those of others, and a job without a
key costs nothing more.

The rows are the truth, and each transaction leaves them so that no blocked job is forgotten:

* A take asks for each job of a key whether it may start. The first ones by priority and age may, as far as the bounds go. The
  others are blocked in the transaction of the take. This is the only place that decides who starts.
* A new job is blocked at once where that changes nothing: its key is full, or others of it stand before it.
* Whatever happens to a job of a key (its hold ends in any way, it is changed, moved or removed) has the key looked at again in the
  same transaction. As many blocked jobs as may start now are *unblocked*: they stand in their queue's line again. Each queue gets
  so many, since one of them may be paused, full, or without a worker. That may be too many together: the take decides.
* Where the rate stops a key, its row says when to look at it again.

How many jobs of a key run is counted from rows of jobs in flight, so nothing is leaked by a process that is killed: its jobs are
given back, and that is an event like others. A key's bounds are those of the job that was enqueued last. Its row goes when no job
of it is stored any more and its bucket is full: it would begin like that again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from msgspec import Struct

from anew.jobs.codec import LAST_INSTANT, LimitKey
from anew.jobs.limits import Bucket, Grant, Rate, Throttle, grant, startable

AHEAD = 100
"""Most blocked jobs of a key that one look puts into a queue's line; the takes of these have the key looked at again."""

Place = tuple[int, int]
"""A job's place among those of its queue: priority, key."""


class KeyStanding(IntEnum):
    """How a job stands with its key, as stored. FREE: it waits for something else, has ended, or was never looked at."""

    FREE = 0
    BLOCKED = 1
    RUNNING = 2
    UNBLOCKED = 3


class Gate(Struct, frozen=True, gc=False):
    """What holds the jobs of a key back for a time, whatever its bounds are.

    Attributes:
        closed_until: None starts before this, epoch ms; `LAST_INSTANT` for as long as nobody opens it.
        probing: One at most runs at a time: whether what they call works is to be found out.
    """

    closed_until: int = 0
    probing: bool = False


OPEN = Gate()


class KeyLimit(Struct, frozen=True, gc=False):
    """The limit of one key.

    Attributes:
        name: The key.
        throttle: Its bounds: concurrency, rate.
        bucket: Of its rate.
        look_at: When it is to be looked at again though nothing happens to its jobs, epoch ms.
        gate: What else holds its jobs back for a time.
    """

    name: str
    throttle: Throttle
    bucket: Bucket
    look_at: int | None = None
    gate: Gate = OPEN


def throttle_of(key: LimitKey) -> Throttle:
    """Give the bounds that come with a new job."""
    return Throttle(concurrency=key.concurrency, rate=None if key.rate is None else Rate(*key.rate))


def may_start(limit: KeyLimit, running: int, wanted: int, now: int) -> Grant:
    """Decide how many more jobs of a key may start now.

    Args:
        limit: The key's.
        running: Its jobs in flight.
        wanted: How many are to start.
        now: Epoch ms.

    Returns:
        The number, the bucket after them, and, where the gate or the rate stops some, when the next one may start.
    """
    if now < limit.gate.closed_until:
        until = limit.gate.closed_until
        return Grant(0, limit.bucket, None if until == LAST_INSTANT else until)
    free = startable(limit.throttle, wanted, running, 0)
    if limit.gate.probing:
        free = min(free, max(1 - running, 0))
    if limit.throttle.rate is None:
        return Grant(free, limit.bucket, None)
    return grant(limit.throttle.rate, limit.bucket, free, now)


def held_back(new: Sequence[Place], in_line: Sequence[Place], first_blocked: Place | None) -> list[int]:
    """Choose which new jobs of a key are blocked at once: those that would start after others of their queue anyway.

    Args:
        new: Their places in one queue.
        in_line: The first places there of unblocked jobs, the new ones among them: as many as may start now.
        first_blocked: The first place of those that are blocked already.

    Returns:
        The jobs' keys.
    """
    let_in = {place for place in in_line if first_blocked is None or place < first_blocked}
    return [place[1] for place in new if place not in let_in]


def to_unblock(blocked: Sequence[Place], unblocked: Iterable[Place], free: int) -> list[int]:
    """Choose which blocked jobs of a key go into their queue's line.

    Args:
        blocked: The first places of the blocked ones in one queue, `free` at least if there are so many.
        unblocked: The first places of those that were unblocked and have not started, likewise.
        free: How many may start.

    Returns:
        The keys of those that are among the first `free` of both.
    """
    waiting = set(blocked)
    return [place[1] for place in sorted([*blocked, *unblocked])[:free] if place in waiting]


def full_at(limit: KeyLimit, now: int) -> int | None:
    """Give when the bucket of a key is full again, epoch ms; None: it is."""
    rate = limit.throttle.rate
    if rate is None:
        return None
    debt = limit.bucket.debt - rate.count * max(now - limit.bucket.at, 0)
    return None if debt <= 0 else min(now - (-debt // rate.count), LAST_INSTANT)
