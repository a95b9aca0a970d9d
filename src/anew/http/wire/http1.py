"""HTTP/1.1 (and 1.0) on one connection: requests in, answers out, one at a time.

The next request reaches the application when the one before has been answered, so a pipelined read sees the
write before it; what was sent ahead is kept as bytes.

This is the hottest Python of the server, so the ordinary case has a path of its own: one whole request in one
read, nothing special in its head, nothing else under way; and an answer to it without headers of its own.
Everything else takes the general path and may cost more. The fast path decides nothing: what is not exactly
ordinary falls through.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from anew.http.wire import kernel
from anew.http.wire.http1_body import ChunkedBody, SizedBody
from anew.http.wire.http1_fields import Fields, chunked_length
from anew.http.wire.http1_head import check
from anew.http.wire.http1_line import Line
from anew.http.wire.http1_messages import Http1Request, failed
from anew.http.wire.http1_refused import Refused
from anew.http.wire.http1_sending import deaf, held, in_body, in_head, ready, streaming
from anew.http.wire.http1_waiting import WaitingSide, max_at_once, max_dropped

if TYPE_CHECKING:
    from anew.http.wire.server import HttpServer

preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What an HTTP/2 connection with prior knowledge begins with (RFC 9113, 3.4)."""


class Http1Connection(WaitingSide):
    """One client's connection. Made by the server for each accepted socket."""

    __slots__ = (
        "_app",
        "_body",
        "_fields",
        "_fresh",
        "_head",
        "_lines",
    )

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._app = server.app
        self._lines = server.head_parser.lines
        self._fields = server.head_parser.fields
        self._fresh = True  # no request yet: the connection may turn out to be HTTP/2
        self._head: tuple[Line, Fields] | None = None  # of the request whose body is coming
        self._body: SizedBody | ChunkedBody | None = None

    # ---- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.local = is_loopback(transport.get_extra_info("peername"))
        self.transport.set_write_buffer_limits(high=self._server.limits.write_buffer)
        try:
            self._server.admit(self)
        except Refused as refused:
            self._refuse(refused, ((b"retry-after", b"1"),))

    def data_received(self, data: bytes) -> None:
        if not self._stage and self.current is None:
            end = data.find(b"\r\n\r\n") + 4
            eol = data.find(b"\r\n")
            line = self._lines.get(data[:eol])
            fields = self._fields.get(data[eol:end])
            if (line is None or fields is None) and eol > 0 and end > 3:
                parser = self._server.head_parser
                line = line or parser.plain_line(data[:eol])
                fields = fields or parser.plain_block(data[eol:end])
            if fields is not None and line is not None and fields.length == len(data) - end:
                self._fresh = False
                self._counters.requests += 1
                self.current = request = Http1Request(self, line, fields, data[end:])
                try:
                    self._app(request)
                except Exception:
                    failed(request)
                return
        self._take(data)

    def eof_received(self) -> bool:
        self._eof = True
        if self._stage == streaming:
            # Whether the client has hung up or only closed its half cannot be told apart; a taker that will
            # never ask again is gone, and its jobs must return now.
            self._lose_stream()
            self.transport.abort()
            return False
        if self._lingers_ms or (self.current is None and self._stage != held):
            return False
        self._lose_stream()
        if self._stage != held:
            self._end_after_answer()
        # Otherwise whole requests wait in `_rest`, and `_parse` comes to this end after them.
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.left(self)
        self._stage = deaf
        self._ending = True
        self._let_go()
        self._head = self._body = None
        self._lose_stream()
        if self.current is not None:
            self.current.plain = None
        self.current = None

    def pause_writing(self) -> None:
        self._blocked = True
        stream = None if self.current is None else self.current.stream
        if stream is not None:
            stream.paused()
        elif self._stage != deaf:
            self._pause()

    def resume_writing(self) -> None:
        self._blocked = False
        stream = None if self.current is None else self.current.stream
        if stream is not None:
            stream.resumed()
        else:
            self._go_on()

    # ---- what the server calls

    def sweep(self, now_ms: int) -> None:
        """Cut off a peer that is too slow.

        Args:
            now_ms: The monotonic clock.
        """
        waiting = self.transport.get_write_buffer_size()
        if self._stage == streaming:
            waiting += kernel.unsent(self.transport)
        if waiting or self._seen_taken >= 0:
            self._watch_reader(waiting, now_ms)
        if self._began_ms:
            self._watch_sender(now_ms)
        elif self._lingers_ms and now_ms >= self._lingers_ms:
            self.transport.close()

    def drain(self) -> None:
        """Finish what has begun, then close. The answer under way carries ``connection: close``."""
        if self._stage == ready and self.current is None:
            self._finish()
        elif self._stage == ready:
            self._end_after_answer()
        # A head or body that is coming may still arrive, one that is held waits: `_accept` sees the draining.

    def drain_streams(self) -> None:
        """End the streams: tell their owner, then end the body cleanly."""
        request = self.current
        stream = None if request is None else request.stream
        if stream is not None:
            self._end_after_answer()
            on_close, stream.on_close = stream.on_close, None
            if on_close is not None:
                on_close()
            stream.close()

    # ---- bytes in

    def _take(self, data: bytes) -> None:
        stage = self._stage
        if stage >= streaming:
            self._drop(data)
        elif stage == held:
            self._hold_more(data)
        elif stage == in_body:
            try:
                used = self._feed_body(data)
            except Refused as refused:
                self._refuse(refused)
            else:
                if used:
                    self._parse(data, used)
        else:
            rest, self._rest = self._rest, b""
            self._stage = ready
            self._seen = len(rest)
            self._parse(rest + data if rest else data, 0)

    def _drop(self, data: bytes) -> None:
        self._dropped += len(data)
        if self._dropped <= max_dropped:
            return
        if self._stage == streaming:
            self._counters.refuse("chatter")
            self._lose_stream()
            self.abort()
        else:
            self._pause()

    def _parse(self, data: bytes, at: int) -> None:
        """Take requests off the bytes until they are used up, one is incomplete, or it is time to wait."""
        if self._fresh and data.startswith(b"PRI") and self._turned_http2(data):
            return
        self._parsing = True
        self._handed = 0
        try:
            while at < len(data):
                at = self._parse_one(data, at)
        except Refused as refused:
            self._refuse(refused)
        finally:
            self._parsing = False
        if self._stage == ready:
            self._began_ms = 0  # all of it was used
        elif self._stage == held and self.current is None:
            self._answer_left()  # it is the others' turn
        if self._eof and self._stage <= in_body:
            self._end_after_answer()

    def _parse_one(self, data: bytes, at: int) -> int:
        """Take one request, or the reason why there is none.

        Returns:
            Where to go on in `data`; its length when the rest has been dealt with.
        """
        if self._stage >= streaming:
            self._drop(data[at:])
        elif self._blocked or self.current is not None or self._handed >= max_at_once:
            self._hold(data, at)
        elif data.startswith(b"\r\n", at):
            return at + 2  # empty lines before a request are let pass (RFC 9112, 2.2)
        else:
            end = data.find(b"\r\n\r\n", at) + 4
            if end >= 4:
                eol = data.find(b"\r\n", at)
                return self._begin(data[at:eol], data[eol:end], data, end)
            self._unfinished(data[at:], 0 if at else self._seen)
        return len(data)

    def _begin(self, raw_line: bytes, raw_block: bytes, data: bytes, at: int) -> int:
        """Take one request, head known to be complete, and as much of its body as is there.

        Returns:
            Where the next request begins in `data`.
        """
        parser = self._server.head_parser
        line, fields = parser.line(raw_line), parser.block(raw_block)
        self._fresh = False
        self._began_ms = 0
        self._stage = ready
        if not (line.plain and fields.plain):
            fields = check(line, fields)
        length = fields.length
        if not length:
            self._accept(line, fields, b"")
        elif 0 < length <= len(data) - at:
            self._accept(line, fields, data[at : at + length])
            at += length
        else:
            self._begin_body(line, fields)
            rest = data[at:]
            used = self._feed_body(rest) if rest else None
            if self._body is not None:
                if fields.expect is not None and line.modern:
                    self._continue()
                return len(data)
            at += used or 0
        return at

    def _begin_body(self, line: Line, fields: Fields) -> None:
        self._head = (line, fields)
        if fields.length == chunked_length:
            self._body = ChunkedBody(self._server.limits)
        else:
            self._body = SizedBody(fields.length)
        self._stage = in_body
        self._began_ms = self._server.now_ms()

    def _feed_body(self, data: bytes) -> int:
        """Give bytes to the body under way.

        Returns:
            How many belonged to it, if it is complete now and was handed on; else 0.
        """
        body, head = self._body, self._head
        if body is None or head is None:
            return 0
        used = body.feed(data)
        if used is None:
            return 0
        self._body = self._head = None
        self._began_ms = 0
        self._stage = ready
        self._accept(*head, body.take())
        return used

    def _continue(self) -> None:
        self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _accept(self, line: Line, fields: Fields, body: bytes) -> None:
        """Hand a complete request to the application."""
        self._counters.requests += 1
        request = Http1Request(self, line, fields, body)
        keeps = fields.keeps if not line.modern else not fields.closes
        if self._server.draining or not keeps:
            request.ends = self._ending = True
            self._stage = deaf
        if not line.plain or not keeps or self._ending:
            request.plain = None
        self.current = request
        self._handed += 1
        try:
            self._app(request)
        except Exception:
            failed(request)

    def _unfinished(self, data: bytes, seen: int) -> None:
        """Keep the beginning of a head (`seen` bytes are not new) if it can still become a good one."""
        self._server.head_parser.unfinished(data, seen)
        self._await_more(data)

    def _await_more(self, data: bytes) -> None:
        self._rest = data
        self._stage = in_head
        if not self._began_ms:
            self._began_ms = self._server.now_ms()

    def _turned_http2(self, data: bytes) -> bool:
        """Hand the connection over if it begins with HTTP/2's preface, or wait for the rest of that."""
        if data.startswith(preface):
            self._server.hand_over(self, self.transport, data)
        elif preface.startswith(data):
            self._await_more(data)
        else:
            return False
        return True

    def _watch_sender(self, now_ms: int) -> None:
        if self._paused_ms:
            return
        limits = self._server.limits
        overtime_ms = now_ms - self._began_ms - limits.header_timeout_ms
        if overtime_ms < 0:
            return
        if self._body is None:
            self._refuse(Refused(408, "slow_head", f"a head arrives within {limits.header_timeout_ms} ms"))
        elif self._body.received * 1000 <= overtime_ms * limits.body_rate:
            self._refuse(
                Refused(408, "slow_body", f"a body arrives with at least {limits.body_rate} bytes a second")
            )

    # ---- what the sending half calls

    def _stop_listening(self, stage: int) -> None:
        """Forget what has begun to come in; nothing that comes after it is read."""
        if self._rest or self._body is not None:
            self._dropped += 1
        self._let_go()
        self._head = self._body = None
        self._began_ms = 0
        self._stage = stage
        if stage == streaming and self._paused_ms:
            # Even a connection that asks nothing more is read, or its end would not be noticed.
            self._read_again()


def is_loopback(peer: object) -> bool:
    """Tell whether a peer's address, as the transport gives it, is on this machine (Unix sockets are)."""
    if not isinstance(peer, tuple):
        return True
    host = str(peer[0])
    return host.startswith(("127.", "::ffff:127.")) or host == "::1"
