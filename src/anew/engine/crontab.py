"""The crontab: verbs, for `Call` inside a batch's transaction, that list, put, pause and remove cron entries and their groups.

A group has a row from its first entry on, or from when it was put without any. `anew.engine.cron_firing` has what entries enqueue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from anew.engine.batch import Batch, Enqueued
from anew.engine.cron_firing import job_of, template, template_of
from anew.errors import Conflict, InvalidInput, NotFound, TooLarge
from anew.jobs import NewJob
from anew.jobs.cron import parse_cron
from anew.jobs.cron_entry import NO_CATCH_UP_MS, CronGroup, put, set_paused
from anew.store.cron_rows import CronRow
from anew.zones import offsets

LISTED = 1_000
"""Entries that are read at a time where all of a group are wanted."""

MOST_GROUPS = 1_000
"""Groups that a store has; their names are listed in one answer."""

MOST_ENTRIES = 1_000
"""Entries that a group has which gets them one by one, or over HTTP."""

MOST_BYTES = 8 << 20
"""Bytes of the jobs of a group, as they are stored: all of them are shown in one answer."""


class NewCron(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as somebody wants it.

    Attributes:
        name: Different from all others in its group.
        expression: See `parse_cron`.
        job: What it enqueues, each time anew: with `ready_at` None, at the slot. A `PushedJob` gets an id of its own each time, and
            the instants of its `hooks` count from the firing.
        timezone: An IANA name; None is the zone of its group, or the machine's own.
        paused: None leaves a stored entry as it is; a new one is not paused.
        patience_ms: How late a slot may still be fired; None: however late, the latest one that was missed.
    """

    name: str
    expression: str
    job: NewJob
    timezone: str | None = None
    paused: bool | None = None
    patience_ms: int | None = NO_CATCH_UP_MS


class Replaced(NamedTuple):
    """What a replacement made of a group.

    Attributes:
        written, removed: The names of entries that are new or changed, and of those removed.
        group: How it stands then.
        rows: Its entries then, in the order in which they were given.
    """

    written: list[str]
    removed: list[str]
    group: CronGroup
    rows: list[CronRow]


class GroupRows(NamedTuple):
    """A group with its entries by name, at most the first `LISTED`."""

    group: CronGroup
    rows: list[CronRow]


# -- entries


def put_cron(group: str, new: NewCron, *, replaces: bool = True) -> Callable[[Batch], CronRow]:
    """Create or change one entry.

    Args:
        group: Its group, which is made if there is none.
        new: What it is to be.
        replaces: There may be one of that name.

    Returns:
        A verb that gives it as it is then. It raises Conflict if there is one that it may not replace, or TooLarge if there are too
        many groups, entries, or bytes of jobs.

    Raises:
        InvalidInput: Its expression or its time zone is none; raised here.
    """
    _checked(new)

    def verb(batch: Batch) -> CronRow:
        stored = batch.store.cron.entry(group, new.name)
        if stored is not None and not replaces:
            raise Conflict(f"cron entry '{new.name}' already exists in group '{group}'")
        standing = _group(batch, group)
        row = _put(batch, group, new, stored, standing)
        count, size = batch.store.cron.extent(group)
        if stored is None and count >= MOST_ENTRIES:
            raise TooLarge(f"cron group {group!r}: expected at most {MOST_ENTRIES} entries", field="entries")
        _check_size(group, size - (0 if stored is None else len(stored.job)) + len(row.job))
        batch.store.cron.write_group(group, standing)
        _write(batch, [row])
        return row

    return verb


def remove_cron(group: str, name: str) -> Callable[[Batch], None]:
    """Remove one entry; what it has enqueued stays, and so does its group.

    Returns:
        A verb that raises NotFound if there is none.
    """

    def verb(batch: Batch) -> None:
        _find(batch, group, name)
        batch.store.cron.drop([(group, name)])
        batch.cron_changed = True

    return verb


def pause_cron(group: str, name: str, paused: bool) -> Callable[[Batch], CronRow]:
    """Pause or resume one entry: slots that come while it is paused are passed over.

    Returns:
        A verb that gives it as it is then; it raises NotFound if there is none.
    """

    def verb(batch: Batch) -> CronRow:
        row = _find(batch, group, name)
        row = replace(row, entry=set_paused(row.entry, paused, batch.now))
        _write(batch, [row])
        return row

    return verb


