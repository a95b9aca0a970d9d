"""A connection without a socket, and two peers for it: the `h2` package's client, and frames written by hand."""

from __future__ import annotations

import asyncio
import functools
import struct
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import h2.config
import h2.connection
import h2.events

from anew.net.admission import Admission, Gate
from anew.net.http2.connection import Http2Connection
from anew.net.http2.heads import AnswerBlocks
from anew.net.seam import App, Kind, Refusal, Request, WireCounters, WireLimits

preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test to its end, or for 30 s, in a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(30):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Build a frame as RFC 9113 section 4.1 draws it."""
    return len(payload).to_bytes(3, "big") + struct.pack(">BBL", kind, flags, stream_id) + payload


class FakeTransport(asyncio.Transport):
    """Keeps what is written; `stuck` bytes of it count as not taken by the peer."""

    def __init__(self, peer: object = ("127.0.0.1", 5)) -> None:
        super().__init__({"peername": peer})
        self.out = bytearray()
        self.writes = 0
        self.stuck = 0
        self.ended = self.closed = self.aborted = False
        self.half_closes = True
        self.reading = True

    def write(self, data: bytes) -> None:
        self.out += data
        self.writes += 1

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def can_write_eof(self) -> bool:
        return self.half_closes

    def write_eof(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.stuck

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class PlainApp:
    """An application that lets everything in and knows no new work.

    Args:
        answer: Called with each request.
    """

    def __init__(self, answer: Callable[[Request], None]) -> None:
        self._answer = answer

    def judge(self, method: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Refusal | None:
        return None

    def __call__(self, request: Request) -> None:
        self._answer(request)

    def kind_of(self, request: Request) -> Kind:
        return Kind.other

    def shed(self, request: Request) -> None:
        request.reply(503, extra=((b"retry-after", b"1"),))


def as_app(app: App | Callable[[Request], None]) -> App:
    """Make an application of a plain function, or of one that lacks a part."""
    whole = PlainApp(app)
    for part in ("judge", "kind_of", "shed"):
        if hasattr(app, part):
            setattr(whole, part, getattr(app, part))
    return whole


def connection(peer: Any) -> Http2Connection:
    """Make a connection of which a peer is the server too."""
    blocks = AnswerBlocks()
    blocks.new_date(b"Tue, 14 Nov 2023 22:13:20 GMT")
    return Http2Connection(peer, peer.admission, blocks)


class Served:
    """One connection without a socket, of which a peer is the server too.

    Attributes:
        requests: What the application got and has not answered.
        now_ms: What the gate reads as the monotonic clock.
    """

    def __init__(self, app: Callable[[Request], None] | None = None, **limits: int) -> None:
        self.requests: list[Request] = []
        self.gone: list[object] = []
        self.counters = WireCounters()
        self.transport = FakeTransport()
        self.now_ms = 1
        self.gate = Gate(lambda: self.now_ms)
        self.admission = Admission(as_app(app or self.requests.append), self.gate)
        self.limits = WireLimits(**limits)
        self.conn = connection(self)
        self.conn.connection_made(self.transport)

    def left(self, wire: object) -> None:
        self.gone.append(wire)


class Peer(Served):
    """The `h2` package as the client of one connection.

    Attributes:
        events: Everything the client has understood so far.
    """

    def __init__(self, app: Callable[[Request], None] | None = None, **limits: int) -> None:
        super().__init__(app, **limits)
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self.client = h2.connection.H2Connection(config)
        self.events: list[Any] = []
        self.client.initiate_connection()

    async def turn(self) -> list[Any]:
        """Carry bytes both ways until nothing moves; give what the client understood meanwhile."""
        fresh: list[Any] = []
        for _ in range(1000):
            sent = self.client.data_to_send()
            if sent:
                self.conn.data_received(sent)
            await asyncio.sleep(0)
            data, self.transport.out = bytes(self.transport.out), bytearray()
            if not sent and not data:
                break
            fresh += self.client.receive_data(data)
        self.events += fresh
        return fresh

    def head(self, path: str, method: str = "GET", **fields: str) -> list[tuple[str, str]]:
        """Give a request's header list."""
        pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost:7890")]
        return pseudo + [(name.replace("_", "-"), value) for name, value in fields.items()]

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **fields: str) -> int:
        """Send a request; give its stream."""
        stream_id = self.client.get_next_available_stream_id()
        self.client.send_headers(stream_id, self.head(path, method, **fields), end_stream=body is None)
        if body is not None:
            self.client.send_data(stream_id, body, end_stream=True)
        return stream_id

    def status(self, stream_id: int) -> int | None:
        """Give the status that came on a stream."""
        fields = self.fields(stream_id)
        return int(fields[b":status"]) if fields else None

    def fields(self, stream_id: int) -> dict[bytes, bytes]:
        """Give the header fields that came on a stream."""
        for event in self.events:
            if isinstance(event, h2.events.ResponseReceived) and event.stream_id == stream_id:
                return dict(event.headers)
        return {}

    def body(self, stream_id: int) -> bytes:
        """Give the bytes that came on a stream."""
        got = [
            e.data for e in self.events if isinstance(e, h2.events.DataReceived) and e.stream_id == stream_id
        ]
        return b"".join(got)

    def ended(self, stream_id: int) -> bool:
        """Tell whether a stream's answer came to its end."""
        return any(isinstance(e, h2.events.StreamEnded) and e.stream_id == stream_id for e in self.events)

    def reset_code(self, stream_id: int) -> int | None:
        """Give the code with which the server reset a stream."""
        for event in self.events:
            if isinstance(event, h2.events.StreamReset) and event.stream_id == stream_id:
                return int(event.error_code)
        return None


class RawPeer(Served):
    """A peer that sends whatever bytes it likes and reads frames back."""

    def __init__(self, app: Callable[[Request], None] | None = None, **limits: int) -> None:
        super().__init__(app, **limits)
        self.conn.data_received(preface + frame(4, 0, 0))

    def send(self, *frames: bytes) -> None:
        self.conn.data_received(b"".join(frames))

    async def frames(self) -> list[tuple[int, int, int, bytes]]:
        """Give (type, flags, stream, payload) of what has come since the last call."""
        await asyncio.sleep(0)
        data, self.transport.out = bytes(self.transport.out), bytearray()
        found = []
        while data:
            size = int.from_bytes(data[:3], "big")
            kind, flags, stream_id = struct.unpack(">BBL", data[3:9])
            found.append((kind, flags, stream_id, data[9 : 9 + size]))
            data = data[9 + size :]
        return found

    async def goaway_code(self) -> int | None:
        """Give the error code of the GOAWAY that came, if one did."""
        for kind, _, _, payload in await self.frames():
            if kind == 7:
                return int.from_bytes(payload[4:8], "big")
        return None

    async def reset_codes(self) -> dict[int, int]:
        """Give stream to error code of each RST_STREAM that came."""
        return {
            sid: int.from_bytes(payload, "big") for kind, _, sid, payload in await self.frames() if kind == 3
        }


# :method GET, :scheme http, :path / from the static table; :authority x as a literal (RFC 7541 appendix A).
get_block = b"\x82\x86\x84\x01\x01x"
post_block = b"\x83\x86\x84\x01\x01x"
