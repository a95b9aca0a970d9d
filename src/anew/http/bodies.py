"""Reads request bodies: fast where they are plain, thorough where they are not.

The fast way decodes straight into a Struct. What that lets pass, a repeated key, cannot hide: it would make the body longer than
the decoded values account for, so a look at the length tells whether the thorough way must be taken. The thorough way also words
the errors: field, value, expectation.
"""

from __future__ import annotations

import json
import re
from typing import TypeVar

import msgspec

from anew.errors import MalformedRequest
from anew.http.formats import JSON, Format, Unreadable, reason_of, written_in
from anew.http.payloads import count_values
from anew.http.portions import at_once
from anew.http.repacking import counting, unpacked
from anew.net.seam import Request

T = TypeVar("T")

MAX_VALUES = 100_000
"""Values in a body that is read thoroughly, object by object; payloads are not, and may have more."""


MAX_SHOWN = 65_536
"""Bytes of a body that an error looks into for the value that came."""


_LENGTH_BYTES = {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
"""By the first byte of a long list or map in MessagePack: how many bytes tell its length."""


class Repeated(Exception):
    """A structured object has a key twice."""


def body_as(request: Request, kind: type[T]) -> T | None:
    """Decode a request's body into a Struct, thoroughly; None if its content type is nothing we read, which has been answered.

    Raises:
        MalformedRequest: As for `decode`.
    """
    form = written_in(request)
    return None if form is None else decode(request.body, form, kind)


def decode(body: bytes, form: Format, kind: type[T], *, where: str = "") -> T:
    """Decode a body into a Struct, thoroughly.

    Args:
        body: As it came.
        form: How it is written.
        kind: A Struct; members of type Raw keep their bytes (JSON only).
        where: Put before field names in errors, such as ``jobs[1]``.

    Raises:
        MalformedRequest: It is not readable, repeats a key, or a value does not fit.
    """
    value = to_object(body, form)
    return convert(value, kind, where=where)


def convert(value: object, kind: type[T], *, where: str = "") -> T:
    """Fit decoded values into a Struct; floats without a fraction pass as integers, binary in UTF-8 as text."""
    try:
        return msgspec.convert(_eased(value), kind)
    except msgspec.ValidationError as error:
        raise worded(error, value, where) from None


def to_object(body: bytes, form: Format) -> object:
    """Decode a body into plain values, with repeated keys and unreadable text refused."""
    if form.is_json:
        check_text(body)
        check_bulk(body)
        return _json_object(body)
    at_once(counting(body, "the body", MAX_VALUES))
    value = unpacked(body)
    check_msgpack_keys(body, value)
    return value


def check_text(body: bytes) -> None:
    """Refuse JSON that is not UTF-8."""
    if not body.isascii():
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRequest(f"invalid JSON: not UTF-8 at byte {error.start}") from None


def check_bulk(body: bytes) -> None:
    """Refuse JSON with so many values that building them would hold up everybody else."""
    if len(body) > MAX_VALUES and count_values(body, MAX_VALUES) > MAX_VALUES:
        raise MalformedRequest(f"the body has more than {MAX_VALUES} values; expected fewer")


def check_beside(body: bytes, part: bytes) -> None:
    """Refuse a JSON object with so many members that to give each of them would take long.

    Args:
        body: A JSON text.
        part: The member that may hold very many values.
    """
    if len(body) - len(part) > MAX_VALUES and body.replace(part, b"", 1).count(b":") > MAX_VALUES:
        raise MalformedRequest(f"the body has more than {MAX_VALUES} members; expected fewer")


def malformed_json(error: Exception) -> MalformedRequest:
    """Word a decoder's complaint."""
    return MalformedRequest(f"invalid JSON: {reason_of(error)}")


def worded(error: msgspec.ValidationError, value: object, where: str) -> MalformedRequest:
    """Word a validation error: which field, what came (unless the value is UNSET), what was expected."""
    text, _, path = str(error).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").removeprefix(".")
    silent = value is msgspec.UNSET or "missing required field" in text
    came = "" if silent else _shown(_look_up(value, field))
    name = ".".join(part for part in (where, field) if part)
    text = text[:1].lower() + text[1:].replace("`", "")
    if came and not text.endswith(f", got {came}"):  # the library names the kind of what came, or nothing
        text = f"{text} {came}" if ", got " in text else f"{text}, got {came}"
    message = f"{name}: {text}" if name else text
    return MalformedRequest(message, field=name)


def to_show(body: bytes) -> object:
    """Decode a body for an error's sake; a long one is not worth it."""
    return to_object(body, JSON) if len(body) <= MAX_SHOWN else msgspec.UNSET


def _json_object(body: bytes) -> object:
    try:
        msgspec.json.Decoder(msgspec.Raw).decode(body)  # stricter than the standard library
        return json.loads(body, object_pairs_hook=_pairs)
    except Repeated as error:
        raise MalformedRequest(f"the key {error} is given twice; expected once", field=str(error)) from None
    except (*Unreadable, ValueError) as error:
        raise malformed_json(error) from None


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise Repeated(next(name for name in names if names.count(name) > 1))
    return found


def check_msgpack_keys(body: bytes, value: object) -> None:
    """A map tells how many pairs it has; fewer after decoding means that one was repeated."""
    if isinstance(value, dict) and msgpack_length(body) != len(value):
        raise MalformedRequest("a key is given twice; expected each once")


def msgpack_length(packed: bytes | msgspec.Raw) -> int:
    """Tell how many members a packed map or list says it has; 0 for anything else."""
    head = bytes(memoryview(packed)[:5])
    if not head:
        return 0
    if 0x80 <= head[0] <= 0x9F:
        return head[0] & 0x0F
    return int.from_bytes(head[1 : 1 + _LENGTH_BYTES.get(head[0], 0)], "big")


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
    """Follow a path such as ``jobs[0].backoff.base_ms`` into plain values."""
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            value = value[int(index)] if index else value[name]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _shown(value: object) -> str:
    text = json.dumps(value, default=lambda odd: type(odd).__name__)
    return text if len(text) <= 60 else text[:57] + "..."
