"""Sends one request to a subscriber and says what came of it, whatever the subscriber does. Needs the extra ``webhooks``."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import lru_cache
from typing import Any

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from anew.errors import BlockedAddress, InvalidInput
from anew.topics.connector import Connect, ExchangeFailed, GuardedConnector, Journey, Proxy, journey
from anew.topics.exchange import ATTEMPT_HEADERS, EXCERPT_BYTES, READ_BYTES, Answer, ExchangeError, Outgoing
from anew.topics.guard import GuardSettings, Target, can_be_sent, judge_addresses, judge_url
from anew.topics.resolver import Resolve, Resolver

MAX_HEAD = 16_384
"""Bytes of an answer's head, names and values of its headers together."""

MAX_HEADERS = 128
"""Headers of an answer."""

_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)
"""Ours cover name, connection and the whole; aiohttp's would cost a timer more."""

_NONE_OF_ITS_OWN = ("accept", "accept-encoding", "user-agent", "content-type")
"""Headers that aiohttp would add."""


class Sender:
    """Exchanges requests for answers, any number at one time. Belongs to one event loop.

    It follows no redirect, reads no proxy from the environment, keeps no cookie, and connects to nothing that the guard has not
    allowed. Connections are used again.

    Args:
        settings: What the guard allows beyond its rules.
        egress_proxy: ``http://host:port`` of a proxy that makes all connections (CONNECT), and resolves the names; None for none.
        resolve: Gives the addresses of a name; the system's by default.
        connect: Connects a socket; see `anew.topics.connector`.
        tls: How certificates are verified; by the system's authorities by default.

    Raises:
        InvalidConfig: `egress_proxy` is no such URL.
    """

    def __init__(
        self,
        settings: GuardSettings,
        *,
        egress_proxy: str | None = None,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._proxy = None if egress_proxy is None else Proxy.of(egress_proxy)
        self._resolver = Resolver() if resolve is None else None
        self._resolve: Resolve = resolve or self._resolver  # type: ignore[assignment]  # one of them is there
        self._connect = connect
        self._tls = tls or ssl.create_default_context()
        self._session: aiohttp.ClientSession | None = None
        # Deliveries to one URL come in numbers; judging it is a matter of the URL and the settings alone.
        self._judged = lru_cache(maxsize=4_096)(self._judge)

    async def send(self, outgoing: Outgoing) -> Answer:
        """Send a request; give what came of it.

        Nothing that a subscriber does raises. What is raised is our own fault, and says nothing about the delivery.

        Raises:
            Unavailable: This process or machine can make no more connections.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        verdict = self._judged(outgoing.url)
        if isinstance(verdict, str):
            return Answer(error=verdict)
        if not can_be_sent(outgoing.headers):
            return Answer(error="invalid_request")
        target, url = verdict
        exchange = _Exchange(Journey(target, began + outgoing.connect_timeout_ms / 1_000), began)
        try:
            async with asyncio.timeout_at(began + outgoing.timeout_ms / 1_000):
                await self._exchange(exchange, url, outgoing)
        except TimeoutError:
            # Before the request could be sent nobody can have processed it.
            exchange.error = "timeout" if exchange.trip.ready_at else exchange.trip.slow
        except ExchangeFailed as failed:
            exchange.error = failed.error
        finally:
            exchange.end()
        return exchange.answer(loop.time())

    async def close(self) -> None:
        """Close all connections. Whoever still sends has to be waited for, or cancelled, before: it would look like a reset."""
        if self._session is not None:
            await self._session.close()
        if self._resolver is not None:
            self._resolver.close()

    def _judge(self, url: str) -> tuple[Target, URL] | ExchangeError:
        try:
            target = judge_url(url, self._settings)
        except BlockedAddress:
            return "blocked_address"
        except InvalidInput:
            return "invalid_request"
        return target, URL(target.url, encoded=True)

    async def _exchange(self, exchange: _Exchange, url: URL, outgoing: Outgoing) -> None:
        trip = exchange.trip
        if self._proxy is None:
            trip.addresses = await self._addresses(exchange)
        journey.set(trip)
        try:
            response = await (self._session or self._open()).request(
                outgoing.method,
                url,
                data=outgoing.body if outgoing.method == "POST" else None,
                headers=outgoing.headers,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                raise
            raise ExchangeFailed(_error_of(error)) from None
        exchange.response = response
        exchange.head_at = asyncio.get_running_loop().time()
        if sum(len(name) + len(value) + 4 for name, value in response.raw_headers) > MAX_HEAD:
            raise ExchangeFailed("protocol")
        exchange.status = response.status
        await exchange.read(response.content)

    async def _addresses(self, exchange: _Exchange) -> tuple[str, ...]:
        """Give the addresses to connect to: all that the target has, if all are allowed."""
        target = exchange.trip.target
        if target.address is not None:
            return (target.address,)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout_at(exchange.trip.connect_by):
                found = await self._resolve(target.host)
        except socket.gaierror:
            raise ExchangeFailed("dns") from None
        except TimeoutError:
            raise ExchangeFailed("connect_timeout") from None
        except OSError:
            raise ExchangeFailed("dns") from None
        exchange.dns_s = loop.time() - began
        if not found:
            raise ExchangeFailed("dns")
        try:
            return judge_addresses(target, found, self._settings)
        except BlockedAddress:
            raise ExchangeFailed("blocked_address") from None

    def _open(self) -> aiohttp.ClientSession:
        """Make the session; it needs a running loop."""
        self._session = aiohttp.ClientSession(
            connector=GuardedConnector(self._tls, proxy=self._proxy, connect=self._connect),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_NONE_OF_ITS_OWN,
            timeout=_NO_TIMEOUT,
            auto_decompress=False,
            trust_env=False,
            max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD,
            max_headers=MAX_HEADERS,
        )
        return self._session


class _Exchange:
    """What has come of an exchange so far, so that an answer can be made of it at whatever point it ends."""

    __slots__ = ("began", "body", "dns_s", "error", "head_at", "response", "status", "trip")

    def __init__(self, trip: Journey, began: float) -> None:
        self.trip = trip
        self.began = began
        self.dns_s: float | None = None
        self.head_at: float | None = None
        self.status: int | None = None
        self.error: ExchangeError | None = None
        self.response: aiohttp.ClientResponse | None = None
        self.body = b""

    async def read(self, content: aiohttp.StreamReader) -> None:
        """Read the answer's body, as much as is read of one."""
        left = READ_BYTES
        while left > 0:
            try:
                chunk = await content.read(left)
            except (aiohttp.ClientError, HttpProcessingError, OSError) as error:
                if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                    raise
                self.error = _error_of(error)
                return
            if not chunk:
                return
            left -= len(chunk)
            if len(self.body) < EXCERPT_BYTES:
                self.body += chunk

    def end(self) -> None:
        """Give the connection back if the answer has come to its end; else close it."""
        if self.response is not None:
            whole = self.error is None and self.response.content.at_eof()
            self.response.close()
            if whole:
                return
        # A peer that reads nothing would keep a mere close waiting for ever.
        if self.trip.transport is not None:
            self.trip.transport.abort()

    def answer(self, now: float) -> Answer:
        """Give what came of it."""
        blocked = self.error == "blocked_address"
        trip = self.trip
        return Answer(
            status=self.status,
            error=self.error,
            headers={} if self.response is None or self.status is None else _kept(self.response.headers),
            excerpt=excerpt_of(self.body),
            address="" if blocked else trip.address,
            duration_ms=round((now - self.began) * 1_000),
            dns_ms=_ms(self.dns_s),
            connect_ms=_ms(trip.connect_s),
            tls_ms=_ms(trip.tls_s),
            ttfb_ms=None if self.head_at is None else _ms(self.head_at - trip.ready_at),
        )


def excerpt_of(body: bytes) -> str:
    """Give the first `EXCERPT_BYTES` of a body as text that has no more bytes than that in UTF-8 either."""
    text = body[:EXCERPT_BYTES].decode("utf-8", "replace")
    if len(text) * 3 <= EXCERPT_BYTES:
        return text
    return text.encode()[:EXCERPT_BYTES].decode("utf-8", "ignore")  # what replaces a byte has three


def _kept(headers: Any) -> dict[str, str]:
    """Give the headers of an answer that are kept; bytes that are no UTF-8 are replaced."""
    kept = {}
    for name in ATTEMPT_HEADERS:
        value = headers.get(name)
        if value is not None:
            kept[name] = (
                value
                if value.isascii()
                else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            )
    return kept


def _error_of(error: Exception) -> ExchangeError:
    """Give the class of an error that came after the connection was made."""
    match error:
        case aiohttp.InvalidURL():
            return "invalid_request"
        case aiohttp.ClientPayloadError() | aiohttp.ServerDisconnectedError() | OSError():
            return "reset"
        case aiohttp.ClientError() | HttpProcessingError():
            return "protocol"
    return "invalid_request"  # a ValueError: a header that the guard passes and aiohttp does not


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000)
