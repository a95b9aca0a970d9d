"""The gate before all applications: for so long a turn requests pass at once; those that come after wait in order.

A turn of the event loop reads all that very many clients have sent before any answer leaves, and what comes meanwhile waits in
the kernel, where its age cannot be seen. So no turn hands over requests for longer than `turn_ms`: answers leave soon, nothing is
unread for long, and what waits does so here, counted and timed. New work that has waited too long during an overload is shed:
refusing costs less than serving, and those behind are served in time.

It costs half as much all the same, so peers that come again at once could keep the server busy with refusals alone. So a connection
whose request was shed is held off: it is not read before there is time to spare, or its peer has been told to come again. Then
they come back one after another, or all who were refused in one instant would come back in one.

The gate knows a request's size and its kind, and no protocol; `Admission` is one application's way through it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Protocol, TypeVar

from anew.net.seam import App, Judge, Kind, Request, refusal

log = logging.getLogger("anew.net")

turn_ms = 20
"""How long requests are handed over, and what has been read is worked on, in one turn of the loop."""

read_ms = 5
"""How long one connection's bytes are worked on before others have their turn."""

max_wait_ms = 60
"""How long new work may have waited before it is shed during an overload. Behind it comes at most the rest of its turn, so
its answer leaves well within the 250 ms that are promised."""

overload = 64
"""Requests that wait, or connections with requests behind the one under way, that are an overload. Fewer may come from clients
that send their requests ahead, and need not."""

after_overload_ms = 1_000
"""How long after an overload the time is counted for which bytes may have waited unread. At other times it is not: a disk that once
stands still is no overload, and those who waited for it are served as soon as it goes on."""

full = 1024
"""Requests that wait, from which on HTTP/2 connections keep what they have read: each may bring 200 of them, and to refuse those
of a hundred connections in one turn would hold up the answers of all."""

max_queued = 4096
"""Requests that may wait. It takes longer than `max_wait_ms` to serve so many, so one more is shed at once."""

hold_off_ms = 50
"""How long a connection is held off at least when there is no time to spare, and half of how long at most: they are spread. What it
sends meanwhile is still answered in time."""

back_at_once = 16
"""Connections that are read again after each turn that has left time to spare."""

_golden = (5**0.5 - 1) / 2
"""Its multiples, without their whole parts, lie evenly between 0 and 1 however many there are."""

max_queued_bytes = 64 << 20
"""Bytes of requests that may wait; a request above it is shed at once."""


Requested = TypeVar("Requested", contravariant=True)
"""A request as its protocol has it."""


class Service(Protocol[Requested]):
    """What serves the requests of one protocol."""

    def size_of(self, request: Requested) -> int:
        """Give the bytes that a request holds while it waits."""

    def kind_of(self, request: Requested) -> Kind:
        """Say what a request is for; asked only when it may have to be shed."""

    def came_ms_ago(self, request: Requested) -> int | None:
        """Say how long ago a request came, if that is known; asked only when it may have to be shed."""

    @property
    def start(self) -> Callable[[Requested], None]:
        """Serves a request."""

    def failed(self, request: Requested) -> None:
        """Answer a request while the exception is handled that serving it has raised: it concerns no other."""

    def shed(self, request: Requested) -> None:
        """Refuse a request, since too many others wait."""


class Held(Protocol):
    """A connection that holds requests back until the one under way is answered, or bytes that it has not read yet."""

    def go_on(self) -> None:
        """Go on with them."""

    def abort(self) -> None:
        """Cut the connection now."""


