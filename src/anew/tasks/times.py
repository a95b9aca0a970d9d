"""Durations, instants, rates and whole numbers as Python programs write them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from anew.errors import InvalidInput
from anew.jobs.limits import Rate, rate
from anew.units import MAX_DURATION_MS, parse_duration_with_unit, refused

MOST_STARTS: Final = (1 << 31) - 1

Wait = float | str | timedelta
"""A duration: a number of seconds, text with its unit (``"90s"``, ``"1h30m"``), or a timedelta."""


def wait_ms(value: Wait, field: str) -> int:
    """Read a duration as whole milliseconds; a part of one counts as a whole one.

    Raises:
        InvalidInput: It is no duration, is negative, or is longer than a century.
    """
    if isinstance(value, str):
        return parse_duration_with_unit(value, field)
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise refused(field, value, 'a number of seconds, a timedelta, or text such as "90s"')
    if not 0 <= seconds <= MAX_DURATION_MS / 1_000:  # NaN fails too
        raise refused(field, value, "a duration of 0 or more, a century at most")
    # Rounded to the nanosecond first: 64.1 * 1000 falls a hair above or below.
    return -int(-round(seconds * 1_000, 6) // 1)


def whole(field: str, value: object, low: int, high: int, expected: str) -> int:
    """Give a whole number that lies between two bounds.

    Raises:
        InvalidInput: It does not, or is none: what JSON stores as 2.5 could not be read again.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refused(field, value, expected)
    return value


_PERIODS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_rate(text: str, burst: int | None) -> Rate:
    """Read a rate such as ``"10/s"``, ``"100/m"`` or ``"5/30s"``.

    Raises:
        InvalidInput: It is none.
    """
    count, _, period = text.partition("/") if isinstance(text, str) else ("", "", "")
    if not (count.strip().isascii() and count.strip().isdigit()) or not period.strip():
        raise refused("rate", text, 'a number and a period, such as "10/s", "100/m" or "5/30s"')
    if burst is not None:
        whole("burst", burst, 1, MOST_STARTS, f"a whole number from 1 to {MOST_STARTS}")
    per_ms = _PERIODS.get(period.strip()) or parse_duration_with_unit(period.strip(), "rate")
    return rate(int(count), per_ms, burst)


def instant_ms(value: datetime, field: str) -> int:
    """Read an instant as milliseconds since the Unix epoch.

    Raises:
        InvalidInput: It has no time zone: whose midnight is meant, nobody can say.
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise refused(field, value, "a datetime with a time zone, such as datetime.now(UTC)")
    at = int(value.timestamp() * 1_000)
    if at < 0:
        raise InvalidInput(f"{field}: expected a time after 1970", field=field, value=value)
    return at
