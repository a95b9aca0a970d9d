"""`GET /events`: each client is shown its windows, and what changes in them."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from anew.admin.messages import (
    MAX_MESSAGE,
    DeleteJob,
    Find,
    SetDetailLevel,
    Subscribe,
    Writer,
    anchor_of,
    read_message,
    start_of,
)
from anew.engine import Call, verbs
from anew.engine.reads import Reads
from anew.engine.watch import Shown, Wanted, Watch
from anew.engine.windows import NOTHING, Anchor, Found, Head, Query, Window, locate, search
from anew.errors import AnewError, Overloaded
from anew.http.api import Context
from anew.http.formats import Format
from anew.http.roles import roles_of
from anew.http.tokens import Tokens
from anew.jobs import IdText, Job
from anew.net.seam import Request, WebSocket, refusal
from anew.store.protocol import JobList

BEAT_S = 2.0
"""Between two heartbeats."""

MAX_CLIENTS = 16
"""Clients that watch at one time: each look costs the event loop some milliseconds for all of them together."""

FIRST_LIMIT = 200
"""Jobs in each window before a client asks for others."""

MAX_WAITING = 16
"""Messages of one client that wait; it is not read meanwhile."""

_too_many = refusal(503, f"{MAX_CLIENTS} clients watch already; end one of them", Overloaded.code)


class Events:
    """All clients that watch.

    Args:
        context: What handlers may use.
        loop: The event loop.
    """

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self.watch = Watch(context.reads, context.engine, loop)
        self.clients: set[Client] = set()
        self._writer = Writer(context.engine.ids, context.settings.version)
        self._beat_timer: asyncio.TimerHandle | None = None

    def open(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Answer a handshake."""
        if len(self.clients) >= MAX_CLIENTS:
            self._context.counters.refuse("watchers")
            request.reply(_too_many.status, _too_many.body, _too_many.content_type, _too_many.extra)
            return
        socket = request.open_websocket(MAX_MESSAGE)
        if socket is None:
            return
        given = request.headers.get(b"authorization", b"")
        client = Client(socket, self.watch, self._context, self._writer, self._server, given)
        socket.on_close = partial(self._left, client)
        self.clients.add(client)
        self.watch.add(client)
        if self._beat_timer is None:
            self._beat_timer = self._loop.call_later(BEAT_S, self._beat)

    def end_revoked(self, tokens: Tokens) -> None:
        """End the connections of tokens that no longer open one."""
        roles = roles_of("GET", "/events")
        for client in list(self.clients):
            if not tokens.allow(client.authorization, roles):
                client.end()
                self._left(client)

    def _server(self) -> Any:
        uptime_ms = int((time.monotonic() - self._context.started_at) * 1_000)
        return self._writer.server(self.watch.lengths, uptime_ms)

    def _beat(self) -> None:
        self._beat_timer = None
        if not self.clients:
            return
        self._beat_timer = self._loop.call_later(BEAT_S, self._beat)
        heartbeat = self._writer.heartbeat(self._server())
        for client in self.clients:
            client.beat(heartbeat)

    def _left(self, client: Client) -> None:
        self.clients.discard(client)
        self.watch.remove(client)
        if not self.clients and self._beat_timer is not None:
            self._beat_timer.cancel()
            self._beat_timer = None


