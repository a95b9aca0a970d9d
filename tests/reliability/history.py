"""What clients write down of their dealings with a server, and what a judge makes of it.

Time is wall-clock milliseconds of one machine, for the clients and the server alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

EXAMPLES_KEPT = 20


class Invoke(NamedTuple):
    """A client is about to send a request about one job (one event for each member of a bulk).

    Args:
        at: When, ms.
        op: ``enqueue``, ``success`` or ``failure``.
        key: The client's own name of the job, carried in its payload.
        digest: Of the payload; enqueue only.
        ready_at: The time asked for; 0 is "now"; enqueue only.
        retained: Whether the job's record must outlive its success; enqueue only.
        lane: Jobs of one lane (queue and priority) are promised in order; enqueue only.
    """

    at: float
    op: str
    key: str
    digest: str = ""
    ready_at: int = 0
    retained: bool = False
    lane: str = ""


class Answer(NamedTuple):
    """What came back: ``ok``, ``refused`` (nothing happened) or ``unknown`` (an error, or no answer at all).

    Args:
        at: When the answer was read, ms.
        asked_at: When the request was about to be sent, ms.
        op: As in the `Invoke`.
        outcome: ``ok``, ``refused`` or ``unknown``.
        key: As in the `Invoke`.
        id: The server's name of the job; enqueue only.
        attempts: As told by the server after this failure, -1 where not told.
        state: As told after this failure: ``dead`` ends the job.
        ready_at: The next run as told after this failure, ms.
        token: The lease under which the settlement was sent, "" where the protocol carries none.
    """

    at: float
    asked_at: float
    op: str
    outcome: str
    key: str
    id: str = ""
    attempts: int = -1
    state: str = ""
    ready_at: int = 0
    token: str = ""


class Delivery(NamedTuple):
    """A job arrived at a worker.

    Args:
        at: When it was read, ms.
        stream: The stream it came on, as named by `Opened`.
        key: From the payload.
        id: The server's name of the job.
        digest: Of the payload as received.
        attempts: Failures so far, as told.
        ready_at: As told, ms.
        dequeued_at: When the server says it handed the job out, ms.
        token: The lease, "" where the protocol carries none.
    """

    at: float
    stream: int
    key: str
    id: str
    digest: str
    attempts: int = 0
    ready_at: int = 0
    dequeued_at: int = 0
    token: str = ""


class Opened(NamedTuple):
    """A worker asks for a stream."""

    at: float
    stream: int


class Closed(NamedTuple):
    """A stream ended, or its worker is about to end it: its leases lapse."""

    at: float
    stream: int


class Down(NamedTuple):
    """The server is known to be dead: all leases lapse."""

    at: float


class Expired(NamedTuple):
    """The server recorded that the lease of this job ran out."""

    at: float
    key: str


class Record(NamedTuple):
    """One job as the final full read shows it."""

    key: str
    id: str
    state: str


Event = Invoke | Answer | Delivery | Opened | Closed | Down | Expired


class Violation(NamedTuple):
    """One broken rule, told so that the reader can find it in the history."""

    rule: int
    key: str
    text: str


@dataclass(slots=True)
class Verdict:
    """What a history amounts to. `violations` keeps the first few of each rule, `broken` counts them all."""

    violations: list[Violation] = field(default_factory=list)
    broken: dict[int, int] = field(default_factory=dict)
    accepted: int = 0
    refused: int = 0
    in_doubt_present: int = 0
    in_doubt_absent: int = 0
    deliveries: int = 0
    redeliveries: int = 0
    failures: int = 0
    completed: int = 0
    dead: int = 0
    lost: int = 0

    @property
    def resurrected(self) -> int:
        """How many deliveries started after an accepted end of the job."""
        return self.broken.get(3, 0)

    @property
    def stuck(self) -> int:
        """How many jobs were left unfinished after the drain."""
        return self.broken.get(10, 0)

    @property
    def ok(self) -> bool:
        """Whether no rule was broken."""
        return not self.broken

    def flag(self, rule: int, key: str, text: str) -> None:
        """Count a broken rule, and keep it as an example while there are few."""
        seen = self.broken.get(rule, 0)
        self.broken[rule] = seen + 1
        if seen < EXAMPLES_KEPT:
            self.violations.append(Violation(rule, key, text))
