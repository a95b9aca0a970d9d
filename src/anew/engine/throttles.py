"""Limits of queues as verbs: for `Call`, inside a batch's transaction.

The limits stand in the store, so that every process keeps to them, and one that starts finds those that were set last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from anew.engine.batch import Batch
from anew.engine.ops import Verb
from anew.errors import Conflict
from anew.jobs.limits import Origin, Throttle, checked, merged


def set_throttles(throttles: Mapping[str, Throttle]) -> Verb:
    """Have the configuration's limits by queue, in place of all that it had; who waits for jobs of these queues looks again.

    Returns:
        A verb that gives None; where nothing changes it writes nothing.

    Raises:
        InvalidInput: A limit bounds nothing, or a number in it is out of range; raised here, before anything is done.
    """
    limits = {queue: checked(throttle) for queue, throttle in throttles.items()}
    return lambda batch: _write(batch, merged(batch.store.slots.limits, limits, Origin.CONFIG))


def limit_queue(queue: str, throttle: Throttle | None) -> Verb:
    """Have a program's limit of one queue, or none any more.

    Returns:
        A verb that gives None. It raises Conflict where the server's configuration limits the queue.

    Raises:
        InvalidInput: The limit bounds nothing, or a number in it is out of range; raised here, before anything is done.
    """
    own = None if throttle is None else checked(throttle)

    def verb(batch: Batch) -> None:
        stored = batch.store.slots.limits
        limits = {name: one for name, one in stored.items() if one.origin is Origin.PROGRAM}
        if queue in stored and queue not in limits:
            raise Conflict(f"the server's configuration limits the queue {queue!r}; change it there")
        limits.pop(queue, None)
        _write(batch, merged(stored, limits if own is None else limits | {queue: own}, Origin.PROGRAM))

    return verb


class LimitedQueue(NamedTuple):
    """A queue that has a limit.

    Attributes:
        name, throttle: What holds for it.
        free: How many of its ready jobs may start now, for all that the limit says; none if it is paused.
    """

    name: str
    throttle: Throttle
    free: int


def limited_queues(start: str, most: int) -> Callable[[Batch], list[LimitedQueue]]:
    """List queues that have a limit by name, so many from a name on; nothing is written.

    Returns:
        A verb that gives them.
    """

    def verb(batch: Batch) -> list[LimitedQueue]:
        limits = batch.store.slots.limits
        names = sorted(name for name in limits if name >= start)[:most]
        return [LimitedQueue(name, limits[name], batch.store.queues.takeable(name)) for name in names]

    return verb


def _write(batch: Batch, limits: Mapping[str, Throttle]) -> None:
    if limits != batch.store.slots.limits:
        batch.store.slots.pass_time(batch.now, batch.now - batch.lease_time(batch.now))
        batch.store.slots.set_limits(limits)


def free_slots_of(worker: str) -> Verb:
    """Free the slots of a worker that is gone, though what it holds is still reserved.

    Returns:
        A verb that gives None.
    """

    def verb(batch: Batch) -> None:
        if batch.store.slots.limits:
            batch.store.slots.free_held_by(worker)

    return verb
