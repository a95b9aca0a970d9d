"""Turns the body of an enqueue into new jobs: decoded once, checked whole, handed on as they are."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import msgspec

from anew.backoff import policy_from_json
from anew.errors import InvalidInput, InvalidJob, MalformedRequest, NotSupported, TooLarge
from anew.http.bodies import (
    MAX_DEPTH,
    check_payload,
    check_text,
    convert,
    decode_msgpack,
    malformed_json,
    payload_from_msgpack,
    to_object,
    worded,
)
from anew.http.formats import JSON, MSGPACK, Format
from anew.jobs import Backoff, NewJob, Retention
from anew.jobs.codec import U64_MAX

_BARE = len(b'{"type":"","queue":"","payload":}')
_BARE_BULK = len(b'{"jobs":[]}')
_SLACK = len(b',"type":""')
"""The shortest pair that could hide in a body: a repeated key with an empty value. Shorter leftovers are white space."""

MAX_EXPONENT = 1e12
"""What a policy's curve takes; any exponent above some dozen means the longest wait there is."""

_RESERVED = frozenset("*?[]{}\\")
_KNOWN_NAMES = 4_096


class _Bulk(msgspec.Struct):
    jobs: list[NewJob]


class _RawBulk(msgspec.Struct):
    jobs: list[msgspec.Raw]


_one = msgspec.json.Decoder(NewJob)
_bulk = msgspec.json.Decoder(_Bulk)
_raw_bulk = msgspec.json.Decoder(_RawBulk)
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])

_good_names: set[str] = set()
"""Names that have passed the rule, so that the usual ones cost one look-up; a bounded number."""


def check_name(name: str, field: str) -> None:
    """Refuse a queue's or type's name that Zizq's rule refuses.

    Raises:
        InvalidJob: In the words of that rule.
    """
    if name in _good_names:
        return
    if not name:
        raise InvalidJob(f"{field} must not be empty", field=field)
    if "," in name:
        raise InvalidJob(f"{field} must not contain ','", field=field)
    if "\0" in name:
        raise InvalidJob(f"{field} must not contain null bytes", field=field)
    for char in name:
        if char in _RESERVED:
            raise InvalidJob(f"{field} must not contain '{char}' (reserved)", field=field)
    if len(name.encode("utf-8", "surrogatepass")) > 512:
        raise InvalidJob(
            f"{field} must not be longer than 512 bytes, got {len(name)} characters", field=field
        )
    if len(_good_names) < _KNOWN_NAMES:
        _good_names.add(name)


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
            job = _thorough(body, error)
        else:
            slack = len(body) - _BARE - len(job.type) - len(job.queue) - len(job.payload)
            if slack >= _SLACK:
                job = _thorough(body, None)
            elif body.isascii() and b"\n" not in body and b"\r" not in body:
                _check_plain(job, max_bytes)
                return job, True
        check_text(body)
    else:
        job = _from_msgpack(decode_msgpack(body), body)
    check_job(job, max_bytes)
    return job, False


def many_jobs(body: bytes, form: Format, max_bytes: int, max_jobs: int) -> tuple[list[NewJob], bool]:
    """Read the body of ``POST /jobs/bulk``; see `one_job`."""
    if form is not JSON:
        return _bulk_from_msgpack(body, max_bytes, max_jobs), False
    try:
        jobs = _bulk.decode(body).jobs
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _bulk_thorough(body, max_bytes, max_jobs, error), False
    _check_count(len(jobs), max_jobs)
    said = _BARE_BULK + len(jobs) * (_BARE + 1) - 1
    good = _good_names
    try:
        for job in jobs:
            kind, queue, size = job.type, job.queue, len(job.payload)
            said += len(kind) + len(queue) + size
            if kind not in good or queue not in good or size > 2 * MAX_DEPTH:
                _check_plain(job, max_bytes)
    except InvalidInput:
        return _bulk_thorough(body, max_bytes, max_jobs, None), False  # words the error with its place
    if len(body) - said < _SLACK and body.isascii() and b"\n" not in body and b"\r" not in body:
        return jobs, True
    return _bulk_thorough(body, max_bytes, max_jobs, None), False


def check_job(job: NewJob, max_bytes: int) -> None:
    """Check everything that decoding does not: names, payload, policy, and parts of the protocol not spoken here."""
    check_name(job.type, "type")
    check_name(job.queue, "queue")
    payload = bytes(job.payload)
    _check_size(payload, max_bytes)
    check_payload(payload)
    if b"\n" in payload or b"\r" in payload:
        job.payload = msgspec.Raw(msgspec.json.format(payload, indent=-1))
    if job.unique_while is not None and job.unique_key is None:
        raise InvalidJob("unique_while requires unique_key", field="unique_while")
    if job.unique_key is not None and job.batch is not None:
        raise InvalidJob("unique_key and batch cannot be combined", field="unique_key")
    for part in ("unique_key", "batch"):
        if getattr(job, part) is not None:
            raise NotSupported(f"{part} is not supported by this server yet; send the job without it")
    if job.backoff is not None:
        check_backoff(job.backoff)
    if job.retention is not None:
        check_retention(job.retention)
    if job.ready_at is not None and job.ready_at > U64_MAX:
        raise InvalidJob(f"ready_at: expected at most {U64_MAX}, got {job.ready_at}", field="ready_at")
    if isinstance(job.policy, msgspec.UnsetType):
        return
    if bytes(job.policy) == b"null":
        job.policy = msgspec.UNSET
        return
    if job.backoff is not None:
        raise InvalidJob("policy and backoff cannot be combined; give one of them", field="policy")
    policy_from_json(bytes(job.policy))  # raises in its own words


