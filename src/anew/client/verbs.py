"""The verbs of the queue, each written once: the request that it is, and how the answer is read. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

from anew.client.exchange import Asked, Exchange, report_failure, report_success, verb
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
from anew.client.views import (
    CronView,
    Draft,
    ErrorView,
    Failure,
    FailureResult,
    JobPage,
    JobView,
    PlanView,
    QueueCounts,
    number_reader,
    read_crons,
    read_errors,
    read_failure_results,
    read_job,
    read_jobs,
    read_object,
    read_plan,
    read_queue_counts,
)
from anew.client.waiting import Waits
from anew.errors import InvalidInput, Unreachable

T = TypeVar("T")
P = TypeVar("P", bound=JobPage)

Order = Literal["asc", "desc"]
Walk = Generator[Exchange[T], T, None]
"""The requests of a list, one after the other: each result is sent back."""

MOST_OF_A_PAGE: Final = 1000

ALL: Final = Filters()


class Verbs:
    """What both clients are asked; ``_retry`` says how long to wait before a report is repeated, or is None."""

    _retry: Waits | None

    def __init_subclass__(cls) -> None:
        for name, made in vars(Verbs).items():
            if isinstance(made, verb):  # real functions: for whoever inspects, documents or doubles them
                setattr(cls, name, made.method(cls))

    @verb
    def request(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Exchange[bytes]:
        """Use a route that has no method of its own here; give the answer's body.

        Args:
            method: Such as ``"PUT"``.
            path: With its query, as the server documents it (``/openapi.json``).
            body: What is sent as JSON; None: nothing.
            headers: Such as ``Idempotency-Key``, beside those that every request has.
        """
        return _send(method, path, body, bytes, headers=headers)

    @verb
    def health(self) -> Exchange[dict[str, Any]]:
        """Ask whether the server is well: ``{"status": "ok", ...}``."""
        return _get("/health", read_object)

    @verb
    def version(self) -> Exchange[str]:
        """The version that the server reports."""
        return _get("/version", lambda answer: str(read_object(answer).get("version", "")))

    @verb
    def queues(self) -> Exchange[Sequence[str]]:
        """Names of the queues that hold any job, sorted."""
        return _get("/queues", _texts("queues"))

    @verb
    def queue_counts(self) -> Exchange[Sequence[QueueCounts]]:
        """How many jobs of each status each queue holds, and whether it is paused or limited, sorted by name (Anew).

        Queues without a job are among them if they are paused or limited.
        Ended jobs are counted until they are removed, which is soon after their retention is over.
        """
        return _get("/v1/queues", read_queue_counts)

    @verb
    def pause(self, queue: str) -> Exchange[None]:
        """Have a queue hand out nothing, also if it has no job yet; what runs goes on (Anew)."""
        return _send("POST", queue_path(queue, "pause"), None, _nothing)

    @verb
    def resume(self, queue: str) -> Exchange[None]:
        """Have a queue hand out its jobs again; one that is not paused stays as it is (Anew)."""
        return _send("POST", queue_path(queue, "resume"), None, _nothing)

    @verb
    def crons(self) -> Exchange[Sequence[CronView]]:
        """The server's cron entries, sorted by group and name, at most the first 1,000 (Anew)."""
        return _get("/v1/crons", read_crons)

    @verb
    def remove_cron(self, group: str, name: str) -> Exchange[None]:
        """Remove one cron entry; what it has enqueued stays (Anew).

        Raises:
            NotFound: There is none.
        """
        return _send("DELETE", f"/v1/crons/{quote(group, safe='')}/{quote(name, safe='')}", None, _nothing)

    @verb
    def clear_crons(self, group: str) -> Exchange[Sequence[str]]:
        """Remove all cron entries of a group; give their names (Anew)."""
        return _send("DELETE", f"/v1/crons/{quote(group, safe='')}", None, _texts("removed"))

    @verb
    def enqueue(self, /, type: str, queue: str, payload: Any = None, **options: Any) -> Exchange[JobView]:
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
        return _send("POST", "/jobs", draft.body(), read_job)

    @verb
    def enqueue_many(self, jobs: Iterable[Draft]) -> Exchange[Sequence[JobView]]:
        """Store jobs in one call: all of them or none.

        Returns:
            The jobs as stored, in the order given, without payloads.
        """
        return _send("POST", "/jobs/bulk", {"jobs": [job.body() for job in jobs]}, read_jobs)

    @verb
    def get(self, job_id: str) -> Exchange[JobView]:
        """One job with its payload."""
        return _get(job_path(job_id), read_job)

    @verb
    def count(self, filters: Filters = ALL) -> Exchange[int]:
        """How many jobs match."""
        return _get(target("/jobs/count", filters.query()), number_reader("count"))

    @verb
    def patch(self, job_id: str, changes: Mapping[str, Any]) -> Exchange[JobView]:
        """Change a job that has not ended.

        Args:
            job_id: The job.
            changes: New values of ``queue``, ``priority``, ``ready_at`` (or ``delay``), ``retry_limit``, ``policy``,
                ``backoff``, ``retention``; None goes back to the default (JSON Merge Patch).

        Raises:
            IllegalTransition: It has ended.
        """
        return _send("PATCH", job_path(job_id), changes_body(changes), read_job)

    @verb
    def patch_many(
        self, changes: Mapping[str, Any], filters: Filters, *, everything: bool = False
    ) -> Exchange[int]:
        """Change all jobs that match and have not ended; give their number.

        Args:
            changes: As for `patch`.
            filters: Which jobs.
            everything: Say that no condition at all is meant.
        """
        filters.require_some(everything=everything)
        body = changes_body(changes)
        return _send("PATCH", target("/jobs", filters.query()), body, number_reader("patched"))

    @verb
    def delete(self, job_id: str) -> Exchange[None]:
        """Remove a job in whatever state, with its error records."""
        return _send("DELETE", job_path(job_id), None, _nothing)

    @verb
    def delete_many(self, filters: Filters, *, everything: bool = False) -> Exchange[int]:
        """Remove all jobs that match; give their number.

        Args:
            filters: Which jobs.
            everything: Say that no condition at all is meant.
        """
        filters.require_some(everything=everything)
        return _send("DELETE", target("/jobs", filters.query()), None, number_reader("deleted"))

    @verb
    def success(self, job_id: str) -> Asked[None]:
        """Report that a job in flight is done; again by the client's ``retry`` while no answer comes.

        Raises:
            NotFound: It is not in flight (any more). After a try without an answer it counts as done.
        """
        report = _send("POST", job_path(job_id, "success"), None, _nothing)
        return report if self._retry is None else report_success(report, self._retry, _nothing)

    @verb
    def success_many(self, job_ids: Names) -> Asked[Sequence[str]]:
        """Report that jobs in flight are done, as `success` does; give the ids that were not in flight."""
        body = {"ids": names(job_ids, "ids")}
        report = _send("POST", "/jobs/success", body, _read_missing, also=(422,))
        return report if self._retry is None else report_success(report, self._retry, lambda _: [])

    @verb
    def failure(self, /, job_id: str, message: str, **details: Any) -> Asked[JobView]:
        """Report that a job in flight failed; again by the client's ``retry`` where that can end no other attempt.

        Args:
            job_id: The job.
            message: What went wrong.
            details: The other fields of `Failure`: ``error_type``, ``backtrace``, ``retry_at``, ``delay``, ``kill``.

        Returns:
            The job after the decision: ``scheduled`` with the next `ready_at`, or ``dead``.

        Raises:
            NotFound: It is not in flight (any more).
        """
        body = Failure(id=job_id, message=message, **details).body()
        report = _send("POST", job_path(job_id, "failure"), body, read_job)
        look = _get(job_path(job_id), read_job)
        return report if self._retry is None else report_failure(report, look, self._retry)

    @verb
    def failure_many(self, failures: Iterable[Failure]) -> Exchange[Sequence[FailureResult]]:
        """Report that jobs in flight failed (Anew). Each is decided by itself: a refused one does not hinder the others.

        Returns:
            What became of each, in the order given.
        """
        reports = [{"id": failure.id} | failure.body() for failure in failures]
        return _send("POST", "/v1/jobs/failure", {"failures": reports}, read_failure_results)

    @verb
    def retry(self, job_id: str) -> Exchange[JobView]:
        """Make a dead job ready now (Anew).

        Raises:
            Conflict: It is not dead.
        """
        return _send("POST", "/v1" + job_path(job_id, "retry"), None, read_job)

    @verb
    def cancel(self, job_id: str) -> Exchange[JobView]:
        """End a job before its time (Anew).

        Raises:
            Conflict: It has ended already.
        """
        return _send("POST", "/v1" + job_path(job_id, "cancel"), None, read_job)

    @verb
    def redrive(
        self, filters: Filters = ALL, *, spread: Period | None = None, reset_attempts: bool = False
    ) -> Exchange[int]:
        """Make dead and cancelled jobs ready again (Anew); give their number.

        Args:
            filters: Which of them; nothing set means all of them. ``Filters(state="dead")`` leaves out those that were called off
                or have expired.
            spread: Spread them evenly over this period from now; None means all at once.
            reset_attempts: Let them begin at the first attempt again, with all their retries.
        """
        spread_ms = None if spread is None else period_ms(spread, "spread")
        body = {"spread": spread_ms, "reset_attempts": reset_attempts}
        return _send("POST", target("/v1/jobs/retry", filters.query()), body, number_reader("retried"))

    @verb
    def replan(
        self,
        filters: Filters,
        policy: Any,
        *,
        spread: Period | None = None,
        dry_run: bool = False,
        everything: bool = False,
    ) -> Exchange[PlanView]:
        """Give jobs that wait for a retry the times that another policy gives them (Anew).

        Args:
            filters: Which jobs.
            policy: Any form of policy; counted from their last failures, and theirs from now on.
            spread: Spread those that would be due at once over this period from now.
            dry_run: Only tell what would come of it.
            everything: Say that no condition at all is meant.
        """
        filters.require_some(everything=everything)
        spread_ms = None if spread is None else period_ms(spread, "spread")
        body = {"policy": policy, "spread": spread_ms, "dry_run": dry_run}
        return _send("POST", target("/v1/jobs/replan", filters.query()), body, read_plan)