class Client:
    """One client: what it watches, and what it has been shown.

    Args:
        socket: Its connection.
        watch: Shows it what it wants.
        context: What handlers may use.
        writer: Writes its messages.
        server: Gives what each message says of the server.
        authorization: What its handshake has brought.
    """

    def __init__(
        self,
        socket: WebSocket,
        watch: Watch,
        context: Context,
        writer: Writer,
        server: Any,
        authorization: bytes = b"",
    ) -> None:
        self._socket = socket
        self.authorization = authorization
        self._watch = watch
        self._reads: Reads = context.reads
        self._submit = context.commit.submit
        self._ids: IdText = context.engine.ids
        self._writer = writer
        self._server = server
        self._wanted: dict[JobList, tuple[Anchor, int]] = {of: (Head(), FIRST_LIMIT) for of in JobList}
        self._shown: dict[JobList, dict[int, Job]] = {}
        self._detail = False
        self._fresh = True  # the next look is shown as a whole
        self._waiting: deque[bytes] = deque()
        self._finding = False
        socket.on_message = self._message
        socket.on_drain = self._drained

    # ---- what it is shown

    def wants(self) -> Iterable[Wanted]:
        """Say what to look at."""
        for of, (anchor, limit) in self._wanted.items():
            yield Wanted(of, anchor, limit, self._fresh)

    def see(self, look: Shown) -> None:
        """Show what has changed, or all of it."""
        if not self._socket.writable:
            self._fresh = True  # it is behind: what it has not been shown it is shown as a whole
            return
        wanted = {one.of: one for one in self.wants()}
        if not look.windows.keys() >= set(wanted.values()):
            return  # it wants something else by now, and the next look is for that
        windows = {of: look.windows[one] for of, one in wanted.items()}
        if self._fresh:
            self._show_all(windows)
        elif look.ended is None or any(map(self._is_rewritten, windows, windows.values())):
            self._refresh()
        else:
            self._show_changes(windows, look)

    def end(self) -> None:
        """Close its connection."""
        self._socket.close()

    def beat(self, heartbeat: bytes) -> None:
        """Show that the server lives; not while the client is behind."""
        if self._socket.writable:
            self._socket.send([heartbeat])

    def _refresh(self) -> None:
        self._fresh = True
        self._watch.look_soon()

    def _drained(self) -> None:
        if self._fresh:
            self._watch.look_soon()

    def _show_all(self, windows: Mapping[JobList, Window]) -> None:
        self._fresh = False
        self._socket.send([self._writer.snapshot(self._server(), windows, detail=self._detail)])
        self._shown = {of: {job.key: job for job in one.jobs} for of, one in windows.items()}

    def _is_rewritten(self, of: JobList, one: Window) -> bool:
        """Report whether a job that is shown is another now, in the same list."""
        shown = self._shown[of]
        return any(job.key in shown and shown[job.key] != job for job in one.jobs)

    def _show_changes(self, windows: Mapping[JobList, Window], look: Shown) -> None:
        write, server = self._writer, self._server()
        messages: list[bytes] = []
        if look.ended is not None:
            messages += [write.happened(server, key, "completed") for key in look.ended.completed]
            messages += [write.happened(server, key, "dead") for key in look.ended.failed]
        for of, one in windows.items():
            before = self._shown[of]
            now = {job.key: job for job in one.jobs}
            messages += [write.happened(server, key, f"{of}_removed") for key in before if key not in now]
            messages += [
                write.came(server, of, job, detail=self._detail)
                for key, job in now.items()
                if key not in before
            ]
            self._shown[of] = now
        self._socket.send(messages)

    # ---- what it says

    def _message(self, text: bytes) -> None:
        self._waiting.append(text)
        if len(self._waiting) >= MAX_WAITING:
            self._socket.hold()
        self._go_on()

    def _go_on(self) -> None:
        """Do what the client asks for, one after the other."""
        while self._waiting and not self._finding:
            self._do(self._waiting.popleft())
        if not self._waiting:
            self._socket.go_on()

    def _do(self, text: bytes) -> None:
        match read_message(text):
            case Subscribe() as asked:
                self._wanted[asked.list] = anchor_of(self._ids, asked), asked.limit
                self._refresh()
            case SetDetailLevel(detail=detail):
                self._detail = detail
                self._refresh()
            case DeleteJob(id=job_id):
                key = self._ids.read(job_id)
                if key >= 0:
                    self._submit(Call(verbs.delete_one(key), _ignore))
            case Find() as asked:
                self._find(asked)
            case None:
                pass

    def _find(self, asked: Find) -> None:
        self._finding = True
        start = start_of(self._ids, asked)
        query = Query(asked.query.queues, asked.query.types)

        def find(reader: Any) -> Found:
            if asked.direction == "locate":
                return NOTHING if isinstance(start, str) else locate(reader, asked.list, start, asked.limit)
            forward = asked.direction == "forward"
            return search(reader, asked.list, start, query, asked.limit, forward=forward)

        try:
            self._reads.later(find, partial(self._found, asked.list))
        except Overloaded as error:
            self._found(asked.list, error)

    def _found(self, of: JobList, result: Found | AnewError) -> None:
        self._finding = False
        position, around = NOTHING if isinstance(result, AnewError) else result
        self._socket.send([self._writer.found(self._server(), of, position, around)])
        self._go_on()


def _ignore(result: object) -> None:
    """What has become of it is seen by the next look."""
