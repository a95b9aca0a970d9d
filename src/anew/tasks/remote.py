"""Jobs of a server: the verbs of an application over HTTP.

What a server's API has no words for is refused by name, before anything is stored. Workers are not remote: they run beside the
server, on its data directory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UnsetType

from anew.client import Client, Draft, ErrorView, Filters, JobView
from anew.errors import NotFound, NotSupported
from anew.jobs import NewJob, State
from anew.jobs.codec import PushedJob
from anew.jobs.limits import Throttle
from anew.tasks.backend import JobError, JobInfo, Placed

if TYPE_CHECKING:
    from anew.engine.crontab import NewCron

MOST_AT_ONCE = 1_000
"""Jobs in one request."""

MOST_ERRORS = 100


class RemoteBackend:
    """The verbs over HTTP.

    Args:
        url: The server's address.
        token: Bearer token; None: the server asks for none.
    """

    def __init__(self, url: str, token: str | None) -> None:
        self._client = Client(url, token=token, retry=None)

    def now(self) -> int:
        """Give the time of this machine, epoch ms."""
        return time.time_ns() // 1_000_000

    def enqueue(self, jobs: Sequence[NewJob], *, plain: bool) -> list[Placed]:
        """Store new jobs, all or none.

        Raises:
            NotSupported: They are tied to something, or more than a request may have.
        """
        if len(jobs) > MOST_AT_ONCE:
            raise _unsupported(f"{len(jobs)} jobs at once; expected at most {MOST_AT_ONCE} in a request")
        views = self._client.enqueue_many([_draft(job) for job in jobs])
        return [Placed(view.id, not view.duplicate) for view in views]

    def find(self, job_id: str) -> JobInfo | None:
        """Read a job; None if there is none, or no longer."""
        try:
            view = self._client.get(job_id)
        except NotFound:
            return None
        return _info(view, [*self._client.errors(job_id, limit=MOST_ERRORS)])

    def cancel(self, job_id: str) -> None:
        """Call a job off."""
        self._client.cancel(job_id)

    def redrive(self, job_id: str) -> None:
        """Have a dead or cancelled job run again."""
        self._client.retry(job_id)

    def delete(self, job_id: str) -> None:
        """Remove a job in whatever state."""
        self._client.delete(job_id)

    def counts(self, queue: str | None) -> Mapping[State, int]:
        """Count jobs by state; a server counts those that are retrying among the scheduled, and cancelled ones among the dead."""
        queues = [one for one in self._client.queue_counts() if queue in (None, one.name)]
        known = ("ready", "scheduled", "in_flight", "completed", "dead")
        return {
            state: sum(getattr(one, state) for one in queues) if str(state) in known else 0 for state in State
        }

    def clear(self, states: Sequence[State], queue: str | None, before: int | None) -> int:
        """Remove jobs in some states; report how many.

        Raises:
            NotSupported: Only those are meant that ended before an instant.
        """
        if before is not None:
            raise _unsupported("the removal of jobs by their age; expected no older_than and no before")
        return self._client.delete_many(
            Filters(status=[_status(state) for state in states], queue=queue or ())
        )

    def pause(self, queue: str, paused: bool) -> None:
        """Have a queue hand out nothing, or again what it has."""
        if paused:
            self._client.pause(queue)
        else:
            self._client.resume(queue)

    def limit(self, queue: str, throttle: Throttle | None) -> None:
        """Refused: a server's limits stand in its configuration."""
        raise _unsupported("limits; they stand in the server's configuration")

    def put_crons(self, group: str, entries: Sequence[NewCron]) -> None:
        """Refused: cron entries are put by a worker, on the server's directory."""
        raise _unsupported("cron entries; a worker puts them, on the server's directory")

    def open_batch(self, on_success: NewJob | None, on_complete: NewJob | None, parent: int | None) -> int:
        """Refused."""
        raise _unsupported("batches")

    def close_batch(self, key: int) -> None:
        """Refused."""
        raise _unsupported("batches")

    def is_busy(self) -> bool:
        """Report whether some thread is in a call just now."""
        return False

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


def _draft(job: NewJob) -> Draft:
    if isinstance(job, PushedJob) and job.hooks is not None:
        raise _unsupported("unique, expires and batch")
    retention = None if job.retention is None else {"completed_ms": job.retention.completed_ms}
    return Draft(
        type=job.type,
        queue=job.queue,
        payload=job.payload,
        priority=job.priority,
        ready_at=job.ready_at,
        retry_limit=job.retry_limit,
        policy=None if isinstance(job.policy, UnsetType) else msgspec.json.decode(job.policy),
        retention=retention,
    )


def _info(view: JobView, errors: Sequence[ErrorView]) -> JobInfo:
    state = State(view.state or view.status)
    if state is State.SCHEDULED and view.attempts:
        state = State.RETRYING
    return JobInfo(
        id=view.id,
        task=view.type,
        queue=view.queue,
        priority=view.priority,
        state=state,
        attempts=view.attempts,
        ready_at=view.ready_at,
        completed_at=view.completed_at,
        errors=tuple(_error(one) for one in errors),
    )


def _error(record: ErrorView) -> JobError:
    return JobError(
        attempt=record.attempt,
        outcome=str(msgspec.json.decode(record.document).get("outcome", "error")),
        error_type=record.error_type,
        message=record.message,
        backtrace=record.backtrace,
        began_at=record.dequeued_at,
        ended_at=record.failed_at,
        reason=str((record.decision or {}).get("reason", "")),
    )


def _status(state: State) -> str:
    """Give the word of a server's filter for jobs in a state."""
    if state in (State.RETRYING, State.CANCELLED):
        raise _unsupported(
            f"the state {state} in a filter; expected one of scheduled, ready, completed, dead"
        )
    return str(state)


def _unsupported(what: str) -> NotSupported:
    return NotSupported(f"a server's API does not take {what}")
