"""Judges payloads in time that grows with their length, whatever they hold.

A payload is anybody's text of many megabytes, so nothing here walks it in Python: every step is one pass in C, the number of
passes is bounded, and what still has too many brackets to be judged quickly is refused.
"""

from __future__ import annotations

import math
from itertools import accumulate, chain
from typing import Any

import msgspec

from anew.errors import MalformedRequest

MAX_DEPTH = 126
"""Levels of nesting in a payload, as Zizq's JSON; a document this deep has at least 2 * 126 brackets."""

MAX_DEPTH_MSGPACK = 8 * MAX_DEPTH

MOST_DIGITS = 64
HARMLESS_BYTES = 4_000
"""No number inside so short a text is long enough to cost its reader time, or to meet Python's bound of 4,300 digits."""

MAX_TANGLE = 2_000_000
"""Brackets, or quotes between brackets, that are looked at one by one, some 50 ns each; 30 MB of coordinates leave none."""

_SHORT = 16_384
_STRIDE = 16
_NO_MARKS = bytes(c for c in range(256) if c not in b'[]{}"')
_SQUARE = bytes.maketrans(b"{}", b"[]")
_SIGNED = bytes.maketrans(b"[]", b"\x01\xff")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * (MOST_DIGITS + 1)
_SAMPLED_LONG = b"0" * (len(_LONG) // _STRIDE)
_JSON_KINDS = frozenset({type(None), bool, int, float, str, list, dict})


def check_payload(payload: bytes, field: str = "payload") -> None:
    """Refuse valid JSON that nests too deeply, or has numbers that nobody can read."""
    if len(payload) <= 2 * MAX_DEPTH or is_harmless(payload):
        return
    if may_be_deep(payload) and depth(payload, field) > MAX_DEPTH:
        raise MalformedRequest(f"{field} nests more than {MAX_DEPTH} levels deep", field=field)
    if has_long_number(payload):
        raise MalformedRequest(
            f"{field} has a number of more than {MOST_DIGITS} digits; send it as a string", field=field
        )


def is_harmless(text: bytes) -> bool:
    """Tell at a glance whether there is neither depth nor a long number; a whole body may stand for its payload."""
    return not may_be_deep(text) and (len(text) <= HARMLESS_BYTES or not _may_have_long_number(text))


def may_be_deep(text: bytes) -> bool:
    """Tell whether there are more opening brackets than levels allowed, wherever they stand."""
    if len(text) <= _SHORT:
        return text.count(b"[") + text.count(b"{") > MAX_DEPTH
    found = 0
    for bracket in (b"[", b"{"):  # up to 127 finds: on megabytes several times as fast as a count
        at = text.find(bracket)
        while at >= 0 and found <= MAX_DEPTH:
            found += 1
            at = text.find(bracket, at + 1)
    return found > MAX_DEPTH


def depth(text: bytes, field: str = "payload") -> int:
    """Tell how deeply valid JSON nests.

    Brackets alone are left. As long as it makes them markedly fewer, innermost pairs are peeled off, a level at a time; the
    rest, which is deep or lopsided, is summed up bracket by bracket.

    Raises:
        MalformedRequest: The rest has more than `MAX_TANGLE` brackets.
    """
    skeleton = _without_strings(_without_escapes(text).translate(_SQUARE, _NO_MARKS), field)
    levels, size = 0, 2 * len(skeleton)
    while len(skeleton) <= size * 3 // 4:
        if not skeleton:
            return levels
        size = len(skeleton)
        skeleton = skeleton.replace(b"[]", b"")
        levels += 1
    _bound(len(skeleton), field)
    return levels + max(accumulate(memoryview(skeleton.translate(_SIGNED)).cast("b")))


def has_long_number(text: bytes) -> bool:
    """Tell whether valid JSON has a number with more than `MOST_DIGITS` digits in a row; strings may have them."""
    if len(text) <= HARMLESS_BYTES or not _may_have_long_number(text) or _LONG not in text.translate(_ZEROS):
        return False
    before = _without_escapes(text).translate(_ZEROS).split(_LONG)[:-1]
    return any(quotes % 2 == 0 for quotes in accumulate(piece.count(b'"') for piece in before))


def count_values(text: bytes, enough: int) -> int:
    """Estimate how many values valid JSON has, by its commas and opening brackets; exact only above `enough`."""
    found = _count_openings(text)
    if found <= enough:
        return found
    plain = _without_escapes(text)
    quotes = plain.count(b'"')
    return quotes // 4 if quotes > 4 * enough else _count_openings(b"".join(plain.split(b'"')[::2]))


def payload_from_msgpack(value: object, field: str = "payload") -> bytes:
    """Write a MessagePack payload as JSON, which is what is stored.

    Raises:
        MalformedRequest: It holds binary, extension types, keys that are not text, NaN or infinity.
    """
    _check_values(value, field)
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise MalformedRequest(f"{field} cannot be stored: {reason}", field=field) from None


def _may_have_long_number(text: bytes) -> bool:
    """Look at every 16th byte: 65 digits in a row show there as 4 or more."""
    return _SAMPLED_LONG in text[::_STRIDE].translate(_ZEROS)


def _without_escapes(text: bytes) -> bytes:
    """Take out escaped backslashes, then escaped quotes, so that every quote left begins or ends a string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


def _without_strings(skeleton: bytes, field: str) -> bytes:
    """Leave the brackets that stand outside strings.

    Two quotes side by side are an empty string, or end one and begin the next: either way they can go.
    """
    skeleton = skeleton.replace(b'""', b"")
    quotes = skeleton.count(b'"')
    if not quotes:
        return skeleton
    _bound(quotes, field)
    return b"".join(skeleton.split(b'"')[::2])


def _count_openings(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _bound(tangle: int, field: str) -> None:
    if tangle > MAX_TANGLE:
        raise MalformedRequest(
            f"{field} is too tangled: {tangle} brackets or quoted brackets; expected at most {MAX_TANGLE}",
            field=field,
        )


def _check_values(value: object, field: str) -> None:
    """Walk level by level, so that what a level holds is looked at in a few passes."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH_MSGPACK + 1):
        kinds = set(map(type, level))
        if odd := kinds - _JSON_KINDS:
            name = min(kind.__name__ for kind in odd)
            raise MalformedRequest(f"{field} has a {name} value; expected what JSON can hold", field=field)
        if float in kinds and not all(map(math.isfinite, _of(float, level))):
            number = next(number for number in _of(float, level) if not math.isfinite(number))
            raise MalformedRequest(f"{field} has the number {number}; expected a finite one", field=field)
        maps = _of(dict, level) if dict in kinds else []
        lists = _of(list, level) if list in kinds else []
        _bound(len(maps) + len(lists), field)
        if set(map(type, chain.from_iterable(maps))) - {str}:
            name = next(name for name in chain.from_iterable(maps) if type(name) is not str)
            raise MalformedRequest(f"{field} has a key that is not text: {name!r:.60}", field=field)
        level = list(chain(chain.from_iterable(map(dict.values, maps)), chain.from_iterable(lists)))
        if not level:
            return
    raise MalformedRequest(f"{field} nests more than {MAX_DEPTH_MSGPACK} levels deep", field=field)


def _of(kind: type, values: list[Any]) -> list[Any]:
    return [value for value in values if type(value) is kind]
