"""The header blocks of answers as bytes, built once a second at most for each kind of answer."""

from __future__ import annotations

from email.utils import formatdate

from anew.net.http2.frames import DATA, END_HEADERS, END_STREAM, HEADERS, frame_head
from anew.net.http2.hpack import encode_field, encode_status
from anew.net.seam import Headers

bodyless = frozenset((204, 304))

_Key = tuple[int, bytes | None, Headers, int]
# An answer's frames but for stream number and body: HEADERS' first 5 bytes; the block and DATA's first 5.
_Template = tuple[bytes, bytes]


class AnswerBlocks:
    """The header blocks of answers, each with its Date (RFC 9110 section 6.6.1), for all connections.

    Attributes:
        templates: What `template` has built since the last second began.
    """

    __slots__ = ("_date", "_second", "templates")

    _most = 2048

    def __init__(self) -> None:
        self.templates: dict[_Key, _Template] = {}
        self._second: int | None = None
        self._date = b""

    def tick(self, now_ms: int) -> None:
        """Bring the Date up to now, once in a second of the caller's clock."""
        if now_ms // 1000 != self._second:
            self._second = now_ms // 1000
            self.renew()

    def renew(self) -> None:
        """Bring the Date up to now."""
        date = encode_field(b"date", formatdate(usegmt=True).encode())
        if date != self._date:
            self._date = date
            self.templates.clear()

    def block(self, status: int, content_type: bytes | None, extra: Headers, length: int | None) -> bytes:
        """Build a header block; 204 and 304 have neither content type nor length, a stream has no length."""
        parts = [encode_status(status)]
        if content_type is not None and status not in bodyless:
            parts.append(encode_field(b"content-type", content_type))
        if length is not None and status not in bodyless:
            parts.append(encode_field(b"content-length", b"%d" % length))
        parts.append(self._date)
        parts += [encode_field(name, value) for name, value in extra]
        return b"".join(parts)

    def template(self, key: _Key) -> _Template:
        """Build and remember the frames of an answer with a body of one frame."""
        block = self.block(*key)
        length = key[3]
        head = frame_head.pack(len(block) >> 16, len(block) & 0xFFFF, HEADERS, END_HEADERS, 0)[:5]
        data = frame_head.pack(length >> 16, length & 0xFFFF, DATA, END_STREAM, 0)[:5]
        if len(self.templates) >= self._most:
            self.templates.clear()
        self.templates[key] = (head, block + data)
        return head, block + data


answer_blocks = AnswerBlocks()
