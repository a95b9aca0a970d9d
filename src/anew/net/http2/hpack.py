"""Header compression: a decoder that knows when a block has no state, an encoder that never has any.

The `hpack` package takes 50 microseconds for a request's block, this 4; it also gives up on a list above the limit,
after which the connection's state is lost and 431 cannot be said. Its tables are used here, and a test holds the two
against each other.

We ask peers for a dynamic table of size zero (SETTINGS_HEADER_TABLE_SIZE): their blocks then have no state,
and a block seen before, on whatever connection, need not be decoded again. With a table that changes at every
new content-length it was 23 thousand requests a second in place of 37. Until peers have read that, and for those
that never heed it, the table of RFC 7541's default size works as usual; only announcing a new one is an error
then.

Source:
    RFC 7541, "HPACK: Header Compression for HTTP/2".
"""

from __future__ import annotations

from collections import deque

from hpack.hpack import encode_integer
from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE
from hpack.table import HeaderTable

from anew.net.http2.frames import Code, ConnectionFault

Field = tuple[bytes, bytes]

entry_overhead = 32  # RFC 7541 section 4.1, and RFC 9113 section 6.5.2 for the header list
default_table_bytes = 4096
most_resizes = 2  # at the beginning of a block, RFC 7541 section 4.2

_static: tuple[Field, ...] = ((b"", b""), *HeaderTable.STATIC_TABLE)  # indices start at 1
_static_count = len(HeaderTable.STATIC_TABLE)


def _fault(reason: str) -> ConnectionFault:
    return ConnectionFault(Code.COMPRESSION_ERROR, reason)


# ---- integers and strings

# Values such as a client's name repeat for ever; only short ones are kept, and all are dropped when there are too many.
_huffman_known: dict[bytes, bytes] = {}
_huffman_known_most = 1024
_huffman_known_bytes = 64

# The package's machine reads half a byte a step; two of its steps make one of ours, a row of 256 at a time,
# when needed.
_Step = tuple[int, bytes, int] | None  # next state, text, whether the string may end here; None: no such code
_rows: dict[int, list[_Step]] = {}


def _step(state: int, byte: int) -> _Step:
    text = b""
    flags = 0
    for half in (byte >> 4, byte & 15):
        state, flags, symbol = HUFFMAN_TABLE[state * 16 + half]
        if flags & HUFFMAN_FAIL:
            return None
        if flags & HUFFMAN_EMIT_SYMBOL:
            text += bytes((symbol,))
    return state, text, flags & HUFFMAN_COMPLETE


def _huffman(raw: bytes) -> bytes:
    parts: list[bytes] = []
    state, complete = 0, 1
    for byte in raw:
        row = _rows.get(state)
        if row is None:
            row = _rows[state] = [_step(state, other) for other in range(256)]
        step = row[byte]
        if step is None:
            raise _fault("a Huffman string cannot be decoded")
        state, text, complete = step
        parts.append(text)
    if not complete:
        raise _fault("a Huffman string is cut short")
    text = b"".join(parts)
    if len(raw) <= _huffman_known_bytes:
        if len(_huffman_known) >= _huffman_known_most:
            _huffman_known.clear()
        _huffman_known[raw] = text
    return text


def _integer(block: bytes, at: int, prefix: int) -> tuple[int, int]:
    """Read an integer that begins in the low bits `prefix` (a mask) of a byte; give it and where it ends."""
    value = block[at] & prefix
    at += 1
    if value < prefix:
        return value, at
    for shift in (0, 7, 14, 21):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _fault("an integer is too long")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    first = block[at]
    length = first & 0x7F
    at += 1
    if length == 0x7F:
        length, at = _integer(block, at - 1, 0x7F)
    end = at + length
    if end > len(block):
        raise _fault("a string is longer than its block")
    raw = block[at:end]
    if first & 0x80:
        raw = _huffman_known.get(raw) or _huffman(raw)
    return raw, end


# ---- blocks


