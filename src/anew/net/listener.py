"""The listener: accepts connections, counts and limits them, watches over their pace, drains them at the end.

A connection starts as HTTP/1.1; when its first bytes are HTTP/2's preface it is handed over to that wire. One
timer serves all connections: nothing is scheduled or cancelled per request.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable
from typing import Protocol

from anew.clock import Clock, SystemClock
from anew.net.accepting import Acceptor
from anew.net.admission import Gate
from anew.net.http1.answers import AnswerHeads
from anew.net.http1.connection import Http1Connection
from anew.net.http1.head import HeadParser
from anew.net.http1.refused import Refused
from anew.net.seam import App, Request, WireCounters, WireLimits

log = logging.getLogger("anew.http")

spare_descriptors = 256
"""Descriptors that connections leave to the store, the logs and the listeners themselves."""

complaint_ms = 60_000
"""How often at most the log is told that there are too many connections."""

max_turned_away = 64
"""Connections above the limit that may be open at once to read their 503; those above that are just cut."""


class Wire(Protocol):
    """What the server asks of a connection, whichever protocol it speaks.

    A wire calls `HttpServer.left` from its `connection_lost`. (An HTTP/2 connection does not call `admit`: it
    was counted as the HTTP/1 connection from which it was made.)
    """

    def sweep(self, now_ms: int) -> None:
        """Cut off a peer that is too slow by the monotonic clock. Called every `tick_ms`."""

    def drain(self) -> None:
        """Take no new requests, answer those that are due, then close. Streams stay open."""

    def drain_streams(self) -> None:
        """End the streams that are still open: call their `on_close`, then end their bodies cleanly."""

    def abort(self) -> None:
        """Cut the connection now; streams' `on_close` fires when the loop reports it lost."""


