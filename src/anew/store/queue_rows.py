"""Queues, how many jobs each has, and what bounds the jobs in flight of some, as a store keeps them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from anew.jobs.limits import Throttle
from anew.jobs.state import State


class QueueRows(Protocol):
    """Queues. Verbs that write are called inside the open transaction."""

    def takeable(self, queue: str, worker: str | None = None) -> int:
        """Report how many jobs of a queue may be taken: those that are ready, unless it is paused, as far as its limit goes.

        Args:
            queue: Its name.
            worker: By whom, "" for somebody without an id; None: by all workers together.
        """

    def any_ready(self) -> bool:
        """Report whether any job is ready."""

    def ready_among(self, queues: Collection[str]) -> list[str]:
        """Of some queues, give those that have ready jobs; costs no more than there are of either."""

    def fresh_ready(self) -> list[str]:
        """List the queues that may have more jobs to take since the transaction began, and that have some.

        The disk is touched only for queues that have a limit.
        """

    def counts(self, queues: Collection[str] | None = None) -> Mapping[str, Mapping[State, int]]:
        """Count jobs by queue and state, in some queues or all; queues without a job are left out."""

    def pause(self, queues: Collection[str] | None, paused: bool) -> None:
        """Have queues, some or all, hand out nothing, or again what they have; a paused queue is listed.

        Those that are neither listed nor have ready jobs are left alone.
        """

    def keep_listed(self, queues: Iterable[str]) -> None:
        """Keep queues listed when they have no job."""

    def unlist(self, queues: Collection[str] | None) -> None:
        """Leave queues, some or all, out of the list when they have no job, and hand out what they have."""


class SlotRows(Protocol):
    """Limits of queues, and the slots that their jobs in flight take up. All but `limits` is called inside the open transaction."""

    @property
    def limits(self) -> Mapping[str, Throttle]:
        """What bounds the jobs in flight of some queues, in all processes. Takes keep to it; `reserve` leaves it to its caller."""

    def set_limits(self, limits: Mapping[str, Throttle]) -> None:
        """Have other limits, in place of all that there were. What a queue has in flight when it gets one takes slots too."""

    def pass_time(self, now: int, jumped: int = 0) -> None:
        """Judge by an instant, epoch ms, whose slot's time is over; called first in a transaction, if there are limits.

        `jumped` is what the wall clock is ahead of lease time, by which slots' times run and rates fill.
        """

    def next_end(self) -> int | None:
        """Give when a slot's time is over in a queue that somebody has found to have none free, epoch ms; else None."""

    def occupy(self, slots: Iterable[tuple[int, str, str]], now: int) -> None:
        """Write who has the slots of jobs that were reserved now: (key, queue, worker). Queues without a limit have none."""

    def uncount(self, queues: Mapping[str, int]) -> None:
        """Have rates count so many jobs less: `take` or `take_each` has put them in flight, and they do not start."""

    def free_held_by(self, worker: str) -> None:
        """Free the slots of a worker that is gone; what it holds stays in flight."""
