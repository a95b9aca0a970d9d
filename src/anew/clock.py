"""Where time comes from: the machine's clock, a database's, or one that a test moves by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings of one clock, both in milliseconds."""

    def now(self) -> int:
        """Give the wall clock: milliseconds since the Unix epoch, UTC. May jump either way."""

    def monotonic(self) -> int:
        """Give a reading that never goes back; only differences mean anything."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        """Give milliseconds since the Unix epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> int:
        """Give milliseconds on the monotonic clock."""
        return time.monotonic_ns() // 1_000_000


class DistantClock:
    """The clock of another machine, as it was last heard, carried on by this one's monotonic clock.

    It is behind the other by what its word took to come, never before it.
    """

    SLOW_MS = 1_000
    """A word that took longer than this is not believed: a pause of this process would make it old."""

    def __init__(self, own: Clock | None = None) -> None:
        self._own = own or SystemClock()
        self._apart: int | None = None

    def now(self) -> int:
        """Give milliseconds since the Unix epoch, UTC, by the other machine; by this one until something was heard."""
        return self._own.now() if self._apart is None else self._own.monotonic() + self._apart

    def monotonic(self) -> int:
        """Give milliseconds on this machine's monotonic clock."""
        return self._own.monotonic()

    def hear(self, now: int, asked: int) -> None:
        """Take the other's time.

        Args:
            now: What it says.
            asked: When it was asked, by the monotonic clock.
        """
        monotonic = self._own.monotonic()
        if self._apart is None or monotonic - asked <= self.SLOW_MS:
            self._apart = now - monotonic


class ManualClock:
    """A clock that stands still until told to move.

    Args:
        now: Where it starts, milliseconds since the Unix epoch.
    """

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self._now = now
        self._monotonic = 0

    def now(self) -> int:
        """Give the wall clock as set."""
        return self._now

    def monotonic(self) -> int:
        """Give the time that has been let pass so far."""
        return self._monotonic

    def advance(self, ms: int) -> int:
        """Let time pass on both readings.

        Args:
            ms: Milliseconds, >= 0.

        Returns:
            The new wall clock reading.
        """
        if ms < 0:
            raise ValueError(f"time passes forwards only, not {ms} ms")
        self._now += ms
        self._monotonic += ms
        return self._now

    def jump(self, ms: int) -> int:
        """Move the wall clock alone, either way, as an operator or NTP would."""
        self._now += ms
        return self._now
