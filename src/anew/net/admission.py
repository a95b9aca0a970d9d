"""The gate between connections and applications: admits requests in order, sheds new work under overload.

A turn of the event loop reads what all clients have sent before any answer leaves. With very many clients such a turn is long, and
what arrives meanwhile waits in the kernel, where its age is unknown. So a turn hands requests over for at most `turn_ms`; the rest
waits here in a queue, counted and timed. During an overload new work that has waited longer than `max_wait_ms` is shed: a refusal
costs half as much as serving, and the requests behind it are served in time.

Clients that retry at once could still fill the server with refusals. So a connection whose request was shed is held off: it is not
read until a turn has time to spare, or for `hold_off_ms` to twice that. The times are spread, so that clients that were refused
together do not return together.

The gate knows the size and the kind of a request, and no protocol. `Admission` connects it to one HTTP application.
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
"""How long one turn of the loop hands requests over and reads connections."""

read_ms = 5
"""How long one connection is read before the others have their turn."""

max_wait_ms = 60
"""How long new work may wait during an overload; then it is shed. At most the rest of its turn follows, so its answer leaves
well within the promised 250 ms."""

overload = 64
"""An overload is this many waiting requests, or this many connections with pipelined requests. Fewer can come from a few clients
that pipeline."""

after_overload_ms = 1_000
"""How long after an overload a request's age includes the time for which its bytes may have waited unread. At other times it does
not: a disk that stalls once is no overload, and the requests that waited for it are served."""

full = 1024
"""From this many waiting requests on, an HTTP/2 connection keeps what it has read. Each may bring 200 requests, and refusing those
of a hundred connections in one turn would delay all answers."""

max_queued = 4096
"""Requests that may wait. Serving so many takes longer than `max_wait_ms`, so one more is shed at once."""

hold_off_ms = 100
"""A connection is held off for 100 to 200 ms, or until a turn has time to spare. What it sends meanwhile is still answered within
the promised 250 ms."""

back_at_once = 16
"""Connections that are read again after a turn with time to spare."""

_golden = (5**0.5 - 1) / 2
"""The fractional parts of its multiples are spread evenly over 0 to 1, however many there are."""

max_queued_bytes = 64 << 20
"""Bytes of requests that may wait; a request above it is shed at once."""


Requested = TypeVar("Requested", contravariant=True)
"""A request as its protocol has it."""


class Service(Protocol[Requested]):
    """What serves the requests of one protocol."""

    def size_of(self, request: Requested) -> int:
        """Give the bytes that a request holds while it waits."""

    def kind_of(self, request: Requested) -> Kind:
        """Give what a request is for; called only when it may have to be shed."""

    def came_ms_ago(self, request: Requested) -> int | None:
        """Give the age of a request, None if it is unknown; called only when it may have to be shed."""

    @property
    def start(self) -> Callable[[Requested], None]:
        """Serves a request."""

    def failed(self, request: Requested) -> None:
        """Answer a request whose `start` has raised the exception that is being handled."""

    def shed(self, request: Requested) -> None:
        """Refuse a request: too many others wait."""


class Held(Protocol):
    """A connection with pipelined requests, or with bytes that it has read and not parsed."""

    def go_on(self) -> None:
        """Parse them."""

    def abort(self) -> None:
        """Cut the connection now."""


class Gate:
    """Hands requests of all protocols to their services, in the order in which they came.

    Args:
        now_ms: The monotonic clock; never 0.

    Attributes:
        overloaded: True from the beginning of an overload until an eighth of it is left.
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
        self._turning = False  # `_turn_over` or `_work` is scheduled
        self._overload_ended_ms = -after_overload_ms
        self._until_ms = 0  # until when this turn hands new requests over; 0: it does not
        self._awake = False  # the loop has not been polled since the last turn
        self._counts_unread = False  # there is an overload, or was one in the last `after_overload_ms`
        self._looked_ms = 0  # when the last turn began to read
        self._since_ms = 0  # since when what is read now may have waited unread

    def hand(self, request: Requested, service: Service[Requested]) -> None:
        """Hand over a request that has just been read: now, or after those that wait."""
        now_ms = self._now_ms()
        if not (now_ms < self._until_ms or self._begins(now_ms)):
            self._wait(request, service, self._since_ms)
        elif self._counts_unread and now_ms - self._since_ms > max_wait_ms:
            self._start_or_shed(request, service)
        else:
            try:  # `_start`, inlined: every request takes this path
                service.start(request)
            except Exception:
                service.failed(request)

    def hand_held(self, request: Requested, service: Service[Requested], since_ms: int) -> None:
        """Hand over a pipelined request.

        Args:
            request: The request.
            service: What serves it.
            since_ms: Since when it waits, by the monotonic clock.
        """
        now_ms = self._now_ms()
        if now_ms < self._until_ms or self._begins(now_ms):
            self._hand_aged(request, service, since_ms, now_ms)
        else:
            self._wait(request, service, since_ms)

    def is_full(self) -> bool:
        """Report whether so many wait that a connection should keep what it has read."""
        return len(self._queue) >= full and self._now_ms() >= self._until_ms

    def read_until(self, requests: bool) -> int:
        """Give until when a connection may go on with a long read; see `is_past`.

        Args:
            requests: Whether the read has brought requests. Then it has `read_ms` beyond this turn's time, since requests are
                bounded or queued by the gate itself. Other frames share this turn's time with the requests.
        """
        now_ms = self._now_ms()
        begun = now_ms < self._until_ms or self._begins(now_ms)
        if requests:
            return max(now_ms, self._until_ms) + read_ms
        return min(now_ms + read_ms, self._until_ms) if begun else now_ms

    def is_past(self, until_ms: int) -> bool:
        """Report whether a time that `read_until` gave has come."""
        return self._now_ms() >= until_ms

    def queue_up(self, connection: Held) -> None:
        """Let a connection go on with what it has read, after all that waits already."""
        self._queue.append((connection, None, self._since_ms))
        if not self._turning:
            self._look(self._now_ms())
            asyncio.get_running_loop().call_soon(self._work)

    def waits(self, connection: Held) -> None:
        """Count a connection with pipelined requests."""
        self._pipelines.add(connection)
        if len(self._pipelines) >= overload:
            self.overloaded = self._counts_unread = True

    def waits_no_more(self, connection: Held) -> None:
        """Stop counting it."""
        self._pipelines.discard(connection)
        self._end_overload()

    def hold_off(self, connection: Held) -> None:
        """Call `go_on` of a connection after a turn with time to spare, or when its hold-off is over: whichever comes first."""
        self._holds += 1
        wait_ms = hold_off_ms * (1 + (self._holds * _golden) % 1)
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._come_back, connection)
        self._held_off[connection] = timer

    def holds_off(self, connection: Held) -> bool:
        """Report whether a connection is held off."""
        return connection in self._held_off

    def holds_off_no_more(self, connection: Held) -> None:
        """End the hold-off of a connection."""
        timer = self._held_off.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Drop the requests that wait: their connections are closed."""
        self._queue.clear()
        self._bytes = 0

    # ---- turns

    def _begins(self, now_ms: int) -> bool:
        """Begin this turn's time; False if it has been used up."""
        if self._turning:
            return False
        self._look(now_ms)
        self._until_ms = now_ms + turn_ms
        asyncio.get_running_loop().call_soon(self._turn_over)
        return True

    def _look(self, now_ms: int) -> None:
        self._turning = True
        # If the loop has not slept, what is read now may have arrived just after the turn before began to read.
        self._since_ms = self._looked_ms if self._awake else now_ms
        self._looked_ms = now_ms
        self._counts_unread = self.overloaded or now_ms - self._overload_ended_ms < after_overload_ms

    def _turn_over(self) -> None:
        self._until_ms = 0
        self._turning = bool(self._queue)
        if self._turning:
            # Not at once: the answers to what was handed over leave first.
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
        """Hand over what waits, for one turn's time. A connection that queues up again comes after the loop's next poll."""
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
        # A fault of one connection must not stop the others.
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
        # A request that began to wait during an overload is shed by its age even if the overload has ended since.
        if now_ms - since_ms > max_wait_ms and (self.overloaded or since_ms <= self._overload_ended_ms):
            self._start_or_shed(request, service)
        else:
            self._start(request, service)

    def _start_or_shed(self, request: Requested, service: Service[Requested]) -> None:
        """Shed a request that is new work and too old; else serve it."""
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
    """Connects HTTP connections of either version, through the gate, to one application.

    Args:
        app: Answers requests.
        gate: What all applications share.

    Attributes:
        gate: As given.
        judge: `App.judge`. Wires call it as soon as a head is complete.
        start: The application itself.
        kind_of: `App.kind_of`.
    """

    __slots__ = ("_app", "gate", "judge", "kind_of", "start")

    def __init__(self, app: App, gate: Gate) -> None:
        self.gate = gate
        self.start: Callable[[Request], None] = app
        self.judge: Judge = app.judge
        self.kind_of: Callable[[Request], Kind] = app.kind_of
        self._app = app

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
