"""One connection of the Faktory Work Protocol: greeting, HELLO, then commands one after another, each answered before the next.

Lines that come ahead wait here, a bounded number of them; a peer that does not read its answers is asked for no more.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import select
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from anew.errors import MalformedRequest
from anew.fwp import replies
from anew.fwp.commands import Command, End, Hello, parse, parse_hello
from anew.fwp.lines import LineSplitter
from anew.fwp.password import RANDOM_BYTES, Challenge, challenge, greeting, is_right
from anew.net.bounded_log import SHOWN, BoundedLog
from anew.net.listener import NetServer
from anew.net.peer import Pace, Unsent, Waiting, came, sent
from anew.net.seam import Kind, long_answer

if TYPE_CHECKING:
    from anew.fwp.workers import Worker

log = logging.getLogger("anew.fwp")

HANDSHAKE_MS = 2_000
"""From the connection's first moment to the end of its HELLO. Source: Faktory 1.10."""

HELLO_BYTES = 64 << 10
"""Of a HELLO: nobody knows yet who sends it, and its worker's id is kept for as long as the connection lives."""

MOST_AHEAD = 1_000
"""Lines behind the command under way that are kept; while there are more, nothing is read."""

AHEAD_BYTES = 1 << 20
"""Bytes of such lines, with what has come of the next one."""

_NEW_WORK = (b"PUSH ", b"PUSHB ")
_FETCH = b"FETCH "
_OVERLOADED = replies.error("the server is overloaded; try again in a second")


_HUNG_UP = getattr(select, "POLLRDHUP", 0)
"""What tells that a peer has ended its side; only Linux has it."""


class Commands(Protocol):
    """What executes commands."""

    def execute(self, connection: FwpConnection, command: Command) -> None:
        """Execute one; it is answered once, by `FwpConnection.reply`, now or later."""

    def hello(self, connection: FwpConnection, hello: Hello) -> None:
        """A connection has said who it is."""

    def left(self, connection: FwpConnection) -> None:
        """A connection that has said who it is has gone."""


class FwpPort:
    """What the connections of one listener share; to the gate it is the service of its protocol.

    Args:
        server: Keeps the connections.
        commands: Executes commands.
        password: That HELLO must know; "" for none.
        enterprise: Tracking and batches are spoken.
        max_line: Bytes that a line may have.
    """

    def __init__(
        self, server: NetServer, commands: Commands, *, password: str, enterprise: bool, max_line: int
    ) -> None:
        self.server = server
        self.commands = commands
        self.password = password
        self.enterprise = enterprise
        self.max_line = max_line
        self.executed = self.identified = 0
        self._passwords = BoundedLog(log, "a client has brought a wrong password, or none", server.now_ms)
        self.unread = BoundedLog(log, "a PUSH was refused: it cannot be read", server.now_ms)
        self.start: Callable[[FwpConnection], None] = FwpConnection.execute

    def connection(self) -> FwpConnection:
        """Make the protocol of a new connection, for `NetServer.listen`."""
        return FwpConnection(self)

    def wrong_password(self, peer: str) -> None:
        """Count a HELLO whose password is wrong, and log it unless one was logged just before.

        Args:
            peer: Where it came from.
        """
        self.server.counters.refuse("password")
        self._passwords.warn(peer=peer)

    def size_of(self, request: FwpConnection) -> int:
        return len(request.line)

    def kind_of(self, request: FwpConnection) -> Kind:
        # Nothing is shed for its age: each connection has one command under way, so there are never very many, and a producer
        # that gets an error may drop the job.
        return Kind.other if request.line.startswith(_NEW_WORK) else Kind.settling

    def came_ms_ago(self, request: FwpConnection) -> int | None:
        return None  # never asked, as there is no new work

    def failed(self, request: FwpConnection) -> None:
        log.exception("unhandled error in the answer to a command")
        request.reply(replies.error("internal error"))

    def shed(self, request: FwpConnection) -> None:
        self.server.counters.refuse("overload")
        request.reply(_OVERLOADED)


