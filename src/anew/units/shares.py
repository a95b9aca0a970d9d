"""Shares: numbers from 0 to 1 inside, ``"36 %"`` for people."""

from __future__ import annotations

import re
from typing import Any, Final

_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_FRACTION: Final = re.compile(r"[01]|[01]?\.[0-9]{1,9}")


def parse_share(value: Any) -> float | None:
    """Read a share as people write it.

    Args:
        value: A number, also as text: ``0.99``, ``"0.99"``; or a percentage: ``"99%"``, ``"0.5 %"``.

    Returns:
        The share in [0, 1]; None if it is none, since callers state their own bounds.
    """
    share = _share_text(value.strip()) if isinstance(value, str) else value
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        return None
    return float(share)


def _share_text(text: str) -> float | None:
    percent = _PERCENT.fullmatch(text)
    if percent:
        return float(percent[1]) / 100
    return float(text) if _FRACTION.fullmatch(text) else None


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
