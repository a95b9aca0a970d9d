"""A small HTTP/1.1 client for the rigs: nothing is retried, pooled or hidden.

It shares no code with the server, and it can be told to misbehave: send half a request, never read, pipeline.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from typing import Any, NamedTuple

Address = tuple[str, int]
READ_SIZE = 1 << 18


class Reply(NamedTuple):
    """An answer to one request."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Decode the body."""
        return json.loads(self.body)


class Hangup(ConnectionError):
    """The server closed the connection before an answer was complete."""


def encode(method: str, path: str, body: object = None) -> bytes:
    """Give the bytes of a request; a body that is not None goes out as JSON."""
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    if body is None:
        return f"{head}\r\n".encode()
    data = json.dumps(body, separators=(",", ":")).encode()
    return f"{head}content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


def take_reply(buffer: bytearray) -> Reply | None:
    """Cut one answer off the front of a buffer; None while it is not all there."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    status, headers = parse_head(bytes(buffer[:end]))
    size = end + 4 + int(headers.get("content-length", 0))
    if len(buffer) < size:
        return None
    body = bytes(buffer[end + 4 : size])
    del buffer[:size]
    return Reply(status, headers, body)


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Split a response head into its status and its headers, names in lower case."""
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split(" ", 2)[1]), {name.lower(): value.strip() for name, _, value in pairs}


class StreamLines:
    """Turns the bytes of a take stream into lines: response head first, then chunks, then NDJSON."""

    def __init__(self) -> None:
        self.status = 0
        self.ended = False
        self._raw = bytearray()
        self._text = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take what was read and give the lines that it completes; a heartbeat is an empty line."""
        self._raw += data
        if not self.status and not self._head():
            return []
        self._chunks()
        *lines, rest = self._text.split(b"\n")
        self._text = rest
        return [bytes(line) for line in lines]

    def _head(self) -> bool:
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            return False
        self.status, self.headers = parse_head(bytes(self._raw[:end]))
        del self._raw[: end + 4]
        return True

    def _chunks(self) -> None:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            self._text += self._raw
            self._raw.clear()
            return
        at = 0
        while (line_end := self._raw.find(b"\r\n", at)) >= 0:
            size = int(bytes(self._raw[at:line_end]).partition(b";")[0], 16)
            start = line_end + 2
            if len(self._raw) < start + size + 2:
                break
            self._text += self._raw[start : start + size]
            self.ended = size == 0
            at = start + size + 2
        del self._raw[:at]


class Client:
    """One blocking connection.

    Args:
        address: Where the server listens.
        timeout: Seconds that any single wait may take.
        receive_buffer: Bytes of kernel buffer for a client that will not read; None leaves the default.
    """

    def __init__(self, address: Address, *, timeout: float = 30, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def request(self, method: str, path: str, body: object = None) -> Reply:
        """Send one request and wait for its answer."""
        self.socket.sendall(encode(method, path, body))
        return self.receive()

    def receive(self) -> Reply:
        """Wait for the next answer.

        Raises:
            Hangup: The server closed the connection first.
        """
        while (reply := take_reply(self._buffer)) is None:
            data = self.socket.recv(READ_SIZE)
            if not data:
                raise Hangup(f"closed after {bytes(self._buffer[:200])!r}")
            self._buffer += data
        return reply

    def closed_within(self, seconds: float) -> bool:
        """Read, and drop, whatever still comes; tell whether the server hangs up in time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                if not self.socket.recv(READ_SIZE):
                    return True
            except TimeoutError:
                return False
            except OSError:
                return True
        return False

    def close_both_ways(self) -> None:
        """End the connection under the hands of a thread that waits on it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


class Taker:
    """One blocking take stream that gives its jobs one by one."""

    def __init__(self, address: Address, *, queue: str = "", prefetch: int = 1, timeout: float = 30) -> None:
        self.client = Client(address, timeout=timeout)
        self._lines = StreamLines()
        self._waiting: list[Any] = []
        try:
            self.client.socket.sendall(encode("GET", f"/jobs/take?prefetch={prefetch}&queue={queue}"))
            while not self._lines.status:
                self._read()
        except OSError:
            self.client.close()
            raise

    def __enter__(self) -> Taker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.close()

    @property
    def status(self) -> int:
        """The status of the stream's own answer."""
        return self._lines.status

    def _read(self) -> None:
        data = self.client.socket.recv(READ_SIZE)
        if not data:
            raise Hangup("the stream was closed")
        self._waiting += [json.loads(line) for line in self._lines.feed(data) if line]

    def arrived(self) -> list[Any]:
        """Read what has come, which must not be nothing, and give its jobs; heartbeats give none."""
        self._read()
        jobs, self._waiting = self._waiting, []
        return jobs

    def take(self, most: int = 1, *, timeout: float = 30) -> list[Any]:
        """Wait for at least one job and give up to so many.

        Raises:
            TimeoutError: None came in time, whatever heartbeats did.
        """
        deadline = time.monotonic() + timeout
        while not self._waiting:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no job within {timeout} s")
            self.client.socket.settimeout(left)
            self._read()
        jobs, self._waiting = self._waiting[:most], self._waiting[most:]
        return jobs


class AsyncClient:
    """One connection on asyncio streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._buffer = bytearray()

    @classmethod
    async def open(cls, address: Address) -> AsyncClient:
        """Connect.

        Raises:
            OSError: Nobody listens.
        """
        reader, writer = await asyncio.open_connection(*address, limit=1 << 22)
        return cls(reader, writer)

    async def request(self, method: str, path: str, body: object = None) -> Reply:
        """Send one request and wait for its answer.

        Raises:
            OSError: The connection broke; the request may have been carried out or not.
        """
        self.writer.write(encode(method, path, body))
        return await self.receive()

    async def receive(self) -> Reply:
        """Wait for the next answer."""
        while (reply := take_reply(self._buffer)) is None:
            self._buffer += await self.read()
        return reply

    async def read(self) -> bytes:
        """Wait for bytes.

        Raises:
            Hangup: There will be none.
        """
        data = await self.reader.read(READ_SIZE)
        if not data:
            raise Hangup("closed")
        return data

    def close(self) -> None:
        """Drop the connection at once, whatever is still under way."""
        self.writer.transport.abort()
