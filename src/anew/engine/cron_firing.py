"""Cron: entries whose slot has come enqueue their jobs, and what is stored of such a job.

Whichever process comes first fires a slot: in the transaction that writes the job, the entry goes on to its next slot, so that each
slot has one job at most whatever crashes.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from anew.engine.batch import Batch
from anew.engine.hooks import Entry
from anew.errors import AnewError, InvalidExpression, InvalidInput, StoreBusy, StoreFailed, StoreFull
from anew.jobs import NewJob
from anew.jobs.codec import JobHooks, PushedJob
from anew.jobs.cron_entry import tick
from anew.jobs.zizq_ties import NOTHING, said_of
from anew.store.cron_rows import CronRow
from anew.zones import offsets

log = logging.getLogger("anew.engine")

FIRED = 100
"""Entries that one batch looks at: some 10 ms where each enqueues a job."""

JID_BYTES = 12


def fire_due(batch: Batch) -> int:
    """Let some entries fire whose slot has come, inside a batch that is synced; report how many jobs they enqueued.

    What is wrong with one entry stops that one, and no other. A job that is refused, is there already or is folded into another is
    logged, and its slot is over.
    """
    fired = 0
    after: list[CronRow] = []
    try:
        due = batch.store.cron.due(batch.now, FIRED)
    except UnicodeDecodeError:
        stopped = batch.store.cron.stop_damaged(batch.now, FIRED)
        log.exception("cron entries cannot be read and are stopped", extra={"entries": stopped})
        batch.cron_changed = stopped > 0  # the others fire in the next batch
        return 0
    for row in due:
        try:
            ticked = tick(row.entry, batch.now, offsets(row.zone), group_paused=row.group_paused)
            job = None if ticked.slot_at is None else job_of(row.job, batch.now)
        except InvalidInput as error:
            _tell(log.error, "a cron entry cannot be read and is stopped", row, error)
            after.append(replace(row, entry=replace(row.entry, next_at=None)))
            continue
        entry = ticked.entry
        if job is not None:
            entered = _enqueue(batch, row, job)
            fired += entered is Entry.CREATED
            if entered is None:
                entry = replace(entry, last_fired_at=row.entry.last_fired_at)
        after.append(replace(row, entry=entry))
    batch.store.cron.write(after)
    batch.cron_changed = True
    return fired


def _enqueue(batch: Batch, row: CronRow, job: NewJob) -> Entry | None:
    """Enqueue the job of an entry; give what became of it, or None if it is refused."""
    try:
        entered = batch.insert([job])
    except (StoreBusy, StoreFull, StoreFailed):
        raise  # it says nothing about this job: the batch is undone, and its slot comes again
    except AnewError as error:
        _tell(log.warning, "a cron entry's job is refused; its slot is skipped", row, error)
        return None
    entry = entered.existing.get(0, Entry.CREATED)
    if entry is Entry.NO_BATCH:
        _tell(
            log.warning, "a cron entry's job names a batch that is not there; its slot is skipped", row, None
        )
        return None
    if entry is Entry.FOLDED:
        _tell(log.info, "a cron entry's job was folded into one that waits", row, None)
    elif entry is not Entry.CREATED:
        _tell(log.info, "a cron entry's job is there already; its slot is skipped", row, None)
    return entry


def _tell(write: Callable[..., None], what: str, row: CronRow, error: Exception | None) -> None:
    about = {"group": row.group, "name_of_entry": row.name}
    if isinstance(error, InvalidExpression):  # its words may repeat payloads, which are not for the log
        about["reason"] = "its batch's fold fails on the payloads"
    elif error is not None:
        about["reason"] = str(error)
    write(what, extra=about)


# -- what an entry enqueues


def template(job: NewJob) -> bytes:
    """Give what is stored of an entry's job."""
    return msgspec.json.encode((isinstance(job, PushedJob), job))


def template_of(stored: bytes) -> NewJob:
    """Give what is stored of an entry's job, its instants as they count from a firing.

    Raises:
        InvalidInput: It cannot be read.
    """
    try:
        pushed, text = _STORED.decode(stored)
        return (_PUSHED if pushed else _PLAIN).decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cron: the stored job cannot be read: {error}", field="job") from error


def job_of(stored: bytes, now: int) -> NewJob:
    """Give the job that an entry enqueues now; the instants of its `hooks` count from this firing.

    It has an id of its own, unless Zizq's API gave it: of such a job nothing is shown that its producer did not say.

    Raises:
        InvalidInput: What is stored cannot be read.
    """
    job = template_of(stored)
    if not isinstance(job, PushedJob):
        return job
    jid = secrets.token_hex(JID_BYTES) if said_of(job.meta) is NOTHING else ""
    return replace(job, jid=jid, hooks=job.hooks and _fired(job.hooks, now))


def _fired(ties: JobHooks, now: int) -> JobHooks:
    unique = ties.unique
    if unique is not None and unique.ends_at is not None:
        unique = replace(unique, ends_at=now + unique.ends_at)
    return replace(ties, unique=unique, expires_at=None if ties.expires_at is None else now + ties.expires_at)


_STORED = msgspec.json.Decoder(tuple[bool, msgspec.Raw])
_PLAIN = msgspec.json.Decoder(NewJob)
_PUSHED = msgspec.json.Decoder(PushedJob)
