"""Jobs of a server: the verbs of an application over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import UNSET, UnsetType

from anew.client import Client, Draft, ErrorView, Filters, JobView
from anew.client.views import read_job
from anew.clock import SystemClock
from anew.errors import NotFound
from anew.jobs import NewJob, State
from anew.jobs.breaker import BreakerRow
from anew.jobs.carried import read_carried
from anew.jobs.codec import PushedJob, UniqueKey
from anew.jobs.limits import Rate, Throttle
from anew.jobs.unique import Scope, text_digest
from anew.tasks.backend import JobError, JobInfo, Placed, ended_at
from anew.tasks.remote_source import RemoteSource, breaker_row, key_of
from anew.tasks.topics import path_of

if TYPE_CHECKING:
    from anew.config import Connect
    from anew.engine.crontab import NewCron
    from anew.tasks.app import Anew
    from anew.tasks.source import Source
    from anew.topics.steering import Action

MOST_ERRORS = 100

CLEARED = 500
"""Jobs that are looked at together where the server cannot tell which are meant."""

BATCH, TAG = "b-", 9
"""A batch's public id: this, then as many characters as are the same in all ids of a store, then its key."""

_tags: dict[str, str] = {}
"""These characters by a server's address: a batch outlives `close`, and a forked child goes on with it."""

_STATUS: Final = {State.RETRYING: "scheduled", State.CANCELLED: "dead"}
"""States that a server's filter does not tell from others."""

_SHARED: Final = frozenset(_STATUS.values())


class _Result(msgspec.Struct):
    result: msgspec.Raw | UnsetType = UNSET


_result = msgspec.json.Decoder(_Result)


