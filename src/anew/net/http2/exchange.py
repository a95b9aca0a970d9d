"""One HTTP/2 stream as the seam sees it: the request that came and the answer that goes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

from anew.net.http2.frames import CANCEL, max_frame_bytes
from anew.net.http2.heads import Head
from anew.net.seam import Headers, Request, Stream, type_json

if TYPE_CHECKING:
    from anew.net.http2.connection import Http2Connection


log = logging.getLogger("anew.http")


class Http2Exchange(Request):
    """A request on its stream.

    Attributes:
        id: The stream's number.
        window: Bytes of DATA that the peer will take on this stream; can be negative.
        room: Bytes of DATA that we still take before the next WINDOW_UPDATE.
        length: Of the content-length header, -1 if there is none.
        gathered: The body so far, where it came in more than one piece; gives its buffer away without a copy.
        ended: True once the peer has ended its side.
        answered: True once an answer was begun; later body bytes are dropped.
        gone: True once the stream is over, whoever ended it.
        head_only: True for HEAD.
        pending: Bytes of the answer that wait for a window or the transport.
        ending: True if END_STREAM goes with the last pending byte.
        began_at: When the body was first seen to be awaited, monotonic ms, set by the sweep.
        stalled_at: When `pending` was first seen without progress, monotonic ms, set by the sweep.
        stream: The open stream, where the answer is one.
    """

    __slots__ = (
        "_connection",
        "answered",
        "began_at",
        "ended",
        "ending",
        "gathered",
        "gone",
        "head_only",
        "id",
        "length",
        "pending",
        "room",
        "stalled_at",
        "stream",
        "window",
    )

    gone: bool

    def __init__(
        self, connection: Http2Connection, stream_id: int, head: Head, window: int, room: int
    ) -> None:
        self._connection = connection
        self.id = stream_id
        self.window = window
        self.room = room
        self.method = head.method
        self.path = head.path
        self.query = head.query
        self.headers = head.headers
        self.body = b""
        self.local = connection.local
        self.length = head.length
        self.head_only = head.method == b"HEAD"
        self.ended = self.answered = self.gone = self.ending = False
        self.gathered: BytesIO | None = None
        self.pending: bytearray | None = None
        self.began_at: int | None = None
        self.stalled_at: int | None = None
        self.stream: Http2Stream | None = None

    def reply(
        self, status: int, body: bytes = b"", content_type: bytes | None = type_json, extra: Headers = ()
    ) -> None:
        """Answer once; see the seam."""
        if self.answered or self.gone:
            return
        self.answered = True
        self._connection.sender.reply(self, status, body, content_type, extra)
        if self.pending and len(body) > max_frame_bytes:
            self._connection.count_unsent()

    def open_stream(self, status: int, content_type: bytes, extra: Headers = ()) -> Stream | None:
        """Send the head and give the body as a stream; see the seam."""
        if self.answered or self.gone:
            return None
        if self._connection.hung_up:  # while this request waited: nobody would notice the end of the stream
            self._connection.streams.reset(self, CANCEL)
            return None
        self.answered = True
        self._connection.sender.stream_head(self, status, content_type, extra)
        if self.gone:
            return None
        self.stream = Http2Stream(self._connection, self)
        self.settle_writable()
        return self.stream

    def settle_writable(self) -> None:
        """Bring `writable` up to date, and say so when it turns true."""
        if self.stream is not None and not self.ending:
            self.stream.settle(
                self._connection.sender.paused, len(self.pending or b""), self._connection.limits.write_buffer
            )


class Http2Stream(Stream):
    """An answer that comes piece by piece.

    Not `writable` while the transport is behind, or while more than the limit waits for this stream's window;
    writable again when what waits has fallen to half.
    """

    __slots__ = ("_connection", "_exchange")

    def __init__(self, connection: Http2Connection, exchange: Http2Exchange) -> None:
        super().__init__()
        self._connection = connection
        self._exchange = exchange

    def write(self, data: bytes) -> None:
        """Send one piece; see the seam."""
        exchange = self._exchange
        if data and not exchange.gone and not exchange.ending:
            self._connection.sender.body(exchange, data, False)
            exchange.settle_writable()

    def close(self) -> None:
        """End the body after what is queued; see the seam."""
        self.on_close = self.on_drain = None
        exchange = self._exchange
        if not exchange.gone and not exchange.ending:
            self._connection.sender.body(exchange, b"", True)

    def abort(self) -> None:
        """Reset the stream; see the seam."""
        self.on_close = self.on_drain = None
        if not self._exchange.gone:
            self._connection.streams.reset(self._exchange, CANCEL)

    def settle(self, paused: bool, waiting: int, limit: int) -> None:
        """Bring `writable` up to date with what waits, in bytes."""
        if self.writable:
            self.writable = not paused and waiting <= limit
        elif not paused and waiting <= limit // 2:
            self.writable = True
            _call(self.on_drain)

    def lost(self) -> None:
        """Tell the owner, once, that the stream is over."""
        self.writable = False
        on_close, self.on_close, self.on_drain = self.on_close, None, None
        _call(on_close)


def _call(hook: Callable[[], None] | None) -> None:
    """Call a stream's owner; what it lets escape must not keep the other owners from hearing."""
    if hook is not None:
        try:
            hook()
        except Exception:
            log.exception("unhandled error in the owner of a stream")
