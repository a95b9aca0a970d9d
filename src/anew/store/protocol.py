"""The store's protocol: verbs, shaped for batches, that remember and never reason.

Whatever writes rows is called between `begin` and `commit`, by one thread at a time. A store maps rows, guards each write with the
state it expects, and gives back the keys that it wrote. It keeps what is derived (jobs by queue and state, the head of each queue's
line) in step in the same transaction. Which move is legal, when a job runs again and how long it is kept arrive as decided values.

Any number of processes may have one store open. Each has a session, and what one of them remembers of the rows is a cache: `begin`
reports whether somebody else has written since.

What a store keeps beside jobs has protocols in the files beside this one: `queue_rows.py` (queues and slots), `record_rows.py`,
`hook_rows.py`, `key_limit_rows.py`, `breaker_rows.py`, `cron_rows.py`, `topics.py`, `import_notes.py`, `processes.py` (turns too);
what pages for people ask of its reader is in `page_reads.py`. What only some engines have is at the end of this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from msgspec import Struct

from anew.clock import Clock
from anew.errors import AnewError
from anew.jobs.change import Change
from anew.jobs.codec import NewJob
from anew.jobs.job import Job
from anew.jobs.key_limits import Place
from anew.jobs.moved import MovedJob
from anew.jobs.outcomes import HoldKind
from anew.jobs.state import State
from anew.store.breaker_rows import BreakerRows
from anew.store.cron_rows import CronRows
from anew.store.hook_rows import HookRows
from anew.store.import_notes import ImportNotes
from anew.store.key_limit_rows import KeyLimitRows
from anew.store.page_reads import PageReads
from anew.store.processes import Processes, Turns
from anew.store.queue_rows import QueueRows, SlotRows
from anew.store.record_rows import RecordRows
from anew.store.selection import Filter, Page
from anew.store.topics import TopicFigures, TopicRows


class Hold(Struct, frozen=True, gc=False):
    """The hold that a take writes on each of its jobs.

    Attributes:
        kind: Who holds it.
        token: Different for each take; with the key it names one attempt.
        owner: The session of the process that answers for it.
        deadline: When it lapses, by lease time; None while its session lasts. That of a reservation is when it begins: the store
            adds how long its job may take.
        now: When the jobs were taken, epoch ms.
    """

    kind: HoldKind
    token: int
    owner: int
    deadline: int | None
    now: int


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
    bytes | None,  # meta, of a job with a unique key or a key to fold by
    bytes,  # payload
]
"""A job as a take hands it out: a bare tuple, because it goes straight from the row to the wire."""


class Taken(NamedTuple):
    """The result of a take.

    Attributes:
        rows: The jobs, in order of their line.
        corrupt: By key: jobs that are in flight now too but whose stored payload cannot be read, and what is wrong with it.
        hooked: Those of all these for whose ties a take means something: `anew.jobs.hooks.SEEN_BY_TAKES`.
    """

    rows: list[TakenRow]
    corrupt: dict[int, str]
    hooked: Sequence[int] = ()


class Reserved(NamedTuple):
    """The result of a reservation of jobs.

    Attributes:
        jobs: With their payloads, in the order of the queues asked for, each in order of its line.
        corrupt: As in `Taken`.
    """

    jobs: list[Job]
    corrupt: dict[int, str]


class Named(NamedTuple):
    """A job in flight, found by its producer's id."""

    jid: str
    key: int
    token: int


NOBODY: Mapping[int, str | None] = MappingProxyType({})
"""That nobody is known to have run the attempts that are written."""


class Rewrite(Struct, frozen=True, gc=False):
    """A job as somebody's change has made it, and where it stood before.

    Attributes:
        job: Its new values. What only takes and the ends of attempts write is not looked at.
    """

    job: Job
    was_queue: str
    was_state: State


@dataclass(slots=True)
class Identity:
    """What a store keeps about itself for life.

    Attributes:
        tag: Nine characters ``[0-9a-z]`` that begin its public ids.
        secret: Key for hashes that outsiders must not foresee.
        last_key: The largest key that was ever given out, by whichever process; whoever gives one writes it here.
        last_failure: Ordinal of the last job that failed for the first time.
    """

    tag: str
    secret: bytes = field(repr=False)
    last_key: int
    last_failure: int


