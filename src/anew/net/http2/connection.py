"""One HTTP/2 connection, by prior knowledge (or ALPN), from preface to GOAWAY: what its peer sends and what it may.

A frame machine of our own, because the ready-made ones were measured and cost two to six times as much a
request. Frames are read here, their streams begin and end here; `streams` sends the answers.

Source:
    RFC 9113, "HTTP/2".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, cast

from anew.net import peer
from anew.net.admission import Admission
from anew.net.head import answer_to, large_body, too_many_bodies
from anew.net.http2 import frames
from anew.net.http2.budgets import Budgets
from anew.net.http2.closed import ClosedStreams
from anew.net.http2.frames import DATA, END_STREAM, HEADERS, Code, ConnectionFault, StreamFault
from anew.net.http2.heads import AnswerBlocks, HeaderBlock, HeadReader, MalformedHead
from anew.net.http2.streams import Http2Exchange, Sender, receive_window
from anew.net.seam import Refusal, refusal

if TYPE_CHECKING:
    from anew.net.listener import NetServer

look_bytes = 2 << 10
"""Bytes of a long read between two looks at the clock."""

linger_ms = 2_000
"""How long a connection that we have ended waits for the peer's end."""

_refill_below = receive_window // 2


class Http2Connection(asyncio.Protocol):
    """One HTTP/2 connection.

    Args:
        server: Informed when the connection is lost; its limits and counters hold here.
        admission: Judges every head and takes every complete request.
        answer_blocks: The header blocks of answers.

    Attributes:
        counters: The server's: requests and refusals are counted there.
        draining: True if new streams are refused, and the connection ends with the last open one.
        hung_up: True once the peer has ended its side.
        limits: The server's: what the peer may ask.
        sender: The sending half.
        served: Whether a request of this connection has been let in.
        streams: The open exchanges by stream number.
    """

    _transport: asyncio.Transport

    def __init__(self, server: NetServer, admission: Admission, answer_blocks: AnswerBlocks) -> None:
        self.limits = limits = server.limits
        self.served = False
        self.hung_up = False
        self.draining = False
        self.streams: dict[int, Http2Exchange] = {}
        self.sender = Sender(self._finished, answer_blocks)
        self._max_body = limits.max_body
        self._server = server
        self._admission = admission
        self._gate = admission.gate
        self._judge = admission.judge
        self.counters = server.counters
        self._closed = False  # nothing more is read
        # Bytes in
        self._unread = b""  # what waits for another turn of the loop
        self._tail = b""  # the frame that has not come completely
        self._begun = False  # preface and first SETTINGS have come
        self._frames = 0
        self._block: HeaderBlock | None = None  # whose CONTINUATION is due
        self._reader = HeadReader(limits)
        self._to_receive = receive_window
        self._held = 0  # bytes of unfinished bodies
        # Streams
        self._closed_streams = ClosedStreams()
        self._windows_due = False  # the open streams' windows are due for a check
        # What the peer costs
        self._budgets = Budgets()
        self._unsent = peer.Unsent(server.counters)
        self._closing_for = peer.Waiting()
        self._frame_due_for = peer.Waiting()
        self._unsent_for = peer.Waiting()
        self._idle_for = peer.Waiting()

    # ---- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: our SETTINGS go out first."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self.limits.write_buffer)
        self.sender.transport = self._transport
        ours = {
            frames.Setting.HEADER_TABLE_SIZE: 0,
            frames.Setting.MAX_CONCURRENT_STREAMS: self.limits.max_concurrent_streams,
            frames.Setting.INITIAL_WINDOW_SIZE: receive_window,
            frames.Setting.MAX_FRAME_SIZE: frames.max_frame_bytes,
            frames.Setting.MAX_HEADER_LIST_SIZE: self.limits.max_head,
        }
        self.sender.control(frames.settings(ours))
        self.sender.control(frames.window_update(0, receive_window - frames.default_window))

    def data_received(self, data: bytes) -> None:
        """Take what the peer has sent; all answers that it leads to at once leave in one write."""
        if self._closed:
            return
        if self._unread or self._gate.is_full():
            self._keep(data)
        else:
            self._read(data)

    def eof_received(self) -> bool:
        """Answer what is complete. Streams end: closing one half cannot be told from being gone."""
        while self._unread:
            self._read_kept()
        self.hung_up = True
        if self._closed:
            return False
        self._closed = True
        for exchange in list(self.streams.values()):
            if not exchange.ended or exchange.stream is not None:
                self._lose(exchange)
        self.draining = bool(self.streams)
        return self.draining

    def connection_lost(self, exc: Exception | None) -> None:
        """End everything and inform the streams' owners and the server."""
        self._server.left(self)
        self._stop()
        self._unsent.becomes(0)

    def pause_writing(self) -> None:
        """Stop filling the transport; a peer that asks without reading is not read before it reads."""
        self.sender.paused = True
        self.count_unsent()
        self._settle_streams()
        if not self._closed:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on where `pause_writing` stopped."""
        self.sender.paused = False
        if self._unread:
            self._gate.queue_up(self)
        if not self.hung_up:
            self._resume_reading()
        self.sender.pump()
        self.count_unsent()
        self._settle_streams()

    # ---- what the server calls

    def sweep(self, now_ms: int) -> None:
        """Cut off a peer that is too slow.

        Args:
            now_ms: The monotonic clock.
        """
        self.count_unsent()
        if self.idle_ms(now_ms) >= self.limits.idle_timeout_ms:
            self.dismiss()
            return
        self._budgets.sweep(now_ms, self.sender.written)
        waiting = self._transport.get_write_buffer_size()
        if self._has_endless():
            waiting += peer.unsent(self._transport)
        mark = peer.sent(self._transport, self.sender.written) - waiting if waiting else None
        if self._unsent_for.stands_for(now_ms, mark) >= self.limits.stall_timeout_ms:
            self.counters.refuse("stalled_reader")
            self.abort()
        elif self.sender.transport is None:
            if self._closing_for.stands_for(now_ms, None if waiting else True) >= linger_ms:
                self._transport.close()
        elif self.sender.paused or self._unread:  # it is we who do not read
            for exchange in self.streams.values():
                exchange.pace = None
        else:
            self._watch_peer(now_ms)

    def _watch_peer(self, now_ms: int) -> None:
        due = None if self._closed else self._frame_due()
        if self._frame_due_for.stands_for(now_ms, due) >= self.limits.header_timeout_ms:
            self.counters.refuse("slow_head")
            reason = f"a head arrives within {self.limits.header_timeout_ms} ms"
            self._fail(ConnectionFault(Code.NO_ERROR, reason))
            return
        for stream_id in self._closed_streams.due():
            self.sender.control(frames.rst_stream(stream_id, Code.NO_ERROR))
        for exchange in list(self.streams.values()):
            if not exchange.ended and not exchange.answered:
                self._watch_body(exchange, now_ms)
            elif exchange.pending:
                self._watch_answer(exchange, now_ms)

    def _frame_due(self) -> object:
        """Give a mark of the head or frame whose rest must come soon; None if nothing must."""
        if self._block is not None:
            return -self._block.stream_id
        if not self._begun or (self._tail and not self._tail_is_body()):
            return self._frames
        return None

    def _tail_is_body(self) -> bool:
        # The clock of its request watches over a body.
        tail = self._tail
        if len(tail) < frames.frame_head_bytes or tail[3] != DATA:
            return False
        exchange = self.streams.get(int.from_bytes(tail[5:9], "big") & frames.max_window)
        return exchange is not None and not exchange.ended

    def _watch_body(self, exchange: Http2Exchange, now_ms: int) -> None:
        if exchange.pace is None:
            exchange.pace = peer.Pace(now_ms)
        received = len(self._tail) + (exchange.gathered.tell() if exchange.gathered is not None else 0)
        if exchange.pace.is_slow(now_ms, peer.came(self._transport, received), self.limits):
            error = f"a body arrives with at least {self.limits.body_rate} bytes a second"
            self.refuse(exchange, refusal(408, error, "slow_body"))

    def _watch_answer(self, exchange: Http2Exchange, now_ms: int) -> None:
        if exchange.stalled_at is None:
            exchange.stalled_at = now_ms
        elif now_ms - exchange.stalled_at >= self.limits.stall_timeout_ms:
            self.counters.refuse("stalled_reader")
            self.reset(exchange.id, Code.CANCEL)

    def idle_ms(self, now_ms: int) -> int:
        """Give for how long no request has come; -1 while one is under way."""
        under_way = bool(self.streams) or self._closed
        idle_ms = self._idle_for.stands_for(now_ms, None if under_way else self._closed_streams.last)
        return -1 if under_way else idle_ms

    def dismiss(self) -> None:
        """Close an idle connection."""
        self.drain()

    def drain(self) -> None:
        """Take no new requests, answer those that have begun, then close. Streams stay open."""
        if self._closed or self.draining:
            return
        self.draining = True
        quiet = peer.is_quiet(self._transport)
        last = self._closed_streams.last
        self.sender.control(frames.goaway(last, Code.NO_ERROR, "the server is going away"))
        if not self.streams:
            self._close(linger=not quiet)

    def drain_streams(self) -> None:
        """End the endless answers: inform their owners, then end the bodies cleanly."""
        for exchange in list(self.streams.values()):
            if exchange.stream is not None and not exchange.ending:
                self._inform(exchange)
                if not exchange.gone and not exchange.ending:
                    self.sender.body(exchange, b"", True)

    def abort(self) -> None:
        """Cut the connection now; unsent bytes are dropped."""
        self.draining = True  # the rest of a read that is being worked on reaches nobody
        self._stop()
        self._transport.abort()

    # ---- bytes in

    def _keep(self, data: bytes) -> None:
        """Let bytes wait until others have had their turn."""
        if self._closed:
            return
        if not self._unread:
            self._gate.queue_up(self)
        self._unread += data
        self._transport.pause_reading()

    def go_on(self) -> None:
        """Take what waits, unless the peer does not read; then `resume_writing` comes back to it."""
        if not self.sender.paused:
            self._read_kept()

    def _read_kept(self) -> None:
        data, self._unread = self._unread, b""
        if not self._closed and data:
            self._read(data)
            self._resume_reading()

    def _resume_reading(self) -> None:
        if not (self.sender.paused or self._unread or self._transport.is_closing()):
            self._transport.resume_reading()

    def _read(self, data: bytes) -> None:
        self.sender.cork()
        try:
            self._take_frames(data)
            if self._windows_due:
                self._check_windows()
        except ConnectionFault as fault:
            self._fail(fault)
        finally:
            self.sender.uncork()
            if self._unsent.size:
                self.count_unsent()

    def _take_frames(self, data: bytes) -> None:
        """Read frames, where they lie, until the bytes are used up or others must have their turn."""
        if self._tail:
            data = self._tail + data
            self._tail = b""
        at = 0 if self._begun else self._begin(data)
        end = len(data)
        look_at, until_ms, before = look_bytes, 0, self.counters.requests
        while end - at >= frames.frame_head_bytes:
            high, low, kind, flags, stream_id = frames.frame_head.unpack_from(data, at)
            size = high << 16 | low
            if size > frames.max_frame_bytes:
                raise ConnectionFault(Code.FRAME_SIZE_ERROR, "a frame is larger than 16384 bytes")
            start = at + frames.frame_head_bytes
            after = start + size
            if after > end:
                break
            if at >= look_at:
                until_ms = until_ms or self._gate.read_until(self.counters.requests > before)
                if self._gate.is_past(until_ms):
                    self._keep(data[at:])
                    return
                look_at = at + look_bytes
            at = after
            self._frames += 1
            stream_id &= frames.max_window
            payload = data[start:after]
            try:
                if self._block is not None and not self._block.continues(kind, stream_id):
                    raise ConnectionFault(Code.PROTOCOL_ERROR, "a header block is interrupted")
                if kind == DATA:
                    self._on_data(stream_id, flags, payload)
                elif kind == HEADERS:
                    self._on_headers(stream_id, flags, payload)
                else:
                    _handlers.get(kind, Http2Connection._on_unknown)(self, stream_id, flags, payload)
            except StreamFault as fault:
                self.reset(fault.stream_id, fault.code)
                self._budgets.spend_reset()
        if at < end:
            self._tail = data[at:]

    def _begin(self, data: bytes) -> int:
        """Look for preface and SETTINGS; give how many bytes to skip."""
        if data[: len(frames.preface)] != frames.preface[: len(data)]:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "this is not HTTP/2's preface")
        if len(data) < len(frames.preface) + frames.frame_head_bytes:
            self._tail = data
            return len(data)
        if data[len(frames.preface) + 3] != frames.SETTINGS or data[len(frames.preface) + 4] & frames.ACK:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        self._begun = True
        return len(frames.preface)

    # ---- requests: header blocks

    def _on_headers(self, stream_id: int, flags: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "a client's streams have odd numbers")
        if flags & (frames.PADDED | frames.PRIORITISED):
            if flags & frames.PADDED:
                payload = frames.unpad(payload)
            if flags & frames.PRIORITISED:
                if len(payload) < 5:
                    raise ConnectionFault(Code.FRAME_SIZE_ERROR, "HEADERS is too short for its priority")
                if frames.word.unpack_from(payload)[0] & frames.max_window == stream_id:
                    # By the letter a stream's error; but its block would go unread.
                    raise ConnectionFault(Code.PROTOCOL_ERROR, "a stream depends on itself")
                payload = payload[5:]
        if flags & frames.END_HEADERS:
            self._take_block(stream_id, flags & END_STREAM, payload)
        else:
            self._block = HeaderBlock(stream_id, flags & END_STREAM, payload)

    def _on_continuation(self, stream_id: int, flags: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        block.add(payload)
        if flags & frames.END_HEADERS:
            self._block = None
            self._take_block(stream_id, block.ends, bytes(block.data))

    def _take_block(self, stream_id: int, ends: int, block: bytes) -> None:
        """Take a complete header block: a request's head, or trailers. `ends` is non-zero if END_STREAM was set."""
        if stream_id <= self._closed_streams.last:
            self._take_trailers(stream_id, ends, block)
            return
        self._closed_streams.reach(stream_id)
        # The block is decoded even for a stream that is refused: the decoder's table must follow the peer's.
        try:
            head = self._reader.known.get(block) or self._reader.read(block)
        except MalformedHead as error:
            self.counters.refuse("malformed")
            raise StreamFault(stream_id, Code.PROTOCOL_ERROR, str(error)) from None
        if self.draining or len(self.streams) >= self.limits.max_concurrent_streams:
            self.counters.refuse("streams")
            raise StreamFault(stream_id, Code.REFUSED_STREAM, "too many streams, or going away")
        self.streams[stream_id] = exchange = Http2Exchange(self, self.sender, stream_id, head)
        if ends:
            exchange.ended = True
        refused = head.refusal or self._judge(head.method, head.path, head.headers)
        if refused is not None:
            self.refuse(exchange, refused)
            return
        self.served = True
        if head.length > self._max_body:
            self._refuse_body(exchange)
        elif ends:
            if head.length > 0:
                raise StreamFault(stream_id, Code.PROTOCOL_ERROR, "content-length differs from the body")
            self._dispatch(exchange)
        elif head.expects:
            self.sender.proceed(exchange)

    def _take_trailers(self, stream_id: int, ends: int, block: bytes) -> None:
        problem = "" if ends else "trailers do not end the stream"
        try:
            self._reader.read_trailers(block)
        except MalformedHead as error:
            problem = str(error)
        exchange = self.streams.get(stream_id)
        if exchange is None:
            self._pass_over(stream_id, ends)
        elif exchange.ended:
            raise StreamFault(stream_id, Code.STREAM_CLOSED, "HEADERS after the end of the stream")
        elif problem:
            raise StreamFault(stream_id, Code.PROTOCOL_ERROR, problem)
        else:
            self._end_of_body(exchange)

    # ---- requests: bodies

    def _on_data(self, stream_id: int, flags: int, payload: bytes) -> None:
        size = len(payload)
        self._to_receive -= size
        if self._to_receive < _refill_below:
            if self._to_receive < 0:
                raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "more DATA than the connection's window")
            self.sender.control(frames.window_update(0, receive_window - self._to_receive))
            self._to_receive = receive_window
        exchange = self.streams.get(stream_id)
        if exchange is None:
            self._pass_over(stream_id, flags & END_STREAM)
            return
        if exchange.ended:
            raise StreamFault(stream_id, Code.STREAM_CLOSED, "DATA after the end of the stream")
        if flags & frames.PADDED:
            payload = frames.unpad(payload)
        if not flags & END_STREAM:
            self._budgets.spend_data(len(payload))
            self._gather(exchange, payload, size)
        elif exchange.gathered is None:  # the whole body in one frame, as nearly always
            exchange.body = payload
            self._end_of_body(exchange)
        else:
            self._gather(exchange, payload, size)
            self._end_of_body(exchange)

    def _gather(self, exchange: Http2Exchange, piece: bytes, size: int) -> None:
        """Keep a piece of a body (`size` with its padding); refuse it if it, or all of them together, are too large."""
        exchange.to_receive -= size
        if exchange.to_receive < 0:
            raise StreamFault(exchange.id, Code.FLOW_CONTROL_ERROR, "more DATA than the stream's window")
        if exchange.answered:
            return  # refused already: no window is given back, so what is still to come is bounded
        if exchange.to_receive < _refill_below:
            self.sender.control(frames.window_update(exchange.id, receive_window - exchange.to_receive))
            exchange.to_receive = receive_window
        if exchange.gathered is None:
            exchange.gathered = BytesIO()
        exchange.gathered.write(piece)
        self._held += len(piece)
        self.counters.unfinished += len(piece)
        if exchange.gathered.tell() > self._max_body:
            self._refuse_body(exchange)
        elif self._held > 2 * self._max_body or self.counters.unfinished > self.limits.max_unfinished:
            self.refuse(exchange, answer_to(too_many_bodies))

    def _release(self, exchange: Http2Exchange) -> None:
        """Let go of a body's pieces."""
        if exchange.gathered is not None:
            self._held -= exchange.gathered.tell()
            self.counters.unfinished -= exchange.gathered.tell()
            exchange.gathered = None

    def _end_of_body(self, exchange: Http2Exchange) -> None:
        exchange.ended = True
        if exchange.answered:
            return
        if exchange.gathered is not None:
            exchange.body = exchange.gathered.getvalue()  # shares the buffer
            self._release(exchange)
        if exchange.length >= 0 and exchange.length != len(exchange.body):
            raise StreamFault(exchange.id, Code.PROTOCOL_ERROR, "content-length differs from the body")
        if len(exchange.body) > self._max_body:
            self._refuse_body(exchange)
        else:
            self._dispatch(exchange)

    def _dispatch(self, exchange: Http2Exchange) -> None:
        self.counters.requests += 1
        self._gate.hand(exchange, self._admission)

    def _pass_over(self, stream_id: int, ends: int) -> None:
        self._closed_streams.pass_over(stream_id, ends)
        self._budgets.spend_idle()

    # ---- refusals

    def refuse(self, exchange: Http2Exchange, refused: Refusal) -> None:
        """Answer in the application's place; the rest of the request is dropped."""
        if refused.reason:
            self.counters.refuse(refused.reason)
        self._release(exchange)
        exchange.reply(refused.status, refused.body, refused.content_type, refused.extra)

    def _refuse_body(self, exchange: Http2Exchange) -> None:
        self.refuse(exchange, answer_to(large_body(self.limits)))

    # ---- frames that carry no request

    def _on_priority(self, stream_id: int, _flags: int, payload: bytes) -> None:
        self._budgets.spend_idle()
        if not stream_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "PRIORITY without a stream")
        if len(payload) != 5:
            raise StreamFault(stream_id, Code.FRAME_SIZE_ERROR, "PRIORITY has 5 bytes")
        if frames.word.unpack_from(payload)[0] & frames.max_window == stream_id:
            raise StreamFault(stream_id, Code.PROTOCOL_ERROR, "a stream depends on itself")

    def _on_rst_stream(self, stream_id: int, _flags: int, payload: bytes) -> None:
        if not stream_id or self._closed_streams.is_idle(stream_id):
            raise ConnectionFault(Code.PROTOCOL_ERROR, "RST_STREAM for an idle stream")
        if len(payload) != 4:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "RST_STREAM has 4 bytes")
        self._budgets.spend_reset()
        self._closed_streams.ended(stream_id)
        exchange = self.streams.get(stream_id)
        if exchange is not None:
            self._lose(exchange)
            self._close_if_drained()

    def _on_settings(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "SETTINGS on a stream")
        if len(payload) % frames.pair.size or (flags & frames.ACK and payload):
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "SETTINGS has 6 bytes for each value, none with ACK")
        self._budgets.spend_idle(1 + len(payload) // frames.pair.size)
        if flags & frames.ACK:
            # The peer knows our settings now, and may announce no table any more.
            self._reader.decoder.table_limit = 0
            return
        for key, value in frames.pair.iter_unpack(payload):
            self.sender.set(key, value)
        self._windows_due = True
        self.sender.control(frames.settings_ack)  # before what a wider window lets go

    def _check_windows(self) -> None:
        """See, once a read, that no open stream's window is above the limit; a setting by itself touches none of them."""
        self._windows_due = False
        most = frames.max_window - self.sender.initial_window
        if any(exchange.credit > most for exchange in self.streams.values()):
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "a stream's window is above 2^31 - 1")

    def _on_push_promise(self, _stream_id: int, _flags: int, _payload: bytes) -> None:
        raise ConnectionFault(Code.PROTOCOL_ERROR, "clients do not push")

    def _on_ping(self, stream_id: int, flags: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "PING has 8 bytes")
        self._budgets.spend_idle()
        if not flags & frames.ACK:
            self.sender.control(frames.ping_ack(payload))

    def _on_goaway(self, stream_id: int, _flags: int, payload: bytes) -> None:
        # We open no streams, so there is nothing to stop; the client closes when it has its answers.
        self._budgets.spend_idle()
        if stream_id:
            raise ConnectionFault(Code.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "GOAWAY has 8 bytes or more")

    def _on_window_update(self, stream_id: int, _flags: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(Code.FRAME_SIZE_ERROR, "WINDOW_UPDATE has 4 bytes")
        self._budgets.spend_update(self.sender.written)
        increment = frames.word.unpack(payload)[0] & frames.max_window
        if not stream_id:
            if not increment:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "WINDOW_UPDATE by zero")
            self.sender.grow(increment)
            return
        exchange = self.streams.get(stream_id)
        if exchange is None:
            if self._closed_streams.is_idle(stream_id):
                raise ConnectionFault(Code.PROTOCOL_ERROR, "WINDOW_UPDATE for an idle stream")
            return  # it has just ended on our side
        if not increment:
            raise StreamFault(stream_id, Code.PROTOCOL_ERROR, "WINDOW_UPDATE by zero")
        self.sender.grow_stream(exchange, increment)

    def _on_unknown(self, _stream_id: int, _flags: int, _payload: bytes) -> None:
        """Pass over a frame of an unknown type (RFC 9113 section 5.5)."""
        self._budgets.spend_idle()

    # ---- how streams end

    def _finished(self, exchange: Http2Exchange) -> None:
        """Take note that the answer is out; a request that is still coming will be cut off without blame."""
        self.streams.pop(exchange.id, None)
        exchange.gone = True
        exchange.stream = None
        if exchange.gathered is not None:
            self._release(exchange)
        if not exchange.ended:
            self._closed_streams.answered(exchange.id)
        if self.draining:
            self._close_if_drained()

    def reset(self, stream_id: int, code: Code) -> None:
        """Cut a stream off; the owner of its answer is informed."""
        self._closed_streams.cut(stream_id)
        self.sender.control(frames.rst_stream(stream_id, code))
        exchange = self.streams.get(stream_id)
        if exchange is not None:
            self._lose(exchange)
            self._close_if_drained()

    def _lose(self, exchange: Http2Exchange) -> None:
        self.streams.pop(exchange.id, None)
        exchange.gone = True
        self._release(exchange)
        self.sender.forget(exchange)
        self._inform(exchange)

    def _inform(self, exchange: Http2Exchange) -> None:
        stream, exchange.stream = exchange.stream, None
        if stream is not None:
            stream.lost()

    def _close_if_drained(self) -> None:
        if self.draining and not self.streams:
            self._close()

    # ---- all streams

    def queued(self, size: int) -> None:
        """Count bytes of an answer that wait for a window or the transport; `count_unsent` finds out when they leave."""
        self._unsent.becomes(self._unsent.size + size)

    def count_unsent(self) -> None:
        """Bring up to date how much of its answers the peer has not taken."""
        written = 0 if self._has_endless() else self._transport.get_write_buffer_size()
        self._unsent.becomes(written + self.sender.held())

    def _has_endless(self) -> bool:
        """Say whether an endless answer is open."""
        return any(exchange.stream is not None for exchange in self.streams.values())

    def _settle_streams(self) -> None:
        for exchange in list(self.streams.values()):
            exchange.settle_writable()

    # ---- the end

    def _fail(self, fault: ConnectionFault) -> None:
        if fault.code != Code.NO_ERROR:
            self.counters.refuse("protocol")
        self.sender.control(frames.goaway(self._closed_streams.last, fault.code, fault.reason))
        self._close()

    def _close(self, *, linger: bool = True) -> None:
        self.sender.flush()
        self._stop()
        transport = self._transport
        if transport.is_closing():
            return
        if self.hung_up or not linger or not transport.can_write_eof():
            transport.close()
            return
        # To close with bytes unread would reset the connection, and what was sent last might never be read.
        transport.write_eof()
        transport.resume_reading()

    def _stop(self) -> None:
        """Read and send no more; every stream ends."""
        self._closed = True
        self._unread = b""
        self.sender.detach()
        while self.streams:
            self._lose(next(iter(self.streams.values())))


_handlers: dict[int, Callable[[Http2Connection, int, int, bytes], None]] = {
    frames.PRIORITY: Http2Connection._on_priority,
    frames.RST_STREAM: Http2Connection._on_rst_stream,
    frames.SETTINGS: Http2Connection._on_settings,
    frames.PUSH_PROMISE: Http2Connection._on_push_promise,
    frames.PING: Http2Connection._on_ping,
    frames.GOAWAY: Http2Connection._on_goaway,
    frames.WINDOW_UPDATE: Http2Connection._on_window_update,
    frames.CONTINUATION: Http2Connection._on_continuation,
}
