"""Asks a server by the Faktory Work Protocol how it is; works with Anew and with Faktory itself."""

from __future__ import annotations

import json
import re
import socket
import ssl
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from anew.client.transport import Path, tls_context
from anew.errors import InvalidInput, Unauthorized, Unreachable
from anew.units import format_duration

DEFAULT_PORT: Final = 7419
_LONGEST: Final = 16 << 20
"""Bytes of a reply that are read: an INFO names every queue."""
_MOST_ROUNDS: Final = 1 << 16
"""Rounds of hashing that are done for a server; it asks for 8,095 at most."""


class FwpClient:
    """One connection of a producer.

    Args:
        url: ``tcp://[:PASSWORD@]HOST[:PORT]``, or ``tcp+tls://``.
        password: For an address that has none in it.
        ca, cert, key: Files in PEM form, as for `tls_context`, for a ``tcp+tls`` address.
        timeout_ms: Longest wait for the connection, and for any reply.

    Attributes:
        address: The address without the password.

    Raises:
        InvalidInput: The address does not fit.
        InvalidConfig: One of the files cannot be used.
        Unreachable: Nothing there speaks the protocol.
        Unauthorized: The server asks for a password, or for another one.
    """

    def __init__(
        self,
        url: str,
        *,
        password: str = "",
        timeout_ms: int = 5_000,
        ca: Path | None = None,
        cert: Path | None = None,
        key: Path | None = None,
    ) -> None:
        scheme, host, port, own = _parts(url)
        context = tls_context(ca, cert, key, alpn=()) if scheme == "tcp+tls" else None
        self.address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        self._timeout_ms = timeout_ms
        self._buffer = b""
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_ms / 1000)
        except OSError as error:
            raise Unreachable(f"nothing listens at {self.address} ({_reason(error)})") from error
        try:
            if context is not None:
                self._socket = self._secured(context, host)
            self._greet(own or password)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> FwpClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def info(self) -> dict[str, Any]:
        """Give what the server says of itself, its queues and its sets.

        Raises:
            Unreachable: It does not answer as the protocol says.
        """
        found = self._json(self._ask("INFO"))
        if not isinstance(found.get("faktory"), dict) or not isinstance(found.get("server"), dict):
            raise self._foreign()
        return found

    def _greet(self, password: str) -> None:
        greeting = re.fullmatch(rb"\+HI (\{.*\})", self._line())
        if greeting is None:
            raise self._foreign()
        asked = self._json(greeting[1])
        hello: dict[str, Any] = {"v": 2}
        if "s" in asked:
            if not password:
                raise Unauthorized(f"{self.address} asks for a password")
            rounds = asked.get("i")
            if not isinstance(rounds, int) or not 0 < rounds <= _MOST_ROUNDS:
                raise self._foreign()
            hello["pwdhash"] = _hashed(password, str(asked["s"]), rounds)
        answer = self._ask("HELLO " + json.dumps(hello))
        if answer == b"-ERR Invalid password":
            raise Unauthorized(f"{self.address} does not know this password")
        if answer != b"+OK":
            raise self._foreign()

    def _ask(self, line: str) -> bytes:
        try:
            self._socket.sendall(line.encode() + b"\r\n")
        except OSError as error:
            raise Unreachable(f"{self.address} closed the connection ({_reason(error)})") from error
        return self._reply()

    def _reply(self) -> bytes:
        """Give a reply: the content of a bulk, any other as its line."""
        line = self._line()
        if line[:1] != b"$":
            return line
        if not re.fullmatch(rb"\$\d{1,9}", line) or int(line[1:]) > _LONGEST:
            raise self._foreign()
        size = int(line[1:])
        while len(self._buffer) < size + 2:
            self._read()
        content, self._buffer = self._buffer[:size], self._buffer[size + 2 :]
        return content

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > 1 << 16:
                raise self._foreign()
            self._read()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _read(self) -> None:
        try:
            chunk = self._socket.recv(1 << 16)
        except TimeoutError as error:
            raise Unreachable(
                f"no answer from {self.address} within {format_duration(self._timeout_ms)}; does it speak the "
                "Faktory Work Protocol there?"
            ) from error
        except OSError as error:
            raise Unreachable(f"{self.address} closed the connection ({_reason(error)})") from error
        if not chunk:
            raise Unreachable(f"{self.address} closed the connection before it answered")
        self._buffer += chunk

    def _json(self, content: bytes) -> dict[str, Any]:
        try:
            found = json.loads(content)
        except ValueError as error:
            raise self._foreign() from error
        if not isinstance(found, dict):
            raise self._foreign()
        return found

    def _foreign(self) -> Unreachable:
        return Unreachable(f"what answers at {self.address} does not speak the Faktory Work Protocol")

    def _secured(self, context: ssl.SSLContext, host: str) -> socket.socket:
        try:
            return context.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            raise Unreachable(f"no secure connection to {self.address} ({_reason(error)})") from error


def _hashed(password: str, salt: str, rounds: int) -> str:
    digest = (password + salt).encode()
    for _ in range(rounds):
        digest = sha256(digest).digest()
    return digest.hex()


def _parts(url: str) -> tuple[str, str, int, str]:
    """Split an address into scheme, host, port and password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORT
    except ValueError:
        host = ""
    # The address may hold a password, so it is not repeated.
    if not host or parts.scheme not in ("tcp", "tcp+tls"):
        http = "; anew health asks an HTTP address" if url.startswith(("http://", "https://")) else ""
        expected = "tcp://HOST:PORT or tcp://:PASSWORD@HOST:PORT"
        raise InvalidInput(f"the address is not valid; expected {expected}{http}", field="url")
    return parts.scheme, host, port, unquote(parts.password or "")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
