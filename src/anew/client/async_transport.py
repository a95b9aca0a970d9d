"""HTTP/1.1 to one server from an event loop: connections that are kept, requests, answers.

Requests are written and heads of answers are read by `http.client`, as for the client that blocks; only what waits is different.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import socket
from collections.abc import Mapping
from typing import Any, Final

from anew.client.transport import LONGEST_ANSWER, Site, is_stale

AT_ONCE: Final = 64
"""Connections for requests: what is more waits for one of them."""

_HEAD: Final = 1 << 16
"""Longest head of an answer, and longest line between its chunks, in bytes."""

_READ: Final = 1 << 16

_PIECE: Final = 1 << 16
"""Bytes of a request that are written at once."""


class Answer:
    """An answer whose head has been read. Cancelling a read loses nothing: the next one goes on there.

    Attributes:
        head: Status and headers.
    """

    def __init__(self, reader: asyncio.StreamReader, head: http.client.HTTPResponse) -> None:
        self._reader, self.head = reader, head
        self._left = 0 if head.chunked else head.length  # None: as much as comes until the connection ends
        self._ended = not head.chunked and head.length == 0
        self._in_trailer = False

    async def read(self) -> bytes:
        """Give the next bytes of the body; none at its end.

        Raises:
            EOFError: The connection ended first.
            HTTPException: What came is no HTTP.
        """
        if self.head.chunked and not self._left:
            await self._next_chunk()
        if self._ended:
            return b""
        data = await self._reader.read(_READ if self._left is None else min(_READ, self._left))
        if self._left is None:
            self._ended = not data
        elif not data:
            raise EOFError("the connection ended")
        else:
            self._left -= len(data)
            self._ended = not self.head.chunked and self._left == 0
        return data

    async def whole(self, silence_s: float) -> bytes:
        """Give the whole body.

        Raises:
            TimeoutError: Nothing came for so long.
            EOFError, HTTPException: As for `read`.
        """
        content = bytearray()
        while True:
            async with asyncio.timeout(silence_s):
                data = await self.read()
            if not data:
                return bytes(content)
            content += data
            if len(content) > LONGEST_ANSWER:
                raise http.client.HTTPException(f"the answer is longer than {LONGEST_ANSWER} bytes")

    async def _next_chunk(self) -> None:
        while not (self._left or self._ended):
            line = (await read_until(self._reader, b"\n")).strip()
            if self._in_trailer:
                self._ended = not line
            elif line:  # an empty one ends the chunk before
                size = line.partition(b";")[0].strip()
                if not size.isalnum():
                    raise http.client.HTTPException("a chunk has no length")
                try:
                    self._left = int(size, 16)
                except ValueError as error:
                    raise http.client.HTTPException("a chunk has no length") from error
                self._in_trailer = self._left == 0


class Connection:
    """One connection to a server.

    Attributes:
        is_cut_off: The answer came before all of its request was sent, and no more of that is: the connection is of no more use.
    """

    def __init__(self, site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._site, self._reader, self._writer = site, reader, writer
        self._pieces = 0  # that were sent of long requests
        self.is_cut_off = False

    @classmethod
    async def open(cls, site: Site) -> Connection:
        """Connect.

        Raises:
            NotSent: There is no server.
        """
        with site.opening():
            async with asyncio.timeout(site.timeout_s):
                return cls(
                    site, *await asyncio.open_connection(site.host, site.port, ssl=site.tls, limit=_HEAD)
                )

    @property
    def is_stale(self) -> bool:
        """Whether the server has closed it."""
        # The socket is asked as well: what has come to it the loop may not have seen yet.
        sock: socket.socket | None = self._writer.get_extra_info("socket")
        return self._writer.is_closing() or self._reader.at_eof() or is_stale(sock)

    def close(self) -> None:
        """Close it; nothing is waited for."""
        self._writer.transport.abort()

    async def ask(
        self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request and read the head of its answer.

        Raises:
            TimeoutError: Nothing came, and nothing left, for too long.
            OSError, EOFError, HTTPException: The connection broke, or what came is no HTTP.
        """
        request = _Request(self._site.host, self._site.port, secure=self._site.tls is not None)
        self._site.write(request, method, target, body, headers)
        self._writer.write(request.written[:_PIECE])
        rest = request.written[_PIECE:]
        sending = asyncio.ensure_future(self._send(rest)) if rest else None
        try:
            head = b"HTTP/1.1 1"
            while head[9:10] == b"1":  # what comes before the answer says nothing of it
                head = await self._next_head()
        finally:
            if sending is not None:
                self.is_cut_off = not sending.done()
                sending.cancel()
        response = http.client.HTTPResponse(_Head(head), method=method)  # type: ignore[arg-type]  # of a socket it needs one method
        response.begin()
        return Answer(self._reader, response)

    async def _send(self, rest: bytes) -> None:
        with contextlib.suppress(OSError):  # the reader meets it too
            for at in range(0, len(rest), _PIECE):
                await self._writer.drain()
                self._writer.write(rest[at : at + _PIECE])
                self._pieces += 1

    async def _next_head(self) -> bytes:
        # The head is read while the request is still being sent: a server that refuses a body answers and closes before it
        # has read all of it, and after a failed write the reader gives nothing.
        while True:
            sent = self._pieces
            try:
                async with asyncio.timeout(self._site.timeout_s):
                    return await read_until(self._reader, b"\r\n\r\n")
            except TimeoutError:
                if self._pieces == sent:
                    raise


