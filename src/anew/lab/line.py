"""The line in which calls stand: workers, the downstream's queue, and the record of what went through.

The model is told in `anew.lab.queueing`.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from anew.lab.outcome import SHOWN_JOBS, Fresh
from anew.lab.scenario import Scenario
from anew.lab.tally import Ends, Passage

NS: Final = 1_000_000
"""Nanoseconds in a millisecond."""


@dataclass
class Record:
    """What happened, in columns of instants."""

    made: dict[int, array[int]] = field(default_factory=dict)
    good: dict[int, int] = field(default_factory=dict)
    ends: Ends = field(default_factory=Ends)
    fresh_ends: Ends = field(default_factory=Ends)
    fresh_calls: int = 0
    at_once: int = 0
    dots: list[list[int]] = field(default_factory=list)
    due: array[int] = field(default_factory=lambda: array("q"))
    offered: array[int] = field(default_factory=lambda: array("q"))
    served: array[int] = field(default_factory=lambda: array("q"))
    done: array[int] = field(default_factory=lambda: array("q"))
    wasted: array[int] = field(default_factory=lambda: array("q"))

    def offer(self, instants: array[int]) -> None:
        """Count calls that begin when they are due."""
        self.due.extend(instants)
        self.offered.extend(instants)

    def retried(self, job: int, retry: int, at: int) -> None:
        """Count a retry that begins."""
        if retry in self.made:
            self.made[retry].append(at)
        else:
            self.made[retry] = array("q", (at,))
        if job < SHOWN_JOBS and job < len(self.dots):
            self.dots[job].append(at)

    def passage(self, outage_ms: int) -> Passage:
        """Give what went through the downstream."""
        taken = array("q", (at for at in self.offered if at >= outage_ms))
        return Passage(self.due, self.offered, taken, self.served, self.done, self.wasted)

    def fresh(self) -> Fresh:
        """Give what became of the fresh calls."""
        ends = self.fresh_ends
        return Fresh(
            calls=self.fresh_calls,
            at_once=self.at_once,
            succeeded=ends.succeeded,
            dead=ends.dead,
            waiting=self.fresh_calls - ends.succeeded - ends.dead,
        )


class Line:
    """The workers and the downstream's queue. Instants in nanoseconds.

    Attributes:
        answered: When the latest call ended for its caller: by an answer, a refusal, or its patience.
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
            record.done.append(done // NS)
            answered = done + self._latency
            if self._timeout is not None and answered - start > self._timeout:
                in_time = False
                answered = start + self._timeout
                record.wasted.append(done // NS)
            else:
                record.served.append(answered // NS)
        if self._busy is not None:
            self._busy.append(answered)
        self.answered = answered
        return in_time
