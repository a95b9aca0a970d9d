"""The store's protocol: verbs, shaped for batches, that remember and never reason.

Whatever writes rows is called between `begin` and `commit`, by one thread at a time. A store maps rows, guards each
write with the state it expects, and keeps the count of jobs by queue and state in step in the same transaction. Which move is
legal, when a job runs again and how long it is kept arrive as decided values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from anew.errors import AnewError
from anew.jobs.change import Change
from anew.jobs.codec import NewJob
from anew.jobs.job import ErrorRecord, Job
from anew.jobs.state import State

TakenRow = tuple[
    int,  # key
    str,  # queue
    str,  # type
    int,  # priority
    int,  # ready_at
    int,  # attempts
    int | None,  # failed_at
    int | None,  # retry_limit
    bytes | None,  # policy
    bytes | None,  # retention
    int | None,  # bytes of a payload that is kept apart
    bytes,  # payload
]
"""A job as a take hands it out: a bare tuple, because it goes straight from the row to the wire."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Lease:
    """The hold that a take writes on each of its jobs.

    Attributes:
        token: Told apart from every other take's; with the key it names one attempt.
        owner: The holder's number.
        deadline: When it lapses, epoch ms.
        now: When the jobs were taken, epoch ms.
    """

    token: int
    owner: int
    deadline: int
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs are meant; members are ANDed, values inside one are ORed, None means any.

    Attributes:
        visible_at: Hide ended jobs whose retention is over at this instant; None hides nothing.
    """

    states: frozenset[State] | None = None
    queues: frozenset[str] | None = None
    types: frozenset[str] | None = None
    keys: frozenset[int] | None = None
    priority: Range | None = None
    ready_at: Range | None = None
    attempts: Range | None = None
    visible_at: int | None = None

    def only_counts(self) -> bool:
        """Tell whether the counters by queue and state can answer a count."""
        parts = (self.types, self.keys, self.priority, self.ready_at, self.attempts)
        return all(part is None for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a list is wanted.

    Attributes:
        after: Start behind this key (in the direction of `order`); None starts at the end that the order names.
        inclusive: Whether the key itself belongs to the page.
        limit: The most keys to give.
    """

    order: Literal["asc", "desc"] = "asc"
    after: int | None = None
    inclusive: bool = False
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """New values for all that an outside hand may change of one job."""

    key: int
    queue: str
    priority: int
    state: State
    ready_at: int
    attempts: int
    retry_limit: int | None
    policy: bytes | None
    retention: bytes | None
    purge_at: int | None
    first_failed_at: int | None
    carry: float | None
    was_queue: str
    was_state: State


@dataclass(slots=True)
class Identity:
    """What a store keeps about itself for life.

    Attributes:
        tag: Nine characters ``[0-9a-z]`` that begin its public ids.
        secret: Key for hashes that outsiders must not foresee.
        last_key: No key up to this one may be given out again.
        last_failure: Ordinal of the last job that failed for the first time.
    """

    tag: str
    secret: bytes = field(repr=False)
    last_key: int
    last_failure: int


LAST_KEY = (1 << 63) - 1

Position = tuple[int, int]
"""How far the payloads of some new jobs are written: which job, and from which byte."""


class Reader(Protocol):
    """Reads that may look at many rows; safe to call from one other thread beside the writer."""

    def find(self, where: Filter, page: Page) -> list[int]:
        """Give the keys of matching jobs in order of key."""

    def count(self, where: Filter) -> int:
        """Count matching jobs."""

    def close(self) -> None:
        """Let go of the database."""


