"""The verbs of a server's admin listener, and its live view."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

from anew.client import transport
from anew.client.refusals import error_of
from anew.client.transport import Site
from anew.errors import InvalidInput, Unreachable
from anew.units import shown

PIECE: Final = 256 << 10
"""Bytes of a backup that are read at a time."""

MOST: Final = 16 << 20
"""Bytes of a message of the live view."""

Message = dict[str, Any]


class AdminClient:
    """A client of one admin listener.

    Args:
        url: Its address.
        token: Bearer token, or None.
        timeout_ms: Longest wait for a connection, and for what is answered at once.
        ca, cert, key: See `transport.tls_context`.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        timeout_ms: int,
        *,
        ca: transport.Path | None = None,
        cert: transport.Path | None = None,
        key: transport.Path | None = None,
    ) -> None:
        self._site = Site(url, token, timeout_ms, ca=ca, cert=cert, key=key)

    @property
    def url(self) -> str:
        """Address of the listener."""
        return self._site.url

    def backup(self, target: Path) -> int:
        """Write a backup that the server makes to a file; give its bytes.

        Raises:
            InvalidInput: The file cannot be written.
            Unreachable: There is no server, or it has ended midway; the file is what it was.
            AnewError: It has refused.
        """
        unfinished = target.with_name(target.name + ".unfinished")
        try:
            with self._posted("/backup") as answer:
                target.parent.mkdir(parents=True, exist_ok=True)
                size = self._save(answer, unfinished)
            os.replace(unfinished, target)
            _sync_names_in(target.parent)
        except OSError as error:
            raise InvalidInput(f"{shown(str(target))} cannot be written: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
        return size

    def compact(self) -> None:
        """Have the server compact its store; comes back when that is done."""
        with self._posted("/compact") as answer:
            answer.read()

    def snapshot(self) -> Message:
        """Give what the live view shows first."""
        from websockets.sync.client import connect

        with self._watched():
            with self._site.opening():
                connection = connect(**self._handshake())
            with connection:
                message: Message = json.loads(connection.recv(timeout=self._site.timeout_s))
        return message

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[Any]:
        """Watch: gives a connection of the package `websockets`, whose messages are JSON."""
        from websockets.asyncio.client import connect

        with self._watched():
            with self._site.opening():
                connection = await connect(**self._handshake())
            async with connection:
                yield connection

    def _handshake(self) -> dict[str, Any]:
        site = self._site
        host = f"[{site.host}]" if ":" in site.host else site.host
        scheme = "ws" if site.tls is None else "wss"
        wanted = {name: value for name, value in site.headers.items() if name != "User-Agent"}
        return {
            "uri": f"{scheme}://{host}:{site.port}{site.prefix}/events",
            "ssl": site.tls,
            "additional_headers": wanted,
            "user_agent_header": site.headers["User-Agent"],
            "compression": None,
            "max_size": MOST,
            "open_timeout": site.timeout_s,
            "proxy": None,
        }

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Say what it means that nothing can be watched, or no longer."""
        from websockets.exceptions import InvalidStatus, WebSocketException

        try:
            with self._site.asking("/events"):
                yield
        except InvalidStatus as error:
            answer = error.response
            headers = {name.lower(): value for name, value in answer.headers.raw_items()}
            raise error_of(
                answer.status_code,
                answer.reason_phrase,
                bytes(answer.body or b""),
                headers,
                "/events",
                self.url,
            ) from error
        except WebSocketException as error:
            raise Unreachable(f"{self.url} shows nothing any more ({error})") from error

    @contextlib.contextmanager
    def _posted(self, path: str) -> Iterator[http.client.HTTPResponse]:
        """Send a request whose answer takes as long as it takes."""
        connection = self._site.connection()
        with self._site.opening():
            connection.connect()
        connection.sock.settimeout(None)
        with contextlib.closing(connection):
            with self._site.asking(path):
                self._site.write(connection, "POST", path, b"")
                answer = connection.getresponse()
            if answer.status >= 300:
                raise self._site.refusal(answer, answer.read(PIECE), path)
            yield answer

    def _save(self, answer: http.client.HTTPResponse, path: Path) -> int:
        size = 0
        with open(path, "wb", opener=_owner_only) as file:
            while piece := self._piece(answer):
                file.write(piece)
                size += len(piece)
            os.fsync(file.fileno())
        return size

    def _piece(self, answer: http.client.HTTPResponse) -> bytes:
        try:
            return answer.read(PIECE)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"{self.url} ended before its backup was whole; nothing was kept of it"
            ) from error


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _sync_names_in(folder: Path) -> None:
    """Have a new file's name last."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
