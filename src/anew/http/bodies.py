"""Reads request bodies into Structs, in JSON and MessagePack, and words what does not fit: field, value, expectation.

A body is decoded strictly, straight into its Struct: unknown members are passed over, and of a repeated key the last one counts.
What does not fit so is decoded once more, member by member, because some clients write integers as floats and texts as binary.
Nothing is built of what no member asks for, so that millions of values in a body cost neither memory nor much time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET, Raw, UnsetType

from anew.errors import MalformedRequest
from anew.http.formats import Format, Unreadable, reason_of, written_in
from anew.net.seam import Request

T = TypeVar("T")

NULLS = (b"null", b"\xc0")
"""Nothing, in JSON and in MessagePack."""

MAX_MEMBER = 65_536
"""Bytes of a member that becomes an object, texts aside; the longest name that is allowed, all escapes, has some 3,000."""

_SHOWN = 60
"""Characters of a value that an error shows."""

_TEXTS = (b'"', *(bytes([head]) for head in (0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB)))
"""How a long text, or in MessagePack binary, begins."""


class _Reader(NamedTuple):
    """The decoders of one Struct: into itself, and into its members as they stand in the body; `kept` stay so."""

    strict: Any
    members: Any
    kept: frozenset[str]
    any_member: Any


@lru_cache(maxsize=64)
def _reader(kind: type[Any], is_json: bool) -> _Reader:
    fields = msgspec.structs.fields(kind)
    members = msgspec.defstruct("Members", [(field.name, Raw | UnsetType, UNSET) for field in fields])
    kept = frozenset(field.name for field in fields if Raw in (field.type, *get_args(field.type)))
    library = msgspec.json if is_json else msgspec.msgpack
    return _Reader(library.Decoder(kind), library.Decoder(members), kept, library.Decoder())


def body_as(request: Request, kind: type[T]) -> T:
    """Decode a request's body into a Struct; see `written_in` and `decode`."""
    return decode(request.body, written_in(request), kind)


def decode(
    body: bytes | Raw, form: Format, kind: type[T], *, where: str = "", null_is_absent: Container[str] = ()
) -> T:
    """Decode a body into a Struct; floats without a fraction pass as integers, binary in UTF-8 as text.

    Args:
        body: As it came.
        form: How it is written.
        kind: A Struct; members of type Raw keep their bytes.
        where: Put before field names in errors, such as ``jobs[1]``.
        null_is_absent: Members that may be null though their type says otherwise.

    Raises:
        MalformedRequest: It is not readable, or a value does not fit.
    """
    reader = _reader(cast(Any, kind), form.is_json)
    if form.is_json:
        check_text(bytes(body))
    try:
        return reader.strict.decode(body)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        pass
    except (*Unreadable, ValueError) as error:
        raise malformed(error, form) from None
    parts = _members(reader, body, form, where)
    for name in parts.keys() - reader.kept:
        parts[name] = _built(parts[name], form, reader, name)
        if parts[name] is None and name in null_is_absent:
            del parts[name]
    try:
        return msgspec.convert(parts, kind)
    except msgspec.ValidationError as error:
        raise worded(error, parts, where) from None


def check_text(body: bytes) -> None:
    """Refuse JSON that is not UTF-8; what is kept or passed over has not been looked at in decoding."""
    if not body.isascii():
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRequest(f"invalid JSON: not UTF-8 at byte {error.start}") from None


def malformed(error: Exception, form: Format) -> MalformedRequest:
    """Word a decoder's complaint about bytes that are not of the format."""
    return MalformedRequest(f"invalid {form.name}: {reason_of(error)}")


def worded(error: msgspec.ValidationError, value: object, where: str = "") -> MalformedRequest:
    """Word a validation error: which field, what came (unless the value is UNSET), what was expected."""
    text, _, path = str(error).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").removeprefix(".")
    silent = value is UNSET or "missing required field" in text
    came = "" if silent else _shown(_look_up(value, field))
    name = ".".join(part for part in (where, field) if part)
    text = text[:1].lower() + text[1:].replace("`", "")
    if came and not text.endswith(f", got {came}"):  # the library names the kind of what came, or nothing
        text = f"{text} {came}" if ", got " in text else f"{text}, got {came}"
    message = f"{name}: {text}" if name else text
    return MalformedRequest(message, field=name)


def _members(reader: _Reader, body: bytes | Raw, form: Format, where: str) -> dict[str, Any]:
    """Give the known members of an object, each as it stands in the body."""
    try:
        found = reader.members.decode(body)
    except msgspec.ValidationError as error:
        raise worded(error, UNSET, where) from None
    except Unreadable as error:  # strict decoding stopped short of it
        raise malformed(error, form) from None
    return {name: part for name, part in msgspec.structs.asdict(found).items() if part is not UNSET}


def _built(part: Raw, form: Format, reader: _Reader, name: str) -> object:
    """Decode one member into plain values, eased."""
    if len(part) > MAX_MEMBER and bytes(memoryview(part)[:1]) not in _TEXTS:
        message = f"{name}: expected at most {MAX_MEMBER} bytes, got {len(part)}"
        raise MalformedRequest(message, field=name)
    try:
        return _eased(reader.any_member.decode(part))
    except (*Unreadable, ValueError) as error:
        raise malformed(error, form) from None


def _eased(value: object) -> object:
    """Let floats without a fraction pass as the integers, and binary in UTF-8 as the text, that they are.

    Zizq's Ruby client packs a text as binary when Ruby calls its encoding so: a message that quotes what came from
    a socket, or one of the core's own exceptions.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    if isinstance(value, bytes):
        return _text_or_bytes(value)
    if isinstance(value, dict):
        return {name: _eased(inner) for name, inner in value.items()}
    return [_eased(inner) for inner in value] if isinstance(value, list) else value


def _text_or_bytes(value: bytes) -> str | bytes:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _look_up(value: object, path: str) -> object:
    """Follow a path such as ``backoff.base_ms`` or ``ids[3]`` into plain values."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            value = value[int(index)] if index else value[name]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _shown(value: object) -> str:
    if isinstance(value, str):
        value = value[:_SHOWN]  # it may have megabytes
    try:
        text = json.dumps(value, default=lambda odd: type(odd).__name__)
    except (TypeError, RecursionError):  # a key of MessagePack that is no text, or very deep nesting
        return ""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
