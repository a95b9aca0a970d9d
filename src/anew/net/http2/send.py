"""The sending half of an HTTP/2 connection: answers into frames, flow control, one write each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from anew.net.http2.answers import answer_blocks, bodyless
from anew.net.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    HEADERS,
    ConnectionFault,
    StreamFault,
    default_window,
    frame,
    max_frame_bytes,
    max_window,
    word,
)
from anew.net.http2.hpack import empty_table, encode_status
from anew.net.seam import Headers

if TYPE_CHECKING:
    from anew.net.http2.exchange import Http2Exchange
    from anew.net.http2.streams import StreamTable

# Enough for one write to be worth its system call, little enough that `paused` is heard in time.
_write_bytes = 1 << 16


class Sender:
    """Turns answers into frames and holds back what the peer cannot take yet.

    Attributes:
        window: Bytes of DATA that the peer will take on this connection.
        initial_window: What a new stream starts with.
        paused: True while the transport holds more than the high-water mark.
        written: Bytes given to the transport so far.
        table_shrunk: True if the next header block must say first that our dynamic table is empty.
    """

    __slots__ = (
        "_blocked",
        "_corked",
        "_loop",
        "_out",
        "_out_bytes",
        "_scheduled",
        "_streams",
        "_transport",
        "initial_window",
        "paused",
        "table_shrunk",
        "window",
        "written",
    )

    def __init__(self) -> None:
        self._streams: StreamTable | None = None
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._corked = False
        self._scheduled = False
        self._blocked: dict[int, Http2Exchange] = {}
        self.window = default_window
        self.initial_window = default_window
        self.paused = False
        self.written = 0
        self.table_shrunk = False

    def attach(self, transport: asyncio.Transport, streams: StreamTable) -> None:
        """Say where to write, and who hears that a stream's last frame is on its way."""
        self._transport = transport
        self._streams = streams
        self._loop = asyncio.get_running_loop()

    def detach(self) -> None:
        """Drop everything unsent; what comes later is dropped as well."""
        self._transport = None
        self._out.clear()
        self._blocked.clear()

    @property
    def detached(self) -> bool:
        """Tell whether nothing can be sent any more."""
        return self._transport is None

    # -- bytes out

    def cork(self) -> None:
        """Gather until `uncork`, which writes at once: a read's answers leave together."""
        self._corked = True

    def uncork(self) -> None:
        """End `cork`."""
        self._corked = False
        if self._out:
            self.flush()

    def control(self, data: bytes) -> None:
        """Send a finished frame, whatever the windows say."""
        if self._transport is not None:
            self._out.append(data)
            self._schedule()

    def _schedule(self) -> None:
        if not self._corked and not self._scheduled and self._loop is not None:
            self._scheduled = True
            self._loop.call_soon(self._turn_over)

    def _turn_over(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Write what has gathered."""
        if self._out and self._transport is not None:
            data = b"".join(self._out)
            self._out.clear()
            self._out_bytes = 0
            self.written += len(data)
            self._transport.write(data)

    def _ended(self, exchange: Http2Exchange) -> None:
        if self._streams is not None:
            self._streams.finished(exchange)

    # -- answers

    def reply(
        self, exchange: Http2Exchange, status: int, body: bytes, content_type: bytes | None, extra: Headers
    ) -> None:
        """Send a whole answer; what does not fit the windows follows later."""
        size = len(body)
        room = min(exchange.window, self.window, max_frame_bytes)
        if 0 < size <= room and not (
            exchange.head_only or self.paused or self.table_shrunk or status in bodyless
        ):
            key = (status, content_type, extra, size)
            head, rest = answer_blocks.templates.get(key) or answer_blocks.template(key)
            number = word.pack(exchange.id)
            self._out += (head, number, rest, number, body)
            self.window -= size
            if not self._scheduled:
                self._schedule()
            self._ended(exchange)
            return
        ends = not size or exchange.head_only or status in bodyless
        self.head(exchange, answer_blocks.block(status, content_type, extra, size), ends)
        if not ends:
            self.body(exchange, body, True)

    def stream_head(self, exchange: Http2Exchange, status: int, content_type: bytes, extra: Headers) -> None:
        """Send the head of an answer whose body comes piece by piece (or not at all, after HEAD)."""
        self.head(exchange, answer_blocks.block(status, content_type, extra, None), exchange.head_only)

    def proceed(self, exchange: Http2Exchange) -> None:
        """Send "100 Continue"."""
        self.head(exchange, encode_status(100), False)

    def head(self, exchange: Http2Exchange, block: bytes, ends: bool) -> None:
        """Send a finished header block, in as many frames as it takes."""
        if self.table_shrunk:
            self.table_shrunk = False
            block = empty_table + block
        flags = END_STREAM if ends else 0
        first, rest = block[:max_frame_bytes], block[max_frame_bytes:]
        self.control(frame(HEADERS, flags | (0 if rest else END_HEADERS), exchange.id, first))
        if rest:
            self._continue(exchange.id, rest)
        if ends:
            self._ended(exchange)

    def _continue(self, stream_id: int, rest: bytes) -> None:
        for at in range(0, len(rest), max_frame_bytes):
            last = at + max_frame_bytes >= len(rest)
            piece = rest[at : at + max_frame_bytes]
            self.control(frame(CONTINUATION, END_HEADERS if last else 0, stream_id, piece))

    def body(self, exchange: Http2Exchange, data: bytes, ends: bool) -> None:
        """Send a piece of a body, or queue it behind the windows.

        Args:
            exchange: Whose.
            data: The piece; may be empty only if it `ends` the body.
            ends: True if it is the last.
        """
        exchange.ending = ends
        size = len(data)
        pending = exchange.pending
        fits = not size or (size <= min(exchange.window, self.window, max_frame_bytes) and not self.paused)
        if fits and not pending:
            self._data(exchange, data, ends)
            return
        if pending is None:
            pending = exchange.pending = bytearray()
        pending += data
        self._blocked[exchange.id] = exchange
        self.pump()

    def _data(self, exchange: Http2Exchange, data: bytes, ends: bool) -> None:
        size = len(data)
        exchange.window -= size
        exchange.stalled_at = None
        self.window -= size
        self._out.append(frame(DATA, END_STREAM if ends else 0, exchange.id, data))
        self._out_bytes += size
        if self._out_bytes >= _write_bytes:
            self.flush()
        else:
            self._schedule()
        if ends:
            self._ended(exchange)

    def pump(self) -> None:
        """Send what windows and transport allow of the queued bytes, streams taking turns frame by frame.

        Their owners hear of it at the end, not in the middle, where more may wait than will in a moment.
        """
        moved_any: dict[int, Http2Exchange] = {}
        moved = True
        while moved:
            moved = False
            for exchange in list(self._blocked.values()):
                if self._pump_one(exchange):
                    moved = True
                    moved_any[exchange.id] = exchange
        for exchange in moved_any.values():
            exchange.settle_writable()

    def _pump_one(self, exchange: Http2Exchange) -> bool:
        pending = exchange.pending
        if self.paused or not pending or exchange.id not in self._blocked:
            return False
        size = min(len(pending), exchange.window, self.window, max_frame_bytes)
        if size <= 0:
            return False
        data = bytes(pending[:size])
        del pending[:size]
        if not pending:
            del self._blocked[exchange.id]
        self._data(exchange, data, exchange.ending and not pending)
        return True

    def forget(self, exchange: Http2Exchange) -> None:
        """Drop what is queued for a stream."""
        self._blocked.pop(exchange.id, None)
        exchange.pending = None

    def held(self) -> int:
        """Count the queued bytes of answers that have an end."""
        return sum(len(one.pending or b"") for one in self._blocked.values() if one.stream is None)

    # -- flow control

    def grow(self, increment: int) -> None:
        """Widen the connection's window.

        Raises:
            ConnectionFault: It would pass 2^31 - 1.
        """
        if self.window + increment > max_window:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "the connection's window is above 2^31 - 1")
        self.window += increment
        self.pump()

    def grow_stream(self, exchange: Http2Exchange, increment: int) -> None:
        """Widen a stream's window.

        Raises:
            StreamFault: It would pass 2^31 - 1.
        """
        if exchange.window + increment > max_window:
            raise StreamFault(exchange.id, FLOW_CONTROL_ERROR, "a stream's window is above 2^31 - 1")
        exchange.window += increment
        self.pump()

    def set_initial_window(self, size: int, exchanges: Iterable[Http2Exchange]) -> None:
        """Take the peer's new initial window; it moves the open streams' windows too, perhaps below zero.

        What this sets free must not leave before the acknowledgement: `pump` is the caller's.

        Raises:
            ConnectionFault: The size or a window would pass 2^31 - 1.
        """
        change = size - self.initial_window
        self.initial_window = size
        for exchange in exchanges:
            exchange.window += change
            if exchange.window > max_window:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "a stream's window is above 2^31 - 1")