class HeaderDecoder:
    """Decodes one connection's header blocks.

    Attributes:
        stateless: True if the last block neither used nor changed the dynamic table: the same bytes mean
            the same fields wherever `closed` has the same value.
        oversized: True if the last block's list was above a limit, though below twice the bytes: its fields are incomplete,
            the table intact.
        closed: True while the peer's announced dynamic table has size zero; what it inserts is gone at once.
        table_limit: Largest dynamic table, in bytes, that the peer may announce from now on.
    """

    __slots__ = ("_entries", "_table_bytes", "_table_max", "closed", "oversized", "stateless", "table_limit")

    def __init__(self) -> None:
        self.stateless = True
        self.oversized = False
        self.closed = False
        self.table_limit = default_table_bytes
        self._entries: deque[Field] = deque()
        self._table_bytes = 0
        self._table_max = default_table_bytes

    def decode(self, block: bytes, max_bytes: int, max_fields: int) -> list[Field]:
        """Decode one complete block.

        Args:
            block: The block, CONTINUATIONs joined.
            max_bytes: Largest header list, each field counted with RFC 9113's 32 bytes on top.
            max_fields: Most fields.

        Returns:
            The fields in their order; cut short if `oversized`.

        Raises:
            ConnectionFault: COMPRESSION_ERROR, the block cannot be decoded; ENHANCE_YOUR_CALM, its list has more than twice the
                bytes that are allowed, and decoding ended there.
        """
        self.stateless = True
        self.oversized = False
        fields: list[Field] = []
        at = resizes = 0
        end = len(block)
        left = max_bytes
        try:
            while at < end:
                first = block[at]
                if first < 0x80:
                    if first & 0xE0 == 0x20:
                        resizes += 1
                        if resizes > most_resizes:
                            raise _fault("a header block has more than two table size updates")
                        at = self._resize(block, at, bool(fields))
                        continue
                    field, at = self._literal(block, at, first)
                elif first <= 0x80 + _static_count and first != 0x80:
                    field = _static[first & 0x7F]
                    at += 1
                else:
                    index, at = _integer(block, at, 0x7F)
                    field = self._lookup(index)
                left -= len(field[0]) + len(field[1]) + entry_overhead
                if left < 0 or len(fields) >= max_fields:
                    if left < -max_bytes:
                        reason = f"a header list is far larger than {max_bytes} bytes"
                        raise ConnectionFault(Code.ENHANCE_YOUR_CALM, reason)
                    self.oversized = True  # go on: the table must follow the peer's to the end of the block
                else:
                    fields.append(field)
        except IndexError:
            raise _fault("a header block ends in the middle of a field") from None
        return fields

    def _lookup(self, index: int) -> Field:
        if 0 < index <= _static_count:
            return _static[index]
        self.stateless = False
        index -= _static_count + 1
        if not 0 <= index < len(self._entries):
            raise _fault("an index is in neither table")
        return self._entries[index]

    def _literal(self, block: bytes, at: int, first: int) -> tuple[Field, int]:
        mask = 0x3F if first & 0x40 else 0x0F
        index = first & mask
        at += 1
        if index == mask:
            index, at = _integer(block, at - 1, mask)
        if not index:
            name, at = _string(block, at)
        elif index <= _static_count:
            name = _static[index][0]
        else:
            name = self._lookup(index)[0]
        value, at = _string(block, at)
        if mask == 0x3F and not self.closed:
            self.stateless = False
            self._table_bytes += len(name) + len(value) + entry_overhead
            self._entries.appendleft((name, value))
            self._evict()
        return (name, value), at

    def _resize(self, block: bytes, at: int, after_field: bool) -> int:
        if after_field or self.oversized:
            raise _fault("a table size update comes after a field")
        self.stateless = False
        size, at = _integer(block, at, 0x1F)
        if size > self.table_limit:
            raise _fault("the dynamic table is larger than allowed")
        self._table_max = size
        self.closed = size == 0
        self._evict()
        return at

    def _evict(self) -> None:
        while self._table_bytes > self._table_max:
            name, value = self._entries.pop()
            self._table_bytes -= len(name) + len(value) + entry_overhead


_status_index = {int(value): index for index, (name, value) in enumerate(_static) if name == b":status"}
_name_index = {name: index for index, (name, _) in reversed(list(enumerate(_static))) if index}

empty_table = b"\x20"
"""Announces a table of size zero; due once where the peer has made its own smaller (RFC 7541 section 4.2)."""


def encode_status(status: int) -> bytes:
    """Encode ``:status``, from the static table where it is there."""
    index = _status_index.get(status)
    return bytes((0x80 | index,)) if index else encode_field(b":status", b"%d" % status)


def encode_field(name: bytes, value: bytes) -> bytes:
    """Encode one field as a literal that enters no table, without Huffman coding.

    Such a block has the same bytes on every connection, so finished blocks can be kept and sent again.
    """
    index = _name_index.get(name, 0)
    head = encode_integer(index, 4)
    if not index:
        head += encode_integer(len(name), 7) + name
    return bytes(head + encode_integer(len(value), 7) + value)
