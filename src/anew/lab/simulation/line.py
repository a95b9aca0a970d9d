"""The line in which calls stand: workers and the downstream's queue. The model is told in `anew.lab.simulation.queueing`."""

from __future__ import annotations

from collections import deque
from typing import Final

from anew.lab.simulation.record import Record
from anew.lab.simulation.scenario import Scenario

NS: Final = 1_000_000
"""Nanoseconds in a millisecond."""


class Line:
    """The workers and the downstream's queue. Instants in nanoseconds.

    Attributes:
        answered: When the latest call ended for its caller: by an answer, a refusal, or its patience.
        longest_wait: The longest that a call took to be done, the queue before it included.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._outage = scenario.outage_ms * NS
        self._service = 0 if scenario.capacity is None else round(1e9 / scenario.capacity)
        self._latency = scenario.latency_ms * NS
        self._timeout = None if scenario.timeout_ms is None else scenario.timeout_ms * NS
        # Callers leave in the order in which they began (so do both answers and patience), hence a simple queue.
        self._busy: deque[int] | None = None
        if scenario.workers is not None:
            self._busy = deque([0] * scenario.workers, scenario.workers)
        self._free = 0
        self.answered = 0
        self.longest_wait = 0

    @property
    def most_backlog(self) -> int:
        """The most calls that had been taken in and were not yet done."""
        # All before a call take the same: it is in the queue for so many services, the last of which are whole.
        return -(-self.longest_wait // self._service) if self._service else 0

    def begin(self, due: int) -> int:
        """Give when a call that is due begins; the workers are still to be told, by `call`."""
        return due if self._busy is None or self._busy[0] <= due else self._busy[0]

    def call(self, start: int, record: Record) -> bool:
        """Make a call; tell whether it was answered in time."""
        in_time = start >= self._outage
        answered = start
        if in_time:
            free = self._free
            done = self._free = (start if start > free else free) + self._service
            if done - start > self.longest_wait:
                self.longest_wait = done - start
            worked = _within(start, done)
            record.done.append(worked)
            answered = done + self._latency
            if self._timeout is not None and answered - start > self._timeout:
                in_time = False
                answered = start + self._timeout
                record.abandoned.append(worked)
            else:
                record.served.append(_within(start, answered))
        if self._busy is not None:
            self._busy.append(answered)
        self.answered = answered
        return in_time


def _within(start: int, end: int) -> int:
    """Give the millisecond in which something ended: what ends on the stroke of a second was done in the second before."""
    return (end - 1 if end > start else end) // NS
