"""The take stream: jobs as they come, heartbeats in between, and a sure end."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final

from anew.client.transport import LONGEST_ANSWER
from anew.client.views import JobView, read_job
from anew.client.waiting import Waits
from anew.errors import AnewError, Unavailable, Unreachable
from anew.units import format_duration

_READ: Final = 1 << 16


class Jobs:
    """The jobs and heartbeats of a take stream, read from its bytes however they are cut; a test feeds it by hand."""

    def __init__(self) -> None:
        self._rest = bytearray()  # of a line that has not ended

    def feed(self, data: bytes) -> list[JobView | None]:
        """Add bytes and give what is complete now: each job, and None for each heartbeat.

        Raises:
            Unreachable: A line is too long, or is no job.
        """
        end = data.rfind(b"\n")
        if end < 0:
            self._rest += data
            if len(self._rest) > LONGEST_ANSWER:
                raise Unreachable(f"the stream has a line of more than {LONGEST_ANSWER} bytes")
            return []
        whole = bytes(self._rest) + data[:end]
        self._rest = bytearray(data[end + 1 :])
        lines = [line.removesuffix(b"\r") for line in whole.split(b"\n")]
        return [read_job(line) if line else None for line in lines]

    def end(self) -> None:
        """Note that the server has ended the stream.

        Raises:
            Unreachable: It has done so inside a job.
        """
        if self._rest:
            raise Unreachable("the stream ended inside a job")


Opened = tuple[http.client.HTTPConnection, socket.socket, http.client.HTTPResponse]


class TakeStream:
    """An open take stream; use it as a context manager.

    As long as it is open, its jobs are held for this client. When it closes or breaks, those not settled yet return to
    the queue at once. `close` may be called by another thread and ends an iteration that waits.

    Args:
        open_one: Opens a stream: its connection, the connection's socket, and the answer, head read.
        idle_timeout_ms: Longest silence; heartbeats count as signs of life.
        retry: Says when a stream that ended is opened again; None: never.

    Attributes:
        opened: How often it has been opened.
    """

    def __init__(
        self, open_one: Callable[[], Opened], idle_timeout_ms: int, retry: Waits | None = None
    ) -> None:
        self._open_one, self._retry = open_one, retry
        self._idle_timeout_ms = idle_timeout_ms
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self.opened = 0
        self._connection, self._sock, self._response = self._open_one()
        self._begin()

    def __enter__(self) -> TakeStream:
        """Give the stream itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __iter__(self) -> Iterator[JobView]:
        """Give each job as it comes, until the stream ends.

        Raises:
            AnewError: As for `events`.
        """
        return (job for job in self.events() if job is not None)

    def events(self) -> Iterator[JobView | None]:
        """Give each job as it comes, and None for each heartbeat.

        Returns normally when it is closed here; and without a policy also when the server ends the stream.

        Raises:
            Unreachable: The connection broke, went silent for too long, or ended inside a job, and there is no other try.
            AnewError: The server refuses to open another stream.
        """
        retry, broken = 0, False
        while not self._closing.is_set():
            error: AnewError | None = None
            try:
                if broken:
                    self._open_again()
                for event in self._events():
                    retry = 0
                    yield event
            except Unavailable as caught:
                error = caught
            if self._closing.is_set():
                return
            retry, broken = retry + 1, True
            wait_ms = None if self._retry is None else self._retry.before(retry, error)
            if wait_ms is None:
                if error is not None:
                    raise error
                return
            self._closing.wait(wait_ms / 1000)

    def close(self) -> None:
        """Close the connection; jobs of this stream that are not settled return to the queue."""
        self._closing.set()
        # Shutting down wakes a thread that waits in a read. What it reads from stays whole until it has left.
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._connection.close()

    def _open_again(self) -> None:
        self._connection.close()
        opened = self._open_one()
        with self._lock:
            self._connection, self._sock, self._response = opened
            self._begin()
            if self._closing.is_set():  # meanwhile: `close` has not seen this one
                self._connection.close()

    def _begin(self) -> None:
        self._sock.settimeout(self._idle_timeout_ms / 1000)
        self.opened += 1

    def _events(self) -> Iterator[JobView | None]:
        jobs = Jobs()
        while data := self._read():
            yield from jobs.feed(data)
        if not self._closing.is_set():
            jobs.end()

    def _read(self) -> bytes:
        with self._lock:
            return b"" if self._closing.is_set() else self._read_some()

    def _read_some(self) -> bytes:
        try:
            return self._response.read1(_READ)
        except (OSError, ValueError, http.client.HTTPException) as error:
            if self._closing.is_set():
                return b""
            raise broken_stream(error, self._idle_timeout_ms) from error


def broken_stream(error: Exception, idle_timeout_ms: int) -> Unreachable:
    """Give the error that a failed read of a stream means."""
    if isinstance(error, TimeoutError):
        return Unreachable(f"the stream was silent for {format_duration(idle_timeout_ms)}")
    if isinstance(error, http.client.IncompleteRead | EOFError):
        return Unreachable("the stream broke: the server closed the connection")
    return Unreachable(f"the stream broke ({str(error) or type(error).__name__})")
