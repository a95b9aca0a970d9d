"""One exchange on its stream, and the sender that all exchanges of a connection share: windows, queues, one write.

Source:
    RFC 9113 sections 5.2, 6.9 and 8.1.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

from anew.net.http2 import frames
from anew.net.http2.frames import DATA, END_STREAM, Code, ConnectionFault, StreamFault, frame
from anew.net.http2.heads import AnswerBlocks, Head
from anew.net.http2.hpack import default_table_bytes, empty_table, encode_status
from anew.net.peer import Pace
from anew.net.seam import Headers, Request, Stream, bodiless, too_much_unread, type_json

if TYPE_CHECKING:
    from anew.net.http2.connection import Http2Connection

log = logging.getLogger("anew.net")

receive_window = 1 << 20
"""Bytes of DATA that a peer may send ahead, on a stream and on the connection."""

# Enough for one write to be worth its system call, little enough that `paused` is noticed in time.
_write_bytes = 1 << 16


class Http2Exchange(Request):
    """A request and its answer.

    Attributes:
        id: The stream's number.
        owner, sender: Of its connection.
        credit: Bytes of DATA that the peer takes on this stream beyond its initial window; mostly negative. So a new
            initial window, which moves the windows of all open streams, touches none of them.
        to_receive: Bytes of DATA that we still take before the next WINDOW_UPDATE.
        length: Of the content-length header, -1 if there is none.
        gathered: The body so far, where it came in more than one piece; gives its buffer away without a copy.
        ended: True once the peer has ended its side.
        answered: True once an answer was begun; later body bytes are dropped.
        gone: True once the stream is over, whoever ended it.
        head_only: True for HEAD.
        pending: Bytes of the answer that wait for a window or the transport.
        ending: True if END_STREAM goes with the last pending byte.
        pace: How fast the body comes in; None until the sweep has seen it.
        stalled_at: When `pending` was first seen without progress, monotonic ms, set by the sweep.
        stream: The open stream, where the answer is one.
    """

    __slots__ = (
        "answered",
        "credit",
        "ended",
        "ending",
        "gathered",
        "gone",
        "head_only",
        "id",
        "length",
        "owner",
        "pace",
        "pending",
        "sender",
        "stalled_at",
        "stream",
        "to_receive",
    )

    gone: bool

    def __init__(self, owner: Http2Connection, sender: Sender, stream_id: int, head: Head) -> None:
        self.owner = owner
        self.sender = sender
        self.id = stream_id
        self.method = head.method
        self.path = head.path
        self.query = head.query
        self.headers = head.headers
        self.body = b""
        self.length = head.length
        self.head_only = head.method == b"HEAD"
        self.credit = 0
        self.to_receive = receive_window
        self.ended = self.answered = self.gone = self.ending = False
        self.gathered: BytesIO | None = None
        self.pending: bytearray | None = None
        self.pace: Pace | None = None
        self.stalled_at: int | None = None
        self.stream: Http2Stream | None = None

    @property
    def hung_up(self) -> bool:
        """See the seam."""
        return self.gone or self.owner.hung_up

    def reply(
        self, status: int, body: bytes = b"", content_type: bytes | None = type_json, extra: Headers = ()
    ) -> None:
        """Answer once; see the seam."""
        if self.answered or self.gone:
            return
        if self.owner.counters.refuses(self.method, len(body)):
            self.owner.refuse(self, too_much_unread)
            return
        self.answered = True
        self.sender.reply(self, status, body, content_type, extra)
        if self.pending:
            self.owner.queued(len(self.pending))

    def open_stream(self, status: int, content_type: bytes, extra: Headers = ()) -> Stream | None:
        """Send the head and give the body as a stream; see the seam."""
        if self.answered or self.gone:
            return None
        if self.owner.hung_up:  # while this request waited: nobody would notice the end of the stream
            self.owner.reset(self.id, Code.CANCEL)
            return None
        self.answered = True
        self.sender.head(
            self, self.sender.answer_blocks.block(status, content_type, extra, None), self.head_only
        )
        if self.gone:
            return None
        self.stream = Http2Stream(self)
        self.settle_writable()
        return self.stream

    def settle_writable(self) -> None:
        """Bring `writable` of the open stream up to date, and call its owner when it turns true."""
        stream = self.stream
        if stream is None or self.ending:
            return
        limit, waiting = self.owner.limits.write_buffer, len(self.pending or b"")
        if stream.writable:
            stream.writable = not self.sender.paused and waiting <= limit
        elif not self.sender.paused and waiting <= limit // 2:
            stream.writable = True
            _call(stream.on_drain)


class Http2Stream(Stream):
    """An answer that comes in pieces.

    Not `writable` while the transport is behind, or while more than the limit waits for this stream's window;
    writable again when what waits has fallen to half.
    """

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Http2Exchange) -> None:
        super().__init__()
        self._exchange = exchange

    def write(self, data: bytes) -> None:
        """Send one piece; see the seam."""
        exchange = self._exchange
        if data and not exchange.gone and not exchange.ending:
            exchange.sender.body(exchange, data, False)
            exchange.settle_writable()

    def close(self) -> None:
        """End the body after what is queued; see the seam."""
        self.on_close = self.on_drain = None
        exchange = self._exchange
        if not exchange.gone and not exchange.ending:
            exchange.sender.body(exchange, b"", True)

    def abort(self) -> None:
        """Reset the stream; see the seam."""
        self.on_close = self.on_drain = None
        if not self._exchange.gone:
            self._exchange.owner.reset(self._exchange.id, Code.CANCEL)

    def lost(self) -> None:
        """Inform the owner, once, that the stream is over."""
        self.writable = False
        on_close, self.on_close, self.on_drain = self.on_close, None, None
        _call(on_close)


def _call(hook: Callable[[], None] | None) -> None:
    """Call a stream's owner; an error of one of them must not keep the others from being called."""
    if hook is not None:
        try:
            hook()
        except Exception:
            log.exception("unhandled error in the owner of a stream")


