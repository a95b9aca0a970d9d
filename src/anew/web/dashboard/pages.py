"""The dashboard's pages: what the server holds. Each is read when it is asked for; nothing is kept here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from anew.backoff import Policy
from anew.engine import Call
from anew.engine.crontab import list_crons
from anew.engine.reads import Reads
from anew.engine.searches import Found
from anew.errors import NotFound
from anew.http.api import Context
from anew.http.formats import Format
from anew.http.query_strings import (
    FILTERS,
    PAGING,
    Paging,
    Selection,
    bad_query,
    encoded,
    paging,
    query_pairs,
    selection,
)
from anew.http.router import Router
from anew.jobs import ErrorRecord, Job, State
from anew.net.seam import Request
from anew.store.cron_rows import CronRow
from anew.store.page_reads import FailureGroup, PageReads, QueueRow
from anew.store.selection import Page
from anew.web.dashboard import calendar, shown
from anew.web.dashboard.rendering import done_words, render
from anew.web.dashboard.replies import go_on, later, paged, show, written
from anew.web.dashboard.shared import SharedPage

UI: Final = "/ui"

_DONE: Final = frozenset({"done", "n"})
_LISTED: Final = frozenset({"queue", "type", "state", "jid", "error_type", "filter"})
"""The filters that the list of jobs has fields for."""

MOST_JOBS: Final = 200
"""Jobs of one page; 50 unless the address says otherwise."""

QUEUES: Final = 100
"""Queues of one page."""

WORKERS: Final = 200
"""Workers of one page."""

TOP: Final = 8
"""Queues, and kinds of failures, that the overview names."""

HEADS: Final = 1_000
"""First jobs of queues, in line order, among which the overview looks for the one that has waited longest."""

GROUPS: Final = 100
"""Kinds of failures on their own page."""

FAILING: Final = 5_000
"""Failing jobs of either kind that are looked at."""

ATTEMPTS: Final = 50
ATTEMPT_BYTES: Final = 1 << 20
"""Attempts of one job that its page shows, the latest, and the bytes of their texts."""


class Pages:
    """Shows what a server holds.

    Args:
        context: What routes may use.
        default: The policy of jobs that name none.
    """

    def __init__(self, context: Context, default: Policy) -> None:
        self._reads: Reads = context.reads
        self._searches = context.searches
        self._workers = context.workers
        self._submit = context.commit.submit
        self._ids = context.engine.ids
        self._engine = context.engine
        self._key_of = context.key_of
        self._now = context.engine.clock.now
        self._default = default
        self._overview = SharedPage(self._read_overview, context.engine.clock.monotonic)

    def overview(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show the whole in one look."""
        query_pairs(request.query, frozenset())
        self._overview.ask(written(request, form))

    def _read_overview(self, then: Callable[[Any], None]) -> None:
        now = self._now()

        def read(look: PageReads) -> bytes:
            queues, totals, due = look.busiest(TOP), look.totals(), look.due_until(calendar.MOST)
            step_ms = calendar.step_for(0 if due.latest is None else due.latest - now)
            oldest, days = look.oldest_ready(HEADS), shown.history(look.ended(), now)
            return render(
                "overview.html",
                here=UI,
                at=shown.moment(now, now),
                totals={str(state): jobs for state, jobs in totals.items()},
                oldest=None if oldest is None else shown.moment(oldest, now),
                calendar=calendar.calendar(
                    look.due_counts(calendar.MOST, now, step_ms),
                    step_ms,
                    whole=due.jobs >= totals[State.SCHEDULED] + totals[State.RETRYING],
                ),
                history=days,
                busiest=max(1, *(day.good + day.failed for day in days)),
                failures=[_failure(group, now) for group in look.failing(FAILING, TOP)],
                queues=_queue_rows(look, queues, now),
                more_queues=look.queue_count() - len(queues),
            )

        self._reads.look(read, then)

    def queues(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List queues by name, so many on a page."""
        given = query_pairs(request.query, _DONE | {"from"})
        start, now = given.get("from", ""), self._now()

        def read(look: PageReads) -> bytes:
            found = look.queue_rows(start, QUEUES + 1)
            return render(
                "queues.html",
                here=UI + "/queues",
                said=_said(given),
                start=start,
                queues=_queue_rows(look, found[:QUEUES], now),
                total=look.queue_count(),
                next=[f"{UI}/queues?from={encoded(row.name)}" for row in found[QUEUES:]],
            )

        self._reads.look(read, written(request, form))

    def failures(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Group what fails by type and error."""
        query_pairs(request.query, frozenset())
        now = self._now()

        def read(look: PageReads) -> bytes:
            groups = [_failure(group, now) for group in look.failing(FAILING, GROUPS)]
            return render("failures.html", here=UI + "/failures", failures=groups, most=FAILING)

        self._reads.look(read, written(request, form))

    def workers(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the workers that are connected, whichever door they came by."""
        given, now = query_pairs(request.query, _DONE | {"from"}), self._now()
        start = given.get("from", "")
        found = [worker for worker in self._workers.connected() if worker.id >= start]

        def read(look: PageReads) -> bytes:
            return render(
                "workers.html",
                here=UI + "/workers",
                said=_said(given),
                workers=[shown.worker_row(worker, now) for worker in found[:WORKERS]],
                next=[f"{UI}/workers?from={encoded(worker.id)}" for worker in found[WORKERS : WORKERS + 1]],
                processes=[
                    shown.process_row(process, self._engine.session, now)
                    for process in look.processes(WORKERS)
                ],
            )

        self._reads.look(read, written(request, form))

    def crons(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List cron entries."""
        given, now = query_pairs(request.query, _DONE), self._now()

        def found(rows: list[CronRow]) -> None:
            def listed() -> dict[str, Any]:
                entries = [_cron(row, now) for row in rows]
                return {"here": UI + "/crons", "said": _said(given), "crons": entries}

            show(self._reads, request, form, "crons.html", listed)

        self._submit(Call(list_crons(), later(request, form, found), durable=False, waits=False))

    def jobs(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List jobs, the newest first unless the address says otherwise."""
        given = query_pairs(request.query, FILTERS | PAGING | _DONE)
        # An empty field of a form is no condition.
        asked = {"order": "desc"} | {name: value for name, value in given.items() if value}
        page, chosen = paging(asked), selection(asked)
        if page.limit > MOST_JOBS:
            raise bad_query(
                f"limit: {page.limit} is not valid; expected at most {MOST_JOBS} on a page", "limit"
            )
        chosen.check_ids()
        where = chosen.where(self._ids, visible_at=self._now())

        def found(result: Found) -> None:
            keys = result.keys[: page.limit]
            behind = keys[-1] if len(result.keys) > page.limit else result.stopped_at
            following = None if behind is None else page.after(self._ids.write(behind))
            self._show_jobs(request, form, given, chosen, page, keys, following)

        part = page.by_key(self._ids)
        if chosen.expression is None:
            self._reads.find(where, part, later(request, form, lambda keys: found(Found(keys, None))))
        else:
            answer = later(request, form, found)
            self._searches.page(where, part, chosen.expression, lambda: request.hung_up, answer)

    def _show_jobs(
        self,
        request: Request,
        form: Format,
        given: Mapping[str, str],
        chosen: Selection,
        page: Paging,
        keys: Sequence[int],
        following: Paging | None,
    ) -> None:
        now, path = self._now(), UI + "/jobs"
        filters = chosen.parameters()
        start = replace(page, start=None)

        def read() -> tuple[dict[int, Job], dict[int, ErrorRecord]]:
            return self._reads.jobs(keys, payload=False), self._reads.last_errors(keys)

        def listed(jobs: dict[int, Job], errors: dict[int, ErrorRecord]) -> dict[str, Any]:
            return {
                "here": path,
                "said": _said(given),
                "choices": _choices(given.get("state", "")),
                "asked": {name: given.get(name, "") for name in _LISTED},
                "order": page.order,
                "jobs": [
                    shown.job_row(self._ids, jobs[key], errors.get(key), now) for key in keys if key in jobs
                ],
                "next": None if following is None else following.link(path, filters),
                "first": None if page.start is None else start.link(path, filters),
                "query": chosen.query(),
                "doable": _doable_with_all(chosen),
            }

        self._show(request, form, "jobs.html", read, listed)

    def _show(
        self,
        request: Request,
        form: Format,
        template: str,
        read: Callable[[], Any],
        shown: Callable[..., Any],
    ) -> None:
        """Show a page of what short reads give, in the order in which `shown` takes it."""

        def then(found: Sequence[Any]) -> None:
            show(self._reads, request, form, template, partial(shown, *found))

        self._reads.at_once(read, later(request, form, then))

    def job(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show one job: what it is, what happened to it, what comes."""
        given, now = query_pairs(request.query, _DONE), self._now()
        key, reads = self._key_of(params[0]), self._reads

        def read() -> tuple[Any, ...]:
            job = reads.job(key)
            if job is None or job.is_over(now):
                raise NotFound(f"there is no job {params[0][:64]}; it may have ended and been removed")
            size = reads.payload_sizes([key]).get(key, 0)
            payload = reads.job(key, payload=True) if size <= shown.MOST_TEXT else None
            attempts = reads.errors(key, Page(order="desc", limit=ATTEMPTS), ATTEMPT_BYTES)
            return job, size, payload, attempts, reads.dropped_errors(key)

        def told(
            job: Job,
            size: int,
            payload: Job | None,
            attempts: list[ErrorRecord],
            dropped: list[tuple[str, str, int]],
        ) -> dict[str, Any]:
            return {
                "here": "",
                "said": _said(given),
                "id": self._ids.write(key),
                "state": str(job.state),
                "belongs": {"type": job.type, "queue": job.queue},
                "facts": shown.facts(job, now),
                "policy": "" if job.policy is None else job.policy.decode("utf-8", "replace"),
                "payload": None if payload is None else payload.payload or b"null",
                "size": size,
                "attempts": [shown.attempt(record, now) for record in attempts],
                "dropped": dropped,
                "plan": shown.plan(job, self._default),
                "doable": shown.doable(job.state),
            }

        self._show(request, form, "job.html", read, told)


def _said(given: Mapping[str, str]) -> str:
    return done_words(given.get("done", ""), given.get("n", ""))


def _queue_rows(look: PageReads, rows: Sequence[QueueRow], now: int) -> list[dict[str, Any]]:
    since = look.ready_since([row.name for row in rows])
    return [shown.queue_row(row, since.get(row.name), now) for row in rows]


def _failure(group: FailureGroup, now: int) -> dict[str, Any]:
    among = f"type={encoded(group.type)}"
    if group.error_type:
        among += f"&error_type={encoded(group.error_type)}"
    return group._asdict() | {"when": shown.moment(group.failed_at, now), "among": among}


def _cron(row: CronRow, now: int) -> dict[str, Any]:
    entry = row.entry
    return {
        "group": row.group,
        "name": row.name,
        "path": f"{UI}/crons/{encoded(row.group)}/{encoded(row.name)}",
        "schedule": entry.expression,
        "zone": row.zone or "",
        "paused": entry.paused,
        "group_paused": row.group_paused,
        "next": None if entry.next_at is None else shown.moment(entry.next_at, now),
        "last": None if entry.last_fired_at is None else shown.moment(entry.last_fired_at, now),
    }


def _choices(asked: str) -> list[str]:
    """List the states that the list can be narrowed to, the one that the address asks for among them."""
    choices = [*map(str, State), "scheduled,retrying", "dead,cancelled"]
    return choices if not asked or asked in choices else [*choices, asked]


def _doable_with_all(chosen: Selection) -> list[str]:
    """List what may be done with all jobs that match, if some were chosen: all may come to it, or it leaves the others alone."""
    if chosen.is_everything():
        return []
    states = set(chosen.state or State)
    doable = [name for name, fit in shown.DOABLE.items() if states <= fit]
    return [*doable, "replan"] if State.RETRYING in states else doable


def add_home(router: Router) -> None:
    """Serve the bare address, and that of the dashboard with a slash behind it."""
    router.add("GET", "/", _home, streams=True)
    router.add("GET", UI + "/", _home, streams=True)


def _home(request: Request, form: Format, params: tuple[str, ...]) -> None:
    """Send a browser that asks for nothing in particular to the overview; others find nothing here, as with Zizq."""
    if b"text/html" not in request.headers.get(b"accept", b""):
        raise NotFound("not found")
    go_on(request, UI)


def add_routes(router: Router, context: Context, default: Policy) -> None:
    """Serve the pages, whatever `Accept` says."""
    pages = Pages(context, default)
    for path, handler in (
        (UI, pages.overview),
        (UI + "/queues", pages.queues),
        (UI + "/failures", pages.failures),
        (UI + "/workers", pages.workers),
        (UI + "/crons", pages.crons),
        (UI + "/jobs", pages.jobs),
        (UI + "/jobs/{id}", pages.job),
    ):
        router.add("GET", path, paged(handler), streams=True)
