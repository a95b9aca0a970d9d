"""Sizes: whole bytes inside, ``"64MiB"`` for people."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from anew.units.durations import MAX_TEXT, NUMBER
from anew.units.words import refused

MAX_SIZE: Final = 2**63 - 1
"""The largest size that is read: what a signed 64-bit integer holds."""

_SIZE_UNITS: Final = {
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtp", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtp", start=1)},
}
_SIZE: Final = re.compile(NUMBER + r" *([a-z]+)")
_SIZE_EXPECTED: Final = "a size such as 512kB, 256MB, 64MiB or 2GiB (a bare integer is bytes)"


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
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isascii():
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


def format_size_about(size: int) -> str:
    """Write a size for somebody who looks, to three digits at least: ``"68.0 GiB"``, ``"300 KiB"``, ``"17 B"``."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 5)
    number = size / 1024**power
    return f"{number:.{0 if number >= 100 else 1}f} {'KMGTP'[power - 1]}iB"
