"""What an application asks of the place where its jobs are: a file, or a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from anew.jobs import ENDED, Job, NewJob, State
from anew.jobs.breaker import BreakerRow
from anew.jobs.ids import COUNTER_BITS
from anew.jobs.limits import Throttle
from anew.units import refused

CRASHES: Final = 3
"""How often in a row a job's worker may die with it; then the job is dead, as what kills them."""

KEY_DIGITS: Final = 16
"""Of a public id, what stands for the job's key."""

if TYPE_CHECKING:  # an application that only enqueues need not load the engine before it does
    from anew.client import JobView
    from anew.engine.crontab import NewCron
    from anew.tasks.app import Anew
    from anew.tasks.source import Source
    from anew.topics.steering import Action


class Placed(Struct, frozen=True, gc=False):
    """What became of a new job.

    Attributes:
        id: Its public id, or that of the job that it is a duplicate of or was folded into.
        created: False: it is or was.
        folded: It was folded.
    """

    id: str
    created: bool
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """A batch by what has become of its jobs; see docs/rules.md.

    Attributes:
        total: Jobs that have joined it; those of batches within it are not counted.
        pending: Of those, jobs that have not run yet.
        failed: Jobs of which the latest that is known is no success; some may still be retrying.
    """

    total: int
    pending: int
    failed: int

    @property
    def succeeded(self) -> int:
        """Jobs that have succeeded."""
        return self.total - self.pending - self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """One attempt that did not succeed.

    Attributes:
        attempt: 1 for the first run.
        outcome: ``error``, ``timeout``, ``interrupted`` (its worker died or went away), ``snoozed``, ``rate_limited``,
            ``held`` (see docs/downstream.md), ``unknown_task``, ``cancelled`` or ``corrupt``.
        began_at, ended_at: Epoch ms.
        reason: What was decided then, for people.
        worker: Who ran it, if that is known: of a Python worker its machine and process.
    """

    attempt: int
    outcome: str
    error_type: str | None
    message: str
    backtrace: str | None
    began_at: int
    ended_at: int
    reason: str
    worker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """A job as it is now.

    Attributes:
        state: ``scheduled``, ``retrying``, ``ready``, ``in_flight``, ``completed``, ``dead`` or ``cancelled``.
        attempts: Failures so far.
        ready_at: When it may run, epoch ms.
        waits_for: Why it is ready and does not start, as far as that is known of a single job: ``limit customer 7`` where its key
            lets no more jobs start; else None.
        result: What it has come to, as JSON; None if that is not kept, or it has not completed.
        errors: Its attempts that did not succeed, the first first; the middle of very many is left out.
        payload: Its arguments as stored; None where they cannot be read.
        taken_at: When a worker took it last, epoch ms.
        folded: How many calls were folded into it, beside the one that made it (``debounce``, ``merge``).
    """

    id: str
    task: str
    queue: str
    priority: int
    state: State
    attempts: int
    ready_at: int
    completed_at: int | None = None
    result: bytes | None = None
    errors: tuple[JobError, ...] = ()
    waits_for: str | None = None
    payload: bytes | None = None
    taken_at: int | None = None
    folded: int = 0

    @staticmethod
    def created_at_of(job_id: str) -> int:
        """Give when a job was enqueued, epoch ms; its id says it."""
        return int(job_id[-KEY_DIGITS:], 16) >> COUNTER_BITS


def read_states(names: Sequence[str]) -> list[State]:
    """Read states of jobs.

    Raises:
        InvalidInput: One of them is none.
    """
    try:
        return [State(name) for name in names]
    except ValueError as error:
        raise refused("states", ", ".join(map(str, names)), f"some of {', '.join(State)}") from error


def ended_at(job: Job | JobView) -> int:
    """Give when a job ended, epoch ms; one that has not ended is as old as its last time."""
    if job.state not in ENDED:
        return job.ready_at
    return max(job.completed_at or 0, job.failed_at or 0) or job.ready_at


class Backend(Protocol):
    """The verbs of an application. All raise `AnewError`s, and may be called from any thread."""

    def now(self) -> int:
        """Give the time, epoch ms."""

    def enqueue(self, jobs: Sequence[NewJob], *, plain: bool) -> list[Placed]:
        """Store new jobs, all or none."""

    def find(self, job_id: str) -> JobInfo | None:
        """Read a job; None if there is none, or no longer."""

    def cancel(self, job_id: str) -> None:
        """Call a job off."""

    def redrive(self, job_id: str) -> None:
        """Have a dead or cancelled job run again."""

    def delete(self, job_id: str) -> None:
        """Remove a job in whatever state."""

    def counts(self, queue: str | None) -> Mapping[State, int]:
        """Count the jobs of a queue, or of all, by state."""

    def counts_by_queue(self) -> Mapping[str, Mapping[State, int]]:
        """Count the jobs of each queue by state; states without any may be left out."""

    def clear(self, states: Sequence[State], queue: str | None, before: int | None) -> int:
        """Remove jobs in some states; of ended ones those that ended before an instant, epoch ms. Reports how many."""

    def pause(self, queue: str, paused: bool) -> None:
        """Have a queue hand out nothing, or again what it has."""

    def limit(self, queue: str, throttle: Throttle | None) -> None:
        """Bound the jobs of a queue that run at one time or start over a period, or no longer."""

    def put_crons(
        self, group: str, entries: Sequence[NewCron], *, takes_over: str | None = None
    ) -> Sequence[str]:
        """Have these cron entries in a group and no others; give the names of those that it has no longer.

        Args:
            group: Its name.
            entries: What it is to have.
            takes_over: The group in which an older version had them; see `replace_group`.
        """

    def has_crons(self, group: str) -> bool:
        """Report whether a group has any cron entries; nothing is written."""

    def open_batch(self, on_success: NewJob | None, on_complete: NewJob | None, parent: int | None) -> int:
        """Make a batch; give its key."""

    def close_batch(self, key: int) -> None:
        """Let the callbacks of a batch go."""

    def breakers(self) -> list[BreakerRow]:
        """Give the circuit breakers that have a row, by key."""

    def close_breaker(self, key: str) -> bool:
        """Close a breaker; report whether it was not."""

    @property
    def topics(self) -> Topics:
        """The verbs of topics."""

    def source(self, app: Anew) -> Source:
        """Give a worker's side of it."""

    def is_busy(self) -> bool:
        """Report whether some thread is in a call just now."""

    def close(self) -> None:
        """Let go of it."""


class Topics(Protocol):
    """The verbs of topics; bodies are JSON, and what they give is as it is shown."""

    def put_topic(self, name: str, body: bytes) -> Mapping[str, Any]:
        """Create a topic, or have it be as a body says."""

    def publish(self, topic: str, body: bytes, key: str | None) -> Mapping[str, Any]:
        """Publish messages, once for each key."""

    def subscribe(self, topic: str, body: bytes) -> Mapping[str, Any]:
        """Subscribe an endpoint to a topic."""

    def steer(self, subscription: str, action: Action, body: bytes) -> Mapping[str, Any]:
        """Do something with a subscription, by its id; see `anew.topics.steering.steer`."""

    def subscriptions(self, topic: str, cursor: str | None) -> Mapping[str, Any]:
        """Give a page of a topic's subscriptions: ``subscriptions``, and ``cursor`` of the next page or None."""
