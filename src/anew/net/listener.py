"""Listening sockets and all their connections: accepts, counts and limits them, watches over their pace, drains them at the end.

A listener is an address and a protocol; there may be any number of both. One timer serves all connections: nothing is scheduled or
cancelled per request.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, cast

from anew.clock import Clock, SystemClock
from anew.net.admission import Gate
from anew.net.bounded_log import BoundedLog
from anew.net.certificate import Certificate
from anew.net.seam import WireCounters, WireLimits
from anew.net.tls_connection import Handshakes, TlsConnection

log = logging.getLogger("anew.net")

spare_descriptors = 256
"""Descriptors that connections leave to the store, the logs and the listeners themselves."""

complaint_ms = 60_000
"""How often at most the log says that there are too many connections."""

max_turned_away = 64
"""Connections above the limit that may be open at once to read their refusal; those above that are just cut."""

idle_list_ms = 100
"""How long a list of idle connections is used before it is made anew. It takes some milliseconds for 10,000 connections, so a
flood of new ones must not have it made for each."""

swept_at_once = 1_000
"""Connections that look at the clock in one turn; some milliseconds."""

accepted_at_once = 128
"""Connections accepted in one turn; some milliseconds."""

pause_ms = 100
"""How long none is accepted when there was no descriptor or memory for one: the loop would be woken at once, again and again."""

keepalive_s = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
"""A peer that vanished without a word is noticed after two minutes: its host answers the kernel's probes no more."""

_exhausted = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Wire(Protocol):
    """What the server asks of a connection, whichever protocol it speaks.

    A wire calls `NetServer.left` from its `connection_lost`.

    Attributes:
        served: Whether a request of this connection has been let in.
    """

    served: bool

    def sweep(self, now_ms: int) -> None:
        """Cut off a peer that is too slow by the monotonic clock, and close after `idle_timeout_ms`. Called every `tick_ms`."""

    def idle_ms(self, now_ms: int) -> int:
        """Say for how long nothing has been asked for; -1 while something is under way."""

    def dismiss(self) -> None:
        """Close an idle connection."""

    def drain(self) -> None:
        """Take no new requests, answer those that are due, then close. Streams stay open."""

    def drain_streams(self) -> None:
        """End the streams that are still open: call their `on_close`, then end their bodies cleanly."""

    def abort(self) -> None:
        """Cut the connection now."""


class NewWire(Wire, Protocol):
    """A connection that has just been accepted, and calls `NetServer.admit` from its `connection_made`."""

    @property
    def refusal(self) -> str:
        """What its peer gets after `turn_away`, for the log."""

    def turn_away(self) -> None:
        """Say that there are too many connections, and close."""


