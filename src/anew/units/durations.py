"""Durations: whole milliseconds inside, ``"15s"`` for people."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

from anew.errors import InvalidInput
from anew.units.words import refused, shown

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS

MAX_DURATION_MS: Final = 36_500 * DAY_MS
"""The longest duration that is read, about a century: a longer one is a slip of the keyboard, and an
instant that far ahead still fits every clock, calendar and 64-bit column that it meets."""

MAX_TEXT: Final = 64
"""No text of a duration or a size is longer."""

NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?)"
"""How a number is written before its unit."""

_UNITS: Final = {
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND_MS),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE_MS),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), HOUR_MS),
    **dict.fromkeys(("d", "day", "days"), DAY_MS),
    **dict.fromkeys(("w", "week", "weeks"), WEEK_MS),
}
_PART: Final = re.compile(NUMBER + r" *([a-z]+) *")
_ISO: Final = re.compile(
    rf"P(?:{NUMBER}W|(?=.)(?:{NUMBER}D)?(?:T(?=.)(?:{NUMBER}H)?(?:{NUMBER}M)?(?:{NUMBER}S)?)?)"
)
_ISO_MS: Final = (WEEK_MS, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS)
_BARE: Final = re.compile(r"0*[1-9][0-9]{0,14}")
_EXPECTED: Final = "a duration such as 500ms, 12.5s, 1h30m, 7d or PT1H"
_LONGEST: Final = "at most 36500d"


def parse_duration(value: str | int, *, field: str = "duration") -> int:
    """Read a duration as people write it.

    Args:
        value: An integer (milliseconds), or text: ``"500"``, ``"500ms"``, ``"12.5s"``, ``"1h 30m"``,
            ``"1h30m"``, ``"7d"``, ``"3w"``, ``"4 min 16 s"``, or ISO 8601 (``"PT1H"``, ``"P1DT12H"``,
            ``"P3W"``; no years or months, whose length varies). Each unit may occur once.
        field: What the value is called in the error.

    Returns:
        Whole milliseconds in [0, MAX_DURATION_MS].

    Raises:
        InvalidInput: It is not a duration, is negative, is finer than a millisecond, or is too long.
    """
    ms = _milliseconds(value)
    if ms is None:
        raise refused(field, value, f"{_EXPECTED} (a bare integer is milliseconds), {_LONGEST}")
    return ms


def parse_duration_with_unit(value: str | int, field: str) -> int:
    """Read a duration as people type it at a prompt or into a table of their own: with its unit, unless it is 0.

    There 3600 means an hour more often than 3.6 s, and 3 for three hours would ask for next to nothing.

    Args:
        value: As for `parse_duration`.
        field: What the value is called in the error.

    Returns:
        Whole milliseconds in [0, MAX_DURATION_MS].

    Raises:
        InvalidInput: It is no duration, or a number without a unit.
    """
    bare = _BARE.fullmatch(value.strip() if isinstance(value, str) else shown(value))
    if bare:
        expected = f"a duration with its unit, such as {bare[0]}s or {bare[0]}ms"
        message = f"{field}: {shown(value)} has no unit; expected {expected}"
        raise InvalidInput(message, field=field, value=value)
    ms = _milliseconds(value)
    if ms is None:
        raise refused(field, value, f"{_EXPECTED}, {_LONGEST}")
    return ms


def milliseconds_of(seconds: object, field: str) -> int:
    """Read a positive number of seconds, as some protocols write a duration in JSON.

    Args:
        seconds: An int or a float.
        field: What the value is called in the error.

    Returns:
        Whole milliseconds, rounded up, in [1, MAX_DURATION_MS]; a longer duration is held to that.

    Raises:
        InvalidInput: It is not a number, or not a positive and finite one.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise refused(field, seconds, "a positive number of seconds")
    if seconds >= MAX_DURATION_MS // SECOND_MS:
        return MAX_DURATION_MS
    # By the digits that were written: 64.1 s is exactly 64100, while 64.1 * 1000 falls a hair below.
    return max(int((Decimal(str(seconds)) * SECOND_MS).to_integral_value(ROUND_CEILING)), 1)


