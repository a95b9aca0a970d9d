"""The client: one method per verb."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec

from anew.client.query import Filters, comma_set, target
from anew.client.stream import TakeStream
from anew.client.transport import Transport
from anew.client.views import Draft, ErrorView, JobView, Page, read_errors, read_job, read_object, read_page
from anew.errors import InvalidInput, Unreachable

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
        return [read_job(job) for job in _raw_list(answer, "jobs")]

    def get(self, job_id: str) -> JobView:
        """One job with its payload."""
        return read_job(self._get(_path(job_id)))

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
            current = read_page(self._get(_own_path(current.next)))

    def count(self, filters: Filters = _ALL) -> int:
        """How many jobs match."""
        return _number(self._get(target("/jobs/count", filters.query())), "count")

    def errors(self, job_id: str, *, order: Order = "asc", limit: int | None = None) -> Iterator[ErrorView]:
        """The failed attempts of a job.

        Args:
            job_id: The job.
            order: ``asc`` gives the first attempt first.
            limit: At most so many; None means all.
        """
        size = str(min(limit or _PAGE, _PAGE))
        next_page: str | None = target(_path(job_id, "errors"), {"order": order, "limit": size})
        given = 0
        while next_page is not None:
            records, following = read_errors(self._get(next_page))
            for record in records:
                if limit is not None and given >= limit:
                    return
                yield record
                given += 1
            next_page = None if following is None or given == limit else _own_path(following)

    def patch(self, job_id: str, changes: Mapping[str, Any]) -> JobView:
        """Change a job that has not ended: ``queue``, ``priority``, ``ready_at``, ``retry_limit``, ...

        Args:
            job_id: The job.
            changes: New values; None clears (JSON Merge Patch).

        Raises:
            IllegalTransition: It has ended.
        """
        return read_job(self._send("PATCH", _path(job_id), dict(changes)))

    def patch_many(self, changes: Mapping[str, Any], filters: Filters, *, everything: bool = False) -> int:
        """Change all jobs that match and have not ended; give their number.

        Args:
            changes: As for `patch`.
            filters: Which jobs.
            everything: Say that no condition at all is meant.
        """
        _insist(filters, everything)
        return _number(self._send("PATCH", target("/jobs", filters.query()), dict(changes)), "patched")

    def delete(self, job_id: str) -> None:
        """Remove a job in whatever state, with its error records."""
        self._transport.request("DELETE", _path(job_id))

    def delete_many(self, filters: Filters, *, everything: bool = False) -> int:
        """Remove all jobs that match; give their number.

        Args:
            filters: Which jobs.
            everything: Say that no condition at all is meant.
        """
        _insist(filters, everything)
        _, body = self._transport.request("DELETE", target("/jobs", filters.query()))
        return _number(body, "deleted")

    def success(self, job_id: str) -> None:
        """Report that a job in flight is done.

        Raises:
            NotFound: It is not in flight (any more).
        """
        self._transport.request("POST", _path(job_id, "success"))

    def success_many(self, job_ids: Iterable[str]) -> Sequence[str]:
        """Report that jobs in flight are done; give the ids that were not in flight."""
        body = _json({"ids": [*job_ids]})
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
            retry_at: Run again then (epoch ms), whatever the policy says.
            kill: Do not run again.

        Returns:
            The job after the decision: ``scheduled`` with the next `ready_at`, or ``dead``.

        Raises:
            NotFound: It is not in flight (any more).
        """
        report = {
            "error_type": error_type,
            "backtrace": backtrace,
            "retry_at": retry_at,
            "kill": kill or None,
        }
        given = {name: value for name, value in report.items() if value is not None}
        return read_job(self._send("POST", _path(job_id, "failure"), {"message": message} | given))

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
        parameters = {"prefetch": str(prefetch)} | (
            {"queue": comma_set(names)} if (names := Filters(queue=(*queues,)).queue) else {}
        )
        headers = {"Accept": "application/x-ndjson"} | ({"Worker-Id": worker_id} if worker_id else {})
        connection = self._transport.connection()
        try:
            path = target("/jobs/take", parameters)
            response, sock = self._transport.open_stream(connection, path, headers)
        except BaseException:
            connection.close()
            raise
        return TakeStream(connection, sock, response, idle_timeout_ms)

    def retry(self, job_id: str) -> JobView:
        """Make a dead job ready now (Anew).

        Raises:
            Conflict: It is not dead.
        """
        return read_job(self._send("POST", "/v1" + _path(job_id, "retry"), None))

    def cancel(self, job_id: str) -> JobView:
        """End a job before its time (Anew).

        Raises:
            Conflict: It has ended already.
        """
        return read_job(self._send("POST", "/v1" + _path(job_id, "cancel"), None))

    def redrive(
        self, filters: Filters = _ALL, *, spread_ms: int | None = None, reset_attempts: bool = False
    ) -> int:
        """Make dead jobs ready again (Anew); give their number.

        Args:
            filters: Which of the dead jobs; nothing set means all of them.
            spread_ms: Spread them evenly over this period from now; None means all at once.
            reset_attempts: Let them begin at the first attempt again, with all their retries.
        """
        body: dict[str, Any] = {} if spread_ms is None else {"spread": spread_ms}
        if reset_attempts:
            body["reset_attempts"] = True
        return _number(self._send("POST", target("/v1/jobs/retry", filters.query()), body or None), "retried")

    def _get(self, path: str) -> bytes:
        return self._transport.request("GET", path)[1]

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> bytes:
        return self._transport.request(method, path, None if body is None else _json(body))[1]


def _path(job_id: str, verb: str = "") -> str:
    if not job_id:
        raise InvalidInput("id: '' is not valid; expected the id of a job", field="id", value=job_id)
    return f"/jobs/{quote(job_id, safe='')}" + (f"/{verb}" if verb else "")


def _own_path(link: str) -> str:
    # A link is followed verbatim, but never to another server: the token would go with it.
    if not link.startswith("/") or link.startswith("//"):
        raise Unreachable(f"the server gave a link that is no path of its own: {link[:100]!r}")
    return link


def _insist(filters: Filters, everything: bool) -> None:
    if not filters.given() and not everything:
        raise InvalidInput("filters: none given; expected at least one condition, or everything=True")


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the request cannot be written as JSON: {error}") from error


def _raw_list(document: bytes, name: str) -> list[msgspec.Raw]:
    with contextlib.suppress(msgspec.MsgspecError):
        found = msgspec.json.decode(document, type=dict[str, list[msgspec.Raw]]).get(name)
        if found is not None:
            return found
    raise Unreachable(f"the answer has no list {name!r}; is it an Anew server that listens there?")


def _number(document: bytes, name: str) -> int:
    value = read_object(document).get(name)
    if isinstance(value, int):
        return value
    raise Unreachable(f"the answer has no number {name!r}; is it an Anew server that listens there?")
