"""Cron: entries whose slot has come enqueue their jobs, and the verbs that change entries.

Whichever process comes first fires a slot: in the transaction that writes the job, the entry goes on to its next slot, so that each
slot has one job at most whatever crashes. Verbs are for `Call`, inside a batch's transaction.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from anew.engine.batch import Batch, Enqueued
from anew.errors import AnewError, InvalidInput, NotFound, StoreBusy, StoreFailed, StoreFull
from anew.jobs import NewJob
from anew.jobs.codec import JobHooks, PushedJob
from anew.jobs.cron import parse_cron
from anew.jobs.cron_entry import NO_CATCH_UP_MS, CronEntry, put, set_paused, tick
from anew.store.protocol import CronRow
from anew.zones import offsets

log = logging.getLogger("anew.engine")

FIRED = 100
"""Entries that one batch looks at: some 10 ms where each enqueues a job."""

LISTED = 1_000
"""Entries that are read at a time where all of a group are wanted."""

JID_BYTES = 12


class NewCron(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as somebody wants it.

    Attributes:
        name: Different from all others in its group.
        expression: See `parse_cron`.
        job: What it enqueues, each time anew: with `ready_at` None, at the slot. A `PushedJob` gets an id of its own each time, and
            the instants of its `hooks` count from the firing.
        timezone: An IANA name; None is the machine's own zone.
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
    """What a replacement made of a group: the names of entries that are new or changed, and of those removed."""

    written: list[str]
    removed: list[str]


# -- the duty


def fire_due(batch: Batch) -> int:
    """Let some entries fire whose slot has come, inside a batch that is synced; report how many jobs they enqueued.

    What is wrong with one entry stops that one, and no other. A job that is refused, or a duplicate, is logged, and its slot is
    over.
    """
    fired = 0
    after: list[CronRow] = []
    try:
        due = batch.store.due_crons(batch.now, FIRED)
    except UnicodeDecodeError:
        log.exception("cron entries cannot be read; none fires before the next start")
        return 0
    for row in due:
        try:
            ticked = tick(row.entry, batch.now, offsets(row.entry.timezone), group_paused=row.group_paused)
            job = None if ticked.slot_at is None else job_of(row.job, batch.now)
        except (InvalidInput, msgspec.MsgspecError) as error:
            _tell(log.error, "a cron entry cannot be read and is stopped", row, error)
            after.append(replace(row, entry=replace(row.entry, next_at=None)))
            continue
        entry = ticked.entry
        if job is not None:
            enqueued = _enqueue(batch, row, job)
            fired += enqueued
            entry = entry if enqueued else replace(entry, last_fired_at=row.entry.last_fired_at)
        after.append(replace(row, entry=entry))
    batch.store.write_crons(after)
    batch.cron_changed = True
    return fired


def _enqueue(batch: Batch, row: CronRow, job: NewJob) -> bool:
    try:
        entered = batch.insert([job])
    except (
        StoreBusy,
        StoreFull,
        StoreFailed,
    ):  # no word about this job: the batch is undone, and its slot comes again
        raise
    except AnewError as error:
        _tell(log.warning, "a cron entry's job is refused; its slot is skipped", row, error)
        return False
    if entered.existing:
        _tell(log.info, "a cron entry's job is a duplicate; its slot is skipped", row, None)
    return not entered.existing


def _tell(write: Callable[..., None], what: str, row: CronRow, error: Exception | None) -> None:
    about = {"group": row.group, "name_of_entry": row.name} | (
        {} if error is None else {"reason": str(error)}
    )
    write(what, extra=about)


# -- what an entry enqueues


def template(job: NewJob) -> bytes:
    """Give what is stored of an entry's job."""
    return msgspec.json.encode((isinstance(job, PushedJob), job))


def job_of(stored: bytes, now: int) -> NewJob:
    """Give the job that an entry enqueues now; the instants of its `hooks` count from this firing.

    Raises:
        MsgspecError: What is stored cannot be read.
    """
    pushed, text = _STORED.decode(stored)
    if not pushed:
        return _PLAIN.decode(text)
    job = _PUSHED.decode(text)
    return replace(job, jid=secrets.token_hex(JID_BYTES), hooks=job.hooks and _fired(job.hooks, now))


def _fired(ties: JobHooks, now: int) -> JobHooks:
    unique = ties.unique
    if unique is not None and unique.ends_at is not None:
        unique = replace(unique, ends_at=now + unique.ends_at)
    return replace(ties, unique=unique, expires_at=None if ties.expires_at is None else now + ties.expires_at)


_STORED = msgspec.json.Decoder(tuple[bool, msgspec.Raw])
_PLAIN = msgspec.json.Decoder(NewJob)
_PUSHED = msgspec.json.Decoder(PushedJob)


# -- verbs


