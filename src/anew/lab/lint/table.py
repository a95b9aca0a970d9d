"""The ``lint`` table of a document: which rules to leave out, and what its policies will meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from anew.units import parse_duration, refused


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """What a document says about how to look at it; None and empty mean that it says nothing."""

    ignore: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    jobs: int | None = None
    outages_ms: tuple[int, ...] = ()
    dead_retention_ms: int | None = None
    payload_retention_ms: int | None = None


def _words(value: Any, field: str) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(word, str) for word in values):
        raise refused(field, value, "a list of names of rules")
    return tuple(values)


def _count(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise refused(field, value, "a whole number")
    return value


def _durations(value: Any, field: str) -> tuple[int, ...]:
    return tuple(
        parse_duration(each, field=field) for each in (value if isinstance(value, list) else [value])
    )


def _duration(value: Any, field: str) -> int:
    return parse_duration(value, field=field)


_KINDS: Final[Mapping[str, tuple[str, Callable[[Any, str], Any]]]] = {
    "ignore": ("ignore", _words),
    "select": ("select", _words),
    "jobs": ("jobs", _count),
    "outage": ("outages_ms", _durations),
    "dead-retention": ("dead_retention_ms", _duration),
    "payload-retention": ("payload_retention_ms", _duration),
}

NAMES: Final = tuple(_KINDS)
"""What the table may hold: the names of the options that it stands for."""


def read_table(value: Any) -> Stated:
    """Read the table.

    Raises:
        InvalidInput: A name is unknown, or a value does not fit.
    """
    expected = f"a table with: {', '.join(NAMES)}"
    if not isinstance(value, Mapping):
        raise refused("lint", value, expected)
    given: dict[str, Any] = {}
    for key, inner in value.items():
        name = str(key).replace("_", "-")
        if name not in _KINDS:
            raise refused(f"lint.{key}", inner, expected)
        attribute, read = _KINDS[name]
        given[attribute] = read(inner, f"lint.{key}")
    return Stated(**given)