def check_backoff(backoff: Backoff) -> None:
    """Refuse an exponent that a 32-bit float cannot hold or that would make waits meaningless."""
    exponent = backoff.exponent
    try:
        finite = math.isfinite(exponent) and math.isfinite(struct.unpack("f", struct.pack("f", exponent))[0])
    except OverflowError:
        finite = False
    if not finite or not 0 <= exponent <= MAX_EXPONENT:
        raise InvalidJob(
            f"backoff.exponent: expected a 32-bit float between 0 and {MAX_EXPONENT:.0e}, got {exponent}",
            field="backoff.exponent",
        )


def check_retention(retention: Retention) -> None:
    """Refuse periods above 64 bits."""
    for name in ("completed_ms", "dead_ms"):
        value = getattr(retention, name)
        if value is not None and value > U64_MAX:
            raise InvalidJob(
                f"retention.{name}: expected at most {U64_MAX}, got {value}", field=f"retention.{name}"
            )


def _check_plain(job: NewJob, max_bytes: int) -> None:
    check_name(job.type, "type")
    check_name(job.queue, "queue")
    if len(job.payload) > 2 * MAX_DEPTH:
        payload = bytes(job.payload)
        _check_size(payload, max_bytes)
        check_payload(payload)


def _check_size(payload: bytes, max_bytes: int) -> None:
    if len(payload) > max_bytes:
        raise TooLarge(f"payload: expected at most {max_bytes} bytes, got {len(payload)}", field="payload")


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise TooLarge(f"jobs: expected at most {most} in one request, got {count}", field="jobs")


def _thorough(body: bytes, error: Exception | None) -> NewJob:
    """Read a job again, slowly: find repeated keys, let whole floats pass, word errors."""
    if error is not None and not isinstance(error, msgspec.ValidationError):
        raise malformed_json(error)
    return _job_of_raw(body, where="")


def _job_of_raw(body: bytes, *, where: str) -> NewJob:
    check_text(body)
    try:
        parts = _raw_object.decode(body)
    except msgspec.ValidationError as error:
        raise worded(error, to_object(body, JSON), where) from None
    kept = {name: parts.pop(name) for name in ("payload", "policy") if name in parts}
    _check_repeats(body, {*parts, *kept})
    value = to_object(msgspec.json.encode(parts), JSON)
    assert isinstance(value, dict)
    return convert(_without_null(value | kept), NewJob, where=where)


def _check_repeats(body: bytes, names: set[str]) -> None:
    """Count the pairs of the outer object alone: inside a payload a repeated key is none of our business."""
    outer: list[str] = []

    def pairs(found: list[tuple[str, object]]) -> None:
        outer[:] = [name for name, _ in found]  # called for the outermost object last

    json.loads(body, object_pairs_hook=pairs)
    if len(outer) != len(names):
        twice = next(name for name in outer if outer.count(name) > 1)
        raise MalformedRequest(f"the key {twice} is given twice; expected once", field=twice)


def _bulk_thorough(body: bytes, max_bytes: int, max_jobs: int, error: Exception | None) -> list[NewJob]:
    if error is not None and not isinstance(error, msgspec.ValidationError):
        raise malformed_json(error)
    check_text(body)
    try:
        raws = _raw_bulk.decode(body).jobs
    except msgspec.ValidationError as unfit:
        raise worded(unfit, to_object(body, JSON), "") from None
    _check_count(len(raws), max_jobs)
    jobs: list[NewJob] = []
    for at, raw in enumerate(raws):
        data = bytes(raw)
        try:
            jobs.append(_checked_raw(data, max_bytes))
        except InvalidInput as unfit_job:
            raise _placed(unfit_job, at) from None
    return jobs


def _checked_raw(data: bytes, max_bytes: int) -> NewJob:
    try:
        job = _one.decode(data)
        slack = len(data) - _BARE - len(job.type) - len(job.queue) - len(job.payload)
        if slack >= _SLACK or not data.isascii():
            job = _job_of_raw(data, where="")
    except msgspec.ValidationError:
        job = _job_of_raw(data, where="")
    check_job(job, max_bytes)
    return job


def _placed(error: InvalidInput, at: int) -> InvalidInput:
    """Say which job of a bulk an error is about."""
    return type(error)(f"jobs[{at}]: {error}", field=f"jobs[{at}].{error.field}", value=error.value)


def _from_msgpack(value: Any, body: bytes | None) -> NewJob:
    """Build a job from plain values; payload and policy become JSON."""
    if body is not None:
        value = to_object(body, MSGPACK)
    if not isinstance(value, dict):
        raise MalformedRequest(f"expected a map, got {type(value).__name__}")
    rest = dict(value)
    if "payload" in rest:
        rest["payload"] = msgspec.Raw(payload_from_msgpack(rest["payload"]))
    policy = rest.pop("policy", None)
    if policy is not None:
        rest["policy"] = msgspec.Raw(payload_from_msgpack(policy, "policy"))
    return convert(_without_null(rest), NewJob)


def _without_null(value: dict[str, Any]) -> dict[str, Any]:
    """Let a priority of null count as absent, as it does for every optional field."""
    if value.get("priority", 0) is None:
        del value["priority"]
    return value


def _bulk_from_msgpack(body: bytes, max_bytes: int, max_jobs: int) -> list[NewJob]:
    value = to_object(body, MSGPACK)
    listed = value.get("jobs") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise MalformedRequest("jobs: expected a list of jobs", field="jobs")
    _check_count(len(listed), max_jobs)
    jobs: list[NewJob] = []
    for at, item in enumerate(listed):
        try:
            job = _from_msgpack(item, None)
            check_job(job, max_bytes)
        except InvalidInput as error:
            raise _placed(error, at) from None
        jobs.append(job)
    return jobs
