"""Turns the body of an enqueue into new jobs: decoded once, checked whole, handed on as they are."""

from __future__ import annotations

import msgspec

from anew.errors import InvalidInput
from anew.http.bodies import check_text, decode_msgpack
from anew.http.carefully import (
    BARE,
    SLACK,
    job_from_json,
    job_from_msgpack,
    jobs_from_json,
    jobs_from_msgpack,
)
from anew.http.formats import JSON, Format
from anew.http.jobrules import check_count, check_job, check_plain, good_names
from anew.http.payloads import MAX_DEPTH
from anew.jobs import NewJob

_BARE_BULK = len(b'{"jobs":[]}')


class _Bulk(msgspec.Struct):
    jobs: list[NewJob]


_one = msgspec.json.Decoder(NewJob)
_bulk = msgspec.json.Decoder(_Bulk)


def one_job(body: bytes, form: Format, max_bytes: int) -> tuple[NewJob, bool]:
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
    if form is JSON:
        try:
            job = _one.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            job = job_from_json(body, error)
        else:
            slack = len(body) - BARE - len(job.type) - len(job.queue) - len(job.payload)
            if slack >= SLACK:
                job = job_from_json(body)
            elif body.isascii() and b"\n" not in body and b"\r" not in body:
                check_plain(job, body, max_bytes)
                return job, True
        check_text(body)
    else:
        job = job_from_msgpack(decode_msgpack(body), body)
    check_job(job, max_bytes)
    return job, False


def many_jobs(body: bytes, form: Format, max_bytes: int, max_jobs: int) -> tuple[list[NewJob], bool]:
    """Read the body of ``POST /jobs/bulk``; see `one_job`."""
    if form is not JSON:
        return jobs_from_msgpack(body, max_bytes, max_jobs), False
    try:
        jobs = _bulk.decode(body).jobs
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return jobs_from_json(body, max_bytes, max_jobs, error), False
    check_count(len(jobs), max_jobs)
    said = _BARE_BULK + len(jobs) * (BARE + 1) - 1
    good = good_names
    try:
        for job in jobs:
            kind, queue, size = job.type, job.queue, len(job.payload)
            said += len(kind) + len(queue) + size
            if kind not in good or queue not in good or size > 2 * MAX_DEPTH:
                check_plain(job, bytes(job.payload), max_bytes)
    except InvalidInput:
        return jobs_from_json(body, max_bytes, max_jobs, None), False  # words the error with its place
    if len(body) - said < SLACK and body.isascii() and b"\n" not in body and b"\r" not in body:
        return jobs, True
    return jobs_from_json(body, max_bytes, max_jobs, None), False
