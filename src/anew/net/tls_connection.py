"""TLS on one connection: encrypted bytes come and go by the socket's transport, plain ones by the protocol above.

To that protocol it is the transport. The loops bring one of their own, which hides what waits to be sent: ten megabytes that nobody
reads count as nothing there, so neither the bound of what waits nor the time limit of who does not read would hold. Nor does it
know a closed half, or a handshake that is counted and may be cut. See docs/decisions/0010-tls.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import ssl
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from anew.net.certificate import Certificate
    from anew.net.listener import NetServer, NewWire

log = logging.getLogger("anew.net")

_HANDSHAKE = 22
"""The first byte of whoever speaks TLS (RFC 8446, 5.1); a letter is somebody who does not."""

_HUNG_UP = "it has hung up"

_RECORD = 16 << 10
"""Plain bytes that one record holds at most, and one read gives."""

max_handshake = 128 << 10
"""Bytes of a handshake; a client's chain of certificates is the longest part. As many are read of who goes on after a refusal."""

linger_ms = 1_000
"""How long a peer has to read why its handshake has failed. It may have sent its first request already, and a close with unread
bytes makes the kernel send a reset, which can overtake that."""


_NOBODY = asyncio.Protocol()
"""What stands above a connection that is lost."""


class Handshakes:
    """Lets connections go on with their handshakes, for a bounded time in each turn of the loop.

    A handshake costs as much as dozens of requests. When ten thousand clients come back at once, those that are in wait for their
    answers only a little longer.

    Args:
        now_ms: The monotonic clock.
    """

    turn_ms = 5

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._queue: dict[TlsConnection, None] = {}  # as many as there may be connections

    def queue_up(self, connection: TlsConnection) -> None:
        """Let a connection go on, after those that wait already."""
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._work)
        self._queue[connection] = None

    def is_waiting(self, connection: TlsConnection) -> bool:
        """Say whether it has yet to go on."""
        return connection in self._queue

    def forget(self, connection: TlsConnection) -> None:
        """Let it wait no more."""
        self._queue.pop(connection, None)

    def _work(self) -> None:
        until_ms = self._now_ms() + self.turn_ms
        while self._queue and self._now_ms() < until_ms:
            connection = next(iter(self._queue))
            del self._queue[connection]
            # What one connection meets with must not keep the others waiting for ever.
            try:
                connection.shake_hands()
            except Exception:
                log.exception("unhandled error in a handshake")
                connection.abort()
        if self._queue:
            asyncio.get_running_loop().call_soon(self._work)


class _Stage(enum.Enum):
    SHAKING = enum.auto()  # the handshake is under way: no protocol has been asked yet
    OPEN = enum.auto()
    REFUSED = enum.auto()  # the peer has been told why, and has yet to hang up