def fire_now(group: str, name: str) -> Callable[[Batch], Enqueued]:
    """Have one entry enqueue its job now, though no slot has come and though it is paused; its slots stay as they are.

    Returns:
        A verb that gives what became of the job. It raises NotFound if there is no entry, or whatever a new job is refused with.
    """

    def verb(batch: Batch) -> Enqueued:
        row = _find(batch, group, name)
        entered = batch.insert([job_of(row.job, batch.now)])
        if not entered.existing:
            _write(batch, [replace(row, entry=replace(row.entry, last_fired_at=batch.now))])
        return entered

    return verb


def show_cron(group: str, name: str) -> Callable[[Batch], CronRow]:
    """Look at one entry.

    Returns:
        A verb that gives it; it raises NotFound if there is none.
    """
    return lambda batch: _find(batch, group, name)


def list_crons(after: tuple[str, str] = ("", ""), limit: int = LISTED) -> Callable[[Batch], list[CronRow]]:
    """List entries of all groups without their jobs, in order of group and name.

    Args:
        after: Group and name of the entry behind which to begin.
        limit: The most to give.

    Returns:
        A verb that gives them.
    """
    return lambda batch: batch.store.cron.all_entries(after, limit)


def has_entries(group: str) -> Callable[[Batch], bool]:
    """Give a verb that reports whether a group has any entry."""
    return lambda batch: batch.store.cron.extent(group)[0] > 0


# -- groups


def replace_group(
    group: str,
    entries: Sequence[NewCron],
    *,
    takes_over: str | None = None,
    paused: bool | None = None,
    timezone: str | None = None,
    stays: bool = False,
) -> Callable[[Batch], Replaced]:
    """Have these entries in a group and no others: what a configuration says. Those that have not changed keep their schedule.

    Args:
        group: Its name.
        entries: What it is to have.
        takes_over: A group in which some of them may have been until now: those of the same name, whose jobs are of the same type,
            leave it, and keep their schedule. Its other entries are left alone.
        paused: None leaves a stored group as it is; a new one is not paused.
        timezone: The zone of those that name none: an IANA name; None is the machine's own zone.
        stays: It is there without entries too. Else a group without any goes, unless it is paused.

    Returns:
        A verb that gives what it has changed. It raises TooLarge if there are too many groups, or bytes of jobs.

    Raises:
        InvalidInput: An expression or a time zone is none, or a name comes twice; raised here, before anything is done.
    """
    wanted = {new.name: _checked(new) for new in entries}
    offsets(timezone)
    if len(wanted) < len(entries):
        raise InvalidInput("cron: expected different names for the entries of a group", field="name")

    def verb(batch: Batch) -> Replaced:
        has_row = bool(wanted) or stays
        standing = _group(batch, group) if has_row else batch.store.cron.group(group) or CronGroup()
        standing = replace(standing, timezone=timezone)
        if paused is not None:
            standing = set_paused(standing, paused, batch.now)
        stored = {row.name: row for row in _all_of(batch, group)}
        former = {} if takes_over in (None, group) else _former(batch, str(takes_over), wanted)
        before = former | stored
        rows = [_put(batch, group, new, before.get(name), standing) for name, new in wanted.items()]
        _check_size(group, sum(len(row.job) for row in rows))
        changed = [row for row in rows if _differs(row, stored.get(row.name))]
        removed = sorted(stored.keys() - wanted)
        if has_row:
            batch.store.cron.write_group(group, standing)
        _write(batch, changed)
        batch.store.cron.drop((row.group, row.name) for row in former.values())
        batch.store.cron.drop((group, name) for name in removed)
        for name in {row.group for row in former.values()} | (set() if has_row else {group}):
            _drop_empty(batch, name)
        return Replaced([row.name for row in changed], removed, standing, rows)

    return verb


def pause_group(group: str, paused: bool) -> Callable[[Batch], GroupRows]:
    """Pause or resume all entries of a group, those too that it gets later; each keeps its own flag beside.

    Returns:
        A verb that gives the group as it is then; it raises NotFound if there is none.
    """

    def verb(batch: Batch) -> GroupRows:
        standing = set_paused(_find_group(batch, group), paused, batch.now)
        batch.store.cron.write_group(group, standing)
        return GroupRows(standing, batch.store.cron.entries(group, "", LISTED))

    return verb


