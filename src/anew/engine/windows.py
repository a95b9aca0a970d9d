"""Cuts out what people look at of a list of jobs: a window around something, and the next job that matches a query.

What is read does not grow with the list, but for `WALKED` jobs of a walk and `RANKED` of a count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from anew.jobs import Job, State
from anew.jobs.key_limits import Place
from anew.store.protocol import FIRST_PLACE, LAST_PLACE, JobList, Lengths, Reader

MAX_ROWS = 1_000
"""Jobs in a window, whatever is asked for."""

MAX_TEXT = 256 << 10
"""Characters of queues and types, and bytes of what else a producer has said, in a window: what comes behind the job that goes
beyond is left out."""

FEW = 16
"""Jobs that are loaded at a time: each may have megabytes."""

WALKED = 10_000
"""Jobs that a walk to an offset passes at most, from whichever end is nearer. A window that begins further from both begins so far
from the first end, and says so."""

SEARCHED = 20_000
"""Jobs that a search looks at."""

RANKED = 100_000
"""Jobs that are counted for a position, from either end. Of a job further from both the position is given as the middle."""

PIECE = 2_000
"""Jobs whose names a search reads at a time."""

Fallback = Literal["head", "tail", "nowhere"]


class Head(NamedTuple):
    """The first jobs."""


class Tail(NamedTuple):
    """The last jobs."""


class Offset(NamedTuple):
    """The jobs from a position on."""

    offset: int


class Around(NamedTuple):
    """The jobs around one of them.

    Attributes:
        key: That job; -1 for none.
        fallback: What to look at where it is not in the list.
    """

    key: int
    fallback: Fallback


Anchor = Head | Tail | Offset | Around


class Window(NamedTuple):
    """Some jobs of a list, in order.

    Attributes:
        jobs: Without payloads.
        first: The position of the first one in the list.
        total: How many jobs the list has.
        anchor: The key of the job that it is around; None if it is around none.
    """

    jobs: list[Job]
    first: int
    total: int
    anchor: int | None = None


class Found(NamedTuple):
    """What a search has found: a job's position, and the jobs around it. None, and nothing, if it has found none."""

    position: int | None
    window: Window


class Query(NamedTuple):
    """What a search looks for: parts of queues' names and of types. One of each must match; none given: any does."""

    queues: Sequence[str] = ()
    types: Sequence[str] = ()

    def fits(self, queue: str, kind: str) -> bool:
        """Report whether a job of this queue and type matches."""
        return _any_in(self.queues, queue) and _any_in(self.types, kind)


NOTHING = Found(None, Window([], 0, 0))

_ORDER = {JobList.READY: "priority", JobList.IN_FLIGHT: "dequeued_at", JobList.SCHEDULED: "ready_at"}
_STATES = {
    JobList.READY: (State.READY,),
    JobList.IN_FLIGHT: (State.IN_FLIGHT,),
    JobList.SCHEDULED: (State.SCHEDULED, State.RETRYING),
}


def length_of(lengths: Lengths, of: JobList) -> int:
    """Give the length of one list."""
    return int(getattr(lengths, of))


def window(
    reader: Reader, of: JobList, anchor: Anchor, limit: int, total: int, *, ranked: bool = True
) -> Window:
    """Read a window; inside a snapshot.

    Args:
        reader: The thread's.
        of: The list.
        anchor: What it is around.
        limit: Jobs in it, up to `MAX_ROWS`.
        total: The list's length.
        ranked: False where nobody asks for the position of a window around a job: it is given as 0.
    """
    limit = min(limit, MAX_ROWS)
    match anchor:
        case Around(key, fallback):
            place = _place(reader, of, key)
            if place is not None:
                return _around(reader, of, place, limit, total, ranked=ranked)
            if fallback == "nowhere":
                return Window([], 0, total)
            return window(reader, of, Head() if fallback == "head" else Tail(), limit, total)
        case Offset(offset):
            return _from_offset(reader, of, min(offset, max(0, total - limit)), limit, total)
        case Tail():
            places = reader.places(of, LAST_PLACE, limit, forward=False)[::-1]
            return Window(_jobs(reader, places), max(0, total - len(places)), total)
        case Head():
            return Window(_jobs(reader, reader.places(of, FIRST_PLACE, limit, forward=True)), 0, total)


