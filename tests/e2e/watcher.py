"""A client of `/events` that waits for what it is told, with a deadline."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

from .wire import TIMEOUT_S, Address

Message = dict[str, Any]


class Watcher:
    """One connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def say(self, **members: Any) -> None:
        """Send a message."""
        self.connection.send(json.dumps(members))

    def subscribe(self, of: str, anchor: Message, limit: int) -> None:
        """Ask for another window."""
        self.say(type="subscribe", list=of, anchor=anchor, limit=limit)

    def next(self) -> Message:
        """Give the next message."""
        received: Message = json.loads(self.connection.recv(timeout=TIMEOUT_S))
        return received

    def until(self, fits: Callable[[Message], bool]) -> list[Message]:
        """Give all messages up to the first one that fits; heartbeats come for ever, so it has an end."""
        ends = time.monotonic() + 2 * TIMEOUT_S
        found = [self.next()]
        while not fits(found[-1]):
            assert time.monotonic() < ends, f"{len(found)} messages came, and not the one that was awaited"
            found.append(self.next())
        return found

    def snapshot(self) -> Message:
        """Give the next snapshot."""
        return self.until(lambda message: message["event"] == "job_snapshot")[-1]

    def change(self, status: str, job_id: str) -> Message:
        """Give the message that says so of a job."""
        return self.until(lambda message: (message.get("status"), message.get("id")) == (status, job_id))[-1]


@contextmanager
def watching(address: Address, tls: ssl.SSLContext | None = None, **headers: str) -> Iterator[Watcher]:
    """Watch, over TLS where there is a context for it; underscores in the names of headers stand for hyphens."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"{'ws' if tls is None else 'wss'}://{address[0]}:{address[1]}/events"
    with connect(
        url, ssl=tls, additional_headers=given, compression=None, open_timeout=TIMEOUT_S, proxy=None
    ) as connection:
        yield Watcher(connection)
