"""Durations, sizes and shares: numbers inside, ``"15s"``, ``"64MiB"`` and ``"36 %"`` for people; and addresses.

Inside the program a duration is whole milliseconds (names end in ``_ms``), an instant is whole milliseconds
since the Unix epoch in UTC (names end in ``_at``), a size is whole bytes, a share is a number
from 0 to 1. Durations and sizes are read without
floating point: ``"0.1s"`` is exactly 100 ms.
"""

from anew.units.addresses import is_database, without_password
from anew.units.durations import (
    DAY_MS,
    HOUR_MS,
    MAX_DURATION_MS,
    MINUTE_MS,
    SECOND_MS,
    format_duration,
    format_duration_about,
    format_duration_short,
    format_range,
    milliseconds_of,
    parse_duration,
    parse_duration_with_unit,
)
from anew.units.shares import format_share, parse_share
from anew.units.sizes import MAX_SIZE, format_size, format_size_about, parse_size
from anew.units.words import counted, reason_of, refused, refused_as, shown

__all__ = [
    "DAY_MS",
    "HOUR_MS",
    "MAX_DURATION_MS",
    "MAX_SIZE",
    "MINUTE_MS",
    "SECOND_MS",
    "counted",
    "format_duration",
    "format_duration_about",
    "format_duration_short",
    "format_range",
    "format_share",
    "format_size",
    "format_size_about",
    "is_database",
    "milliseconds_of",
    "parse_duration",
    "parse_duration_with_unit",
    "parse_share",
    "parse_size",
    "reason_of",
    "refused",
    "refused_as",
    "shown",
    "without_password",
]
