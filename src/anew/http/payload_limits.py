"""Which JSON payloads are refused though their syntax is right: too deep, or with numbers that no reader can hold.

A payload may have many megabytes, so nothing here looks at it byte by byte in Python: it is cut into windows, and every step on a
window is one pass in C. Between two windows others may have their turn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import accumulate
from operator import add

from anew.errors import MalformedRequest
from anew.http.chunks import Work

MAX_DEPTH = 126
"""Levels of nesting in a payload, as Zizq's JSON; a document this deep has at least 2 * 126 brackets."""

MOST_DIGITS = 64
HARMLESS_BYTES = 4_000
"""No number inside so short a text is long enough to cost its reader time, or to meet Python's bound of 4,300 digits."""

WINDOW = 65_536
"""Bytes of a payload judged in one go: 0.2 ms for usual ones, 1.5 ms for the worst."""

_SHORT = 16_384
_STRIDE = 16
_NO_MARKS = bytes(c for c in range(256) if c not in b'[]{}"')
_BITS = bytes.maketrans(b"[{]}", b"1100")
_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
"""Makes all digits 0 and both letters of an exponent e, so that one look finds any number with an exponent."""
_LONG = b"0" * (MOST_DIGITS + 1)
_SAMPLED_LONG = b"0" * (len(_LONG) // _STRIDE)
_VAST_DIGITS = 309
"""An integer of so many digits is beyond the largest float, which is 1.8e308; one of fewer digits has an exponent."""
_VAST_STRIDE = 64
_SAMPLED_VAST = b"0" * (_VAST_DIGITS // _VAST_STRIDE)
exponent_in = re.compile(rb"e[0-9+]").search
large_exponent_in = re.compile(rb"e\+?[0-9]{3}").search
_upper_exponent_in = re.compile(rb"E[0-9+]").search
"""With a letter in front they run from one such letter to the next, several times as fast as anything that looks at each byte."""
_NUMBER = re.compile(rb"[0-9][0-9.]*+(?:[eE][+-]?[0-9]++)?")
_NUMBER_BYTES = b"0123456789.eE+-"
_CARRY = 4 * MOST_DIGITS
"""No number is longer in which no digits stand in a row too long: integer, fraction and exponent have 64 each."""


def _steps(bits: int) -> list[int]:
    """Give the level after each of eight brackets, written as bits, counted from the level before them."""
    return list(accumulate(1 if bits >> place & 1 else -1 for place in range(7, -1, -1)))


_RISE = bytes(_steps(bits)[-1] & 0xFF for bits in range(256))
_PEAK = bytes(max(_steps(bits)) & 0xFF for bits in range(256))
"""By a byte that stands for eight brackets: where they end and the highest level among them, as signed bytes."""


def judging(payload: bytes, field: str = "payload") -> Work[None]:
    """Refuse valid JSON that nests too deeply, or has a number that nobody can hold, window by window."""
    if len(payload) <= HARMLESS_BYTES:
        numbers = False
        if may_be_out_of_range(payload) and _is_out_of_range(outside_strings(payload)):
            raise _out_of_range(field)
    else:
        numbers = _may_have_long_number(payload) or (yield from _finding_exponent(payload))
    nested = may_be_deep(payload)
    if not (nested or numbers):
        return
    yield
    scan = Scan(nested=nested, numbers=numbers)
    for window in windows(payload):
        scan.see(window)
        if scan.deepest > MAX_DEPTH:
            raise MalformedRequest(f"{field} nests more than {MAX_DEPTH} levels deep", field=field)
        if scan.long_number:
            raise MalformedRequest(
                f"{field} has a number of more than {MOST_DIGITS} digits; send it as a string", field=field
            )
        if scan.out_of_range:
            raise _out_of_range(field)
        yield


def may_be_out_of_range(text: bytes) -> bool:
    """Return whether something looks like a number beyond the largest float: a large exponent or very many digits.

    Some 0.2 us for a short text and 0.2 ms for 64 KiB; hexadecimal numbers in strings look so too.
    """
    if exponent_in(text) or (b"E" in text and _upper_exponent_in(text)):
        shape = text.translate(_SHAPE)
        if b"0e0" in shape or b"0e+" in shape:
            return True
    return len(text) >= _VAST_DIGITS and _SAMPLED_VAST in text[::_VAST_STRIDE].translate(_SHAPE)


def outside_strings(text: bytes) -> bytes:
    """Give what stands between the strings of valid JSON, a quote for each string."""
    return b'"'.join(_without_escapes(text).split(b'"')[::2])


def _is_out_of_range(outside: bytes) -> bool:
    """Return whether one of the numbers in a text without strings is beyond the largest float."""
    return any(math.isinf(float(number)) for number in _NUMBER.findall(outside) if len(number) > 4)


def _out_of_range(field: str) -> MalformedRequest:
    return MalformedRequest(f"{field}: number out of range; expected one below 1.8e308", field=field)


def _finding_exponent(payload: bytes) -> Work[bool]:
    """Return whether some part of a long payload looks like a number with a large exponent."""
    if b"e" not in payload and b"E" not in payload:
        return False
    for at in range(0, len(payload), WINDOW):
        if may_be_out_of_range(payload[at : at + WINDOW + 2]):
            return True
        if at + WINDOW < len(payload):
            yield
    return False


def may_be_deep(text: bytes) -> bool:
    """Return whether there are more opening brackets than levels allowed, wherever they stand."""
    if len(text) <= _SHORT:
        return text.count(b"[") + text.count(b"{") > MAX_DEPTH
    found = 0
    for bracket in (b"[", b"{"):  # up to 127 finds: on megabytes several times as fast as a count
        at = text.find(bracket)
        while at >= 0 and found <= MAX_DEPTH:
            found += 1
            at = text.find(bracket, at + 1)
    return found > MAX_DEPTH


def windows(text: bytes, size: int = WINDOW) -> Iterator[bytes]:
    """Cut valid JSON into windows, none of which ends within an escape."""
    at = 0
    while at < len(text):
        window = text[at : at + size]
        if (len(window) - len(window.rstrip(b"\\"))) % 2:
            window = text[at : at + len(window) + 1]
        at += len(window)
        yield window


class Scan:
    """What is known about valid JSON after some of its windows.

    Args:
        nested: Look for depth.
        numbers: Look for long numbers and for those out of range.

    Attributes:
        deepest: The most levels so far.
        long_number: A number of more than `MOST_DIGITS` digits in a row has been met; strings may have them.
        out_of_range: A number beyond the largest float has been met.
    """

    def __init__(self, *, nested: bool = True, numbers: bool = True) -> None:
        self.deepest = 0
        self.long_number = self.out_of_range = False
        self._nested = nested
        self._numbers = numbers
        self._level = 0
        self._in_string = False
        self._carried = b""

    def see(self, window: bytes) -> None:
        """Take in the next window."""
        plain = _without_escapes(window)
        if self._numbers:
            self._look_for_numbers(plain)
        if self._nested:
            self._climb(plain.translate(_BITS, _NO_MARKS))
        elif plain.count(b'"') % 2:
            self._in_string = not self._in_string

    def _climb(self, marks: bytes) -> None:
        """Follow the levels: marks are 1 for an opening bracket, 0 for a closing one, and quotes.

        Two quotes side by side are an empty string, or end one and begin the next: either way they can go.
        """
        pieces = marks.replace(b'""', b"").split(b'"')
        bits = b"".join(pieces[self._in_string :: 2])
        if len(pieces) % 2 == 0:
            self._in_string = not self._in_string
        if bits:
            spare = -len(bits) % 8
            # Brackets that close make up the last byte: they change no peak, and the level after them is corrected.
            packed = int(bits + b"0" * spare, 2).to_bytes((len(bits) + spare) // 8, "big")
            levels = list(accumulate(memoryview(packed.translate(_RISE)).cast("b"), initial=self._level))
            peak = max(map(add, levels, memoryview(packed.translate(_PEAK)).cast("b")))
            self.deepest = max(self.deepest, peak)
            self._level = levels[-1] + spare

    def _look_for_numbers(self, plain: bytes) -> None:
        """Look at the numbers outside strings, those too that began in the window before."""
        text = self._carried + plain
        shape = text.translate(_SHAPE)
        if _LONG in shape or b"0e0" in shape or b"0e+" in shape:
            began_in_string = self._in_string ^ (self._carried.count(b'"') % 2)
            outside = b'"'.join(text.split(b'"')[began_in_string::2])
            self.long_number = _LONG in outside.translate(_SHAPE)
            self.out_of_range = not self.long_number and _is_out_of_range(outside)
        # A number of which only the end would be carried has been looked at whole.
        self._carried = text if len(text) <= _CARRY else text[-_CARRY:].lstrip(_NUMBER_BYTES)


def _may_have_long_number(text: bytes) -> bool:
    """Look at every 16th byte: 65 digits in a row show there as 4 or more."""
    return _SAMPLED_LONG in text[::_STRIDE].translate(_SHAPE)


def _without_escapes(text: bytes) -> bytes:
    """Take out escaped backslashes, then escaped quotes, so that every quote left begins or ends a string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
