"""The one way in which tests wait for what nobody announces to them: they ask again and again."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(
    holds: Callable[[], object],
    *,
    within_s: float = 30.0,
    what: str = "it comes to pass",
    pause_s: float = 0.01,
) -> float:
    """Wait for what a thread or another process does; give the seconds that it took.

    Args:
        holds: Asked without arguments; what is true ends the wait.
        within_s: After so many seconds the wait fails.
        what: For the failure's message.
        pause_s: Between two questions, so that whoever is waited for has the processor.
    """
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < within_s, f"not within {within_s:g} s: {what}"
        time.sleep(pause_s)
    return time.monotonic() - began
