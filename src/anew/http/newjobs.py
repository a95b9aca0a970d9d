"""Turns the body of an enqueue into new jobs: decoded once, checked whole, handed on as they are.

What decoding lets pass is a repeated key. It cannot hide: a text with one is longer than what was decoded accounts for. So lengths
are compared, first with the three members that every job has, then with all members that the text shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import msgspec

from anew.errors import InvalidInput
from anew.http.bodies import check_text
from anew.http.carefully import (
    BARE,
    MAX_MEMBERS,
    SLACK,
    STRUCTURED,
    check_members,
    job_from_json,
    job_from_msgpack,
    jobs_from_json,
    jobs_from_msgpack,
)
from anew.http.cutting import LONG_PIECE, array_guessed, array_of, check_few, pieces_of
from anew.http.formats import JSON, Format, Unreadable
from anew.http.jobrules import check_more, good_names, judging_job
from anew.http.payloads import HARMLESS_BYTES, MAX_DEPTH, may_be_deep
from anew.http.portions import Work, at_once
from anew.jobs import NewJob

LONG_BODY = 256 << 10
"""Bytes of a body up to which a job is read at once, and new jobs need no more than one batch."""

LONG_BULK = 32 << 10
"""The same for reading a bulk: a job read carefully takes some 35 us whatever its length, and 256 KiB can hold 10,000 of them."""

_LF, _CR = b"\n\r"
"""As numbers: to look for bytes in bytes raises, and drops, an exception first."""

_one = msgspec.json.Decoder(NewJob)
_many = msgspec.json.Decoder(list[NewJob])
_objects = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def one_job(body: bytes, form: Format, max_bytes: int) -> tuple[NewJob, bool]:
    """Read the body of ``POST /jobs`` at once; see `reading_one`."""
    job = _short_job(body, max_bytes) if form is JSON else None
    return at_once(reading_one(body, form, max_bytes)) if job is None else (job, True)


def _short_job(body: bytes, max_bytes: int) -> NewJob | None:
    """Read the usual body, short and plain, with the least effort; None if it is another."""
    if len(body) > HARMLESS_BYTES or not body.isascii() or _LF in body or _CR in body:
        return None
    try:
        job = _one.decode(body)
    except Unreadable:
        return None
    kind, queue, size = job.type, job.queue, len(job.payload)
    if kind not in good_names or queue not in good_names or size > max_bytes:
        return None
    if size > 2 * MAX_DEPTH and may_be_deep(body):
        return None
    return job if len(body) - len(kind) - len(queue) - size < BARE + SLACK else None


def reading_one(body: bytes, form: Format, max_bytes: int) -> Work[tuple[NewJob, bool]]:
    """Read the body of ``POST /jobs``.

    Args:
        body: As it came.
        form: How it is written.
        max_bytes: Bytes that its payload may have.

    Returns:
        The job, and whether it says nothing beyond type, queue and payload.

    Raises:
        InvalidInput: Something does not fit; nothing is stored.
        NotSupported: It asks for a part that this build does not speak.
    """
    plain = False
    if form is not JSON:
        job = yield from job_from_msgpack(body, max_bytes)
    else:
        try:
            job = _one.decode(body)
        except Unreadable as error:
            job = job_from_json(body, error)
        else:
            yield
            check_text(body)
            plain = len(body) - BARE - len(job.type) - len(job.queue) - len(job.payload) < SLACK
            if not plain:
                check_members(body, job)
    yield from judging_job(job, max_bytes)
    if not plain:
        check_more(job)
    return job, plain


def reading_many(body: bytes, form: Format, max_bytes: int, max_jobs: int) -> Work[tuple[list[NewJob], bool]]:
    """Read the body of ``POST /jobs/bulk`` piece by piece; see `reading_one`."""
    if form is not JSON:
        return (yield from jobs_from_msgpack(body, max_bytes, max_jobs)), False
    guess = array_guessed(body)
    if guess is not None:
        try:
            return (yield from _read_array(body, guess, max_bytes, max_jobs))
        except Unreadable:
            pass  # so the guess was wrong, or the body is; what follows tells
    text = array_of(body)
    return (yield from _read_array(text, slice(0, len(text)), max_bytes, max_jobs))


def _read_array(text: bytes, where: slice, max_bytes: int, max_jobs: int) -> Work[tuple[list[NewJob], bool]]:
    jobs: list[NewJob] = []
    plain = True
    for piece in pieces_of(text, where):
        if len(piece) > LONG_PIECE:
            check_few(piece, len(jobs), max_jobs)
            yield
        more, are_plain = yield from _read_piece(piece, len(jobs), max_bytes)
        if len(jobs) + len(more) > max_jobs:
            check_few(text[where], 0, max_jobs)
        jobs += more
        plain = plain and are_plain
        yield
    return jobs, plain


def _read_piece(text: bytes, first: int, max_bytes: int) -> Work[tuple[list[NewJob], bool]]:
    """Read some of a bulk's jobs, fast; if anything is amiss, carefully.

    Args:
        text: An array of jobs.
        first: Place of its first job in the bulk.
        max_bytes: Bytes that each payload may have.

    Returns:
        The jobs, and whether none says anything beyond type, queue and payload.
    """
    if not text.isascii():
        text.decode()
    try:
        jobs = _many.decode(text)
        plain = len(text) - _accounted(jobs) < SLACK and b"\n" not in text and b"\r" not in text
        if not plain:
            tight = msgspec.json.format(text, indent=-1)
            if len(tight) < len(text):
                jobs = _many.decode(tight)
                plain = len(tight) - _accounted(jobs) < SLACK
            if not plain and _is_odd(tight, jobs):
                return (yield from jobs_from_json(text, first, max_bytes)), False
        yield from _checking(jobs, max_bytes)
        if not plain:
            for job in jobs:
                check_more(job)
    except (InvalidInput, *Unreadable):
        return (yield from jobs_from_json(text, first, max_bytes)), False  # words the error with its place
    return jobs, plain


def _accounted(jobs: Sequence[NewJob]) -> int:
    """Tell the bytes of an array of jobs that say nothing beyond type, queue and payload; a character of a name counts as one."""
    said = 1 + len(jobs) * (BARE + 1)
    for job in jobs:
        said += len(job.type) + len(job.queue) + len(job.payload)
    return said


def _is_odd(tight: bytes, jobs: Sequence[NewJob]) -> bool:
    """Tell whether jobs without white space have a key twice or oddly written, or far too many."""
    objects = _objects.decode(tight)
    if _is_longer(tight, objects) or max(map(len, objects), default=0) > MAX_MEMBERS:
        return True
    inner = [
        bytes(parts[name])
        for parts, job in zip(objects, jobs, strict=True)
        for name in STRUCTURED
        if getattr(job, name) is not None
    ]
    text = b"[" + b",".join(inner) + b"]"
    return bool(inner) and _is_longer(text, _objects.decode(text))


def _is_longer(tight: bytes, objects: list[dict[str, msgspec.Raw]]) -> bool:
    """Tell whether an array of objects without white space has more bytes than the members it was decoded to."""
    members = sum(map(len, objects))
    names = sum(map(len, chain.from_iterable(objects)))
    values = sum(map(len, chain.from_iterable(map(dict.values, objects))))
    empty = sum(not parts for parts in objects)  # each with one byte more than its members tell
    return len(tight) != 1 + 2 * len(objects) + 4 * members + names + values + empty


def _checking(jobs: Sequence[NewJob], max_bytes: int) -> Work[None]:
    """Check names and payloads; short payloads under known names need no more than a look."""
    good = good_names
    for job in jobs:
        if job.type not in good or job.queue not in good or len(job.payload) > 2 * MAX_DEPTH:
            yield from judging_job(job, max_bytes)