def page_request(
    filters: Filters,
    read: Callable[[bytes], P],
    *,
    limit: int,
    order: Order,
    after: str | None = None,
    last_errors: bool = False,
) -> Exchange[P]:
    """Ask for one page of a list of jobs."""
    parameters = filters.query() | {"limit": str(limit), "order": order}
    if after is not None:
        parameters["from"] = quote(after, safe="")
    return _get(target("/v1/jobs" if last_errors else "/jobs", parameters), read)


def page_walk(
    filters: Filters, read: Callable[[bytes], P], *, limit: int, order: Order, at_most: int | None
) -> Walk[P]:
    """Ask for the pages of all jobs that match, one after the other.

    Raises:
        Unreachable: A page links to itself or to one before it, so that the list would never end.
    """
    asked = page_request(filters, read, limit=limit, order=order)
    before: P | None = None
    for _ in count() if at_most is None else range(at_most):
        page = yield asked
        if before is not None and not _goes_on(before, page, order):
            raise Unreachable(f"the server's list does not go on: {before.next_path!r} repeats a page")
        if page.next_path is None:
            return
        before, asked = page, _get(local_path(page.next_path), read)


def error_walk(job_id: str, order: Order, limit: int | None) -> Walk[Sequence[ErrorView]]:
    """Ask for the error records of a job, page by page, at most `limit` of them."""
    size = MOST_OF_A_PAGE if limit is None else min(limit, MOST_OF_A_PAGE)
    following: str | None = target(job_path(job_id, "errors"), {"order": order, "limit": str(size)})
    given = 0

    def read(answer: bytes) -> list[ErrorView]:
        nonlocal following
        records, link = read_errors(answer)
        following = None if link is None else local_path(link)
        return records if limit is None else records[: limit - given]

    while following is not None and (limit is None or given < limit):
        given += len((yield _get(following, read)))