class Store(Protocol):
    """One engine's memory. See the module's text for who calls what when."""

    identity: Identity

    def begin(self, *, synced: bool) -> None:
        """Start a transaction; `synced` says whether its commit must reach the disk before it returns."""

    def commit(self) -> None:
        """Make the transaction last. Raises StoreFull, or StoreFailed after which nothing may be trusted."""

    def rollback(self) -> None:
        """Forget the transaction."""

    def insert(self, first_key: int, jobs: Sequence[NewJob], now: int, *, staged: bool = False) -> None:
        """Store new jobs under consecutive keys; `staged`: their long payloads are there already."""

    def stage(self, first_key: int, jobs: Sequence[NewJob], at: Position, max_bytes: int) -> Position | None:
        """Write the next portion of long payloads ahead of their jobs, so that no transaction is long.

        Begins at (0, 0) or where the last call ended; gives where to go on, or None when all is written.
        """

    def unstage(self, first_key: int = 0, last_key: int = LAST_KEY) -> None:
        """Remove what was written ahead for jobs with these keys that have not come."""

    def insert_plain(self, first_key: int, jobs: Sequence[NewJob], now: int) -> None:
        """As `insert`, for jobs that say nothing beyond type, queue and payload, so that nothing more is looked at."""

    def take(self, queues: Sequence[str] | None, limit: int, max_bytes: int, lease: Lease) -> list[TakenRow]:
        """Put the first ready jobs by (priority, key) under a lease; None means all queues.

        Stops early, after at least one, when their payloads exceed `max_bytes`.
        """

    def finish(self, keys: Sequence[int]) -> list[int]:
        """Remove in-flight jobs that left nothing but their row; give the keys that were removed."""

    def load(self, keys: Iterable[int], *, payload: bool = False) -> list[Job]:
        """Read jobs by key, in order of key; unknown keys are left out."""

    def complete(self, kept: Sequence[tuple[int, int]], now: int) -> None:
        """Mark in-flight jobs completed, each kept until the instant beside its key."""

    def apply(self, changes: Sequence[Change]) -> None:
        """Write what failed and interrupted attempts made of their jobs, with the attempts' records."""

    def rewrite(self, rows: Sequence[Rewrite]) -> None:
        """Write patched values; a row that is no longer in the queue and state that it was read in is left alone."""

    def release(self, keys: Sequence[int], *, interrupted: bool) -> None:
        """Give in-flight jobs back to their place among the ready ones."""

    def release_all(self, limit: int) -> int:
        """Give back up to `limit` in-flight jobs, whoever holds them; tell how many."""

    def promote(self, now: int, limit: int) -> int:
        """Make up to `limit` waiting jobs ready whose time has come; tell how many."""

    def next_due(self) -> int | None:
        """Tell the earliest time that a waiting job waits for."""

    def lapsed(self, now: int, limit: int) -> list[int]:
        """List in-flight jobs whose lease is past its deadline."""

    def reap(self, now: int, limit: int) -> int:
        """Remove up to `limit` ended jobs whose retention is over; tell how many."""

    def delete(self, keys: Sequence[int]) -> int:
        """Remove jobs in any state with all that belongs to them; tell how many there were. What is staged stays."""

    def delete_all(self) -> int:
        """Remove every job; tell how many there were. What is staged stays: those jobs have yet to come."""

    def find(self, where: Filter, page: Page) -> list[int]:
        """Give the keys of matching jobs as the open transaction sees them."""

    def payload_sizes(self, keys: Sequence[int]) -> dict[int, int]:
        """Tell the bytes of jobs' payloads without reading them; unknown keys are left out."""

    def errors(self, key: int, page: Page, max_bytes: int | None = None) -> list[ErrorRecord]:
        """Read the records of a job's failed attempts; `page.after` is an attempt's number.

        Ends with the record by which messages and backtraces have passed `max_bytes`. Records of one attempt number, which
        a redrive makes possible, come oldest first going up and newest first going down.
        """

    def count(self, where: Filter) -> int:
        """Count matching jobs as the open transaction sees them."""

    def ready(self, queue: str | None) -> int:
        """Tell how many jobs of a queue (None: of all) are ready; no disk is touched."""

    def fresh_ready(self) -> list[str]:
        """List the queues that the open transaction has touched and that have ready jobs; no disk is touched."""

    def counts(self) -> Mapping[str, Mapping[State, int]]:
        """Count jobs by queue and state; queues without a job are left out."""

    def oldest_ready(self) -> int | None:
        """Tell since when the ready job that is first in line by key has been stored, epoch ms."""

    def reserve_keys(self, up_to: int) -> None:
        """Promise that no key up to this one is given out again, also after a restart."""

    def reserve_failures(self, up_to: int) -> None:
        """The same for the ordinals of first failures."""

    def free_bytes(self) -> int | None:
        """Tell how much the device can still hold; None for a store in memory."""

    def explain(self, error: Exception) -> AnewError | None:
        """Tell an engine's own exception in our words (StoreFull, StoreFailed); None if it is not one of them."""

    def free_reserve(self) -> None:
        """Give up the space kept for a full device, so that settling can go on."""

    def keep_reserve(self) -> None:
        """Take that space again."""

    def reader(self) -> Reader:
        """Open a reader of its own."""

    def close(self) -> None:
        """Close cleanly; what was committed is on disk."""
