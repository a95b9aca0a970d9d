"""What a client has sent ahead of an answer: bytes that wait, and since when, since the gate sheds by age."""

from __future__ import annotations

max_ahead = 64 << 10
"""Bytes sent ahead of an answer above which a connection is not read."""


class SentAhead:
    """The bytes of one connection that wait for the answer under way.

    They have two ages at most: bytes that come while others wait are the newer ones, until the next request begins among them.

    Attributes:
        data: The bytes, those of requests that were handed over among them.
        at: Where in `data` the next request begins.
        since_ms: Since when it waits, by the monotonic clock; 0: nothing does.
        unread_ms: Since when the bytes that are read next may have waited in the kernel; 0: they have not.
    """

    __slots__ = ("_newer_at", "_newer_ms", "at", "data", "since_ms", "unread_ms")

    def __init__(self) -> None:
        self.data = b""
        self.at = 0
        self.since_ms = self.unread_ms = 0
        self._newer_at = 0  # where in `data` the newer bytes begin; 0: there are none
        self._newer_ms = 0  # when the first of them came

    @property
    def size(self) -> int:
        """Bytes that wait."""
        return len(self.data) - self.at

    def keep(self, data: bytes, at: int) -> None:
        """Keep what begins at a place."""
        self.data, self.at = data, at
        if self._newer_at and at >= self._newer_at:
            self.since_ms, self._newer_at = self._newer_ms, 0

    def add(self, data: bytes, now_ms: int) -> None:
        """Keep more that has just been read."""
        if self._newer_at:
            self._newer_at -= self.at
        else:
            self._newer_at = self.size
            self._newer_ms = self.unread_ms or now_ms
            self.unread_ms = 0
        self.keep(self.data[self.at :] + data, 0)

    def take(self) -> tuple[bytes, int]:
        """Give the bytes and the place of the next request; its age stays until `forget`, or until it is kept again."""
        data, self.data = self.data, b""
        return data, self.at

    def forget(self) -> None:
        """Nothing waits any more."""
        self.data = b""
        self.since_ms = self.unread_ms = self._newer_at = 0
