"""``GET /jobs/take``: a stream of jobs, handed out as slots become free, with real back-pressure.

What a stream holds is bounded twice: by its prefetch and, whatever that says, by the server's own limit for one stream. A peer that
does not read stops being served at the wire's high-water mark, and is cut off by the wire when it has not read for too long; the
end of the stream, however it comes, gives back at once what it still holds.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import struct
from collections.abc import Callable

from anew.engine import Taker
from anew.engine.workers import ConnectedWorker, WorkerState
from anew.errors import AnewError, InvalidJob, Overloaded
from anew.http.api import Context
from anew.http.formats import MSGPACK, STREAMS, Format, not_acceptable, stream_format
from anew.http.packing import is_long, packing_payloads
from anew.http.query_strings import comma_set, number, query_pairs
from anew.http.render import ShownJob, taken_as_json, taken_job
from anew.http.replies import reply_error
from anew.http.roles import roles_of
from anew.http.router import Doc, Router
from anew.http.tokens import Tokens
from anew.jobs.codec import U64_MAX
from anew.jobs.names import check_not_own
from anew.net.chunks import Work
from anew.net.seam import Kind, Request, Stream
from anew.store.protocol import TakenRow

log = logging.getLogger("anew.http")

_CONTENT_TYPES = {
    "ndjson": b"application/x-ndjson",
    "msgpack": b"application/vnd.zizq.msgpack-stream",
    "sse": b"text/event-stream",
}
_HEARTBEATS = {"ndjson": b"\n", "msgpack": b"\0\0\0\0", "sse": b": heartbeat\n\n"}


MOST_INTERRUPTIONS = 1_000_000


class OpenTake:
    """One open stream: turns deliveries into frames, and the wire's signals into the taker's state."""

    __slots__ = (
        "_framing",
        "_routes",
        "_stream",
        "_unpacked",
        "authorization",
        "is_quiet",
        "last_sent",
        "since",
        "taker",
        "worker",
    )

    def __init__(
        self,
        routes: TakeRoutes,
        stream: Stream,
        framing: str,
        queues: list[str] | None,
        prefetch: int,
        worker: str,
        interruption_limit: int | None = None,
        authorization: bytes = b"",
    ) -> None:
        self._routes = routes
        self.worker = worker
        self.authorization = authorization
        self._stream = stream
        self._framing = framing
        self.is_quiet = False
        self._unpacked: list[list[ShownJob]] = []  # deliveries that are being translated to MessagePack
        self.taker = Taker(
            queues,
            prefetch,
            self._deliver,
            self._broken,
            interruption_limit=interruption_limit,
            name=worker,
        )
        self.last_sent = routes.now()
        self.since = routes.clock.now()
        stream.on_drain = self._drained
        stream.on_close = self._closed

    def heartbeat(self) -> None:
        """Show the peer that we are there; skipped where it is behind."""
        if self._stream.writable:
            self.last_sent = self._routes.now()
            self._stream.write(_HEARTBEATS[self._framing])

    def be_quiet(self) -> None:
        """Deliver nothing more; what it holds it keeps."""
        self.is_quiet = True
        self._routes.commit.pause_taker(self.taker)

    def end(self) -> None:
        """End the stream from our side and give back what it holds."""
        self._stream.close()
        self._routes.forget(self, interrupted=False)

    def _deliver(self, rows: list[TakenRow], now: int) -> None:
        self.last_sent = self._routes.now()
        tag = self._routes.tag
        if self._framing == "msgpack":
            jobs = [taken_job(tag.decode(), row, now) for row in rows]
            if self._unpacked or is_long(jobs):
                self._pack_later(jobs)
                return
            self._write_packed(jobs)
        elif self._framing == "ndjson":
            self._stream.write(b"\n".join(taken_as_json(tag, rows, now)) + b"\n")
        else:
            self._stream.write(b"".join([b"data: " + job + b"\n\n" for job in taken_as_json(tag, rows, now)]))
        if not self._stream.writable:
            self._routes.commit.pause_taker(self.taker)

    def _write_packed(self, jobs: list[ShownJob]) -> None:
        packed: list[bytes] = [MSGPACK.encode(job) for job in jobs]
        self._stream.write(b"".join([struct.pack(">I", len(job)) + job for job in packed]))

    def _pack_later(self, jobs: list[ShownJob]) -> None:
        """Translate long payloads a chunk in a turn; the taker gets nothing more until they are written."""
        self._unpacked.append(jobs)
        if len(self._unpacked) == 1:
            self._routes.commit.pause_taker(self.taker)
            self._routes.chunks.run(self._packing(), self._packed)

    def _packing(self) -> Work[None]:
        while self._unpacked and self in self._routes.open:
            yield from packing_payloads(self._unpacked[0])
            self._write_packed(self._unpacked.pop(0))

    def _packed(self, result: object) -> None:
        if isinstance(result, AnewError):  # it has been logged
            self._broken()
        elif self in self._routes.open and self._stream.writable:
            self._drained()

    def _broken(self) -> None:
        """Cut the stream off, so that its worker opens another: what it was to get could not be written."""
        self._stream.abort()
        self._routes.forget(self, interrupted=False)

    def _drained(self) -> None:
        if not (self._unpacked or self.is_quiet):
            self._routes.commit.resume_taker(self.taker)

    def _closed(self) -> None:
        self._routes.forget(self)


class TakeRoutes:
    """Opens take streams, and sends their heartbeats."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self.commit = context.commit
        self.chunks = context.chunks
        self.tag = context.engine.ids.tag_bytes
        self.clock = context.engine.clock
        self.now: Callable[[], int] = self.clock.monotonic
        self._settings = context.settings
        self._counters = context.counters
        self._loop = loop
        self.open: set[OpenTake] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False

    def take(self, request: Request, form: Format, params: tuple[str, ...]) -> None:
        """Open a stream."""
        framing = stream_format(request.headers)
        if framing is None:
            request.reply(406, not_acceptable(STREAMS))
            return
        queues, prefetch = self._wanted(request.query)
        limit = _interruption_limit(request.headers.get(b"interruption-limit"))
        if self._ending or len(self.open) >= self._settings.max_streams:
            self._counters.refuse("streams")
            reply_error(request, form, Overloaded("no more take streams are possible now; see --max-streams"))
            return
        extra = ((b"cache-control", b"no-cache"),) if framing == "sse" else ()
        stream = request.open_stream(200, _CONTENT_TYPES[framing], extra)
        if stream is None:
            return
        worker = request.headers.get(b"worker-id", b"").decode("utf-8", "replace") or secrets.token_hex(4)
        given = request.headers.get(b"authorization", b"")
        taking = OpenTake(self, stream, framing, queues, prefetch, worker, limit, given)
        self.open.add(taking)
        shown = "all" if queues is None else ",".join(queues)
        log.info("take stream opened", extra={"worker": worker, "queues": shown, "prefetch": prefetch})
        self.commit.add_taker(taking.taker)
        if self._timer is None:
            self._arm()

    def connected(self) -> list[ConnectedWorker]:
        """List the workers of the open streams, by their `Worker-Id`."""
        by_worker: dict[str, list[OpenTake]] = {}
        for taking in self.open:
            by_worker.setdefault(taking.worker, []).append(taking)
        return [_connected(worker, streams) for worker, streams in by_worker.items()]

    def tell(self, worker: str, state: WorkerState) -> int:
        """Deliver nothing more on the streams of a worker, by its `Worker-Id`; what they hold stays theirs."""
        if state is not WorkerState.QUIET:
            return 0  # nothing on a stream could tell it to end
        meant = [taking for taking in self.open if taking.worker == worker]
        for taking in meant:
            taking.be_quiet()
        return len(meant)

    def forget(self, taking: OpenTake, *, interrupted: bool = True) -> None:
        """Give back what a stream that has ended still holds."""
        if taking in self.open:
            self.open.discard(taking)
            log.info("take stream closed", extra={"worker": taking.worker, "interrupted": interrupted})
            self.commit.remove_taker(taking.taker, interrupted=interrupted)

    def end_revoked(self, tokens: Tokens) -> None:
        """End the streams of tokens that no longer open one."""
        roles = roles_of("GET", "/jobs/take")
        for taking in list(self.open):
            if not tokens.allow(taking.authorization, roles):
                taking.end()

    def end_all(self) -> None:
        """End every stream cleanly and open no more."""
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
        for taking in list(self.open):
            taking.end()

    def _wanted(self, query: bytes) -> tuple[list[str] | None, int]:
        """Read the query: which queues, how many jobs at once."""
        pairs = query_pairs(query, {"prefetch", "queue"})
        most = self._settings.max_stream_jobs
        wanted = number("prefetch", pairs.get("prefetch", "1"), U64_MAX)
        queues = comma_set(pairs.get("queue"))
        if queues is not None and len(queues) > 1_000:
            raise InvalidJob(f"queue: expected at most 1000 names, got {len(queues)}", field="queue")
        for queue in queues or ():
            check_not_own(queue, "queue")
        return None if queues is None else sorted(queues), min(wanted or most, most)

    def _arm(self) -> None:
        self._timer = self._loop.call_later(min(self._settings.heartbeat_ms / 4_000, 0.5), self._beat)

    def _beat(self) -> None:
        """Send heartbeats to streams that have been silent for an interval: one timer for all of them."""
        silent = self.now() - self._settings.heartbeat_ms
        for taking in list(self.open):
            if taking.last_sent <= silent:
                taking.heartbeat()
        if self.open:
            self._arm()
        else:
            self._timer = None


