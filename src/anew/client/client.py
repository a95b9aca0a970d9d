"""The client: one method per verb."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import quote

from anew.client.parameters import (
    Filters,
    Names,
    Period,
    changes_body,
    job_path,
    json_body,
    local_path,
    names,
    period_ms,
    queue_path,
    target,
)
from anew.client.stream import TakeStream
from anew.client.transport import Path, Transport
from anew.client.views import (
    CronView,
    Draft,
    ErrorView,
    Failure,
    FailureResult,
    JobView,
    Page,
    QueueCounts,
    read_crons,
    read_errors,
    read_failure_results,
    read_job,
    read_list,
    read_number,
    read_object,
    read_page,
    read_queue_counts,
)
from anew.errors import InvalidInput, Unreachable

DEFAULT_URL: Final = "http://127.0.0.1:7890"
Order = Literal["asc", "desc"]

_ALL: Final = Filters()
_PAGE: Final = 1000


class Client:
    """The verbs of the queue, over HTTP. Threads may share one.

    Instants are epoch milliseconds or datetimes with a time zone. Durations are timedeltas or text with a unit
    (``"30s"``). Wherever several names or ids may be given, a single text is one of them.

    Every method raises what its refusal means: `NotFound`, `Conflict`, `InvalidInput`, `TooLarge`, `Overloaded`,
    `StoreFull`, `Unauthorized`, `NotSupported`; and `Unreachable` when there is no answer, in which case a change that
    was asked for may or may not have happened. An error's ``code`` is the one that the server sent, also where this
    version does not know it; ``retry_after`` of `Unavailable` and its kinds is the wait that the server asks for.

    Args:
        url: Address of the server; may end in a path prefix.
        token: Bearer token, or None.
        timeout: Longest silence while an answer is waited for.
        ca: File of certificates (PEM) to trust in place of the system's, for an ``https`` address.
        cert: File of this client's certificate (PEM), for a server that asks for one.
        key: File of its private key, without a password; None means that it stands in the file of `cert`.

    Raises:
        InvalidConfig: The address is none, or one of the files cannot be used.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        token: str | None = None,
        timeout: Period = "30s",
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
    ) -> None:
        timeout_ms = period_ms(timeout, "timeout", low=1)
        self._transport = Transport(url, token, timeout_ms, ca=ca, cert=cert, key=key)

    @property
    def url(self) -> str:
        """Address of the server."""
        return self._transport.url

    def __enter__(self) -> Client:
        """Give the client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close its connections."""
        self.close()

    def close(self) -> None:
        """Close its idle connections."""
        self._transport.close()

    def request(self, method: str, path: str, body: object = None) -> bytes:
        """Use a route that has no method of its own here; give the answer's body.

        Args:
            method: Such as ``"PUT"``.
            path: With its query, as the server documents it (``/openapi.json``).
            body: What is sent as JSON; None: nothing.
        """
        return self._transport.request(method, path, None if body is None else json_body(body))[1]

    def health(self) -> dict[str, Any]:
        """Ask whether the server is well: ``{"status": "ok", ...}``."""
        return read_object(self._get("/health"))

    def version(self) -> str:
        """The version that the server reports."""
        return str(read_object(self._get("/version")).get("version", ""))

    def queues(self) -> Sequence[str]:
        """Names of the queues that hold any job, sorted."""
        return [str(name) for name in read_object(self._get("/queues")).get("queues", [])]

    def queue_counts(self) -> Sequence[QueueCounts]:
        """How many jobs of each status each queue holds, and whether it is paused or limited, sorted by name (Anew).

        Queues without a job are among them if they are paused or limited.
        Ended jobs are counted until they are removed, which is soon after their retention is over.
        """
        return read_queue_counts(self._get("/v1/queues"))

    def pause(self, queue: str) -> None:
        """Have a queue hand out nothing, also if it has no job yet; what runs goes on (Anew)."""
        self.request("POST", queue_path(queue, "pause"), None)

    def resume(self, queue: str) -> None:
        """Have a queue hand out its jobs again; one that is not paused stays as it is (Anew)."""
        self.request("POST", queue_path(queue, "resume"), None)

    def crons(self) -> Sequence[CronView]:
        """The server's cron entries, sorted by group and name, at most the first 1,000 (Anew)."""
        return read_crons(self._get("/v1/crons"))

    def enqueue(self, type: str, queue: str, payload: Any = None, **options: Any) -> JobView:
        """Store one job.

        Args:
            type: Its handler's name.
            queue: The queue that it waits in.
            payload: Any JSON value, or `msgspec.Raw`.
            options: The other fields of `Draft`.

        Returns:
            The job as stored, without payload.
        """
        draft = Draft(type=type, queue=queue, payload=payload, **options)
        return read_job(self.request("POST", "/jobs", draft.body()))

    def enqueue_many(self, jobs: Iterable[Draft]) -> Sequence[JobView]:
        """Store jobs in one call: all of them or none.

        Returns:
            The jobs as stored, in the order given, without payloads.
        """
        answer = self.request("POST", "/jobs/bulk", {"jobs": [job.body() for job in jobs]})
        return [read_job(job) for job in read_list(answer, "jobs")]

    def get(self, job_id: str) -> JobView:
        """One job with its payload."""
        return read_job(self._get(job_path(job_id)))

    def page(
        self,
        filters: Filters = _ALL,
        *,
        limit: int = 50,
        order: Order = "asc",
        after: str | None = None,
        last_errors: bool = False,
    ) -> Page:
        """One page of the jobs that match, sorted by id; its `next` gives the following one.

        Args:
            filters: Which jobs.
            limit: 1 to 2000.
            order: ``asc`` gives the oldest first.
            after: Id of the job after which the page begins.
            last_errors: Also the latest failure of each job (Anew).
        """
        parameters = filters.query() | {"limit": str(limit), "order": order}
        if after is not None:
            parameters["from"] = quote(after, safe="")
        return read_page(self._get(target("/v1/jobs" if last_errors else "/jobs", parameters)), self._get)

    def pages(
        self, filters: Filters = _ALL, *, order: Order = "asc", limit: int = _PAGE, at_most: int | None = None
    ) -> Iterator[Page]:
        """The pages of all jobs that match, each fetched when the caller goes on to it.

        Args:
            filters: Which jobs.
            order: ``asc`` gives the oldest first.
            limit: Jobs of one page, 1 to 2000.
            at_most: End after so many pages; None means all.

        Raises:
            Unreachable: A page links to itself or to one before it, so that the list would never end.
        """
        current: Page | None = self.page(filters, limit=limit, order=order)
        given = 0
        while current is not None and (at_most is None or given < at_most):
            yield current
            given += 1
            following = current.next() if given != at_most else None
            if following is not None and not _goes_on(current, following, order):
                raise Unreachable(f"the server's list does not go on: {current.next_path!r} repeats a page")
            current = following

    def list(self, filters: Filters = _ALL, *, order: Order = "asc", page: int = _PAGE) -> Iterator[JobView]:
        """All jobs that match, sorted by id, fetched `page` at a time as the caller goes on."""
        return (job for current in self.pages(filters, order=order, limit=page) for job in current)

    def count(self, filters: Filters = _ALL) -> int:
        """How many jobs match."""
        return read_number(self._get(target("/jobs/count", filters.query())), "count")

    def errors(self, job_id: str, *, order: Order = "asc", limit: int | None = None) -> Iterator[ErrorView]:
        """The failed attempts of a job.

        Args:
            job_id: The job.
            order: ``asc`` gives the first attempt first.
            limit: At most so many; None means all.
        """
        size = str(min(limit or _PAGE, _PAGE))
        next_page: str | None = target(job_path(job_id, "errors"), {"order": order, "limit": size})
        given = 0
        while next_page is not None:
            records, following = read_errors(self._get(next_page))
            for record in records:
                if limit is not None and given >= limit:
                    return
                yield record
                given += 1
            next_page = None if following is None or given == limit else local_path(following)

    def patch(self, job_id: str, changes: Mapping[str, Any]) -> JobView:
        """Change a job that has not ended.

        Args:
            job_id: The job.
            changes: New values of ``queue``, ``priority``, ``ready_at`` (or ``delay``), ``retry_limit``, ``policy``,
                ``backoff``, ``retention``; None goes back to the default (JSON Merge Patch).

        Raises:
            IllegalTransition: It has ended.
        """
        return read_job(self.request("PATCH", job_path(job_id), changes_body(changes)))

    def patch_many(self, changes: Mapping[str, Any], filters: Filters, *, everything: bool = False) -> int:
        """Change all jobs that match and have not ended; give their number.

        Args:
            changes: As for `patch`.
            filters: Which jobs.
            everything: Say that no condition at all is meant.
        """
        filters.require_some(everything=everything)
        body = changes_body(changes)
        return read_number(self.request("PATCH", target("/jobs", filters.query()), body), "patched")

    def delete(self, job_id: str) -> None:
        """Remove a job in whatever state, with its error records."""
        self._transport.request("DELETE", job_path(job_id))

    def delete_many(self, filters: Filters, *, everything: bool = False) -> int:
        """Remove all jobs that match; give their number.

        Args:
            filters: Which jobs.
            everything: Say that no condition at all is meant.
        """
        filters.require_some(everything=everything)
        _, body = self._transport.request("DELETE", target("/jobs", filters.query()))
        return read_number(body, "deleted")

    def success(self, job_id: str) -> None:
        """Report that a job in flight is done.

        Raises:
            NotFound: It is not in flight (any more).
        """
        self._transport.request("POST", job_path(job_id, "success"))

    def success_many(self, job_ids: Names) -> Sequence[str]:
        """Report that jobs in flight are done; give the ids that were not in flight."""
        body = json_body({"ids": names(job_ids, "ids")})
        status, answer = self._transport.request("POST", "/jobs/success", body, also=(422,))
        if status != 422:
            return []
        missing = read_object(answer).get("not_found")
        if not isinstance(missing, list):
            raise InvalidInput(f"the server refused the ids: {answer[:300].decode(errors='replace')}")
        return [str(job_id) for job_id in missing]

    def failure(self, job_id: str, message: str, **details: Any) -> JobView:
        """Report that a job in flight failed.

        Args:
            job_id: The job.
            message: What went wrong.
            details: The other fields of `Failure`: ``error_type``, ``backtrace``, ``retry_at``, ``delay``, ``kill``.

        Returns:
            The job after the decision: ``scheduled`` with the next `ready_at`, or ``dead``.

        Raises:
            NotFound: It is not in flight (any more).
        """
        report = Failure(id=job_id, message=message, **details)
        return read_job(self.request("POST", job_path(job_id, "failure"), report.body()))

    def failure_many(self, failures: Iterable[Failure]) -> Sequence[FailureResult]:
        """Report that jobs in flight failed (Anew). Each is decided by itself: a refused one does not hinder the others.

        Returns:
            What became of each, in the order given.
        """
        reports = [{"id": failure.id} | failure.body() for failure in failures]
        return read_failure_results(self.request("POST", "/v1/jobs/failure", {"failures": reports}))

    def take(
        self,
        queues: Names = (),
        *,
        prefetch: int = 1,
        worker_id: str | None = None,
        idle_timeout: Period = "30s",
    ) -> TakeStream:
        """Open a stream of jobs. To open another one when it ends is the caller's decision.

        Args:
            queues: Take from this one, or these, only; none means all.
            prefetch: Most jobs held by this stream at once.
            worker_id: Name that the server's log shows.
            idle_timeout: Longest silence; the server's heartbeats count.
        """
        idle_timeout_ms = period_ms(idle_timeout, "idle_timeout", low=1)
        parameters = {"prefetch": str(prefetch)} | Filters(queue=queues).query()
        headers = {"Accept": "application/x-ndjson"} | ({"Worker-Id": worker_id} if worker_id else {})
        opened = self._transport.open_stream(target("/jobs/take", parameters), headers)
        return TakeStream(*opened, idle_timeout_ms)

    def retry(self, job_id: str) -> JobView:
        """Make a dead job ready now (Anew).

        Raises:
            Conflict: It is not dead.
        """
        return read_job(self.request("POST", "/v1" + job_path(job_id, "retry"), None))

    def cancel(self, job_id: str) -> JobView:
        """End a job before its time (Anew).

        Raises:
            Conflict: It has ended already.
        """
        return read_job(self.request("POST", "/v1" + job_path(job_id, "cancel"), None))

    def redrive(
        self, filters: Filters = _ALL, *, spread: Period | None = None, reset_attempts: bool = False
    ) -> int:
        """Make dead jobs ready again (Anew); give their number.

        Args:
            filters: Which of the dead jobs; nothing set means all of them.
            spread: Spread them evenly over this period from now; None means all at once.
            reset_attempts: Let them begin at the first attempt again, with all their retries.
        """
        spread_ms = None if spread is None else period_ms(spread, "spread")
        body = {"spread": spread_ms, "reset_attempts": reset_attempts}
        return read_number(self.request("POST", target("/v1/jobs/retry", filters.query()), body), "retried")

    def _get(self, path: str) -> bytes:
        return self._transport.request("GET", path)[1]


def _goes_on(page: Page, following: Page, order: Order) -> bool:
    if not page.jobs or not following.jobs:
        return following.next_path is None or following.next_path != page.next_path
    return (following.jobs[0].id > page.jobs[-1].id) == (order == "asc")
