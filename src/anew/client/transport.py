"""HTTP/1.1 to one server: its address, requests and answers, and connections that are kept and shared by threads."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import selectors
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from anew import __version__
from anew.client.exchange import NotSent
from anew.client.parameters import Period, period_ms
from anew.client.refusals import error_of
from anew.client.waiting import USUAL, waits_of
from anew.errors import AnewError, InvalidConfig, InvalidInput, Unreachable
from anew.units import format_duration, shown

DEFAULT_URL: Final = "http://127.0.0.1:7890"

_KEPT: Final = 8
"""Idle connections kept: more than this many threads seldom settle in the same moment."""

LONGEST_ANSWER: Final = 1 << 29
"""Bytes of an answer: a longer one is given up, before it fills the memory."""

_TOKEN: Final = re.compile(r"[!-~]+")

Path: TypeAlias = str | os.PathLike[str]


def tls_context(
    ca: Path | None, cert: Path | None, key: Path | None, *, alpn: Sequence[str] = ("http/1.1",)
) -> ssl.SSLContext:
    """Build what a secure connection is checked with.

    Args:
        ca: File of the certificates to trust in place of the system's.
        cert: File of this client's own certificate, with what leads up to its authority.
        key: File of its private key, without a password; None means that it stands in the same file.
        alpn: The protocols to ask for.

    Raises:
        InvalidConfig: One of the files cannot be used.
    """
    context = ssl.create_default_context()
    if ca is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with _pem_file("ca", ca, "a file of certificates in PEM form"):
            context.load_verify_locations(cafile=ca)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if cert is not None:
        with _pem_file("cert", cert, "a certificate and its key in PEM form, the key without a password"):
            # A password of our own keeps OpenSSL from asking for one at the terminal.
            context.load_cert_chain(cert, key, password="")
    elif key is not None:
        raise InvalidConfig(f"key: {shown(str(key))} is given without cert; expected both", field="key")
    return context


@contextlib.contextmanager
def _pem_file(field: str, path: Path, expected: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else _reason(error)
        message = f"{field}: {shown(str(path))} cannot be used ({reason}); expected {expected}"
        raise InvalidConfig(message, field=field, value=str(path)) from error


class Site:
    """One server's address, what a request to it carries, and what it means when there is no answer.

    Args:
        url: ``http://host:port`` or ``https://...``, with a path prefix if the server stands behind a proxy.
        token: Bearer token, or None.
        timeout_ms: Longest silence while an answer is waited for.
        ca, cert, key: Files in PEM form, as for `tls_context`; an ``http`` server is not asked about them.

    Raises:
        InvalidConfig: The address or the token is not valid, or one of the files cannot be used.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        timeout_ms: int,
        *,
        ca: Path | None,
        cert: Path | None,
        key: Path | None,
    ) -> None:
        expected = "expected an address such as http://127.0.0.1:7890"
        invalid = InvalidConfig(f"url: {url!r} is not valid; {expected}", field="url", value=url)
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise invalid from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise invalid
        # Errors and logs name it: what names a user there, and a password, is left out.
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
        # The system's certificates take 20 ms to load, which only https is worth.
        files = (ca, cert, key)
        tls = tls_context(*files) if parts.scheme == "https" or any(files) else None
        self.tls = tls if parts.scheme == "https" else None
        self.host = parts.hostname
        self.port = port or (443 if parts.scheme == "https" else 80)
        self.prefix = parts.path.rstrip("/")
        self.timeout_s = timeout_ms / 1000
        self._headers = {"Accept": "application/json", "User-Agent": f"anew/{__version__}"}
        if token:
            if not _TOKEN.fullmatch(token):  # http.client would say so too, and show it
                raise InvalidConfig(
                    "token: the value is not valid; expected visible ASCII characters without spaces or line ends",
                    field="token",
                )
            self._headers["Authorization"] = f"Bearer {token}"

    @property
    def headers(self) -> Mapping[str, str]:
        """What every request carries."""
        return self._headers

    def connection(self) -> http.client.HTTPConnection:
        """Give a connection that is not open yet."""
        if self.tls is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_s)
        return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout_s, context=self.tls)

    def write(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Write a request to a connection.

        Raises:
            InvalidInput: Its path or a header has what HTTP cannot carry; nothing is sent.
        """
        sent = self._headers | dict(headers or {})
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, self.prefix + target, body=body, headers=sent)
        except (http.client.InvalidURL, ValueError) as error:
            raise InvalidInput(f"the request cannot be written: {error}") from error

    def refusal(self, response: http.client.HTTPResponse, content: bytes, target: str) -> AnewError:
        """Give the error that an answer means."""
        headers = {name.lower(): value for name, value in response.getheaders()}
        path = target.partition("?")[0]
        return error_of(response.status, response.reason, content, headers, path, self.url)

    @contextlib.contextmanager
    def opening(self) -> Iterator[None]:
        """Say what it means that no connection could be made."""
        try:
            yield
        except ssl.SSLError as error:
            raise NotSent(f"no secure connection to {self.url}: {error}") from error
        except OSError as error:
            raise NotSent(f"no server at {self.url} ({_reason(error)})") from error

    @contextlib.contextmanager
    def asking(self, target: str) -> Iterator[None]:
        """Say what it means that no answer came."""
        try:
            yield
        except TimeoutError as error:
            wait = format_duration(round(self.timeout_s * 1000))
            raise Unreachable(f"no answer from {self.url} within {wait}") from error
        except (OSError, http.client.HTTPException, EOFError) as error:
            if self.tls is not None and isinstance(error, ssl.SSLError | ConnectionResetError):
                # In TLS 1.3 a server that wants a certificate says so only after the handshake, and its reset may
                # overtake what it said.
                why = error.reason if isinstance(error, ssl.SSLError) and error.reason else _reason(error)
                raise Unreachable(
                    f"{self.url} broke off the secure connection ({why}), as a server does that asks for "
                    "another client certificate; what was asked for may or may not have been done"
                ) from error
            raise Unreachable(
                f"{self.url} closed the connection before its answer to {target.partition('?')[0]} ({_reason(error)}); "
                "what was asked for may or may not have been done"
            ) from error


class Addressed:
    """A client of one server: what it is told of that, and of when to try again; see `Client`."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        token: str | None = None,
        timeout: Period = "30s",
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
        retry: object = USUAL,
    ) -> None:
        timeout_ms = period_ms(timeout, "timeout", low=1)
        self._site = Site(url, token, timeout_ms, ca=ca, cert=cert, key=key)
        self._retry = waits_of(retry)
        self._connect(self._site)

    def _connect(self, site: Site) -> None:
        """Make what requests go through; nothing is opened yet."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """Address of the server."""
        return self._site.url


class Transport:
    """Connections to one server, shared by threads."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        also: tuple[int, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Send one request and read its answer.

        Args:
            method: HTTP method.
            target: Path and query, encoded.
            body: JSON, or None.
            also: Statuses to be returned beside 2xx.
            headers: Beside those that every request has.

        Returns:
            Status and body.

        Raises:
            Unreachable: There is no answer; a change that was asked for may or may not have happened.
            AnewError: What the server's refusal means.
        """
        connection = self._lease()
        try:
            response = self._send(connection, method, target, body, headers)
            with self._site.asking(target):
                content = self._whole(response)
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        if 200 <= response.status < 300 or response.status in also:
            return response.status, content
        raise self._site.refusal(response, content, target)

    def open_stream(
        self, target: str, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPConnection, socket.socket, http.client.HTTPResponse]:
        """Open an endless answer on a separate connection.

        Returns:
            The connection, to be closed by the caller, its socket, and the answer, head read.

        Raises:
            Unreachable: There is no answer.
            AnewError: What the server's refusal means.
        """
        connection = self._site.connection()
        try:
            self._open(connection)
            # Kept from here on: the connection forgets it where the answer is endless.
            sock: socket.socket = connection.sock
            response = self._send(connection, "GET", target, None, headers)
            if response.status != 200:
                with self._site.asking(target):
                    content = self._whole(response)
                raise self._site.refusal(response, content, target)
        except BaseException:
            connection.close()
            raise
        return connection, sock, response

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        if connection.sock is None:
            self._open(connection)
        with self._site.asking(target):
            try:
                self._site.write(connection, method, target, body, headers)
            except ConnectionError:
                # A server that takes no such body says so, and closes, before all of it has come.
                with contextlib.suppress(OSError, http.client.HTTPException):
                    response = connection.getresponse()
                    if response.status >= 400:
                        return response
                raise
            return connection.getresponse()

    def _whole(self, response: http.client.HTTPResponse) -> bytes:
        # Without an amount where a length is given: only then a body that is cut off is found.
        length = response.length
        content = response.read(LONGEST_ANSWER + 1) if length is None else b""
        if (length or len(content)) > LONGEST_ANSWER:
            raise http.client.HTTPException(f"the answer is longer than {LONGEST_ANSWER} bytes")
        return content if length is None else response.read()

    def _open(self, connection: http.client.HTTPConnection) -> None:
        with self._site.opening():
            connection.connect()

    def _lease(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                if not self._idle:
                    return self._site.connection()
                connection = self._idle.pop()
            if not is_stale(connection.sock):
                return connection
            connection.close()

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < _KEPT:
                self._idle.append(connection)
                return
        connection.close()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.lower() or type(error).__name__


def is_stale(sock: socket.socket | None) -> bool:
    """Report whether the server has closed an idle connection."""
    # Nothing is due on an idle connection. If it is readable, the server has closed it, and a request sent on it
    # would be lost in a way that looks the same as a request that was carried out.
    if sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))
