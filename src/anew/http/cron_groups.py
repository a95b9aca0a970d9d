"""Cron entries in Zizq's form: groups, and the entries of one, put, paused and removed. Those of every door are among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from anew.engine import Call
from anew.engine.cron_firing import template_of
from anew.engine.crontab import (
    MOST_ENTRIES,
    GroupRows,
    NewCron,
    Replaced,
    list_groups,
    pause_cron,
    pause_group,
    put_cron,
    remove_cron,
    remove_group,
    remove_groups,
    replace_group,
    show_cron,
    show_group,
)
from anew.engine.ops import Verb
from anew.errors import InvalidInput, MalformedRequest
from anew.http.api import Context
from anew.http.bodies import body_as, decode
from anew.http.crons import MAX_BODY
from anew.http.embedded_json import Embedded
from anew.http.formats import Format, written_in
from anew.http.long_lists import members_of, read_long, reading_list
from anew.http.newjobs import placed, reading_one
from anew.http.packing import packing
from anew.http.render import ShownTemplate, or_unset, shown_template, unreadable_template
from anew.http.replies import answering, run_verb
from anew.http.router import Doc, Router
from anew.jobs.codec import At
from anew.jobs.cron import parse_cron
from anew.jobs.names import check_length, check_name
from anew.net.chunks import Work
from anew.net.seam import Request
from anew.store.cron_rows import CronRow
from anew.units import shown
from anew.zones import offsets

MAX_PAUSE = 4 << 10
"""Bytes of a pause."""


class NewCronGroup(Struct, frozen=True):
    """A group of cron entries as it is to be, with no others than these.

    Attributes:
        entries: Different in their names, 1,000 at most.
        paused: None of them enqueues anything; null: as it was.
        timezone: The zone of those that name none, an IANA name; null: the server's own.
    """

    entries: list[Raw]
    paused: bool | None = None
    timezone: str | None = None


class NewGroupEntry(Struct, frozen=True):
    """A cron entry in Zizq's form.

    Attributes:
        name: Different from all others in its group.
        expression: A cron expression of five to seven fields (of six, seconds first), or a name such as `@daily`.
        job: What it enqueues each time: a new job without `ready_at`.
        timezone: An IANA name; null: that of its group.
        paused: It enqueues nothing; null: as it was.
    """

    name: str
    expression: str
    job: Raw
    timezone: str | None = None
    paused: bool | None = None


class Pause(Struct, frozen=True):
    """Whether a cron entry, or a group of them, enqueues nothing.

    Attributes:
        paused: It is so from now on; what it is already changes nothing.
    """

    paused: bool


class ShownGroupEntry(Struct, kw_only=True):
    """A cron entry in Zizq's form.

    Attributes:
        name: Different from all others in its group.
        expression: As it was given.
        timezone: An IANA name; without one it is that of its group.
        paused: It enqueues nothing.
        paused_at: When it was last paused, epoch ms.
        resumed_at: When it was last resumed, epoch ms.
        job: What it enqueues each time.
        next_enqueue_at: When it fires next, epoch ms, also while it is paused; without one it fires no more.
        last_enqueue_at: When it last fired, epoch ms.
    """

    name: str
    expression: str
    timezone: str | UnsetType = UNSET
    paused: bool
    paused_at: At | UnsetType = UNSET
    resumed_at: At | UnsetType = UNSET
    job: ShownTemplate
    next_enqueue_at: At | UnsetType = UNSET
    last_enqueue_at: At | UnsetType = UNSET


class ShownGroup(Struct, kw_only=True):
    """A group of cron entries.

    Attributes:
        name: Its name.
        timezone: The zone of entries that name none, an IANA name; without one it is the server's own.
        paused: None of its entries enqueues anything, whatever their own flags say.
        paused_at: When it was last paused, epoch ms.
        resumed_at: When it was last resumed, epoch ms.
        entries: In the order in which they were put, or by their names; at most 1,000.
    """

    name: str
    timezone: str | UnsetType = UNSET
    paused: bool
    paused_at: At | UnsetType = UNSET
    resumed_at: At | UnsetType = UNSET
    entries: Any


class _GroupTerms(Struct, frozen=True):
    """What a group's body says beside its entries."""

    paused: bool | None = None
    timezone: str | None = None


