"""Limits: how many jobs of a queue, or of a key, may start now.

A limited job waits in its queue and holds no worker; a queue that may start nothing looks empty to whoever takes. A throttle
bounds the jobs that run at one time, a rate the starts over a period.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from anew.jobs.codec import LAST_INSTANT
from anew.units import refused


class Rate(Struct, frozen=True, gc=False):
    """A token bucket: `count` starts per period on average, and up to `burst` of them at once after a quiet time.

    A bucket and no window: at the edge of two windows twice the limit can start together, and a window's counters need a row a
    period. A bucket is two numbers.

    Attributes:
        count: Starts per period, 1 or more.
        per_ms: The period in milliseconds, 1 or more.
        burst: Tokens that the bucket holds, 1 or more.
    """

    count: int
    per_ms: int
    burst: int


class Origin(StrEnum):
    """Who has set a limit: the server's configuration, which replaces all of its own when it is read; or a program."""

    CONFIG = "config"
    PROGRAM = "program"


class Throttle(Struct, frozen=True, gc=False, kw_only=True):
    """The most jobs that may run at one time, or start over a period. A bound that is None does not hold; zero starts nothing.

    A slot is taken when a job is taken, and free again with whatever ends the hold on it (`FREEING`, its removal, a holder that
    is gone), or when its time is over.

    Attributes:
        concurrency: Most slots in use, over all workers.
        per_worker: Most slots in use by one worker.
        timeout_ms: How long after the take a slot frees itself, though the job may still run; None: not before the hold ends.
        rate: Starts over a period.
        origin: Who has set it.
    """

    concurrency: int | None = None
    per_worker: int | None = None
    timeout_ms: int | None = None
    rate: Rate | None = None
    origin: Origin = Origin.CONFIG


def checked(throttle: Throttle) -> Throttle:
    """Give a throttle that somebody has set, if it bounds anything.

    Raises:
        InvalidInput: It bounds nothing, a bound is negative, or its time or a number of its rate is not positive.
    """
    bounds = (throttle.concurrency, throttle.per_worker)
    if bounds == (None, None) and throttle.rate is None:
        raise refused("throttle", "", "a bound on all jobs of the queue, on those of one worker, or both")
    for name, bound in zip(("concurrency", "worker"), bounds, strict=True):
        if bound is not None and bound < 0:
            raise refused(name, bound, "a whole number, 0 or more")
    if throttle.timeout_ms is not None and throttle.timeout_ms <= 0:
        raise refused("timeout", throttle.timeout_ms, "a positive duration")
    if throttle.rate is not None:
        rate(throttle.rate.count, throttle.rate.per_ms, throttle.rate.burst)
    return throttle


def startable(throttle: Throttle, wanted: int, in_use: int, in_use_by_worker: int) -> int:
    """Report how many more jobs of a queue a worker may be given now.

    Args:
        throttle: What holds for the queue.
        wanted: How many it asks for.
        in_use: Slots of the queue in use, those left out whose time is over.
        in_use_by_worker: Those of them that are this worker's.

    Returns:
        At most `wanted`, at least 0; a bound that was lowered below what runs starts nothing until enough has ended.
    """
    free = wanted
    if throttle.concurrency is not None:
        free = min(free, throttle.concurrency - in_use)
    if throttle.per_worker is not None:
        free = min(free, throttle.per_worker - in_use_by_worker)
    return max(free, 0)


class Bucket(Struct, frozen=True, gc=False):
    """One bucket as stored; a key that has never started anything needs none.

    Attributes:
        debt: What was drawn and is not refilled yet, in parts of a token: a token has `per_ms` parts, and each millisecond refills
            `count` of them, so nothing is ever rounded.
        at: When that was true, epoch ms.
    """

    debt: int
    at: int


FULL = Bucket(debt=0, at=0)


class Grant(Struct, frozen=True, gc=False):
    """What a bucket allows.

    Attributes:
        number: How many may start now.
        bucket: The bucket after them. It is to be stored also where the number is 0.
        again_at: Where fewer may start than wanted: when the next one may, epoch ms; else None.
    """

    number: int
    bucket: Bucket
    again_at: int | None


def rate(count: int, per_ms: int, burst: int | None = None) -> Rate:
    """Build a rate; without a burst of its own the whole count may start at once.

    Raises:
        InvalidInput: A number is not positive.
    """
    made = Rate(count, per_ms, count if burst is None else burst)
    for name, value in (("count", made.count), ("period", made.per_ms), ("burst", made.burst)):
        if value < 1:
            raise refused(f"rate {name}", value, "a whole number, 1 or more")
    return made


def grant(limit: Rate, bucket: Bucket, wanted: int, now: int) -> Grant:
    """Decide how many of the wanted starts a bucket allows now.

    A clock that was set back refills nothing for the time between, and delays the next start by what is missing in the bucket at
    most: the debt is carried over to the new time.

    Args:
        limit: The rate. One that was changed meanwhile holds at once: a debt above the new burst is cut to it.
        bucket: The bucket as stored, or `FULL`.
        wanted: How many are to start, 0 or more.
        now: Epoch ms.
    """
    token, most = limit.per_ms, limit.per_ms * limit.burst
    debt = min(max(bucket.debt - limit.count * max(now - bucket.at, 0), 0), most)
    number = min(wanted, (most - debt) // token)
    debt += number * token
    again_at = None
    if number < wanted:
        missing = debt + token - most
        again_at = min(now - (-missing // limit.count), LAST_INSTANT)
    return Grant(number, Bucket(debt, now), again_at)


def returned(limit: Rate, bucket: Bucket, number: int) -> Bucket:
    """Give a bucket as it is when starts it allowed did not happen: another limit held them, or there were no such jobs."""
    return replace(bucket, debt=max(bucket.debt - number * limit.per_ms, 0))


def merged(
    stored: Mapping[str, Throttle], own: Mapping[str, Throttle], origin: Origin
) -> dict[str, Throttle]:
    """Give all limits after one side has set its own, in place of those that it had.

    Where both limit a queue, the configuration's holds.

    Args:
        stored: All that there are.
        own: By queue, of this origin.
        origin: Who sets them.
    """
    mine = {queue: replace(throttle, origin=origin) for queue, throttle in own.items()}
    others = {queue: throttle for queue, throttle in stored.items() if throttle.origin is not origin}
    return mine | others if origin is Origin.PROGRAM else others | mine