def _milliseconds(value: object) -> int | None:
    ms = value if isinstance(value, int) and not isinstance(value, bool) else _duration_text(value)
    return ms if ms is not None and 0 <= ms <= MAX_DURATION_MS else None


def _duration_text(value: object) -> int | None:
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isascii():
        return None
    text = value.strip()
    if text.isdigit():
        return int(text)
    iso = _ISO.fullmatch(text)
    parts = _iso_parts(iso) if iso else _worded_parts(text)
    if not parts:
        return None
    total = sum((Decimal(number) * unit for number, unit in parts), Decimal(0))
    return int(total) if total == total.to_integral_value() else None


def _iso_parts(match: re.Match[str]) -> list[tuple[str, int]]:
    return [(number, unit) for number, unit in zip(match.groups(), _ISO_MS, strict=True) if number]


def _worded_parts(text: str) -> list[tuple[str, int]] | None:
    parts: list[tuple[str, int]] = []
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        unit = _UNITS.get(part[2]) if part else None
        if part is None or unit is None or any(unit == known for _, known in parts):
            return None
        parts.append((part[1], unit))
        position = part.end()
    return parts


def format_duration(ms: int) -> str:
    """Write a duration for people to read: its two largest units, the rest dropped.

    Args:
        ms: Milliseconds, of either sign.

    Returns:
        Text such as ``"250 ms"``, ``"12.5 s"``, ``"4 min 16 s"``, ``"1 h 30 min"``, ``"24 d 22 h"``.
    """
    if ms < 0:
        return "-" + format_duration(-ms)
    if ms < SECOND_MS:
        return f"{ms} ms"
    if ms < MINUTE_MS:
        return f"{_decimal_seconds(ms)} s"
    for unit_ms, unit, part_ms, part in (
        (DAY_MS, "d", HOUR_MS, "h"),
        (HOUR_MS, "h", MINUTE_MS, "min"),
        (MINUTE_MS, "min", SECOND_MS, "s"),
    ):
        if ms >= unit_ms:
            rest = ms % unit_ms // part_ms
            return f"{ms // unit_ms} {unit}" + (f" {rest} {part}" if rest else "")
    raise AssertionError(ms)


def format_duration_about(ms: float) -> str:
    """Write a duration that nobody wants to the millisecond, rounded to seconds from 10 s, to tenths from 1 s.

    Args:
        ms: Milliseconds, >= 0; a mean may have a fraction.

    Returns:
        Text such as ``"31 s"``, ``"2.3 s"``, ``"250 ms"``, ``"1 h 30 min"``.
    """
    step = 1_000 if ms >= 10_000 else 100 if ms >= 1_000 else 1
    return format_duration(int((ms + step / 2) // step) * step)


def format_duration_short(ms: int) -> str:
    """Write a duration exactly and without spaces; ``parse_duration`` reads it back.

    Args:
        ms: Milliseconds, >= 0.

    Returns:
        Text such as ``"0s"``, ``"250ms"``, ``"12.5s"``, ``"1h30m"``, ``"7d"``.
    """
    if ms < SECOND_MS:
        return f"{ms}ms" if ms else "0s"
    days, rest = divmod(ms, DAY_MS)
    hours, rest = divmod(rest, HOUR_MS)
    minutes, rest = divmod(rest, MINUTE_MS)
    whole = "".join(f"{n}{u}" for n, u in ((days, "d"), (hours, "h"), (minutes, "m")) if n)
    return whole + (f"{_decimal_seconds(rest)}s" if rest else "")


def _decimal_seconds(ms: int) -> str:
    whole, rest = divmod(ms, SECOND_MS)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def format_range(low_ms: int, high_ms: int) -> str:
    """Write two durations, ``"15 s to 53 s"``; if they read the same, as one: ``"15 s"``."""
    low, high = format_duration(low_ms), format_duration(high_ms)
    return low if low == high else f"{low} to {high}"
