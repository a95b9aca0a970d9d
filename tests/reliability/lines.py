"""Connections of a client that offers load: cheap enough not to be what is measured, over HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import hpack

from .wire import Address, encode, parse_head

SO_TIMESTAMPNS = 35
"""Have the kernel say when it took in what is read (socket(7); Python has no name for it)."""

READ_SIZE = 16 << 10
"""Little, so that few answers share one time."""

SILENCE_S = 30
STREAMS = 200
"""Requests under way on one HTTP/2 connection: what the server allows."""


class Facts(NamedTuple):
    """What a head says."""

    status: int
    again: bool
    size: int


class Answer(NamedTuple):
    """One answer, and when its request was due and sent, epoch nanoseconds."""

    due: int
    sent: int
    facts: Facts
    body: bytes


def facts_of(headers: Iterable[tuple[str, str]], status: int) -> Facts:
    """Give the status, whether it says when to come again, and the size of the body."""
    named = dict(headers)
    return Facts(status, int(named.get("retry-after", 0)) >= 1, int(named.get("content-length", 0)))


class Line(ABC):
    """One connection.

    Args:
        address: Where the server listens.
        body: Of each request, which enqueues one job.
    """

    def __init__(self, address: Address, body: object) -> None:
        self.socket = socket.create_connection(address, timeout=SILENCE_S)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.request = encode("POST", "/jobs", body)
        self._unsent = bytearray()
        self._unread = b""
        self._facts: dict[bytes, Facts] = {}

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether answers are still to come."""

    @abstractmethod
    def send(self, due: Iterable[int]) -> None:
        """Send one request for each of these instants."""

    @abstractmethod
    def _take(self, data: bytes, answers: list[Answer]) -> int:
        """Take whole answers off the front; give how many bytes they were."""

    def send_rest(self) -> None:
        """Send what fits of what did not."""
        if self._unsent:
            with contextlib.suppress(BlockingIOError):
                del self._unsent[: self.socket.send(self._unsent)]

    def read(self) -> tuple[list[Answer], int]:
        """Give what has come, and when the kernel took the last of it in; 0 if nothing has."""
        try:
            data, extra, _, _ = self.socket.recvmsg(READ_SIZE, 64)
        except BlockingIOError:
            return [], 0
        if not data:
            raise ConnectionError("the server hung up")
        at = time.time_ns()
        for level, kind, value in extra:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, ns = struct.unpack("qq", value)
                at = seconds * 1_000_000_000 + ns
        answers: list[Answer] = []
        data = self._unread + data
        self._unread = data[self._take(data, answers) :]
        return answers, at


class Http1Line(Line):
    """One connection of HTTP/1.1; what is due while an answer is missing is sent behind it."""

    def __init__(self, address: Address, body: object) -> None:
        super().__init__(address, body)
        self._under_way: deque[tuple[int, int]] = deque()

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    def send(self, due: Iterable[int]) -> None:
        now = time.time_ns()
        for at in due:
            self._under_way.append((at, now))
            self._unsent += self.request
        self.send_rest()

    def _take(self, data: bytes, answers: list[Answer]) -> int:
        begin = 0
        while (end := data.find(b"\r\n\r\n", begin)) >= 0:
            head = data[begin:end]
            facts = self._facts.get(head)
            if facts is None:
                status, headers = parse_head(head)
                facts = self._facts[head] = facts_of(headers.items(), status)
            after = end + 4 + facts.size
            if len(data) < after:
                break
            answers.append(Answer(*self._under_way.popleft(), facts, data[end + 4 : after]))
            begin = after
        return begin


class Http2Line(Line):
    """One connection of HTTP/2 by prior knowledge; a request that finds no free stream waits for one."""

    def __init__(self, address: Address, body: object) -> None:
        super().__init__(address, body)
        data = self.request.partition(b"\r\n\r\n")[2]
        names = {":method": "POST", ":scheme": "http", ":path": "/jobs", ":authority": "127.0.0.1"}
        block = b"".join(literal(name, value) for name, value in names.items())
        block += literal("content-type", "application/json")
        self._frames = (frame(1, 4, 0, block)[:5], block + frame(0, 1, 0, data)[:5], data)
        self._decoder = hpack.Decoder()
        self._due: deque[int] = deque()
        self._under_way: dict[int, tuple[int, int]] = {}
        self._heads: dict[int, Facts] = {}
        self._next = 1
        wide = struct.pack(">HI", 4, (1 << 31) - 1)  # SETTINGS_INITIAL_WINDOW_SIZE: no window will bind
        self._unsent += b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, wide)
        self._unsent += frame(8, 0, 0, struct.pack(">I", (1 << 31) - 1 - 65_535))
        self.send_rest()

    @property
    def busy(self) -> bool:
        return bool(self._under_way or self._due)

    def send(self, due: Iterable[int]) -> None:
        self._due.extend(due)
        now = time.time_ns()
        before, between, data = self._frames
        while self._due and len(self._under_way) < STREAMS:
            stream = self._next.to_bytes(4, "big")
            self._under_way[self._next] = (self._due.popleft(), now)
            self._unsent += before + stream + between + stream + data
            self._next += 2
        self.send_rest()

    def _take(self, data: bytes, answers: list[Answer]) -> int:
        begin = 0
        while len(data) - begin >= 9:
            after = begin + 9 + int.from_bytes(data[begin : begin + 3], "big")
            if len(data) < after:
                break
            kind, flags, stream = (
                data[begin + 3],
                data[begin + 4],
                int.from_bytes(data[begin + 5 : begin + 9], "big"),
            )
            payload = data[begin + 9 : after]
            begin = after
            if kind == 1:
                facts = self._facts.get(payload)
                if facts is None:
                    headers = [(str(name), str(value)) for name, value in self._decoder.decode(payload)]
                    facts = self._facts[payload] = facts_of(headers, int(dict(headers)[":status"]))
                self._heads[stream] = facts
            elif kind == 0:
                assert flags & 1, "an answer's body comes in one frame"
                answers.append(Answer(*self._under_way.pop(stream), self._heads.pop(stream), payload))
            elif kind in (3, 7):
                raise ConnectionError(f"RST_STREAM or GOAWAY: {payload!r}")
        if answers and self._due:
            self.send(())
        return begin


def literal(name: str, value: str) -> bytes:
    """Write a field so that it enters no table (RFC 7541 section 6.2.2)."""
    return b"\0%c%b%c%b" % (len(name), name.encode(), len(value), value.encode())


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Write an HTTP/2 frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