class Gate:
    """Hands requests of all protocols to their services, in the order in which they came.

    Args:
        now_ms: The monotonic clock; never 0.

    Attributes:
        overloaded: True from when `overload` requests wait until few do.
    """

    __slots__ = (
        "_awake",
        "_bytes",
        "_counts_unread",
        "_held_off",
        "_holds",
        "_looked_ms",
        "_now_ms",
        "_overload_ended_ms",
        "_pipelines",
        "_queue",
        "_since_ms",
        "_turning",
        "_until_ms",
        "overloaded",
    )

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.overloaded = False
        self._now_ms = now_ms
        # A request, its service and since when it waits; or a connection, None and the same.
        self._queue: deque[tuple[Any, Service[Any] | None, int]] = deque()
        self._bytes = 0  # of the requests in the queue
        self._pipelines: set[Held] = set()
        self._held_off: dict[Held, asyncio.TimerHandle] = {}
        self._holds = 0  # so far
        self._turning = False  # the end of this turn, or the work on the queue, is scheduled
        self._overload_ended_ms = -after_overload_ms
        self._until_ms = 0  # when this turn's time is used up; 0: there is none for newcomers
        self._awake = False  # the loop has not been polled since the last turn
        self._counts_unread = False  # there is an overload, or has been one lately
        self._looked_ms = 0  # when the loop began to read what it has read last
        self._since_ms = 0  # since when what is read now may have waited unread

    def hand(self, request: Requested, service: Service[Requested]) -> None:
        """Hand over a request that has just been read, now or when those before it have had their turn."""
        now_ms = self._now_ms()
        if not (now_ms < self._until_ms or self._begins(now_ms)):
            self._wait(request, service, self._since_ms)
        elif self._counts_unread and now_ms - self._since_ms > max_wait_ms:
            self._start_or_shed(request, service)
        else:
            try:  # as `_start` does: this is the path of every request, and a call less
                service.start(request)
            except Exception:
                service.failed(request)

    def hand_held(self, request: Requested, service: Service[Requested], since_ms: int) -> None:
        """Hand over a request that its connection has held back.

        Args:
            request: The request.
            service: What serves it.
            since_ms: Since when, by the monotonic clock.
        """
        now_ms = self._now_ms()
        if now_ms < self._until_ms or self._begins(now_ms):
            self._hand_aged(request, service, since_ms, now_ms)
        else:
            self._wait(request, service, since_ms)

    def is_full(self) -> bool:
        """Say whether so many wait that what has been read now had better stay with its connection."""
        return len(self._queue) >= full and self._now_ms() >= self._until_ms

    def read_until(self, requests: bool) -> int:
        """Give until when a long read of one connection may go on before others have their turn; see `is_past`.

        Args:
            requests: Whether it has brought requests already. Their time is bounded here, and those that must wait are queued
                soon; anything else is work for the connection itself, and shares the time of this turn with the requests.
        """
        now_ms = self._now_ms()
        begun = now_ms < self._until_ms or self._begins(now_ms)
        if requests:
            return max(now_ms, self._until_ms) + read_ms
        return min(now_ms + read_ms, self._until_ms) if begun else now_ms

    def is_past(self, until_ms: int) -> bool:
        """Whether a time that `read_until` gave has come."""
        return self._now_ms() >= until_ms

    def queue_up(self, connection: Held) -> None:
        """Let a connection go on with what it holds, after those that wait already."""
        self._queue.append((connection, None, self._since_ms))
        if not self._turning:
            self._look(self._now_ms())
            asyncio.get_running_loop().call_soon(self._work)

    def waits(self, connection: Held) -> None:
        """Count a connection with requests behind the one under way."""
        self._pipelines.add(connection)
        if len(self._pipelines) >= overload:
            self.overloaded = self._counts_unread = True

    def waits_no_more(self, connection: Held) -> None:
        """Count it no more."""
        self._pipelines.discard(connection)
        self._end_overload()

    def hold_off(self, connection: Held) -> None:
        """Let a connection that is not read go on when there is time to spare, or later, whatever comes first."""
        self._holds += 1
        wait_ms = hold_off_ms * (1 + (self._holds * _golden) % 1)
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._come_back, connection)
        self._held_off[connection] = timer

    def holds_off(self, connection: Held) -> bool:
        """Whether a connection has to wait before it may be read again."""
        return connection in self._held_off

    def holds_off_no_more(self, connection: Held) -> None:
        """Forget a connection that has ended."""
        timer = self._held_off.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Forget the requests that wait: nobody is there any more to read their answers."""
        self._queue.clear()
        self._bytes = 0

    # ---- turns

    def _begins(self, now_ms: int) -> bool:
        """Begin this turn's time, unless it is used up."""
        if self._turning:
            return False
        self._look(now_ms)
        self._until_ms = now_ms + turn_ms
        asyncio.get_running_loop().call_soon(self._turn_over)
        return True

    def _look(self, now_ms: int) -> None:
        self._turning = True
        # If the loop has not slept, what is read now can have come as soon as the turn before had begun to read.
        self._since_ms = self._looked_ms if self._awake else now_ms
        self._looked_ms = now_ms
        self._counts_unread = self.overloaded or now_ms - self._overload_ended_ms < after_overload_ms

    def _turn_over(self) -> None:
        self._until_ms = 0
        self._turning = bool(self._queue)
        if self._turning:
            # Not at once: first the answers to what was handed over may leave.
            self._since_ms, self._looked_ms = self._looked_ms, self._now_ms()
            asyncio.get_running_loop().call_soon(self._work)
            return
        for connection in list(islice(self._held_off, back_at_once)):
            self._come_back(connection)
        if self._counts_unread:
            self._awake = True
            asyncio.get_running_loop().call_soon(self._rest)

    def _rest(self) -> None:
        # The loop has been polled since the last turn; whether it has slept cannot be known.
        self._awake = False

    def _work(self) -> None:
        """Hand over what waits, for one turn's time; a connection that queues up again has its turn after the loop's next look."""
        queue = self._queue
        now_ms = self._now_ms()
        self._until_ms = until_ms = now_ms + turn_ms
        for _ in range(len(queue)):
            if now_ms >= until_ms or not queue:
                break
            first, service, since_ms = queue.popleft()
            if service is None:
                self._since_ms = since_ms
                self._let_go_on(first)
            else:
                self._bytes -= service.size_of(first)
                self._hand_aged(first, service, since_ms, now_ms)
            self._end_overload()
            now_ms = self._now_ms()
        self._since_ms, self._looked_ms = self._looked_ms, now_ms
        if queue:
            self._until_ms = 0
        asyncio.get_running_loop().call_soon(self._work if queue else self._turn_over)

    def _come_back(self, connection: Held) -> None:
        self.holds_off_no_more(connection)
        self._let_go_on(connection)

    def _let_go_on(self, connection: Held) -> None:
        # What one connection meets with must not keep the others waiting for ever.
        try:
            connection.go_on()
        except Exception:
            log.exception("unhandled error in a connection that has waited")
            connection.abort()

    # ---- requests

    def _wait(self, request: Requested, service: Service[Requested], since_ms: int) -> None:
        size = service.size_of(request)
        if len(self._queue) >= max_queued or self._bytes + size > max_queued_bytes:
            if service.kind_of(request) is Kind.settling:
                self._start(request, service)
            else:
                service.shed(request)
            return
        self._queue.append((request, service, since_ms))
        self._bytes += size
        if len(self._queue) >= overload:
            self.overloaded = self._counts_unread = True

    def _hand_aged(self, request: Requested, service: Service[Requested], since_ms: int, now_ms: int) -> None:
        # What began to wait during an overload is shed after that time, though the overload has ended since.
        if now_ms - since_ms > max_wait_ms and (self.overloaded or since_ms <= self._overload_ended_ms):
            self._start_or_shed(request, service)
        else:
            self._start(request, service)

    def _start_or_shed(self, request: Requested, service: Service[Requested]) -> None:
        """Serve a request that may have waited too long, unless it has and brings new work."""
        if service.kind_of(request) is Kind.new_work:
            waited_ms = service.came_ms_ago(request)
            if waited_ms is None or waited_ms > max_wait_ms:
                service.shed(request)
                return
        self._start(request, service)

    def _start(self, request: Requested, service: Service[Requested]) -> None:
        try:
            service.start(request)
        except Exception:
            service.failed(request)

    def _end_overload(self) -> None:
        if self.overloaded and len(self._queue) <= overload // 8 and len(self._pipelines) <= overload // 8:
            self.overloaded = False
            self._overload_ended_ms = self._now_ms()


