"""HTTP/1.1 (and 1.0) on one connection: what its transport and its server call.

The parts stand on one another: `SendingSide` owes answers, `WaitingSide` keeps what was sent ahead of one,
`ReadingSide` makes requests of bytes.

This is the hottest Python of the server, so the ordinary case has a path of its own: one whole request in one
read, nothing special in its head, nothing else under way; and an answer to it without headers of its own.
Everything else takes the general path and may cost more. The fast path decides nothing: what is not exactly
ordinary falls through.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from anew.net import kernel
from anew.net.http1.messages import Http1Request
from anew.net.http1.reading import ReadingSide
from anew.net.http1.refused import Refused
from anew.net.http1.sending import deaf, held, ready, streaming
from anew.net.http2.frames import preface

if TYPE_CHECKING:
    from anew.net.listener import HttpServer


class Http1Connection(ReadingSide):
    """One client's connection. Made by the server for each accepted socket."""

    __slots__ = ("_fields", "_hand", "_lines", "_parser")

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._hand = server.gate.hand
        self._parser = server.head_parser
        self._lines = server.head_parser.lines
        self._fields = server.head_parser.fields

    # ---- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.local = is_loopback(transport.get_extra_info("peername"))
        self.transport.set_write_buffer_limits(high=self._server.limits.write_buffer)
        try:
            self._server.admit(self)
        except Refused as refused:
            self._refuse(refused)

    def data_received(self, data: bytes) -> None:
        if not self._stage and self.current is None:
            head, end, body = data.partition(b"\r\n\r\n")
            raw_line, _, raw_block = head.partition(b"\r\n")
            line = fields = None
            if end:
                line = self._lines.get(raw_line) or self._parser.plain_line(raw_line)
                fields = self._fields.get(raw_block) or self._parser.plain_block(raw_block)
            if line is not None and fields is not None and fields.length == len(body):
                self._fresh = False
                self._counters.requests += 1
                self.current = request = Http1Request(self, line, fields, body)
                refusal = self._judge(line.method, line.path, fields.headers, self.local)
                if refusal is None:
                    self._hand(request)
                else:
                    self._answer_refused(request, refusal)
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
        self._debt.becomes(0)
        self._let_go()
        self._forget_body()
        self._lose_stream()
        if self.current is not None:
            self.current.plain = None
        self.current = None

    def pause_writing(self) -> None:
        self._blocked = True
        stream = None if self.current is None else self.current.stream
        if stream is not None:
            stream.paused()
            return
        self._debt.becomes(self.transport.get_write_buffer_size())
        if self._stage != deaf:
            self._pause()

    def resume_writing(self) -> None:
        self._blocked = False
        self._debt.becomes(0)  # what is left is little
        stream = None if self.current is None else self.current.stream
        if stream is not None:
            stream.resumed()
        else:
            self.go_on()

    # ---- what the server calls

    def sweep(self, now_ms: int) -> None:
        """Cut off a peer that is too slow.

        Args:
            now_ms: The monotonic clock.
        """
        waiting = self.transport.get_write_buffer_size()
        if self._stage == streaming:
            self._debt.becomes(0)
            waiting += kernel.unsent(self.transport)
        else:
            self._debt.becomes(waiting)
        if waiting or self._seen_taken >= 0:
            self._watch_reader(waiting, now_ms)
        if self._began_ms:
            self._watch_sender(now_ms)
        elif self._lingers_ms and now_ms >= self._lingers_ms:
            self.transport.close()

    def drain(self) -> None:
        """Finish what has begun, then close. The answer under way carries ``connection: close``."""
        if self._stage == ready and self.current is None:
            if kernel.is_quiet(self.transport):
                self._stage, self._ending = deaf, True
                self.transport.close()
            else:
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

    def _turned_http2(self, data: bytes) -> bool:
        """Hand the connection over if it begins with HTTP/2's preface, or wait for the rest of that."""
        if data.startswith(preface):
            self._server.hand_over(self, self.transport, data)
        elif preface.startswith(data):
            self._await_more(data)
        else:
            return False
        return True


def is_loopback(peer: object) -> bool:
    """Tell whether a peer's address, as the transport gives it, is on this machine (Unix sockets are)."""
    if not isinstance(peer, tuple):
        return True
    host = str(peer[0])
    return host.startswith(("127.", "::ffff:127.")) or host == "::1"
