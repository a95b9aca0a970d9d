"""What pages for people show of a store: figures, queues, processes, failures, limits, and no list of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from anew.jobs.breaker import BreakerRow
from anew.jobs.state import State
from anew.store.key_limit_rows import LimitedKeys


class Due(NamedTuple):
    """Jobs that wait for their time.

    Attributes:
        jobs: How many of them were looked at.
        latest: When the last of these comes due, epoch ms; None if there is none.
    """

    jobs: int
    latest: int | None


class QueueRow(NamedTuple):
    """A queue that has jobs or is paused.

    Attributes:
        name: Its name.
        paused: It hands out nothing.
        jobs: How many it has in each state.
    """

    name: str
    paused: bool
    jobs: Mapping[State, int]


class FailureGroup(NamedTuple):
    """Jobs of one type that last failed with the same class of error.

    Attributes:
        type: The jobs' type.
        error_type: The class; None where none was told.
        dead, retrying: How many of them are dead, and how many will be tried again.
        failed_at: The latest of these failures, epoch ms.
        message: Its message, at most 1,000 characters.
    """

    type: str
    error_type: str | None
    dead: int
    retrying: int
    failed_at: int
    message: str


class Process(NamedTuple):
    """A process that may hold jobs, for people.

    Attributes:
        session: Its number.
        started_at: Since when it has the store open, epoch ms.
        jobs: How many it holds, by streams and reservations that came to it too.
    """

    session: int
    pid: int
    started_at: int
    jobs: int


class StoreFacts(NamedTuple):
    """What a store is.

    Attributes:
        engine: With its version.
        size: Bytes of all that it holds, without its log.
        schema: The number of its schema.
    """

    engine: str
    size: int
    schema: int


class PageReads(Protocol):
    """The reads of a page: the part of a `Reader` that it gets, several at a time."""

    def ended(self) -> dict[int, tuple[int, int]]:
        """Give the attempts that have ended by day (UTC, days since the Unix epoch): all, and those that failed."""

    def ready_since(self, queues: Sequence[str]) -> dict[str, int]:
        """Give since when the first ready job of some queues has been ready, epoch ms; queues without one are left out."""

    def totals(self) -> Mapping[State, int]:
        """Count the jobs of all queues by state."""

    def busiest(self, most: int) -> list[QueueRow]:
        """Give the queues with the most ready jobs, so many."""

    def queue_rows(self, start: str, most: int) -> list[QueueRow]:
        """Give the queues that have jobs or are paused, by name, so many from a name on."""

    def queue_count(self) -> int:
        """Count the queues that have jobs or are paused."""

    def processes(self, most: int) -> list[Process]:
        """List processes that have the store open, the first ones, so many."""

    def due_until(self, most: int) -> Due:
        """Look at the jobs that wait for their time, the next ones first, up to so many of each kind."""

    def due_counts(self, most: int, start: int, step_ms: int) -> list[tuple[int, State, int]]:
        """Count the same jobs by when they come due.

        Returns:
            The step, of so many ms from `start` on (0: also what is due before); the state; how many jobs.
        """

    def failing(self, most: int, groups: int) -> list[FailureGroup]:
        """Group jobs that are dead or will be tried again by type and error; the largest groups first.

        Looks at some times `most` jobs and gives so many groups; a store may pass over jobs where it has more.
        """

    def breakers(self, most: int, shown: int) -> list[BreakerRow]:
        """Look at so many breakers by key, and give some of them, first those that are not closed."""

    def limited_keys(self, after: str, most: int, shown: int, *, idle: bool) -> LimitedKeys:
        """Look at so many keys behind a name, and give some of them by name: those that hold jobs back, or all (`idle`)."""

    def facts(self) -> StoreFacts:
        """Tell what the store is."""

    def oldest_ready(self, most: int = 10_000) -> int | None:
        """Give the earliest instant since which a ready job at the head of a queue's line has been ready, epoch ms.

        Looks at the head of each priority in each queue, up to so many; None if nothing is ready.
        """
