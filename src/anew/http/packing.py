"""Translates long JSON to MessagePack in chunks: built in one go, 30 MiB of small lists would stop everything for two seconds.

Lists and maps that are longer than a window are entered; of what fits into one, as many whole members as possible are translated
together. Such a list has the longest kind of header, since its length is known at its end only. All else is as `to_msgpack` has it,
but that a key that comes twice in a map longer than a window may stand there twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate

from msgspec import Raw

from anew.http.embedded_json import LONG, Embedded, to_msgpack
from anew.http.render import ShownJob
from anew.net.chunks import Work

WINDOW = 32 << 10
"""Bytes looked at in one go: some 2 ms, and as much again to translate them if they are nothing but empty lists."""

_space = re.compile(rb"[ \t\r\n]{0,%d}" % WINDOW)
_plain = re.compile(rb"[^,\]} \t\r\n]+")
_STEPS = bytes({0x5B: 1, 0x7B: 1, 0x5D: 255, 0x7D: 255}.get(byte, 0) for byte in range(256))
"""What a bracket adds to the level, as a signed byte."""

_HEADERS = {0xDC: 3, 0xDE: 3, 0xDD: 5, 0xDF: 5}


def is_long(jobs: Iterable[ShownJob]) -> bool:
    """Say whether jobs have payloads that together are too long to be translated at once."""
    return sum(len(job.payload.json) for job in jobs if isinstance(job.payload, Embedded)) > LONG


def packing_payloads(jobs: Iterable[ShownJob]) -> Work[None]:
    """Translate the payloads of shown jobs, so that a MessagePack answer takes them as they are."""
    for job in jobs:
        if isinstance(job.payload, Embedded):
            job.payload = Raw((yield from packing(job.payload.json)))
            yield


class _Open:
    """A list or map that has been entered: where its header stands, and its members so far."""

    __slots__ = ("count", "header", "is_map")

    def __init__(self, header: int, is_map: bool) -> None:
        self.header = header
        self.is_map = is_map
        self.count = 0


def packing(text: bytes) -> Work[bytes]:
    """Translate valid JSON to MessagePack."""
    if len(text) <= WINDOW:
        return to_msgpack(text)
    out = bytearray()
    entered: list[_Open] = []
    at = yield from _enter_or_copy(text, (yield from _skip(text, 0)), out, entered)
    while entered:
        yield
        inner = entered[-1]
        end, closed = _whole_members(text, at)
        if end > at:
            _copy_members(text[at:end], inner, out)
        elif not closed:
            if inner.is_map:
                end = yield from _string_end(text, at)
                out += to_msgpack(text[at:end])
                colon = yield from _skip(text, end)
                at = yield from _skip(text, colon + 1)
            inner.count += 1
            end = yield from _enter_or_copy(text, at, out, entered)
        at = yield from _skip(text, end)
        if entered[-1] is inner:
            while entered and text[at : at + 1] in (b"]", b"}"):
                _leave(out, entered)
                at = yield from _skip(text, at + 1)
        if text[at : at + 1] == b",":
            at = yield from _skip(text, at + 1)
    return bytes(out)


def _enter_or_copy(text: bytes, at: int, out: bytearray, entered: list[_Open]) -> Work[int]:
    """Enter the list or map that begins there, or translate the plain value; give where to go on."""
    first = text[at : at + 1]
    if first in (b"[", b"{"):
        entered.append(_Open(len(out), first == b"{"))
        out += b"\xdf\0\0\0\0" if first == b"{" else b"\xdd\0\0\0\0"
        return (yield from _skip(text, at + 1))
    if first == b'"':
        end = yield from _string_end(text, at)
    else:
        found = _plain.match(text, at)
        assert found is not None
        end = found.end()
    out += to_msgpack(text[at:end])
    return end


def _leave(out: bytearray, entered: list[_Open]) -> None:
    """Write the length of the list or map that ends."""
    done = entered.pop()
    out[done.header + 1 : done.header + 5] = done.count.to_bytes(4, "big")


def _copy_members(members: bytes, inner: _Open, out: bytearray) -> None:
    packed = to_msgpack(b"{%b}" % members if inner.is_map else b"[%b]" % members)
    header = _HEADERS.get(packed[0], 1)
    inner.count += packed[0] & 0x0F if header == 1 else int.from_bytes(packed[1:header], "big")
    out += memoryview(packed)[header:]


def _whole_members(text: bytes, at: int) -> tuple[int, bool]:
    """Find the members of a list or map that end within a window.

    Args:
        text: Valid JSON.
        at: Where a member begins, or the list or map ends.

    Returns:
        Where the last of them ends (`at` if there is none), and whether that is the end of them all.
    """
    pieces = _masked(text[at : at + WINDOW]).split(b'"')
    pieces[1::2] = [bytes(len(piece)) for piece in pieces[1::2]]
    outside = b'"'.join(pieces)
    levels = list(accumulate(memoryview(outside.translate(_STEPS)).cast("b")))
    if -1 in levels:
        return at + levels.index(-1), True
    comma = outside.rfind(b",")
    while comma >= 0 and levels[comma]:
        comma = outside.rfind(b",", 0, comma)
    return at + max(comma, 0), False


def _string_end(text: bytes, at: int) -> Work[int]:
    """Find the end of the string that begins there."""
    at += 1
    while True:
        window = text[at : at + WINDOW]
        if (len(window) - len(window.rstrip(b"\\"))) % 2:  # no window ends within an escape
            window = text[at : at + len(window) + 1]
        quote = _masked(window).find(b'"')
        if quote >= 0:
            return at + quote + 1
        at += len(window)
        yield


def _masked(window: bytes) -> bytes:
    """Overwrite escaped backslashes, then escaped quotes, so that every quote left begins or ends a string."""
    return window.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in window else window


def _skip(text: bytes, at: int) -> Work[int]:
    """Find the end of the white space that begins there, if any does."""
    while True:
        found = _space.match(text, at)
        assert found is not None
        if found.end() - at < WINDOW:
            return found.end()
        at = found.end()
        yield
