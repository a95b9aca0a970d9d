"""The end of a connection: how long a peer has to read its last answer, and what is done with the bytes that it still sends.

A close with unread bytes makes the kernel send a reset, which can destroy an answer that the peer has not read yet (RFC 9112, 9.6).
So we close our half, and wait for the peer's end. What it sends until then is read and dropped, within these bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anew.net.port import HttpPort

linger_ms = 1_000
"""How long a peer may take to read the last answer and hang up before we do."""

discard_ms = 4_000
"""How much longer a peer may take that goes on sending: many clients read the answer only when all of their body has left."""

max_dropped = 64 << 10
"""Bytes read and dropped on any connection from which no request is expected any more."""

max_discarded = 512 << 20
"""Bytes read and dropped of a peer that goes on sending after its last answer."""

max_discarding = 16
"""Connections of a port of which more than `max_dropped` is read at once; what the others send beyond that is left unread."""


class Lingering:
    """The end of one connection.

    Attributes:
        dropped: Bytes that came when none were expected.
        until_ms: When we hang up, by the monotonic clock; 0: the last answer has not been sent.
    """

    __slots__ = ("_discards_until_ms", "_port", "dropped", "until_ms")

    def __init__(self, port: HttpPort) -> None:
        self._port = port
        self._discards_until_ms = 0  # until when more than `max_dropped` is read; 0: it is not
        self.dropped = self.until_ms = 0

    def begin(self) -> None:
        """The last answer has been sent."""
        self.until_ms = self._port.server.now_ms() + linger_ms

    def may_discard(self) -> bool:
        """Report whether more is read of what the peer sends after its last answer; the first time it takes one of the places."""
        if not self.until_ms or self.dropped > max_discarded:
            return False
        if not self._discards_until_ms and self._port.discarding < max_discarding:
            self._port.discarding += 1
            self._discards_until_ms = self.until_ms + (0 if self._port.server.draining else discard_ms)
        return self._discards_until_ms > 0

    def prolong(self) -> None:
        """The peer goes on sending: it has `linger_ms` more, until all of its time is used up."""
        self.until_ms = min(self._port.server.now_ms() + linger_ms, self._discards_until_ms)

    def drain(self) -> None:
        """The server ends: the peer has no more than `linger_ms` in all."""
        if self._discards_until_ms:
            self._discards_until_ms = self.until_ms

    def end(self) -> None:
        """Wait for the peer's end no longer. The connection may stay for long: its peer has yet to read its answers."""
        if self._discards_until_ms:
            self._port.discarding -= 1
        self._discards_until_ms = self.until_ms = 0
