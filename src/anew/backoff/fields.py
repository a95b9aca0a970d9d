"""How a policy's pieces say what their fields may hold, and how they are read from and written to JSON.

A *piece* (a curve, a jitter, a phase) is a frozen dataclass whose fields carry a *kind* in their metadata.
From the kinds follow the checks at construction, the reading of JSON, the list of known fields in an error
and the writing of JSON, so that a new curve is a few lines and validates like all others.

In Python a duration's name ends in ``_ms``; in JSON the same field has no ending (``"base": "15s"``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

from anew.backoff.foreign import called_here, other_name
from anew.backoff.kinds import Kind, did_you_mean, invalid_policy, missing
from anew.errors import InvalidInput, InvalidPolicy
from anew.units import shown

_MAX_PATH: Final = 200


def join(path: str, name: str) -> str:
    """Give the path of a named field inside an object."""
    return f"{path}.{name}" if path else name


def within(prefix: str, error: InvalidInput) -> InvalidPolicy:
    """Put the path of the enclosing field before an error's own."""
    return InvalidPolicy(join(prefix, str(error)), field=join(prefix, error.field), value=error.value)


def of(kind: Kind) -> dict[str, Kind]:
    """Give the metadata that ties a dataclass field to its kind."""
    return {"kind": kind}


class Piece:
    """Base of all pieces: checks every field by its kind, then ``check()`` looks at the whole."""

    __slots__ = ()
    name: ClassVar[str]
    inline: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        for name, (attribute, kind) in fields_of(type(self)).items():
            object.__setattr__(self, attribute, kind.read(getattr(self, attribute), name))
        self.check()

    def check(self) -> None:
        """Refuse fields that do not fit each other; the base has nothing to say."""


P = TypeVar("P", bound=Piece)


def fields_of(piece: type[Piece]) -> dict[str, tuple[str, Kind]]:
    """Give a piece's fields: JSON name -> (attribute, kind)."""
    return {
        field.name.removesuffix("_ms"): (field.name, field.metadata["kind"])
        for field in dataclasses.fields(piece)  # type: ignore[arg-type]
        if "kind" in field.metadata
    }


def read_piece(piece: type[P], body: Any, path: str) -> P:
    """Build a piece from the JSON that stands behind its name.

    Args:
        piece: The class to build.
        body: An object of fields; or, where the piece has one main field, that field's value alone.
        path: Path of the body, for errors.
    """
    values = read_fields(piece, body, path)
    try:
        return piece(**values)
    except InvalidPolicy as error:
        raise within(path, error) from None


def read_fields(piece: type[Piece], body: Any, path: str) -> dict[str, Any]:
    """Read and check a piece's fields: attribute -> value in its inner form."""
    known = fields_of(piece)
    alone = piece.inline is not None and _stands_alone(body, known, piece.inline)
    given = {str(piece.inline): body} if alone else read_object(body, known, path)
    values = {
        known[name][0]: known[name][1].read(value, path if alone else join(path, name))
        for name, value in given.items()
    }
    for attribute in sorted(_required(piece) - values.keys()):
        raise missing(join(path, attribute.removesuffix("_ms")), _which(piece, known))
    return values


def _which(piece: type[Piece], known: Mapping[str, tuple[str, Kind]]) -> str:
    """Say which of a piece's fields must be there and which may."""
    required = [name for name, (attribute, _) in known.items() if attribute in _required(piece)]
    optional = [name for name in known if name not in required]
    return " and ".join(required) + (f" (optional: {', '.join(optional)})" if optional else "")


def _stands_alone(body: Any, known: Mapping[str, tuple[str, Kind]], main: str) -> bool:
    """Report whether a body is the main field's value rather than an object of fields."""
    if not isinstance(body, Mapping):
        return True
    return isinstance(known[main][1], Tagged) and not set(body) & set(known)


def _required(piece: type[Piece]) -> set[str]:
    return {
        field.name
        for field in dataclasses.fields(piece)  # type: ignore[arg-type]
        if field.init and field.default is dataclasses.MISSING
    }


