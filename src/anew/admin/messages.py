"""The messages of `/events`: what clients send, checked, and what they are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from anew.engine.windows import Anchor, Around, Head, Offset, Tail, Window
from anew.http.formats import JSON
from anew.http.render import shown_job
from anew.jobs import IdText, Job
from anew.jobs.codec import U16, U32, At
from anew.store.protocol import JobList, Lengths

MAX_MESSAGE = 64 << 10
"""Bytes of a client's message."""

MAX_TERMS = 100
"""Parts of names in one search."""

_Count = Annotated[int, Meta(ge=0)]
_Terms = Annotated[list[str], Meta(max_length=MAX_TERMS)]

# -- from clients


class HeadAnchor(Struct, tag_field="kind", tag="head"):
    """The first jobs of a list."""


class TailAnchor(Struct, tag_field="kind", tag="tail"):
    """The last jobs of a list."""


class OffsetAnchor(Struct, tag_field="kind", tag="offset"):
    """The jobs from a position on."""

    offset: _Count


class AroundAnchor(Struct, tag_field="kind", tag="around"):
    """The jobs around one."""

    id: str
    fallback: Literal["head", "tail", "nowhere"] = "nowhere"


class JobAnchor(Struct, tag_field="kind", tag="job_id"):
    """A search begins next to this job."""

    id: str


class StartAnchor(Struct, tag_field="kind", tag="start"):
    """A search begins at the first job."""


class EndAnchor(Struct, tag_field="kind", tag="end"):
    """A search begins at the last job."""


class Terms(Struct):
    """Parts of names that a job must have: one of the queues', and one of the types'."""

    queues: _Terms = []
    types: _Terms = []


class Subscribe(Struct, tag_field="type", tag="subscribe"):
    """Watch another window of a list."""

    list: JobList
    anchor: HeadAnchor | TailAnchor | OffsetAnchor | AroundAnchor
    limit: _Count


class SetDetailLevel(Struct, tag_field="type", tag="set_detail_level"):
    """Show more or less of each job."""

    detail: bool


class DeleteJob(Struct, tag_field="type", tag="delete_job"):
    """Delete a job."""

    id: str


class Find(Struct, tag_field="type", tag="find"):
    """Find a job."""

    list: JobList
    anchor: JobAnchor | StartAnchor | EndAnchor
    direction: Literal["forward", "backward", "locate"]
    limit: _Count
    query: Terms = msgspec.field(default_factory=Terms)


ClientMessage = Subscribe | SetDetailLevel | DeleteJob | Find

_decoder: msgspec.json.Decoder[ClientMessage] = msgspec.json.Decoder(ClientMessage)


def read_message(text: bytes) -> ClientMessage | None:
    """Read a client's message; None for what is none."""
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def anchor_of(ids: IdText, subscribe: Subscribe) -> Anchor:
    """Give what a client wants to look at."""
    match subscribe.anchor:
        case HeadAnchor():
            return Head()
        case TailAnchor():
            return Tail()
        case OffsetAnchor(offset=offset):
            return Offset(offset)
        case AroundAnchor(id=job_id, fallback=fallback):
            return Around(ids.read(job_id), fallback)


def start_of(ids: IdText, find: Find) -> int | Literal["start", "end"]:
    """Give where a client's search begins: next to the job of a key, or at an end."""
    match find.anchor:
        case JobAnchor(id=job_id):
            return ids.read(job_id)
        case StartAnchor():
            return "start"
        case EndAnchor():
            return "end"


# -- to clients


class ShownServer(Struct):
    """What every message says of the server.

    Attributes:
        version: Of the API.
        uptime_ms: Since its start.
        tier: All features are there.
        total_ready: Jobs that are ready, also those that a limit of their key holds back.
        total_in_flight: Jobs that are held by workers.
        total_scheduled: Jobs that wait for their time.
    """

    version: str
    uptime_ms: int
    tier: str
    total_ready: int
    total_in_flight: int
    total_scheduled: int


