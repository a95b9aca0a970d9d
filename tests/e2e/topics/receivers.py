"""Receivers of webhooks, well-behaved and hostile, for any test: each serves in a thread of its own.

::

    with Receiver(script(answers(503), answers(200))) as receiver:
        ...  # send something to receiver.url
        receiver.wait_for(2)
        assert receiver.requests[1].body == b"{}"

A behaviour gets the line and the request that has come on it. When it returns, the next request is read, unless it has closed the
line. `Receiver` counts connections and their ends, so that a test can wait until a line was cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from ..tls import path as certificate

PATIENCE_S = 20
"""Nothing that a test waits for takes longer, on however busy a machine."""


@dataclass(frozen=True)
class Received:
    """A request.

    Attributes:
        method, target: As they came.
        headers: As they came, in their order.
        body: Whole.
        connection: The number of its connection at this receiver, from 1.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int

    def header(self, name: str) -> str:
        """Give the value of a header that came exactly once."""
        (value,) = [value for other, value in self.headers if other.lower() == name.lower()]
        return value


@dataclass
class Line:
    """One connection, from the receiver's side.

    Attributes:
        sent: How many bytes were handed to the kernel.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    number: int
    sent: int = 0
    open: bool = True

    async def send(self, data: bytes) -> None:
        """Send; wait until the kernel has taken it."""
        self.writer.write(data)
        await self.writer.drain()
        self.sent += len(data)

    def close(self) -> None:
        """End it in an orderly way."""
        self.open = False
        self.writer.close()

    def reset(self) -> None:
        """End it with a reset."""
        self.open = False
        own = self.writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def ended(self) -> None:
        """Wait until the other side has gone."""
        while await self.reader.read(65_536):
            pass
        self.close()


Behaviour = Callable[[Line, Received], Awaitable[None]]


@dataclass
class Receiver:
    """Serves on a free port from ``with`` to its end.

    Args:
        behaviour: What it does with each request; without one it reads nothing at all, and holds each line until it is cut.
        tls: Whether it speaks TLS, with the certificate for localhost and 127.0.0.1 that `trusting` trusts.
        bind: The address that it listens at.

    Attributes:
        requests: All that have come, in their order.
        lines: All connections.
        ended: How many of them have ended.
        names: What clients asked for by SNI.
    """

    behaviour: Behaviour | None
    tls: bool = False
    bind: str = "127.0.0.1"
    requests: list[Received] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    ended: int = 0
    names: list[str | None] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="receiver")
        self._bound = threading.Event()
        self._stop = asyncio.Event()

    @property
    def url(self) -> str:
        """Its address."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/hook"

    def named(self, name: str) -> str:
        """Give its address under another name."""
        return self.url.replace("127.0.0.1", name)

    def wait_for(self, requests: int = 0, *, ended: int = 0) -> None:
        """Wait until so many requests have come, and so many connections have ended."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: len(self.requests) >= requests and self.ended >= ended, PATIENCE_S
            ), f"{len(self.requests)} requests, {self.ended} ended connections"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._bound.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    async def _serve(self) -> None:
        tasks: set[asyncio.Task[None]] = set()

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._hold(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(begin, self.bind, 0, ssl=self._context() if self.tls else None)
        self.port = server.sockets[0].getsockname()[1]
        self._bound.set()
        await self._stop.wait()
        server.close()
        for _ in range(10):  # what was accepted last, and what was cut, takes some turns to end
            for task in list(tasks):
                task.cancel()
            await asyncio.sleep(0)

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate("server.pem"), certificate("server.key"))
        context.sni_callback = lambda _, name, __: self.names.append(name)
        return context

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(reader, writer, len(self.lines) + 1)
        self.lines.append(line)
        try:
            if self.behaviour is None:
                await asyncio.Future()
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while line.open:
                    await self._answer(line)
        finally:
            writer.transport.abort() if line.open else writer.close()
            with self._changed:
                self.ended += 1
                self._changed.notify_all()

    async def _answer(self, line: Line) -> None:
        request = await read_request(line)
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        assert self.behaviour is not None
        await self.behaviour(line, request)


async def read_request(line: Line) -> Received:
    """Read one request with its body.

    Raises:
        asyncio.IncompleteReadError: The other side has gone.
    """
    head = (await line.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = tuple((name, value.strip()) for name, _, value in (one.partition(":") for one in head[1:-2]))
    length = sum(int(value) for name, value in headers if name.lower() == "content-length")
    return Received(method, target, headers, await line.reader.readexactly(length), line.number)


def head(status: int, headers: Mapping[str, str] = {}, version: str = "1.1") -> bytes:  # it is only read
    """Give the head of an answer."""
    lines = [f"HTTP/{version} {status} Status", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def answers(status: int = 200, body: bytes = b"ok", **headers: str) -> Behaviour:
    """Answer as one should; ``retry_after="5"`` gives a header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def behave(line: Line, request: Received) -> None:
        await line.send(head(status, {"content-length": str(len(body)), **named}) + body)

    return behave


def redirects(to: str, status: int = 302) -> Behaviour:
    """Send the client elsewhere."""
    return answers(status, b"", location=to)


def says(data: bytes, *, then: str = "wait") -> Behaviour:
    """Send raw bytes; then "wait" until the line is cut, "close", "reset", or "go on" with the next request."""

    async def behave(line: Line, request: Received) -> None:
        await line.send(data)
        match then:
            case "wait":
                await line.ended()
            case "close":
                line.close()
            case "reset":
                line.reset()

    return behave


def is_silent() -> Behaviour:
    """Never answer."""
    return says(b"")


def drips(data: bytes, before: bytes = b"", every_s: float = 1.0) -> Behaviour:
    """Send some bytes at once, and then others one by one; then wait."""

    async def behave(line: Line, request: Received) -> None:
        await line.send(before)
        for byte in data:
            await line.send(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(line.ended(), every_s)
                return
        await line.ended()

    return behave


def pours(size: int | None, *, status: int = 200, piece: bytes = b"x" * 65_536) -> Behaviour:
    """Send a body of so many bytes, or one that never ends."""

    async def behave(line: Line, request: Received) -> None:
        await line.send(head(status, {} if size is None else {"content-length": str(size)}))
        left = size
        while left is None or left > 0:
            await line.send(piece if left is None else piece[:left])
            left = None if left is None else left - len(piece)

    return behave


def tunnels(port: int, *, status: int = 200) -> Behaviour:
    """Be a proxy: join whoever asks by CONNECT with a port of this machine."""

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def behave(line: Line, request: Received) -> None:
        assert request.method == "CONNECT"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await line.send(head(status))
            await asyncio.gather(pipe(line.reader, writer), pipe(reader, line.writer))
        finally:
            writer.close()
            line.close()

    return behave


def script(*behaviours: Behaviour) -> Behaviour:
    """Behave differently from request to request; the last one stays."""
    turns: Iterator[Behaviour] = iter(behaviours)
    last = behaviours[-1]

    async def behave(line: Line, request: Received) -> None:
        await next(turns, last)(line, request)

    return behave


def by_path(**behaviours: Behaviour) -> Behaviour:
    """Behave as the first segment of the path says: ``by_path(good=answers(), bad=answers(500))``."""

    async def behave(line: Line, request: Received) -> None:
        await behaviours[request.target.lstrip("/").partition("/")[0].partition("?")[0]](line, request)

    return behave


def free_port() -> int:
    """Give a port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def trusting() -> ssl.SSLContext:
    """Give a client's context that trusts the receivers' certificate."""
    return ssl.create_default_context(cafile=certificate("root.pem"))
