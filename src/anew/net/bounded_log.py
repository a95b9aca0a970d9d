"""A warning that clients can cause as often as they like, and that is logged once in a while."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

EVERY_MS: Final = 10_000
SHOWN: Final = 200
"""Characters of a client's text that a line repeats."""


class BoundedLog:
    """Logs a warning at most once each `EVERY_MS`, with the number of those since the last line.

    Args:
        log: Where to.
        message: What is logged.
        now_ms: A monotonic clock.
    """

    def __init__(self, log: logging.Logger, message: str, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._message = message
        self._now_ms = now_ms
        self._count = 0
        self._last_ms: int | None = None

    def warn(self, **fields: object) -> None:
        """Count one more, and log it with these fields unless one was logged just before."""
        self._count += 1
        now_ms = self._now_ms()
        if self._last_ms is None or now_ms - self._last_ms >= EVERY_MS:
            self._log.warning(self._message, extra={**fields, "since_the_last_line": self._count})
            self._count, self._last_ms = 0, now_ms
