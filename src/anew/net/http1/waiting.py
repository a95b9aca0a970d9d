"""The waiting half of an HTTP/1 connection: what was sent ahead of an answer is kept, bounded, and timed."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from anew.net.http1.sending import SendingSide, held, ready

if TYPE_CHECKING:
    from anew.net.listener import HttpServer

max_dropped = 64 << 10
"""Bytes read and thrown away on a connection from which no request is expected any more."""

max_held = 64 << 10
"""Bytes sent ahead of an answer above which a connection is not read."""

max_at_once = 16
"""Requests of one connection that are answered on the spot before the others have their turn. More than a few, because
their answers leave in one write, and refusing a crowd must cost little."""


class WaitingSide(SendingSide):
    """What a peer has sent that is not with the application yet."""

    __slots__ = (
        "_at",
        "_handed",
        "_held_ms",
        "_newer",
        "_newer_ms",
        "_paused_ms",
        "_rest",
        "_seen",
        "_unread_ms",
    )

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server)
        self._rest = b""
        self._at = 0  # where in `_rest` the next request begins, as long as it is held
        self._held_ms = 0  # since when what begins there has been held; 0: nothing is
        self._newer = 0  # where in `_rest` the bytes begin that came later; 0: none did
        self._newer_ms = 0  # when the first of them came
        self._handed = 0  # requests handed to the application in one go
        self._seen = 0  # how many of the bytes that are being parsed had been looked at before
        self._paused_ms = 0  # since when the transport has not been read; 0: it is
        self._unread_ms = 0  # since when what will be read next may have waited unread; 0: it has not

    @abstractmethod
    def _parse(self, data: bytes, at: int) -> None:
        """Take requests off the bytes until they are used up, one is incomplete, or it is time to wait."""

    def _answer_left(self) -> None:
        # Not at once: whoever answers may be in the middle of a batch, which the next request must not enter.
        if not self._parsing and (self._stage == held or self._paused_ms):
            self._server.gate.queue_up(self)

    def _hold(self, data: bytes, at: int) -> None:
        """Keep what begins at `at` until the request under way is answered and the peer reads."""
        self._rest = data
        self._at = at
        self._stage = held
        self._began_ms = 0
        if self.current is not None:
            self.current.plain = None
        if len(data) - at > max_held:
            self._pause()
        if not self._held_ms:
            self._held_ms = self._server.now_ms()
            self._server.gate.waits(self)
        elif self._newer and at >= self._newer:
            self._held_ms, self._newer = self._newer_ms, 0

    def _hold_more(self, data: bytes) -> None:
        if self._newer:
            self._newer -= self._at
        else:
            self._newer = len(self._rest) - self._at
            self._newer_ms = self._unread_ms or self._server.now_ms()
            self._unread_ms = 0
        self._hold(self._rest[self._at :] + data, 0)

    def _let_go(self) -> None:
        """Forget what was held or had begun to come in."""
        self._rest = b""
        if self._held_ms:
            self._wait_no_more()

    def _wait_no_more(self) -> None:
        self._held_ms = self._newer = self._unread_ms = 0
        self._server.gate.waits_no_more(self)

    def _pause(self) -> None:
        if not self._paused_ms and not self.transport.is_closing():
            self._paused_ms = self._server.now_ms()
            self.transport.pause_reading()

    def go_on(self) -> None:
        """Take the next of what is held, and read again if little of it is left."""
        if self._blocked:
            return
        if self._stage == held and self.current is None:
            self._take_held()
        few = self._stage != held or len(self._rest) - self._at <= max_held // 2
        if self._paused_ms and few and not self._blocked and self._dropped <= max_dropped:
            self._read_again()

    def _take_held(self) -> None:
        data, self._rest = self._rest, b""
        self._stage = ready
        self._seen = 0
        self._parse(data, self._at)
        if self._stage != held and self._held_ms:
            self._wait_no_more()

    def _read_again(self) -> None:
        if self._began_ms:  # the time in which we did not read is not the peer's
            self._began_ms += self._server.now_ms() - max(self._began_ms, self._paused_ms)
        self._unread_ms = self._paused_ms if self._held_ms else 0
        self._paused_ms = 0
        if not self.transport.is_closing():
            self.transport.resume_reading()
