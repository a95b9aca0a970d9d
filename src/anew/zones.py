"""Time zones: how far the wall clocks of a zone are from UTC at an instant. Read from the machine's zone data."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from anew.errors import InvalidInput
from anew.units import refused

OffsetAt = Callable[[int], int]
"""Gives for an instant, in whole seconds since the Unix epoch, the seconds that the zone's wall clocks are east of UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_S = 253_402_000_000
"""Two days before the year 10000: a later instant has the offset of this one."""


@lru_cache(maxsize=1024)
def offsets(name: str | None) -> OffsetAt:
    """Find a time zone.

    Args:
        name: Its IANA name, such as ``Europe/Berlin``; None is the machine's own zone.

    Raises:
        InvalidInput: The machine's zone data has no such zone.
    """
    if name is None:
        return _local_offset
    try:
        zone = ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # no such file, a name that leaves the folder, a folder's name
        raise _no_zone(name) from None

    def offset_at(instant_s: int) -> int:
        wall = (_EPOCH + timedelta(seconds=min(max(instant_s, 0), _LAST_S))).astimezone(zone)
        offset = wall.utcoffset()
        return 0 if offset is None else int(offset.total_seconds())

    return offset_at


def _local_offset(instant_s: int) -> int:
    return time.localtime(min(max(instant_s, 0), _LAST_S)).tm_gmtoff


def _no_zone(name: str) -> InvalidInput:
    return refused("timezone", name, "the IANA name of a time zone, such as Europe/Berlin")