def _connected(worker: str, streams: list[OpenTake]) -> ConnectedWorker:
    queues = [stream.taker.queues for stream in streams]
    # Nearly always there is one stream: two thousand of sixty queues each would hold the loop up for 30 ms.
    named = queues[0] if len(queues) == 1 else sorted({name for some in queues for name in some or ()})
    return ConnectedWorker(
        id=worker,
        door="http",
        state=WorkerState.QUIET if all(stream.is_quiet for stream in streams) else WorkerState.RUNNING,
        connections=len(streams),
        jobs=sum(len(stream.taker.held) for stream in streams),
        since=min(stream.since for stream in streams),
        queues=None if None in queues else named,
    )


def _interruption_limit(text: bytes | None) -> int | None:
    """Read how many interruptions in a row end a job of the stream; a header, since servers pass over those they do not know.

    Raises:
        InvalidJob: It is no number from 0 to 1,000,000.
    """
    if text is None:
        return None
    if not (text.isdigit() and len(text) <= 7 and int(text) <= MOST_INTERRUPTIONS):
        shown = text[:20].decode("utf-8", "replace")
        raise InvalidJob(
            f"Interruption-Limit: expected a number from 0 to {MOST_INTERRUPTIONS}, got {shown!r}",
            field="Interruption-Limit",
        )
    return int(text)


def add_routes(router: Router, context: Context, loop: asyncio.AbstractEventLoop) -> TakeRoutes:
    """Serve the take route."""
    routes = TakeRoutes(context, loop)
    about = "Open an endless stream of jobs; what is not settled when it ends is ready again."
    doc = Doc("take", "work", {200: ""}, query="take", forms=STREAMS, about=about)
    router.add("GET", "/jobs/take", routes.take, doc, streams=True, kind=Kind.settling)
    context.workers.doors.append(routes)
    return routes
