"""The thread that reads the take stream, and opens it anew when it ends."""

from __future__ import annotations

import datetime
import os
import random
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from anew.client import Client, JobView, TakeStream
from anew.client.waiting import USUAL, Waits
from anew.errors import AnewError, InternalError, Unavailable

RECONNECT: Final = Waits(USUAL | {"limit": None})
"""Waits between tries to reach the server, for as long as it takes."""

_JOIN_S: Final = 2.0
"""How long the feed's thread may take to end."""

PASSING: Final = (Unavailable, InternalError)
"""What is worth another try: no answer, a server that is busy or full, or one that made a mistake."""


def retry_wait_ms(
    retry: int, error: AnewError | None = None, rng: Callable[[], float] = random.random
) -> int:
    """Give the wait before another try, in milliseconds: the policy's, or the longer one that the server asked for.

    Args:
        retry: 1 for the first.
        error: What the last try met.
        rng: Gives numbers in [0, 1).
    """
    wait_ms = RECONNECT.before(retry, error, rng)
    assert wait_ms is not None, "a policy without limit always waits"
    return wait_ms


@dataclass(frozen=True, slots=True)
class Connected:
    """The stream is open."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The server is there, and had nothing to deliver when it sent this."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A job, held for us as long as the stream is open."""

    job: JobView


@dataclass(frozen=True, slots=True)
class Lost:
    """The stream has ended, or did not open.

    Attributes:
        error: Why; None if the server ended it.
        wait_ms: Until the next try; None if there will be none.
    """

    error: AnewError | None
    wait_ms: int | None


FeedMessage = Connected | Heartbeat | Delivered | Lost


class Feed:
    """Turns the stream into messages.

    Args:
        client: The server's client.
        deliver: Called by the feed's thread with each `Connected`, `Heartbeat`, `Delivered` and `Lost`, in their order.
        queues: Take from these; none means all.
        prefetch: Most jobs held at once.
        idle_timeout_ms: Longest silence before the stream counts as broken.
        wait_for_server: Whether a server that cannot be reached at first is waited for.
        worker_id: What the server's log calls it; None: this machine and process.
        interruption_limit: See `Client.take`.
    """

    def __init__(
        self,
        client: Client,
        deliver: Callable[[FeedMessage], None],
        *,
        queues: Iterable[str],
        prefetch: int,
        idle_timeout_ms: int,
        wait_for_server: bool,
        worker_id: str | None = None,
        interruption_limit: int | None = None,
    ) -> None:
        self._client, self._deliver = client, deliver
        self._queues, self._prefetch = tuple(queues), prefetch
        self._idle_timeout = datetime.timedelta(milliseconds=idle_timeout_ms)
        self._wait_for_server = wait_for_server
        self._worker_id = worker_id or f"{socket.gethostname()}:{os.getpid()}"
        self._interruption_limit = interruption_limit
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._stream: TakeStream | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._read, name="feed", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def finish(self) -> None:
        """Keep the stream that is open, since it holds the running jobs, but open no other one."""
        self._ending.set()

    def close(self) -> None:
        """Close the stream: what it holds returns to the queue."""
        self._ending.set()
        with self._lock:
            self._closed = True
            if self._stream is not None:
                self._stream.close()
        self._thread.join(_JOIN_S)

    def _read(self) -> None:
        retry = 0
        reached = self._wait_for_server
        while True:
            error: AnewError | None = None
            try:
                for message in self._messages():
                    self._deliver(message)
                    retry, reached = 0, True
            except AnewError as caught:
                error = caught
            if self._ending.is_set() or (error and not (reached and isinstance(error, PASSING))):
                self._deliver(Lost(error, None))
                return
            retry += 1
            wait_ms = retry_wait_ms(retry, error)
            self._deliver(Lost(error, wait_ms))
            self._ending.wait(wait_ms / 1000)

    def _messages(self) -> Iterable[Connected | Heartbeat | Delivered]:
        if self._ending.is_set():
            return
        stream = self._client.take(
            self._queues,
            prefetch=self._prefetch,
            worker_id=self._worker_id,
            idle_timeout=self._idle_timeout,
            interruption_limit=self._interruption_limit,
        )
        with self._lock:
            self._stream = stream
            if self._closed:
                stream.close()
        with stream:
            yield Connected()
            for job in stream.events():
                yield Heartbeat() if job is None else Delivered(job)
