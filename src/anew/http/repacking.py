"""Turns MessagePack payloads into JSON, which is what is stored.

Unlike JSON, which is kept as the bytes that came, a MessagePack payload is built as objects. So what it would cost is counted
first, in chunks; and what it holds is checked in chunks too.
"""

from __future__ import annotations

import contextlib
import math
import re
from itertools import chain, islice
from typing import Any

import msgspec

from anew.errors import MalformedRequest, TooLarge
from anew.http.embedded_json import LONG, collector_paused
from anew.http.formats import Format, Unreadable, reason_of
from anew.jobs.payload_limits import MAX_DEPTH, WINDOW
from anew.net.chunks import Work

MAX_DEPTH_MSGPACK = 8 * MAX_DEPTH

MAX_COST = 4_000_000
"""Values of one payload, a list or map counted `LIST_COST` times: some 0.1 s to build and to write."""

LIST_COST = 8

_SOME = 20_000
"""Values looked at in one go, some 2 ms."""

_JSON_KINDS = frozenset({type(None), bool, int, float, str, list, dict})

# One-byte values; then those whose first byte gives their length; then lists and maps of up to 15.
_TINY = re.compile(rb"[\x00-\x7f\xc0\xc2\xc3\xe0-\xff]{1,65536}")
_SIZED = re.compile(
    rb"(?:[\xcc\xd0].|[\xcd\xd1]..|[\xce\xd2\xca].{4}|[\xcf\xd3\xcb].{8}|"
    + b"|".join(b"%b.{%d}" % (re.escape(bytes([0xA0 + size])), size) for size in range(32))
    + rb"){1,4096}+",
    re.DOTALL,
)
_LISTS = re.compile(rb"[\x80-\x9f]{1,65536}")
_LONG_LISTS = {0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4}
"""By first byte: how many bytes hold the length of the text or binary that follows; an extension has its type in one more."""


def repacking(packed: bytes, max_bytes: int, field: str = "payload") -> Work[bytes]:
    """Write a MessagePack payload as JSON, in chunks.

    Args:
        packed: One value, whole.
        max_bytes: Bytes that the JSON may have.
        field: Its name in errors.

    Raises:
        TooLarge: The JSON is larger, or it has too many values.
        MalformedRequest: It holds binary, extension types, keys that are not text, NaN or infinity.
    """
    yield from _counting(packed, field)
    value = _unpacked(packed)
    if len(packed) > WINDOW:
        yield
    yield from _checking(value, max_bytes, field)
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise MalformedRequest(f"{field} cannot be stored: {reason_of(error)}", field=field) from None


def json_of(value: msgspec.Raw, form: Format, most: int, field: str) -> Work[bytes]:
    """Give a member of a body as JSON in one line, whatever the body is written in; see `repacking`."""
    text = bytes(value) if form.is_json else (yield from repacking(bytes(value), most, field))
    return text.translate(None, b"\r\n")  # in JSON, always white space


def _unpacked(packed: bytes) -> Any:
    """Decode MessagePack."""
    try:
        with collector_paused() if len(packed) > LONG else contextlib.nullcontext():
            return msgspec.msgpack.decode(packed)
    except (*Unreadable, ValueError) as error:
        raise MalformedRequest(f"invalid MessagePack: {reason_of(error)}") from None


def _counting(packed: bytes, field: str) -> Work[None]:
    """Refuse MessagePack with too many values; nothing is built, so that the refusal costs little."""
    if len(packed) <= WINDOW:
        return
    at = cost = steps = 0
    while at < len(packed):
        if found := _TINY.match(packed, at):
            cost += found.end() - at
            at = found.end()
        elif found := _SIZED.match(packed, at):
            # The longest has 32 bytes; of short ones too few are counted.
            cost += (found.end() - at) // 33 + 1
            at = found.end()
        elif found := _LISTS.match(packed, at):
            cost += LIST_COST * (found.end() - at)
            at = found.end()
        elif packed[at] in _LONG_LISTS:
            cost += LIST_COST
            at += _LONG_LISTS[packed[at]]
        else:
            cost += 1
            at += _length(packed, at)
        if cost > MAX_COST:
            counted = f"a list or map counted {LIST_COST} times"
            message = f"{field}: expected at most {MAX_COST} values in MessagePack, {counted}, got more"
            raise TooLarge(message, field=field)
        steps += 1
        if not steps % 500:
            yield


def _length(packed: bytes, at: int) -> int:
    """Give the length of text, binary or an extension, head included; what is cut short is found out in decoding."""
    kind = packed[at]
    if kind in _LENGTHS:
        width = _LENGTHS[kind]
        return 1 + width + int.from_bytes(packed[at + 1 : at + 1 + width], "big") + (0xC7 <= kind <= 0xC9)
    return 2 + (1 << (kind - 0xD4)) if 0xD4 <= kind <= 0xD8 else 1


def _checking(value: object, max_bytes: int, field: str) -> Work[None]:
    """Look level by level and some thousands of values at a time, each looked at in a few passes."""
    level: list[Any] = [[value]]
    seen = 0
    for _ in range(MAX_DEPTH_MSGPACK + 1):
        inner: list[Any] = []
        values = chain.from_iterable(map(_inside, level))
        while some := list(islice(values, _SOME)):
            _check_some(some, field)
            seen += len(some)
            if 2 * seen - 1 > max_bytes:  # a value has a character at least, and a comma or bracket beside it
                raise TooLarge(f"{field}: expected at most {max_bytes} bytes, got more", field=field)
            inner += [part for part in some if part and type(part) in (dict, list)]
            if len(some) == _SOME:
                yield
        names = chain.from_iterable(part for part in level if type(part) is dict)
        while keys := list(islice(names, _SOME)):
            if set(map(type, keys)) != {str}:
                name = next(name for name in keys if type(name) is not str)
                raise MalformedRequest(f"{field} has a key that is not text: {name!r:.60}", field=field)
            if len(keys) == _SOME:
                yield
        if not inner:
            return
        level = inner
    raise MalformedRequest(f"{field} nests more than {MAX_DEPTH_MSGPACK} levels deep", field=field)


def _inside(part: Any) -> Any:
    return part.values() if type(part) is dict else part


def _check_some(values: list[Any], field: str) -> None:
    kinds = set(map(type, values))
    if odd := kinds - _JSON_KINDS:
        name = min(kind.__name__ for kind in odd)
        raise MalformedRequest(f"{field} has a {name} value; expected what JSON can hold", field=field)
    if float in kinds:
        for number in values:
            if type(number) is float and not math.isfinite(number):
                raise MalformedRequest(f"{field} has the number {number}; expected a finite one", field=field)
