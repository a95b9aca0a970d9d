"""The routes that look at jobs: list, count, one job, its error records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec import UNSET, Raw

from anew.engine.searches import Found
from anew.errors import MalformedRequest, NotFound, Overloaded
from anew.http.api import Context
from anew.http.formats import JSON, Format
from anew.http.packing import is_long, packing_payloads
from anew.http.query_strings import (
    FILTERS,
    PAGING,
    U32_MAX,
    Paging,
    number,
    paging,
    query_pairs,
    selected,
    selection,
)
from anew.http.render import (
    ShownDropped,
    ShownError,
    ShownJob,
    own_job,
    shown_error,
    shown_job,
    shown_ties,
    with_last_error,
)
from anew.http.replies import answering
from anew.http.router import Doc, Router
from anew.jobs import ErrorRecord, Job
from anew.net.chunks import Chunks, Work
from anew.net.seam import Request
from anew.store.selection import Page

MAX_PAGE_BYTES = 32 << 20
"""Payload bytes of one page; it ends early where they grow too much, and the next one goes on from there."""

PART_BYTES = 512 << 10
PART_JOBS = 100
"""Payload bytes, and jobs, of a page that are read and written in one go: some milliseconds."""


class _JobPage:
    """One request for a page of jobs. Its steps follow one another: find keys, divide them by size, read the jobs, write them.

    Args:
        context: What reads.
        pages: Where long pages are written.
        request, form: Who asks, and how the answer is written.
        path: Of the page's links.
        last_errors: Each job is shown with its latest failure.
    """

    def __init__(
        self, context: Context, pages: Chunks, request: Request, form: Format, path: str, last_errors: bool
    ) -> None:
        given = query_pairs(request.query, FILTERS | PAGING)
        self._paging, self._chosen = paging(given), selection(given)
        self._chosen.check_ids()
        self._reads = context.reads
        self._searches = context.searches
        self._ids = context.engine.ids
        self._now = context.engine.clock.now
        self._pages = pages
        self._request = request
        self._form = form
        self._path = path
        self._last_errors = last_errors

    def answer(self) -> None:
        """Find the keys of the page, and go on from there."""
        where = self._chosen.where(self._ids, visible_at=self._now())
        part, expression = self._paging.by_key(self._ids), self._chosen.expression
        if expression is None:
            self._reads.find(where, part, self._then(lambda keys: self._divide(Found(keys, None))))
        else:
            self._searches.page(where, part, expression, self._is_gone, self._then(self._divide))

    def _is_gone(self) -> bool:
        return self._request.hung_up

    def _divide(self, found: Found) -> None:
        listed = found.keys[: self._paging.limit]
        self._reads.at_once(lambda: self._parts(listed), self._then(partial(self._read, found)))

    def _read(self, found: Found, divided: tuple[list[list[int]], int]) -> None:
        parts, size = divided
        first = self._ids.write(parts[0][0]) if parts else None
        behind = parts[-1][-1] if len(found.keys) > sum(map(len, parts)) else found.stopped_at
        following = None if behind is None else self._ids.write(behind)
        links = _links(self._path, self._paging, self._chosen.parameters(), first, following)
        self._reads.in_parts(parts, self._shown, self._then(partial(self._write, links, size)))

    def _write(self, links: dict[str, str | None], size: int, jobs: Iterable[list[ShownJob]]) -> None:
        def written(jobs: list[Raw]) -> None:
            self._form.reply(self._request, 200, {"jobs": jobs, "pages": links})

        try:
            self._pages.run(self._writing(jobs), self._then(written), size)
        except Overloaded:
            raise Overloaded("too many long pages are asked for at once; try again in a second") from None

    def _then(self, then: Callable[[Any], None]) -> Callable[[Any], None]:
        return _answering(self._request, self._form, then)

    def _shown(self, keys: list[int]) -> list[ShownJob]:
        """Give those of these jobs that are still there, or nothing if nobody waits any more."""
        if self._request.gone:
            return []
        jobs = self._reads.jobs(keys)
        listed = [(key, shown_job(self._ids, jobs[key], payload=True)) for key in keys if key in jobs]
        if not self._last_errors:
            return [job for _, job in listed]
        records = self._reads.last_errors(keys)
        return [with_last_error(job, jobs[key], records.get(key)) for key, job in listed]

    def _parts(self, keys: list[int]) -> tuple[list[list[int]], int]:
        """Give as many keys, at least one, as have payloads that may be shown together, and the bytes of these.

        The jobs of each part are read together.
        """
        sizes = self._reads.payload_sizes(keys)
        parts: list[list[int]] = []
        total = size_of_part = 0
        for key in keys:
            size = sizes.get(key, 0)
            if parts and total + size > MAX_PAGE_BYTES:
                break
            total += size
            if not parts or size_of_part + size > PART_BYTES or len(parts[-1]) == PART_JOBS:
                parts.append([])
                size_of_part = 0
            parts[-1].append(key)
            size_of_part += size
        return parts, total

    def _writing(self, parts: Iterable[list[ShownJob]]) -> Work[list[Raw]]:
        """Write the jobs of a page, part by part, as long as somebody waits; those that are gone by then are left out."""
        written: list[Raw] = []
        for jobs in parts:
            if self._request.gone:
                break
            if self._form is not JSON:
                yield from packing_payloads(jobs)
            written += [Raw(self._form.encode(job)) for job in jobs]
            yield
        return written


class JobRoutes:
    """Looks at jobs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._reads = context.reads
        self._searches = context.searches
        self._now = context.engine.clock.now
        self._ids = context.engine.ids
        self._key_of = context.key_of
        self._chunks = context.chunks
        self._pages = Chunks()  # their bytes count apart from those of bodies

    def many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List jobs, a page at a time."""
        _JobPage(self._context, self._pages, request, form, "/jobs", last_errors=False).answer()

    def many_with_errors(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List jobs, a page at a time, each with its latest failure."""
        _JobPage(self._context, self._pages, request, form, "/v1/jobs", last_errors=True).answer()

    def count(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Count jobs: at once where the counters know, else in the reader's thread."""
        chosen = selected(request.query)
        where = chosen.where(self._ids, visible_at=self._now())

        def then(count: int) -> None:
            form.reply(request, 200, {"count": count})

        if chosen.expression is not None:
            answer = _answering(request, form, then)
            self._searches.count(where, chosen.expression, lambda: request.hung_up, answer)
            return

        def count(known: int | None) -> None:
            if known is None:
                self._reads.count(where, _answering(request, form, then))
            else:
                then(known)

        self._reads.at_once(lambda: self._reads.known_count(where), _answering(request, form, count))

    def one(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show one job with its payload."""
        self._show(request, form, lambda: self._one(params[0])[1])

    def own(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show one job with its payload, its state by Anew's own name, its latest failure and its result."""

        def read() -> ShownJob:
            job, shown = self._one(params[0])
            return own_job(shown, job, self._reads.last_errors([job.key]).get(job.key))

        self._show(request, form, read)

    def _show(self, request: Request, form: Format, read: Callable[[], ShownJob]) -> None:
        then = _answering(request, form, lambda shown: self._reply(request, form, shown))
        self._reads.at_once(read, then)

    def _one(self, job_id: str) -> tuple[Job, ShownJob]:
        job = self._visible(job_id, payload=True)
        shown = shown_job(self._ids, job, payload=True)
        ties = self._reads.ties(job.key) if job.hooks else None
        if ties is not None:
            shown.ties = shown_ties(self._ids, ties, self._now())
        return job, shown

    def _reply(self, request: Request, form: Format, shown: ShownJob) -> None:
        """Answer with a job and its payload, which is translated in chunks where that is needed."""
        if form is JSON or not is_long([shown]):
            form.reply(request, 200, shown)
        else:
            then = _answering(request, form, lambda _: form.reply(request, 200, shown))
            self._chunks.run(packing_payloads([shown]), then)

    def errors(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the records of a job's failed attempts, a page at a time."""
        given = query_pairs(request.query, PAGING)
        page = paging(given)
        start = None if page.start is None else number("from", page.start, U32_MAX)
        self._reads.at_once(
            lambda: self._errors(params[0], page, start),
            _answering(request, form, lambda answer: form.reply(request, 200, answer)),
        )

    def _errors(self, job_id: str, page: Paging, start: int | None) -> dict[str, Any]:
        job = self._visible(job_id)
        records, more = self._records(job.key, Page(order=page.order, after=start, limit=page.limit + 1))
        path = f"/jobs/{self._ids.write(job.key)}/errors"
        first, last = (str(records[0].attempt), str(records[-1].attempt)) if records else (None, None)
        listed = [shown_error(record) for record in records]
        links = _links(path, page, [], first, last if more else None)
        answer: dict[str, Any] = {"errors": listed, "pages": links}
        if dropped := self._reads.dropped_errors(job.key):
            answer["dropped"] = [
                ShownDropped(outcome=outcome, error_type=kind or UNSET, attempts=n)
                for outcome, kind, n in dropped
            ]
        return answer

    def error(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show the record of one failed attempt; of several with one number the newest."""
        attempt = number("attempt", params[1], U32_MAX, MalformedRequest)

        def read() -> ShownError:
            job = self._visible(params[0])
            records = self._reads.errors(job.key, Page(order="desc", after=attempt + 1, limit=1))
            if not records or records[0].attempt != attempt:
                raise NotFound("error record not found")
            return shown_error(records[0])

        shown = _answering(request, form, lambda record: form.reply(request, 200, record))
        self._reads.at_once(read, shown)

    def _visible(self, job_id: str, *, payload: bool = False) -> Job:
        """Find a job whose retention is not over."""
        job = self._reads.job(self._key_of(job_id), payload=payload)
        if job is None or job.is_over(self._now()):
            raise NotFound("job not found")
        return job

    def _records(self, key: int, page: Page) -> tuple[list[ErrorRecord], bool]:
        """Read one page of error records, whose limit is one more than is shown.

        The cursor is an attempt's number, so all records of one number stay on one page, whatever its limit: each interruption
        has the number of the attempt that it ended, and a redrive may begin again at 1.

        Returns:
            The records, and whether there are more behind them.
        """
        records = self._reads.errors(key, page, MAX_PAGE_BYTES)
        if len(records) < page.limit and sum(record.size() for record in records) <= MAX_PAGE_BYTES:
            return records, False
        last = records[-1].attempt
        whole = [record for record in records if record.attempt != last]
        if whole:
            return whole, True
        before = last - 1 if page.order == "asc" else last + 1
        while records[-1].attempt == last:
            limit = 2 * len(records)
            records = self._reads.errors(key, Page(order=page.order, after=before, limit=limit))
            if len(records) < limit:
                break
        same = [record for record in records if record.attempt == last]
        return same, len(same) < len(records)


def _answering(request: Request, form: Format, then: Callable[[Any], None]) -> Callable[[Any], None]:
    """Answer with what has been read, unless nobody waits any more: a page may take long to render."""

    def render(result: Any) -> None:
        if not request.gone:
            then(result)

    return answering(request, form, render)


def _links(
    path: str, page: Paging, filters: list[tuple[str, str]], first: str | None, behind: str | None
) -> dict[str, str | None]:
    """Give a page's links.

    Args:
        first: Cursor of its first item; None of an empty page.
        behind: Cursor behind which the next page begins; None if there is none.
    """
    following = None if behind is None else page.after(behind).link(path, filters)
    preceding = None
    if first is not None and page.start is not None:
        preceding = page.before(first).link(path, filters)
    return {"self": page.link(path, filters), "next": following, "prev": preceding}


def add_routes(router: Router, context: Context) -> None:
    """Serve the routes that look at jobs."""
    routes = JobRoutes(context)
    jobs = Doc("listJobs", "queries", {200: "JobPage"}, query="filters pages")
    with_errors = Doc("listJobsWithErrors", "queries", {200: "ListedJobPage"}, query="filters pages")
    count = Doc("countJobs", "queries", {200: "Count"}, query="filters", about="Count jobs.")
    errors = Doc("listErrors", "queries", {200: "ErrorPage"}, query="error_pages")
    error = Doc("getError", "queries", {200: "ErrorRecord"})
    router.add("GET", "/jobs", routes.many, jobs)
    router.add("GET", "/v1/jobs", routes.many_with_errors, with_errors)
    router.add("GET", "/jobs/count", routes.count, count)
    router.add("GET", "/jobs/{id}", routes.one, Doc("getJob", "queries", {200: "Job"}))
    router.add("GET", "/v1/jobs/{id}", routes.own, Doc("getOwnJob", "queries", {200: "OwnJob"}))
    router.add("GET", "/jobs/{id}/errors", routes.errors, errors)
    router.add("GET", "/jobs/{id}/errors/{attempt}", routes.error, error)
