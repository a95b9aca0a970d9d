"""Cuts the array of a bulk into pieces of whole jobs, so that a long one can be read in portions.

Where one job ends and the next begins is guessed by the look of the first job's first key, and proved by decoding: a piece that,
put in brackets, is valid JSON ends where a job ends, because a JSON text can be read in one way only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from anew.errors import MalformedRequest
from anew.http.bodies import check_beside, check_text, malformed_json, to_show, worded
from anew.http.carefully import check_repeats
from anew.http.formats import Unreadable
from anew.http.jobrules import check_count, enough_to_refuse

PIECE = 128 << 10
"""Bytes of a piece, unless one job has more."""

LONG_PIECE = 3 * PIECE
"""More bytes than a piece has but for long jobs, or where no end of a job was found."""

_TRIES = 3

_HEAD = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"jobs"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
_TAIL = re.compile(rb"\][ \t\r\n]*\}[ \t\r\n]*\Z")
_FIRST_KEY = re.compile(rb'\[[ \t\r\n]*(\{[ \t\r\n]*"[^"\\]{1,64}")')
_MAX_TAIL = 64


class _Bulk(msgspec.Struct):
    jobs: msgspec.Raw


class _Enough(Exception):
    """So many members have been met that no more need be."""


class _Met(msgspec.Struct):
    """Stands for any object in an array; what it holds is passed over."""

    left: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _Met.left -= 1
        if not _Met.left:
            raise _Enough


_bulk = msgspec.json.Decoder(_Bulk)
_array_of_any = msgspec.json.Decoder(list[msgspec.Raw])
_met = msgspec.json.Decoder(list[_Met])
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


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
        jobs = bytes(_bulk.decode(body).jobs)
        check_beside(body, jobs)
        parts = _raw_object.decode(body)
    except msgspec.ValidationError as error:
        raise worded(error, to_show(body), "") from None
    except Unreadable as error:
        raise malformed_json(error) from None
    check_repeats(body, parts)
    if not jobs.startswith(b"["):
        raise MalformedRequest(
            f"jobs: expected array, got {jobs[:60].decode(errors='replace')}", field="jobs"
        )
    return jobs


def check_few(text: bytes, first: int, max_jobs: int) -> None:
    """Refuse a long array of too many jobs, or of what is none; nothing is kept, so that the refusal costs little.

    Args:
        text: The array.
        first: Place of its first job in the bulk.
        max_jobs: Jobs that the bulk may have.
    """
    if text.count(b",") < max_jobs - first:
        return  # so there cannot be too many; nearly all long arrays are long by few long jobs
    _Met.left = left = max(enough_to_refuse(max_jobs) - first, 1)
    try:
        _met.decode(text)
    except _Enough:
        pass
    except msgspec.ValidationError:
        at = first + left - _Met.left
        raise MalformedRequest(f"jobs[{at}]: expected object", field=f"jobs[{at}]") from None
    check_count(first + left - _Met.left, max_jobs)


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
        jobs = text[at:start].rstrip(b" \t\r\n")
        piece = b"[%b]" % jobs[:-1]
        try:
            if not jobs.endswith(b","):  # nor may one be missing between two jobs
                raise msgspec.DecodeError
            _array_of_any.decode(piece)
        except Unreadable:
            start += len(key)
        else:
            return piece, start
    return None