class NetServer:
    """Keeps the connections of all listeners.

    Args:
        limits: What a peer may ask for.
        counters: What is counted; `connections` is the number open now.
        clock: Where time comes from.

    Attributes:
        limits: As given.
        counters: As given.
        gate: Through which the requests of all protocols go.
        handshakes: Through which those of TLS go.
        draining: True once `drain` or `close` was called.
        on_drain: Called once each when draining begins, so that applications can end their streams with their own last words.
            Streams that are open after that are ended by the server.
        on_tick: Called with the time, epoch milliseconds, every `tick_ms`.
        tick_ms: How often `sweep` runs: a quarter of the shortest time limit, at most a second.
        now_ms: The monotonic clock; never 0, which stands for "not running" in a wire's timers.
        max_connections: The limit that holds: the configured one, or fewer if there are not so many descriptors.
    """

    def __init__(
        self,
        limits: WireLimits | None = None,
        counters: WireCounters | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.limits = limits or WireLimits()
        self.counters = counters or WireCounters()
        self.draining = False
        self.on_drain: list[Callable[[], None]] = []
        self.on_tick: list[Callable[[int], None]] = []
        self.tick_ms = max(
            10, min(1000, self.limits.header_timeout_ms // 4, self.limits.stall_timeout_ms // 4)
        )
        self.max_connections = min(self.limits.max_connections, _descriptors_for_connections())
        self._clock = clock or SystemClock()
        # The machine's clock is asked directly, which is a call less for each request; a test's may begin at 0.
        monotonic = self._clock.monotonic
        self.now_ms: Callable[[], int] = monotonic if monotonic() else lambda: monotonic() + 1
        self.gate = Gate(self.now_ms)
        self.handshakes = Handshakes(self.now_ms)
        self._failed_handshakes = BoundedLog(log, "a TLS handshake has failed", self.now_ms)
        self._connections: set[Wire] = set()
        self._turned_away: set[Wire] = set()
        self._idle: deque[Wire] = deque()  # who was idle at `_idle_listed_ms`, whom to dismiss first in front
        self._idle_listed_ms = -idle_list_ms
        self._acceptors: list[Acceptor] = []
        self._complained_ms = -complaint_ms
        self._timer: asyncio.TimerHandle | None = None
        self._all_gone: asyncio.Event | None = None

    async def listen(
        self,
        host: str,
        port: int,
        protocol: Callable[[], asyncio.Protocol],
        *,
        backlog: int = 1024,
        tls: Certificate | None = None,
        handshake_ms: int | None = None,
    ) -> tuple[str, int]:
        """Listen on one more address and serve who connects.

        Args:
            host: Address to bind; with a name, its first address is reported.
            port: 0 for any free one.
            protocol: Makes the protocol of each connection, a `NewWire`.
            backlog: Connections that the kernel may keep for us.
            tls: The certificate that is shown there; None: nothing is encrypted. It is one or the other, never both.
            handshake_ms: How long a handshake may take; None is the time for a head.

        Returns:
            The address that is listened on.

        Raises:
            OSError: The address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        if tls is not None:
            protocol = self._secured(protocol, tls, handshake_ms or self.limits.header_timeout_ms)
        listener = await loop.create_server(protocol, host, port, backlog=backlog)
        bound = listener.sockets[0].getsockname()
        for sock in listener.sockets:
            _keep_alive(sock)
        self._acceptors.append(Acceptor(listener.sockets, protocol, self._cannot_accept))
        listener.close()  # it has bound the address; two that accept would hide each other's trouble
        if self._timer is None:
            self._tick()
        return bound[0], bound[1]

    async def drain(self, timeout_ms: int) -> None:
        """Stop accepting, answer what is due, end the streams at once, cut what is left at the deadline.

        Args:
            timeout_ms: How long answers and the ends of streams may take to leave; 0 forces at once.
        """
        self._stop_accepting()
        for wire in list(self._connections):
            wire.drain()
        for hook in self.on_drain:
            hook()
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

    def sweep(self) -> None:
        """Let every connection look at the clock, `swept_at_once` in this turn of the loop and so many in each that follows."""
        now_at = self._clock.now()
        for hook in self.on_tick:
            hook(now_at)
        self._idle.clear()  # it keeps whoever has left meanwhile
        self._sweep_some([*self._connections, *self._turned_away])

    # ---- what wires call

    def admit(self, wire: NewWire) -> None:
        """Count a new connection; where the limit is reached, an idle one is closed, or else the new one."""
        if wire in self._connections:  # it was counted while its handshake was under way
            return
        if wire in self._turned_away:
            wire.turn_away()
            return
        if not self.draining and (len(self._connections) < self.max_connections or self._make_room()):
            self._connections.add(wire)
            self.counters.connections += 1
            return
        self._turned_away.add(wire)
        if not self.draining:
            self._complain(
                "%d connections are open and busy, as many as %s; a new one gets %s",
                self.max_connections,
                "--max-connections allows"
                if self.max_connections == self.limits.max_connections
                else "this process has descriptors for: raise its hard limit (ulimit -Hn, or LimitNOFILE= of its service)",
                wire.refusal,
            )
        if len(self._turned_away) > max_turned_away or self.draining:
            self.counters.refuse("connections")
            wire.abort()
        else:
            wire.turn_away()

    def replace(self, wire: Wire, successor: Wire) -> None:
        """Take note that a connection goes on with another protocol."""
        for among in (self._connections, self._turned_away):
            if wire in among:
                among.discard(wire)
                among.add(successor)

    def refuse_handshake(self, reason: str, why: str, peer: tuple[object, ...] | None) -> None:
        """Count a TLS handshake that has failed, and log it unless one was logged just before.

        Args:
            reason: Short fixed word under which it is counted.
            why: What went wrong.
            peer: Where it came from.
        """
        self.counters.refuse(reason)
        self._failed_handshakes.warn(peer=str(peer[0]) if peer else "unknown", reason=why)

    def left(self, wire: Wire) -> None:
        """Forget a connection that is lost."""
        if wire in self._connections:
            self._connections.discard(wire)
            self.counters.connections -= 1
        self._turned_away.discard(wire)
        if self._all_gone is not None and not self._connections and not self._turned_away:
            self._all_gone.set()

    # ---- inside

    def _secured(
        self, protocol: Callable[[], asyncio.Protocol], certificate: Certificate, handshake_ms: int
    ) -> Callable[[], asyncio.Protocol]:
        """Give what makes a connection's protocol with TLS below it."""
        return lambda: TlsConnection(self, cast("NewWire", protocol()), certificate, handshake_ms)

    def _sweep_some(self, wires: list[Wire]) -> None:
        now_ms = self.now_ms()
        for wire in wires[:swept_at_once]:
            if wire in self._connections or wire in self._turned_away:  # it has not left meanwhile
                wire.sweep(now_ms)
        if len(wires) > swept_at_once:
            asyncio.get_running_loop().call_soon(self._sweep_some, wires[swept_at_once:])

    def _make_room(self) -> bool:
        """Close the connection that has been idle for longest; those that were never served go first."""
        now_ms = self.now_ms()
        if not self._idle and now_ms - self._idle_listed_ms >= idle_list_ms:
            self._idle_listed_ms = now_ms
            idle = [wire for wire in self._connections if wire.idle_ms(now_ms) >= 0]
            self._idle.extend(sorted(idle, key=lambda wire: (wire.served, -wire.idle_ms(now_ms))))
        while self._idle:
            wire = self._idle.popleft()
            if wire in self._connections and wire.idle_ms(now_ms) >= 0:
                wire.dismiss()
                return True
        return False

    def _cannot_accept(self, error: OSError) -> None:
        self._complain(
            "connections wait and cannot be accepted (%s): raise the limit of this process's descriptors "
            "(ulimit -n, or LimitNOFILE= of its service), or lower --max-connections",
            error.strerror,
        )

    def _complain(self, message: str, *about: object) -> None:
        """Write to the log, but not again for each of a crowd."""
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
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()

    def _tick(self) -> None:
        try:
            self.sweep()
        except Exception:
            # The watch must go on: without it slow peers would hold their connections for ever.
            log.exception("unhandled error in the sweep over the connections")
        self._timer = asyncio.get_running_loop().call_later(self.tick_ms / 1000, self._tick)


class Acceptor:
    """Accepts whoever connects, faster than the loop would, and without losing any when descriptors run out.

    uvloop accepts one connection in a turn of the loop (libuv does, from 1.45 on). Behind a busy loop a crowd of new clients waits
    long in the kernel, connected and with its requests sent: 400 of them took 2 s where a turn took 5 ms. And where no descriptor
    is left, libuv drops whoever waits without a word.

    Args:
        listening: The sockets of a server that may be closed then: these go on under descriptors of our own.
        protocol: Makes the protocol of each connection.
        complain: Called with what is missing when a connection cannot be accepted; they wait in the kernel meanwhile.
    """

    def __init__(
        self,
        listening: Iterable[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        complain: Callable[[OSError], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._complain = complain
        self._sockets: list[socket.socket] = []
        self._beginning: set[asyncio.Task[None]] = set()  # the loop alone would not keep them
        self._pause: asyncio.TimerHandle | None = None
        for one in listening:
            # A descriptor of our own for the same queue: the loop allows one watcher for each.
            ours = socket.socket(fileno=os.dup(one.fileno()))
            ours.setblocking(False)
            self._sockets.append(ours)
        self._watch()

    def close(self) -> None:
        """Accept no more."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        for one in self._sockets:
            self._loop.remove_reader(one)
            one.close()
        self._sockets.clear()

    def _watch(self) -> None:
        self._pause = None
        for one in self._sockets:
            self._loop.add_reader(one, self._accept, one)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(accepted_at_once):
            try:
                accepted, _ = listening.accept()
            except OSError as error:  # as a rule: none is left
                if error.errno in _exhausted:
                    self._rest(error)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._begin(accepted))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    def _rest(self, error: OSError) -> None:
        """Accept nothing for a moment, in which others may hang up."""
        for one in self._sockets:
            self._loop.remove_reader(one)
        if self._pause is None:
            self._pause = self._loop.call_later(pause_ms / 1_000, self._watch)
        self._complain(error)

    async def _begin(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it has hung up already
            await self._loop.connect_accepted_socket(self._protocol, accepted)


def raise_descriptor_limit() -> None:
    """Let this process open as many files as its hard limit allows; to be called before a `NetServer` is made."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _descriptors_for_connections() -> int:
    """Give how many sockets this process may hold besides its other files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return 1 << 30
    return max(limit - spare_descriptors, limit // 2)


def _keep_alive(listening: socket.socket) -> None:
    """Have the kernel look whether peers are still there; accepted sockets inherit this."""
    if listening.family not in (socket.AF_INET, socket.AF_INET6):
        return
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in keepalive_s.items():
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
