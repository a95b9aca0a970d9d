"""A raw connection that speaks the Faktory Work Protocol: lines out, typed replies in, a deadline on every read.

It hides no fault of a server: bytes that are no reply raise ``BadReply``, what does not come in time ``TimeoutError``.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 15.0
"""How long any single read may take: more than a FETCH that waits its 2 s on a busy machine."""

BULK_BYTES = 256 << 20
"""The longest bulk reply that is believed."""

HELLO: dict[str, Any] = {"v": 2}
"""What a producer without a password says."""


class BadReply(AssertionError):
    """The server's bytes are no reply of this protocol."""


class Closed(Exception):
    """The server has closed the connection."""


def target(url: str) -> tuple[str, int]:
    """Host and port of ``tcp://[:password@]host:port``."""
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 7419


def password_hash(password: str, salt: str, rounds: int) -> str:
    """What HELLO carries as ``pwdhash``, as lower-case hex."""
    digest = (password + salt).encode()
    for _ in range(rounds):
        digest = sha256(digest).digest()
    return digest.hex()


class FaktoryWire:
    """One connection; the greeting has been read when it is made.

    Args:
        url: The server; a password in it is not sent by itself.
        tls: What the connection is encrypted with; None: with nothing.

    Attributes:
        hi: The greeting's fields.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S, tls: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection(target(url), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=target(url)[0])
        self._buffer = b""
        try:
            self.greeting = self.read()
        except BaseException:
            self._socket.close()
            raise
        found = re.fullmatch(r"\+HI (\{.*\})", self.greeting)
        if found is None:
            raise BadReply(f"the greeting is {self.greeting!r}")
        self.hi: dict[str, Any] = json.loads(found[1])

    @classmethod
    def open(cls, url: str, *, tls: ssl.SSLContext | None = None, **hello: Any) -> FaktoryWire:
        """A connection that has said HELLO, with ``hello`` added to it."""
        wire = cls(url, tls=tls)
        password = urlsplit(url).password
        if "s" in wire.hi and password:
            hello["pwdhash"] = password_hash(password, wire.hi["s"], wire.hi["i"])
        wire.expect("HELLO " + json.dumps(HELLO | hello))
        return wire

    def __enter__(self) -> FaktoryWire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket without a word."""
        self._socket.close()

    def set_timeout(self, timeout_s: float) -> None:
        """Wait so long at most for anything from now on."""
        self._socket.settimeout(timeout_s)

    def send(self, line: str | bytes, end: bytes = b"\r\n") -> None:
        """Send one line and do not wait."""
        self._socket.sendall((line if isinstance(line, bytes) else line.encode()) + end)

    def read(self) -> str:
        """The next reply: a bulk as ``$`` and its text, the null bulk as ``$-1``, any other as its line.

        Raises:
            Closed: The connection ended before a reply began.
            BadReply: The bytes are no reply, or it ends in the middle.
            TimeoutError: None came in time.
        """
        line = self._line()
        if line[:1] in (b"+", b"-"):
            return line.decode("utf-8", "replace")
        size = re.fullmatch(rb"\$(-1|\d{1,12})", line)
        if size is None or int(size[1]) > BULK_BYTES:
            raise BadReply(f"no reply begins with {line[:200]!r}")
        if size[1] == b"-1":
            return "$-1"
        body = self._bytes(int(size[1]) + 2)
        if body[-2:] != b"\r\n":
            raise BadReply(f"a bulk of {size[1].decode()} bytes ends with {body[-20:]!r}")
        return "$" + body[:-2].decode("utf-8", "replace")

    def say(self, line: str | bytes) -> str:
        """Send one line and return its reply."""
        self.send(line)
        return self.read()

    def expect(self, line: str, reply: str = "+OK") -> None:
        """Send one line and insist on its reply."""
        got = self.say(line)
        if got != reply:
            raise BadReply(f"{line[:200]!r} is answered {got[:500]!r}, not {reply!r}")

    def ask(self, line: str) -> Any:
        """Send one line and return its bulk reply as JSON; None for the null bulk."""
        reply = self.say(line)
        if reply[:1] != "$":
            raise BadReply(f"{line[:200]!r} is answered {reply[:500]!r}, not by a bulk")
        return None if reply == "$-1" else json.loads(reply[1:])

    def _line(self) -> bytes:
        while (at := self._buffer.find(b"\r\n")) < 0:
            self._more("reply line")
        line, self._buffer = self._buffer[:at], self._buffer[at + 2 :]
        return line

    def _bytes(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more("bulk")
        body, self._buffer = self._buffer[:count], self._buffer[count:]
        return body

    def _more(self, what: str) -> None:
        try:
            chunk = self._socket.recv(1 << 16)
        except ConnectionResetError:
            chunk = b""
        if chunk:
            self._buffer += chunk
        elif self._buffer or what == "bulk":
            raise BadReply(f"the connection ends within a {what}: {self._buffer[-200:]!r}")
        else:
            raise Closed
