"""Turns the body of an enqueue into new jobs: decoded once, checked whole, passed on as they are."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw

from anew.errors import InvalidInput, InvalidJob
from anew.http.bodies import MAX_MEMBER, decode
from anew.http.formats import JSON, Format, Unreadable
from anew.http.jobrules import check_more, judging_job
from anew.http.long_lists import PIECE, members_of, reading_list
from anew.http.repacking import repacking
from anew.jobs import NewJob
from anew.jobs.names import good_names
from anew.jobs.payload_limits import (
    MAX_DEPTH,
    MOST_DIGITS,
    large_exponent_in,
    may_be_deep,
    may_be_out_of_range,
)
from anew.jobs.zizq_ties import tied
from anew.net.chunks import Work

LONG_BODY = 256 << 10
"""Bytes of a body up to which a job is read at once, and new jobs need no more than one batch."""

SHORT_BODY = 4_000
"""Bytes of a body that is read with the least effort, if it is as usual."""

BARE = len(b'{"type":"","queue":"","payload":}')
SLACK = len(b',"type":""')
"""The shortest pair with a known key. A body with fewer bytes beyond `BARE`, names and payload says nothing more."""

_LF, _CR, _UPPER_E = b"\n\rE"
"""As numbers: to look for bytes in bytes raises, and drops, an exception first."""

_NIL = b"\xc0"
_PRIORITY = frozenset({"priority"})


class _Bulk(msgspec.Struct):
    jobs: list[NewJob]


_one = msgspec.json.Decoder(NewJob)
_many = msgspec.json.Decoder(list[NewJob])
_bulk = msgspec.json.Decoder(_Bulk)
_PLAIN = msgspec.structs.astuple(NewJob("", "", Raw(b"")))[3:]


def short_job(body: bytes, max_bytes: int) -> NewJob | None:
    """Read the usual body in JSON, short and plain, with the least effort; None if it is another: see `reading_one`."""
    if len(body) > SHORT_BODY or not body.isascii() or _LF in body or _CR in body:
        return None
    try:
        job = _one.decode(body)
    except Unreadable:
        return None
    kind, queue, size = job.type, job.queue, len(job.payload)
    if kind not in good_names or queue not in good_names or size > max_bytes:
        return None
    if (size > MOST_DIGITS or large_exponent_in(job.payload) or _UPPER_E in body) and may_be_out_of_range(
        body
    ):
        return None
    if size > 2 * MAX_DEPTH and may_be_deep(body):
        return None
    return job if len(body) - len(kind) - len(queue) - size < BARE + SLACK else None


def reading_one(
    body: bytes, form: Format, max_bytes: int, kind: type[NewJob] = NewJob, *, template: bool = False
) -> Work[tuple[NewJob, bool]]:
    """Read the body of ``POST /jobs``.

    Args:
        body: As it came.
        form: How it is written.
        max_bytes: Bytes that its payload may have.
        kind: What is read of it; a `NewJob` itself is given as the engine takes it, with its ties.
        template: It is the job of a cron entry, which has no time of its own.

    Returns:
        The job, and whether it says nothing beyond type, queue and payload.

    Raises:
        InvalidInput: Something does not fit; nothing is stored.
    """
    job = decode(body, form, kind, null_is_absent=_PRIORITY)
    yield
    if form is not JSON:
        yield from _unpacking(job, max_bytes)
    yield from judging_job(job, max_bytes)
    if template and job.ready_at is not None:
        raise InvalidJob("ready_at is not supported for cron entries", field="ready_at")
    check_more(job)
    return tied(job, template=template) if kind is NewJob else job, _is_plain(job)


class _BulkReader:
    """Reads the pieces of one bulk, whose payloads have at most `max_bytes` each.

    Attributes:
        plain: No job so far says anything beyond type, queue and payload.
    """

    def __init__(self, form: Format, max_bytes: int) -> None:
        self._form = form
        self._max_bytes = max_bytes
        self.plain = True

    def read(self, piece: bytes, first: int) -> Work[list[NewJob]]:
        """Read an array of jobs; `first` is the place of the first one."""
        if self._form is JSON:
            try:
                return (yield from self._checked(piece, _many.decode(piece)))
            except (msgspec.ValidationError, InvalidInput):
                pass  # one by one, so that the error names its place
        return (yield from self._read_singly(piece, first))

    def read_short(self, body: bytes, most: int) -> Work[list[NewJob] | None]:
        """Read the whole body of a bulk in JSON, if it is short and fits; None if it has to be read piece by piece."""
        if len(body) > LONG_BODY or not body.isascii():
            return None
        try:
            jobs = _bulk.decode(body).jobs
            return (yield from self._checked(body, jobs)) if len(jobs) <= most else None
        except (*Unreadable, InvalidInput):
            return None

    def _checked(self, piece: bytes, jobs: list[NewJob]) -> Work[list[NewJob]]:
        """Check jobs that have been decoded; short payloads under known names need no more than a look."""
        sizes = [len(job.payload) for job in jobs]
        names = [job.type for job in jobs] + [job.queue for job in jobs]
        lines = b"\n" in piece or b"\r" in piece
        long = len(piece) > 2 * PIECE  # one member is
        if long or lines or not good_names.issuperset(names) or may_be_out_of_range(piece):
            for job in jobs:
                yield from judging_job(job, self._max_bytes)
        elif max(sizes, default=0) > min(2 * MAX_DEPTH, self._max_bytes):
            for job, size in zip(jobs, sizes, strict=True):
                if size > self._max_bytes or (size > 2 * MAX_DEPTH and may_be_deep(bytes(job.payload))):
                    yield from judging_job(job, self._max_bytes)
        said = 1 + len(jobs) * (BARE + 1) + sum(sizes) + len("".join(names))
        if len(piece) - said >= SLACK:
            for job in jobs:
                check_more(job)
            self.plain = self.plain and all(map(_is_plain, jobs))
            if not self.plain:
                return [tied(job) for job in jobs]
        return jobs

    def _read_singly(self, piece: bytes, first: int) -> Work[list[NewJob]]:
        jobs: list[NewJob] = []
        for at, member in enumerate(members_of(piece, self._form), first):
            try:
                job, plain = yield from reading_one(bytes(member), self._form, self._max_bytes)
            except InvalidInput as error:
                raise placed(error, f"jobs[{at}]") from None
            jobs.append(job)
            self.plain = self.plain and plain
            yield
        return jobs


def reading_many(body: bytes, form: Format, max_bytes: int, max_jobs: int) -> Work[tuple[list[NewJob], bool]]:
    """Read the body of ``POST /jobs/bulk`` piece by piece; see `reading_one`."""
    reader = _BulkReader(form, max_bytes)
    short = (yield from reader.read_short(body, max_jobs)) if form is JSON else None
    if short is not None:
        return short, reader.plain
    jobs = yield from reading_list(body, form, "jobs", max_jobs, reader.read)
    return jobs, reader.plain


def _unpacking(job: NewJob, max_bytes: int) -> Work[None]:
    """Translate what a job in MessagePack keeps of its body to JSON."""
    job.payload = Raw((yield from repacking(bytes(job.payload), max_bytes)))
    for name in ("policy", "batch"):
        part = getattr(job, name)
        if part is UNSET:
            continue
        if bytes(part) == _NIL:
            setattr(job, name, UNSET)
        else:
            setattr(job, name, Raw((yield from repacking(bytes(part), MAX_MEMBER, name))))


def _is_plain(job: NewJob) -> bool:
    return msgspec.structs.astuple(job)[3:] == _PLAIN


def placed(error: InvalidInput, where: str) -> InvalidInput:
    """Say which job of a body, such as ``jobs[1]``, an error is about."""
    return type(error)(f"{where}: {error}", field=f"{where}.{error.field}", value=error.value)