def read_object(
    value: Any,
    known: Mapping[str, Any] | Sequence[str],
    path: str,
    *,
    besides: Sequence[str] = (),
    foreign: Mapping[str, str] = MappingProxyType({}),
) -> Mapping[str, Any]:
    """Check that a value is a JSON object with known names only.

    Args:
        value: Decoded JSON.
        known: The names that may occur.
        path: Path of the value, for errors.
        besides: Names that might have occurred too but do not, for errors.
        foreign: What a preset's own system calls things, for errors.
    """
    names = ", ".join((*known, *besides)) or "none"
    if not isinstance(value, Mapping):
        raise invalid_policy(path or "policy", value, f"an object with fields out of: {names}")
    for name in value:
        if name not in known:
            field = join(path, name if isinstance(name, str) and name.isidentifier() else shown(name))
            guess = called_here(name, value[name], {*known, *besides}, path, foreign)
            guess = guess or did_you_mean(name, known)
            message = f"{field[-_MAX_PATH:]}: is no known field; expected one of: {names}{guess}"
            raise InvalidPolicy(message, field=field[-_MAX_PATH:], value=value[name])
    return value


def write_piece(piece: Piece) -> Any:
    """Give the JSON that stands behind a piece's name: the fields that differ from their defaults."""
    known = fields_of(type(piece))
    defaults = {field.name: field.default for field in dataclasses.fields(piece)}  # type: ignore[arg-type]
    body = {
        name: kind.write(getattr(piece, attribute))
        for name, (attribute, kind) in known.items()
        if getattr(piece, attribute) != defaults[attribute]
    }
    if piece.inline is None or piece.inline not in body:
        return body
    main = body.pop(piece.inline)
    return {piece.inline: main} | body if body else main


class Tagged:
    """A field that holds one of several pieces: ``{"name": body}``, or the bare name if nothing is given."""

    def __init__(
        self,
        noun: str,
        pieces: Callable[[], Mapping[str, type[Piece]]],
        *,
        besides: type[Any] | None = None,
        optional: bool = False,
    ) -> None:
        self.noun, self.optional = noun, optional
        self._pieces, self._besides = pieces, besides

    @property
    def expected(self) -> str:
        """The names of the pieces."""
        return f"{self.noun}, named by one of: {', '.join(self._pieces())}"

    def read(self, value: Any, field: str) -> Any:
        """Read a piece by its name; a piece that was built already is taken as it is."""
        pieces = self._pieces()
        if type(value) in pieces.values() or (value is None and self.optional):
            return value
        if self._besides is not None and isinstance(value, self._besides):
            return value
        given = {value: {}} if isinstance(value, str) else value
        if not isinstance(given, Mapping) or len(given) != 1 or next(iter(given)) not in pieces:
            name = next(iter(given), None) if isinstance(given, Mapping) and len(given) == 1 else None
            guess = other_name(self.noun, value) or did_you_mean(name, pieces)
            raise invalid_policy(field, value, self.expected + guess)
        name, body = next(iter(given.items()))
        piece = pieces[name]
        if not body and isinstance(body, Mapping) and not _required(piece):
            return piece()
        return read_piece(piece, body, f"{field}.{name}")

    def write(self, value: Any) -> Any:
        """Give ``{"name": body}``, or the bare name when every field has its default.

        What is no piece (a user's own function) is named only; it cannot be read back.
        """
        if not isinstance(value, Piece):
            return {
                "custom": getattr(getattr(value, "function", value), "__qualname__", type(value).__name__)
            }
        body = write_piece(value)
        return value.name if body == {} else {value.name: body}


class One:
    """A field that holds one particular piece: an object of its fields."""

    def __init__(self, piece: type[Piece]) -> None:
        self.piece = piece

    @property
    def expected(self) -> str:
        """The names of the piece's fields."""
        return f"an object with fields out of: {', '.join(fields_of(self.piece))}"

    def read(self, value: Any, field: str) -> Any:
        """Read the piece; one that was built already is taken as it is."""
        return value if isinstance(value, self.piece) else read_piece(self.piece, value, field)

    def write(self, value: Any) -> Any:
        """Give the object of fields."""
        return write_piece(value)
