"""The one seam of the HTTP edge: a request comes in, a reply or a stream goes out, no socket in sight.

Both wires (HTTP/1.1 and HTTP/2) ask the application about each request as soon as its head is there. One that it does not
refuse becomes a `Request` when the whole message has arrived, and goes to the application, which answers exactly once, now or
later, by `Request.reply` or `Request.open_stream`. Everything runs in the event loop's own thread.
"""

from __future__ import annotations

import enum
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from anew.errors import (
    InternalError,
    MalformedRequest,
    NotFound,
    NotSupported,
    Overloaded,
    TooLarge,
    Unauthorized,
)

type_json = b"application/json"

bodiless = frozenset((204, 304))
"""Statuses whose answers have no body."""

long_answer = 64 << 10
"""Bytes of an answer above which it is refused while peers leave too much unread; shorter ones always go through."""

Headers = tuple[tuple[bytes, bytes], ...]


class Stream(ABC):
    """An endless reply body, with back-pressure.

    Attributes:
        writable: False while the peer is behind: more is buffered than the wire's high-water mark. Nothing more should
            be written then; `on_drain` is called when it turns true again.
        on_drain: Called when the peer has caught up.
        on_close: Called once when the stream has ended for any reason but our own `close`: peer gone, stream reset,
            write failed, cut off for not reading, server shutting down.
    """

    __slots__ = ("on_close", "on_drain", "writable")

    def __init__(self) -> None:
        self.writable = True
        self.on_drain: Callable[[], None] | None = None
        self.on_close: Callable[[], None] | None = None

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send one piece. Never blocks; after the end it does nothing."""

    @abstractmethod
    def close(self) -> None:
        """End the body cleanly (last chunk, END_STREAM). `on_close` is not called."""

    @abstractmethod
    def abort(self) -> None:
        """Cut the peer off at once without a clean end; unsent bytes are dropped. `on_close` is not called."""


class WebSocket(ABC):
    """Text messages both ways, on the connection of a request.

    Attributes:
        writable: False while the peer is behind, as of a `Stream`; after the end too.
        on_message: Called with each text message. Messages of other kinds are dropped.
        on_drain: Called when the peer has caught up.
        on_close: Called once when the connection has ended for any reason but our own `close`.
    """

    __slots__ = ("on_close", "on_drain", "on_message", "writable")

    def __init__(self) -> None:
        self.writable = True
        self.on_message: Callable[[bytes], None] | None = None
        self.on_drain: Callable[[], None] | None = None
        self.on_close: Callable[[], None] | None = None

    @abstractmethod
    def send(self, messages: Sequence[bytes]) -> None:
        """Send text messages, each UTF-8. Never blocks; after the end it does nothing."""

    @abstractmethod
    def hold(self) -> None:
        """Deliver no message until `go_on`."""

    @abstractmethod
    def go_on(self) -> None:
        """Deliver messages again."""

    @abstractmethod
    def close(self) -> None:
        """End the connection: the peer is told so. `on_close` is not called."""


class Request(ABC):
    """One request, complete with its body.

    Attributes:
        method: As sent, upper case by convention (``b"GET"``).
        path: Raw path, still percent-encoded, without the query (``b"/jobs/take"``).
        query: Raw query without the question mark; ``b""`` both for "/jobs" and "/jobs?".
        headers: Lower-case names to values; of a repeated header the first line counts. HTTP/2's ``:authority`` is
            found under ``b"host"``. The wire has made sure that there is exactly one host; only HTTP/1.0 may come without.
        body: The whole body, ``b""`` if there is none.
    """

    __slots__ = ("body", "headers", "method", "path", "query")

    method: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes

    @property
    @abstractmethod
    def gone(self) -> bool:
        """Whether nobody waits for the answer any more: the peer is gone, or it has been given."""

    @property
    def hung_up(self) -> bool:
        """Whether nobody waits, or the peer has closed its half of the connection: whoever has left cannot be told from that.

        What takes long ends then.
        """
        return self.gone

    @abstractmethod
    def reply(
        self, status: int, body: bytes = b"", content_type: bytes | None = type_json, extra: Headers = ()
    ) -> None:
        """Answer once. Does nothing if the peer is gone.

        Args:
            status: HTTP status. 204 and 304 carry neither body nor content type.
            body: The whole body.
            content_type: None for a body-less answer without that header.
            extra: Further headers, lower-case names.
        """

    def came_ms_ago(self) -> int | None:
        """Say how long ago it came, if that is known; else None. What came before it was read counts too."""
        return None

    def hold_off(self) -> None:  # noqa: B027 - HTTP/2 reads on: other requests share its connection
        """Read nothing more of its connection for a while, now that it is answered; only where it has sent nothing else."""

    @abstractmethod
    def open_stream(self, status: int, content_type: bytes, extra: Headers = ()) -> Stream | None:
        """Send the head at once and give the body as a stream.

        Returns:
            The stream, or None if the answer ends with its head (HEAD) or the peer is already gone.
        """

    def open_websocket(self, max_message: int) -> WebSocket | None:
        """Go on with WebSocket on this connection (RFC 6455).

        What is no handshake, or does not come by HTTP/1.1, is answered here.

        Args:
            max_message: Bytes of a message of the peer; it is cut off for a longer one.

        Returns:
            The connection, or None.
        """
        refused = refusal(
            400, "this needs a WebSocket handshake, by HTTP/1.1: Connection: Upgrade, Upgrade: websocket"
        )
        self.reply(refused.status, refused.body, refused.content_type, refused.extra)
        return None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is decided by a request's head; its body is neither invited nor kept.

    Attributes:
        status: HTTP status.
        body: The answer's body; empty for an answer without one.
        content_type: What the body is; None for none.
        extra: Further headers, lower-case names.
        reason: Short fixed word under which it is counted; "" for what is not counted as refused.
    """

    status: int
    body: bytes = b""
    content_type: bytes | None = type_json
    extra: Headers = ()
    reason: str = ""