class Admission:
    """The way of HTTP requests, from both wires, through the gate to one application.

    Args:
        app: Answers requests.
        gate: What all applications share.

    Attributes:
        gate: As given.
        judge: The application's verdict about a head. Wires ask it as soon as a head is complete.
        start: The application itself.
        kind_of: What it says that a request is for.
    """

    __slots__ = ("_app", "gate", "judge", "kind_of", "start")

    def __init__(self, app: App, gate: Gate) -> None:
        self.gate = gate
        self.start: Callable[[Request], None] = app
        self.judge: Judge = app.judge
        self.kind_of: Callable[[Request], Kind] = app.kind_of
        self._app = app

    def hand(self, request: Request) -> None:
        """Hand over a complete request that has just been read and was not refused."""
        self.gate.hand(request, self)

    def size_of(self, request: Request) -> int:
        return len(request.body)

    def came_ms_ago(self, request: Request) -> int | None:
        return request.came_ms_ago()

    def shed(self, request: Request) -> None:
        """Have the application refuse a request, and hold its connection off."""
        self._app.shed(request)
        request.hold_off()

    def failed(self, request: Request) -> None:
        log.exception("unhandled error in the answer to a request")
        refused = refusal(500, "internal server error")
        request.reply(refused.status, refused.body, refused.content_type, refused.extra)
