"""Timestamps of the protocol: RFC 3339 text to epoch ms and back."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final

from anew.errors import InvalidInput
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_400_YEARS: Final = 146_097
"""Days after which the calendar repeats itself."""

FIRST: Final = (1 - _EPOCH_DAY) * DAY_MS
LAST: Final = (date.max.toordinal() + 1 - _EPOCH_DAY) * DAY_MS - 1
"""The instants that four digits of a year can write: the first of year 1, the last of year 9999."""


def parse(text: str) -> int:
    """Read a timestamp.

    A fraction of a millisecond counts as a whole one: nothing is to happen before its time.

    Args:
        text: Date, ``T``, time, an optional fraction of any length, then ``Z`` or an offset such as ``+01:00``.

    Returns:
        Epoch ms; below zero before 1970.

    Raises:
        InvalidInput: It is none; the message says what is wrong.
    """
    found = _RFC3339.fullmatch(text)
    if not found:
        raise InvalidInput("expected a timestamp such as 2026-01-31T23:59:59.5Z or 2026-01-31T23:59:59+01:00")
    hour, minute, second = int(found[4]), int(found[5]), int(found[6])
    if hour > 23 or minute > 59 or second > 59:
        raise InvalidInput("time of day out of range")
    days = _days(int(found[1]), int(found[2]), int(found[3]))
    ms = days * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS
    if found[7]:
        ms += _fraction_ms(found[7])
    if found[8]:
        hours, minutes = int(found[9]), int(found[10])
        if hours > 23 or minutes > 59:
            raise InvalidInput("offset out of range")
        offset = hours * HOUR_MS + minutes * MINUTE_MS
        ms += -offset if found[8] == "+" else offset
    return ms


def _days(year: int, month: int, day: int) -> int:
    """Count the days from the epoch to a date; the library's calendar has no year 0."""
    try:
        days = date(year or 400, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise InvalidInput("date out of range") from None
    return days if year else days - _400_YEARS


def _fraction_ms(digits: str) -> int:
    return int(digits[:3].ljust(3, "0")) + bool(digits[3:].strip("0"))


@lru_cache(maxsize=256)
def write(at: int) -> str:
    """Write an instant in UTC: ``2026-01-31T23:59:59.5Z``, without fraction if there is none; jobs of one batch share few.

    Args:
        at: Epoch ms; what lies outside the years 1 to 9999 is written as their first or last instant.
    """
    second, ms = divmod(min(max(at, FIRST), LAST), SECOND_MS)
    day, rest = divmod(second, DAY_MS // SECOND_MS)
    minute, seconds = divmod(rest, 60)
    fraction = f".{ms:03d}".rstrip("0") if ms else ""
    return (
        f"{date.fromordinal(day + _EPOCH_DAY)}T{minute // 60:02d}:{minute % 60:02d}:{seconds:02d}{fraction}Z"
    )