class AsyncTransport:
    """Connections to one server, shared by the tasks of one event loop."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(AT_ONCE)

    def close(self) -> None:
        """Close the connections that are kept."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    async def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        *,
        also: tuple[int, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Send one request and read its answer; see `Transport.request`."""
        async with self._free:
            connection = await self._lease()
            try:
                with self._site.asking(target):
                    answer = await connection.ask(method, target, body, headers)
                    content = await answer.whole(self._site.timeout_s)
            except BaseException:  # a task that was cancelled too: nobody will read this answer
                connection.close()
                raise
            if answer.head.will_close or connection.is_cut_off:
                connection.close()
            else:
                self._idle.append(connection)
        if 200 <= answer.head.status < 300 or answer.head.status in also:
            return answer.head.status, content
        raise self._site.refusal(answer.head, content, target)

    async def open_stream(self, target: str, headers: Mapping[str, str]) -> tuple[Connection, Answer]:
        """Open an endless answer on a separate connection, to be closed by the caller; see `Transport.open_stream`."""
        connection = await Connection.open(self._site)
        try:
            with self._site.asking(target):
                answer = await connection.ask("GET", target, None, headers)
                if answer.head.status == 200:
                    return connection, answer
                content = await answer.whole(self._site.timeout_s)
            raise self._site.refusal(answer.head, content, target)
        except BaseException:
            connection.close()
            raise

    async def _lease(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_stale:
                return connection
            connection.close()
        return await Connection.open(self._site)


async def read_until(reader: asyncio.StreamReader, end: bytes) -> bytes:
    """Read up to an end, with it.

    Raises:
        EOFError: The connection ended first.
        HTTPException: It is too far.
    """
    try:
        return await reader.readuntil(end)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise http.client.BadStatusLine(error.partial[:100].decode("latin-1")) from error
        raise EOFError("the connection ended") from error
    except asyncio.LimitOverrunError as error:
        raise http.client.LineTooLong("head") from error


class _Request(http.client.HTTPConnection):
    """A connection that only keeps what is written to it."""

    def __init__(self, host: str, port: int, *, secure: bool) -> None:
        super().__init__(host, port)
        self.default_port = 443 if secure else 80  # which the header of the host leaves out
        self.written = b""

    def send(self, data: Any) -> None:
        self.written += data


class _Head:
    """A socket that holds the head of an answer."""

    def __init__(self, head: bytes) -> None:
        self._head = head

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._head)