def replace_group(
    group: str, entries: Sequence[NewCron], *, takes_over: str | None = None
) -> Callable[[Batch], Replaced]:
    """Have these entries in a group and no others: what a configuration says. Those that have not changed keep their schedule.

    Args:
        group: Its name.
        entries: What it is to have.
        takes_over: A group in which some of them may have been until now: those of the same name, whose jobs are of the same type,
            leave it, and keep their schedule. Its other entries are left alone.

    Returns:
        A verb that gives what it has changed.

    Raises:
        InvalidInput: An expression or a time zone is none, or a name comes twice; raised here, before anything is done.
    """
    wanted = {new.name: _checked(new) for new in entries}
    if len(wanted) < len(entries):
        raise InvalidInput("cron: expected different names for the entries of a group", field="name")

    def verb(batch: Batch) -> Replaced:
        stored = {row.name: row for row in _all_of(batch, group)}
        former = {} if takes_over in (None, group) else _former(batch, str(takes_over), wanted)
        before = former | stored
        rows = [_put(batch, group, new, before.get(name)) for name, new in wanted.items()]
        changed = [row for row in rows if row != stored.get(row.name)]
        removed = sorted(stored.keys() - wanted)
        _write(batch, changed)
        batch.store.drop_crons((row.group, row.name) for row in former.values())
        batch.store.drop_crons((group, name) for name in removed)
        return Replaced([row.name for row in changed], removed)

    return verb


def put_cron(group: str, new: NewCron) -> Callable[[Batch], CronRow]:
    """Create or change one entry.

    Returns:
        A verb that gives it as it is then.

    Raises:
        InvalidInput: Its expression or its time zone is none; raised here.
    """
    _checked(new)

    def verb(batch: Batch) -> CronRow:
        row = _put(batch, group, new, batch.store.cron(group, new.name))
        _write(batch, [row])
        return row

    return verb


def remove_cron(group: str, name: str) -> Callable[[Batch], None]:
    """Remove one entry; what it has enqueued stays.

    Returns:
        A verb that raises NotFound if there is none.
    """

    def verb(batch: Batch) -> None:
        _find(batch, group, name)
        batch.store.drop_crons([(group, name)])
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


def pause_group(group: str, paused: bool) -> Callable[[Batch], None]:
    """Pause or resume all entries of a group, those too that it gets later; each keeps its own flag beside.

    Returns:
        A verb that gives None.
    """

    def verb(batch: Batch) -> None:
        batch.store.pause_crons(group, paused)

    return verb


def fire_now(group: str, name: str) -> Callable[[Batch], Enqueued]:
    """Have one entry enqueue its job now, though no slot has come and though it is paused; its slots stay as they are.

    Returns:
        A verb that gives what became of the job. It raises NotFound if there is no entry, or whatever a new job is refused with.
    """

    def verb(batch: Batch) -> Enqueued:
        row = _find(batch, group, name)
        try:
            job = job_of(row.job, batch.now)
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"cron: the stored job cannot be read: {error}", field="job") from error
        entered = batch.insert([job])
        if not entered.existing:
            _write(batch, [replace(row, entry=replace(row.entry, last_fired_at=batch.now))])
        return entered

    return verb


def list_crons(
    group: str | None = None, after: tuple[str, str] = ("", ""), limit: int = LISTED
) -> Callable[[Batch], list[CronRow]]:
    """List entries of a group, or of all (None), in order of group and name.

    Args:
        group: Its name.
        after: Group and name of the entry behind which to begin.
        limit: The most to give.

    Returns:
        A verb that gives them.
    """
    return lambda batch: batch.store.crons(group, after, limit)


def _checked(new: NewCron) -> NewCron:
    parse_cron(new.expression, may_never_fire=True)
    offsets(new.timezone)
    return new


def _put(batch: Batch, group: str, new: NewCron, stored: CronRow | None) -> CronRow:
    entry = None if stored is None else stored.entry
    if entry is not None and entry.next_at is None:  # perhaps it was stopped: its schedule begins anew
        entry = replace(entry, expression="")
    entry = put(
        entry,
        new.expression,
        new.timezone,
        batch.now,
        offsets(new.timezone),
        paused=new.paused,
        patience_ms=new.patience_ms,
    )
    paused = stored is not None and stored.group_paused
    return CronRow(group, new.name, entry, template(new.job), paused)


def _all_of(batch: Batch, group: str) -> list[CronRow]:
    rows = found = batch.store.crons(group, (group, ""), LISTED)
    while len(found) == LISTED:
        found = batch.store.crons(group, (group, found[-1].name), LISTED)
        rows = rows + found
    return rows


def _former(batch: Batch, group: str, wanted: Mapping[str, NewCron]) -> dict[str, CronRow]:
    """Give the entries of another group that are wanted ones: by name, and by the type of their jobs."""
    return {
        row.name: row
        for row in _all_of(batch, group)
        if row.name in wanted and _type_of(row, batch.now) == wanted[row.name].job.type
    }


def _type_of(row: CronRow, now: int) -> str | None:
    try:
        return job_of(row.job, now).type
    except msgspec.MsgspecError:
        return None


def _find(batch: Batch, group: str, name: str) -> CronRow:
    row = batch.store.cron(group, name)
    if row is None:
        raise NotFound("cron entry not found")
    return row


def _write(batch: Batch, rows: Sequence[CronRow]) -> None:
    batch.store.write_crons(rows)
    batch.cron_changed = True


__all__ = [
    "CronEntry",
    "CronRow",
    "NewCron",
    "Replaced",
    "fire_due",
    "fire_now",
    "list_crons",
    "pause_cron",
    "pause_group",
    "put_cron",
    "remove_cron",
    "replace_group",
]
