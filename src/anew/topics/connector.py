"""Connections to subscribers: only to addresses that were checked, directly or through the operator's proxy.

Built on aiohttp's pool. A connection is used again for the same host alone, and only while the address that it leads to is among
those that the present attempt has checked.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import aiohappyeyeballs
from aiohttp import BaseConnector, ClientRequest, ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from aiohttp.tracing import Trace

from anew.errors import InvalidConfig, Unavailable
from anew.topics.exchange import ExchangeError
from anew.topics.guard import Target, plain_address

KEEP_ALIVE_S = 4.0
"""How long a connection waits for the next request.

Common servers close theirs after 5 s, and a request that crosses with that is lost.
"""

SECOND_ADDRESS_S = 0.25
"""After so long without a connection the next address is tried beside the first (RFC 8305)."""

MAX_PROXY_HEAD = 16_384
"""Bytes of a proxy's answer to CONNECT."""

MAX_INTERIM = 16
"""Heads of status 1xx before the answer itself. Each costs us more than it costs who sends them."""

_OUT_OF_SOCKETS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)
"""Errors of a connect that say nothing about the other side."""

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})[ \r]")

Connect = Callable[[tuple[str, ...], int], Awaitable[socket.socket]]
"""Addresses, best first, and a port in; a connected socket out. Raises OSError where none can be reached."""


class ExchangeFailed(Exception):
    """There is no connection, and why."""

    def __init__(self, error: ExchangeError) -> None:
        super().__init__(error)
        self.error = error


@dataclass(slots=True)
class Journey:
    """What is known of one exchange under way. Times are of the loop's clock, in seconds.

    Attributes:
        target: Where it goes.
        connect_by: When there has to be a connection.
        slow: What it means if there is none by then.
        addresses: Those that were checked; None where a proxy resolves the name.
        address: Whom it is connected to.
        transport: Its connection.
        connect_s, tls_s: How long these took; None on a connection that was used before.
        ready_at: When the request could be sent.
    """

    target: Target
    connect_by: float
    slow: ExchangeError = "connect_timeout"
    addresses: tuple[str, ...] | None = None
    address: str = ""
    transport: asyncio.Transport | None = None
    connect_s: float | None = None
    tls_s: float | None = None
    ready_at: float = 0.0


journey: ContextVar[Journey] = ContextVar("journey")
"""The exchange that the running task makes: aiohttp has no place for it in a request."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that makes connections for us, by CONNECT."""

    host: str
    port: int
    headers: str = field(default="", repr=False)

    @staticmethod
    def of(url: str) -> Proxy:
        """Read ``http://[user:password@]host:port``.

        Raises:
            InvalidConfig: It is none.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if host is None or port is None or parts.scheme != "http" or parts.path not in ("", "/"):
            raise InvalidConfig("egress_proxy: expected http://host:port", field="egress_proxy")
        if parts.username is None:
            return Proxy(host, port)
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return Proxy(host, port, f"Proxy-Authorization: Basic {b64encode(login.encode()).decode()}\r\n")


class _AnswerReader(ResponseHandler):
    """Reads an answer, and says at once that its body is broken, in whichever packet that comes."""

    _interim = 0

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take the head of an answer; one that only announces another (1xx) counts."""
        self._interim = self._interim + 1 if 100 <= data[0].code <= 199 else 0
        if self._interim == MAX_INTERIM:
            self.set_exception(HttpProcessingError(message="too many 1xx"))
            if self.transport is not None:
                self.transport.abort()
        elif self._interim < MAX_INTERIM:
            super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        end = data.find(b"\r\n\r\n") + 4
        if 3 < end < len(data):  # aiohttp forgets the head of what it fails to read at once
            super().data_received(data[:end])
            data = data[end:]
        super().data_received(data)
        broken = self.exception()
        if broken is not None and self._payload is not None:
            self._payload.set_exception(broken)  # aiohttp lets who reads the body wait


