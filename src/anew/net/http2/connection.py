"""HTTP/2 by prior knowledge (or ALPN): one connection, from preface to GOAWAY.

A frame machine of our own, because the ready-made ones were measured and cost two to six times as much a
request. Its parts: `Receiver` reads frames, `Intake` makes requests of them, `StreamTable` keeps those that
are open, `Sender` writes the answers; `sweep` brings the time.

Source:
    RFC 9113, "HTTP/2".
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from anew.net import kernel
from anew.net.admission import Gate
from anew.net.debts import Debt
from anew.net.http1.connection import is_loopback
from anew.net.http2.answers import answer_blocks
from anew.net.http2.frames import (
    NO_ERROR,
    SETTINGS_HEADER_TABLE_SIZE,
    SETTINGS_INITIAL_WINDOW_SIZE,
    SETTINGS_MAX_CONCURRENT_STREAMS,
    SETTINGS_MAX_FRAME_SIZE,
    SETTINGS_MAX_HEADER_LIST_SIZE,
    ConnectionFault,
    default_window,
    goaway,
    max_frame_bytes,
    settings,
    window_update,
)
from anew.net.http2.intake import Intake, receive_window
from anew.net.http2.receive import Receiver
from anew.net.http2.send import Sender
from anew.net.http2.streams import StreamTable
from anew.net.http2.watch import Budgets, Waiting
from anew.net.seam import Request, WireCounters, WireLimits

linger_ms = 2_000
"""How long a connection that we have ended waits for the peer's end."""


class Owner(Protocol):
    """What a connection needs of its server."""

    def left(self, wire: Http2Connection) -> None:
        """Forget a connection that is lost."""


