"""Durations, sizes and shares: numbers inside, ``"15s"``, ``"64MiB"`` and ``"36 %"`` for people.

Inside the program a duration is whole milliseconds (names end in ``_ms``), an instant is whole milliseconds
since the Unix epoch in UTC (names end in ``_at``), a size is whole bytes. Nothing here uses floating point:
``"0.1s"`` is exactly 100 ms.
"""

from __future__ import annotations

import json
import re
import reprlib
from decimal import Decimal
from typing import Final, TypeVar

from anew.errors import InvalidInput

Refusal = TypeVar("Refusal", bound=InvalidInput)

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
WEEK_MS: Final = 7 * DAY_MS

MAX_DURATION_MS: Final = 36_500 * DAY_MS
"""The longest duration that is read, about a century: a longer one is a slip of the keyboard, and an
instant that far ahead still fits every clock, calendar and 64-bit column that it meets."""

MAX_SIZE: Final = 2**63 - 1
"""The largest size that is read: what a signed 64-bit integer holds."""

_MAX_TEXT: Final = 64


class _Brief(reprlib.Repr):
    """A value on one short line, as JSON writes it: people know their policy by that."""

    def repr_str(self, x: str, level: int) -> str:
        """Quote a text, its middle left out where it is long."""
        half = self.maxstring // 2 - 1
        return json.dumps(x if len(x) <= self.maxstring else f"{x[:half]}...{x[-half:]}", ensure_ascii=False)

    def repr_bool(self, x: bool, level: int) -> str:
        """Give ``true`` or ``false``."""
        return "true" if x else "false"

    def repr_NoneType(self, x: None, level: int) -> str:
        """Give ``null``."""
        return "null"


_BRIEF: Final = _Brief()
_BRIEF.maxlevel = 2
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = _MAX_TEXT

_UNITS: Final = {
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND_MS),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE_MS),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), HOUR_MS),
    **dict.fromkeys(("d", "day", "days"), DAY_MS),
    **dict.fromkeys(("w", "week", "weeks"), WEEK_MS),
}
_NUMBER: Final = r"([0-9]+(?:\.[0-9]+)?)"
_PART: Final = re.compile(_NUMBER + r" *([a-z]+) *")
_ISO: Final = re.compile(
    rf"P(?:{_NUMBER}W|(?=.)(?:{_NUMBER}D)?(?:T(?=.)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?)"
)
_ISO_MS: Final = (WEEK_MS, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS)
_DURATION_EXPECTED: Final = (
    "a duration such as 500ms, 12.5s, 1h30m, 7d or PT1H (a bare integer is milliseconds), at most 36500d"
)

_SIZE_UNITS: Final = {
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtp", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtp", start=1)},
}
_SIZE: Final = re.compile(_NUMBER + r" *([a-z]+)")
_SIZE_EXPECTED: Final = "a size such as 512kB, 256MB, 64MiB or 2GiB (a bare integer is bytes)"


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
    ms = value if isinstance(value, int) and not isinstance(value, bool) else _duration_text(value)
    if ms is None or not 0 <= ms <= MAX_DURATION_MS:
        raise refused(field, value, _DURATION_EXPECTED)
    return ms


def _duration_text(value: object) -> int | None:
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not value.isascii():
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


def parse_size(value: str | int, *, field: str = "size") -> int:
    """Read a size as people write it.

    Args:
        value: An integer (bytes), or text: ``"4096"``, ``"256MB"`` (decimal, 1 MB = 1,000,000 bytes),
            ``"64MiB"`` (binary, 1 MiB = 1,048,576 bytes), ``"1.5 GiB"``. Case does not matter.
        field: What the value is called in the error.

    Returns:
        Whole bytes in [0, MAX_SIZE].

    Raises:
        InvalidInput: It is not a size, is negative, is no whole number of bytes, or is too large.
    """
    size = value if isinstance(value, int) and not isinstance(value, bool) else _size_text(value)
    if size is None or not 0 <= size <= MAX_SIZE:
        raise refused(field, value, _SIZE_EXPECTED)
    return size


def _size_text(value: object) -> int | None:
    if not isinstance(value, str) or len(value) > _MAX_TEXT or not value.isascii():
        return None
    text = value.strip().lower()
    if text.isdigit():
        return int(text)
    match = _SIZE.fullmatch(text)
    unit = _SIZE_UNITS.get(match[2]) if match else None
    if match is None or unit is None:
        return None
    total = Decimal(match[1]) * unit
    return int(total) if total == total.to_integral_value() else None


def format_size(size: int) -> str:
    """Write a size for people: exactly when one unit divides it, else with two decimals.

    Args:
        size: Bytes, >= 0.

    Returns:
        Text such as ``"512 B"``, ``"64 MiB"``, ``"256 MB"``, ``"1.23 MB"``; ``parse_size`` reads it.
    """
    names = {"b": "B", "kb": "kB"} | {u: u.upper().replace("IB", "iB") for u in list(_SIZE_UNITS)[2:]}
    exact = [(unit, name) for name, unit in _SIZE_UNITS.items() if size and size % unit == 0]
    if exact and max(exact)[0] > 1:
        unit, name = max(exact)
        return f"{size // unit} {names[name]}"
    unit, name = max((unit, name) for name, unit in _SIZE_UNITS.items() if unit <= max(size, 1))
    unit, name = (unit, name) if not name.endswith("ib") else (_SIZE_UNITS[name[0] + "b"], name[0] + "b")
    return f"{size} B" if unit == 1 else f"{Decimal(size) / unit:.2f} {names[name]}"


def format_range(low_ms: int, high_ms: int) -> str:
    """Write two durations, ``"15 s to 53 s"``; if they read the same, as one: ``"15 s"``."""
    low, high = format_duration(low_ms), format_duration(high_ms)
    return low if low == high else f"{low} to {high}"


def counted(number: int, one: str, many: str = "") -> str:
    """Write a number with its noun.

    Args:
        number: How many.
        one: The noun in the singular.
        many: In the plural; the singular with an s unless it is given.

    Returns:
        Text such as ``"1 job"``, ``"2,000 jobs"``, ``"0 retries"``.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def format_share(share: float) -> str:
    """Write a share of 1 in whole per cent; only what is all or nothing reads 100 or 0.

    Args:
        share: In [0, 1].

    Returns:
        Text such as ``"36 %"``, ``"less than 1 %"``, ``"over 99 %"``.
    """
    percent = 100 * share
    if 0 < percent < 1 or 99 < percent < 100:
        return "less than 1 %" if percent < 1 else "over 99 %"
    return f"{percent:.0f} %"


def shown(value: object) -> str:
    """Write any value on one short line, for an error message.

    Args:
        value: Whatever somebody gave; may be huge.

    Returns:
        At most 64 characters, cut off where it was longer.
    """
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    text = _BRIEF.repr(value)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def refused(field: str, value: object, expected: str) -> InvalidInput:
    """Build the error that names field, value and what was expected.

    Args:
        field: Where the value stands.
        value: What was given; may be huge.
        expected: What would have been valid, to be read after "expected".
    """
    return refused_as(InvalidInput, field, value, expected)


def refused_as(kind: type[Refusal], field: str, value: object, expected: str) -> Refusal:
    """Build the same as `refused` with a narrower class of error."""
    message = f"{field}: {shown(value)} is not valid; expected {expected}"
    return kind(message, field=field, value=value)
