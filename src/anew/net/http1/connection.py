"""HTTP/1.1 (and 1.0) on one connection: bytes become requests, replies become bytes.

The next request goes to the application when the one before has been answered, so a pipelined read sees the write before it; what
was sent ahead is kept as bytes, bounded and timed.

This is the hottest Python of the server, so the ordinary case has a path of its own: one whole request in one read, nothing special
in its head, nothing else under way; and an answer to it without headers of its own. Everything else takes the general path and may
cost more. The fast path decides nothing: what is not exactly ordinary falls through.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, cast

from anew.net import peer
from anew.net.head import too_many_bodies
from anew.net.http1.ahead import SentAhead, max_ahead
from anew.net.http1.answer import Http1Request
from anew.net.http1.body import ChunkedBody, SizedBody
from anew.net.http1.head import Fields, Refused, RequestLine, check, chunked_length
from anew.net.http1.lingering import Lingering, max_dropped
from anew.net.http2.frames import preface
from anew.net.seam import Refusal, WebSocket, long_answer, refusal

if TYPE_CHECKING:
    from anew.net.port import HttpPort

# Stages of a connection: what the next byte is.
idle = 0  # the first byte of a request
in_head = 1  # more of the head whose beginning is in `_rest`
in_body = 2  # more of the body that comes in
ahead = 3  # more of `_ahead`, which waits until the answer under way has left
streaming = 4  # nothing: the answer under way is endless
closed = 5  # nothing: the connection ends with the answers that are due

turn_bytes = 1 << 20
"""Bytes of a body that are read before the other connections have their turn."""

max_at_once = 16
"""Requests of one connection that are answered on the spot before the others have their turn. More than a few, because their
answers leave in one write, and refusing very many must cost little."""

refused_line = RequestLine(b"GET", b"/", True, None)
refused_fields = Fields({}, 0)


class Incoming:
    """The body that is coming in, and the head that it belongs to.

    Attributes:
        held: Bytes of it that are counted in `WireCounters.unfinished`.
    """

    __slots__ = ("body", "fields", "held", "line", "pace")

    def __init__(self, line: RequestLine, fields: Fields, body: SizedBody | ChunkedBody, now_ms: int) -> None:
        self.line = line
        self.fields = fields
        self.body = body
        self.pace = peer.Pace(now_ms)
        self.held = 0


class Http1Connection(asyncio.Protocol):
    """One client's connection. Made by its port for each accepted socket.

    Attributes:
        counters: The server's.
        current: The request that has no answer yet, or whose answer is a stream.
        heads: The heads of answers.
        served: Whether a request of this connection has been let in.
        written: Bytes given to the transport so far.
    """

    __slots__ = (
        "_admission",
        "_ahead",
        "_began_ms",
        "_blocked",
        "_ending",
        "_eof",
        "_fields",
        "_fresh",
        "_gate",
        "_gathered",
        "_handed",
        "_holds_next",
        "_idle_ms",
        "_idle_written",
        "_incoming",
        "_judge",
        "_limits",
        "_lines",
        "_lingering",
        "_parser",
        "_parsing",
        "_paused_ms",
        "_port",
        "_rest",
        "_server",
        "_stage",
        "_successor",
        "_unsent",
        "_unsent_for",
        "counters",
        "current",
        "heads",
        "served",
        "transport",
        "written",
    )

    refusal: ClassVar[str] = "503"
    transport: asyncio.Transport

    def __init__(self, port: HttpPort) -> None:
        self._port = port
        self._server = port.server
        self._limits = port.server.limits
        self.counters = port.server.counters
        self._admission = port.admission
        self._gate = port.admission.gate
        self._judge = port.admission.judge
        self._parser = port.head_parser
        self._lines = port.head_parser.lines
        self._fields = port.head_parser.fields
        self.heads = port.answer_heads
        self.served = False
        self.current: Http1Request | None = None
        self._successor: asyncio.Protocol | None = None  # what the connection goes on as
        self._stage = idle
        self._fresh = True  # no request yet: the connection may turn out to be HTTP/2
        # What comes in.
        self._rest = b""  # the beginning of a head
        self._began_ms = 0  # when the head under way began to come; 0: none
        self._incoming: Incoming | None = None
        self._eof = False
        # What was sent ahead of an answer.
        self._ahead = SentAhead()
        self._handed = 0  # requests handed to the application in one go
        self._holds_next = False  # the newest request was shed: we are held off when no whole one is left
        self._paused_ms = 0  # since when the transport has not been read; 0: it is
        # What goes out.
        self.written = 0
        self._unsent = peer.Unsent(port.server.counters)
        self._blocked = False  # the transport's write buffer is above its mark
        self._parsing = False  # requests are being taken off one read; their answers leave together
        self._gathered: list[bytes] = []
        self._ending = False  # no request is read any more
        self._lingering = Lingering(port)
        # What the sweep saw last.
        self._unsent_for = peer.Waiting()
        self._idle_written = 0  # `written`, at `_idle_ms`
        self._idle_ms = port.server.now_ms()

    # ---- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=self._limits.write_buffer)
        self._server.admit(self)

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
                self.counters.requests += 1
                self.current = request = Http1Request(self, line, fields, body)
                refused = self._judge(line.method, line.path, fields.headers)
                if refused is None:
                    self.served = True
                    self._gate.hand(request, self._admission)
                else:
                    self.refuse(request, refused)
                return
        self._take(data)

    def eof_received(self) -> bool:
        self._eof = True
        if self._stage == streaming:
            # Whether the client has hung up or only closed its half cannot be known; a taker that will never ask again is
            # gone, and its jobs must return now.
            self._lose_stream()
            self.transport.abort()
            return False
        if self._lingering.until_ms or (self.current is None and self._stage != ahead):
            self._lingering.end()
            return False
        self._lose_stream()
        if self._stage != ahead:
            self._end_after_answer()
        # Otherwise whole requests wait in `_ahead`, and `_parse` comes to this end after them.
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.left(self)
        self._gate.holds_off_no_more(self)
        self._lingering.end()
        self._stage = closed
        self._ending = True
        self._unsent.becomes(0)
        self._forget_ahead()
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
        self.count_unsent()
        if self._stage != closed:
            self._pause()

    def resume_writing(self) -> None:
        self._blocked = False
        self._unsent.becomes(0)  # what is left is little
        stream = None if self.current is None else self.current.stream
        if stream is not None:
            stream.resumed()
        else:
            self.go_on()

    # ---- what the server calls

    def turn_away(self) -> None:
        """Say that there are too many connections, and close."""
        self._refuse(Refused(503, "connections", "too many connections"))

    def sweep(self, now_ms: int) -> None:
        """Cut off a peer that is too slow; close a connection that has been idle for too long.

        Args:
            now_ms: The monotonic clock.
        """
        waiting = self.transport.get_write_buffer_size()
        if self._stage == streaming:
            self._unsent.becomes(0)
            waiting += peer.unsent(self.transport)
        else:
            self.count_unsent()
        taken = peer.sent(self.transport, self.written) - waiting if waiting else None
        if self._unsent_for.stands_for(now_ms, taken) >= self._limits.stall_timeout_ms:
            self.counters.refuse("stalled_reader")
            self.abort()
        if 0 < self._lingering.until_ms <= now_ms:
            self._lingering.end()
            self.transport.close()
        elif not self._paused_ms:  # else it is we who do not read
            self._watch_sender(now_ms)
        idle_ms = self.idle_ms(now_ms)
        if idle_ms <= 0:
            self._idle_ms, self._idle_written = now_ms, self.written
        elif idle_ms >= self._limits.idle_timeout_ms:
            self.dismiss()

    def idle_ms(self, now_ms: int) -> int:
        """Say for how long nothing has been asked for; -1 while something is under way. A head that does not end is nothing."""
        if self._stage > in_head or self.current is not None or self.transport.is_closing():
            return -1
        if self._began_ms:
            return now_ms - self._began_ms
        return now_ms - self._idle_ms if self.written == self._idle_written else 0

    def dismiss(self) -> None:
        """Close an idle connection."""
        if peer.is_quiet(self.transport):
            self._stop_listening(closed)
            self._ending = True
            self.transport.close()
        else:
            self._end_after_answer()

    def drain(self) -> None:
        """Finish what has begun, then close. The answer under way carries ``connection: close``."""
        if self._stage == idle:
            if self.current is None:
                self.dismiss()
            else:
                self._end_after_answer()
        else:
            self._lingering.drain()
        # A head or body that is coming may still arrive, one that was sent ahead waits: `_open` sees the draining.

    def drain_streams(self) -> None:
        """End the stream: inform its owner, then end the body cleanly."""
        request = self.current
        stream = None if request is None else request.stream
        if stream is not None:
            self._end_after_answer()
            on_close, stream.on_close = stream.on_close, None
            if on_close is not None:
                on_close()
            stream.close()

    def abort(self) -> None:
        """Cut the connection now; unsent bytes are dropped."""
        self._stage = closed
        self._began_ms = 0
        self.transport.abort()

    # ---- bytes in

    def _take(self, data: bytes) -> None:
        stage = self._stage
        if stage >= streaming:
            self._drop(data)
        elif stage == ahead:
            self._ahead.add(data, self._server.now_ms())
            self._bound_ahead()
        elif stage == in_body:
            self._feed(data)
        else:
            rest, self._rest = self._rest, b""
            self._stage = idle
            self._parse(rest + data if rest else data, 0)

    def _drop(self, data: bytes) -> None:
        if self._successor is not None:
            # It came in one read with the request after which the protocol has changed.
            self._successor.data_received(data)
            return
        lingering = self._lingering
        lingering.dropped += len(data)
        if lingering.dropped <= max_dropped:
            return
        if self._stage == streaming:
            self.counters.refuse("unexpected_bytes")
            self._lose_stream()
            self.abort()
        elif lingering.may_discard():
            lingering.prolong()
            if lingering.dropped % turn_bytes < len(data):
                self._pause()
                asyncio.get_running_loop().call_soon(self.go_on)
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
        if self._stage == idle:
            self._began_ms = 0  # all of it was used
        elif self._stage == ahead and self.current is None:
            self._answer_left()  # it is the others' turn
        if self._holds_next and self._stage <= in_body and self.current is None:
            self._hold_off()
        if self._eof and self._stage <= in_body:
            self._end_after_answer()

    def _turned_http2(self, data: bytes) -> bool:
        """Hand the connection over if it begins with HTTP/2's preface, or wait for the rest of that."""
        if data.startswith(preface):
            self._port.hand_over(self, self.transport, data)
        elif preface.startswith(data):
            self._await_more(data)
        else:
            return False
        return True

    def _parse_one(self, data: bytes, at: int) -> int:
        """Take one request, or the reason why there is none.

        Returns:
            Where to go on in `data`; its length when the rest has been dealt with.
        """
        if self._stage >= streaming:
            self._drop(data[at:])
        elif self._blocked or self.current is not None or self._handed >= max_at_once:
            self._keep(data, at)
        elif data.startswith(b"\r\n", at):
            return at + 2  # empty lines before a request are let pass (RFC 9112, 2.2)
        else:
            end = data.find(b"\r\n\r\n", at) + 4
            if end >= 4:
                eol = data.find(b"\r\n", at)
                return self._begin(data[at:eol], data[eol + 2 : end - 4], data, end)
            self._parser.unfinished(data[at:])
            self._await_more(data[at:])
        return len(data)

    def _await_more(self, beginning: bytes) -> None:
        self._rest = beginning
        self._stage = in_head
        if not self._began_ms:
            self._began_ms = self._server.now_ms()

    def _begin(self, raw_line: bytes, raw_block: bytes, data: bytes, at: int) -> int:
        """Take one request, head known to be complete, and as much of its body as is there.

        Returns:
            Where the next request begins in `data`.
        """
        line, fields = self._parser.line(raw_line), self._parser.block(raw_block)
        self._fresh = False
        self._began_ms = 0
        self._stage = idle
        if not (line.plain and fields.plain):
            fields = check(line, fields)
        length = fields.length
        complete = 0 <= length <= len(data) - at
        refused = self._judge(line.method, line.path, fields.headers)
        if refused is not None:
            request = self._open(line, fields, b"") if complete else self._open_last(line, fields)
            self.refuse(request, refused)
            return at + length if complete else at
        self.served = True
        if complete:
            self._accept(line, fields, data[at : at + length] if length else b"")
            return at + length
        body = ChunkedBody(self._limits) if length == chunked_length else SizedBody(length)
        self._incoming = Incoming(line, fields, body, self._server.now_ms())
        self._stage = in_body
        rest = self._feed_body(data[at:]) if at < len(data) else None
        if rest is not None:
            return len(data) - len(rest)
        if fields.expect is not None and line.modern:
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return len(data)

    def _feed(self, data: bytes) -> None:
        try:
            rest = self._feed_body(data)
        except Refused as refused:
            self._refuse(refused)
        else:
            if rest:
                self._parse(rest, 0)

    def _feed_body(self, data: bytes) -> bytes | None:
        """Give bytes to the body under way.

        Returns:
            What follows the body, if it is complete now and was handed on; else None.
        """
        incoming = self._incoming
        assert incoming is not None
        rest = incoming.body.feed(data)
        if rest is not None:
            self._forget_body()
            self._stage = idle
            self._accept(incoming.line, incoming.fields, incoming.body.take())
            return rest
        incoming.held += len(data)
        self.counters.unfinished += len(data)
        if self.counters.unfinished > self._limits.max_unfinished:
            raise Refused(*too_many_bodies)
        # The loop goes on reading a socket as long as there is something: the others shall have their turn.
        if incoming.body.unread:
            self._pause()
            self._gate.queue_up(self)
        elif incoming.held % turn_bytes < len(data):
            self._pause()
            asyncio.get_running_loop().call_soon(self.go_on)
        return None

    def _forget_body(self) -> None:
        if self._incoming is not None:
            self.counters.unfinished -= self._incoming.held
            self._incoming = None

    def _accept(self, line: RequestLine, fields: Fields, body: bytes) -> None:
        """Hand a complete request to the application."""
        request = self._open(line, fields, body)
        if self._ahead.since_ms:
            self._gate.hand_held(request, self._admission, self._ahead.since_ms)
        else:
            self._gate.hand(request, self._admission)

    def _open(self, line: RequestLine, fields: Fields, body: bytes) -> Http1Request:
        """Make a complete request the current one."""
        self.counters.requests += 1
        request = Http1Request(self, line, fields, body)
        keeps = fields.keeps if not line.modern else not fields.closes
        if self._server.draining or not keeps:
            request.ends = self._ending = True
            self._stage = closed
        if not line.plain or not keeps or self._ending or self._gathered:
            request.plain = None
        self.current = request
        self._handed += 1
        self._holds_next = False
        return request

    def _open_last(self, line: RequestLine, fields: Fields) -> Http1Request:
        """Make a request the current one with whose answer the connection ends; nothing more is read."""
        self._stop_listening(closed)
        self._ending = True
        self.current = request = Http1Request(self, line, fields, b"")
        request.plain = None
        request.ends = True
        return request

    def _refuse(self, refused: Refused) -> None:
        """Answer in the application's stead and close."""
        request = self._open_last(refused_line, refused_fields)
        self.refuse(request, refusal(refused.status, str(refused), refused.reason))

    def refuse(self, request: Http1Request, refused: Refusal) -> None:
        """Answer a request in the application's place."""
        if refused.reason:
            self.counters.refuse(refused.reason)
        request.reply(refused.status, refused.body, refused.content_type, refused.extra)

    def _stop_listening(self, stage: int) -> None:
        """Forget what has begun to come in; nothing that comes after it is read."""
        if self._rest or self._ahead.data or self._incoming is not None:
            self._lingering.dropped += 1
        self._forget_ahead()
        self._forget_body()
        self._began_ms = 0
        self._stage = stage
        held_off = self._gate.holds_off(self)
        if held_off:
            self._gate.holds_off_no_more(self)
        if self._paused_ms and (held_off or stage == streaming):
            # Even a connection that asks nothing more is read, or its end would not be noticed.
            self._read_again()

    # ---- what was sent ahead of an answer

    def _keep(self, data: bytes, at: int) -> None:
        """Keep what begins at `at` until the request under way is answered and the peer reads."""
        self._stage = ahead
        self._began_ms = 0
        if self.current is not None:
            self.current.plain = None
        if not self._ahead.since_ms:
            self._ahead.since_ms = self._server.now_ms()
            self._gate.waits(self)
        self._ahead.keep(data, at)
        self._bound_ahead()

    def _bound_ahead(self) -> None:
        if self._ahead.size > max_ahead:
            self._pause()

    def _forget_ahead(self) -> None:
        """Forget what was sent ahead or had begun to come in."""
        self._rest = b""
        if self._ahead.since_ms:
            self._ahead.forget()
            self._gate.waits_no_more(self)

    def _pause(self) -> None:
        if not self._paused_ms and not self.transport.is_closing():
            self._paused_ms = self._server.now_ms()
            self.transport.pause_reading()

    def go_on(self) -> None:
        """Go on with what was read already, and read again if little of it is left."""
        if self._blocked or self._gate.holds_off(self):
            return
        if self._stage == ahead and self.current is None:
            self._take_ahead()
        elif self._incoming is not None and self._incoming.body.unread:
            self._feed(b"")
        if not self._paused_ms or self._blocked or self._gate.holds_off(self):
            return
        if self._lingering.dropped > max_dropped and not self._lingering.may_discard():
            return
        if self._stage == ahead and self._ahead.size > max_ahead // 2:
            return
        if self._incoming is None or not self._incoming.body.unread:
            self._read_again()

    def _take_ahead(self) -> None:
        self._stage = idle
        self._parse(*self._ahead.take())
        if self._stage != ahead and self._ahead.since_ms:
            self._ahead.forget()
            self._gate.waits_no_more(self)

    def _read_again(self) -> None:
        # The time in which we did not read is not the peer's.
        now_ms = self._server.now_ms()
        if self._began_ms:
            self._began_ms += now_ms - max(self._began_ms, self._paused_ms)
        elif self._incoming is not None:
            self._incoming.pace.pause(now_ms - self._paused_ms, now_ms, self._incoming.body.received)
        self._ahead.unread_ms = self._paused_ms if self._ahead.since_ms else 0
        self._paused_ms = 0
        if not self.transport.is_closing():
            self.transport.resume_reading()

    # ---- what requests and streams call

    def came_ms_ago(self, request: Http1Request) -> int | None:
        """Say how long ago a request came; the kernel knows of the newest bytes alone, so only if nothing was sent ahead."""
        return None if request.plain is None or self._parsing else peer.silent_ms(self.transport)

    def hold_off(self) -> None:
        """Read nothing until the gate lets us go on; the whole requests that have been read already have their turn before."""
        if self._parsing or self._stage == ahead:
            self._holds_next = True
        elif self._stage <= in_body and self.current is None:
            self._hold_off()

    def _hold_off(self) -> None:
        self._holds_next = False
        self._pause()
        self._gate.hold_off(self)

    @property
    def half_closed(self) -> bool:
        """Whether the peer has closed its half, which for an endless answer, or one that takes long, means that nobody reads it."""
        return self._eof

    def owes(self, request: Http1Request) -> bool:
        """Say whether this request still waits for its answer."""
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
        peer.bound_send_buffer(self.transport)
        if not self._blocked:
            stream.resumed()

    def stream_ended(self, end: bytes) -> None:
        """Send the last bytes of the stream and go on."""
        request = self.current
        if request is None:
            return
        if end:
            self._write(end)
        if self._lingering.dropped or request.ends or self._server.draining:
            self._ending = True
        self._stage = closed if self._ending else idle
        self._next()

    def become_websocket(self, request: Http1Request, accept: bytes, max_message: int) -> WebSocket | None:
        """Accept a handshake, and let the connection go on as a WebSocket.

        Args:
            request: The handshake, which has no answer yet.
            accept: What proves that it was understood.
            max_message: See `Request.open_websocket`.
        """
        if not self.owes(request) or self._ending or self._eof:
            self._end_after_answer()
            request.reply(503, b"", None)
            return None
        from anew.net.websocket import WebSocketWire

        ahead_of_answer = self._ahead.data[self._ahead.at :]
        self._stop_listening(closed)
        if self._paused_ms:
            self._read_again()
        self._flush()
        upgrade = ((b"connection", b"upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-accept", accept))
        self.transport.write(self.heads.build(101, None, upgrade, b""))
        self._unsent.becomes(0)
        request.plain = self.current = None
        self._successor = successor = WebSocketWire(self._server, self.transport, max_message)
        self._server.replace(self, successor)
        self.transport.set_protocol(successor)
        if self._blocked:
            successor.pause_writing()
        if ahead_of_answer:
            asyncio.get_running_loop().call_soon(successor.data_received, ahead_of_answer)
        return successor

    # ---- bytes out

    def count_unsent(self) -> None:
        """Bring up to date how much is held of answers that the peer has not taken."""
        self._unsent.waits(self.transport.get_write_buffer_size())

    def hold(self, size: int) -> None:
        """Note a long answer, which is written next."""
        self.count_unsent()
        self._unsent.hold(size)

    def _write(self, data: bytes) -> None:
        self.written += len(data)
        if self._parsing:
            self._gathered.append(data)
            if len(data) > long_answer:
                self._flush()  # not worth gathering; the transport says when it has enough, and what comes then is kept
        else:
            self.transport.write(data)

    def _flush(self) -> None:
        if self._gathered:
            data = b"".join(self._gathered)
            self._gathered.clear()
            self.transport.write(data)

    def _next(self) -> None:
        self.current = None
        if self._ending and self._stage == closed:
            self._finish()
        else:
            self._answer_left()

    def _answer_left(self) -> None:
        # Not at once: whoever answers may be in the middle of a batch, which the next request must not enter.
        if not self._parsing and (self._stage == ahead or self._paused_ms):
            self._gate.queue_up(self)

    def _end_after_answer(self) -> None:
        self._ending = True
        if self.current is not None:
            self.current.plain = None
        if self._stage != streaming:
            self._stop_listening(closed)
        if self.current is None:
            self._finish()

    def _finish(self) -> None:
        """Close, after the last answer, in a way that lets the peer read it."""
        self._stage = closed
        self._ending = True
        self._began_ms = 0
        transport = self.transport
        self._flush()
        if transport.is_closing():
            return
        if self._eof or not transport.can_write_eof():
            transport.close()
        else:
            self._lingering.begin()
            transport.write_eof()

    def _lose_stream(self) -> None:
        if self.current is not None and self.current.stream is not None:
            self.current.stream.lost()

    # ---- what the sweep looks at

    def _watch_sender(self, now_ms: int) -> None:
        limits, incoming = self._limits, self._incoming
        if incoming is not None:
            if incoming.pace.is_slow(now_ms, peer.came(self.transport, incoming.body.received), limits):
                rate = limits.body_rate
                self._refuse(Refused(408, "slow_body", f"a body arrives with at least {rate} bytes a second"))
        elif self._began_ms and now_ms - self._began_ms >= limits.header_timeout_ms:
            self._refuse(Refused(408, "slow_head", f"a head arrives within {limits.header_timeout_ms} ms"))
