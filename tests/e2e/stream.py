"""Reader of take streams in all three framings, with deadlines."""

from __future__ import annotations

import json
import select
import time
from collections import deque
from typing import Any

import msgspec

from .wire import Headers, Wire, WireError, request_bytes

NDJSON = "application/x-ndjson"
MSGPACK_STREAM = "application/vnd.zizq.msgpack-stream"
SSE = "text/event-stream"

HEARTBEAT = None
"""What ``next_message`` returns for a heartbeat."""


class TakeStream:
    """A ``GET /jobs/take`` in progress.

    Opening waits for the response's head alone, as clients with a short header time-out do.

    Args:
        wire: Connection to use; it is closed with the stream.
        target: Path and query; None when the request was sent already.
        accept: ``Accept`` header; None sends none, which asks for NDJSON.
        headers: Further request headers.
        version: HTTP version of the request.
    """

    def __init__(
        self,
        wire: Wire,
        target: str | None,
        *,
        accept: str | None = None,
        headers: Headers = (),
        version: str = "HTTP/1.1",
    ) -> None:
        self.wire = wire
        self.ended = False
        self.clean = False
        self._raw = bytearray()
        self._content = bytearray()
        self._messages: deque[dict[str, Any] | None] = deque()
        if target is not None:
            lines = [*headers] if accept is None else [*headers, ("accept", accept)]
            wire.send(request_bytes("GET", target, headers=lines, version=version))
        self.response = wire.read_head()
        self._chunked = self.response.header("transfer-encoding") == "chunked"
        self._parse = {MSGPACK_STREAM: _frame, SSE: _event}.get(self.response.content_type or "", _line)

    def __enter__(self) -> TakeStream:
        assert self.response.status == 200, self.response
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stream from this side; the server returns its jobs to their queue."""
        self.wire.close()

    def fileno(self) -> int:
        """The descriptor, for ``select``."""
        return self.wire.fileno()

    def next_message(self, *, within_s: float | None = None) -> dict[str, Any] | None:
        """The next job, or None for a heartbeat. Raises ``WireError`` at the end of the stream."""
        deadline = time.monotonic() + (within_s or self.wire.timeout_s)
        while not self._messages:
            if self.ended:
                raise WireError("the stream has ended")
            self._feed(self.wire.receive(deadline))
        return self._messages.popleft()

    def next_job(self, *, within_s: float | None = None) -> dict[str, Any]:
        """The next job, heartbeats skipped."""
        deadline = time.monotonic() + (within_s or self.wire.timeout_s)
        while True:
            message = self.next_message(within_s=max(deadline - time.monotonic(), 0.001))
            if message is not HEARTBEAT:
                return message

    def next_jobs(self, count: int) -> list[dict[str, Any]]:
        """The next ``count`` jobs."""
        return [self.next_job() for _ in range(count)]

    def expect_idle(self, *, beats: int = 2) -> None:
        """Insist that nothing is offered: two heartbeats span at least one whole interval without a job."""
        for _ in range(beats):
            message = self.next_message()
            assert message is HEARTBEAT, f"unexpected job {message}"

    def arrived(self) -> list[dict[str, Any]]:
        """The jobs that have come so far, without waiting."""
        while not self.ended and (self.wire.buffered or select.select([self.wire], [], [], 0)[0]):
            self._feed(self.wire.receive(time.monotonic() + 1))
        jobs = [message for message in self._messages if message is not HEARTBEAT]
        self._messages.clear()
        return jobs

    def read_end(self) -> list[dict[str, Any]]:
        """Read to the end of the stream and return the jobs that still came."""
        deadline = time.monotonic() + self.wire.timeout_s
        while not self.ended:
            self._feed(self.wire.receive(deadline))
        return self.arrived()

    def _feed(self, data: bytes) -> None:
        if not data:
            self.ended = True
            self.clean = self.clean or not self._chunked
            return
        if self._chunked:
            self._raw += data
            self._unchunk()
        else:
            self._content += data
        while (found := self._parse(self._content)) is not None:
            size, message = found
            del self._content[:size]
            self._messages.append(message)

    def _unchunk(self) -> None:
        while (line_end := self._raw.find(b"\r\n")) >= 0:
            size = int(self._raw[:line_end], 16)
            end = line_end + 2 + size + 2
            if len(self._raw) < end:
                return
            self._content += self._raw[line_end + 2 : end - 2]
            del self._raw[:end]
            if size == 0:
                self.ended = self.clean = True
                return


Found = tuple[int, dict[str, Any] | None] | None
"""Bytes used and the message, or None while it is incomplete."""


def _line(content: bytearray) -> Found:
    end = content.find(b"\n")
    if end < 0:
        return None
    return end + 1, json.loads(content[:end]) if end else HEARTBEAT


def _frame(content: bytearray) -> Found:
    if len(content) < 4:
        return None
    end = 4 + int.from_bytes(content[:4], "big")
    if len(content) < end:
        return None
    return end, msgspec.msgpack.decode(content[4:end]) if end > 4 else HEARTBEAT


def _event(content: bytearray) -> Found:
    end = content.find(b"\n\n")
    if end < 0:
        return None
    event = bytes(content[:end])
    if event == b": heartbeat":
        return end + 2, HEARTBEAT
    if not event.startswith(b"data: ") or b"\n" in event:
        raise WireError(f"not an event of this API: {event!r}")
    return end + 2, json.loads(event[len(b"data: ") :])
