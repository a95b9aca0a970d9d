"""Which JSON payloads are refused though their syntax is right: too deep, or with a number beyond the largest float.

A payload may have many megabytes, so nothing here looks at it byte by byte in Python: it is cut into windows, and every step on a
window is one pass in C. Between two windows others may have their turn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Iterator
from itertools import accumulate

from anew.errors import MalformedRequest

MAX_DEPTH = 126
"""Levels of nesting in a payload, as Zizq's JSON; a document this deep has at least 2 * 126 brackets."""

MOST_DIGITS = 200
"""Digits of a number, or bytes of a payload, up to which it is in range unless its exponent has three digits: one of two is too
large from 210 digits on."""

WINDOW = 65_536
"""Bytes of a payload judged in one go: 0.2 ms for usual ones, 3 ms for nothing but brackets."""

_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
"""Makes all digits 0 and both letters of an exponent e, so that one look finds any number with an exponent."""
_RUN = b"0" * (MOST_DIGITS + 1)
_STRIDE = 64
_SAMPLED_RUN = b"0" * (MOST_DIGITS // _STRIDE)
_NUMBER = re.compile(rb"[0-9][0-9.]*+(?:[eE][+-]?[0-9]++)?")
_NUMBER_BYTES = b"0123456789.eE+-"
_STEPS = bytes.maketrans(b"[{]}", b"\1\1\xff\xff")
"""What a bracket adds to the level, as a signed byte."""
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")

large_exponent_in = re.compile(rb"e\+?[0-9]{3}").search
"""With a letter in front it runs from one such letter to the next, several times as fast as anything that looks at each byte."""


def judging(payload: bytes, field: str = "payload") -> Generator[None, None, None]:
    """Refuse valid JSON that nests too deeply, or has a number that nobody can hold, window by window."""
    deep, vast = yield from _looking(payload)
    if not (deep or vast):
        return
    level, inside, number = 0, False, b""
    for window in windows(payload):
        yield
        pieces = _without_escapes(window).split(b'"')
        outside = b'"'.join(pieces[inside::2])
        inside ^= len(pieces) % 2 == 0
        if deep:
            marks = memoryview(outside.translate(_STEPS, _NO_BRACKETS)).cast("b")
            levels = list(accumulate(marks, initial=level))
            if max(levels) > MAX_DEPTH:
                raise MalformedRequest(f"{field} nests more than {MAX_DEPTH} levels deep", field=field)
            level = levels[-1]
        if vast:
            text = number + outside
            whole = text.rstrip(_NUMBER_BYTES)
            _check_numbers(whole, field)
            number = text[len(whole) :]  # the rest of it may follow
            if len(number) > WINDOW:
                message = f"{field} has a number of more than {WINDOW} characters; send it as a string"
                raise MalformedRequest(message, field=field)
    _check_numbers(number, field)


def _looking(payload: bytes) -> Generator[None, None, tuple[bool, bool]]:
    """Say whether a payload has more opening brackets than levels allowed, and whether it may have a number out of range."""
    opening, vast = 0, False
    for at in range(0, len(payload), WINDOW):
        if at:
            yield
        window = payload[at : at + WINDOW + MOST_DIGITS]
        vast = vast or _looks_vast(window)
        if opening <= MAX_DEPTH:
            opening += window.count(b"[") + window.count(b"{")
    return opening > MAX_DEPTH, vast


def may_be_deep(text: bytes) -> bool:
    """Return whether there are more opening brackets than levels allowed, wherever they stand."""
    return text.count(b"[") + text.count(b"{") > MAX_DEPTH


def may_be_out_of_range(text: bytes) -> bool:
    """Return whether something in valid JSON looks like a number beyond the largest float: a large exponent or very many digits."""
    return _looks_vast(text) and _looks_vast(b'"'.join(_without_escapes(text).split(b'"')[::2]))


def _looks_vast(text: bytes) -> bool:
    sampled = text[::_STRIDE].translate(_SHAPE)
    if not (large_exponent_in(text) or b"E" in text or _SAMPLED_RUN in sampled):
        return False  # as nearly always, in a third of the time that the rest takes
    # Hexadecimal numbers in strings look so too.
    shape = text.translate(_SHAPE)
    return b"e000" in shape or b"e+000" in shape or _RUN in shape


def _check_numbers(text: bytes, field: str) -> None:
    if any(len(number) > 4 and math.isinf(float(number)) for number in _NUMBER.findall(text)):
        raise MalformedRequest(f"{field}: number out of range; expected one below 1.8e308", field=field)


def windows(text: bytes) -> Iterator[bytes]:
    """Cut valid JSON into windows, none of which ends within an escape."""
    at = 0
    while at < len(text):
        window = text[at : at + WINDOW]
        if (len(window) - len(window.rstrip(b"\\"))) % 2:
            window = text[at : at + len(window) + 1]
        at += len(window)
        yield window


def _without_escapes(text: bytes) -> bytes:
    """Take out escaped backslashes, then escaped quotes, so that every quote left begins or ends a string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
