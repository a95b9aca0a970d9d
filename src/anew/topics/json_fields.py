"""Single values of a JSON document, read strictly: each refusal names its place as a JSON pointer. Pure.

A boolean is no number, a text is no number, NaN is in no range, and null is refused wherever a reader does not name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anew.errors import InvalidInput
from anew.units import shown


def wrong(at: str, value: object, expected: str) -> InvalidInput:
    """Build the error for a value that does not fit.

    Args:
        at: JSON pointer to it; "" is the whole document.
        value: What was given; may be huge.
        expected: What would have been valid, to be read after "expected".
    """
    message = f"{at or 'the document'}: {shown(value)} is not valid; expected {expected}"
    return InvalidInput(message, field=at, value=value)


def member(at: str, name: object) -> str:
    """Give the JSON pointer to a member.

    Source: RFC 6901, 3: "~" and "/" in names are escaped.
    """
    return f"{at}/{str(name).replace('~', '~0').replace('/', '~1')}"


def read_object(value: object, at: str, known: Iterable[str]) -> Mapping[str, Any]:
    """Give back an object that has no other members than these."""
    if not isinstance(value, dict):
        raise wrong(at, value, "an object")
    for name in value:
        if name not in known:
            raise wrong(member(at, name), value[name], f"no such member, only {', '.join(known)}")
    return value


def in_range(value: object, at: str, least: float, most: float) -> float:
    """Give back a number between two bounds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # type: ignore[operator]
        raise wrong(at, value, f"a number from {_plain(least)} to {_plain(most)}")
    return float(value)  # type: ignore[arg-type]


def number(given: Mapping[str, Any], name: str, at: str, least: float, most: float, default: float) -> float:
    """Give an object's number."""
    return in_range(given.get(name, default), member(at, name), least, most)


def count(given: Mapping[str, Any], name: str, at: str, default: int, least: int, most: int) -> int:
    """Give an object's whole number."""
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise wrong(member(at, name), value, f"a whole number from {least} to {most}")
    return value


def flag(given: Mapping[str, Any], name: str, at: str, default: bool) -> bool:
    """Give an object's boolean."""
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise wrong(member(at, name), value, "true or false")
    return value


def choice(given: Mapping[str, Any], name: str, at: str, choices: Sequence[str], default: str) -> Any:
    """Give an object's word, one of a few."""
    value = given.get(name, default)
    if value not in choices:
        raise wrong(member(at, name), value, f"one of {', '.join(choices)}")
    return value


def _plain(bound: float) -> str:
    return f"{bound:.0f}" if bound == int(bound) else f"{bound}"
