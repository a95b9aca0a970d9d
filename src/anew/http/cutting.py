"""Cuts the array of a bulk into pieces of whole jobs, so that a long one can be read in portions.

Where one job ends and the next begins is guessed by the look of the first job's first key, and proved by decoding: a piece that,
put in brackets, is valid JSON ends where a job ends, because a JSON text can be read in one way only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from anew.http.bodies import check_text, malformed_json, to_show, worded
from anew.http.carefully import check_repeats

PIECE = 128 << 10
"""Bytes of a piece, unless one job has more."""

_TRIES = 3

_HEAD = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"jobs"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
_TAIL = re.compile(rb"\][ \t\r\n]*\}[ \t\r\n]*\Z")
_FIRST_KEY = re.compile(rb'\[[ \t\r\n]*(\{[ \t\r\n]*"[^"\\]{1,64}")')
_MAX_TAIL = 64


Unreadable = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for a text that is no JSON, is not UTF-8, or nests too deeply."""


class _RawBulk(msgspec.Struct):
    jobs: list[msgspec.Raw]


_raw_bulk = msgspec.json.Decoder(_RawBulk)
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])


def array_guessed(body: bytes) -> slice | None:
    """Tell where a bulk's jobs stand by the look of the body's ends; None if they are not as usual.

    The body is what it seems to be if the text there can be decoded.
    """
    head = _HEAD.match(body)
    tail = _TAIL.search(body, max(len(body) - _MAX_TAIL, 0))
    if head is None or tail is None or tail.start() < head.end():
        return None
    return slice(head.end(), tail.start() + 1)


def array_of(body: bytes) -> bytes:
    """Give the text of a bulk's jobs by decoding the body.

    Raises:
        MalformedRequest: The body is no object with such a member, or repeats a key.
    """
    check_text(body)
    try:
        _raw_bulk.decode(body)
        parts = _raw_object.decode(body)
    except msgspec.ValidationError as error:
        raise worded(error, to_show(body), "") from None
    except Unreadable as error:
        raise malformed_json(error) from None
    check_repeats(body, parts)
    return bytes(parts["jobs"])


def count_of(text: bytes) -> int:
    """Count the members of an array."""
    return len(_raw_list.decode(text))


def pieces_of(text: bytes, where: slice) -> Iterator[bytes]:
    """Cut the array that stands somewhere in a text into arrays of whole members; all but the last are proved to be valid."""
    key = _FIRST_KEY.match(text, where.start, where.stop)
    at = where.start + 1
    while key is not None and where.stop - at > 2 * PIECE:
        cut = _cut(text, at, where.stop, key.group(1))
        if cut is None:
            break
        piece, at = cut
        yield piece
    yield b"[" + text[at : where.stop]


def _cut(text: bytes, at: int, end: int, key: bytes) -> tuple[bytes, int] | None:
    """Give the next piece and where the one behind it begins; None if no end of a job is found."""
    start = at + PIECE
    for _ in range(_TRIES):
        start = text.find(key, start, end)
        if start < 0:
            return None
        piece = b"[%b]" % text[at:start].rstrip(b" \t\r\n").removesuffix(b",")
        try:
            _raw_list.decode(piece)
        except Unreadable:
            start += len(key)
        else:
            return piece, start
    return None
