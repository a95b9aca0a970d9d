"""Request bodies as they arrive, counted and bounded: of declared length, or in chunks (RFC 9112, 6, 7)."""

from __future__ import annotations

import re
from io import BytesIO

from anew.net.http1.refused import Refused, bad_chunk, large_body
from anew.net.seam import WireLimits

max_chunk_line = 256
"""Bytes of one chunk's size line, extensions included."""

chunk_line = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?")
trailer_line = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")


class SizedBody:
    """A body of declared length.

    A `BytesIO` gives its buffer away without a copy, so a body costs its own size; a list of many tiny pieces
    would cost a multiple of it.

    Args:
        length: Bytes to come, > 0, within the limit already.
    """

    __slots__ = ("_need", "_sink", "received")

    def __init__(self, length: int) -> None:
        self._need = length
        self._sink = BytesIO()
        self.received = 0

    def feed(self, data: bytes) -> int | None:
        """Take bytes.

        Returns:
            How many of `data` belonged to the body if it is complete now, else None.
        """
        size = len(data)
        self.received += size
        if size < self._need:
            self._need -= size
            self._sink.write(data)
            return None
        self._sink.write(data if size == self._need else data[: self._need])
        return self._need

    def take(self) -> bytes:
        """Give the whole body."""
        return self._sink.getvalue()


class ChunkedBody:
    """A body in chunks; extensions and trailers are checked, bounded and ignored.

    Args:
        limits: `max_body` bounds the bytes of all chunks, `max_head` those of all extensions and trailers,
            `max_headers` the trailer lines.
    """

    __slots__ = (
        "_after_data",
        "_extra",
        "_limits",
        "_need",
        "_pending",
        "_sink",
        "_size",
        "_trailers",
        "received",
    )

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._sink = BytesIO()
        self._size = 0
        self._need = 0  # bytes of the present chunk still to come
        self._after_data = False  # the CRLF after a chunk's data is due
        self._trailers = -1  # trailer lines so far; -1: the last chunk has not come
        self._extra = 0  # bytes of extensions and trailers so far
        self._pending = b""  # an unfinished line
        self.received = 0

    def feed(self, data: bytes) -> int | None:
        """Take bytes.

        Returns:
            How many of `data` belonged to the body if it is complete now, else None.

        Raises:
            Refused: 400 for bad framing, 413 once the chunks are too much together, 431 for large trailers.
        """
        self.received += len(data)
        before = len(self._pending)
        if before:
            data = self._pending + data
            self._pending = b""
        at = 0
        while True:
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
                    raise bad_chunk()
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
                return at - before
        self._keep(data[at:])
        return None

    def take(self) -> bytes:
        """Give the whole body."""
        return self._sink.getvalue()

    def _size_line(self, line: bytes) -> bool:
        found = chunk_line.fullmatch(line)
        if found is None or len(line) > max_chunk_line:
            raise bad_chunk()
        self._need = int(found[1], 16)
        self._size += self._need
        self._count_extra(len(line) - len(found[1]))
        if self._size > self._limits.max_body:
            raise large_body(self._limits)
        if not self._need:
            self._trailers = 0
        return False

    def _trailer(self, line: bytes) -> bool:
        if not line:
            return True
        if not trailer_line.fullmatch(line):
            raise Refused(400, "chunk", "a trailer line is malformed")
        self._trailers += 1
        self._count_extra(len(line) + 2)
        if self._trailers > self._limits.max_headers:
            raise self._too_much()
        return False

    def _keep(self, unfinished: bytes) -> None:
        if self._trailers < 0:
            if len(unfinished) > max_chunk_line + 1:
                raise bad_chunk()
        elif len(unfinished) + self._extra > self._limits.max_head:
            raise self._too_much()
        if b"\n" in unfinished:
            raise bad_chunk()
        self._pending = unfinished

    def _count_extra(self, size: int) -> None:
        self._extra += size
        if self._extra > self._limits.max_head:
            raise self._too_much()

    def _too_much(self) -> Refused:
        return Refused(431, "head_size", "the extensions and trailers of a chunked body are too large")
