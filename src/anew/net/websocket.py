"""A connection that has become a WebSocket (RFC 6455): frames to text messages, messages to frames.

The frames themselves are read and built by the package `websockets`.
"""

from __future__ import annotations

import asyncio
import binascii
import logging
from collections import deque
from collections.abc import Sequence

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import Protocol, Side
from websockets.utils import accept_key

from anew.net import peer
from anew.net.http1.head import Fields, RequestLine
from anew.net.listener import NetServer
from anew.net.seam import WebSocket

piece = 4 << 10
"""Bytes that are worked on in one turn of the loop: frames may have six bytes, and each costs microseconds."""

quiet = logging.Logger("anew.net.frames", logging.ERROR)
"""The package's own; it would say of each connection that it is closed."""
quiet.parent = logging.getLogger("anew.net")

linger_ms = 1_000
"""How long a peer may take to hang up after the last frame."""


def accepted(line: RequestLine, fields: Fields) -> bytes | None:
    """Give what proves to a client that its handshake was understood; None if this is no handshake.

    Source:
        RFC 6455, 4.2.
    """
    headers = fields.headers
    key = headers.get(b"sec-websocket-key", b"")
    try:
        nonce = binascii.a2b_base64(key, strict_mode=True)
    except binascii.Error:
        return None
    fits = (
        line.method == b"GET"
        and line.modern
        and fields.length == 0
        and fields.upgrades
        and b"websocket" in [token.strip() for token in headers.get(b"upgrade", b"").lower().split(b",")]
        and headers.get(b"sec-websocket-version") == b"13"
        and len(nonce) == 16
    )
    return accept_key(key.decode("ascii")).encode("ascii") if fits else None


class WebSocketWire(asyncio.Protocol, WebSocket):
    """One connection; its server treats it as the wire that it was before.

    Args:
        server: The server.
        transport: The connection's.
        max_message: Bytes of a message of the peer.
    """

    __slots__ = (
        "_delivering",
        "_ending",
        "_held",
        "_inbox",
        "_lingers_ms",
        "_parts",
        "_protocol",
        "_rest",
        "_server",
        "_transport",
        "_unsent_for",
        "_working",
        "_written",
        "served",
    )

    def __init__(self, server: NetServer, transport: asyncio.Transport, max_message: int) -> None:
        super().__init__()
        self.served = True
        self._server = server
        self._transport = transport
        self._protocol = Protocol(Side.SERVER, max_size=max_message, logger=quiet)
        self._parts: bytearray | None = None  # of a text message that comes in several frames
        self._rest = b""  # what has come and waits for the next turn
        self._working = False  # a turn for it is scheduled
        self._inbox: deque[bytes] = deque()  # messages that wait while the owner holds
        self._held = self._delivering = False
        self._ending = False
        self._lingers_ms = 0  # when to hang up; 0: not yet
        self._written = 0
        self._unsent_for = peer.Waiting()
        peer.bound_send_buffer(transport)

    # ---- what the transport calls

    def data_received(self, data: bytes) -> None:
        self._rest += data
        self._watch_reading()
        if not self._working:
            self._work()

    def eof_received(self) -> bool:
        self._protocol.receive_eof()
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.left(self)
        self._lose()

    def pause_writing(self) -> None:
        self.writable = False
        self._watch_reading()  # or what answers its pings would grow and grow

    def resume_writing(self) -> None:
        if self._ending:
            return
        self.writable = True
        self._watch_reading()
        if self.on_drain is not None:
            self.on_drain()

    # ---- what the server calls

    def sweep(self, now_ms: int) -> None:
        """Cut off a peer that reads nothing, or does not hang up."""
        waiting = self._transport.get_write_buffer_size() + peer.unsent(self._transport)
        stands_ms = self._unsent_for.stands_for(now_ms, self._written - waiting if waiting else None)
        if stands_ms >= self._server.limits.stall_timeout_ms:
            self._server.counters.refuse("stalled_reader")
            self.abort()
        elif self._ending and not self._lingers_ms:
            self._lingers_ms = now_ms + linger_ms
        elif self._ending and now_ms >= self._lingers_ms:
            self.abort()

    def idle_ms(self, now_ms: int) -> int:
        """Never idle: the peer waits for what happens."""
        return -1

    def dismiss(self) -> None:
        """Nothing to do: it is never idle."""

    def drain(self) -> None:
        """Nothing to do: there is no request."""

    def drain_streams(self) -> None:
        """End it, as the server goes away."""
        self._lose()
        self._close(CloseCode.GOING_AWAY)

    def abort(self) -> None:
        """Cut the connection now."""
        self._ending = True
        self._transport.abort()

    # ---- what the owner calls

    def send(self, messages: Sequence[bytes]) -> None:
        if self._ending:
            return
        for message in messages:
            self._protocol.send_text(message)
        self._write()

    def hold(self) -> None:
        self._held = True
        self._watch_reading()

    def go_on(self) -> None:
        self._held = False
        self._deliver()
        self._watch_reading()

    def close(self) -> None:
        self.on_close = None
        self._close(CloseCode.NORMAL_CLOSURE)

    # ---- bytes in

    def _work(self) -> None:
        """Read some of what has come; the rest in later turns, so that others are served in between."""
        self._working = False
        if self._ending:
            self._rest = b""
            return
        data, self._rest = self._rest[:piece], self._rest[piece:]
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._take(event)
        self._write()
        self._deliver()
        if self._protocol.close_expected():
            # The peer has closed, or its bytes were no frames; its last frame is written.
            self._end()
        elif self._rest:
            self._working = True
            asyncio.get_running_loop().call_soon(self._work)
        else:
            self._watch_reading()

    def _take(self, frame: Frame) -> None:
        if frame.opcode is Opcode.TEXT:
            self._parts = bytearray()
        elif frame.opcode is Opcode.BINARY:
            self._parts = None
        elif frame.opcode is not Opcode.CONT:
            return
        if self._parts is None:
            return
        self._parts += frame.data
        if frame.fin:
            self._inbox.append(bytes(self._parts))
            self._parts = None

    def _deliver(self) -> None:
        if self._delivering:  # the owner goes on while it takes a message: the loop below does, too
            return
        self._delivering = True
        try:
            while self._inbox and not self._held and not self._ending:
                message = self._inbox.popleft()
                if self.on_message is not None:
                    self.on_message(message)
        finally:
            self._delivering = False

    def _watch_reading(self) -> None:
        """Read the socket only while what was read before is done with."""
        if self._transport.is_closing():
            return
        if self._rest or self._held or not self.writable:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # ---- bytes out, and the end

    def _write(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data and not self._transport.is_closing():
            self._written += len(data)
            self._transport.write(data)

    def _close(self, code: CloseCode) -> None:
        if not self._ending:
            self._protocol.send_close(code)
            self._write()
            self._end()

    def _end(self) -> None:
        """Read and write nothing more, and hang up when the last frame has left."""
        self._lose()
        if not self._ending:
            self._ending = True
            self.writable = False
            self._inbox.clear()
            if self._transport.is_closing():
                return
            if self._transport.can_write_eof():
                self._transport.write_eof()
                self._transport.resume_reading()  # or the peer's end would not be noticed
            else:
                self._transport.close()

    def _lose(self) -> None:
        """Tell the owner, once."""
        on_close, self.on_close = self.on_close, None
        self.writable = False
        if on_close is not None:
            on_close()
