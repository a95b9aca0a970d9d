"""An HTTP/2 connection by prior knowledge: the ``h2`` state machine over a socket, with deadlines."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.events

from .wire import TIMEOUT_S, Address, Headers, Response, WireError


@dataclass(slots=True)
class _Exchange:
    """What has come on one stream so far."""

    headers: tuple[tuple[str, str], ...] | None = None
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False


class H2Wire:
    """One connection; requests may be sent before earlier answers are read."""

    def __init__(
        self, address: Address, *, timeout_s: float = TIMEOUT_S, tls: ssl.SSLContext | None = None
    ) -> None:
        self.timeout_s = timeout_s
        self._socket = socket.create_connection(address, timeout=timeout_s)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])
        self._state = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self._exchanges: dict[int, _Exchange] = {}
        self._state.initiate_connection()
        self._flush()

    def __enter__(self) -> H2Wire:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def start(
        self,
        method: str,
        path: str,
        *,
        headers: Headers = (),
        body: bytes | None = None,
        authority: str = "localhost",
        end: bool = True,
    ) -> int:
        """Send a request, or with ``end=False`` all but its end, and return its stream."""
        stream = self._state.get_next_available_stream_id()
        lines = [
            (":method", method),
            (":scheme", "http"),
            (":authority", authority),
            (":path", path),
            *headers,
        ]
        self._state.send_headers(stream, lines, end_stream=end and body is None)
        if body is not None:
            self._state.send_data(stream, body, end_stream=end)
        self._exchanges[stream] = _Exchange()
        self._flush()
        return stream

    def request(self, method: str, path: str, **options: Any) -> Response:
        """Send a request and wait for its whole response."""
        return self.finish(self.start(method, path, **options))

    def finish(self, stream: int) -> Response:
        """The whole response of a stream."""
        exchange = self._exchanges[stream]
        self._pump(lambda: exchange.ended)
        response = self.head(stream)
        return Response(response.version, response.status, response.headers, bytes(exchange.body))

    def head(self, stream: int) -> Response:
        """Status and headers of a stream, as soon as they are there."""
        exchange = self._exchanges[stream]
        self._pump(lambda: exchange.headers is not None)
        assert exchange.headers is not None
        status = dict(exchange.headers)[":status"]
        return Response("HTTP/2", int(status), tuple(pair for pair in exchange.headers if pair[0][0] != ":"))

    def read_line(self, stream: int) -> bytes:
        """The next line of a stream's body, without its end."""
        body = self._exchanges[stream].body
        self._pump(lambda: b"\n" in body)
        end = body.index(b"\n")
        line = bytes(body[:end])
        del body[: end + 1]
        return line

    def reset(self, stream: int) -> None:
        """Cancel a stream."""
        self._state.reset_stream(stream, error_code=8)
        self._flush()

    def _pump(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.timeout_s
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the server sent nothing in time")
            self._socket.settimeout(left)
            data = self._socket.recv(1 << 16)
            if not data:
                raise WireError("the server closed the connection")
            for event in self._state.receive_data(data):
                self._note(event)
            self._flush()

    def _note(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self._exchanges[event.stream_id].headers = tuple(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            self._exchanges[event.stream_id].body += event.data
            self._state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self._exchanges[event.stream_id].ended = True
        elif isinstance(event, h2.events.StreamReset):
            raise WireError(f"the server reset stream {event.stream_id} with code {event.error_code}")
        elif isinstance(event, h2.events.ConnectionTerminated):
            raise WireError(f"the server ended the connection with code {event.error_code}")

    def _flush(self) -> None:
        if data := self._state.data_to_send():
            self._socket.sendall(data)
