"""Header blocks and DATA become requests, within every limit, and go to the application when complete.

Source:
    RFC 9113 sections 5.1, 5.2 and 8.1.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

from anew.net.http2.exchange import Http2Exchange
from anew.net.http2.frames import (
    END_STREAM,
    FLOW_CONTROL_ERROR,
    PADDED,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    ConnectionFault,
    StreamFault,
    unpad,
    window_update,
)
from anew.net.http2.heads import Head, MalformedHead, reader_for
from anew.net.http2.hpack import HeaderDecoder
from anew.net.http2.send import Sender
from anew.net.http2.streams import StreamTable
from anew.net.http2.watch import Budgets
from anew.net.seam import Request, WireCounters

if TYPE_CHECKING:
    from anew.net.http2.connection import Http2Connection

receive_window = 1 << 20
"""Bytes of DATA that a peer may send ahead, on a stream and on the connection."""

_refill_below = receive_window // 2


class Intake:
    """Takes one connection's requests.

    Args:
        connection: Whose.
        streams: Where they are kept.
        sender: Where windows are given back.
        hand: Takes every complete request.
        counters: Requests are counted here, and those without a head.
        budgets: What the peer may still do this second.
    """

    __slots__ = (
        "_budgets",
        "_connection",
        "_counters",
        "_decoder",
        "_hand",
        "_known",
        "_limits",
        "_reader",
        "_room",
        "_sender",
        "_streams",
    )

    def __init__(
        self,
        connection: Http2Connection,
        streams: StreamTable,
        sender: Sender,
        hand: Callable[[Request], None],
        counters: WireCounters,
        budgets: Budgets,
    ) -> None:
        self._connection = connection
        self._streams = streams
        self._sender = sender
        self._hand = hand
        self._counters = counters
        self._budgets = budgets
        self._limits = connection.limits
        self._reader = reader_for(connection.limits)
        self._decoder = HeaderDecoder()
        self._known = self._reader.known(False)
        self._room = receive_window

    def acknowledged(self) -> None:
        """Take note that the peer knows our settings: it may no longer announce a dynamic table."""
        self._decoder.table_limit = 0

    # -- header blocks

    def headers(self, stream_id: int, ends: int, block: bytes) -> None:
        """Take a complete header block: a request's head, or trailers.

        Args:
            stream_id: An odd number.
            ends: Non-zero if END_STREAM was set.
            block: The block, still compressed.

        Raises:
            StreamFault: The stream must be reset.
            ConnectionFault: The connection must be closed.
        """
        streams = self._streams
        if stream_id <= streams.last:
            self._trailers(stream_id, ends, block)
            return
        streams.reach(stream_id)
        # The block is decoded even for a stream that is refused: the decoder's table must follow the peer's.
        head = self._known.get(block)
        if head is None:
            head = self._read(stream_id, block)
        if streams.draining or len(streams.open) >= self._limits.max_concurrent_streams:
            self._counters.refuse("streams")
            raise StreamFault(stream_id, REFUSED_STREAM, "too many streams, or going away")
        exchange = Http2Exchange(
            self._connection, stream_id, head, self._sender.initial_window, receive_window
        )
        streams.open[stream_id] = exchange
        if ends:
            exchange.ended = True
        if head.status:
            streams.refuse(exchange, head.status, head.error, head.reason)
        elif head.length > self._limits.max_body:
            streams.refuse_body(exchange)
        elif ends:
            if head.length > 0:
                raise StreamFault(stream_id, PROTOCOL_ERROR, "content-length differs from the body")
            self._dispatch(exchange)
        elif head.expects:
            self._sender.proceed(exchange)

    def _read(self, stream_id: int, block: bytes) -> Head:
        decoder = self._decoder
        try:
            return self._reader.read(block, decoder)
        except MalformedHead as error:
            self._counters.refuse("malformed")
            raise StreamFault(stream_id, PROTOCOL_ERROR, str(error)) from None
        finally:
            self._known = self._reader.known(decoder.closed)

    def _trailers(self, stream_id: int, ends: int, block: bytes) -> None:
        problem = "" if ends else "trailers do not end the stream"
        try:
            self._reader.read_trailers(block, self._decoder)
        except MalformedHead as error:
            problem = str(error)
        finally:
            self._known = self._reader.known(self._decoder.closed)
        exchange = self._streams.open.get(stream_id)
        if exchange is None:
            self._streams.judge_stray(stream_id, ends)
        elif exchange.ended:
            raise StreamFault(stream_id, STREAM_CLOSED, "HEADERS after the end of the stream")
        elif problem:
            raise StreamFault(stream_id, PROTOCOL_ERROR, problem)
        else:
            self._end_of_body(exchange)

    # -- bodies

    def data(self, stream_id: int, flags: int, payload: bytes) -> None:
        """Take a DATA frame; the same errors as `headers`."""
        size = len(payload)
        self._room -= size
        if self._room < _refill_below:
            self._refill()
        exchange = self._streams.open.get(stream_id)
        if exchange is None:
            self._streams.judge_stray(stream_id, flags & END_STREAM)
            return
        if exchange.ended:
            raise StreamFault(stream_id, STREAM_CLOSED, "DATA after the end of the stream")
        if flags & PADDED:
            payload = unpad(payload)
        if not flags & END_STREAM:
            self._gather(exchange, payload, size)
        elif exchange.gathered is None:  # the whole body in one frame, as nearly always
            exchange.body = payload
            self._end_of_body(exchange)
        else:
            self._gather(exchange, payload, size)
            self._end_of_body(exchange)

    def _refill(self) -> None:
        if self._room < 0:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "more DATA than the connection's window")
        self._sender.control(window_update(0, receive_window - self._room))
        self._room = receive_window

    def _gather(self, exchange: Http2Exchange, piece: bytes, size: int) -> None:
        exchange.room -= size
        if exchange.room < 0:
            raise StreamFault(exchange.id, FLOW_CONTROL_ERROR, "more DATA than the stream's window")
        if not piece:
            self._budgets.spend_idle()
        if exchange.answered:
            return  # refused already: no window is given back, so what is still to come is bounded
        if exchange.room < _refill_below:
            self._sender.control(window_update(exchange.id, receive_window - exchange.room))
            exchange.room = receive_window
        if exchange.gathered is None:
            exchange.gathered = BytesIO()
        exchange.gathered.write(piece)
        self._streams.hold(exchange, len(piece))

    def _end_of_body(self, exchange: Http2Exchange) -> None:
        exchange.ended = True
        if exchange.answered:
            return
        gathered = exchange.gathered
        if gathered is not None:
            exchange.body = gathered.getvalue()  # shares the buffer
            self._streams.release(exchange)
        if exchange.length >= 0 and exchange.length != len(exchange.body):
            raise StreamFault(exchange.id, PROTOCOL_ERROR, "content-length differs from the body")
        self._dispatch(exchange)

    def _dispatch(self, exchange: Http2Exchange) -> None:
        self._counters.requests += 1
        self._hand(exchange)
