"""Cron slots: the instants at which an expression fires in a time zone, also where its clocks are changed.

A fixed time of the day fires once a day: a time that a clock change leaves out fires right after it, and one that comes twice fires
the first time. What follows elapsed time, ``*`` and steps, skips what is left out and fires in both passes of what comes twice.

The zone arrives as a function: for whole seconds since the Unix epoch, the seconds that its wall clocks are east of UTC.
"""

from __future__ import annotations

from collections.abc import Callable

from anew.jobs.cron import DAY_S, Cron

OffsetAt = Callable[[int], int]

_LOOK_S = 2 * DAY_S
"""How far before and after a time clock changes are looked for: more than any zone is from UTC, and so little that at most one
change is found. Since 1970 no zone has changed its clocks twice within 6 days (zone data 2026)."""


def next_slot(cron: Cron, after_at: int, offset_at: OffsetAt) -> int | None:
    """Give the first slot strictly after an instant.

    Args:
        cron: The expression.
        after_at: Epoch ms, 0 or more.
        offset_at: The zone.

    Returns:
        Epoch ms, a whole second; None if it never fires again before the year 10000.
    """
    after = after_at // 1000
    slot = _next_fixed(cron, after, offset_at) if cron.fixed else _next_elapsed(cron, after, offset_at)
    return None if slot is None else slot * 1000


def latest_slot(cron: Cron, first_at: int, now: int, offset_at: OffsetAt) -> int:
    """Give the last slot up to now.

    Args:
        cron: The expression.
        first_at: A slot of it that is not after now, epoch ms.
        now: Epoch ms.
        offset_at: The zone.
    """
    latest, low, high = first_at, first_at // 1000, now // 1000
    # What comes next after an instant grows with the instant, so the latest is found by halving, whatever was missed.
    while low <= high:
        middle = (low + high) // 2
        slot = next_slot(cron, middle * 1000, offset_at)
        if slot is None or slot > now:
            high = middle - 1
        else:
            latest, low = slot, middle + 1
    return latest


def _next_fixed(cron: Cron, after: int, offset_at: OffsetAt) -> int | None:
    wall = after + offset_at(after)
    while True:
        found = cron.first_from(wall + 1)
        if found is None:
            return None
        slot = _instant_of(found, offset_at)
        if slot > after:
            return slot
        wall = found  # in the second pass of an hour: this time has fired in the first


def _instant_of(wall: int, offset_at: OffsetAt) -> int:
    """Give the first instant at which the wall clocks show a time, or jump over it."""
    offset = offset_at(wall - _LOOK_S)
    if offset == offset_at(wall + _LOOK_S):
        return wall - offset
    start, last = wall - _LOOK_S, wall + _LOOK_S
    while True:
        end = _stretch_end(start, last, offset_at)
        if wall < end + offset_at(start):
            return max(wall - offset_at(start), start)
        start = end


def _next_elapsed(cron: Cron, after: int, offset_at: OffsetAt) -> int | None:
    start = after + 1
    while True:
        offset = offset_at(start)
        found = cron.first_from(start + offset)
        if found is None:
            return None
        slot = found - offset
        look = min(slot, start + _LOOK_S)
        end = _stretch_end(start, look, offset_at)
        if end <= look:
            start = end
        elif slot <= look:
            return slot
        else:  # a day far ahead: in no zone has it begun two days before
            start = max(look, found // DAY_S * DAY_S - _LOOK_S)


def _stretch_end(start: int, look: int, offset_at: OffsetAt) -> int:
    """Find the first change of the clocks after an instant; one second after `look` if none comes until then."""
    offset = offset_at(start)
    if offset_at(look) == offset:
        return look + 1
    low, high = start, look
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset_at(middle) == offset else (low, middle)
    return high
