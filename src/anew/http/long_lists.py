"""Reads the one list of a bulk's body piece by piece, so that others have their turn between two pieces.

Where one member of a JSON array ends and the next begins is guessed by the look of the first member's first key, and proved by
decoding: a piece that, put in brackets, is valid JSON ends where a member ends, because a JSON text can be read in one way only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import msgspec

from anew.errors import MalformedRequest, TooLarge
from anew.http.bodies import check_text, malformed, worded
from anew.http.chunks import Work
from anew.http.formats import JSON, MSGPACK, Format, Unreadable

T = TypeVar("T")

Read = Callable[[bytes, int], Work[list[T]]]
"""Reads one piece: called with an array of some members, in the body's format, and the place of the first of them in the list."""

LONG_LIST = 32 << 10
"""Bytes of a body up to which its list is read at once: a member that has to be read by itself takes some 35 us whatever its
length, and 256 KiB can hold 10,000 of them."""

PIECE = 128 << 10
"""Bytes of a piece of JSON, unless one member has more."""

LONG_PIECE = 3 * PIECE
"""More bytes than a piece has but for long members, or where no end of a member was found."""

PACKED_PIECE = 100
"""Members of a piece of MessagePack."""

_TRIES = 3
_MAX_TAIL = 64
_TAIL = re.compile(rb"\][ \t\r\n]*\}[ \t\r\n]*\Z")
_FIRST_KEY = re.compile(rb'\[[ \t\r\n]*(\{[ \t\r\n]*"[^"\\]{1,64}")')
_LENGTH_BYTES = {0xDC: 2, 0xDD: 4}
"""By the first byte of a long list in MessagePack: how many bytes say its length."""


class _Enough(Exception):
    """More members have been counted than the list may have."""


class _Counted(msgspec.Struct):
    """Stands for any object in an array; what it holds is passed over."""

    left: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _Counted.left -= 1
        if not _Counted.left:
            raise _Enough


_counted = msgspec.json.Decoder(list[_Counted])
_json_members = msgspec.json.Decoder(list[msgspec.Raw])
_packed_members = msgspec.msgpack.Decoder(list[msgspec.Raw])


def reading_list(body: bytes, form: Format, name: str, most: int, read: Read[T]) -> Work[list[T]]:
    """Read the list that a body holds.

    Args:
        body: An object with that list; of a repeated key the last one counts.
        form: How it is written.
        name: The list's key.
        most: Members that it may have.
        read: Reads a piece of it; it may be called again from the first member on, where the end of the list was guessed wrong.

    Raises:
        MalformedRequest: There is no such list, or what `read` raises.
        TooLarge: It has more members.
    """
    if form is not JSON:
        return (yield from _read_packed(body, name, most, read))
    guess = _array_guessed(body, name)
    if guess is not None:
        try:
            return (yield from _read_array(body, guess, name, most, read))
        except Unreadable:
            pass  # the guess was wrong, or the body is no JSON: what follows finds out which
    text = _array_of(body, name)
    try:
        return (yield from _read_array(text, slice(0, len(text)), name, most, read))
    except Unreadable as error:
        raise malformed(error, JSON) from None


def members_of(piece: bytes, form: Format) -> list[msgspec.Raw]:
    """Give the members of a piece, each as it stands there."""
    return (_json_members if form is JSON else _packed_members).decode(piece)


def check_count(name: str, count: int, most: int) -> None:
    """Refuse a list with more members than it may have."""
    if count > most:
        got = f"{count}" if count < enough_to_refuse(most) else f"{count} or more"
        raise TooLarge(f"{name}: expected at most {most} in one request, got {got}", field=name)


def enough_to_refuse(most: int) -> int:
    """Give how many members are counted at most, where a list may have so many."""
    return 2 * most + 1_000


def packed_length(packed: bytes | msgspec.Raw) -> int:
    """Give how many members a packed list says it has; 0 for anything else."""
    head = bytes(memoryview(packed)[:5])
    if not head:
        return 0
    if 0x90 <= head[0] <= 0x9F:
        return head[0] & 0x0F
    return int.from_bytes(head[1 : 1 + _LENGTH_BYTES.get(head[0], 0)], "big")


