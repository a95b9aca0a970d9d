"""The take stream: jobs as they come, heartbeats in between, and a sure end."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Final

from anew.client.views import JobView, read_job
from anew.errors import Unreachable
from anew.units import format_duration

_READ: Final = 1 << 16


class Lines:
    """Cuts a byte stream into lines; a test feeds it by hand."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes and give the lines that are complete now, without their ends."""
        end = data.rfind(b"\n")
        if end < 0:
            self._rest += data
            return []
        whole = bytes(self._rest) + data[:end]
        self._rest = bytearray(data[end + 1 :])
        return [line.removesuffix(b"\r") for line in whole.split(b"\n")]

    @property
    def pending(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._rest)


class TakeStream:
    """An open take stream; use it as a context manager.

    As long as it is open, its jobs are held for this client. When it closes, those not settled yet return to
    the queue at once. `close` may be called by another thread and ends an iteration that waits.

    Args:
        connection: The connection that it owns.
        sock: Its socket.
        response: The answer, head read.
        idle_timeout_ms: Longest silence; heartbeats count as signs of life.
    """

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        sock: socket.socket,
        response: http.client.HTTPResponse,
        idle_timeout_ms: int,
    ) -> None:
        self._connection, self._sock, self._response = connection, sock, response
        self._idle_timeout_ms = idle_timeout_ms
        self._closed = False
        self._lock = threading.Lock()
        sock.settimeout(idle_timeout_ms / 1000)

    def __enter__(self) -> TakeStream:
        """Give the stream itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __iter__(self) -> Iterator[JobView]:
        """Give each job as it comes, until the stream ends.

        Raises:
            Unreachable: As for `events`.
        """
        return (job for job in self.events() if job is not None)

    def events(self) -> Iterator[JobView | None]:
        """Give each job as it comes, and None for each heartbeat.

        Returns normally when the server ends the stream or when it is closed here.

        Raises:
            Unreachable: The connection broke, went silent for too long, or ended inside a job.
        """
        lines = Lines()
        while data := self._read():
            for line in lines.feed(data):
                yield read_job(line) if line else None
        if lines.pending and not self._closed:
            raise Unreachable("the stream ended inside a job")

    def close(self) -> None:
        """Close the connection; jobs of this stream that are not settled return to the queue."""
        self._closed = True
        # Shutting down wakes a thread that waits in a read. What it reads from stays whole until it has left.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._connection.close()

    def _read(self) -> bytes:
        with self._lock:
            return b"" if self._closed else self._read_some()

    def _read_some(self) -> bytes:
        try:
            return self._response.read1(_READ)
        except (OSError, ValueError, http.client.HTTPException) as error:
            if self._closed:
                return b""
            raise Unreachable(self._reason(error)) from error

    def _reason(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"the stream was silent for {format_duration(self._idle_timeout_ms)}"
        if isinstance(error, http.client.IncompleteRead):
            return "the stream broke: the server closed the connection"
        return f"the stream broke ({str(error) or type(error).__name__})"