class FwpConnection(asyncio.Protocol):
    """One connection, a `NewWire`.

    Attributes:
        served: Whether a command of this connection has been let in.
        line: The command under way.
        worker: Whose connection it is; None for a producer's, and before HELLO.
        on_close: Called when the peer goes while a command is under way that waits for something.
    """

    __slots__ = (
        "_ahead",
        "_ahead_bytes",
        "_asked",
        "_began_ms",
        "_busy",
        "_closing",
        "_draining",
        "_ended",
        "_handing",
        "_identified",
        "_last_ms",
        "_lines",
        "_pace",
        "_paused_ms",
        "_plain",
        "_poll",
        "_port",
        "_reading",
        "_refused",
        "_transport",
        "_unfinished",
        "_unsent",
        "_unsent_for",
        "_written",
        "line",
        "on_close",
        "served",
        "worker",
    )

    refusal: ClassVar[str] = "an error after its HELLO"

    def __init__(self, port: FwpPort) -> None:
        self._port = port
        self._lines = LineSplitter(port.max_line)
        self._ahead: deque[bytes] = deque()
        self._ahead_bytes = self._unfinished = 0
        self._transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self._asked: Challenge | None = None
        self._began_ms = self._last_ms = port.server.now_ms()
        self._paused_ms = 0
        self._pace: Pace | None = None  # of the line that has no end yet
        self._unsent = Unsent(port.server.counters)
        self._unsent_for = Waiting()
        self._written = 0  # bytes of answers so far
        self._busy = self._identified = self._refused = self._closing = self._draining = False
        self._handing = self._ended = False
        self._reading = True
        # Nothing has come beside the command under way, if any, and nothing else is out of the ordinary.
        self._plain = False
        self.served = False
        self.line = b""
        self.worker: Worker | None = None
        self.on_close: Any = None

    # -- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the peer."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(self._port.server.limits.write_buffer)
        if self._port.password:
            self._asked = challenge(secrets.token_bytes(RANDOM_BYTES))
        self._transport.write(greeting(self._asked))
        self._port.server.admit(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes; begin with the first line they complete."""
        if self._closing:
            return
        if self._plain and not self._busy and data.find(b"\n") == len(data) - 1 <= self._port.max_line:
            # As nearly always: one command, and nothing before it.
            self.line = data[:-2] if data[-2:-1] == b"\r" else data[:-1]
            self._begin()
            return
        self._plain = False
        lines = self._lines.feed(data)
        self._count_unfinished(begun=bool(lines))
        if lines:
            self._ahead.extend(lines)
            self._ahead_bytes += sum(map(len, lines))
            if not self._busy:
                self._next()
        if (
            (self._busy or self._ahead)
            and not self._closing
            and (len(self._ahead) > MOST_AHEAD or self._ahead_bytes + self._unfinished > AHEAD_BYTES)
        ):
            self._read(False)
        if not self._identified and self._unfinished > HELLO_BYTES:
            self.close(replies.error(replies.LINE_TOO_LONG))
        elif self._lines.too_long and not self._busy:
            self._end_too_long()

    def pause_writing(self) -> None:
        """The peer is behind with reading; it is cut off where peers have left too much unread together."""
        self._paused_ms = self._port.server.now_ms()
        self._plain = False
        self._count_unsent()
        counters = self._port.server.counters
        if counters.unsent > counters.max_unsent:
            counters.refuse("stalled_reader")
            self.abort()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._paused_ms = 0
        self._unsent.becomes(0)
        if not self._busy:
            self._next()

    def eof_received(self) -> bool:
        """The peer sends no more, and perhaps has gone: what it has sent is done, but nothing waits for it, nor is fetched."""
        self._ended = True
        self._plain = False
        if self.on_close is not None:
            on_close, self.on_close = self.on_close, None
            on_close()
            self.reply(replies.NULL)
        return bool(self._busy or self._ahead)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget what was asked."""
        self._closing = True
        self._plain = False
        self._transport = None
        self._ahead.clear()
        self._lines = LineSplitter(1)
        self._count_unfinished()
        self._unsent.becomes(0)
        if self._identified:
            self._port.identified -= 1
            self._port.commands.left(self)
        if self.on_close is not None:
            on_close, self.on_close = self.on_close, None
            on_close()
        self._port.server.left(self)

    # -- what the server of connections calls

    def sweep(self, now_ms: int) -> None:
        """Cut off a peer that says no HELLO, sends a line too slowly, or does not read."""
        limits = self._port.server.limits
        if not self._identified:
            if now_ms - self._began_ms > HANDSHAKE_MS:
                self.abort()
            return
        waiting = self._count_unsent()
        taken = sent(self._transport, self._written) - waiting if waiting and self._transport else None
        if self._unsent_for.stands_for(now_ms, taken) >= limits.stall_timeout_ms:
            self._port.server.counters.refuse("stalled_reader")
            self.abort()
        elif (
            not self._paused_ms
            and self._pace is not None
            and self._reading
            and self._transport is not None
            and self._pace.is_slow(now_ms, came(self._transport, self._unfinished), limits)
        ):
            self.abort()

    def idle_ms(self, now_ms: int) -> int:
        """Say for how long a producer has asked for nothing; a worker may be at work, and its connections are not idle."""
        busy = self._busy or self.worker is not None or self._unfinished
        return -1 if busy else now_ms - self._last_ms

    def dismiss(self) -> None:
        """Close an idle connection."""
        self.close()

    def drain(self) -> None:
        """Take no more commands; answer the one under way, then close."""
        self._draining = True
        self._plain = False
        self._ahead.clear()
        if not self._busy:
            self.close()

    def drain_streams(self) -> None:
        """There are none."""

    def abort(self) -> None:
        """Cut the connection now."""
        self._closing = True
        self._plain = False
        if self._transport is not None:
            self._transport.abort()

    def turn_away(self) -> None:
        """Say after HELLO that there are too many connections, and close; clients read an answer to HELLO first."""
        self._refused = True

    # -- commands

    @property
    def gone(self) -> bool:
        """Whether nobody reads an answer any more; the loop may have yet to hear of it."""
        transport = self._transport
        return self._closing or transport is None or transport.is_closing() or self._has_hung_up(transport)

    def _has_hung_up(self, transport: asyncio.Transport) -> bool:
        """Ask the system whether the peer has ended its side."""
        if self._poll is None:
            socket = transport.get_extra_info("socket")
            if socket is None or not _HUNG_UP:
                return False
            self._poll = select.poll()
            self._poll.register(socket.fileno(), _HUNG_UP)
        return bool(self._poll.poll(0))

    def execute(self) -> None:
        """Execute the line that is under way."""
        self.served = True
        port = self._port
        try:
            command = parse(self.line, enterprise=port.enterprise)
        except MalformedRequest as error:
            port.executed += not str(error).startswith("unknown command")
            if self.line.startswith(b"PUSH"):
                port.unread.warn(peer=self._peer(), reason=str(error)[:SHOWN])
            self.reply(replies.error(str(error)))
            return
        port.executed += 1
        if isinstance(command, End):
            self.close()
        else:
            port.commands.execute(self, command)

    def reply(self, data: bytes) -> None:
        """Answer the command under way, and go on with the next."""
        self.on_close = None
        self._busy = False
        self.line = b""
        self._last_ms = self._port.server.now_ms()
        if self._transport is None:
            return
        self._written += len(data)
        if len(data) > long_answer:
            self._count_unsent()
            self._unsent.hold(len(data))
        self._transport.write(data)
        if self._draining:
            self.close()
        elif not self._plain:
            self._next()

    def close(self, last: bytes = b"") -> None:
        """Send a last word, and close."""
        self._closing = True
        self._plain = False
        self._ahead.clear()
        if self._transport is not None:
            if last:
                self._transport.write(last)
            self._transport.close()

    def _next(self) -> None:
        """Hand over the lines that wait, one after another, for as long as each is answered at once."""
        if self._handing:  # the loop below goes on: were it begun anew by each answer, many lines would be as many calls deep
            return
        self._handing = True
        try:
            while self._ahead and not (self._busy or self._paused_ms or self._closing):
                self._hand()
        finally:
            self._handing = False
        if self._busy or self._ahead or self._closing:
            return
        if self._lines.too_long:
            self._end_too_long()
        elif self._ended:
            self.close()
        elif not self._reading:
            self._read(True)
        else:
            self._plain = self._identified and not (self._unfinished or self._paused_ms or self._draining)

    def _hand(self) -> None:
        """Hand over the first line that waits."""
        self.line = self._ahead.popleft()
        self._ahead_bytes -= len(self.line)
        if (
            not self._reading
            and len(self._ahead) <= MOST_AHEAD // 2
            and self._ahead_bytes + self._unfinished <= AHEAD_BYTES // 2
        ):
            self._read(True)
        if not self._identified:
            self._busy = True
            self._hello()
        elif self._ended and self.line.startswith(_FETCH):
            self.reply(replies.NULL)
        else:
            self._begin()

    def _begin(self) -> None:
        """Begin with the line that is there now."""
        self._busy = True
        server = self._port.server
        server.counters.requests += 1
        server.gate.hand(self, self._port)

    def _hello(self) -> None:
        if len(self.line) > HELLO_BYTES:
            self.close(replies.error(replies.LINE_TOO_LONG))
            return
        try:
            hello = parse_hello(self.line)
        except MalformedRequest:
            self.close()
            return
        if self._asked is not None and not is_right(
            hello.pwdhash or "", self._port.password, self._asked, hello.v or 0
        ):
            self._port.wrong_password(self._peer())
            self.close(replies.error(replies.BAD_PASSWORD))
            return
        if self._refused:
            self._port.server.counters.refuse("connections")
            most = self._port.server.max_connections
            self.close(replies.OK + replies.error(f"too many connections: {most}"))
            return
        self._identified = True
        self._port.identified += 1
        self._port.commands.hello(self, hello)
        self.reply(replies.OK)

    def _peer(self) -> str:
        peer = self._transport.get_extra_info("peername") if self._transport else None
        return str(peer[0]) if peer else "unknown"

    def _count_unfinished(self, *, begun: bool = False) -> None:
        """Count what is kept of an unfinished line among all that is coming in; above the limit this one is refused.

        Args:
            begun: It has just begun: a line before it has ended.
        """
        counters, kept = self._port.server.counters, self._lines.unfinished
        if not kept:
            self._pace = None
        elif begun or self._pace is None:
            self._last_ms = self._port.server.now_ms()
            self._pace = Pace(self._last_ms)
        counters.unfinished += kept - self._unfinished
        self._unfinished = kept
        if kept and counters.unfinished > self._port.server.limits.max_unfinished:
            counters.refuse("unfinished")
            self.close(_OVERLOADED)

    def _count_unsent(self) -> int:
        """Count what is held of a peer that is behind: answers, and the lines that wait for theirs. Give the bytes to be sent."""
        waiting = 0 if self._transport is None else self._transport.get_write_buffer_size()
        self._unsent.waits(waiting, self._ahead_bytes)
        return waiting

    def _read(self, on: bool) -> None:
        if on is self._reading or self._transport is None:
            return
        self._reading = on
        if on:
            if self._pace is not None:  # while we did not read the peer could not be fast
                self._pace = Pace(self._port.server.now_ms())
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _end_too_long(self) -> None:
        if not self._ahead:
            self.close(replies.error(replies.LINE_TOO_LONG))
