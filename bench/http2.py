"""The loader's HTTP/2 by prior knowledge: prebuilt frames out, END_STREAM flags counted."""

import asyncio
from collections.abc import Callable
from time import perf_counter_ns

from hpack import Decoder

from bench.http1 import HOST

_DATA, _HEADERS, _RST, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_GRANT = (1 << 31) - 1 - 65_535


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Build one frame (RFC 9113, section 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _literal(index: bytes, value: str) -> bytes:
    """A header whose name stands in the static table and whose value is not to be indexed (RFC 7541, 6.2.2)."""
    return index + bytes((len(value),)) + value.encode()


def post_block(path: str, length: int) -> bytes:
    """Build the header block of a POST of JSON from the static table alone, so that it fits every stream."""
    return (
        b"\x83\x86"  # :method POST, :scheme http
        + _literal(b"\x04", path)
        + _literal(b"\x01", HOST)
        + _literal(b"\x0f\x10", "application/json")  # content-type: 31 = 15 + 16
        + _literal(b"\x0f\x0d", str(length))  # content-length: 28 = 15 + 13
    )


class Multiplexer(asyncio.Protocol):
    """One connection that keeps `streams` requests under way, all with the same bytes.

    Args:
        streams: Requests at once.
        body: The body of each.
        more: Asked before each request; false ends them.
        answered: Called with the status and the latency in nanoseconds of each answer.
        lost: Called with the reason if the connection or a stream ends under us.
    """

    def __init__(
        self,
        streams: int,
        body: bytes,
        more: Callable[[], bool],
        answered: Callable[[int, int], None],
        lost: Callable[[str], None],
    ) -> None:
        self._streams = streams
        self._block = post_block("/jobs", len(body))
        self._body = body
        self._more = more
        self._answered = answered
        self._lost = lost
        self._held = b""
        self._next = 1
        self._window = 65_535
        self._received = 0
        self._out: list[bytes] = []
        self._waiting = 0
        self._started: dict[int, int] = {}
        self._status: dict[int, int] = {}
        self._known: dict[bytes, int] = {}
        self._decoder = Decoder()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        # No dynamic table: a block then means the same wherever it stands, and its status can be remembered.
        table, window = b"\x00\x01" + bytes(4), b"\x00\x04" + (1 << 24).to_bytes(4, "big")
        grant = frame(_WINDOW, 0, 0, _GRANT.to_bytes(4, "big"))
        self.transport.write(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(_SETTINGS, 0, 0, table + window) + grant
        )

    def start(self) -> None:
        """Send the first requests."""
        self._waiting = self._streams
        self._send()

    def _send(self) -> None:
        while self._waiting and self._window >= len(self._body) and self._more():
            stream, self._next = self._next, self._next + 2
            self._window -= len(self._body)
            self._waiting -= 1
            self._started[stream] = perf_counter_ns()
            self._out.append(frame(_HEADERS, _END_HEADERS, stream, self._block))
            self._out.append(frame(_DATA, _END_STREAM, stream, self._body))
        if self._out:
            self.transport.write(b"".join(self._out))
            self._out.clear()

    def data_received(self, data: bytes) -> None:
        if self._held:
            data = self._held + data
        at, size = 0, len(data)
        while size - at >= 9:
            end = at + 9 + int.from_bytes(data[at : at + 3], "big")
            if end > size:
                break
            stream = int.from_bytes(data[at + 5 : at + 9], "big")
            self._frame(data[at + 3], data[at + 4], stream, data[at + 9 : end])
            at = end
        self._held = data[at:]
        self._send()

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _HEADERS:
            status = self._known.get(payload)
            self._status[stream] = self._read_status(payload) if status is None else status
        elif kind == _DATA:
            self._received += len(payload)
            if self._received > 1 << 30:
                self._out.append(frame(_WINDOW, 0, 0, self._received.to_bytes(4, "big")))
                self._received = 0
        elif kind == _WINDOW and stream == 0:
            self._window += int.from_bytes(payload, "big")
        elif kind in (_SETTINGS, _PING) and not flags & _ACK:
            self._out.append(frame(kind, _ACK, 0, payload if kind == _PING else b""))
        elif kind in (_RST, _GOAWAY):
            self._lost(f"HTTP/2 frame {kind} on stream {stream}: {payload!r}")
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            self._waiting += 1
            self._answered(self._status.pop(stream), perf_counter_ns() - self._started.pop(stream))

    def _read_status(self, block: bytes) -> int:
        status = int(dict(self._decoder.decode(block, raw=True))[b":status"])
        self._known[block] = status
        return status

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(f"the server closed a connection: {exc}")
