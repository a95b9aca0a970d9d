"""What no peer may do too often: counts of one second."""

from __future__ import annotations

from anew.net.http2.frames import Code, ConnectionFault

second_ms = 1000

resets_per_second = 500
"""Streams that end by RST_STREAM, the peer's or ours for its mistakes (CVE-2023-44487, CVE-2025-8671). A
client that gives up all its 200 streams at once, twice in a second, is still welcome."""

idle_per_second = 2000
"""Frames that carry nothing (CVE-2019-9511, -9512, -9515, -9518): PING, SETTINGS and each of its entries, PRIORITY, unknown types.
As many WINDOW_UPDATEs, and as many DATA frames without data."""

bytes_per_frame = 64
"""For so many bytes of a body, one DATA frame more is welcome. The last frame of a body may have fewer at no cost."""

bytes_per_update = 32
"""For so many bytes that we send, one WINDOW_UPDATE more is welcome. An answer has three times as many, and two follow it
at most, one for its stream and one for the connection."""


class Budgets:
    """What one peer has done this second."""

    __slots__ = ("_data", "_idle", "_resets", "_since", "_updates", "_written")

    def __init__(self) -> None:
        self._resets = self._idle = self._updates = self._data = 0
        self._since = 0
        self._written = (0, 0)  # bytes that we had sent when the second before, and this one, began

    def sweep(self, now_ms: int, written: int) -> None:
        """Begin a new second if the last is over; `written` is how many bytes we have sent so far."""
        if now_ms - self._since >= second_ms:
            self._since = now_ms
            self._resets = self._idle = self._updates = self._data = 0
            self._written = (self._written[1], written)

    def spend_reset(self) -> None:
        """Count a reset stream.

        Raises:
            ConnectionFault: ENHANCE_YOUR_CALM.
        """
        self._resets += 1
        if self._resets > resets_per_second:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many streams are reset")

    def spend_idle(self, count: int = 1) -> None:
        """Count frames, or entries, that carry nothing; the same error."""
        self._idle += count
        if self._idle > idle_per_second:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many frames that carry nothing")

    def spend_data(self, size: int) -> None:
        """Count a DATA frame that does not end its stream against the bytes of body that come with it; the same error."""
        self._data = max(0, self._data + bytes_per_frame - size)
        if self._data > idle_per_second * bytes_per_frame:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many DATA frames for their data")

    def spend_update(self, written: int) -> None:
        """Count a WINDOW_UPDATE, of any size, against the bytes that we have sent so far; the same error."""
        self._updates += 1
        if self._updates > idle_per_second + (written - self._written[0]) // bytes_per_update:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many WINDOW_UPDATEs for what was sent")