class Http2Connection(asyncio.Protocol):
    """One HTTP/2 connection.

    Args:
        server: Told when the connection is lost.
        gate: Takes every complete request.
        limits: What the peer may ask.
        counters: Requests and refusals are counted here.

    Attributes:
        hung_up: True once the peer has ended its side.
        limits: As given.
        local: True if the peer's address is a loopback one.
        sender: The sending half.
        streams: The open requests.
    """

    def __init__(self, server: Owner, gate: Gate, limits: WireLimits, counters: WireCounters) -> None:
        self.limits = limits
        self.local = False
        self._server = server
        self._counters = counters
        self._debt = Debt(counters)
        self._budgets = Budgets()
        self.sender = Sender()
        self.streams = StreamTable(self, self.sender, counters, self._budgets)
        intake = Intake(self, self.streams, self.sender, self._hand, counters, self._budgets)
        self._receiver = Receiver(intake, self.streams, self.sender, self._budgets)
        self._transport: asyncio.Transport | None = None
        self._gate = gate
        self._unheard = b""  # what was read while too many others waited
        self._deaf = False
        self.hung_up = False
        self._lingers = Waiting()
        self._owed = Waiting()
        self._unread = Waiting()

    # -- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: our SETTINGS go out first."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self.limits.write_buffer)
        self.local = is_loopback(transport.get_extra_info("peername"))
        self.sender.attach(self._transport, self.streams)
        answer_blocks.renew()
        ours = {
            SETTINGS_HEADER_TABLE_SIZE: 0,
            SETTINGS_MAX_CONCURRENT_STREAMS: self.limits.max_concurrent_streams,
            SETTINGS_INITIAL_WINDOW_SIZE: receive_window,
            SETTINGS_MAX_FRAME_SIZE: max_frame_bytes,
            SETTINGS_MAX_HEADER_LIST_SIZE: self.limits.max_head,
        }
        self.sender.control(settings(ours) + window_update(0, receive_window - default_window))

    def data_received(self, data: bytes) -> None:
        """Take what the peer has sent; all answers that it leads to at once leave in one write."""
        if self._deaf:
            return
        if self._unheard or self._gate.is_full():
            self._keep(data)
        else:
            self._hear(data)

    def _keep(self, data: bytes) -> None:
        if not self._unheard:
            self._gate.queue_up(self)
        self._unheard += data
        if self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Take what was read while too many others waited."""
        data, self._unheard = self._unheard, b""
        if self._deaf or not data:
            return
        self._hear(data)
        if self._transport is not None and not self.sender.paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _hear(self, data: bytes) -> None:
        self.sender.cork()
        try:
            self._receiver.feed(data)
        except ConnectionFault as fault:
            self._fail(fault)
        finally:
            self.sender.uncork()
            if self._debt.size:
                self.count_unsent()

    def eof_received(self) -> bool:
        """Answer what is complete. Streams end: closing one half cannot be told from being gone."""
        self.go_on()
        self.hung_up = True
        if self._deaf:
            return False
        self._deaf = True
        self.streams.hang_up()
        if not self.streams.open:
            return False
        self.streams.draining = True
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """End everything and tell the streams' owners and the server."""
        self._server.left(self)
        self._deaf = True
        self.sender.detach()
        self.streams.lose_all()
        self._debt.becomes(0)

    def pause_writing(self) -> None:
        """Stop filling the transport; a peer that asks without reading is not heard before it reads."""
        self.sender.paused = True
        self.count_unsent()
        self.streams.settle_all()
        if self._transport is not None and not self._deaf:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on where `pause_writing` stopped."""
        self.sender.paused = False
        if self._transport is not None and not self.hung_up and not self._transport.is_closing():
            self._transport.resume_reading()
        self.sender.pump()
        self.count_unsent()
        self.streams.settle_all()

    # -- what the server calls

    def sweep(self, now_ms: int) -> None:
        """Cut off a peer that is too slow.

        Args:
            now_ms: The monotonic clock.
        """
        if self._transport is None:
            return
        answer_blocks.tick(now_ms)
        self.count_unsent()
        self._budgets.sweep(now_ms)
        waiting = self._transport.get_write_buffer_size()
        if self.streams.has_endless():
            waiting += kernel.unsent(self._transport)
        mark = self.sender.written - waiting if waiting else None
        if self._unread.stands_for(now_ms, mark) >= self.limits.stall_timeout_ms:
            self._counters.refuse("stalled_reader")
            self.abort()
        elif self.sender.detached:
            if self._lingers.stands_for(now_ms, None if waiting else True) >= linger_ms:
                self._transport.close()
        elif not self.sender.paused:  # else it is we who do not read
            self._watch_peer(now_ms)

    def _watch_peer(self, now_ms: int) -> None:
        owed = None if self._deaf else self._receiver.awaited()
        if self._owed.stands_for(now_ms, owed) >= self.limits.header_timeout_ms:
            self._counters.refuse("slow_head")
            self._fail(ConnectionFault(NO_ERROR, f"a head arrives within {self.limits.header_timeout_ms} ms"))
        else:
            self.streams.sweep(now_ms, self._receiver.tail_bytes)

    def drain(self) -> None:
        """Take no new requests, answer those that have begun, then close. Streams stay open."""
        if self._deaf or self.streams.draining:
            return
        self.streams.draining = True
        quiet = self._transport is not None and kernel.is_quiet(self._transport)
        self.sender.control(goaway(self.streams.last, NO_ERROR, "the server is going away"))
        if not self.streams.open:
            self._close(linger=not quiet)

    def drain_streams(self) -> None:
        """End the streams: tell their owners, then end the bodies cleanly."""
        self.streams.end_streams()

    def abort(self) -> None:
        """Cut the connection now; unsent bytes are dropped."""
        self._deaf = True
        self.streams.draining = True  # the rest of a read that is being worked on reaches nobody
        self.sender.detach()
        self.streams.lose_all()
        if self._transport is not None:
            self._transport.abort()

    # -- what the parts call

    def _hand(self, request: Request) -> None:
        """Hand a complete request to the application, unless that refuses it."""
        refusal = self._gate.judge(request.method, request.path, request.headers, request.local)
        if refusal is None:
            self._gate.hand(request)
            return
        if refusal.reason:
            self._counters.refuse(refusal.reason)
        request.reply(refusal.status, refusal.body, refusal.content_type, refusal.extra)

    def count_unsent(self) -> None:
        """Bring up to date how much of its answers the peer has not taken."""
        transport = self._transport
        written = 0 if transport is None or self.streams.has_endless() else transport.get_write_buffer_size()
        self._debt.becomes(written + self.sender.held())

    def drained(self) -> None:
        """Close, since the last open stream has ended on a connection that takes no more."""
        self._close()

    def _fail(self, fault: ConnectionFault) -> None:
        if fault.code != NO_ERROR:
            self._counters.refuse("protocol")
        self.sender.control(goaway(self.streams.last, fault.code, fault.reason))
        self._close()

    def _close(self, *, linger: bool = True) -> None:
        self._deaf = True
        self.sender.flush()
        self.sender.detach()
        self.streams.lose_all()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self.hung_up or not linger or not transport.can_write_eof():
            transport.close()
            return
        # To close with bytes unread would reset the connection, and what was sent last might never be read.
        transport.write_eof()
        if self.sender.paused:
            transport.resume_reading()
