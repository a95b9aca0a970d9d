"""A server on a loopback socket with a small application, and a client that speaks raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import uvloop

from anew.clock import Clock, SystemClock
from anew.net.certificate import HTTP_ALPN, Certificate, TlsFiles
from anew.net.listener import NetServer
from anew.net.port import HttpPort
from anew.net.seam import Kind, Refusal, Request, Stream, WireLimits
from anew.net.tls_connection import TlsConnection

loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

doors = (*loops, *(f"{name} with TLS" for name in loops))
"""What a server's tests run on: both kinds of loop, without and with TLS."""

CERTIFICATES = Path(__file__).parents[2] / "e2e" / "certificates"


@functools.cache
def certificate() -> Certificate:
    """The server's certificate of the tests; its key is readable by all as it comes out of git."""
    folder = Path(tempfile.mkdtemp())
    for name in ("server.pem", "server.key"):
        (folder / name).write_bytes((CERTIFICATES / name).read_bytes())
        (folder / name).chmod(0o600)
    return Certificate(TlsFiles(cert=folder / "server.pem", key=folder / "server.key"), HTTP_ALPN)


@functools.cache
def trusting() -> ssl.SSLContext:
    """A client that trusts it."""
    return ssl.create_default_context(cafile=CERTIFICATES / "root.pem")


secure = ContextVar("secure", default=False)
"""Whether a `Site` speaks TLS."""

limit_s = 15
"""How long anything may take before a test is lost."""


def run(test: Callable[[], Coroutine[Any, Any, None]], door: str) -> None:
    """Run one asynchronous test on one of the `doors`."""
    loop, _, tls = door.partition(" with ")

    async def limited() -> None:
        secure.set(bool(tls))
        async with asyncio.timeout(limit_s * 2):
            await test()

    with asyncio.Runner(loop_factory=loops[loop]) as runner:
        runner.run(limited())


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something that nobody announces has come true."""
    async with asyncio.timeout(limit_s):
        turns = 0
        while not condition():
            turns += 1
            # What takes longer is not done by turns of the loop alone.
            await asyncio.sleep(0 if turns < 100 else 0.001)


@dataclass
class Reply:
    """One answer as read from the socket."""

    status: int
    headers: dict[str, str]
    body: bytes


class App:
    """Echoes; keeps requests for ``/later``, opens streams for ``/stream``, refuses ``/refused`` by its head. POST brings new work.

    Attributes:
        seen: Every request that came in.
        shed_bodies: The body of each request that was shed.
        later: Requests that the test answers itself.
        streams: Streams that were opened (None for HEAD).
        closed: Streams of which `on_close` was called.
        arrived: Set whenever a request comes in; `changed` also when a stream drains or closes.
    """

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.shed_bodies: list[bytes] = []
        self.later: list[Request] = []
        self.streams: list[Stream | None] = []
        self.closed: list[Stream] = []
        self.drained = 0
        self.changed = asyncio.Event()

    def judge(self, method: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Refusal | None:
        if path != b"/refused":
            return None
        return Refusal(401, b'{"error":"no"}', extra=((b"www-authenticate", b"Bearer"),), reason="token")

    def kind_of(self, request: Request) -> Kind:
        return Kind.new_work if request.method == b"POST" else Kind.other

    def shed(self, request: Request) -> None:
        self.shed_bodies.append(request.body)
        request.reply(503)

    def __call__(self, request: Request) -> None:
        self.seen.append(request)
        self.changed.set()
        match request.path:
            case b"/later":
                self.later.append(request)
            case b"/stream":
                self.open(request)
            case b"/nothing":
                request.reply(204)
            case b"/crash":
                raise RuntimeError("planned")
            case b"/large":
                request.reply(200, b"x" * int(request.query), b"text/plain")
            case _:
                request.reply(200, request.body, b"text/plain")

    def open(self, request: Request) -> None:
        stream = request.open_stream(200, b"application/x-ndjson")
        self.streams.append(stream)
        if stream is not None:
            opened = stream

            def closed() -> None:
                self.closed.append(opened)
                self.changed.set()

            def drained() -> None:
                self.drained += 1
                self.changed.set()

            stream.on_close = closed
            stream.on_drain = drained

    @property
    def stream(self) -> Stream:
        """The stream that was opened last."""
        stream = self.streams[-1]
        assert stream is not None
        return stream

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that the application notices has come true."""
        async with asyncio.timeout(limit_s):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


