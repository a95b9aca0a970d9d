"""Bare numbers that look like seconds: 300 and 3600 are written in seconds everywhere but here, where they are ms.

Most queues take seconds (Celery's ``countdown=300``, Sidekiq's ``3600``), so a number that is round there was probably
brought along. Three sorts are told apart:

- up to 99: no wait worth writing down is a few milliseconds long;
- whole hours or days of seconds, 3600, 7200, 86400, 604800: in milliseconds nobody comes by such a number;
- 100, 300, 600, 900, 1800 and their like are round in both. They count if the schedule is over before anything could
  have recovered, or if one of the hours stands beside them; and they do not if a number beside them is one that people
  write in milliseconds, such as 5000.

A name that ends in ``_ms`` says its unit: there only the first sort counts.
"""

from __future__ import annotations

import math
from typing import Any, Final

from anew.lab.lint.facts import Facts
from anew.units import format_duration, shown

LEAST_MS: Final = 100
"""What is shorter is no wait that anybody would write down."""

_HOUR: Final = 3_600
_DAY: Final = 86_400
_LONGEST: Final = 30 * _DAY
_EITHER: Final = frozenset({100, 120, 180, 240, 300, 600, 900, 1_200, 1_800, 2_700})
_SOON_MS: Final = 60_000
_RETRIES: Final = 10


def slips(facts: Facts) -> dict[str, str]:
    """Find the numbers that were probably meant as seconds: path -> how it was written, and what to write."""
    bare = {path: (number, value) for path, value in facts.durations() if (number := number_of(value))}
    unsaid = {path: number for path, (number, _) in bare.items() if not path.endswith("_ms")}
    hours = any(_is_hours(number) for number in unsaid.values())
    either = hours or (_is_over_soon(facts) and not any(_is_of_ms(number) for number in unsaid.values()))
    return {
        path: _words(path, number, value)
        for path, (number, value) in bare.items()
        if number < LEAST_MS or (path in unsaid and (_is_hours(number) or (either and number in _EITHER)))
    }


def number_of(value: Any) -> int | None:
    """Give the number of a duration that was written without a unit; None for infinity, TOML's word for none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        return int(value) if value.strip().isdigit() else None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    return value if isinstance(value, int) else None


def _is_hours(number: int) -> bool:
    # 18,000 and 36,000 are 5 h and 10 h of seconds, but also 18 s and 36 s; only whole days are clear all the same.
    hours = number % _HOUR == 0 and number % 1_000 != 0
    return _HOUR <= number <= _LONGEST and (hours or number % _DAY == 0)


def _is_of_ms(number: int) -> bool:
    return number >= 1_000 and number % 500 == 0 and not _is_hours(number)


def _is_over_soon(facts: Facts) -> bool:
    """Tell whether the first ten retries, or all of them, are over within a minute."""
    rows = facts.rows[:_RETRIES]
    return bool(rows) and sum(row.latest_ms or 0 for row in rows) < _SOON_MS


def _words(path: str, number: int, value: Any) -> str:
    if path.endswith("_ms"):
        return f"{path}: {shown(value)} is {number} ms; write {number * 1000} for {number} s"
    long = f", {format_duration(number)}" if number >= 1_000 else ""
    return f'{path}: {shown(value)} is {number} ms{long}; write "{number}s" or "{number}ms"'
