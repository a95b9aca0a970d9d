"""Judges payloads in time that grows with their length, whatever they hold.

A payload is anybody's text of many megabytes, so nothing here walks it in Python byte by byte: it is cut into windows, and every
step on a window is one pass in C. Between two windows others may have their turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, islice
from operator import add

from anew.errors import MalformedRequest
from anew.http.portions import Work

MAX_DEPTH = 126
"""Levels of nesting in a payload, as Zizq's JSON; a document this deep has at least 2 * 126 brackets."""

MOST_DIGITS = 64
HARMLESS_BYTES = 4_000
"""No number inside so short a text is long enough to cost its reader time, or to meet Python's bound of 4,300 digits."""

WINDOW = 65_536
"""Bytes of a payload judged in one go: 0.1 ms for usual ones, 1.5 ms for the worst."""

_SHORT = 16_384
_STRIDE = 16
_NO_MARKS = bytes(c for c in range(256) if c not in b'[]{}"')
_BITS = bytes.maketrans(b"[{]}", b"1100")
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * (MOST_DIGITS + 1)
_SAMPLED_LONG = b"0" * (len(_LONG) // _STRIDE)


def _steps(bits: int) -> list[int]:
    """Give the level after each of eight brackets, written as bits, counted from the level before them."""
    return list(accumulate(1 if bits >> place & 1 else -1 for place in range(7, -1, -1)))


_RISE = bytes(_steps(bits)[-1] & 0xFF for bits in range(256))
_PEAK = bytes(max(_steps(bits)) & 0xFF for bits in range(256))
"""By a byte that stands for eight brackets: where they end and the highest level among them, as signed bytes."""


def judging(payload: bytes, field: str = "payload") -> Work[None]:
    """Refuse valid JSON that nests too deeply, or has numbers that nobody can read, window by window."""
    nested = may_be_deep(payload)
    numbers = len(payload) > HARMLESS_BYTES and _may_have_long_number(payload)
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
        yield


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
        numbers: Look for long numbers.

    Attributes:
        deepest: The most levels so far.
        long_number: A number of more than `MOST_DIGITS` digits in a row has been met; strings may have them.
    """

    def __init__(self, *, nested: bool = True, numbers: bool = True) -> None:
        self.deepest = 0
        self.long_number = False
        self._nested = nested
        self._numbers = numbers
        self._level = 0
        self._in_string = False
        self._last_digits = b""

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
        """Look for digits in a row, also across the border to the window before, outside strings."""
        digits = self._last_digits + plain.translate(_ZEROS)
        if _LONG in digits:
            before = digits.split(_LONG)[:-1]
            started = self._in_string ^ (self._last_digits.count(b'"') % 2)
            quotes = accumulate((piece.count(b'"') for piece in before), initial=started)
            self.long_number = any(count % 2 == 0 for count in islice(quotes, 1, None))
        self._last_digits = digits[-MOST_DIGITS:]


def count_values(text: bytes, enough: int) -> int:
    """Estimate how many values valid JSON has, by its commas and opening brackets; exact only above `enough`."""
    found = _count_openings(text)
    if found <= enough:
        return found
    plain = _without_escapes(text)
    quotes = plain.count(b'"')
    return quotes // 4 if quotes > 4 * enough else _count_openings(b"".join(plain.split(b'"')[::2]))


def _may_have_long_number(text: bytes) -> bool:
    """Look at every 16th byte: 65 digits in a row show there as 4 or more."""
    return _SAMPLED_LONG in text[::_STRIDE].translate(_ZEROS)


def _without_escapes(text: bytes) -> bytes:
    """Take out escaped backslashes, then escaped quotes, so that every quote left begins or ends a string."""
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


def _count_openings(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