class HttpServer:
    """HTTP/1.1 and HTTP/2 on one port.

    Args:
        app: Answers requests.
        limits: What a peer may ask for.
        counters: What is counted; `connections` is the number open now.
        clock: Where time comes from.

    Attributes:
        draining: True once `drain` or `close` was called.
        on_drain: Called once when draining begins, so that the application can end its streams itself. If None,
            the server ends them at once. What is still open at the deadline is cut.
        gate: Through which every request goes to the application.
        tick_ms: How often `sweep` runs: a quarter of the shortest time limit, at most a second.
        max_connections: The limit that holds: the configured one, or fewer if there are not so many descriptors.
    """

    def __init__(
        self,
        app: App | Callable[[Request], None],
        limits: WireLimits | None = None,
        counters: WireCounters | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.limits = limits or WireLimits()
        self.counters = counters or WireCounters()
        self.head_parser = HeadParser(self.limits)
        self.answer_heads = AnswerHeads()
        self.draining = False
        self.on_drain: Callable[[], None] | None = None
        self.tick_ms = max(
            10, min(1000, self.limits.header_timeout_ms // 4, self.limits.stall_timeout_ms // 4)
        )
        self.max_connections = min(self.limits.max_connections, _descriptors_for_connections())
        self._clock = clock or SystemClock()
        self.gate = Gate(app, self.now_ms)
        self._connections: set[Wire] = set()
        self._turned_away: set[Wire] = set()
        self._acceptor: Acceptor | None = None
        self._complained_ms = -complaint_ms
        self._timer: asyncio.TimerHandle | None = None
        self._all_gone: asyncio.Event | None = None

    async def start(self, host: str, port: int, *, backlog: int = 1024) -> tuple[str, int]:
        """Listen and serve.

        Args:
            host: Address to bind; with a name, its first address is reported.
            port: 0 for any free one.
            backlog: Connections that the kernel may keep for us.

        Returns:
            The address that is listened on.

        Raises:
            OSError: The address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(self._connection, host, port, backlog=backlog)
        bound = listener.sockets[0].getsockname()
        self._acceptor = Acceptor(listener.sockets, self._connection, self._cannot_accept)
        listener.close()  # it has bound the address; two that accept would hide each other's trouble
        self._tick()
        return bound[0], bound[1]

    async def drain(self, timeout_ms: int) -> None:
        """Stop accepting, answer what is due with ``connection: close``, end the streams, cut what is left.

        Args:
            timeout_ms: How long answers and streams may take; 0 forces at once.
        """
        self._stop_accepting()
        for wire in list(self._connections):
            wire.drain()
        if self.on_drain is not None:
            self.on_drain()
        else:
            for wire in list(self._connections):
                wire.drain_streams()
        if not await self._gone_within(timeout_ms):
            log.info("%d connections cut after %d ms of draining", len(self._connections), timeout_ms)
        self.close()
        await self._gone_within(1000)  # so that every stream's owner has heard of its end

    def close(self) -> None:
        """Stop accepting and cut every connection now."""
        self._stop_accepting()
        self.gate.close()
        for wire in [*self._connections, *self._turned_away]:
            wire.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def now_ms(self) -> int:
        """Give the monotonic clock; never 0, which stands for "not running" in a wire's timers."""
        return self._clock.monotonic() + 1

    def sweep(self) -> None:
        """Let every connection look at the clock, and bring the Date of answers up to date."""
        self.answer_heads.tick(self._clock.now())
        now_ms = self.now_ms()
        for wire in [*self._connections, *self._turned_away]:
            wire.sweep(now_ms)

    # ---- what wires call

    def admit(self, wire: Wire) -> None:
        """Count a new connection.

        Raises:
            Refused: 503; there are too many.
        """
        if len(self._connections) < self.max_connections and not self.draining:
            self._connections.add(wire)
            self.counters.connections += 1
            return
        self._turned_away.add(wire)
        if not self.draining:
            self._complain(
                "%d connections are open, as many as %s; others get 503",
                self.max_connections,
                "--max-connections allows"
                if self.max_connections == self.limits.max_connections
                else "this process has descriptors for: raise its limit (ulimit -n, or LimitNOFILE= of its service)",
            )
        if len(self._turned_away) > max_turned_away or self.draining:
            self.counters.refuse("connections")
            wire.abort()
            return
        raise Refused(503, "connections", "too many connections")

    def left(self, wire: Wire) -> None:
        """Forget a connection that is lost."""
        if wire in self._connections:
            self._connections.discard(wire)
            self.counters.connections -= 1
        self._turned_away.discard(wire)
        if self._all_gone is not None and not self._connections and not self._turned_away:
            self._all_gone.set()

    def hand_over(self, wire: Http1Connection, transport: asyncio.Transport, data: bytes) -> None:
        """Let a connection go on as HTTP/2.

        Args:
            wire: What it was until now.
            transport: Its transport.
            data: All bytes that have come, the preface first.
        """
        # Imported when the first one comes: a server that meets no HTTP/2 client does not pay for its tables.
        from anew.net.http2.connection import Http2Connection

        successor = Http2Connection(self, self.gate, self.limits, self.counters)
        self._connections.discard(wire)
        self._connections.add(successor)
        transport.set_protocol(successor)
        successor.connection_made(transport)
        successor.data_received(data)
        if self.draining:  # its first bytes were on the way when the others were told
            successor.drain()

    # ---- inside

    def _connection(self) -> Http1Connection:
        return Http1Connection(self)

    def _cannot_accept(self, error: OSError) -> None:
        self._complain(
            "connections wait and cannot be accepted (%s): raise the limit of this process's descriptors "
            "(ulimit -n, or LimitNOFILE= of its service), or lower --max-connections",
            error.strerror,
        )

    def _complain(self, message: str, *about: object) -> None:
        """Tell the log, but not again for each of a crowd."""
        now_ms = self.now_ms()
        if now_ms - self._complained_ms >= complaint_ms:
            self._complained_ms = now_ms
            log.error(message, *about)

    async def _gone_within(self, timeout_ms: int) -> bool:
        if not self._connections and not self._turned_away:
            return True
        self._all_gone = asyncio.Event()
        try:
            await asyncio.wait_for(self._all_gone.wait(), timeout_ms / 1000)
        except TimeoutError:
            return False
        return True

    def _stop_accepting(self) -> None:
        self.draining = True
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None

    def _tick(self) -> None:
        try:
            self.sweep()
        except Exception:
            # The watch must go on: without it slow peers would hold their connections for ever.
            log.exception("unhandled error in the sweep over the connections")
        self._timer = asyncio.get_running_loop().call_later(self.tick_ms / 1000, self._tick)


def _descriptors_for_connections() -> int:
    """Give how many sockets this process may hold besides its other files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return 1 << 30
    return max(limit - spare_descriptors, limit // 2)
