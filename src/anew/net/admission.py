"""The gate before the application: for so long a turn requests pass at once; those that come after wait in order.

A turn of the event loop reads all that a crowd has sent before any answer leaves, and what comes meanwhile
waits in the kernel, where its age cannot be seen. So no turn hands over requests for longer than `portion_ms`:
answers leave soon, nothing is unread for long, and what waits does so here, counted and timed. Whoever waits too
long in a crowd is late, and the application is told so: refusing costs little, and those behind are served in time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from anew.net.http1.messages import failed
from anew.net.seam import App, Judge, Request, judge_of

log = logging.getLogger("anew.http")

portion_ms = 20
"""How long requests are handed over in one turn of the loop."""

patience_ms = 60
"""How long a request may have waited before it is late, if it is one of a crowd. Behind it comes at most the rest
of its turn, so its answer leaves well within the 250 ms that are promised."""

crowd = 64
"""Requests that wait, or connections with requests behind the one under way, that make a crowd. Fewer wait by
their own choice: each could ask for one thing at a time."""

wary_ms = 1_000
"""How long after a crowd the time is counted for which bytes may have waited unread. At other times it is not: a disk
that once stands still is no overload, and those who waited for it are served as soon as it goes on."""

full = 1024
"""Requests that wait, from which on HTTP/2 connections keep what they have read: each may bring 200 of them, and to
refuse those of a hundred connections in one turn would hold up the answers of all."""

max_queued = 4096
"""Requests that may wait. It takes longer than `patience_ms` to serve so many, so one more is late at once."""

max_queued_bytes = 64 << 20
"""Bytes of bodies that may wait; a request above it is late at once."""


class Held(Protocol):
    """A connection that holds requests back until the one under way is answered."""

    def go_on(self) -> None:
        """Hand over the next of them."""

    def abort(self) -> None:
        """Cut the connection now."""


class Gate:
    """Hands complete requests to the application, in the order in which they came.

    Args:
        app: Answers requests.
        now_ms: The monotonic clock; never 0.

    Attributes:
        app: As given.
        judge: The application's verdict about a head; refuses nothing if the application has none. Wires ask it as soon as a
            head is complete.
        on_late: Called with True before, and with False after, a late request is handed over: what of it can be
            refused had better be.
        crowded: True from when `crowd` of them wait until hardly any does.
    """

    __slots__ = (
        "_awake",
        "_bytes",
        "_crowd_ended_ms",
        "_looked_ms",
        "_now_ms",
        "_pipelines",
        "_queue",
        "_since_ms",
        "_turning",
        "_until_ms",
        "_wary",
        "app",
        "crowded",
        "judge",
        "on_late",
    )

    def __init__(self, app: App | Callable[[Request], None], now_ms: Callable[[], int]) -> None:
        self.app: Callable[[Request], None] = app
        self.judge: Judge = judge_of(app)
        self.on_late: Callable[[bool], None] = _ignore
        self.crowded = False
        self._now_ms = now_ms
        self._queue: deque[tuple[Request | Held, int]] = deque()
        self._bytes = 0  # of the bodies in the queue
        self._pipelines: set[Held] = set()
        self._turning = False  # the end of this turn, or the queue's next portion, is scheduled
        self._crowd_ended_ms = -wary_ms
        self._until_ms = 0  # when this turn's portion is used up; 0: there is none for newcomers
        self._awake = False  # the loop has not been polled since the last turn
        self._wary = False  # there is a crowd, or has been one lately
        self._looked_ms = 0  # when the loop began to read what it has read last
        self._since_ms = 0  # since when what is read now may have waited unread

    def hand(self, request: Request) -> None:
        """Hand over a request that has just been read, now or when those before it have had their turn."""
        now_ms = self._now_ms()
        if not (now_ms < self._until_ms or self._begins(now_ms)):
            self._wait(request, self._since_ms)
        elif self._wary and now_ms - self._since_ms > patience_ms:
            self._hand_late(request)
        else:
            try:
                self.app(request)
            except Exception:
                failed(request)

    def hand_held(self, request: Request, since_ms: int) -> None:
        """Hand over a request that its connection has held back.

        Args:
            request: The request.
            since_ms: Since when, by the monotonic clock.
        """
        now_ms = self._now_ms()
        if now_ms < self._until_ms or self._begins(now_ms):
            self._hand_aged(request, since_ms, now_ms)
        else:
            self._wait(request, since_ms)

    def is_full(self) -> bool:
        """Tell whether so many wait that what has been read now had better stay with its connection."""
        return len(self._queue) >= full and self._now_ms() >= self._until_ms

    def is_spent(self) -> bool:
        """Whether the time of this turn is used up, so that the rest of a long read waits; the first to ask begins a turn."""
        now_ms = self._now_ms()
        return not (now_ms < self._until_ms or self._begins(now_ms))

    def queue_up(self, connection: Held) -> None:
        """Let a connection hand over what it holds, after those that wait already."""
        self._queue.append((connection, self._since_ms))
        if not self._turning:
            self._look(self._now_ms())
            asyncio.get_running_loop().call_soon(self._work)

    def waits(self, connection: Held) -> None:
        """Count a connection with requests behind the one under way."""
        self._pipelines.add(connection)
        if len(self._pipelines) >= crowd:
            self.crowded = self._wary = True

    def waits_no_more(self, connection: Held) -> None:
        """Count it no more."""
        self._pipelines.discard(connection)
        self._thin_out()

    def close(self) -> None:
        """Forget the requests that wait: nobody is there any more to hear their answers."""
        self._queue.clear()
        self._bytes = 0

    # ---- turns

    def _begins(self, now_ms: int) -> bool:
        """Begin this turn's portion, unless it is used up."""
        if self._turning:
            return False
        self._look(now_ms)
        self._until_ms = now_ms + portion_ms
        asyncio.get_running_loop().call_soon(self._turn_over)
        return True

    def _look(self, now_ms: int) -> None:
        self._turning = True
        # If the loop has not slept, what is read now can have come as soon as the turn before had begun to read.
        self._since_ms = self._looked_ms if self._awake else now_ms
        self._looked_ms = now_ms
        self._wary = self.crowded or now_ms - self._crowd_ended_ms < wary_ms

    def _turn_over(self) -> None:
        self._until_ms = 0
        self._turning = bool(self._queue)
        if self._turning:
            # Not at once: first the answers to what was handed over may leave.
            self._since_ms, self._looked_ms = self._looked_ms, self._now_ms()
            asyncio.get_running_loop().call_soon(self._work)
        elif self._wary:
            self._awake = True
            asyncio.get_running_loop().call_soon(self._rest)

    def _rest(self) -> None:
        # The loop has been polled since the last turn; whether it slept then or will now, nobody can tell.
        self._awake = False

    def _work(self) -> None:
        """Hand over a portion of what waits."""
        queue = self._queue
        now_ms = self._now_ms()
        self._until_ms = until_ms = now_ms + portion_ms
        while queue and now_ms < until_ms:
            first, since_ms = queue.popleft()
            if isinstance(first, Request):
                self._bytes -= len(first.body)
                self._hand_aged(first, since_ms, now_ms)
            else:
                self._since_ms = since_ms
                self._let_go_on(first)
            self._thin_out()
            now_ms = self._now_ms()
        self._since_ms, self._looked_ms = self._looked_ms, now_ms
        if queue:
            self._until_ms = 0
        asyncio.get_running_loop().call_soon(self._work if queue else self._turn_over)

    def _let_go_on(self, connection: Held) -> None:
        # What one connection meets with must not keep the others waiting for ever.
        try:
            connection.go_on()
        except Exception:
            log.exception("unhandled error in a connection that has waited")
            connection.abort()

    # ---- requests

    def _wait(self, request: Request, since_ms: int) -> None:
        size = len(request.body)
        if len(self._queue) >= max_queued or self._bytes + size > max_queued_bytes:
            self._hand_late(request)
            return
        self._queue.append((request, since_ms))
        self._bytes += size
        if len(self._queue) >= crowd:
            self.crowded = self._wary = True

    def _hand_aged(self, request: Request, since_ms: int, now_ms: int) -> None:
        # Whatever began to wait in a crowd is late after that time, though the crowd has thinned out since.
        if now_ms - since_ms > patience_ms and (self.crowded or since_ms <= self._crowd_ended_ms):
            self._hand_late(request)
        else:
            self._hand(request)

    def _hand(self, request: Request) -> None:
        try:
            self.app(request)
        except Exception:
            failed(request)

    def _hand_late(self, request: Request) -> None:
        self.on_late(True)
        try:
            self._hand(request)
        finally:
            self.on_late(False)

    def _thin_out(self) -> None:
        if self.crowded and len(self._queue) <= crowd // 8 and len(self._pipelines) <= crowd // 8:
            self.crowded = False
            self._crowd_ended_ms = self._now_ms()


def _ignore(late: bool) -> None:
    """Treat late requests like all others."""