class TlsConnection(asyncio.Transport, asyncio.Protocol):
    """One connection. Until its handshake is complete it is itself the `NewWire` that the server counts and watches.

    Args:
        server: Keeps the connections.
        wire: What speaks above.
        certificate: What is shown, and who is let in.
        handshake_ms: From now until the end of the handshake.
    """

    served = False

    def __init__(
        self,
        server: NetServer,
        wire: NewWire,
        certificate: Certificate,
        handshake_ms: int,
    ) -> None:
        super().__init__()
        self._server = server
        self._wire = cast("asyncio.Protocol", wire)
        self._raw: asyncio.Transport
        self._peer: tuple[object, ...] | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = certificate.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._stage = _Stage.SHAKING
        self._began_ms = server.now_ms()
        self._ends_ms = self._began_ms + handshake_ms
        self._came = 0  # bytes before the handshake was complete
        self._undecrypted = 0  # bytes of a record that has not come whole
        self._plain = self._encrypted = 0  # bytes that were sent
        self._ended = False  # the peer sends no more, and the protocol above knows
        self._paused = False  # it does not read
        self._end_waits = False  # it does not know yet, because it does not read
        self._sealed = False  # we have said that we send no more

    # ---- what the socket's transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the peer, who begins."""
        self._raw = cast("asyncio.Transport", transport)
        self._peer = transport.get_extra_info("peername")
        self._server.admit(self)

    def data_received(self, data: bytes) -> None:
        """Take encrypted bytes."""
        if self._stage is _Stage.OPEN:
            self._incoming.write(data)
            self._undecrypted += len(data)
            self._read()
            return
        self._came += len(data)
        if self._stage is _Stage.REFUSED or self._came > max_handshake:
            if self._came > max_handshake:
                self.abort()
        elif data[0] != _HANDSHAKE and self._came == len(data):
            self._refuse("tls_plaintext", "it does not speak TLS")
        else:
            self._incoming.write(data)
            self._server.handshakes.queue_up(self)

    def eof_received(self) -> bool:
        """The peer has closed its half, which it need not announce: every protocol above knows where its messages end."""
        if self._stage is _Stage.OPEN:
            self._end()
            return True
        self._ended = True
        if self._stage is _Stage.SHAKING and self._came:
            if self._server.handshakes.is_waiting(self):
                return True  # its last word may be why it does not want us
            self._refuse("tls_handshake", _HUNG_UP)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on, or forget a handshake that has not come to its end."""
        self._server.handshakes.forget(self)
        if self._stage is _Stage.OPEN:
            self._wire.connection_lost(exc)
        else:
            if exc is not None and self._stage is _Stage.SHAKING and self._came:
                self._server.refuse_handshake("tls_handshake", _HUNG_UP, self._peer)
            self._server.left(self)
        # The two know each other: left so, 15 KiB of OpenSSL's would wait for the collector.
        self._wire = _NOBODY

    def pause_writing(self) -> None:
        """Pass it on: what waits to be sent all waits in the socket's transport."""
        if self._stage is _Stage.OPEN:
            self._wire.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        if self._stage is _Stage.OPEN:
            self._wire.resume_writing()

    # ---- what the server calls, until the handshake is complete

    @property
    def refusal(self) -> str:
        """What a peer gets after `turn_away`: what the protocol above says."""
        return cast("NewWire", self._wire).refusal

    def turn_away(self) -> None:
        """Go on with the handshake: only then the protocol above can say that there are too many connections."""

    def sweep(self, now_ms: int) -> None:
        """Cut off who has not finished its handshake in time, or does not hang up after it was refused."""
        if now_ms >= self._ends_ms:
            if self._stage is _Stage.SHAKING:
                self._server.counters.refuse("slow_handshake")
            self.abort()

    def idle_ms(self, now_ms: int) -> int:
        """Say since when it has been there: nothing has been asked for yet."""
        return now_ms - self._began_ms

    def dismiss(self) -> None:
        """Cut it off: it has nothing to lose."""
        self.abort()

    def drain(self) -> None:
        """Cut it off: nothing has been asked for yet."""
        self.abort()

    def drain_streams(self) -> None:
        """There are none."""

    # ---- the handshake

    def shake_hands(self) -> None:
        """Do what can be done of the handshake with what has come."""
        if self._stage is not _Stage.SHAKING or self._raw.is_closing():
            return
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            if self._ended:
                self._refuse("tls_handshake", _HUNG_UP)
            return
        except ssl.SSLError as error:
            self._refuse("tls_handshake", _said(error))
            return
        self._flush()
        self._stage = _Stage.OPEN
        self._server.replace(self, cast("NewWire", self._wire))
        self._wire.connection_made(self)
        self._read()  # its first request may have come with the end of the handshake
        if self._ended:
            self._ended = False
            self._end()

    def _refuse(self, reason: str, why: str) -> None:
        self._stage = _Stage.REFUSED
        self._ends_ms = self._server.now_ms() + linger_ms
        self._server.refuse_handshake(reason, why, self._peer)
        self._flush()  # the alert
        if self._ended or not self._raw.can_write_eof():
            self._raw.close()
        else:
            self._raw.write_eof()

    # ---- bytes in

    def _read(self) -> None:
        """Decrypt all that has come, and hand it over as one piece."""
        if self._raw.is_closing():
            return
        pieces: list[bytes] = []
        ends = broken = False
        try:
            while self._incoming.pending or self._ssl.pending():
                piece = self._ssl.read(_RECORD)
                if not piece:
                    ends = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            ends = True
        except ssl.SSLError:
            broken = True
        self._flush()  # answers of TLS itself, or the alert
        if pieces:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self._undecrypted = max(self._undecrypted - len(data), 0)
            self._wire.data_received(data)
        if broken:
            self._server.counters.refuse("tls_broken")
            self.abort()
        elif ends:
            self._end()

    def _end(self) -> None:
        """Tell the protocol above, once, that nothing more comes; not before it has read what came until then."""
        if self._ended or self._raw.is_closing():
            return
        if self._paused:
            self._end_waits = True
            return
        self._ended = True
        if not self._wire.eof_received():
            self.close()

    # ---- what the protocol above calls: bytes out

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send; what waits to be sent, waits in the socket's transport."""
        if self._sealed or self._raw.is_closing():
            return
        size = len(data)
        try:
            at = self._ssl.write(data) if size else 0
            while at < size:  # as nearly never
                at += self._ssl.write(memoryview(data)[at:])
        except ssl.SSLError:  # the peer has broken off
            self.abort()
            return
        self._plain += size
        self._flush()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send all of it."""
        self.write(b"".join(list_of_data))

    def _flush(self) -> None:
        if self._outgoing.pending:
            data = self._outgoing.read()
            self._encrypted += len(data)
            self._raw.write(data)

    def can_write_eof(self) -> bool:
        """Say whether the peer can be told that nothing more comes, and still be heard."""
        return self._raw.can_write_eof()

    def write_eof(self) -> None:
        """Say that nothing more comes; what the peer sends is still read."""
        self._seal()
        self._raw.write_eof()

    def close(self) -> None:
        """Send what waits to be sent, say that it was all, and close."""
        if not self._raw.is_closing():
            self._seal()
            self._raw.close()

    def abort(self) -> None:
        """Cut the connection now."""
        self._sealed = True
        self._raw.abort()

    def _seal(self) -> None:
        """Say by the means of TLS that nothing more comes, so that nobody can cut an answer short unnoticed."""
        if self._sealed or self._stage is not _Stage.OPEN:
            return
        self._sealed = True
        with contextlib.suppress(ssl.SSLError):  # that the peer has yet to say the same
            self._ssl.unwrap()
        self._flush()

    # ---- what the protocol above calls: the rest

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def pause_reading(self) -> None:
        self._paused = True
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        self._raw.resume_reading()
        if self._end_waits:
            self._end_waits = False
            asyncio.get_running_loop().call_soon(self._end)

    def is_reading(self) -> bool:
        return not (self._paused or self._raw.is_closing())

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._wire = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._wire

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._raw.get_write_buffer_limits()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Give what the socket's transport knows, and two numbers of bytes.

        ``tls_overhead`` were sent beyond those of `write`; ``tls_undecrypted`` have come, and belong to a record that is not whole.
        """
        if name == "tls_overhead":
            return self._encrypted - self._plain
        if name == "tls_undecrypted":
            return self._undecrypted
        if name == "ssl_object":
            return self._ssl
        return self._raw.get_extra_info(name, default)


def _said(error: ssl.SSLError) -> str:
    """Say why a handshake has failed, in OpenSSL's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return (error.reason or str(error)).lower().replace("_", " ")
