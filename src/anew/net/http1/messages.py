"""One request of an HTTP/1 connection and its answer, whole or as a stream."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from anew.net.http1.answers import bodiless
from anew.net.http1.fields import Fields
from anew.net.http1.line import Line
from anew.net.seam import Headers, Request, Stream, type_json

if TYPE_CHECKING:
    from anew.net.http1.sending import SendingSide

log = logging.getLogger("anew.http")

last_chunk = b"0\r\n\r\n"


class Http1Request(Request):
    """One request of an HTTP/1 connection.

    Attributes:
        plain: The connection, as long as this is its only business and the answer ends ordinarily; else None.
        ends: The connection closes after the answer.
        stream: The answer, once it is one that is open.
    """

    __slots__ = ("conn", "ends", "fields", "line", "plain", "stream")

    def __init__(self, conn: SendingSide, line: Line, fields: Fields, body: bytes) -> None:
        self.conn = conn
        self.line = line
        self.fields = fields
        self.method = line.method
        self.path = line.path
        self.query = line.query
        self.headers = fields.headers
        self.body = body
        self.local = conn.local
        self.plain: SendingSide | None = conn
        self.stream: Http1Stream | None = None
        self.ends = False

    @property
    def gone(self) -> bool:
        return self.conn.current is not self or self.conn.transport.is_closing()

    def reply(
        self, status: int, body: bytes = b"", content_type: bytes | None = type_json, extra: Headers = ()
    ) -> None:
        conn = self.plain
        if conn is None or extra:
            self._reply(status, body, content_type, extra)
            return
        self.plain = conn.current = None
        head = conn.heads.plain.get((status, content_type)) or conn.heads.build_plain(status, content_type)
        data = head if status in bodiless else b"%b%d\r\n\r\n%b" % (head, len(body), body)
        conn.written += len(data)
        conn.transport.write(data)

    def open_stream(self, status: int, content_type: bytes, extra: Headers = ()) -> Stream | None:
        conn = self.conn
        if not conn.owes(self):
            return None
        if self.method == b"HEAD" or conn.deserted:
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

    def _reply(self, status: int, body: bytes, content_type: bytes | None, extra: Headers) -> None:
        conn = self.conn
        if not conn.owes(self):
            return
        framing = conn.ending_line(self)
        if status in bodiless:
            body = b""
        else:
            framing = b"content-length: %d\r\n%b" % (len(body), framing)
        head = conn.heads.build(status, content_type, extra, framing)
        conn.answered(self, head if self.method == b"HEAD" else head + body)


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
        """Tell the owner, once, that the stream is gone."""
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
        """Note, and tell the owner, that the peer has caught up."""
        if self._request is not None and not self.writable:
            self.writable = True
            if self.on_drain is not None:
                self.on_drain()


def failed(request: Request) -> None:
    """Log an exception that the application let escape, and answer 500 if it had not answered."""
    log.exception("unhandled error in the answer to a request")
    request.reply(500, b'{"error":"internal server error"}')
