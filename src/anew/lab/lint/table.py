"""The ``lint`` table of a document: which rules to leave out, and what its policies will meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from anew.backoff.kinds import did_you_mean
from anew.errors import InvalidInput
from anew.lab.lint.finding import MAX_JOBS, MAX_OUTAGES
from anew.units import parse_duration_with_unit, parse_share, refused

_SHARE: Final = 'a share from 0 to less than 1, or text such as "1 %"'


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """What a document says about how to look at it; None and empty mean that it says nothing."""

    ignore: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    jobs: int | None = None
    outages_ms: tuple[int, ...] = ()
    deaths: float | None = None
    dead_retention_ms: int | None = None
    payload_retention_ms: int | None = None


def read_share(value: Any, field: str) -> float:
    """Read a share of all jobs, such as those that may die.

    Args:
        value: A number from 0 to less than 1, also as text, or text such as ``"1 %"``; 1 itself could be either, and is
            refused.
        field: Where it stands, for the error.

    Raises:
        InvalidInput: It is none.
    """
    share = parse_share(value)
    if share is None or share == 1:
        raise refused(field, value, _SHARE)
    return share


def _words(value: Any, field: str) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(word, str) for word in values):
        raise refused(field, value, "a list of names of rules")
    return tuple(values)


def _jobs(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_JOBS:
        raise refused(field, value, f"a whole number from 1 to {MAX_JOBS}")
    return value


def _durations(value: Any, field: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        return (parse_duration_with_unit(value, field),)
    if len(value) > MAX_OUTAGES:
        raise InvalidInput(
            f"{field}: {len(value)} outages are too many; expected at most {MAX_OUTAGES}", field=field
        )
    return tuple(parse_duration_with_unit(each, f"{field}[{index}]") for index, each in enumerate(value))


_KINDS: Final[Mapping[str, tuple[str, Callable[[Any, str], Any]]]] = {
    "ignore": ("ignore", _words),
    "select": ("select", _words),
    "jobs": ("jobs", _jobs),
    "outage": ("outages_ms", _durations),
    "deaths": ("deaths", read_share),
    "dead-retention": ("dead_retention_ms", parse_duration_with_unit),
    "payload-retention": ("payload_retention_ms", parse_duration_with_unit),
}

NAMES: Final = tuple(_KINDS)
"""What the table may hold: the names of the options that it stands for."""


def read_table(value: Any) -> tuple[Stated, list[InvalidInput]]:
    """Read the table.

    Returns:
        What it says, as far as it can be read; and what cannot be: a name is unknown, or a value does not fit.
    """
    expected = f"one of: {', '.join(NAMES)}"
    if not isinstance(value, Mapping):
        return Stated(), [refused("lint", value, f"a table with {expected}")]
    given: dict[str, Any] = {}
    wrong = []
    for key, inner in value.items():
        field = f"lint.{key}"
        if (name := str(key).replace("_", "-")) not in _KINDS:
            message = f"{field}: is no known field; expected {expected}{did_you_mean(name, NAMES)}"
            wrong.append(InvalidInput(message, field=field, value=inner))
            continue
        attribute, read = _KINDS[name]
        try:
            given[attribute] = read(inner, field)
        except InvalidInput as error:
            wrong.append(error)
    return Stated(**given), wrong
