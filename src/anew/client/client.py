"""The client: one method per verb."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import quote

from anew.client.query import Filters
from anew.client.requests import job_path, json_body, own_path, target
from anew.client.stream import TakeStream
from anew.client.transport import Transport
from anew.client.views import (
    Draft,
    ErrorView,
    JobView,
    Page,
    read_errors,
    read_job,
    read_list,
    read_number,
    read_object,
    read_page,
)
from anew.errors import InvalidInput

DEFAULT_URL: Final = "http://127.0.0.1:7890"
Order = Literal["asc", "desc"]

_ALL: Final = Filters()
_PAGE: Final = 1000


class Client:
    """The verbs of the queue, over HTTP. Threads may share one.

    Every method raises what its refusal means: `NotFound`, `Conflict`, `InvalidInput`, `Overloaded`,
    `StoreFull`, `Unauthorized`, `NotSupported`; and `Unreachable` when there is no answer, in which case a
    change that was asked for may or may not have happened.

    Args:
        url: Address of the server; may end in a path prefix.
        token: Bearer token, or None.
        timeout_ms: Longest silence while an answer is waited for.
    """

    def __init__(self, url: str = DEFAULT_URL, *, token: str | None = None, timeout_ms: int = 30_000) -> None:
        self._transport = Transport(url, token, timeout_ms)

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

    def health(self) -> dict[str, Any]:
        """Ask whether the server is well: ``{"status": "ok", ...}``."""
        return read_object(self._get("/health"))

    def version(self) -> str:
        """The version that the server reports."""
        return str(read_object(self._get("/version")).get("version", ""))

    def queues(self) -> Sequence[str]:
        """Names of the queues that hold any job, sorted."""
        return [str(name) for name in read_object(self._get("/queues")).get("queues", [])]

    def enqueue(self, type: str, queue: str, payload: Any = None, **options: Any) -> JobView:
        """Store one job.

        Args:
            type: Its handler's name.
            queue: Its lane.
            payload: Any JSON value, or `msgspec.Raw`.
            options: The other fields of `Draft`.

        Returns:
            The job as stored, without payload.
        """
        draft = Draft(type=type, queue=queue, payload=payload, **options)
        return read_job(self._send("POST", "/jobs", draft.body()))

    def enqueue_many(self, jobs: Iterable[Draft]) -> Sequence[JobView]:
        """Store jobs in one call: all of them or none.

        Returns:
            The jobs as stored, in the order given, without payloads.
        """
        answer = self._send("POST", "/jobs/bulk", {"jobs": [job.body() for job in jobs]})
        return [read_job(job) for job in read_list(answer, "jobs")]

    def get(self, job_id: str) -> JobView:
        """One job with its payload."""
        return read_job(self._get(job_path(job_id)))

    def page(
        self, filters: Filters = _ALL, *, limit: int = 50, order: Order = "asc", after: str | None = None
    ) -> Page:
        """One page of the jobs that match, sorted by id.

        Args:
            filters: Which jobs.
            limit: 1 to 2000.
            order: ``asc`` gives the oldest first.
            after: Id of the job after which the page begins.
        """
        parameters = filters.query() | {"limit": str(limit), "order": order}
        if after is not None:
            parameters["from"] = quote(after, safe="")
        return read_page(self._get(target("/jobs", parameters)))

    def list(self, filters: Filters = _ALL, *, order: Order = "asc", page: int = _PAGE) -> Iterator[JobView]:
        """All jobs that match, sorted by id, fetched a page at a time as the caller goes on."""
        current = self.page(filters, limit=page, order=order)
        while True:
            yield from current.jobs
            if current.next is None:
                return
            current = read_page(self._get(own_path(current.next)))

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
            next_page = None if following is None or given == limit else own_path(following)

    def patch(self, job_id: str, changes: Mapping[str, Any]) -> JobView:
        """Change a job that has not ended: ``queue``, ``priority``, ``ready_at``, ``retry_limit``, ...

        Args:
            job_id: The job.
            changes: New values; None clears (JSON Merge Patch).

        Raises:
            IllegalTransition: It has ended.
        """
        return read_job(self._send("PATCH", job_path(job_id), dict(changes)))

    def patch_many(self, changes: Mapping[str, Any], filters: Filters, *, everything: bool = False) -> int:
        """Change all jobs that match and have not ended; give their number.

        Args:
            changes: As for `patch`.
            filters: Which jobs.
            everything: Say that no condition at all is meant.
        """
        filters.insist(everything=everything)
        return read_number(self._send("PATCH", target("/jobs", filters.query()), dict(changes)), "patched")

    def delete(self, job_id: str) -> None:
        """Remove a job in whatever state, with its error records."""
        self._transport.request("DELETE", job_path(job_id))

    def delete_many(self, filters: Filters, *, everything: bool = False) -> int:
        """Remove all jobs that match; give their number.

        Args:
            filters: Which jobs.
            everything: Say that no condition at all is meant.
        """
        filters.insist(everything=everything)
        _, body = self._transport.request("DELETE", target("/jobs", filters.query()))
        return read_number(body, "deleted")

    def success(self, job_id: str) -> None:
        """Report that a job in flight is done.

        Raises:
            NotFound: It is not in flight (any more).
        """
        self._transport.request("POST", job_path(job_id, "success"))

    def success_many(self, job_ids: Iterable[str]) -> Sequence[str]:
        """Report that jobs in flight are done; give the ids that were not in flight."""
        body = json_body({"ids": [*job_ids]})
        status, answer = self._transport.request("POST", "/jobs/success", body, also=(422,))
        if status != 422:
            return []
        missing = read_object(answer).get("not_found")
        if not isinstance(missing, list):
            raise InvalidInput(f"the server refused the ids: {answer[:300].decode(errors='replace')}")
        return [str(job_id) for job_id in missing]

    def failure(
        self,
        job_id: str,
        message: str,
        *,
        error_type: str | None = None,
        backtrace: str | None = None,
        retry_at: int | None = None,
        kill: bool = False,
    ) -> JobView:
        """Report that a job in flight failed.

        Args:
            job_id: The job.
            message: What went wrong.
            error_type: Its class, as a short name.
            backtrace: Where it went wrong.
            retry_at: Run again then (epoch ms), whatever curve and limit say.
            kill: Do not run again.

        Returns:
            The job after the decision: ``scheduled`` with the next `ready_at`, or ``dead``.

        Raises:
            NotFound: It is not in flight (any more).
        """
        told = {"message": message, "error_type": error_type, "backtrace": backtrace}
        report = told | {"retry_at": retry_at, "kill": kill}
        return read_job(self._send("POST", job_path(job_id, "failure"), report))

    def take(
        self,
        queues: Iterable[str] = (),
        *,
        prefetch: int = 1,
        worker_id: str | None = None,
        idle_timeout_ms: int = 30_000,
    ) -> TakeStream:
        """Open a stream of jobs. To open another one when it ends is the caller's decision.

        Args:
            queues: Take from these only; none means all.
            prefetch: Most jobs held by this stream at once.
            worker_id: Name that the server's log shows.
            idle_timeout_ms: Longest silence; the server's heartbeats count.
        """
        parameters = {"prefetch": str(prefetch)} | Filters(queue=(*queues,)).query()
        headers = {"Accept": "application/x-ndjson"} | ({"Worker-Id": worker_id} if worker_id else {})
        opened = self._transport.open_stream(target("/jobs/take", parameters), headers)
        return TakeStream(*opened, idle_timeout_ms)

    def retry(self, job_id: str) -> JobView:
        """Make a dead job ready now (Anew).

        Raises:
            Conflict: It is not dead.
        """
        return read_job(self._send("POST", "/v1" + job_path(job_id, "retry"), None))

    def cancel(self, job_id: str) -> JobView:
        """End a job before its time (Anew).

        Raises:
            Conflict: It has ended already.
        """
        return read_job(self._send("POST", "/v1" + job_path(job_id, "cancel"), None))

    def redrive(
        self, filters: Filters = _ALL, *, spread_ms: int | None = None, reset_attempts: bool = False
    ) -> int:
        """Make dead jobs ready again (Anew); give their number.

        Args:
            filters: Which of the dead jobs; nothing set means all of them.
            spread_ms: Spread them evenly over this period from now; None means all at once.
            reset_attempts: Let them begin at the first attempt again, with all their retries.
        """
        body = {"spread": spread_ms, "reset_attempts": reset_attempts}
        return read_number(self._send("POST", target("/v1/jobs/retry", filters.query()), body), "retried")

    def _get(self, path: str) -> bytes:
        return self._transport.request("GET", path)[1]

    def _send(self, method: str, path: str, body: object) -> bytes:
        return self._transport.request(method, path, None if body is None else json_body(body))[1]
