"""Limits of queues as verbs: for `Call`, inside a batch's transaction.

The limits stand in the store, so that every process keeps to them, and one that starts finds those that were set last.
"""

from __future__ import annotations

from collections.abc import Mapping

from anew.engine.batch import Batch
from anew.engine.ops import Verb
from anew.jobs.limits import Throttle, checked


def set_throttles(throttles: Mapping[str, Throttle]) -> Verb:
    """Have limits by queue, in place of all that there were; who waits for jobs of these queues looks again.

    Returns:
        A verb that gives None; where nothing changes it writes nothing.

    Raises:
        InvalidInput: A limit bounds nothing, or a number in it is out of range; raised here, before anything is done.
    """
    limits = {queue: checked(throttle) for queue, throttle in throttles.items()}

    def verb(batch: Batch) -> None:
        if limits != batch.store.limits:
            batch.store.limit(limits)
            batch.store.pass_time(batch.now)

    return verb


def free_slots_of(worker: str) -> Verb:
    """Free the slots of a worker that is gone, though what it holds is still reserved.

    Returns:
        A verb that gives None.
    """

    def verb(batch: Batch) -> None:
        if batch.store.limits:
            batch.store.free_slots(worker)

    return verb