class RemoteBackend:
    """A `Backend` and its `Topics` over HTTP.

    Args:
        url: The server's address.
        settings: The token that is shown to it, and files of certificates.
    """

    def __init__(self, url: str, settings: Connect) -> None:
        self._client = Client(
            url, token=settings.token, ca=settings.ca, cert=settings.cert, key=settings.key, retry=None
        )
        self._url = url
        self.now = SystemClock().now

    def enqueue(self, jobs: Sequence[NewJob], *, plain: bool) -> list[Placed]:
        """Store new jobs, all or none.

        Raises:
            TooLarge: They are more than a request may have.
        """
        if not any(isinstance(job, PushedJob) and (job.hooks or job.meta) for job in jobs):
            views = self._client.enqueue_many([_draft(job) for job in jobs])
            return [Placed(view.id, not view.duplicate) for view in views]
        answer = self._ask("POST", "/v1/jobs/bulk", {"jobs": [self._tied(job) for job in jobs]})
        return [
            Placed(job["id"], not (job["duplicate"] or job["folded"]), job["folded"])
            for job in answer["jobs"]
        ]

    def find(self, job_id: str) -> JobInfo | None:
        try:
            document = self._client.request("GET", f"/v1/jobs/{quote(job_id, safe='')}")
            view = read_job(document)
            errors = [*self._client.errors(job_id, limit=MOST_ERRORS)] if view.last_error is not None else []
        except NotFound:
            return None
        result = _result.decode(document).result
        return _info(view, errors, None if isinstance(result, UnsetType) else bytes(result))

    def cancel(self, job_id: str) -> None:
        self._client.cancel(job_id)

    def redrive(self, job_id: str) -> None:
        self._client.retry(job_id)

    def delete(self, job_id: str) -> None:
        self._client.delete(job_id)

    def counts(self, queue: str | None) -> Mapping[State, int]:
        queues = [counts for name, counts in self.counts_by_queue().items() if queue in (None, name)]
        return {state: sum(counts[state] for counts in queues) for state in State}

    def counts_by_queue(self) -> Mapping[str, Mapping[State, int]]:
        return {one["name"]: _counts_of(one) for one in self._ask("GET", "/v1/queues")["queues"]}

    def clear(self, states: Sequence[State], queue: str | None, before: int | None) -> int:
        """Remove jobs in some states, page by page; report how many."""
        wanted = {state.value for state in states}
        statuses = sorted({_STATUS.get(state, state.value) for state in states})
        filters = Filters(status=statuses, queue=queue or ())
        if before is None and _STATUS.keys().isdisjoint(states) and not _SHARED & set(statuses):
            return self._client.delete_many(filters)
        removed, after = 0, None
        while True:
            page = self._client.page(filters, limit=CLEARED, after=after, last_errors=True)
            meant = [
                job.id for job in page if job.state in wanted and (before is None or ended_at(job) < before)
            ]
            if meant:
                removed += self._client.delete_many(Filters(id=meant))
            if page.next_path is None:
                return removed
            after = page.jobs[-1].id

    def pause(self, queue: str, paused: bool) -> None:
        if paused:
            self._client.pause(queue)
        else:
            self._client.resume(queue)

    def limit(self, queue: str, throttle: Throttle | None) -> None:
        path = f"/v1/queues/{quote(queue, safe='')}/limit"
        if throttle is None:
            self._ask("DELETE", path)
        else:
            self._ask("PUT", path, {"concurrency": throttle.concurrency, "rate": throttle.rate})

    def put_crons(
        self, group: str, entries: Sequence[NewCron], *, takes_over: str | None = None
    ) -> Sequence[str]:
        shown = [
            {
                "name": entry.name,
                "schedule": entry.expression,
                "timezone": entry.timezone,
                "catch_up": entry.patience_ms is None,
                "job": self._tied(entry.job),
            }
            for entry in entries
        ]
        body = {"entries": shown, "takes_over": takes_over}
        removed: list[str] = self._ask("PUT", f"/v1/crons/{quote(group, safe='')}", body)["removed"]
        return removed

    def has_crons(self, group: str) -> bool:
        return any(entry.group == group for entry in self._client.crons())

    def open_batch(self, on_success: NewJob | None, on_complete: NewJob | None, parent: int | None) -> int:
        jobs = {"on_success": on_success, "on_complete": on_complete}
        body: dict[str, Any] = {name: self._tied(job) for name, job in jobs.items() if job is not None}
        if parent is not None:
            body["parent"] = self._batch_id(parent)
        batch: str = self._ask("POST", "/v1/batches", body)["id"]
        _tags[self._url] = batch.removeprefix(BATCH)[:TAG]
        return key_of(batch)

    def close_batch(self, key: int) -> None:
        self._client.request("POST", f"/v1/batches/{self._batch_id(key)}/close")

    def breakers(self) -> list[BreakerRow]:
        return [breaker_row(one) for one in self._ask("GET", "/v1/breakers")["breakers"]]

    def close_breaker(self, key: str) -> bool:
        return bool(self._ask("POST", f"/v1/breakers/{quote(key, safe='')}/close")["closed"])

    @property
    def topics(self) -> RemoteBackend:
        return self

    def put_topic(self, name: str, body: bytes) -> Mapping[str, Any]:
        return self._shown("PUT", path_of(name), body)

    def publish(self, topic: str, body: bytes, key: str | None) -> Mapping[str, Any]:
        headers = None if key is None else {"Idempotency-Key": key}
        return self._shown("POST", path_of(topic, "/messages"), body, headers)

    def subscribe(self, topic: str, body: bytes) -> Mapping[str, Any]:
        return self._shown("POST", path_of(topic, "/subscriptions"), body)

    def steer(self, subscription: str, action: Action, body: bytes) -> Mapping[str, Any]:
        path = f"/v1/subscriptions/{quote(subscription, safe='')}"
        if action == "delete":
            return self._shown("DELETE", path)
        return self._shown("POST", f"{path}/{'secret/rotate' if action == 'rotate' else action}", body)

    def subscriptions(self, topic: str, cursor: str | None) -> Mapping[str, Any]:
        more = "" if cursor is None else f"&cursor={quote(cursor, safe='')}"
        return self._shown("GET", path_of(topic, f"/subscriptions?limit=100{more}"))

    def _shown(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        given = msgspec.Raw(body) if body else None
        answer = self._client.request(method, path, given, headers=headers)
        shown: Mapping[str, Any] = msgspec.json.decode(answer) if answer else {}
        return shown

    def source(self, app: Anew) -> Source:
        return RemoteSource(app, self._client)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        return msgspec.json.decode(self._client.request(method, path, body))

    def _tied(self, job: NewJob) -> dict[str, Any]:
        """Give a job with its ties and what it carries, as the server reads it."""
        body = _draft(job).body()
        if isinstance(job, PushedJob) and job.meta:
            body = body | {"carried": read_carried(job.meta)}
        hooks = job.hooks if isinstance(job, PushedJob) else None
        if hooks is None:
            return body
        ties: dict[str, Any] = {"expires_at": hooks.expires_at}
        unique = hooks.unique
        if unique is None and hooks.once and isinstance(job, PushedJob):
            # A server does not know the ids of an outbox's rows: a key that is held for as long as the job is kept does the same.
            unique = UniqueKey(text_digest(f"outbox\0{job.jid}"), Scope.EXISTS)
        if unique is not None:
            ties["unique"] = {
                "digest": unique.digest.hex(), "scope": unique.scope, "ends_at": unique.ends_at
            }  # fmt: skip
        if hooks.batch is not None:
            ties["batch"] = self._batch_id(hooks.batch)
        if hooks.limit is not None:
            rate = None if hooks.limit.rate is None else Rate(*hooks.limit.rate)
            ties["limit"] = {"key": hooks.limit.name, "concurrency": hooks.limit.concurrency, "rate": rate}
        if hooks.fold is not None and hooks.rule is not None:
            rule = hooks.rule
            ties["fold"] = {
                "digest": hooks.fold.hex(),
                "debounce_ms": rule.quiet_ms,
                "max_wait_ms": rule.most_ms,
                "merge": rule.merge,
            }
        return body | {"ties": ties}

    def _batch_id(self, key: int) -> str:
        """Give the public id of a batch that was opened here, or in a process that this one was forked from."""
        return f"{BATCH}{_tags.get(self._url, '')}{key:016x}"

    def is_busy(self) -> bool:
        return False

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


def _counts_of(queue: Mapping[str, Any]) -> Mapping[State, int]:
    """Give a queue's jobs by state; what a server shows as scheduled or dead includes those that are retrying or cancelled."""
    counts = {state: int(queue[state.value]) for state in State}
    counts[State.SCHEDULED] -= counts[State.RETRYING]
    counts[State.DEAD] -= counts[State.CANCELLED]
    return counts


def _draft(job: NewJob) -> Draft:
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


def _info(view: JobView, errors: Sequence[ErrorView], result: bytes | None) -> JobInfo:
    return JobInfo(
        id=view.id,
        task=view.type,
        queue=view.queue,
        priority=view.priority,
        state=State(view.state or view.status),
        attempts=view.attempts,
        ready_at=view.ready_at,
        completed_at=view.completed_at,
        result=result,
        errors=tuple(_error(one) for one in errors),
        waits_for=f"limit {view.ties.limit}" if view.ties is not None and view.ties.blocked else None,
        payload=view.payload_json(),
        taken_at=view.dequeued_at,
        folded=0 if view.ties is None else view.ties.folded,
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
        worker=record.worker,
    )
