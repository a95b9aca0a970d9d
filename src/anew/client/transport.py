"""HTTP/1.1 to one server: connections that are kept and shared by threads, requests, answers."""

from __future__ import annotations

import contextlib
import http.client
import selectors
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from anew import __version__
from anew.client.failures import error_of
from anew.errors import AnewError, InvalidConfig, Unreachable
from anew.units import format_duration

_KEPT: Final = 8
"""Idle connections kept: more than this many threads seldom settle in the same moment."""


class Transport:
    """Connections to one server.

    Args:
        url: ``http://host:port`` or ``https://...``, with a path prefix if the server stands behind a proxy.
        token: Bearer token, or None.
        timeout_ms: Longest silence while an answer is waited for.

    Raises:
        InvalidConfig: The address is none.
    """

    def __init__(self, url: str, token: str | None, timeout_ms: int) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.query:
            raise InvalidConfig(
                f"url: {url!r} is not valid; expected an address such as http://127.0.0.1:7890",
                field="url",
                value=url,
            )
        self.url = url.rstrip("/")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._prefix = parts.path.rstrip("/")
        self._timeout_s = timeout_ms / 1000
        self._headers = {"Accept": "application/json", "User-Agent": f"anew/{__version__}"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def request(
        self, method: str, target: str, body: bytes | None = None, *, also: tuple[int, ...] = ()
    ) -> tuple[int, bytes]:
        """Send one request and read its answer.

        Args:
            method: HTTP method.
            target: Path and query, encoded.
            body: JSON, or None.
            also: Statuses to be returned beside 2xx.

        Returns:
            Status and body.

        Raises:
            Unreachable: There is no answer; a change that was asked for may or may not have happened.
            AnewError: What the server's refusal means.
        """
        connection = self._lease()
        try:
            response = self._send(connection, method, target, body)
            with self._told(target):
                content = response.read()
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        if 200 <= response.status < 300 or response.status in also:
            return response.status, content
        raise self._refusal(response, content, target)

    def open_stream(
        self, target: str, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPConnection, socket.socket, http.client.HTTPResponse]:
        """Open an endless answer on a connection of its own.

        Returns:
            The connection, to be closed by the caller, its socket, and the answer, head read.

        Raises:
            Unreachable: There is no answer.
            AnewError: What the server's refusal means.
        """
        connection = self._connection()
        try:
            self._open(connection)
            # Kept from here on: the connection forgets it where the answer has no end of its own.
            sock: socket.socket = connection.sock
            response = self._send(connection, "GET", target, None, headers)
            if response.status != 200:
                with self._told(target):
                    content = response.read()
                raise self._refusal(response, content, target)
        except BaseException:
            connection.close()
            raise
        return connection, sock, response

    def _refusal(self, response: http.client.HTTPResponse, content: bytes, target: str) -> AnewError:
        headers = {name.lower(): value for name, value in response.getheaders()}
        return error_of(response.status, response.reason, content, headers, target.partition("?")[0])

    def _connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=self._timeout_s)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        sent = self._headers | dict(headers or {})
        if body is not None:
            sent["Content-Type"] = "application/json"
        if connection.sock is None:
            self._open(connection)
        with self._told(target):
            connection.request(method, self._prefix + target, body=body, headers=sent)
            return connection.getresponse()

    def _open(self, connection: http.client.HTTPConnection) -> None:
        try:
            connection.connect()
        except ssl.SSLError as error:
            raise Unreachable(f"no secure connection to {self.url}: {error}") from error
        except OSError as error:
            raise Unreachable(f"no server at {self.url} ({_reason(error)})") from error

    def _lease(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                if not self._idle:
                    return self._connection()
                connection = self._idle.pop()
            if not _is_stale(connection.sock):
                return connection
            connection.close()

    def _give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._idle) < _KEPT:
                self._idle.append(connection)
                return
        connection.close()

    @contextlib.contextmanager
    def _told(self, target: str) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            wait = format_duration(round(self._timeout_s * 1000))
            raise Unreachable(f"no answer from {self.url} within {wait}") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"{self.url} hung up before its answer to {target.partition('?')[0]} ({_reason(error)}); "
                "what was asked for may or may not have been done"
            ) from error


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.lower() or type(error).__name__


def _is_stale(sock: socket.socket | None) -> bool:
    # An idle connection has nothing to say. If it is readable, the server has closed it, and a request sent
    # on it would be lost in a way that nobody can tell from a request that was carried out.
    if sock is None:
        return True
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))
