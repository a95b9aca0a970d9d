"""Runs long reads in one thread beside the loop, a bounded number of them waiting."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from anew.errors import AnewError, InternalError, Overloaded
from anew.store.protocol import Reader

log = logging.getLogger("anew.http")

MAX_WAITING = 200
"""Reads that may wait for the reader; more are refused with 503."""

BUDGET_MS = 4
"""Time that answers to reads may take in one turn of the loop, but for the last of them: a page of a list may have megabytes."""


class Reads:
    """One reader in one thread.

    Args:
        reader: The store's reader; used by that thread only.
        loop: Where results are handed back.
    """

    def __init__(self, reader: Reader, loop: asyncio.AbstractEventLoop) -> None:
        self._reader = reader
        self._loop = loop
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="anew-reader")
        self._waiting = 0
        self._done: deque[tuple[Future[Any], Callable[[Any], None]]] = deque()
        self._turning = False

    def __call__(self, function: Callable[[Any], Any], then: Callable[[Any], None]) -> None:
        """Run a read and hand its result back.

        Args:
            function: Called with the reader, in its thread.
            then: Called in the loop's thread with what the function returned, or with an AnewError.

        Raises:
            Overloaded: Too many reads are waiting.
        """
        if self._waiting >= MAX_WAITING:
            raise Overloaded("too many lists and counts are waiting; try again in a second")
        self._waiting += 1
        future = self._thread.submit(function, self._reader)
        future.add_done_callback(lambda done: self._hand_back(done, then))

    def close(self) -> None:
        """Let the read in progress end, and close the reader."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._reader.close()

    def _hand_back(self, done: Future[Any], then: Callable[[Any], None]) -> None:
        self._done.append((done, then))
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:  # the loop has closed; nobody waits for an answer any more
            log.debug("a read ended after the server")

    def _wake(self) -> None:
        if not self._turning:
            self._turning = True
            self._turn()

    def _turn(self) -> None:
        """Answer what is done, for so long; the rest has turns of its own, between which others are served."""
        end = time.perf_counter() + BUDGET_MS / 1_000
        try:
            while self._done:
                self._deliver(*self._done.popleft())
                if time.perf_counter() >= end:
                    break
        finally:
            self._turning = bool(self._done)
            if self._turning:
                self._loop.call_soon(self._turn)

    def _deliver(self, done: Future[Any], then: Callable[[Any], None]) -> None:
        self._waiting -= 1
        if done.cancelled():
            then(Overloaded("the server is shutting down"))
            return
        error = done.exception()
        if error is None:
            then(done.result())
        elif isinstance(error, AnewError):
            then(error)
        else:
            log.error("a read failed", exc_info=error)
            then(InternalError("internal server error"))