class Sender:
    """Turns one connection's answers into frames and holds back what the peer cannot take yet.

    Args:
        finished: Called when the last frame of an answer is on its way.
        answer_blocks: The header blocks of answers.

    Attributes:
        transport: Where to write; None before there is one, and when nothing can be sent any more.
        window: Bytes of DATA that the peer will take on this connection.
        initial_window: What a new stream starts with; every open stream's window is this plus its `credit`.
        paused: True while the transport holds more than the high-water mark.
        written: Bytes given to the transport so far.
    """

    def __init__(self, finished: Callable[[Http2Exchange], None], answer_blocks: AnswerBlocks) -> None:
        self._finished = finished
        self.answer_blocks = answer_blocks
        self.transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._corked = False
        self._scheduled = False
        self._widened = False  # a window has grown since `pump` ran
        self._blocked: dict[int, Http2Exchange] = {}
        self.window = frames.default_window
        self.initial_window = frames.default_window
        self.paused = False
        self.written = 0
        self._table_shrunk = False  # the next header block must say first that our dynamic table is empty

    def detach(self) -> None:
        """Drop everything unsent; what comes later is dropped as well."""
        self.transport = None
        self._out.clear()
        self._blocked.clear()

    # -- bytes out

    def cork(self) -> None:
        """Gather until `uncork`: a read's answers leave together."""
        self._corked = True

    def uncork(self) -> None:
        """End `cork`: send what the windows that have grown meanwhile let go, and write."""
        if self._widened:
            self.pump()
        self._corked = False
        if self._out:
            self.flush()

    def control(self, data: bytes) -> None:
        """Send a finished frame, whatever the windows say."""
        if self.transport is not None:
            self._out.append(data)
            self._schedule()

    def _schedule(self) -> None:
        if not self._corked and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn_over)

    def _turn_over(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Write what has gathered."""
        if self._out and self.transport is not None:
            data = b"".join(self._out)
            self._out.clear()
            self._out_bytes = 0
            self.written += len(data)
            self.transport.write(data)

    # -- answers

    def reply(
        self, exchange: Http2Exchange, status: int, body: bytes, content_type: bytes | None, extra: Headers
    ) -> None:
        """Send a whole answer; what does not fit the windows follows later."""
        size = len(body)
        if (
            0 < size <= frames.max_frame_bytes
            and size <= self.window
            and size <= exchange.credit + self.initial_window
            and not (exchange.head_only or self.paused or self._table_shrunk or status in bodiless)
        ):
            key = (status, content_type, extra, size)
            blocks = self.answer_blocks
            head, rest = blocks.templates.get(key) or blocks.template(key)
            number = frames.word.pack(exchange.id)
            self._out += (head, number, rest, number, body)
            self.window -= size
            if not self._scheduled:
                self._schedule()
            self._finished(exchange)
            return
        ends = not size or exchange.head_only or status in bodiless
        self.head(exchange, self.answer_blocks.block(status, content_type, extra, size), ends)
        if not ends:
            self.body(exchange, body, True)

    def proceed(self, exchange: Http2Exchange) -> None:
        """Send "100 Continue"."""
        self.head(exchange, encode_status(100), False)

    def head(self, exchange: Http2Exchange, block: bytes, ends: bool) -> None:
        """Send a finished header block, in as many frames as it takes."""
        if self._table_shrunk:
            self._table_shrunk = False
            block = empty_table + block
        kind, flags = frames.HEADERS, END_STREAM if ends else 0
        for at in range(0, len(block), frames.max_frame_bytes):
            part = block[at : at + frames.max_frame_bytes]
            last = at + frames.max_frame_bytes >= len(block)
            self.control(frame(kind, flags | (frames.END_HEADERS if last else 0), exchange.id, part))
            kind, flags = frames.CONTINUATION, 0
        if ends:
            self._finished(exchange)

    def body(self, exchange: Http2Exchange, data: bytes, ends: bool) -> None:
        """Send a piece of a body, or queue it behind the windows.

        Args:
            exchange: Whose.
            data: The piece; may be empty only if it `ends` the body.
            ends: True if it is the last.
        """
        exchange.ending = ends
        pending = exchange.pending
        if not pending and (not data or (not self.paused and len(data) <= self._fitting(exchange))):
            self._data(exchange, data, ends)
            return
        if pending is None:
            pending = exchange.pending = bytearray()
        pending += data
        self._blocked[exchange.id] = exchange
        while self._pump_one(exchange):
            pass

    def _fitting(self, exchange: Http2Exchange) -> int:
        """Give how many bytes one frame on this stream may have now; perhaps below zero."""
        return min(exchange.credit + self.initial_window, self.window, frames.max_frame_bytes)

    def _data(self, exchange: Http2Exchange, data: bytes, ends: bool) -> None:
        size = len(data)
        exchange.credit -= size
        exchange.stalled_at = None
        self.window -= size
        self._out.append(frame(DATA, END_STREAM if ends else 0, exchange.id, data))
        self._out_bytes += size
        if self._out_bytes >= _write_bytes:
            self.flush()
        else:
            self._schedule()
        if ends:
            self._finished(exchange)

    def pump(self) -> None:
        """Send what windows and transport allow of the queued bytes, streams taking turns frame by frame.

        Their owners are called at the end, not in the middle, where more may wait than will in a moment.
        """
        self._widened = False
        moved: dict[int, Http2Exchange] = {}
        turn = list(self._blocked.values())
        while turn:
            turn = [exchange for exchange in turn if self._pump_one(exchange)]
            moved |= {exchange.id: exchange for exchange in turn}
        for exchange in moved.values():
            exchange.settle_writable()

    def _pump_one(self, exchange: Http2Exchange) -> bool:
        pending = exchange.pending
        if self.paused or not pending or exchange.id not in self._blocked:
            return False
        size = min(len(pending), self._fitting(exchange))
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

    # -- the peer's windows and settings; what they let go leaves with `uncork`

    def grow(self, increment: int) -> None:
        """Widen the connection's window.

        Raises:
            ConnectionFault: It would pass 2^31 - 1.
        """
        if self.window + increment > frames.max_window:
            raise ConnectionFault(Code.FLOW_CONTROL_ERROR, "the connection's window is above 2^31 - 1")
        self.window += increment
        self._widened = True

    def grow_stream(self, exchange: Http2Exchange, increment: int) -> None:
        """Widen a stream's window.

        Raises:
            StreamFault: It would pass 2^31 - 1.
        """
        if exchange.credit + self.initial_window + increment > frames.max_window:
            raise StreamFault(exchange.id, Code.FLOW_CONTROL_ERROR, "a stream's window is above 2^31 - 1")
        exchange.credit += increment
        self._widened = True

    def set(self, key: int, value: int) -> None:
        """Take a setting of the peer. A new initial window moves the open streams' windows too, perhaps below zero.

        Raises:
            ConnectionFault: The value is out of its bounds.
        """
        if key == frames.Setting.INITIAL_WINDOW_SIZE:
            if value > frames.max_window:
                raise ConnectionFault(
                    Code.FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE is above 2^31 - 1"
                )
            self.initial_window = value
            self._widened = True
        elif key == frames.Setting.MAX_FRAME_SIZE:
            if not frames.max_frame_bytes <= value < 1 << 24:
                reason = "SETTINGS_MAX_FRAME_SIZE is not within 2^14 and 2^24 - 1"
                raise ConnectionFault(Code.PROTOCOL_ERROR, reason)
        elif key == frames.Setting.ENABLE_PUSH:
            if value > 1:
                raise ConnectionFault(Code.PROTOCOL_ERROR, "SETTINGS_ENABLE_PUSH is neither 0 nor 1")
        elif key == frames.Setting.HEADER_TABLE_SIZE and value < default_table_bytes:
            self._table_shrunk = True