class LeaseClock(NamedTuple):
    """What the store keeps of lease time; see `anew.engine.lease_time`.

    Attributes:
        jumped: The sum of the wall clock's jumps, ms: lease time is the wall clock less this.
        noted: The lease time when it was last written down, ms.
    """

    jumped: int
    noted: int


class Store(Protocol):
    """The rows of one store.

    Jobs are read and changed by its own verbs, all else by its parts. A transaction is `begin`, verbs, `commit` and `sync`, or
    `rollback`; `turns` says when `begin` is worth trying again.
    """

    identity: Identity

    clock: Clock
    """What decides the time of all that is stored: this machine's, or the database's."""

    @property
    def session(self) -> int:
        """This process's number; another one after others have taken it for dead, which `begin` finds out."""

    @property
    def remote(self) -> bool:
        """Whether each call waits for a network, so that none is to be made in an event loop's thread."""

    @property
    def turns(self) -> Turns:
        """The turns of the processes: which one writes next."""

    @property
    def processes(self) -> Processes:
        """The processes that have this store open."""

    @property
    def queues(self) -> QueueRows:
        """Queues, and how many jobs each has."""

    @property
    def slots(self) -> SlotRows:
        """Limits of queues, and the slots that their jobs in flight take up."""

    @property
    def records(self) -> RecordRows:
        """Records of failed attempts, and what deleted jobs have left."""

    @property
    def breakers(self) -> BreakerRows:
        """Circuit breakers."""

    @property
    def imports(self) -> ImportNotes:
        """How far imports from other servers have come."""

    @property
    def hooks(self) -> HookRows:
        """What jobs are tied to."""

    @property
    def key_limits(self) -> KeyLimitRows:
        """Keys that bound jobs."""

    @property
    def topics(self) -> TopicRows:
        """Topics, and what is published on them."""

    @property
    def cron(self) -> CronRows:
        """Cron entries and their groups."""

    @property
    def staging(self) -> Staging:
        """Writes long payloads ahead of their jobs."""

    @property
    def outbox(self) -> OutboxRows | None:
        """What other transactions have left, where a store has that."""

    @property
    def device(self) -> Device | None:
        """The disk it lives on, if that can be asked."""

    # -- transactions

    def begin(self, *, synced: bool) -> bool:
        """Start a transaction; `synced` says whether its commit must be on the disk once `sync` has returned.

        Returns:
            Whether another process has written since this one's last transaction, so that nothing cached holds any more.

        Raises:
            StoreBusy: Somebody else is writing just now; nothing has begun. `turns` says when to try again.
            StoreFailed: A sync has failed, here or in another process.
        """

    def commit(self) -> bool:
        """Make the transaction last. Raises StoreFull, or StoreFailed after which nothing may be trusted.

        Returns:
            Whether some queue has more ready jobs than before; other processes that wait for jobs are told.
        """

    def sync(self) -> None:
        """Have what was committed survive a power cut, if its transaction was begun as `synced`; nothing more otherwise.

        Raises:
            StoreFailed: It failed; nothing may be trusted.
            InDoubt: It is there, and others see it, but nobody has confirmed that it survives.
        """

    def rollback(self) -> None:
        """Forget the transaction."""

    def is_open(self) -> bool:
        """Tell whether a transaction is open."""

    def explain(self, error: Exception) -> AnewError | None:
        """Translate an engine's own exception (StoreBusy, StoreFull, StoreFailed); None if it is not one of them."""

    # -- new jobs

    def insert(self, keys: Sequence[int], jobs: Sequence[NewJob], now: int, *, staged: bool = False) -> None:
        """Store new jobs under rising keys; `staged`: their long payloads are there already."""

    def insert_plain(self, keys: Sequence[int], jobs: Sequence[NewJob], now: int) -> None:
        """As `insert`, for jobs that say nothing beyond type, queue and payload, so that nothing more is looked at."""

    def insert_moved(self, keys: Sequence[int], jobs: Sequence[MovedJob], hold: Hold) -> None:
        """Store jobs that come with their past, under rising keys; `hold` is that of those in flight."""

    def fold_into(self, key: int, payload: bytes, jobs: int, expires_at: int | None) -> None:
        """Write what so many new jobs, which are not stored, have made of one that is there: its payload, and its expiry."""

    def remember(self) -> None:
        """Write `identity.last_key` and `identity.last_failure`, as they are now.

        A commit does that by itself where it must: as long as the job with the largest key is there, its row says it.
        """

    # -- takes

    def take(self, queues: Sequence[str] | None, limit: int, max_bytes: int, hold: Hold) -> Taken:
        """Put the first ready jobs by (priority, key) in flight under a hold; None means all queues.

        Stops early, after at least one, when their payloads exceed `max_bytes`.
        """

    def take_each(self, wanted: Sequence[tuple[str, int]], max_bytes: int, hold: Hold) -> Taken:
        """Put the first ready jobs of each of several queues in flight under one hold, so many of each; otherwise as `take`."""

    def reserve(self, wanted: Sequence[tuple[str, int]], max_bytes: int, hold: Hold) -> Reserved:
        """Put the first ready jobs of each of several queues in flight, each for as long as it says itself; see `take_each`.

        Stops early, after at least one, when their payloads exceed `max_bytes`.
        """

    # -- the ends of attempts

    def named(self, jids: Sequence[str]) -> list[Named]:
        """Find reserved jobs by their producers' ids; of several with one id, the one that was taken last comes last."""

    def held_under(self, holds: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        """Of (key, token) pairs, give those whose job is in flight under that token."""

    def hold_kinds(self, keys: Sequence[int]) -> list[tuple[int, int | None]]:
        """Give those of some jobs that are in flight, in order of key, each with the kind of its hold."""

    def finish(self, keys: Sequence[int], members: dict[int, int] | None = None) -> list[int]:
        """Remove those of some jobs that are in flight and nothing but their row; give the keys that were removed.

        A job with its own retention, a payload that is kept apart, records of failed attempts, or ties is left alone.

        Args:
            keys: Of the jobs.
            members: If given, members of batches that nobody has reported on, with no other ties, are removed too, and this
                gets how many of each batch, by its key: the caller counts them in the same transaction.
        """

    def complete(self, kept: Sequence[tuple[int, int]], now: int) -> list[int]:
        """Mark in-flight jobs completed, each kept until the instant beside its key; give the keys that were written."""

    def keep_results(self, results: Sequence[tuple[int, bytes]]) -> None:
        """Write the results of completed jobs, as their `meta`; jobs that are not kept, or have a `jid`, are left alone."""

    def apply(self, changes: Sequence[Change], workers: Mapping[int, str | None] = NOBODY) -> list[int]:
        """Write what failed and interrupted attempts made of their jobs, with the attempts' records; give the keys written.

        Args:
            changes: What is written.
            workers: Who ran the attempts, by the jobs' keys.
        """

    def release(self, keys: Sequence[int], now: int, *, interrupted: bool) -> list[int]:
        """Give in-flight jobs whose time has come back to their place among the ready ones; give the keys written."""

    def count_ended(self, day: int, processed: int, failed: int) -> None:
        """Count attempts that have ended on a day (UTC, days since the Unix epoch): all, and those that failed."""

    # -- time

    def promote(self, now: int, limit: int) -> int:
        """Make up to `limit` waiting jobs ready whose time has come; report how many."""

    def next_due(self) -> int | None:
        """Give the earliest time at which `promote` has something to do: no later than the first waiting job is due."""

    def lapsed(self, now: int, limit: int) -> list[int]:
        """List in-flight jobs whose hold is past its deadline; `now` is lease time."""

    def lease_clock(self) -> LeaseClock | None:
        """Read what is kept of lease time; None before the first note."""

    def note_lease_clock(self, clock: LeaseClock) -> None:
        """Write it."""

    def reap(self, now: int, limit: int) -> int:
        """Remove up to `limit` ended jobs whose retention is over; report how many."""

    def is_due(self, duty: str, now: int, every_ms: int) -> bool:
        """Report whether a duty was last done so long ago, by whichever process, and note that it is being done now."""

    # -- changes from outside

    def rewrite(self, rows: Sequence[Rewrite]) -> list[int]:
        """Write changed values; a row that is no longer in the queue and state that it was read in is left alone.

        Returns:
            The keys that were written.
        """

    def delete(self, keys: Sequence[int]) -> list[int]:
        """Remove jobs in any state with all that belongs to them; give the keys that were there.

        What belongs to them and is too much for one transaction is removed later, by `records.sweep`.
        """

    def delete_all(self) -> int:
        """Remove every job, lock, batch, record of progress and note; report how many jobs there were.

        What is staged stays: those jobs have yet to come.
        """

    # -- reads

    def reader(self) -> Reader:
        """Open another reader."""

    def load(self, keys: Iterable[int], *, payload: bool = False) -> list[Job]:
        """Read jobs by key, in order of key; unknown keys are left out. A payload that cannot be read is None."""

    def payload_sizes(self, keys: Sequence[int]) -> dict[int, int]:
        """Give the bytes of jobs' payloads without reading them; unknown keys are left out."""

    def find(self, where: Filter, page: Page) -> list[int]:
        """Give the keys of matching jobs as the open transaction sees them."""

    def count(self, where: Filter) -> int:
        """Count matching jobs as the open transaction sees them."""

    # -- damage

    def corrupt_among(self, keys: Sequence[int]) -> set[int]:
        """Give those of these jobs that were set aside because something stored of them cannot be read."""

    def set_aside(self, limit: int, purge_at: int | None, now: int) -> list[int]:
        """End, as dead and corrupt, jobs in which a state or a text was met that cannot be read; give their keys."""

    def mend_texts(self) -> int:
        """After a UnicodeDecodeError: find the damaged texts, leave their jobs to `set_aside`; tell how many there were."""

    def correct(self, found: Recount) -> bool:
        """Put right what a recount has found; report whether that was done.

        It is not where another finding has been put right since: the same difference would be added twice.
        """

    # -- the end

    def abandon(self, reason: str) -> None:
        """After StoreFailed: let every other process know, and write, sync or checkpoint nothing more."""

    def close(self) -> None:
        """Close cleanly; what was committed is on disk. After `abandon` nothing is written."""


Position = tuple[int, int]
"""How far the payloads of some new jobs are written: which job, and from which byte."""


class Staging(Protocol):
    """What a store has whose transactions hold up all others: long payloads are written ahead, over several of them."""

    def stage(
        self, keys: Sequence[int], jobs: Sequence[NewJob], at: Position, max_bytes: int
    ) -> Position | None:
        """Write the next part of long payloads ahead of their jobs.

        Begins at (0, 0) or where the last call ended; gives where to go on, or None when all is written.
        """

    def unstage(self, first_key: int, last_key: int) -> None:
        """Remove what was written ahead for jobs with these keys that have not come."""

    def unstage_abandoned(self) -> None:
        """Remove what was written ahead by sessions that are gone."""


class Device(Protocol):
    """What a store has that lives on a disk of this machine."""

    def free_bytes(self) -> int:
        """Report how much can still be stored: on the disk, and in place of what was deleted."""

    def free_reserve(self) -> None:
        """Give up the space kept for a full disk, so that settling can go on."""

    def keep_reserve(self) -> None:
        """Take that space again."""

    def shorten_log(self) -> None:
        """Have the next commits copy the log of what was written into the database, however short it is."""

    def is_log_short(self) -> bool:
        """Report whether they have."""


class OutboxRows(Protocol):
    """Jobs that other transactions of the same database have left for the engine to store. All inside the open transaction.

    Attributes:
        waits: There were some when it began.
    """

    waits: bool

    def rows(self, limit: int, most_bytes: int) -> list[tuple[int, bytes]]:
        """Give the first ones, as the JSON of a `PushedJob`, with the ids of their rows, as far as the bytes go; one at least."""

    def drop(self, ids: Sequence[int]) -> None:
        """Remove rows whose jobs are stored."""

    def refuse(self, id_: int, reason: str) -> None:
        """Keep a row that can be no job, and say why; it is given no more."""


class JobList(StrEnum):
    """Jobs in an order that people look at."""

    READY = "ready"
    """In line, by priority and key; those that a limit of their key holds back are in no line."""
    IN_FLIGHT = "in_flight"
    """By the time at which they were taken, and key."""
    SCHEDULED = "scheduled"
    """Those that wait for their time, after failures too; by that time, and key."""


FIRST_PLACE: Place = (-1, -1)
LAST_PLACE: Place = (2**63 - 1, 2**63 - 1)
"""Before and behind all places of a `JobList`."""

UNSORTED = 10_000
"""Jobs that are sorted for one read of a list where no index has its order, some 10 ms: those in flight, and those that wait for a
far time."""


class Lengths(NamedTuple):
    """How many jobs there are.

    Attributes:
        ready: In line.
        blocked: Ready, and in no line.
        in_flight: Held.
        scheduled: That wait for their time.
    """

    ready: int
    blocked: int
    in_flight: int
    scheduled: int


class Recount(NamedTuple):
    """What a count of all rows has found.

    Attributes:
        number: How often such a finding had been put right before it.
        counters: By queue and state: by how much the counter is too low (or, if negative, too high).
        heads: Queues whose stored head is not their first ready job.
        blocked: By queue: by how much the number of its blocked jobs is too low; they are not among those of `counters`.
        forgotten: Keys that nothing would ever have looked at, though jobs of theirs are blocked, or none is stored any more.
    """

    number: int
    counters: dict[tuple[str, State], int]
    heads: list[str]
    blocked: Mapping[str, int] = MappingProxyType({})
    forgotten: Sequence[str] = ()


class Reader(PageReads, Protocol):
    """Reads that may look at many rows; safe to call from one other thread beside the writer."""

    def find(self, where: Filter, page: Page) -> list[int]:
        """Give the keys of matching jobs in order of key."""

    def count(self, where: Filter) -> int:
        """Count matching jobs."""

    def payloads(self, keys: Sequence[int], most_bytes: int) -> list[bytes]:
        """Give the payloads of some jobs in the order given, as many as have so many bytes together, but for the last of them.

        One that cannot be read, and that of an unknown key, is empty.
        """

    def counts(self) -> Mapping[str, Mapping[State, int]]:
        """Count jobs by queue and state; queues without a job are left out."""

    def listed(self) -> dict[str, bool]:
        """Give the listed queues, and whether each is paused: a job under its producer's id was ready in each."""

    def topic_figures(self, queue: str) -> TopicFigures:
        """Read the figures of topics whose deliveries are in a queue."""

    def version(self) -> object:
        """Give what is another value as soon as anybody has written since."""

    def snapshot(self) -> AbstractContextManager[object]:
        """Have all reads inside the block see the store as it is at one instant."""

    def load(self, keys: Sequence[int]) -> list[Job]:
        """Read jobs by key without their payloads, in order of key; unknown keys are left out."""

    def names(self, keys: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Give the queues and types of jobs by key; unknown keys are left out."""

    def lengths(self) -> Lengths:
        """Count the jobs of each list, by the counters."""

    def places(self, of: JobList, place: Place, limit: int, *, forward: bool) -> list[Place]:
        """Give the places of a list next to one, nearest first: behind it, or (not `forward`) before it.

        A place is what the list is ordered by, and the key. Where no index has the order, `UNSORTED` jobs are sorted; those
        beyond them, far from the end that is looked from, are left out.
        """

    def rank(self, of: JobList, place: Place, most: int, *, forward: bool) -> int:
        """Count the jobs of a list before a place, or (not `forward`) behind it, up to `most`."""

    def recount(self) -> Recount:
        """Count all jobs row by row, and compare with what is derived."""

    def close(self) -> None:
        """Let go of the database."""