class GuardedConnector(BaseConnector):
    """Connects to what `journey` says.

    Args:
        tls: How certificates are verified.
        proxy: Through which all connections go; None for none.
        connect: How a socket is connected; by default to the first address that answers.
    """

    def __init__(
        self, tls: ssl.SSLContext, *, proxy: Proxy | None = None, connect: Connect | None = None
    ) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEP_ALIVE_S)
        self._tls = tls
        self._proxy = proxy
        self._connect_socket = connect or connect_to_first

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        """Give a connection for a request, used before or new."""
        trip = journey.get()
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert protocol is not None
            # Bytes that came between two answers would be taken for the next one.
            if not protocol.should_close and self._leads_there(connection.transport, trip):
                trip.ready_at = self._loop.time()
                return connection
            connection.close()

    def _leads_there(self, transport: asyncio.Transport | None, trip: Journey) -> bool:
        """Say whether a connection leads to a checked address, and remember it if so."""
        if transport is None:
            return False
        if trip.addresses is not None:
            peer = transport.get_extra_info("peername")
            address = (
                peer[0] if peer and peer[0] in trip.addresses else plain_address(peer[0]) if peer else ""
            )
            if address not in trip.addresses:
                return False
            trip.address = address
        trip.transport = transport
        return True

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout
    ) -> ResponseHandler:
        """Connect; aiohttp calls it when its pool has nothing.

        Raises:
            ExchangeFailed: There is no connection.
        """
        trip = journey.get()
        try:
            async with asyncio.timeout_at(trip.connect_by):
                return await self._make(trip)
        except TimeoutError:
            raise ExchangeFailed(trip.slow) from None

    async def _make(self, trip: Journey) -> ResponseHandler:
        began = self._loop.time()
        connected = await (self._directly(trip) if self._proxy is None else self._through(self._proxy, trip))
        trip.connect_s = self._loop.time() - began
        try:
            protocol = await self._begin(connected, trip)
        except BaseException:
            connected.close()  # of one that was given up, no transport takes care
            raise
        if trip.target.scheme == "https":
            trip.tls_s = self._loop.time() - began - trip.connect_s
        return protocol

    async def _begin(self, connected: socket.socket, trip: Journey) -> ResponseHandler:
        """Make a connected socket ready for a request, by TLS where the target wants it."""
        if trip.target.scheme == "http":
            _, protocol = await self._loop.create_connection(self._reader, sock=connected)
            return protocol
        try:
            _, protocol = await self._loop.create_connection(
                self._reader,
                sock=connected,
                ssl=self._tls,
                server_hostname=trip.target.host,
                ssl_handshake_timeout=max(trip.connect_by - self._loop.time(), 0.001) + 1,  # ours comes first
                ssl_shutdown_timeout=1,
            )
        except OSError:  # of ssl.SSLError, too
            raise ExchangeFailed("tls") from None
        return protocol

    def _reader(self) -> ResponseHandler:
        return _AnswerReader(self._loop)

    async def _directly(self, trip: Journey) -> socket.socket:
        """Connect to one of the checked addresses, and compare whom it has led to.

        Raises:
            ExchangeFailed: There is no connection.
            Unavailable: This process or machine can make no more.
        """
        assert trip.addresses is not None
        try:
            connected = await self._connect_socket(trip.addresses, trip.target.port)
        except OSError as error:
            if error.errno in _OUT_OF_SOCKETS:
                raise Unavailable(f"no connection can be made: {error}") from error
            raise ExchangeFailed(connect_error(error)) from None
        try:
            peer = plain_address(connected.getpeername()[0])
        except OSError:
            connected.close()
            raise ExchangeFailed("reset") from None
        if peer not in trip.addresses:
            connected.close()
            raise ExchangeFailed("blocked_address")
        return connected

    async def _through(self, proxy: Proxy, trip: Journey) -> socket.socket:
        """Have a proxy connect to the target.

        Raises:
            ExchangeFailed: It refuses, "blocked_address"; it cannot reach the target, "unreachable"; it does not work, "proxy".
        """
        trip.slow = "proxy"
        try:
            found = await self._loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
            connected = await self._connect_socket(tuple(str(one[4][0]) for one in found), proxy.port)
        except OSError:
            raise ExchangeFailed("proxy") from None
        trip.slow = "connect_timeout"
        try:
            status = await self._ask(connected, proxy, trip.target)
        except BaseException as error:
            connected.close()
            if isinstance(error, OSError):
                raise ExchangeFailed("proxy") from None
            raise
        if 200 <= status <= 299:
            return connected
        connected.close()
        raise ExchangeFailed(proxy_error(status))

    async def _ask(self, connected: socket.socket, proxy: Proxy, target: Target) -> int:
        """Give the status of a proxy's answer to CONNECT; 0 for what is no answer."""
        host = f"[{target.host}]" if ":" in target.host else target.host
        place = f"{host}:{target.port}"
        asked = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{proxy.headers}\r\n"
        await self._loop.sock_sendall(connected, asked.encode("ascii"))
        head = b""
        while b"\r\n\r\n" not in head and len(head) < MAX_PROXY_HEAD:
            received = await self._loop.sock_recv(connected, MAX_PROXY_HEAD)
            if not received:
                return 0
            head += received
        answered = _STATUS.match(head) if b"\r\n\r\n" in head else None
        return 0 if answered is None else int(answered[1])


async def connect_to_first(addresses: tuple[str, ...], port: int) -> socket.socket:
    """Connect to the first of some addresses that answers.

    Raises:
        OSError: None does.
    """
    places = [_place(address, port) for address in addresses]
    try:
        return await aiohappyeyeballs.start_connection(
            places, happy_eyeballs_delay=SECOND_ADDRESS_S if len(places) > 1 else None, interleave=1
        )
    except RuntimeError as error:  # so uvloop says it of some
        raise OSError(str(error)) from error


def _place(address: str, port: int) -> aiohappyeyeballs.AddrInfoType:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)


def connect_error(error: OSError) -> ExchangeError:
    """Give the class of an error that a connect made."""
    match error:
        case ConnectionRefusedError():
            return "refused"
        case ConnectionError():
            return "reset"
        case OSError(errno=errno.ETIMEDOUT):
            return "connect_timeout"
    return "unreachable"


def proxy_error(status: int) -> ExchangeError:
    """Give what a proxy's refusal of a CONNECT means.

    A proxy that cannot reach the target works: counted as its own fault, deliveries to a dead target would never end.
    """
    if status == 403:
        return "blocked_address"
    return "unreachable" if status in (502, 503, 504) else "proxy"