class AdminJob(Struct):
    """A job as it is shown here; what comes after `failed_at` is shown where a client asks for detail."""

    id: str
    queue: str
    job_type: str
    priority: U16
    ready_at: At
    attempts: U32
    dequeued_at: At | UnsetType = UNSET
    failed_at: At | UnsetType = UNSET
    retry_limit: U32 | UnsetType = UNSET
    backoff: Any = UNSET
    retention: Any = UNSET
    unique_key: str | UnsetType = UNSET
    unique_while: str | UnsetType = UNSET


class JobWindow(Struct):
    """A window of a list."""

    items: Sequence[AdminJob]
    first_position: int
    total: int
    resolved_anchor: str | UnsetType = UNSET


class Heartbeat(Struct, tag_field="event", tag="heartbeat"):
    """The server lives."""

    server: Raw


class JobSnapshot(Struct, tag_field="event", tag="job_snapshot"):
    """All three windows."""

    server: Raw
    ready: JobWindow
    in_flight: JobWindow
    scheduled: JobWindow


class JobChanged(Struct, tag_field="event", tag="job_changed"):
    """A job has come into a window, has left it, or has ended an attempt."""

    server: Raw
    id: str
    status: str
    job: AdminJob | UnsetType = UNSET


class FindResult(Struct, tag_field="event", tag="find_result"):
    """What a search has found."""

    server: Raw
    list: JobList
    matched_position: int | None
    window: JobWindow


class Writer:
    """Writes messages to clients.

    Args:
        ids: Writes the jobs' ids.
        version: Of the API.
    """

    def __init__(self, ids: IdText, version: str) -> None:
        self._ids = ids
        self._version = version
        self._encode: Callable[[object], bytes] = JSON.encode

    def server(self, lengths: Lengths, uptime_ms: int) -> Raw:
        """Give what each message of one moment says of the server."""
        shown = ShownServer(
            self._version,
            uptime_ms,
            "pro",
            lengths.ready + lengths.blocked,
            lengths.in_flight,
            lengths.scheduled,
        )
        return Raw(self._encode(shown))

    def heartbeat(self, server: Raw) -> bytes:
        """Give a heartbeat."""
        return self._encode(Heartbeat(server))

    def snapshot(self, server: Raw, windows: Mapping[JobList, Window], *, detail: bool) -> bytes:
        """Give all windows."""
        shown = {str(of): self._window(one, detail=detail) for of, one in windows.items()}
        return self._encode(JobSnapshot(server, **shown))

    def came(self, server: Raw, of: JobList, job: Job, *, detail: bool) -> bytes:
        """Give that a job has come into a window."""
        shown = self._job(job, detail=detail)
        return self._encode(JobChanged(server, shown.id, of, shown))

    def happened(self, server: Raw, key: int, status: str) -> bytes:
        """Give what has happened to a job."""
        return self._encode(JobChanged(server, self._ids.write(key), status))

    def found(self, server: Raw, of: JobList, position: int | None, around: Window) -> bytes:
        """Give what a search has found."""
        return self._encode(FindResult(server, of, position, self._window(around, detail=False)))

    def _window(self, one: Window, *, detail: bool) -> JobWindow:
        return JobWindow(
            [self._job(job, detail=detail) for job in one.jobs],
            one.first,
            one.total,
            UNSET if one.anchor is None else self._ids.write(one.anchor),
        )

    def _job(self, job: Job, *, detail: bool) -> AdminJob:
        shown = AdminJob(
            id=self._ids.write(job.key),
            queue=job.queue,
            job_type=job.type,
            priority=job.priority,
            ready_at=job.ready_at,
            attempts=job.attempts,
            dequeued_at=UNSET if job.dequeued_at is None else job.dequeued_at,
            failed_at=UNSET if job.failed_at is None else job.failed_at,
        )
        if detail:
            more = shown_job(self._ids, job, payload=False)
            for name in ("retry_limit", "backoff", "retention", "unique_key", "unique_while"):
                setattr(shown, name, getattr(more, name))
        return shown