def search(
    reader: Reader,
    of: JobList,
    start: int | Literal["start", "end"],
    query: Query,
    limit: int,
    *,
    forward: bool,
) -> Found:
    """Find the next job that matches a query.

    Args:
        reader: The thread's.
        of: The list.
        start: The key of the job next to which it begins, or an end. From a job that is not there it begins at the end that is
            behind the one who looks.
        query: What is looked for.
        limit: Jobs around it, up to `MAX_ROWS`.
        forward: Towards the end, or back.
    """
    if start == ("end" if forward else "start"):
        return NOTHING
    with reader.snapshot():
        place = None if isinstance(start, str) else _place(reader, of, start)
        if place is None:
            place = FIRST_PLACE if forward else LAST_PLACE
        for _ in range(SEARCHED // PIECE):
            places = reader.places(of, place, PIECE, forward=forward)
            names = reader.names([key for _, key in places])
            for found in places:
                if found[1] in names and query.fits(*names[found[1]]):
                    return _found(reader, of, found, limit)
            if len(places) < PIECE:
                break
            place = places[-1]
    return NOTHING


def locate(reader: Reader, of: JobList, key: int, limit: int) -> Found:
    """Find where a job is."""
    with reader.snapshot():
        place = _place(reader, of, key)
        return NOTHING if place is None else _found(reader, of, place, limit)


def _found(reader: Reader, of: JobList, place: Place, limit: int) -> Found:
    total = length_of(reader.lengths(), of)
    around = _around(reader, of, place, min(limit, MAX_ROWS), total)
    at = next((at for at, job in enumerate(around.jobs) if job.key == place[1]), 0)
    return Found(around.first + at, around)


def _place(reader: Reader, of: JobList, key: int) -> Place | None:
    """Give the place of a job in a list; None if it is not there."""
    for job in reader.load([key]):
        # A job that a limit holds back is ready too, and stands in no line.
        place = getattr(job, _ORDER[of]) or 0, key
        if job.state in _STATES[of] and place in reader.places(of, (place[0], key - 1), 1, forward=True):
            return place
    return None


def _around(
    reader: Reader, of: JobList, place: Place, limit: int, total: int, *, ranked: bool = True
) -> Window:
    before = reader.places(of, place, limit // 2, forward=False)[::-1]
    behind = reader.places(of, place, max(0, limit - len(before) - 1), forward=True)
    places = [*before, place, *behind] if limit else []
    first = max(0, _position(reader, of, place, total) - len(before)) if ranked else 0
    return Window(_jobs(reader, places), first, total, place[1])


def _position(reader: Reader, of: JobList, place: Place, total: int) -> int:
    before = reader.rank(of, place, RANKED, forward=True)
    if before < RANKED:
        return before
    behind = reader.rank(of, place, RANKED, forward=False)
    return total - behind - 1 if behind < RANKED else total // 2


def _from_offset(reader: Reader, of: JobList, offset: int, limit: int, total: int) -> Window:
    left = total - offset
    if left < offset and left <= WALKED:
        places = reader.places(of, LAST_PLACE, left, forward=False)[::-1][:limit]
        return Window(_jobs(reader, places), offset, total)
    offset = min(offset, WALKED)
    places = reader.places(of, FIRST_PLACE, offset + limit, forward=True)[offset:]
    return Window(_jobs(reader, places), offset, total)


def _jobs(reader: Reader, places: Sequence[Place]) -> list[Job]:
    """Load the jobs of some places, in order, as far as `MAX_TEXT` allows."""
    jobs: list[Job] = []
    text = 0
    for start in range(0, len(places), FEW):
        keys = [key for _, key in places[start : start + FEW]]
        found = {job.key: job for job in reader.load(keys)}
        for key in keys:
            if key not in found:
                continue
            if text > MAX_TEXT:
                return jobs
            job = found[key]
            jobs.append(job)
            text += len(job.queue) + len(job.type) + len(job.policy or b"") + len(job.meta or b"")
    return jobs


def _any_in(parts: Sequence[str], text: str) -> bool:
    return not parts or any(part in text for part in parts)