def remove_group(group: str) -> Callable[[Batch], None]:
    """Remove a group with its entries; what they have enqueued stays.

    Returns:
        A verb that raises NotFound if there is none.
    """

    def verb(batch: Batch) -> None:
        _find_group(batch, group)
        batch.store.cron.drop_group(group)
        batch.cron_changed = True

    return verb


def remove_groups(batch: Batch) -> int:
    """Remove all groups with their entries: a verb that reports how many groups there were."""
    batch.cron_changed = True
    return batch.store.cron.drop_all()


def show_group(group: str) -> Callable[[Batch], GroupRows]:
    """Look at a group.

    Returns:
        A verb that gives it; it raises NotFound if there is none.
    """
    return lambda batch: GroupRows(_find_group(batch, group), batch.store.cron.entries(group, "", LISTED))


def list_groups(batch: Batch) -> list[str]:
    """List the names of all groups, by their bytes: a verb."""
    return batch.store.cron.groups(MOST_GROUPS)


def _checked(new: NewCron) -> NewCron:
    parse_cron(new.expression, may_never_fire=True)
    offsets(new.timezone)
    return new


def _group(batch: Batch, name: str) -> CronGroup:
    """Give a group that is to have a row: as it stands, or a new one."""
    found = batch.store.cron.group(name)
    if found is None and len(batch.store.cron.groups(MOST_GROUPS)) >= MOST_GROUPS:
        message = f"cron group {name!r}: expected at most {MOST_GROUPS} groups; remove one"
        raise TooLarge(message, field="group", value=name)
    return found or CronGroup()


def _find_group(batch: Batch, name: str) -> CronGroup:
    found = batch.store.cron.group(name)
    if found is None:
        raise NotFound(f"cron group '{name}' not found")
    return found


def _drop_empty(batch: Batch, name: str) -> None:
    """Remove a group that has no entries and is not paused."""
    found = batch.store.cron.group(name)
    if found is not None and not found.paused and batch.store.cron.extent(name)[0] == 0:
        batch.store.cron.drop_group(name)


def _check_size(group: str, size: int) -> None:
    if size > MOST_BYTES:
        message = f"cron group {group!r}: expected jobs of at most {MOST_BYTES} bytes together, got {size}"
        raise TooLarge(message, field="job")


def _put(batch: Batch, group: str, new: NewCron, stored: CronRow | None, standing: CronGroup) -> CronRow:
    entry = None if stored is None else stored.entry
    moved = stored is not None and new.timezone is None and stored.group_timezone != standing.timezone
    if entry is not None and entry.next_at is None:  # perhaps it was stopped: its schedule begins anew
        entry = replace(entry, expression="")
    entry = put(
        entry,
        new.expression,
        new.timezone,
        batch.now,
        offsets(standing.timezone if new.timezone is None else new.timezone),
        paused=new.paused,
        patience_ms=new.patience_ms,
        moved=moved,
    )
    return CronRow(group, new.name, entry, template(new.job), standing.paused, standing.timezone)


def _differs(row: CronRow, stored: CronRow | None) -> bool:
    """Report whether an entry has to be written; a pause of its group is not part of it."""
    return stored is None or (row.entry, row.job) != (stored.entry, stored.job)


def _all_of(batch: Batch, group: str) -> list[CronRow]:
    rows = found = batch.store.cron.entries(group, "", LISTED)
    while len(found) == LISTED:
        found = batch.store.cron.entries(group, found[-1].name, LISTED)
        rows = rows + found
    return rows


def _former(batch: Batch, group: str, wanted: Mapping[str, NewCron]) -> dict[str, CronRow]:
    """Give the entries of another group that are wanted ones: by name, and by the type of their jobs."""
    return {
        row.name: row
        for row in _all_of(batch, group)
        if row.name in wanted and _type_of(row) == wanted[row.name].job.type
    }


def _type_of(row: CronRow) -> str | None:
    try:
        return template_of(row.job).type
    except InvalidInput:
        return None


def _find(batch: Batch, group: str, name: str) -> CronRow:
    row = batch.store.cron.entry(group, name)
    if row is None:
        raise NotFound(f"cron entry '{name}' not found in group '{group}'")
    return row


def _write(batch: Batch, rows: Sequence[CronRow]) -> None:
    batch.store.cron.write(rows)
    batch.cron_changed = True