class Client:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def pause(self) -> None:
        """Read nothing more, for now."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    def resume(self) -> None:
        """Read again."""
        self.writer.transport.resume_reading()  # type: ignore[attr-defined]

    def half_close(self) -> None:
        self.writer.write_eof()

    def vanish(self) -> None:
        """Reset the connection: unlike an orderly close, nothing can be taken for a closed half."""
        self.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self.writer.transport.abort()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read one head."""
        async with asyncio.timeout(limit_s):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        version, status, _ = lines[0].split(" ", 2)
        assert version == "HTTP/1.1"
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, value = line.split(": ", 1)
            assert name not in headers, f"{name} twice"
            headers[name] = value
        return int(status), headers

    async def reply(self, *, to_head: bool = False) -> Reply:
        """Read one whole answer."""
        status, headers = await self.head()
        size = 0 if to_head else int(headers.get("content-length", 0))
        async with asyncio.timeout(limit_s):
            return Reply(status, headers, await self.reader.readexactly(size))

    async def chunk(self) -> bytes:
        """Read one chunk of a streamed body, b"" for the last."""
        async with asyncio.timeout(limit_s):
            size = int((await self.reader.readuntil(b"\r\n"))[:-2], 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        """Read until the server has closed its half."""
        async with asyncio.timeout(limit_s):
            return await self.reader.read()

    async def exchange(self, data: bytes) -> Reply:
        """Send bytes, read one answer."""
        self.send(data)
        return await self.reply()


class SecureClient(Client):
    """The same over TLS, by hand: the loops' own can neither close one half nor leave unread what has come.

    Attributes:
        ended: The server has said by the means of TLS that nothing more comes.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(asyncio.StreamReader(limit=1 << 20), writer)
        self._socket = reader
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = trusting().wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        self.ended = False
        self._reads: asyncio.Task[None] | None = None

    async def shake_hands(self) -> None:
        """Do the handshake, and decrypt from then on."""
        while True:
            try:
                self.ssl.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                async with asyncio.timeout(limit_s):
                    data = await self._socket.read(1 << 16)
                if not data:
                    raise ConnectionResetError("the server has hung up") from None
                self._incoming.write(data)
            else:
                break
        self._flush()
        self._reads = asyncio.create_task(self._read())

    def send(self, data: bytes) -> None:
        self.ssl.write(data)
        self._flush()

    def encrypted(self, data: bytes) -> bytes:
        """Give what would be sent."""
        self.ssl.write(data)
        return self._outgoing.read()

    def half_close(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            self.ssl.unwrap()
        self._flush()
        self.writer.write_eof()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self.writer.write(self._outgoing.read())

    async def _read(self) -> None:
        try:
            while data := await self._socket.read(1 << 16):
                self._incoming.write(data)
                with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                    while piece := self.ssl.read(1 << 14):
                        self.reader.feed_data(piece)
                    self.ended = True
                # Nobody holds up the socket for this reader, as its transport would, until somebody waits for more.
                while len(self.reader._buffer) > 1 << 20 and self.reader._waiter is None:  # type: ignore[attr-defined]
                    await asyncio.sleep(0)
        except OSError as error:
            self.reader.set_exception(error)
        else:
            self.reader.feed_eof()


@dataclass
class Site:
    """A running server: ``async with Site() as site``."""

    limits: WireLimits = field(default_factory=WireLimits)
    app: App = field(default_factory=App)
    clients: list[Client] = field(default_factory=list)
    clock: Clock = field(default_factory=SystemClock)
    tls: Certificate | None = field(default_factory=lambda: certificate() if secure.get() else None)

    async def __aenter__(self) -> Site:
        self.server = NetServer(self.limits, clock=self.clock)
        self.http = HttpPort(self.server, self.app)
        # A short limit for heads is a test's subject, and no limit for the handshake before them.
        self.host, self.port = await self.server.listen(
            "127.0.0.1", 0, self.http.connection, tls=self.tls, handshake_ms=limit_s * 1_000
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self.clients:
            client.writer.transport.abort()
            with contextlib.suppress(OSError):
                await client.writer.wait_closed()
        self.server.close()
        await self.emptied()  # lost connections are reported by the loop's next turns

    async def connect(self) -> Client:
        return await self._joined(*await asyncio.open_connection(self.host, self.port, limit=1 << 20))

    async def connect_small(self) -> Client:
        """Connect with small buffers in the kernel, and read nothing but what the test asks for."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (self.host, self.port))
        client = await self._joined(*await asyncio.open_connection(sock=sock, limit=1 << 20))
        client.pause()
        return client

    def joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Client:
        """Take a connection without TLS among those that are closed at the end."""
        client = Client(reader, writer)
        self.clients.append(client)
        return client

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Client:
        if self.tls is None:
            return self.joined(reader, writer)
        client = SecureClient(reader, writer)
        self.clients.append(client)
        await client.shake_hands()
        # In TLS 1.3 the client comes to the end first.
        await until(lambda: not self.is_shaking(client))
        return client

    def is_shaking(self, client: Client) -> bool:
        """Whether the server waits for the end of a connection's handshake."""
        here = client.writer.get_extra_info("sockname")
        shaking = [wire for wire in self.server._connections if isinstance(wire, TlsConnection)]
        return any(wire.get_extra_info("peername") == here for wire in shaking)

    async def emptied(self, connections: int = 0) -> None:
        """Wait until no more connections than these are open."""
        await until(lambda: self.server.counters.connections == connections)

    @property
    def refused(self) -> dict[str, int]:
        return self.server.counters.refused


def on_site(
    limits: WireLimits | None = None,
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Have an asynchronous test run on both kinds of loop, without and with TLS, its first argument a server."""

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        def on_loop(loop: str, **given: Any) -> None:
            async def on_server() -> None:
                async with Site(limits or WireLimits()) as site:
                    await test(site, **given)

            run(on_server, loop)

        others = list(inspect.signature(test).parameters.values())[1:]
        named = functools.update_wrapper(on_loop, test)
        # What pytest is to give: a loop, and whatever else the test asks for.
        loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
        keywords = [other.replace(kind=inspect.Parameter.KEYWORD_ONLY) for other in others]
        named.__signature__ = inspect.Signature([loop, *keywords])  # type: ignore[attr-defined]
        return named

    return decorate
