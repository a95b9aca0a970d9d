"""The loader's HTTP/1.1: prebuilt requests out, answers found by their length. As cheap as can be."""

import asyncio
import json
from collections.abc import Callable
from time import perf_counter_ns

HOST = "127.0.0.1"
_LENGTH = b"content-length:"
_ID = b'{"id":"'


class LoadError(Exception):
    """The server did what no load should meet; the run is void."""


class NotServed(Exception):
    """The server has no such route."""


def request(method: str, path: str, body: bytes | None = None, accept: str = "application/json") -> bytes:
    """Build a request's bytes once, to be sent many times."""
    head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nAccept: {accept}\r\n"
    if body is not None:
        head += "Content-Type: application/json\r\n"
    if method == "POST":
        head += f"Content-Length: {len(body or b'')}\r\n"
    return head.encode() + b"\r\n" + (body or b"")


class Caller(asyncio.Protocol):
    """One kept connection with one request under way.

    Args:
        answered: Called with the caller, the status and the body of each answer.
        lost: Called once with the reason if the connection ends under us.
    """

    def __init__(self, answered: Callable[["Caller", int, bytes], None], lost: Callable[[str], None]) -> None:
        self._answered = answered
        self._lost = lost
        self._held = b""
        self.started = 0
        self.carried: list[bytes] = []
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def send(self, data: bytes, started: int = 0) -> None:
        """Send a request; its latency counts from `started`, by default from now."""
        self.started = started or perf_counter_ns()
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self._held:
            data = self._held + data
        head = data.find(b"\r\n\r\n")
        if head < 0:
            self._held = data
            return
        status = int(data[9:12])
        end = head + 4 + (0 if status == 204 else _length(data, head))
        if len(data) < end:
            self._held = data
            return
        self._held = b""
        self._answered(self, status, data[head + 4 : end])

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(f"the server closed a connection: {exc}")


def _length(data: bytes, head: int) -> int:
    at = data.find(_LENGTH, 0, head)
    if at < 0:
        at = data[:head].lower().find(_LENGTH)
    if at < 0:
        raise LoadError(f"an answer without Content-Length: {data[:head]!r}")
    return int(data[at + len(_LENGTH) : data.index(b"\r\n", at)])


class TakeStream(asyncio.Protocol):
    """One take stream (chunked NDJSON); hands over the jobs as they come.

    Args:
        queue: The queue to take from, or several separated by commas; "" takes from all.
        prefetch: Most jobs to hold.
        took: Called with each job's line.
        lost: Called once with the reason if the stream ends under us.
        opened: Called once when the server has answered that the stream is open.
    """

    def __init__(
        self,
        queue: str,
        prefetch: int,
        took: Callable[[list[bytes]], None],
        lost: Callable[[str], None],
        opened: Callable[[], None] | None = None,
    ) -> None:
        path = f"/jobs/take?prefetch={prefetch}" + (f"&queue={queue}" if queue else "")
        self._request = request("GET", path, accept="application/x-ndjson")
        self._took = took
        self._lost = lost
        self._opened = opened
        self._held = b""
        self._line = b""
        self._begun = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        at = 0
        if not self._begun:
            at = data.find(b"\r\n\r\n") + 4
            if at < 4:
                self._held = data
                return
            if data[9:12] != b"200":
                self._lost(f"a take was answered {data[:200]!r}")
                return
            self._begun = True
            if self._opened is not None:
                self._opened()
        parts = [self._line]
        while (eol := data.find(b"\r\n", at)) >= 0:
            end = eol + 2 + int(data[at:eol], 16)
            if len(data) < end + 2:
                break
            parts.append(data[eol + 2 : end])
            at = end + 2
        self._held = data[at:]
        lines = b"".join(parts).split(b"\n")
        self._line = lines.pop()
        if found := [line for line in lines if len(line) > 1]:
            self._took(found)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(f"the server closed a take stream: {exc}")


def job_id(line: bytes) -> bytes:
    """Find the id in a job's line."""
    if line.startswith(_ID):
        return line[7 : line.index(b'"', 7)]
    return str(json.loads(line)["id"]).encode()
