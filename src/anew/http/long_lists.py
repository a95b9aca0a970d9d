"""Reads the one list of a bulk's body, some members in one go, so that others have their turn in between."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import msgspec

from anew.errors import MalformedRequest, TooLarge
from anew.http.bodies import check_text, malformed, worded
from anew.http.formats import JSON, Format, Unreadable
from anew.http.replies import answering
from anew.net.chunks import Chunks, Work, at_once
from anew.net.seam import Request

T = TypeVar("T")

Read = Callable[[bytes, int], Work[list[T]]]
"""Reads one piece: called with an array of some members, in the body's format, and the place of the first of them in the list."""

LONG_LIST = 32 << 10
"""Bytes of a body up to which its list is read at once: a member that has to be read by itself takes some 35 us whatever its
length, and 256 KiB can hold 10,000 of them."""

PIECE = 128 << 10
"""Bytes of what is read in one go, unless one member has more."""

SCANNED = 1 << 20
"""Bytes of a body that are looked at in one go, some 1 ms."""

PIECE_MEMBERS = 1_000
"""Members that are read in one go, of JSON."""

PACKED_MEMBERS = 100
"""The same of MessagePack, of which each member is translated."""

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
        read: Reads a piece of it.

    Raises:
        MalformedRequest: There is no such list, or what `read` raises.
        TooLarge: It has more members.
    """
    if form is JSON and not body.isascii():
        yield from _checking_text(body)
    listed = list_in(body, form, name)
    if form is JSON:
        # So many commas are usual in as many objects as may be there, and so many objects cost little to build.
        if (yield from _commas_in(body)) > 20 * most:
            _check_few(listed, name, most)
    else:
        check_count(name, packed_length(listed), most)  # before anything is built
    found: list[T] = []
    if form is JSON and len(listed) <= PIECE:
        found = yield from read(bytes(listed), 0)
        check_count(name, len(found), most)
        return found
    yield
    members = members_of(listed, form)
    check_count(name, len(members), most)
    yield
    for piece in _pieces(members, form):
        found += yield from read(piece, len(found))
        yield
    return found


def read_long(
    work: Work[T], request: Request, form: Format, chunks: Chunks, then: Callable[[T], None]
) -> None:
    """Read a body with many members: at once if it is short, else in chunks.

    Args:
        work: Reads it.
        request: Whose body it is.
        form: How errors are written.
        chunks: Where long works are done.
        then: Called with what has been read; answers the request.

    Raises:
        InvalidInput, Overloaded: Before anything is begun.
    """
    if len(request.body) <= LONG_LIST:
        then(at_once(work))
    else:
        chunks.run(work, answering(request, form, then), len(request.body))


def _commas_in(body: bytes) -> Work[int]:
    commas = 0
    for at in range(0, len(body), SCANNED):
        commas += body.count(b",", at, at + SCANNED)
        yield
    return commas


def _pieces(members: list[msgspec.Raw], form: Format) -> Iterator[bytes]:
    """Give the members as arrays of some of them."""
    most = PIECE_MEMBERS if form is JSON else PACKED_MEMBERS
    some: list[msgspec.Raw] = []
    size = 0
    for at, member in enumerate(members, 1):
        some.append(member)
        size += len(member)
        if size >= PIECE or len(some) == most or at == len(members):
            if form is JSON:
                yield b"[%b]" % b",".join(some)
            else:
                yield b"\xdc" + len(some).to_bytes(2, "big") + b"".join(some)
            some, size = [], 0


def _checking_text(body: bytes) -> Work[None]:
    """Refuse JSON that is not UTF-8, wherever it is not."""
    decoder = getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(body), SCANNED):
            decoder.decode(body[at : at + SCANNED])
            yield
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        check_text(body)  # says where


def members_of(piece: bytes | msgspec.Raw, form: Format) -> list[msgspec.Raw]:
    """Give the members of a piece, each as it stands there.

    Raises:
        MalformedRequest: It nests too deeply, at a level that the look at the whole body let through: the stack is deeper here.
    """
    try:
        return (_json_members if form is JSON else _packed_members).decode(piece)
    except Unreadable as error:
        raise malformed(error, form) from None


def check_count(name: str, count: int, most: int) -> None:
    """Refuse a list with more members than it may have."""
    if count > most:
        got = f"{count}" if count < enough_to_refuse(most) else f"{count} or more"
        raise TooLarge(f"{name}: expected at most {most} in one request, got {got}", field=name)


def enough_to_refuse(most: int) -> int:
    """Give how many members are counted at most, where a list may have so many."""
    return 2 * most + 1_000


def packed_length(packed: msgspec.Raw) -> int:
    """Give how many members a packed list says it has; 0 for anything else."""
    head = bytes(memoryview(packed)[:5])
    if not head:
        return 0
    if 0x90 <= head[0] <= 0x9F:
        return head[0] & 0x0F
    return int.from_bytes(head[1 : 1 + _LENGTH_BYTES.get(head[0], 0)], "big")


def list_in(body: bytes, form: Format, name: str) -> msgspec.Raw:
    """Give a body's list as it stands there; nothing is copied.

    Raises:
        MalformedRequest: The body is no object with such a list.
    """
    try:
        found: msgspec.Raw = _holder(name, form.is_json).decode(body).listed
    except msgspec.ValidationError as error:
        raise worded(error, msgspec.UNSET) from None
    except Unreadable as error:
        raise malformed(error, form) from None
    shown = bytes(memoryview(found)[:60])
    is_list = shown[:1] == b"[" if form.is_json else 0x90 <= shown[0] <= 0x9F or shown[0] in _LENGTH_BYTES
    if not is_list:
        got = f", got {shown.decode(errors='replace')}" if form.is_json else ""
        raise MalformedRequest(f"{name}: expected array{got}", field=name)
    return found


@lru_cache(maxsize=16)
def _holder(name: str, is_json: bool) -> Any:
    holder = msgspec.defstruct("Holder", [("listed", msgspec.Raw)], rename={"listed": name})
    return (msgspec.json if is_json else msgspec.msgpack).Decoder(holder)


def _check_few(text: msgspec.Raw, name: str, most: int) -> None:
    """Refuse a long array of too many objects, or of what is none; nothing is kept, so that the refusal costs little."""
    _Counted.left = left = enough_to_refuse(most)
    try:
        _counted.decode(text)
    except _Enough:
        pass
    except msgspec.ValidationError:
        at = left - _Counted.left
        raise MalformedRequest(f"{name}[{at}]: expected object", field=f"{name}[{at}]") from None
    check_count(name, left - _Counted.left, most)
