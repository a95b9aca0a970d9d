"""One request of an HTTP/1 connection and its answer, whole or as a stream.

The heads of answers are built once a second at most for each status and content type.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from anew.net.http1.head import Fields, RequestLine
from anew.net.seam import (
    Headers,
    Request,
    Stream,
    WebSocket,
    bodiless,
    long_answer,
    too_much_unread,
    type_json,
)

if TYPE_CHECKING:
    from anew.net.http1.connection import Http1Connection

last_chunk = b"0\r\n\r\n"

max_remembered = 64
"""Heads with headers of their own that are remembered for a second."""

phrases = {status.value: status.phrase.encode() for status in HTTPStatus}


class AnswerHeads:
    """The heads of answers, each with its Date.

    Args:
        always: What every answer carries.

    Attributes:
        plain: (status, content type) to the head up to ``content-length: ``; for 204 and 304 all of the head.
    """

    __slots__ = ("_always", "_date", "_lines", "plain")

    def __init__(self, always: Headers = ()) -> None:
        self.plain: dict[tuple[int, bytes | None], bytes] = {}
        self._lines: dict[tuple[int, bytes | None, Headers], bytes] = {}  # heads up to the wire's own lines
        self._always = b"".join([b"\r\n%b: %b" % field for field in always])
        self._date = self._always

    def new_date(self, date: bytes) -> None:
        """Begin another second."""
        self._date = b"\r\ndate: " + date + self._always
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


class Http1Request(Request):
    """One request of an HTTP/1 connection.

    Attributes:
        plain: The connection, as long as this is its only business and the answer ends ordinarily; else None.
        ends: The connection closes after the answer.
        stream: The answer, once it is one that is open.
    """

    __slots__ = ("conn", "ends", "fields", "line", "plain", "stream")

    def __init__(self, conn: Http1Connection, line: RequestLine, fields: Fields, body: bytes) -> None:
        self.conn = conn
        self.line = line
        self.fields = fields
        self.method = line.method
        self.path = line.path
        self.query = line.query
        self.headers = fields.headers
        self.body = body
        self.plain: Http1Connection | None = conn
        self.stream: Http1Stream | None = None
        self.ends = False

    @property
    def gone(self) -> bool:
        return self.conn.current is not self or self.conn.transport.is_closing()

    @property
    def hung_up(self) -> bool:
        return self.gone or self.conn.half_closed

    def reply(
        self, status: int, body: bytes = b"", content_type: bytes | None = type_json, extra: Headers = ()
    ) -> None:
        conn = self.plain
        if conn is None or extra or len(body) > long_answer:
            self._reply(status, body, content_type, extra)
            return
        self.plain = conn.current = None
        head = conn.heads.plain.get((status, content_type)) or conn.heads.build_plain(status, content_type)
        data = head if status in bodiless else b"%b%d\r\n\r\n%b" % (head, len(body), body)
        conn.written += len(data)
        conn.transport.write(data)

    def came_ms_ago(self) -> int | None:
        return self.conn.came_ms_ago(self)

    def hold_off(self) -> None:
        self.conn.hold_off()

    def open_stream(self, status: int, content_type: bytes, extra: Headers = ()) -> Stream | None:
        conn = self.conn
        if not conn.owes(self):
            return None
        if self.method == b"HEAD" or conn.half_closed:
            framing = b"transfer-encoding: chunked\r\n" if self.line.modern else b""
            head = conn.heads.build(status, content_type, extra, framing + conn.ending_line(self))
            conn.answered(self, head + last_chunk if framing and self.method != b"HEAD" else head)
            return None
        stream = Http1Stream(self)
        if self.line.modern:
            framing = b"transfer-encoding: chunked\r\n" + conn.ending_line(self)
        else:
            self.ends = True  # HTTP/1.0 knows no chunks: the end of the body is the end of the connection
            framing = b"connection: close\r\n"
        self.stream = stream
        conn.answered(self, conn.heads.build(status, content_type, extra, framing))
        return stream

    def open_websocket(self, max_message: int) -> WebSocket | None:
        # Only here: nobody else should wait for the import.
        from anew.net.websocket import accepted

        accept = accepted(self.line, self.fields)
        if accept is None:
            return super().open_websocket(max_message)
        return self.conn.become_websocket(self, accept, max_message)

    def _reply(self, status: int, body: bytes, content_type: bytes | None, extra: Headers) -> None:
        conn = self.conn
        if not conn.owes(self):
            return
        if conn.counters.refuses(self.method, len(body)):
            conn.refuse(self, too_much_unread)
            return
        framing = conn.ending_line(self)
        if status in bodiless:
            body = b""
        else:
            framing = b"content-length: %d\r\n%b" % (len(body), framing)
        head = conn.heads.build(status, content_type, extra, framing)
        data = head if self.method == b"HEAD" else head + body
        is_long = len(data) > long_answer
        if is_long:
            conn.hold(len(data))
        conn.answered(self, data)
        if is_long:
            conn.count_unsent()


class Http1Stream(Stream):
    """The endless answer to one request; chunked, or for HTTP/1.0 bare."""

    __slots__ = ("_request", "chunked")

    def __init__(self, request: Http1Request) -> None:
        super().__init__()
        self.writable = False
        self.chunked = request.line.modern
        self._request: Http1Request | None = request

    def write(self, data: bytes) -> None:
        request = self._request
        if request is None or not data:
            return
        if self.chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        conn = request.conn
        conn.written += len(data)
        conn.transport.write(data)

    def close(self) -> None:
        request, self._request = self._request, None
        if request is None:
            return
        request.stream = None
        request.conn.stream_ended(last_chunk if self.chunked else b"")

    def abort(self) -> None:
        request, self._request = self._request, None
        if request is not None:
            request.conn.abort()

    def lost(self) -> None:
        """Say the owner, once, that the stream is gone."""
        if self._request is None:
            return
        self._request = None
        self.writable = False
        if self.on_close is not None:
            self.on_close()

    def paused(self) -> None:
        """Note that the peer is behind."""
        self.writable = False

    def resumed(self) -> None:
        """Note that the peer has caught up, and call the owner."""
        if self._request is not None and not self.writable:
            self.writable = True
            if self.on_drain is not None:
                self.on_drain()
