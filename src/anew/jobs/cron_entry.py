"""A cron entry: when it enqueues its job, and what a change of it or a pause makes of its schedule; and the group that it is in.

Each pair of an entry and a slot makes one job at most. The row carries the next slot; whoever fires it writes the job and the row
after it in one transaction, on condition that the next slot is still the one that was read. Slots only grow: neither a clock that
was set back nor a new expression makes an entry fire a slot, or one before it, again.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from anew.jobs.cron import Cron, parse_cron
from anew.jobs.cron_slots import OffsetAt, latest_slot, next_slot
from anew.units import MINUTE_MS

NO_CATCH_UP_MS = MINUTE_MS
"""How late an entry that does not catch up may still fire: a minute is the finest step of five fields, and a restart takes less."""


class CronEntry(Struct, frozen=True, gc=False, kw_only=True):
    """One entry as stored; the job that it enqueues is kept beside it.

    Attributes:
        expression: As it was given; it may never fire.
        timezone: An IANA name; None is the zone of its group.
        paused: It enqueues nothing.
        paused_at, resumed_at: Epoch ms of the last pause and of the last resumption.
        patience_ms: How late a slot may still be fired; None: however late, the latest one that was missed.
        next_at: The next slot, epoch ms; None if none comes any more.
        last_slot_at: The last slot that was fired or passed over, epoch ms.
        last_fired_at: When it last fired, by the clock and not by the slot, epoch ms; also where its job was there already.
    """

    expression: str
    timezone: str | None = None
    paused: bool = False
    paused_at: int | None = None
    resumed_at: int | None = None
    patience_ms: int | None = None
    next_at: int | None = None
    last_slot_at: int | None = None
    last_fired_at: int | None = None


class CronGroup(Struct, frozen=True, gc=False, kw_only=True):
    """A group of entries as stored; it may have none.

    Attributes:
        paused: None of its entries enqueues anything, whatever their own flags say.
        paused_at, resumed_at: Epoch ms of the last pause and of the last resumption.
        timezone: The zone of its entries that name none: an IANA name; None is the server's own zone.
    """

    paused: bool = False
    paused_at: int | None = None
    resumed_at: int | None = None
    timezone: str | None = None


Pausable = TypeVar("Pausable", CronEntry, CronGroup)


class Tick(Struct, frozen=True, gc=False):
    """What has become of a due entry.

    Attributes:
        slot_at: The slot for which its job is to be enqueued now, epoch ms; None: no job.
        entry: The row after it.
    """

    slot_at: int | None
    entry: CronEntry


def tick(entry: CronEntry, now: int, offset_at: OffsetAt, *, group_paused: bool = False) -> Tick:
    """Decide what a due entry does.

    However many slots were missed, it fires once, for the latest of them, and goes on with the first after now. While it or its
    group is paused it passes its slots over, and does not make up for them later.

    Args:
        entry: The row; it is due.
        now: Epoch ms.
        offset_at: The entry's zone.
        group_paused: The group's own flag, which is independent of the entry's.

    Raises:
        InvalidInput: The stored expression cannot be read any more. That stops this entry and must stop no other.
    """
    cron = _cron(entry)
    slot = now if entry.next_at is None else latest_slot(cron, entry.next_at, now, offset_at)
    after = replace(entry, next_at=next_slot(cron, now, offset_at), last_slot_at=slot)
    late = entry.patience_ms is not None and now - slot > entry.patience_ms
    if entry.paused or group_paused or late:
        return Tick(None, after)
    return Tick(slot, replace(after, last_fired_at=now))


def put(
    stored: CronEntry | None,
    expression: str,
    timezone: str | None,
    now: int,
    offset_at: OffsetAt,
    *,
    paused: bool | None = None,
    patience_ms: int | None = None,
    moved: bool = False,
) -> CronEntry:
    """Give an entry as it is after it was created or replaced.

    Where expression and time zone stay what they are, so does the schedule: every program may put its entries whenever it starts.
    Else the next slot is the first after now. Nothing fires at the creation.

    Args:
        stored: The row of that name, or None.
        expression: A cron expression that was checked.
        timezone: As in `CronEntry`.
        now: Epoch ms.
        offset_at: That zone, or its group's.
        paused: None keeps what is stored; a new entry is not paused.
        patience_ms: As in `CronEntry`.
        moved: It names no zone, and that of its group is another than before.
    """
    same = stored is not None and (stored.expression, stored.timezone) == (expression, timezone)
    if stored is not None and same and not moved:
        entry = replace(stored, patience_ms=patience_ms)
    else:
        old = stored or CronEntry(expression=expression)
        entry = replace(old, expression=expression, timezone=timezone, patience_ms=patience_ms)
        after = now if entry.last_slot_at is None else max(now, entry.last_slot_at)
        entry = replace(entry, next_at=next_slot(_cron(entry), after, offset_at))
    return entry if paused is None else set_paused(entry, paused, now)


def set_paused(what: Pausable, paused: bool, now: int) -> Pausable:
    """Give an entry or a group paused or resumed; what it already is changes nothing, its times neither."""
    if paused == what.paused:
        return what
    if paused:
        return replace(what, paused=True, paused_at=now)
    return replace(what, paused=False, resumed_at=now)


def _cron(entry: CronEntry) -> Cron:
    return parse_cron(entry.expression, may_never_fire=True)
