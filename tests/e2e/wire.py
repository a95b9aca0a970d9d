"""A raw HTTP/1.1 connection: bytes out, parsed responses in, a deadline on every read.

The tests own their client so that a fault of the server cannot be hidden by a library that repairs it,
retries it or waits for it: malformed bytes raise ``WireError``, what does not come in time ``TimeoutError``.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

TIMEOUT_S = 15.0
"""How long any single read may take before the test fails instead of hanging."""

Address = tuple[str, int]
Headers = Iterable[tuple[str, str]]


class WireError(AssertionError):
    """The server's bytes are not HTTP/1.1, or ended too early."""


@dataclass(frozen=True, slots=True)
class Response:
    """One parsed response; header names are lower case, the body is de-chunked."""

    version: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """The value of a header that may occur at most once."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, f"header {name} occurs {len(values)} times"
        return values[0] if values else None

    @property
    def content_type(self) -> str | None:
        """The ``Content-Type`` header."""
        return self.header("content-type")

    @property
    def data(self) -> Any:
        """The body, decoded as its content type says."""
        kind = self.content_type or ""
        if "msgpack" in kind:
            return msgspec.msgpack.decode(self.body)
        assert kind.startswith("application/json"), f"content type {kind!r}, body {self.body[:200]!r}"
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The text of an error body; every one is a map with the string ``error``."""
        text = self.data["error"]
        assert isinstance(text, str)
        assert text
        return text


class Wire:
    """One TCP connection to the server.

    Args:
        address: Host and port.
        timeout_s: Seconds that each read or write may take in all.
        tls: What it is encrypted with; None: with nothing.
    """

    def __init__(
        self, address: Address, *, timeout_s: float = TIMEOUT_S, tls: ssl.SSLContext | None = None
    ) -> None:
        self.timeout_s = timeout_s
        self._buffer = bytearray()
        self._socket = socket.create_connection(address, timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=address[0])

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor, for ``select``."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Send everything, within the deadline."""
        self._socket.settimeout(self.timeout_s)
        self._socket.sendall(data)

    def send_until_refused(self, pieces: Iterable[bytes]) -> None:
        """Send piece by piece and stop as soon as the server answers or hangs up."""
        for piece in pieces:
            if self._has_input():
                return
            try:
                self.send(piece)
            except (BrokenPipeError, ConnectionResetError):
                return

    def half_close(self) -> None:
        """Say that no more bytes will come, and go on reading; nothing is left to say to a peer that hung up."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Vanish: close with a TCP reset instead of an orderly end."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        """Close in the orderly way."""
        self._socket.close()

    @property
    def buffered(self) -> bool:
        """Whether bytes were read from the socket that nobody has asked for yet."""
        return bool(self._buffer)

    def receive(self, deadline: float) -> bytes:
        """The next bytes of the server; empty at its end. Raises ``TimeoutError`` at the deadline."""
        if self._buffer:
            data = bytes(self._buffer)
            self._buffer.clear()
            return data
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the server sent nothing in time")
        self._socket.settimeout(left)
        try:
            return self._socket.recv(1 << 18)
        except ConnectionResetError:
            return b""

    def wait_for_input(self) -> bool:
        """Wait until there is something to read; False at the server's end of the connection."""
        data = self.receive(time.monotonic() + self.timeout_s)
        self._buffer += data
        return bool(data)

    def read_eof(self) -> bytes:
        """Everything up to the server's end of the connection."""
        deadline = time.monotonic() + self.timeout_s
        parts = []
        while data := self.receive(deadline):
            parts.append(data)
        return b"".join(parts)

    def read_response(self, *, head: bool = False) -> Response:
        """The next response, interim ones (1xx) included.

        Args:
            head: The request was HEAD, so no body follows whatever the headers say.
        """
        response = self.read_head()
        if head or response.status in (204, 304) or response.status < 200:
            return response
        return Response(response.version, response.status, response.headers, self._read_body(response))

    def read_head(self) -> Response:
        """The next status line and headers; the body stays unread."""
        lines = self.read_until(b"\r\n\r\n").decode("latin-1").split("\r\n")[:-2]
        version, _, rest = lines[0].partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise WireError(f"not a status line: {lines[0]!r}")
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise WireError(f"not a header: {line!r}")
            headers.append((name.lower(), value.strip()))
        return Response(version, int(rest[:3]), tuple(headers))

    def _read_body(self, response: Response) -> bytes:
        if response.header("transfer-encoding") == "chunked":
            return self._read_chunks()
        length = response.header("content-length")
        if length is None:
            return self.read_eof()
        return self.read_exactly(int(length))

    def _read_chunks(self) -> bytes:
        body = bytearray()
        while size := int(self.read_until(b"\r\n"), 16):
            body += self.read_exactly(size + 2)[:-2]
        self.read_until(b"\r\n")
        return bytes(body)

    def read_until(self, mark: bytes) -> bytes:
        """Bytes up to and with a mark."""
        deadline = time.monotonic() + self.timeout_s
        seen = bytearray()
        while (at := seen.find(mark)) < 0:
            data = self.receive(deadline)
            if not data:
                raise WireError(f"connection ended while {mark!r} was awaited, after {bytes(seen[:200])!r}")
            seen += data
        self._buffer += seen[at + len(mark) :]
        return bytes(seen[: at + len(mark)])

    def read_exactly(self, size: int) -> bytes:
        """A known number of bytes."""
        deadline = time.monotonic() + self.timeout_s
        seen = bytearray()
        while len(seen) < size:
            data = self.receive(deadline)
            if not data:
                raise WireError(f"connection ended after {len(seen)} of {size} bytes")
            seen += data
        self._buffer += seen[size:]
        return bytes(seen[:size])

    def _has_input(self) -> bool:
        self._socket.settimeout(0)
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        self._buffer += data
        return True


def request_bytes(
    method: str, target: str, *, headers: Headers = (), body: bytes | None = None, version: str = "HTTP/1.1"
) -> bytes:
    """A request as it goes over the wire; ``Host`` and ``Content-Length`` are added unless given."""
    lines = [f"{method} {target} {version}"]
    names = {name.lower() for name, _ in headers}
    if "host" not in names:
        lines.append("host: localhost")
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")
