"""The routes that look at jobs: list, count, one job, its error records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anew.errors import NotFound, Overloaded
from anew.http.answers import answering
from anew.http.api import Context
from anew.http.filters import (
    FILTERS,
    PAGING,
    U32_MAX,
    Paging,
    Selection,
    number,
    paging,
    query_pairs,
    selection,
)
from anew.http.formats import Format
from anew.http.render import error_object, job_object, last_error_object
from anew.http.router import Router
from anew.jobs import ENDED, ErrorRecord, Job
from anew.net.seam import Request
from anew.store.protocol import Filter, Page, Reader

MAX_PAGE_BYTES = 32 << 20
"""Payload bytes of one page; it ends early where they grow too much, and the next one goes on from there."""

LONG_ANSWER = 64 << 10
"""Bytes of what is shown above which an answer waits its turn when too many are unread; shorter ones always go through."""

_JOB_BYTES = 256
"""What a job takes in an answer beside its payload, about."""

_MOST_ROUNDS = 100
"""Records of one attempt number that a page shows; a job gets one more by each redrive that begins its policy again."""


class JobRoutes:
    """Looks at jobs.

    Args:
        context: What handlers use.
    """

    def __init__(self, context: Context) -> None:
        self._engine = context.engine
        self._ids = context.engine.ids
        self._key_of = context.key_of
        self._read = context.read
        self._counters = context.counters
        self._max_unsent = context.settings.max_unsent

    def many(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List jobs, a page at a time."""
        self._list(request, form, "/jobs")

    def many_with_errors(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List jobs, a page at a time, each with its latest failure."""
        self._list(request, form, "/v1/jobs", last_errors=True)

    def _list(self, request: Request, form: Format, path: str, *, last_errors: bool = False) -> None:
        given = query_pairs(request.query, FILTERS | PAGING)
        page, chosen = paging(given), selection(given)
        chosen.check()
        where, part = chosen.where(self._ids, visible_at=self._engine.clock.now()), page.by_key(self._ids)

        def then(keys: list[int]) -> None:
            document, shown = self._page(path, keys, page, chosen)
            if last_errors:
                records = self._engine.store.last_errors(shown)
                for key, job in zip(shown, document["jobs"], strict=True):
                    job["last_error"] = last_error_object(records.get(key))
            form.reply(request, 200, document)

        self._read_later(request, form, lambda reader: reader.find(where, part), then)

    def count(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Count jobs: at once where the counters know, else in the reader's thread."""
        chosen = selection(query_pairs(request.query, FILTERS))
        chosen.check()
        where = chosen.where(self._ids, visible_at=self._engine.clock.now())

        def then(count: int) -> None:
            form.reply(request, 200, {"count": count})

        known = self._counted(where)
        if known is None:
            self._read_later(request, form, lambda reader: reader.count(where), then)
        else:
            then(known)

    def one(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show one job with its payload."""
        job = self._visible(params[0], payload=True)
        self._need_room(len(job.payload or b""))
        form.reply(request, 200, job_object(self._ids, job, payload=True))

    def errors(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the records of a job's failed attempts, a page at a time."""
        given = query_pairs(request.query, PAGING)
        page = paging(given)
        start = None if page.start is None else number("from", page.start, U32_MAX)
        job = self._visible(params[0])
        records, more = self._records(job.key, Page(order=page.order, after=start, limit=page.limit + 1))
        self._need_room(sum(record.size() for record in records))
        path = f"/jobs/{self._ids.write(job.key)}/errors"
        ends = (str(records[0].attempt), str(records[-1].attempt)) if records else None
        listed = [error_object(record) for record in records]
        form.reply(request, 200, {"errors": listed, "pages": _links(path, page, [], ends, more)})

    def error(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show the record of one failed attempt; of several with one number the newest."""
        attempt = number("attempt", params[1], U32_MAX)
        job = self._visible(params[0])
        records = self._engine.store.errors(job.key, Page(order="desc", after=attempt + 1, limit=1))
        if not records or records[0].attempt != attempt:
            raise NotFound("error record not found")
        self._need_room(records[0].size())
        form.reply(request, 200, error_object(records[0]))

    def _read_later(
        self,
        request: Request,
        form: Format,
        read: Callable[[Reader], Any],
        then: Callable[[Any], None],
    ) -> None:
        """Read in the reader's thread, then answer, unless nobody waits any more: a page may take long to render."""

        def render(result: Any) -> None:
            if request.gone:
                return
            try:
                then(result)
            except Overloaded as error:
                self._counters.refuse(error.code)
                raise

        self._read(read, answering(request, form, render))

    def _need_room(self, size: int) -> None:
        """Make sure that an answer may be rendered.

        Args:
            size: Bytes of what it shows, about.

        Raises:
            Overloaded: It is long, and peers have left too much of such answers unread.
        """
        if size > LONG_ANSWER and self._counters.unsent > self._max_unsent:
            raise Overloaded("too many long answers wait for their readers; try again in a second")

    def _visible(self, job_id: str, *, payload: bool = False) -> Job:
        """Find a job whose retention is not over."""
        jobs = self._engine.store.load([self._key_of(job_id)], payload=payload)
        if not jobs or jobs[0].is_over(self._engine.clock.now()):
            raise NotFound("job not found")
        return jobs[0]

    def _page(
        self, path: str, keys: list[int], page: Paging, chosen: Selection
    ) -> tuple[dict[str, Any], list[int]]:
        """Give one page and the keys of its jobs; `keys` has one more than fits if there is a next one."""
        shown = self._fitting(keys[: page.limit])
        jobs = {job.key: job for job in self._engine.store.load(shown, payload=True)}
        ends = (self._ids.write(shown[0]), self._ids.write(shown[-1])) if shown else None
        links = _links(path, page, chosen.parameters(), ends, len(keys) > len(shown))
        present = [key for key in shown if key in jobs]
        listed = [job_object(self._ids, jobs[key], payload=True) for key in present]
        return {"jobs": listed, "pages": links}, present

    def _fitting(self, keys: list[int]) -> list[int]:
        """Give as many keys, at least one, as have payloads that may be shown together.

        Raises:
            Overloaded: They may not be shown now.
        """
        sizes = self._engine.store.payload_sizes(keys)
        total = 0
        for at, key in enumerate(keys):
            total += sizes.get(key, 0)
            if at and total > MAX_PAGE_BYTES:
                keys = keys[:at]
                break
        self._need_room(total + len(keys) * _JOB_BYTES)
        return keys

    def _counted(self, where: Filter) -> int | None:
        """Count by the counters; None if they do not know, as with ended jobs, whose retention may be over."""
        if not where.only_counts():
            return None
        total = 0
        for queue, states in self._engine.store.counts().items():
            if where.queues is not None and queue not in where.queues:
                continue
            for state, n in states.items():
                if where.states is not None and state not in where.states:
                    continue
                if n and state in ENDED:
                    return None
                total += n
        return total

    def _records(self, key: int, page: Page) -> tuple[list[ErrorRecord], bool]:
        """Read one page of error records, whose limit is one more than is shown.

        The cursor is an attempt's number, so records of one number stay on one page.

        Returns:
            The records, and whether there are more behind them.
        """
        store = self._engine.store
        records = store.errors(key, page, MAX_PAGE_BYTES)
        if len(records) < page.limit and sum(record.size() for record in records) <= MAX_PAGE_BYTES:
            return records, False
        last = records[-1].attempt
        whole = [record for record in records if record.attempt != last]
        if whole:
            return whole, True
        group = store.errors(key, Page(after=last - 1, limit=_MOST_ROUNDS), MAX_PAGE_BYTES)
        behind = store.errors(key, Page(order=page.order, after=last, limit=1))
        return [record for record in group if record.attempt == last], bool(behind)


def _links(
    path: str, page: Paging, filters: list[tuple[str, str]], ends: tuple[str, str] | None, more: bool
) -> dict[str, str | None]:
    """Give a page's links; `ends` are the cursors of its first and last item."""
    following = preceding = None
    if ends is not None and more:
        following = page.after(ends[1]).link(path, filters)
    if ends is not None and page.start is not None:
        preceding = page.before(ends[0]).link(path, filters)
    return {"self": page.link(path, filters), "next": following, "prev": preceding}


def add_routes(router: Router, context: Context) -> None:
    """Serve the routes that look at jobs."""
    routes = JobRoutes(context)
    router.add("GET", "/jobs", routes.many)
    router.add("GET", "/v1/jobs", routes.many_with_errors)
    router.add("GET", "/jobs/count", routes.count)
    router.add("GET", "/jobs/{id}", routes.one)
    router.add("GET", "/jobs/{id}/errors", routes.errors)
    router.add("GET", "/jobs/{id}/errors/{attempt}", routes.error)
