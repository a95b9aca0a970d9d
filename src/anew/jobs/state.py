"""The seven states. A job is in exactly one of them."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a job stands.

    SCHEDULED waits for its time and has not failed, though it may have been interrupted. RETRYING waits for its time and has
    failed, or has been interrupted so often in a row that it has to wait. READY may be taken now; IN_FLIGHT is held under a
    lease. COMPLETED, DEAD and CANCELLED are the ends.
    """

    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    READY = "ready"
    IN_FLIGHT = "in_flight"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"


WAITING = frozenset({State.SCHEDULED, State.RETRYING})
"""States that wait for a time."""

ENDED = frozenset({State.COMPLETED, State.DEAD, State.CANCELLED})
"""States that nothing but retention, deletion or a redrive leaves."""
