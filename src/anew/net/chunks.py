"""Long works beside the loop's other duties: a few milliseconds a turn, one work a turn, in rotation.

Reading a bulk of ten thousand jobs takes tens of milliseconds, and everybody else would wait for all of them. So such a work is a
generator that pauses every so often, and the loop does its other duties between two chunks of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from anew.errors import AnewError, InternalError, Overloaded

log = logging.getLogger("anew.net")

T = TypeVar("T")
Work = Generator[None, None, T]
"""A work in chunks: it yields where others may have their turn, and returns its result."""

MAX_BYTES = 256 << 20
"""Bytes that may wait to be read; more are refused. Whoever sends them may have hung up long ago."""

BUDGET_MS = 4
"""Time that works may take in one turn of the loop; they pause oftener than that."""


def at_once(work: Work[T]) -> T:
    """Do a work without a pause."""
    try:
        while True:
            next(work)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


class Chunks:
    """Does works a chunk a turn, whoever asked first in front; each goes behind the others after its chunk."""

    def __init__(self) -> None:
        self._works: deque[tuple[Work[Any], Callable[[Any], None], int]] = deque()
        self._bytes = 0

    def run(self, work: Work[T], then: Callable[[Any], None], size: int = 0) -> None:
        """Do a work; one that is short and alone is done when this returns.

        Args:
            work: What to do.
            then: Called in the loop's thread with its result, or with an AnewError.
            size: Bytes that it keeps until it is done.

        Raises:
            Overloaded: Too many bytes wait already; the work is not begun.
        """
        if size and self._bytes and self._bytes + size > MAX_BYTES:
            raise Overloaded("more long bodies are waiting than can be read soon; try again in a second")
        self._bytes += size
        self._works.append((work, then, size))
        if len(self._works) == 1:
            self._turn()

    def _turn(self) -> None:
        """Do one chunk of one work."""
        work, then, size = self._works[0]
        end = time.perf_counter() + BUDGET_MS / 1_000
        try:
            while True:
                next(work)
                if time.perf_counter() >= end:
                    self._works.rotate(-1)
                    self._go_on()
                    return
        except StopIteration as done:
            result = done.value
        except AnewError as error:
            result = error
        except Exception:
            log.exception("a work failed")
            result = InternalError("internal server error")
        self._works.popleft()
        self._bytes -= size
        if self._works:
            self._go_on()
        then(result)

    def _go_on(self) -> None:
        asyncio.get_running_loop().call_soon(self._turn)
