"""A value or a number in words, and the error that names a value."""

from __future__ import annotations

import json
import reprlib
from typing import Final, TypeVar

from anew.errors import InvalidInput

Refusal = TypeVar("Refusal", bound=InvalidInput)

_LINE: Final = 64
"""Characters of a value that are shown."""


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
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = _LINE


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
    return text if len(text) <= _LINE else text[: _LINE - 1] + "…"


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


def reason_of(error: Exception) -> str:
    """Say what went wrong, of an error of the system without its number and the name of the file."""
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
