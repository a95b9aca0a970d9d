"""The reading half of an HTTP/1 connection: bytes become requests, and each goes to the application in its turn.

The next request is handed over when the one before has been answered, so a pipelined read sees the write before
it; what was sent ahead is kept as bytes.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import TYPE_CHECKING

from anew.net.http1.body import ChunkedBody, SizedBody
from anew.net.http1.fields import Fields, chunked_length
from anew.net.http1.head import check
from anew.net.http1.line import Line
from anew.net.http1.messages import Http1Request
from anew.net.http1.refused import Refused
from anew.net.http1.sending import deaf, held, in_body, in_head, ready, streaming
from anew.net.http1.waiting import WaitingSide, max_at_once, max_dropped

if TYPE_CHECKING:
    from anew.net.listener import HttpServer


turn_bytes = 1 << 20
"""Bytes of a body that are read before the other connections have their turn."""


class ReadingSide(WaitingSide):
    """What a peer is sending."""

    __slots__ = ("_body", "_body_bytes", "_fresh", "_head", "_judge")

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._judge = server.gate.judge
        self._fresh = True  # no request yet: the connection may turn out to be HTTP/2
        self._head: tuple[Line, Fields] | None = None  # of the request whose body is coming
        self._body: SizedBody | ChunkedBody | None = None
        self._body_bytes = 0  # of it that are held

    @abstractmethod
    def _turned_http2(self, data: bytes) -> bool:
        """Hand the connection over if it begins with HTTP/2's preface, or wait for the rest of that."""

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
            self._flush()
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
                return self._begin(data[at:eol], data[eol + 2 : end - 4], data, end)
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
        refusal = self._judge(line.method, line.path, fields.headers, self.local)
        if refusal is not None:
            complete = 0 <= length <= len(data) - at
            request = self._next_request(line, fields, b"") if complete else self._last_request(line, fields)
            self._answer_refused(request, refusal)
            return at + length if complete else at
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
            self._body_bytes += len(data)
            self._counters.unfinished += len(data)
            if self._counters.unfinished > self._server.limits.max_unfinished:
                raise Refused(503, "bodies", "too many bodies are coming in; try again in a second")
            if self._body_bytes % turn_bytes < len(data):
                # The loop goes on reading a socket as long as there is something: the others shall have their turn.
                self._pause()
                asyncio.get_running_loop().call_soon(self.go_on)
            return 0
        self._forget_body()
        self._began_ms = 0
        self._stage = ready
        self._accept(*head, body.take())
        return used

    def _forget_body(self) -> None:
        self._head = self._body = None
        self._counters.unfinished -= self._body_bytes
        self._body_bytes = 0

    def _continue(self) -> None:
        self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _accept(self, line: Line, fields: Fields, body: bytes) -> None:
        """Hand a complete request to the application."""
        request = self._next_request(line, fields, body)
        if self._held_ms:
            self._server.gate.hand_held(request, self._held_ms)
        else:
            self._server.gate.hand(request)

    def _next_request(self, line: Line, fields: Fields, body: bytes) -> Http1Request:
        """Make a complete request the current one."""
        self._counters.requests += 1
        request = Http1Request(self, line, fields, body)
        keeps = fields.keeps if not line.modern else not fields.closes
        if self._server.draining or not keeps:
            request.ends = self._ending = True
            self._stage = deaf
        if not line.plain or not keeps or self._ending or self._gathered:
            request.plain = None
        self.current = request
        self._handed += 1
        return request

    def _unfinished(self, data: bytes, seen: int) -> None:
        """Keep the beginning of a head (`seen` bytes are not new) if it can still become a good one."""
        self._server.head_parser.unfinished(data, seen)
        self._await_more(data)

    def _await_more(self, data: bytes) -> None:
        self._rest = data
        self._stage = in_head
        if not self._began_ms:
            self._began_ms = self._server.now_ms()

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
        self._forget_body()
        self._began_ms = 0
        self._stage = stage
        if stage == streaming and self._paused_ms:
            # Even a connection that asks nothing more is read, or its end would not be noticed.
            self._read_again()
