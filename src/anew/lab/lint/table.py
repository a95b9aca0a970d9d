"""What is stated beside the policies, in a document's ``lint`` table or by the options of the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from anew.backoff.kinds import did_you_mean
from anew.errors import InvalidInput
from anew.lab.lint.finding import MAX_JOBS, MAX_OUTAGES
from anew.units import parse_duration_with_unit, parse_share, refused


def _share(value: Any, field: str) -> float:
    """Read a share; 1 could be all of them or one in a hundred, and is refused."""
    share = parse_share(value)
    if share is None or share == 1:
        raise refused(field, value, 'a share from 0 to less than 1, or text such as "1 %"')
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
    "deaths": ("deaths", _share),
    "dead-retention": ("dead_retention_ms", parse_duration_with_unit),
    "payload-retention": ("payload_retention_ms", parse_duration_with_unit),
}

NAMES: Final = tuple(_KINDS)
"""What may be stated: the names of the options of ``anew policy lint``."""


def read_table(value: Any, prefix: str = "lint.") -> tuple[dict[str, Any], list[InvalidInput]]:
    """Read what is stated.

    Args:
        value: The table.
        prefix: Stands before the names of fields in errors.

    Returns:
        The fields of a `Context`, ``select`` and ``ignore``, as far as they can be read; and what cannot be.
    """
    expected = f"one of: {', '.join(NAMES)}"
    if not isinstance(value, Mapping):
        return {}, [refused("lint", value, f"a table with {expected}")]
    stated: dict[str, Any] = {}
    wrong = []
    for key, inner in value.items():
        field = f"{prefix}{key}"
        if (name := str(key).replace("_", "-")) not in _KINDS:
            message = f"{field}: is no known field; expected {expected}{did_you_mean(name, NAMES)}"
            wrong.append(InvalidInput(message, field=field, value=inner))
            continue
        attribute, read = _KINDS[name]
        try:
            stated[attribute] = read(inner, field)
        except InvalidInput as error:
            wrong.append(error)
    return stated, wrong