class CronGroupRoutes:
    """Shows and changes groups of cron entries."""

    def __init__(self, context: Context) -> None:
        self._submit = context.commit.submit
        self._chunks = context.chunks
        self._fold_checks = context.fold_checks
        self._max_bytes = context.settings.max_job_bytes

    # -- groups

    def list_names(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """List the names of all groups of cron entries, by their bytes."""

        def named(names: Sequence[str]) -> dict[str, Any]:
            return {"crons": names}

        run_verb(self._submit, list_groups, request, form, named, durable=False, waits=False)

    def remove_all(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove all groups of cron entries; what they have enqueued stays."""
        run_verb(self._submit, remove_groups, request, form, lambda n: {"deleted": n})

    def show(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show a group with its entries by name."""
        self._answer(
            show_group(params[0]), request, form, partial(_showing_group, params[0], form), reads=True
        )

    def put(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Create or replace a group; entries whose expression and time zone stay the same keep their schedule."""
        written = written_in(request)
        terms = decode(request.body, written, _GroupTerms)
        check_name(params[0], "cron group name")

        def store(entries: list[NewCron]) -> None:
            _check_zone(terms.timezone)
            verb = replace_group(params[0], entries, paused=terms.paused, timezone=terms.timezone, stays=True)

            def store_tried(tried: None) -> None:
                self._answer(verb, request, form, partial(_showing_group, params[0], form))

            jobs = [entry.job for entry in entries]
            self._fold_checks.run(jobs, answering(request, form, store_tried), listed="entries")

        read_long(self._reading(request.body, written), request, form, self._chunks, store)

    def pause(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Pause or resume a group: its entries pass the times over that come meanwhile."""
        verb = pause_group(params[0], body_as(request, Pause).paused)
        self._answer(verb, request, form, partial(_showing_group, params[0], form))

    def remove(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove a group with its entries; what they have enqueued stays."""
        run_verb(self._submit, remove_group(params[0]), request, form)

    # -- entries

    def add_entry(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Add an entry to a group, which is created if there is none."""
        self._put_entry(request, form, params[0], None)

    def put_entry(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Create or replace an entry; its name is that of the path."""
        self._put_entry(request, form, params[0], params[1])

    def _put_entry(self, request: Request, form: Format, group: str, name: str | None) -> None:
        written = written_in(request)
        given = decode(request.body, written, NewGroupEntry)
        check_name(group, "cron group name")
        if name is not None:
            check_length(name, "cron entry name")

        def store(entry: NewCron) -> None:
            if name is None:
                verb, status = put_cron(group, entry, replaces=False), 201
            else:
                verb, status = put_cron(group, replace(entry, name=name)), 200

            def store_tried(tried: None) -> None:
                self._answer(verb, request, form, partial(_showing_entry, form), status)

            self._fold_checks.run([entry.job], answering(request, form, store_tried))

        read_long(self._reading_one(given, written), request, form, self._chunks, store)

    def show_entry(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Show an entry."""
        self._answer(
            show_cron(params[0], params[1]), request, form, partial(_showing_entry, form), reads=True
        )

    def pause_entry(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Pause or resume an entry: it passes the times over that come meanwhile."""
        verb = pause_cron(params[0], params[1], body_as(request, Pause).paused)
        self._answer(verb, request, form, partial(_showing_entry, form))

    def remove_entry(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Remove an entry; what it has enqueued stays, and so does its group."""
        run_verb(self._submit, remove_cron(params[0], params[1]), request, form)

    # -- bodies

    def _reading(self, body: bytes, form: Format) -> Work[list[NewCron]]:
        """Read the entries of a group: what each says by itself, then their schedules, as Zizq does."""
        given = yield from reading_list(body, form, "entries", MOST_ENTRIES, partial(_reading_given, form))
        _check_different(given)
        entries: list[NewCron] = []
        for at, one in enumerate(given):
            entries.append((yield from self._reading_entry(one, form, f"entries[{at}]")))
            yield
        for at, entry in enumerate(entries):
            _check_schedule(entry, f"entries[{at}]")
            yield
        return entries

    def _reading_one(self, given: NewGroupEntry, form: Format) -> Work[NewCron]:
        entry = yield from self._reading_entry(given, form, "")
        _check_schedule(entry, "")
        return entry

    def _reading_entry(self, given: NewGroupEntry, form: Format, where: str) -> Work[NewCron]:
        try:
            check_name(given.name, "cron entry name")
            job, _ = yield from reading_one(bytes(given.job), form, self._max_bytes, template=True)
        except MalformedRequest as error:
            raise placed(error, ".".join(filter(None, (where, "job")))) from None
        except InvalidInput as error:
            raise _placed(error, where) from None
        return NewCron(
            name=given.name,
            expression=given.expression,
            job=job,
            timezone=given.timezone,
            paused=given.paused,
            patience_ms=None,
        )

    # -- answers

    def _answer(
        self,
        verb: Verb,
        request: Request,
        form: Format,
        showing: Callable[[Any], Work[object]],
        status: int = 200,
        *,
        reads: bool = False,
    ) -> None:
        """Run a verb, and answer with what is shown of its result, which may be long; `reads`: it changes nothing."""

        def then(result: Any) -> None:
            done = answering(request, form, lambda shown: form.reply(request, status, shown))
            self._chunks.run(showing(result), done)

        self._submit(Call(verb, answering(request, form, then), durable=not reads, waits=not reads))


def _reading_given(form: Format, piece: bytes, first: int) -> Work[list[NewGroupEntry]]:
    """Read a piece of a list of entries, but for their jobs; `first` is the place of the first one."""
    given: list[NewGroupEntry] = []
    for at, member in enumerate(members_of(piece, form), first):
        given.append(decode(member, form, NewGroupEntry, where=f"entries[{at}]"))
        if not len(given) % 100:
            yield
    return given


def _check_different(entries: Sequence[NewGroupEntry]) -> None:
    names: set[str] = set()
    for entry in entries:
        if entry.name in names:
            raise InvalidInput(f"duplicate cron entry name: {shown(entry.name)}", field="entries")
        names.add(entry.name)


def _check_schedule(entry: NewCron, where: str) -> None:
    """Refuse an expression or a time zone that is none, in the protocol's words and the reason behind them."""
    try:
        parse_cron(entry.expression, may_never_fire=True)
    except InvalidInput as error:
        raise _placed(InvalidInput(f"invalid {error}", field="expression"), where) from None
    _check_zone(entry.timezone, where)


def _check_zone(timezone: str | None, where: str = "") -> None:
    try:
        offsets(timezone)
    except InvalidInput as error:
        raise _placed(InvalidInput(f"invalid {error}", field="timezone"), where) from None


def _placed(error: InvalidInput, where: str) -> InvalidInput:
    return placed(error, where) if where else error


def _showing_group(name: str, form: Format, found: GroupRows | Replaced) -> Work[ShownGroup]:
    group = found.group
    entries: list[Raw] = []
    for row in found.rows:
        entries.append(Raw(form.encode((yield from _showing_entry(form, row)))))
        yield
    return ShownGroup(
        name=name,
        timezone=or_unset(group.timezone),
        paused=group.paused,
        paused_at=or_unset(group.paused_at),
        resumed_at=or_unset(group.resumed_at),
        entries=entries,
    )


def _showing_entry(form: Format, row: CronRow) -> Work[ShownGroupEntry]:
    entry = row.entry
    try:
        job = shown_template(template_of(row.job))
    except InvalidInput:
        job = unreadable_template(row.job)
    if isinstance(job.payload, Embedded) and not form.is_json:
        job.payload = Raw((yield from packing(job.payload.json)))
    return ShownGroupEntry(
        name=row.name,
        expression=entry.expression,
        timezone=or_unset(entry.timezone),
        paused=entry.paused,
        paused_at=or_unset(entry.paused_at),
        resumed_at=or_unset(entry.resumed_at),
        job=job,
        next_enqueue_at=or_unset(entry.next_at),
        last_enqueue_at=or_unset(entry.last_fired_at),
    )


def add_routes(router: Router, context: Context) -> None:
    """Serve the routes of cron groups."""
    routes = CronGroupRoutes(context)
    group, entry = "/crons/{group}", "/crons/{group}/entries/{entry}"
    answer, one = {200: "CronGroup"}, {200: "CronGroupEntry"}
    router.add("GET", "/crons", routes.list_names, Doc("listCronGroups", "server", {200: "CronGroupNames"}))
    router.add("DELETE", "/crons", routes.remove_all, Doc("removeCronGroups", "server", {200: "Deleted"}))
    router.add("GET", group, routes.show, Doc("getCronGroup", "server", answer, errors=(404,)))
    put = Doc("putCronGroup", "server", answer, "NewCronGroup")
    router.add("PUT", group, routes.put, put, most_bytes=MAX_BODY)
    pause = Doc("pauseCronGroup", "server", answer, "Pause", errors=(404,))
    router.add("PATCH", group, routes.pause, pause, most_bytes=MAX_PAUSE)
    router.add("DELETE", group, routes.remove, Doc("removeCronGroup", "server", errors=(404,)))
    add = Doc("addCronEntry", "server", {201: "CronGroupEntry"}, "NewGroupEntry", errors=(409,))
    router.add("POST", f"{group}/entries", routes.add_entry, add, most_bytes=MAX_BODY)
    router.add("GET", entry, routes.show_entry, Doc("getCronEntry", "server", one, errors=(404,)))
    put = Doc("putCronEntry", "server", one, "NewGroupEntry")
    router.add("PUT", entry, routes.put_entry, put, most_bytes=MAX_BODY)
    pause = Doc("pauseCronEntry", "server", one, "Pause", errors=(404,))
    router.add("PATCH", entry, routes.pause_entry, pause, most_bytes=MAX_PAUSE)
    router.add("DELETE", entry, routes.remove_entry, Doc("removeCronEntry", "server", errors=(404,)))
