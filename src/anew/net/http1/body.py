"""Request bodies as they arrive, counted and bounded: of declared length, or in chunks (RFC 9112, 6, 7)."""

from __future__ import annotations

import re
from io import BytesIO

from anew.net.head import large_body
from anew.net.http1.head import Refused
from anew.net.seam import WireLimits

max_chunk_line = 256
"""Bytes of one chunk's size line, extensions included."""

max_framing = 64 << 10
"""Bytes of framing (size lines and line ends) that a body may have besides twice the bytes of its data. A chunk of one byte has
five of framing: who sends a whole body so makes the server work for nothing."""

lines_a_step = 1_000
"""Lines of chunks that are read before the other connections have their turn, one or two milliseconds."""

chunk_line = re.compile(rb"([0-9A-Fa-f]+)(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
trailer_line = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")

bad_chunk = (400, "chunk", "a chunk is a hexadecimal size, CRLF, that many bytes and CRLF")
bad_trailer = (400, "chunk", "a trailer line is malformed")
small_chunks = (400, "chunk", "the chunks of a body are not so small that most of it is their sizes")
large_extras = (431, "head_size", "the extensions and trailers of a chunked body are too large")
"""Arguments of `Refused`."""


class SizedBody:
    """A body of declared length.

    A `BytesIO` gives its buffer away without a copy, so a body costs its own size; a list of many tiny pieces would cost a
    multiple of it.

    Args:
        length: Bytes to come, > 0, within the limit already.

    Attributes:
        received: Bytes so far.
        unread: Bytes that were fed and not read yet; always b"" here.
    """

    __slots__ = ("_need", "_sink", "received", "unread")

    def __init__(self, length: int) -> None:
        self._need = length
        self._sink = BytesIO()
        self.received = 0
        self.unread = b""

    def feed(self, data: bytes) -> bytes | None:
        """Take bytes.

        Returns:
            What of `data` follows the body if it is complete now, else None.
        """
        need = self._need
        self.received += len(data)
        if len(data) < need:
            self._need -= len(data)
            self._sink.write(data)
            return None
        self._sink.write(data if len(data) == need else data[:need])
        return data[need:]

    def take(self) -> bytes:
        """Give the whole body."""
        return self._sink.getvalue()


class ChunkedBody:
    """A body in chunks; extensions and trailers are checked, bounded and ignored.

    Args:
        limits: `max_body` bounds the bytes of all chunks, `max_head` those of all extensions and trailers,
            `max_headers` the trailer lines.

    Attributes:
        received: Bytes so far, framing included.
        unread: Bytes that were fed and not read yet: many small chunks are read in steps, ``feed(b"")`` each.
    """

    __slots__ = (
        "_after_data",
        "_extra",
        "_framing",
        "_limits",
        "_need",
        "_pending",
        "_sink",
        "_size",
        "_trailers",
        "received",
        "unread",
    )

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._sink = BytesIO()
        self._size = 0
        self._need = 0  # bytes of the present chunk still to come
        self._after_data = False  # the CRLF after a chunk's data is due
        self._trailers = -1  # trailer lines so far; -1: the last chunk has not come
        self._extra = 0  # bytes of extensions and trailers so far
        self._framing = 0  # bytes of size lines and line ends so far
        self._pending = b""  # an unfinished line
        self.received = 0
        self.unread = b""

    def feed(self, data: bytes) -> bytes | None:
        """Take bytes, and read one step of them.

        Returns:
            What follows the body if it is complete now, else None.

        Raises:
            Refused: 400 for bad framing, 413 once the chunks are too much together, 431 for large trailers.
        """
        self.received += len(data)
        if self.unread or self._pending:
            data = self._pending + self.unread + data
            self._pending = self.unread = b""
        at = 0
        for _ in range(lines_a_step):
            if self._need:
                piece = data[at : at + self._need] if at or self._need < len(data) else data
                self._sink.write(piece)
                at += len(piece)
                self._need -= len(piece)
                if self._need:
                    return None
                self._after_data = True
            if self._after_data:
                if not b"\r\n".startswith(data[at : at + 2]):
                    raise Refused(*bad_chunk)
                if len(data) - at < 2:
                    break
                at += 2
                self._after_data = False
            eol = data.find(b"\r\n", at)
            if eol < 0:
                break
            ended = self._size_line(data[at:eol]) if self._trailers < 0 else self._trailer(data[at:eol])
            at = eol + 2
            if ended:
                return data[at:]
        else:
            self.unread = data[at:]
            return None
        self._keep(data[at:])
        return None

    def take(self) -> bytes:
        """Give the whole body."""
        return self._sink.getvalue()

    def _size_line(self, line: bytes) -> bool:
        found = chunk_line.fullmatch(line)
        if found is None or len(line) > max_chunk_line:
            raise Refused(*bad_chunk)
        self._need = int(found[1], 16)
        self._size += self._need
        self._framing += len(line) + 4
        self._count_extra(len(line) - len(found[1]))
        if self._size > self._limits.max_body:
            raise Refused(*large_body(self._limits))
        if self._framing > max_framing + 2 * self._size:
            raise Refused(*small_chunks)
        if not self._need:
            self._trailers = 0
        return False

    def _trailer(self, line: bytes) -> bool:
        if not line:
            return True
        if not trailer_line.fullmatch(line):
            raise Refused(*bad_trailer)
        self._trailers += 1
        self._count_extra(len(line) + 2)
        if self._trailers > self._limits.max_headers:
            raise Refused(*large_extras)
        return False

    def _keep(self, unfinished: bytes) -> None:
        if self._trailers < 0:
            if len(unfinished) > max_chunk_line + 1:
                raise Refused(*bad_chunk)
        elif len(unfinished) + self._extra > self._limits.max_head:
            raise Refused(*large_extras)
        if b"\n" in unfinished:
            raise Refused(*bad_chunk)
        self._pending = unfinished

    def _count_extra(self, size: int) -> None:
        self._extra += size
        if self._extra > self._limits.max_head:
            raise Refused(*large_extras)
