"""A thread that does one thing at a time for an event loop, which goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

Work = Callable[[], Any]
Then = Callable[[Any], None]


class BatchThread:
    """One thread, started when there is something to do. Everything here but the work itself happens in the loop's thread.

    The process does not wait for it at its end: what it does may hang.

    Args:
        loop: Where results are handed back.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._works: SimpleQueue[Work | None] | None = None
        self._then: Then | None = None
        self._result: Any = None
        self._over = threading.Event()

    @property
    def busy(self) -> bool:
        """Whether something is under way: its result has not been handed back."""
        return self._then is not None

    def start(self, work: Work, then: Then) -> None:
        """Begin with something while nothing else is under way.

        Args:
            work: Called in the thread; must not raise.
            then: Called in the loop's thread with what it returned.
        """
        assert self._then is None, "something else is under way"
        self._then = then
        if self._works is None:
            self._works = SimpleQueue()
            threading.Thread(
                target=self._work_off, args=(self._works,), name="anew-batches", daemon=True
            ).start()
        self._works.put(work)

    def wait(self, timeout_s: float) -> bool:
        """Wait, in the loop's thread, until nothing is under way; False if that takes longer."""
        if self._then is not None and not self._over.wait(max(0.0, timeout_s)):
            return False
        self._hand_back()
        return True

    def end(self) -> None:
        """Let the thread end when it has nothing to do; the next `start` begins another."""
        if self._works is not None:
            self._works.put(None)
            self._works = None

    def forget(self) -> None:
        """Hand back nothing of what is under way, whenever it comes."""
        self.end()
        self._then = _drop

    def _work_off(self, works: SimpleQueue[Work | None]) -> None:
        while (work := works.get()) is not None:
            self._result = work()
            self._over.set()
            with suppress(RuntimeError):  # the loop has closed; `wait` may still be told
                self._loop.call_soon_threadsafe(self._hand_back)

    def _hand_back(self) -> None:
        """Call whoever waits for the result, unless `wait` has done so already."""
        if self._then is None or not self._over.is_set():
            return
        then, result = self._then, self._result
        self._over.clear()
        self._then = self._result = None
        then(result)


def _drop(result: Any) -> None:
    """Nobody waits any more."""
