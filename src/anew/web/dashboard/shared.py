"""One page for all who ask for it at the same time: what it costs does not grow with those who look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from anew.errors import AnewError

QUICK_MS: Final = 100
"""A page that took no longer is read anew for whoever asks next; so is one after a quick one, since the first of a process
takes longer than those after it."""

TIMES: Final = 10
"""Another page is shown for so many times as long as it took: reading it takes a tenth of the reader's time at most."""

LONGEST_MS: Final = 30_000
"""For how long a page is shown at most."""


class SharedPage:
    """Reads a page when somebody asks for it, once for all who ask until it is there.

    Args:
        read: Starts to read it, and calls back with it, or with an AnewError.
        now_ms: The monotonic clock.
    """

    def __init__(
        self, read: Callable[[Callable[[bytes | AnewError], None]], None], now_ms: Callable[[], int]
    ) -> None:
        self._read = read
        self._now_ms = now_ms
        self._waiting: list[Callable[[Any], None]] = []
        self._began = 0
        self._took_before = 0
        self._page: bytes | AnewError = b""
        self._until = 0

    def ask(self, then: Callable[[Any], None]) -> None:
        """Call back with the page, now or later, or with an AnewError.

        Raises:
            AnewError: The page cannot be read now.
        """
        now = self._now_ms()
        if now < self._until:
            then(self._page)
            return
        self._waiting.append(then)
        if len(self._waiting) == 1:
            self._began = now
            try:
                self._read(self._answer)
            except AnewError:
                self._waiting.clear()
                raise

    def _answer(self, page: bytes | AnewError) -> None:
        now = self._now_ms()
        took, before = now - self._began, self._took_before
        waiting, self._waiting, self._took_before = self._waiting, [], took
        if min(took, before) > QUICK_MS and not isinstance(page, AnewError):
            self._page, self._until = page, now + min(TIMES * took, LONGEST_MS)
        for then in waiting:
            then(page)
