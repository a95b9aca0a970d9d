"""What no peer may do too often or too slowly: budgets per second, and the marks that the sweep compares."""

from __future__ import annotations

from anew.net.http2.frames import ENHANCE_YOUR_CALM, ConnectionFault

second_ms = 1000

resets_per_second = 500
"""Streams that end by RST_STREAM, the peer's or ours for its mistakes (CVE-2023-44487, CVE-2025-8671). A
client that gives up all its 200 streams at once, twice in a second, is still welcome."""

idle_frames_per_second = 2000
"""Frames that carry nothing: PING, SETTINGS, PRIORITY, unknown types, empty DATA, windows in tiny steps
(CVE-2019-9511, -9512, -9515, -9518)."""

tiny_step = 256
"""Bytes of a WINDOW_UPDATE below which it counts as an idle frame."""


class Budgets:
    """Counts of one second."""

    __slots__ = ("_idle", "_resets", "_since")

    def __init__(self) -> None:
        self._resets = 0
        self._idle = 0
        self._since = 0

    def sweep(self, now_ms: int) -> None:
        """Begin a new second if the last is over."""
        if now_ms - self._since >= second_ms:
            self._since = now_ms
            self._resets = self._idle = 0

    def spend_reset(self) -> None:
        """Count a reset stream.

        Raises:
            ConnectionFault: ENHANCE_YOUR_CALM.
        """
        self._resets += 1
        if self._resets > resets_per_second:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "too many streams are reset")

    def spend_idle(self) -> None:
        """Count a frame that carries nothing.

        Raises:
            ConnectionFault: ENHANCE_YOUR_CALM.
        """
        self._idle += 1
        if self._idle > idle_frames_per_second:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "too many frames that carry nothing")


class Waiting:
    """How long something has stood still, by the sweep's clock: none is read where bytes are handled."""

    __slots__ = ("_mark", "_since")

    def __init__(self) -> None:
        self._mark: object = None
        self._since = 0

    def stands_for(self, now_ms: int, mark: object) -> int:
        """Tell for how many milliseconds the mark has been the same; None: nothing is awaited."""
        if mark is None or mark != self._mark:
            self._mark = mark
            self._since = now_ms
        return now_ms - self._since