def take_request(
    queues: Names, prefetch: int, worker_id: str | None, interruption_limit: int | None
) -> tuple[str, dict[str, str]]:
    """Give target and headers of a take stream."""
    parameters = {"prefetch": str(prefetch)} | Filters(queue=queues).query()
    headers = {"Accept": "application/x-ndjson"} | ({"Worker-Id": worker_id} if worker_id else {})
    if interruption_limit is not None:
        headers["Interruption-Limit"] = str(interruption_limit)
    return target("/jobs/take", parameters), headers


def step(walk: Walk[T], answer: T | None = None) -> Exchange[T] | None:
    """Give the next request of a walk after an answer, or the first one; None at its end."""
    try:
        return next(walk) if answer is None else walk.send(answer)
    except StopIteration:
        return None


def _goes_on(page: JobPage, following: JobPage, order: Order) -> bool:
    if not page.jobs or not following.jobs:
        return following.next_path is None or following.next_path != page.next_path
    return (following.jobs[0].id > page.jobs[-1].id) == (order == "asc")


def _get(path: str, read: Callable[[bytes], T]) -> Exchange[T]:
    return Exchange("GET", path, None, read)


def _send(
    method: str,
    path: str,
    body: object,
    read: Callable[[bytes], T],
    *,
    also: tuple[int, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> Exchange[T]:
    return Exchange(method, path, None if body is None else json_body(body), read, also, headers)


def _nothing(_: object) -> None:
    return None


def _texts(name: str) -> Callable[[bytes], list[str]]:
    return lambda answer: [str(text) for text in read_object(answer).get(name, [])]


def _read_missing(answer: bytes) -> Sequence[str]:
    """Read which of several ids were not in flight: no content says none."""
    document = read_object(answer) if answer else {}
    missing = document.get("not_found", [])
    if "error" in document or not isinstance(missing, list):
        raise InvalidInput(f"the server refused the ids: {answer[:300].decode(errors='replace')}")
    return [str(job_id) for job_id in missing]
