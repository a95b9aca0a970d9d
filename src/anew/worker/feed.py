"""The thread that reads the take stream, and opens it anew when it ends."""

from __future__ import annotations

import os
import queue
import random
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from anew.backoff import Draws, Policy, Wait, next_wait
from anew.client import Client, JobView, TakeStream
from anew.errors import AnewError, InternalError, Unavailable

RECONNECT: Final = Policy.from_json(
    {"preset": "aws_equal", "base": "250ms", "cap": "10s"}, default_limit=None
)
"""Waits between tries to reach the server. Half of each is certain, so none is zero; half is chance, so that
workers which lost one server together do not come back together."""

_LAST_WORDS_S: Final = 2.0

PASSING: Final = (Unavailable, InternalError)
"""What is worth another try: no answer, a server that is busy or full, or one that made a mistake."""


def retry_wait_ms(retry: int, rng: Callable[[], float] = random.random) -> int:
    """Give the wait before another try, in milliseconds.

    Args:
        retry: 1 for the first.
        rng: Gives numbers in [0, 1).
    """
    wait = next_wait(RECONNECT, retry, Draws(rng=rng))
    assert isinstance(wait, Wait), "a policy without limit always waits"
    return wait.wait_ms


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


class Feed:
    """Turns the stream into messages.

    Args:
        client: The server's client.
        inbox: Where `Connected`, `Heartbeat`, `Delivered` and `Lost` go, in the order in which they happened.
        queues: Take from these; none means all.
        prefetch: Most jobs held at once.
        idle_timeout_ms: Longest silence before the stream counts as broken.
        patient: Whether a server that cannot be reached at first is waited for.
    """

    def __init__(
        self,
        client: Client,
        inbox: queue.SimpleQueue[object],
        *,
        queues: Iterable[str],
        prefetch: int,
        idle_timeout_ms: int,
        patient: bool,
    ) -> None:
        self._client, self._inbox = client, inbox
        self._queues, self._prefetch = tuple(queues), prefetch
        self._idle_timeout_ms, self._patient = idle_timeout_ms, patient
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._stream: TakeStream | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="feed", daemon=True)

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
        self._thread.join(_LAST_WORDS_S)

    def _work(self) -> None:
        retry = 0
        reached = self._patient
        while True:
            error: AnewError | None = None
            try:
                for message in self._messages():
                    self._inbox.put(message)
                    retry, reached = 0, True
            except AnewError as caught:
                error = caught
            if self._ending.is_set() or (error and not (reached and isinstance(error, PASSING))):
                self._inbox.put(Lost(error, None))
                return
            retry += 1
            wait_ms = retry_wait_ms(retry)
            self._inbox.put(Lost(error, wait_ms))
            self._ending.wait(wait_ms / 1000)

    def _messages(self) -> Iterable[Connected | Heartbeat | Delivered]:
        if self._ending.is_set():
            return
        stream = self._client.take(
            self._queues,
            prefetch=self._prefetch,
            worker_id=f"{socket.gethostname()}:{os.getpid()}",
            idle_timeout_ms=self._idle_timeout_ms,
        )
        with self._lock:
            self._stream = stream
            if self._closed:
                stream.close()
        with stream:
            yield Connected()
            for job in stream.events():
                yield Heartbeat() if job is None else Delivered(job)
