"""Answer heads as bytes, built once a second at most for each status and content type."""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus

from anew.net.seam import Headers

bodiless = (204, 304)

max_remembered = 64
"""Heads with headers of their own that are remembered for a second."""

phrases = {status.value: status.phrase.encode() for status in HTTPStatus}


class AnswerHeads:
    """The heads of answers, each with its Date (RFC 9110, 6.6.1, asks for one).

    Attributes:
        plain: (status, content type) to the head up to ``content-length: ``; for 204 and 304 all of the head.
    """

    __slots__ = ("_date", "_lines", "_second", "plain")

    def __init__(self) -> None:
        self.plain: dict[tuple[int, bytes | None], bytes] = {}
        self._lines: dict[tuple[int, bytes | None, Headers], bytes] = {}  # heads up to the wire's own lines
        self._second = -1
        self._date = b""

    def tick(self, now_at: int) -> None:
        """Bring the Date up to now, epoch milliseconds."""
        second = now_at // 1000
        if second != self._second:
            self._second = second
            self._date = b"\r\ndate: " + formatdate(second, usegmt=True).encode()
            self.plain.clear()
            self._lines.clear()

    def build_plain(self, status: int, content_type: bytes | None) -> bytes:
        """Build and remember the head of an answer that keeps the connection, without extra headers."""
        if status in bodiless:
            head = self._start(status, None) + b"\r\n\r\n"
        else:
            head = self._start(status, content_type) + b"\r\ncontent-length: "
        self.plain[status, content_type] = head
        return head

    def build(self, status: int, content_type: bytes | None, extra: Headers, framing: bytes) -> bytes:
        """Build a whole head.

        Args:
            status: HTTP status.
            content_type: None for none; 204 and 304 never have one.
            extra: Further headers.
            framing: The wire's own header lines, each ending with CRLF.

        Raises:
            ValueError: An extra header would break out of its line.
        """
        key = (status, content_type, extra)
        lines = self._lines.get(key)
        if lines is None:
            lines = self._start(status, None if status in bodiless else content_type)
            for name, value in extra:
                if b"\n" in value or b"\r" in value or b"\n" in name:
                    raise ValueError(f"header {name!r}: a value has no line ends")
                lines += b"\r\n%b: %b" % (name, value)
            if len(self._lines) < max_remembered:
                self._lines[key] = lines
        return b"%b\r\n%b\r\n" % (lines, framing)

    def _start(self, status: int, content_type: bytes | None) -> bytes:
        start = b"HTTP/1.1 %d %b%b" % (status, phrases.get(status, b"Status"), self._date)
        return start if content_type is None else start + b"\r\ncontent-type: " + content_type