def list_in(body: bytes, form: Format, name: str) -> bytes:
    """Give the text of a body's list.

    Raises:
        MalformedRequest: The body is no object with such a list.
    """
    try:
        found = bytes(_holder(name, form.is_json).decode(body).listed)
    except msgspec.ValidationError as error:
        raise worded(error, msgspec.UNSET) from None
    except Unreadable as error:
        raise malformed(error, form) from None
    is_list = (
        found.startswith(b"[") if form.is_json else 0x90 <= found[0] <= 0x9F or found[0] in _LENGTH_BYTES
    )
    if not is_list:
        got = f", got {found[:60].decode(errors='replace')}" if form.is_json else ""
        raise MalformedRequest(f"{name}: expected array{got}", field=name)
    return found


@lru_cache(maxsize=16)
def _holder(name: str, is_json: bool) -> Any:
    holder = msgspec.defstruct("Holder", [("listed", msgspec.Raw)], rename={"listed": name})
    return (msgspec.json if is_json else msgspec.msgpack).Decoder(holder)


def _read_packed(body: bytes, name: str, most: int, read: Read[T]) -> Work[list[T]]:
    listed = list_in(body, MSGPACK, name)
    check_count(name, packed_length(listed), most)  # before anything is built
    members = members_of(listed, MSGPACK)
    found: list[T] = []
    for at in range(0, len(members), PACKED_PIECE):
        some = members[at : at + PACKED_PIECE]
        piece = b"\xdc" + len(some).to_bytes(2, "big") + b"".join(map(bytes, some))
        found += yield from read(piece, at)
        yield
    return found


def _read_array(text: bytes, where: slice, name: str, most: int, read: Read[T]) -> Work[list[T]]:
    found: list[T] = []
    for piece in _pieces_of(text, where):
        if len(piece) > LONG_PIECE:
            _check_few(piece, len(found), name, most)
            yield
        more = yield from read(piece, len(found))
        if len(found) + len(more) > most:
            _check_few(text[where], 0, name, most)
        found += more
        yield
    return found


def _array_guessed(body: bytes, name: str) -> slice | None:
    """Give where a bulk's list stands by the look of the body's ends; None if they are not as usual.

    The body is what it seems to be if the text there can be decoded.
    """
    head = re.match(rb'[ \t\r\n]*\{[ \t\r\n]*"%b"[ \t\r\n]*:[ \t\r\n]*(?=\[)' % name.encode(), body)
    tail = _TAIL.search(body, max(len(body) - _MAX_TAIL, 0))
    if head is None or tail is None or tail.start() < head.end():
        return None
    return slice(head.end(), tail.start() + 1)


def _array_of(body: bytes, name: str) -> bytes:
    check_text(body)
    return list_in(body, JSON, name)


def _check_few(text: bytes, first: int, name: str, most: int) -> None:
    """Refuse a long array of too many objects, or of what is none; nothing is kept, so that the refusal costs little.

    Args:
        text: The array.
        first: Place of its first member in the list.
        name: The list's key.
        most: Members that the list may have.
    """
    if text.count(b",") < most - first:
        return  # so there cannot be too many; nearly all long arrays are long by few long members
    _Counted.left = left = max(enough_to_refuse(most) - first, 1)
    try:
        _counted.decode(text)
    except _Enough:
        pass
    except msgspec.ValidationError:
        at = first + left - _Counted.left
        raise MalformedRequest(f"{name}[{at}]: expected object", field=f"{name}[{at}]") from None
    check_count(name, first + left - _Counted.left, most)


def _pieces_of(text: bytes, where: slice) -> Iterator[bytes]:
    """Cut the array that stands somewhere in a text into arrays of whole members; all but the last are proved to be valid."""
    key = _FIRST_KEY.match(text, where.start, where.stop)
    at = where.start + 1
    while key is not None and where.stop - at > 2 * PIECE:
        cut = _cut(text, at, where.stop, key.group(1))
        if cut is None:
            break
        piece, at = cut
        yield piece
    # A short list is copied once, not twice.
    yield text[where] if at == where.start + 1 else b"[" + text[at : where.stop]


def _cut(text: bytes, at: int, end: int, key: bytes) -> tuple[bytes, int] | None:
    """Give the next piece and where the one behind it begins; None if no end of a member is found."""
    start = at + PIECE
    for _ in range(_TRIES):
        start = text.find(key, start, end)
        if start < 0:
            return None
        members = text[at:start].rstrip(b" \t\r\n")
        piece = b"[%b]" % members[:-1]
        try:
            if not members.endswith(b","):  # nor may one be missing between two members
                raise msgspec.DecodeError
            _json_members.decode(piece)
        except Unreadable:
            start += len(key)
        else:
            return piece, start
    return None
