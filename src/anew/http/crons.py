"""Cron entries in Anew's own form: listed, and replaced a group at a time."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

from anew.engine.crontab import (
    MOST_ENTRIES,
    NewCron,
    Replaced,
    list_crons,
    remove_cron,
    replace_group,
)
from anew.errors import InvalidInput
from anew.http.api import Context
from anew.http.bodies import decode
from anew.http.formats import Format, written_in
from anew.http.long_lists import check_count, read_long
from anew.http.newjobs import placed
from anew.http.replies import answering, run_verb
from anew.http.router import Doc, Router
from anew.http.tied import reading_tied_job
from anew.jobs.cron_entry import NO_CATCH_UP_MS
from anew.jobs.names import check_name
from anew.net.chunks import Work
from anew.net.seam import Request
from anew.store.cron_rows import CronRow

MAX_BODY = 4 << 20
"""Bytes of a group's entries."""


class CronEntries(Struct, frozen=True):
    """The entries that a group is to have, and no others.

    Attributes:
        entries: Different in their names.
        takes_over: Another group: its entries of the same name and type of job move to this one, and keep their schedule.
    """

    entries: list[Raw]
    takes_over: str | None = None


class NewCronEntry(Struct, frozen=True):
    """A cron entry.

    Attributes:
        name: Different from all others in its group.
        schedule: A cron expression of five or six fields (seconds first), or a name such as `@daily`.
        job: What it enqueues each time; instants of its ties count from the firing.
        timezone: An IANA name; null: the server's own.
        catch_up: Where no process ran at the time, enqueue the latest that was missed.
    """

    name: str
    schedule: str
    job: Raw
    timezone: str | None = None
    catch_up: bool = False


class CronRoutes:
    """Lists and replaces cron entries."""

    def __init__(self, context: Context) -> None:
        self._submit = context.commit.submit
        self._chunks = context.chunks
        self._ids = context.engine.ids
        self._fold_checks = context.fold_checks
        self._max_bytes = context.settings.max_job_bytes

    def show(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the cron entries of all groups, in order of group and name."""

        def shown(rows: list[CronRow]) -> dict[str, Any]:
            return {"crons": [_cron(row) for row in rows]}

        run_verb(self._submit, list_crons(), request, form, shown, durable=False, waits=False)

    def replace(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Replace the entries of a group; those that have not changed keep their schedule."""
        check_name(params[0], "group")
        written = written_in(request)
        body = decode(request.body, written, CronEntries)
        check_count("entries", len(body.entries), MOST_ENTRIES)

        def shown(replaced: Replaced) -> dict[str, Any]:
            return {"written": replaced.written, "removed": replaced.removed}

        def put(entries: list[NewCron]) -> None:
            verb = replace_group(params[0], entries, takes_over=body.takes_over)

            def put_tried(tried: None) -> None:
                run_verb(self._submit, verb, request, form, shown)

            jobs = [entry.job for entry in entries]
            self._fold_checks.run(jobs, answering(request, form, put_tried), listed="entries")

        read_long(self._reading(body.entries, written), request, form, self._chunks, put)

    def remove(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove one cron entry; what it has enqueued stays."""
        run_verb(self._submit, remove_cron(params[0], params[1]), request, form)

    def clear(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove all cron entries of a group; what they have enqueued stays."""
        verb = replace_group(params[0], [])
        run_verb(self._submit, verb, request, form, lambda replaced: {"removed": replaced.removed})

    def _reading(self, given: list[Raw], form: Format) -> Work[list[NewCron]]:
        entries: list[NewCron] = []
        for at, raw in enumerate(given):
            entries.append((yield from self._reading_entry(raw, form, f"entries[{at}]")))
            yield
        return entries

    def _reading_entry(self, raw: Raw, form: Format, where: str) -> Work[NewCron]:
        entry = decode(raw, form, NewCronEntry, where=where)
        try:
            check_name(entry.name, "name")
        except InvalidInput as error:
            raise placed(error, where) from None
        job = yield from reading_tied_job(self._ids, form, self._max_bytes, bytes(entry.job), f"{where}.job")
        return NewCron(
            name=entry.name,
            expression=entry.schedule,
            job=job,
            timezone=entry.timezone,
            patience_ms=None if entry.catch_up else NO_CATCH_UP_MS,
        )


def _cron(row: CronRow) -> dict[str, Any]:
    entry = row.entry
    return {
        "group": row.group,
        "name": row.name,
        "schedule": entry.expression,
        "timezone": row.zone,
        "paused": entry.paused or row.group_paused,
        "next_at": entry.next_at,
        "last_fired_at": entry.last_fired_at,
    }


def add_routes(router: Router, context: Context) -> None:
    """Serve the cron routes."""
    routes = CronRoutes(context)
    listed = Doc("listCrons", "server", {200: "Crons"}, about="List cron entries, at most the first 1,000.")
    replaced = Doc("replaceCrons", "server", {200: "CronsReplaced"}, "CronEntries", errors=(409,))
    router.add("GET", "/v1/crons", routes.show, listed)
    router.add("PUT", "/v1/crons/{group}", routes.replace, replaced, most_bytes=MAX_BODY)
    router.add(
        "DELETE", "/v1/crons/{group}", routes.clear, Doc("clearCrons", "server", {200: "CronsRemoved"})
    )
    router.add(
        "DELETE", "/v1/crons/{group}/{name}", routes.remove, Doc("removeCron", "server", errors=(404,))
    )
