"""The sending half of an HTTP/1 connection: the answer to the one request under way, and the end."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING

from anew.net import kernel
from anew.net.debts import Debt
from anew.net.http1.fields import Fields
from anew.net.http1.line import Line
from anew.net.http1.messages import Http1Request
from anew.net.http1.refused import Refused
from anew.net.seam import Refusal

if TYPE_CHECKING:
    from anew.net.listener import HttpServer

linger_ms = 1_000
"""How long a peer may take to read the last answer and hang up before we do. A close with unread bytes makes
the kernel send a reset, which can destroy an answer that the peer has not read yet (RFC 9112, 9.6)."""

long_answer = 64 << 10
"""Bytes of an answer that is not worth gathering with those behind it."""

# Stages of a connection: what the next byte means.
ready = 0  # the first byte of a request
in_head = 1  # more of the head whose beginning is in `_rest`
in_body = 2  # more of `_body`
held = 3  # more of `_rest`, which waits until the answer under way has left
streaming = 4  # nothing: the answer under way is endless
deaf = 5  # nothing: the connection ends with the answers that are due

refused_line = Line(b"GET", b"/", True, None)
refused_fields = Fields({}, 0)


class SendingSide(asyncio.Protocol):
    """What a connection owes its peer.

    Attributes:
        current: The request that has no answer yet, or whose answer is a stream.
        written: Bytes given to the transport so far.
    """

    __slots__ = (
        "_began_ms",
        "_blocked",
        "_counters",
        "_debt",
        "_dropped",
        "_ending",
        "_eof",
        "_gathered",
        "_lingers_ms",
        "_parsing",
        "_seen_ms",
        "_seen_taken",
        "_server",
        "_stage",
        "current",
        "heads",
        "local",
        "transport",
        "written",
    )

    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._counters = server.counters
        self._debt = Debt(server.counters)
        self.heads = server.answer_heads
        self.local = False
        self.current: Http1Request | None = None
        self.written = 0
        self._stage = ready
        self._began_ms = 0  # when the head or body under way began to come; 0: none
        self._blocked = False  # the transport's write buffer is above its mark
        self._eof = False
        self._ending = False  # no request is read any more
        self._dropped = 0  # bytes that came when none was expected
        self._parsing = False  # requests are being taken off one read; their answers leave together
        self._gathered: list[bytes] = []
        self._lingers_ms = 0  # when to hang up after the last answer; 0: not yet answered
        self._seen_taken = -1  # what the peer had taken when the sweep last looked; -1: nothing waited
        self._seen_ms = 0

    @abstractmethod
    def _stop_listening(self, stage: int) -> None:
        """Forget what has begun to come in; nothing that comes after it is read."""

    @abstractmethod
    def _answer_left(self) -> None:
        """Go on with what waited for the answer to leave."""

    def abort(self) -> None:
        """Cut the connection now; unsent bytes are dropped."""
        self._stage = deaf
        self._began_ms = 0
        self.transport.abort()

    # ---- what requests and streams call

    @property
    def deserted(self) -> bool:
        """Whether the peer has closed its half: for an endless answer that means that nobody listens."""
        return self._eof

    def owes(self, request: Http1Request) -> bool:
        """Tell whether this request still waits for its answer."""
        return self.current is request and request.stream is None

    def ending_line(self, request: Http1Request) -> bytes:
        """Give the header line that an answer needs about what happens to the connection."""
        if request.ends or self._ending:
            request.ends = True
            return b"connection: close\r\n"
        return b"" if request.line.modern else b"connection: keep-alive\r\n"

    def answered(self, request: Http1Request, data: bytes) -> None:
        """Send the answer, or a stream's head, and go on."""
        request.plain = None
        self._write(data)
        stream = request.stream
        if stream is None:
            self._next()
            return
        self._flush()  # the stream writes for itself
        self._stop_listening(streaming)
        kernel.bound(self.transport)
        if not self._blocked:
            stream.resumed()

    def stream_ended(self, end: bytes) -> None:
        """Send the last bytes of the stream and go on."""
        request = self.current
        if request is None:
            return
        if end:
            self._write(end)
        if self._dropped or request.ends or self._server.draining:
            self._ending = True
        self._stage = deaf if self._ending else ready
        self._next()

    # ---- inside

    def _refuse(self, refused: Refused) -> None:
        """Answer in the application's stead and close."""
        body = b'{"error":"%b"}' % str(refused).encode()
        extra = ((b"retry-after", b"1"),) if refused.status == 503 else ()
        refusal = Refusal(refused.status, body, extra=extra, reason=refused.reason)
        self._answer_refused(self._last_request(refused_line, refused_fields), refusal)

    def _last_request(self, line: Line, fields: Fields) -> Http1Request:
        """Make the request with whose answer the connection ends; nothing more is read."""
        self._stop_listening(deaf)
        self._ending = True
        self.current = request = Http1Request(self, line, fields, b"")
        request.plain = None
        request.ends = True
        return request

    def _answer_refused(self, request: Http1Request, refusal: Refusal) -> None:
        if refusal.reason:
            self._counters.refuse(refusal.reason)
        request.reply(refusal.status, refusal.body, refusal.content_type, refusal.extra)

    def _end_after_answer(self) -> None:
        self._ending = True
        if self.current is not None:
            self.current.plain = None
        if self._stage != streaming:
            self._stop_listening(deaf)
        if self.current is None:
            self._finish()

    def _finish(self) -> None:
        """Close, after the last answer, in a way that lets the peer read it."""
        self._stage = deaf
        self._ending = True
        self._began_ms = 0
        transport = self.transport
        self._flush()
        if transport.is_closing():
            return
        if self._eof or not transport.can_write_eof():
            transport.close()
        else:
            self._lingers_ms = self._server.now_ms() + linger_ms
            transport.write_eof()

    def _write(self, data: bytes) -> None:
        self.written += len(data)
        if self._parsing:
            self._gathered.append(data)
            if len(data) > long_answer:
                self._flush()  # the transport tells when it has enough, and what comes after that is held
        else:
            self.transport.write(data)

    def _flush(self) -> None:
        if self._gathered:
            data = b"".join(self._gathered)
            self._gathered.clear()
            self.transport.write(data)

    def _next(self) -> None:
        self.current = None
        if self._ending and self._stage == deaf:
            self._finish()
        else:
            self._answer_left()

    def _lose_stream(self) -> None:
        if self.current is not None and self.current.stream is not None:
            self.current.stream.lost()

    def _watch_reader(self, waiting: int, now_ms: int) -> None:
        taken = self.written - waiting
        if not waiting:
            self._seen_taken = -1
        elif taken != self._seen_taken:
            self._seen_taken = taken
            self._seen_ms = now_ms
        elif now_ms - self._seen_ms >= self._server.limits.stall_timeout_ms:
            self._counters.refuse("stalled_reader")
            self.abort()
