"""Reads new jobs a second time, thoroughly: finds repeated keys, lets whole floats pass, words errors.

Payload and policy stay the bytes that they are; only the small members around them become objects.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from anew.errors import InvalidInput, MalformedRequest
from anew.http.bodies import check_text, convert, malformed_json, to_object, worded
from anew.http.formats import JSON, MSGPACK
from anew.http.jobrules import check_count, check_job
from anew.http.payloads import payload_from_msgpack
from anew.jobs import NewJob

BARE = len(b'{"type":"","queue":"","payload":}')
SLACK = len(b',"type":""')
"""The shortest pair that could hide in a body: a repeated key with an empty value. Shorter leftovers are white space."""

MAX_MEMBER = 65_536
"""Bytes of any member but payload and policy; the longest name that is allowed, all escapes, has some 3,000."""

MAX_MEMBERS = 1_000
"""Members of one job; those with unknown names are passed over, but not for ever."""

_KEPT = ("payload", "policy")
_TO_KEY = re.compile(rb"[\s,{]*")
_KEY = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TO_VALUE = re.compile(rb"[\s:]*")
_AFTER_VALUE = re.compile(rb"\s*[,}]")


class _RawBulk(msgspec.Struct):
    jobs: list[msgspec.Raw]


_one = msgspec.json.Decoder(NewJob)
_raw_bulk = msgspec.json.Decoder(_RawBulk)
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)


def job_from_json(body: bytes, error: Exception | None = None) -> NewJob:
    """Read a job that was not plain, or that did not decode.

    Args:
        body: JSON text.
        error: What the decoder said, if it did not decode.

    Raises:
        MalformedRequest: It is not readable, repeats a key, or a value does not fit.
    """
    if error is not None and not isinstance(error, msgspec.ValidationError):
        raise malformed_json(error)
    check_text(body)
    try:
        parts = _raw_object.decode(body)
    except msgspec.ValidationError as unfit:
        raise worded(unfit, _to_show(body), "") from None
    if len(parts) > MAX_MEMBERS or max(map(len, parts), default=0) > MAX_MEMBER:
        raise MalformedRequest(
            f"expected at most {MAX_MEMBERS} members with names of at most {MAX_MEMBER} characters"
        )
    check_repeats(body, parts)
    kept = {name: parts.pop(name) for name in _KEPT if name in parts}
    known = {name: part for name, part in parts.items() if name in NewJob.__struct_fields__}
    for name, part in known.items():
        if len(part) > MAX_MEMBER:
            message = f"{name}: expected at most {MAX_MEMBER} bytes, got {len(part)}"
            raise MalformedRequest(message, field=name)
    value = to_object(msgspec.json.encode(known), JSON)
    assert isinstance(value, dict)
    return convert(_without_null(value | kept), NewJob)


def check_repeats(body: bytes, parts: dict[str, msgspec.Raw]) -> None:
    """Refuse an object that has a key twice; inside its values a repeated key is none of our business.

    Decoding kept the last value of each key. So a value that is not what was kept for its key, or a key that was met before,
    gives a repetition away, and what was kept tells where each value ends: nothing is parsed again.

    Args:
        body: A valid JSON object.
        parts: What it was decoded to.
    """
    met: set[str] = set()
    at = _end(_TO_KEY, body, 0)
    while key := _KEY.match(body, at):
        name = _text.decode(key.group())
        part = bytes(parts[name])
        at = _end(_TO_VALUE, body, key.end())
        after = _AFTER_VALUE.match(body, at + len(part))
        if name in met or not body.startswith(part, at) or after is None:
            raise MalformedRequest(f"the key {name:.60} is given twice; expected once", field=name)
        met.add(name)
        at = _end(_TO_KEY, body, after.end())


def jobs_from_json(body: bytes, max_bytes: int, max_jobs: int, error: Exception | None) -> list[NewJob]:
    """Read and check the jobs of a bulk one by one, so that an error names its place."""
    if error is not None and not isinstance(error, msgspec.ValidationError):
        raise malformed_json(error)
    check_text(body)
    try:
        raws = _raw_bulk.decode(body).jobs
    except msgspec.ValidationError as unfit:
        raise worded(unfit, _to_show(body), "") from None
    check_count(len(raws), max_jobs)
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
        slack = len(data) - BARE - len(job.type) - len(job.queue) - len(job.payload)
        if slack >= SLACK or not data.isascii():
            job = job_from_json(data)
    except msgspec.ValidationError:
        job = job_from_json(data)
    check_job(job, max_bytes)
    return job


def _placed(error: InvalidInput, at: int) -> InvalidInput:
    """Say which job of a bulk an error is about."""
    return type(error)(f"jobs[{at}]: {error}", field=f"jobs[{at}].{error.field}", value=error.value)


def job_from_msgpack(value: Any, body: bytes | None) -> NewJob:
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


def jobs_from_msgpack(body: bytes, max_bytes: int, max_jobs: int) -> list[NewJob]:
    """Read and check the jobs of a bulk in MessagePack."""
    value = to_object(body, MSGPACK)
    listed = value.get("jobs") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise MalformedRequest("jobs: expected a list of jobs", field="jobs")
    check_count(len(listed), max_jobs)
    jobs: list[NewJob] = []
    for at, item in enumerate(listed):
        try:
            job = job_from_msgpack(item, None)
            check_job(job, max_bytes)
        except InvalidInput as error:
            raise _placed(error, at) from None
        jobs.append(job)
    return jobs


def _without_null(value: dict[str, Any]) -> dict[str, Any]:
    """Let a priority of null count as absent, as it does for every optional field."""
    if value.get("priority", 0) is None:
        del value["priority"]
    return value


def _to_show(body: bytes) -> object:
    """Decode a body for an error's sake; a long one is not worth it."""
    return to_object(body, JSON) if len(body) <= MAX_MEMBER else msgspec.UNSET


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()
