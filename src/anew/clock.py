"""Where time comes from: the machine's clock, or one that a test moves by hand."""

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
