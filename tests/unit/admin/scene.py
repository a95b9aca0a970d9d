"""The admin listener's live view with everything moved by hand: store, clock, loop, sockets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anew.admin.events import Events
from anew.engine import GroupCommit, watch
from anew.http.api import ApiSettings
from anew.http.formats import JSON
from anew.net.seam import WebSocket, WireCounters
from tests.unit.engine.handloop import HandLoop
from tests.unit.engine.handreads import HandReads
from tests.unit.engine.rig import Rig
from tests.unit.http.asked import Asked


class HandSocket(WebSocket):
    """A client's end, read and written by the test.

    Attributes:
        held: The server reads no more for now.
    """

    __slots__ = ("closed", "held", "sent")

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.held = self.closed = False

    def send(self, messages: Sequence[bytes]) -> None:
        self.sent += messages

    def hold(self) -> None:
        self.held = True

    def go_on(self) -> None:
        self.held = False

    def close(self) -> None:
        self.closed = True

    def say(self, text: bytes | None = None, **members: Any) -> None:
        """Send a message to the server."""
        assert self.on_message is not None
        self.on_message(json.dumps(members).encode() if text is None else text)

    def leave(self) -> None:
        """Hang up."""
        assert self.on_close is not None
        self.on_close()

    def stall(self) -> None:
        """Read nothing."""
        self.writable = False

    def drain(self) -> None:
        """Read again."""
        self.writable = True
        assert self.on_drain is not None
        self.on_drain()

    def heard(self) -> list[dict[str, Any]]:
        """All messages since the last call."""
        sent, self.sent = self.sent, []
        return [json.loads(message) for message in sent]


class Handshake(Asked):
    """A request that becomes a WebSocket."""

    __slots__ = ("socket",)

    def __init__(self) -> None:
        super().__init__("GET", "/events")
        self.socket = HandSocket()

    def open_websocket(self, max_message: int) -> WebSocket | None:
        return self.socket


class Scene:
    """One server's live view."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Looks take no time, so that the next one is due at once where a client asks for it.
        monkeypatch.setattr(watch, "time", SimpleNamespace(perf_counter=lambda: 0.0))
        self.rig = Rig()
        self.loop = HandLoop(self.rig)
        self.reads = HandReads(self.rig.store.reader())
        self.commit = GroupCommit(self.rig.engine, cast(Any, self.loop), lambda: None)
        self.counters = WireCounters()
        context: Any = SimpleNamespace(
            reads=self.reads,
            engine=self.rig.engine,
            commit=self.commit,
            settings=ApiSettings(),
            counters=self.counters,
            started_at=0.0,
        )
        self.events = Events(context, cast(Any, self.loop))

    def ask(self) -> Handshake:
        """Ask to watch."""
        request = Handshake()
        self.events.open(request, JSON, ())
        return request

    def client(self) -> HandSocket:
        """A client that has had its first snapshot."""
        socket = self.ask().socket
        self.loop.advance(0)
        assert [message["event"] for message in socket.heard()] == ["job_snapshot"]
        return socket

    def look(self) -> None:
        """Let the next look happen."""
        self.loop.advance(100)

    def write(self, key: int) -> str:
        """The id of a job."""
        return self.rig.engine.ids.write(key)
