"""The service on a store in memory: lines in, replies out, a clock moved by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from anew.engine.reads import Reads, Then
from anew.fwp.commands import parse, parse_hello
from anew.fwp.connection import FwpConnection
from anew.fwp.service import FwpService
from anew.net.chunks import Chunks
from anew.store.protocol import Reader
from tests.unit.engine.grouped import Group


class Peer:
    """A connection that has no socket.

    Attributes:
        answers: What it was told, each once.
        gone: Nobody reads its answers any more.
        closed: The server has closed it.
    """

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.gone = self.closed = False
        self.line = b""
        self.worker: Any = None
        self.on_close: Callable[[], None] | None = None

    def reply(self, data: bytes) -> None:
        self.on_close = None
        self.answers.append(data.decode())

    def close(self, last: bytes = b"") -> None:
        self.closed = True

    def leave(self) -> None:
        """Go while a command is under way."""
        self.gone = True
        if self.on_close is not None:
            self.on_close()


class ReadsAtOnce(Reads):
    """Long reads without a thread."""

    def later(self, function: Callable[[Reader], Any], then: Then) -> None:
        then(function(self._reader))


class ChunksOf(Chunks):
    """Chunks whose turns are those of a loop that does not run."""

    def __init__(self, loop: Any) -> None:
        super().__init__()
        self._loop = loop

    def _go_on(self) -> None:
        self._loop.call_soon(self._turn)


class Desk:
    """The service, its engine, and peers; `given` are settings of the service."""

    def __init__(self, *, completed_ms: int = 0, **given: Any) -> None:
        self.group = Group()
        self.rig = self.group.rig
        parts = self.rig.engine.parts
        parts.defaults = replace(parts.defaults, completed_ms=completed_ms)
        loop: Any = self.group.loop
        submit = self.group.commit.submit if self.group.remote else None
        self.reads = ReadsAtOnce(self.rig.store, loop, submit)
        given = {"chunks": ChunksOf(loop)} | given
        self.service = FwpService(self.rig.engine, self.group.commit, self.reads, loop, **given)
        self._own = Peer()

    def peer(self, wid: str = "") -> Peer:
        """One more connection, of a worker if it has an id."""
        peer = Peer()
        self.service.hello(_as_connection(peer), parse_hello(f'HELLO {{"v":2,"wid":"{wid}"}}'.encode()))
        return peer

    def begin(self, peer: Peer, line: str) -> None:
        """Have a peer say a line, and let all happen that can happen now."""
        self.service.execute(_as_connection(peer), parse(line.encode(), enterprise=True))
        self.group.loop.settle(1_000)

    def say(self, line: str, peer: Peer | None = None) -> str:
        """Say a line and give its answer; a bulk without its length."""
        peer = peer or self._own
        before = len(peer.answers)
        self.begin(peer, line)
        for _ in range(200):  # a change of many jobs rests between chunks
            if len(peer.answers) > before:
                break
            self.group.loop.advance(50)
        assert len(peer.answers) == before + 1
        return _without_length(peer.answers[-1])

    def ask(self, line: str) -> Any:
        """Say a line and give its answer as JSON; None for the null bulk."""
        answer = self.say(line)
        return None if answer == "$-1" else json.loads(answer)

    def push(self, number: int, **fields: Any) -> str:
        """Push a job to queue `mail`; gives its jid."""
        jid = f"job-{number:04}"
        whole = {"jid": jid, "jobtype": "kind", "args": [number], "queue": "mail"} | fields
        assert self.say(f"PUSH {json.dumps(whole)}") == "+OK"
        return jid

    def fetch(self) -> dict[str, Any]:
        """Fetch a job that must be there."""
        return dict(self.ask("FETCH mail"))

    def sets(self) -> tuple[int, int, int, int]:
        """Jobs that are scheduled, to be retried, dead and reserved."""
        sizes = self.ask("INFO")["faktory"]["sets"]
        return sizes["scheduled"], sizes["retries"], sizes["dead"], sizes["working"]

    def totals(self) -> tuple[int, int]:
        """Processed and failed."""
        found = self.ask("INFO")["faktory"]
        return found["total_processed"], found["total_failures"]

    def advance(self, ms: int) -> None:
        """Let time pass, and what is due then happen."""
        self.group.loop.advance(ms)


def _without_length(answer: str) -> str:
    assert answer.endswith("\r\n")
    return answer[:-2].split("\r\n", 1)[-1] if answer.startswith("$") else answer[:-2]


def _as_connection(peer: Any) -> FwpConnection:
    found: FwpConnection = peer
    return found
