"""Texts that PostgreSQL does not take: those with NUL, and names too long for an index.

What only describes, such as an error's message, is stored with U+FFFD in place of NUL. A name with NUL is refused: with another
character in its place it could be somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.types.string import StrDumper

from anew.errors import InvalidInput

DESCRIBES = frozenset(
    {"error_type", "message", "backtrace", "description", "word", "dead_reason", "cause", "refused"}
)
"""Columns in whose texts nothing is looked up."""

_INSERTED = re.compile(r"INSERT INTO \w+ \(([^)]*)\)")
_COMPARED = re.compile(r"(?:\(([\w, ]+)\)|(\w+)) (?:=|>|<|>=|<=|IN) (\(?[$\d, ]*)$")


class UnstorableText(Exception):
    """A bound text has NUL, or characters that are none."""


class RefusedValue(Exception):
    """A value was refused inside a transaction, which must be undone: nobody but `explain` takes it for an answer.

    Attributes:
        error: Why.
    """

    def __init__(self, error: InvalidInput) -> None:
        super().__init__(str(error))
        self.error = error


class TextDumper(StrDumper):
    """Writes texts as they go to PostgreSQL."""

    def dump(self, obj: str) -> Any:
        """Give the text's bytes."""
        if "\0" in obj:
            raise UnstorableText
        try:
            return super().dump(obj)
        except UnicodeEncodeError as error:
            raise UnstorableText from error


def storable(statement: str, bound: Sequence[Any]) -> list[Any]:
    """Give a statement's values with U+FFFD for what cannot be stored, where they only describe.

    Raises:
        InvalidInput: One of them is a name.
    """
    return [
        _storable(statement, n, value) if isinstance(value, str) else value
        for n, value in enumerate(bound, start=1)
    ]


def _storable(statement: str, n: int, value: str) -> str:
    good = value.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    if good != value and (field := column(statement, n)) not in DESCRIBES:
        raise InvalidInput(
            f"{field}: expected a text without null bytes and lone surrogates, got {value[:60]!r}",
            field=field,
        )
    return good


def column(statement: str, n: int) -> str:
    """Tell which column the value of a mark is for."""
    mark = re.search(rf"\${n}\b", statement)
    if mark is None:
        return "text"
    row = statement[statement.rfind("(", 0, mark.start()) + 1 : mark.start()]
    inserted = _INSERTED.match(statement)
    if inserted is not None and not re.search(r"[A-Za-z]\w* ", row):
        return inserted[1].split(", ")[row.count(",")]
    compared = _COMPARED.search(statement[: mark.start()])
    if compared is not None:
        return compared[2] or compared[1].split(", ")[compared[3].count(",")]
    taken = re.search(rf"(\w+) = (?:\w+\()?v\.column{row.count(',') + 1}\b", statement)
    return taken[1] if taken is not None else "text"


def refusal(error: psycopg.Error) -> InvalidInput | None:
    """Say PostgreSQL's refusal of a value in our words; None where it is another error."""
    if isinstance(error, psycopg.errors.UntranslatableCharacter):
        return InvalidInput("expected names without null bytes, got one with some")
    if isinstance(error, psycopg.errors.ProgramLimitExceeded):
        return InvalidInput(f"a name is too long for PostgreSQL: {error.diag.message_primary}")
    return None