codes = {kind.status: kind.code for kind in (MalformedRequest, NotFound, TooLarge, InternalError)} | {
    401: Unauthorized.code,
    403: "forbidden",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "too_slow",
    414: TooLarge.code,
    415: "unsupported_media_type",
    417: NotSupported.code,
    431: TooLarge.code,
    501: NotSupported.code,
    503: Overloaded.code,
    505: NotSupported.code,
}
"""The stable codes of what is refused by its status, without an error of `anew.errors`."""


def refusal(status: int, message: str, reason: str = "") -> Refusal:
    """Build an answer that a wire gives in the application's place.

    Args:
        status: HTTP status.
        message: What was expected; nothing from the peer.
        reason: As `Refusal.reason`.
    """
    body = json.dumps({"error": message, "code": codes[status]}, separators=(",", ":")).encode()
    extra = ((b"retry-after", b"1"),) if status == 503 else ()
    return Refusal(status, body, extra=extra, reason=reason)


_unread = "too many long answers wait for their readers; try again in a second"

too_much_unread = refusal(503, _unread, Overloaded.code)


class Kind(enum.Enum):
    """What a request is for, which decides whether it may be shed."""

    new_work = enum.auto()
    """Brings new work: shed when it has waited too long during an overload, or when very many wait."""
    other = enum.auto()
    """Looks at things or changes them: shed when very many wait."""
    settling = enum.auto()
    """Brings work to its end, or asks whether the server lives: never shed."""


class App(Protocol):
    """What answers requests."""

    def judge(self, method: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Refusal | None:
        """Decide about a request when its head is there, before a byte of its body is invited or kept.

        Args:
            method: As `Request.method`.
            path: As `Request.path`.
            headers: As `Request.headers`; the same mapping may be shared by many requests.

        Returns:
            The answer if the request is refused, else None: then it comes whole, or never.
        """

    def __call__(self, request: Request) -> None:
        """Answer a request that was not refused; `judge` is not asked again."""

    def kind_of(self, request: Request) -> Kind:
        """Say what a request is for, when it has waited so long that it may have to be shed."""

    def shed(self, request: Request) -> None:
        """Answer a request that is not served, since too many others wait."""


Judge = Callable[[bytes, bytes, Mapping[bytes, bytes]], Refusal | None]
"""What `App.judge` is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLimits:
    """What a peer may ask of a wire. Bytes, counts and milliseconds.

    Attributes:
        idle_timeout_ms: A connection on which nothing has been asked for this long is closed, open streams aside.
        max_body: Bytes of a request body; above it 413 before the bytes are read.
        max_unfinished: Bytes of the bodies that are coming in, over all connections; above it 503 for who brings more.
        max_target: Bytes of the request target; above it 414.
        max_head: Bytes of all header lines together; above it 431.
        max_headers: Header lines; above it 431.
        header_timeout_ms: From a request's first byte to the end of its head.
        body_rate: Bytes per second that a body must come in at, over its last seconds, after a grace of `header_timeout_ms`.
        max_connections: Open connections; above it 503 and close.
        max_concurrent_streams: HTTP/2 streams of one connection.
        write_buffer: High-water mark of unsent bytes of one connection; a stream above it is not `writable`.
        stall_timeout_ms: A peer that has bytes waiting and reads none for this long is cut off.
    """

    max_body: int = 64 << 20
    max_unfinished: int = 1 << 30
    max_target: int = 64 << 10
    max_head: int = 16 << 10
    max_headers: int = 100
    header_timeout_ms: int = 10_000
    idle_timeout_ms: int = 600_000
    body_rate: int = 1024
    max_connections: int = 10_000
    max_concurrent_streams: int = 200
    write_buffer: int = 1 << 20
    stall_timeout_ms: int = 30_000


class WireCounters:
    """What the wires count: plain integers, added to in the loop's thread.

    Attributes:
        connections: Open now.
        requests: That arrived whole.
        refused: By reason.
        unfinished: Bytes held of bodies that are coming in.
        unsent: Bytes held of answers, streams aside, that peers have not taken yet.
        max_unsent: Of them, above which no request gets a long answer.
    """

    __slots__ = ("connections", "max_unsent", "refused", "requests", "unfinished", "unsent")

    def __init__(self) -> None:
        self.max_unsent = 256 << 20
        self.connections = 0
        self.requests = 0
        self.unfinished = 0
        self.unsent = 0
        self.refused: dict[str, int] = {}

    def refuse(self, reason: str) -> None:
        """Count one refusal under a short, fixed reason (never text from the peer)."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def refuses(self, method: bytes, size: int) -> bool:
        """Say whether an answer of so many bytes is too long for now: `too_much_unread` takes its place.

        What has changed something is answered all the same; see `check_unread`.
        """
        return size > long_answer and self.unsent > self.max_unsent and method == b"GET"

    def check_unread(self) -> None:
        """Make sure that a long answer may be given, before something is changed that has one.

        Raises:
            Overloaded: Peers have left too much unread.
        """
        if self.unsent > self.max_unsent:
            raise Overloaded(_unread)
