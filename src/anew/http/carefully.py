"""Reads new jobs a second time, thoroughly: finds repeated keys, lets whole floats pass, words errors.

Payload and policy stay the bytes that they are; only the small members around them become objects.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from anew.errors import InvalidInput, MalformedRequest
from anew.http.bodies import (
    check_beside,
    check_msgpack_keys,
    check_text,
    convert,
    malformed_json,
    msgpack_length,
    to_object,
    to_show,
    worded,
)
from anew.http.formats import JSON, Unreadable, reason_of
from anew.http.jobrules import check_count, check_more, judging_job
from anew.http.portions import Work
from anew.http.repacking import counting, repacking, unpacked
from anew.jobs import NewJob

BARE = len(b'{"type":"","queue":"","payload":}')
SLACK = len(b',"type":""')
"""The shortest pair that could hide in a body: a repeated key with an empty value. Shorter leftovers are white space."""

MAX_MEMBER = 65_536
"""Bytes of any member but payload and policy; the longest name that is allowed, all escapes, has some 3,000."""

MAX_MEMBERS = 1_000
"""Members of one job; those with unknown names are passed over, but not for ever."""

_KEPT = ("payload", "policy", "batch")
STRUCTURED = ("backoff", "retention")
_NIL = b"\xc0"
_TO_KEY = re.compile(rb"[\s,{]*")
_KEY = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_TO_VALUE = re.compile(rb"[\s:]*")
_AFTER_VALUE = re.compile(rb"\s*[,}]")


class _AnyPayload(msgspec.Struct):
    payload: msgspec.Raw = msgspec.Raw()


_one = msgspec.json.Decoder(NewJob)
_any_payload = msgspec.json.Decoder(_AnyPayload)
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])
_packed_object = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_packed_list = msgspec.msgpack.Decoder(list[msgspec.Raw])
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
    parts = check_once(body, _payload_of(body))
    kept = {name: parts.pop(name) for name in _KEPT if name in parts}
    known = {name: part for name, part in parts.items() if name in NewJob.__struct_fields__}
    for name, part in known.items():
        _fits(name, part)
    value = to_object(msgspec.json.encode(known), JSON)
    assert isinstance(value, dict)
    return convert(_without_null(value | kept), NewJob)


def _payload_of(body: bytes) -> bytes:
    """Give the payload of a job that may not fit otherwise; empty if none is found.

    Raises:
        MalformedRequest: The text is no JSON.
    """
    try:
        return bytes(_any_payload.decode(body).payload)
    except msgspec.ValidationError:
        return b""
    except Unreadable as error:  # the decoder before stopped short of it
        raise malformed_json(error) from None


def check_once(body: bytes, payload: bytes = b"") -> dict[str, msgspec.Raw]:
    """Refuse an object that has a key twice, or far too many; give its members.

    Args:
        body: A JSON text.
        payload: The part of it that may hold very many values.

    Raises:
        MalformedRequest: That, or it is no object.
    """
    check_beside(body, payload)
    try:
        parts = _raw_object.decode(body)
    except msgspec.ValidationError as unfit:
        raise worded(unfit, to_show(body), "") from None
    if len(parts) > MAX_MEMBERS or max(map(len, parts), default=0) > MAX_MEMBER:
        raise _too_many_members()
    if len(body) != 1 + 4 * len(parts) + sum(map(len, parts)) + sum(map(len, parts.values())):
        check_repeats(body, parts)  # it has white space, an odd name, or a repetition
    return parts


def check_members(body: bytes, job: NewJob) -> None:
    """Refuse a job that has a key twice, in itself or in one of its structured members.

    Args:
        body: A valid JSON object.
        job: What it was decoded to.
    """
    parts = check_once(body, bytes(job.payload))
    for name in STRUCTURED:
        if getattr(job, name) is not None:
            check_once(bytes(parts[name]))


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


def jobs_from_json(text: bytes, first: int, max_bytes: int) -> Work[list[NewJob]]:
    """Read and check jobs one by one, so that an error names its place.

    Args:
        text: An array of jobs.
        first: Place of the first one in its bulk.
        max_bytes: Bytes that each payload may have.
    """
    jobs: list[NewJob] = []
    for at, raw in enumerate(_raw_list.decode(text), first):
        try:
            jobs.append((yield from _checked_raw(bytes(raw), max_bytes)))
        except InvalidInput as unfit:
            raise _placed(unfit, at) from None
        yield
    return jobs


def _checked_raw(data: bytes, max_bytes: int) -> Work[NewJob]:
    try:
        job = _one.decode(data)
    except msgspec.ValidationError as error:
        job = job_from_json(data, error)
    else:
        check_text(data)
        check_members(data, job)
    yield from judging_job(job, max_bytes)
    check_more(job)
    return job


def _placed(error: InvalidInput, at: int) -> InvalidInput:
    """Say which job of a bulk an error is about."""
    return type(error)(f"jobs[{at}]: {error}", field=f"jobs[{at}].{error.field}", value=error.value)


def job_from_msgpack(body: bytes, max_bytes: int) -> Work[NewJob]:
    """Build a job from MessagePack, once its values have been counted; payload and policy become JSON."""
    yield from counting(body)
    parts = _packed_parts(body)
    rest = {
        name: unpacked(bytes(part))
        for name, part in parts.items()
        if name not in _KEPT and name in NewJob.__struct_fields__ and _fits(name, part)
    }
    if "payload" in parts:
        rest["payload"] = msgspec.Raw((yield from repacking(bytes(parts["payload"]), max_bytes)))
    for name in ("policy", "batch"):
        if name in parts and bytes(parts[name]) != _NIL:
            rest[name] = msgspec.Raw((yield from repacking(bytes(parts[name]), MAX_MEMBER, name)))
    return convert(_without_null(rest), NewJob)


def jobs_from_msgpack(body: bytes, max_bytes: int, max_jobs: int) -> Work[list[NewJob]]:
    """Read and check the jobs of a bulk in MessagePack."""
    listed = _packed_parts(body).get("jobs", b"")
    check_count(msgpack_length(listed), max_jobs)  # before anything is built
    try:
        raws = _packed_list.decode(listed)
    except msgspec.DecodeError:
        raise MalformedRequest("jobs: expected a list of jobs", field="jobs") from None
    jobs: list[NewJob] = []
    for at, raw in enumerate(raws):
        try:
            job = yield from job_from_msgpack(bytes(raw), max_bytes)
            yield from judging_job(job, max_bytes)
            check_more(job)
        except InvalidInput as error:
            raise _placed(error, at) from None
        jobs.append(job)
        yield
    return jobs


def _packed_parts(body: bytes) -> dict[str, msgspec.Raw]:
    """Give the members of a map, each still packed."""
    if msgpack_length(body) > MAX_MEMBERS:
        raise _too_many_members()
    try:
        parts = _packed_object.decode(body)
    except msgspec.ValidationError as error:
        raise worded(error, msgspec.UNSET, "") from None
    except Unreadable as error:
        raise MalformedRequest(f"invalid MessagePack: {reason_of(error)}") from None
    check_msgpack_keys(body, parts)
    return parts


def _too_many_members() -> MalformedRequest:
    return MalformedRequest(
        f"expected at most {MAX_MEMBERS} members with names of at most {MAX_MEMBER} characters"
    )


def _fits(name: str, part: msgspec.Raw) -> bool:
    """Refuse a member that is far too long."""
    if len(part) > MAX_MEMBER:
        message = f"{name}: expected at most {MAX_MEMBER} bytes, got {len(part)}"
        raise MalformedRequest(message, field=name)
    return True


def _without_null(value: dict[str, Any]) -> dict[str, Any]:
    """Let a priority of null count as absent, as it does for every optional field."""
    if value.get("priority", 0) is None:
        del value["priority"]
    return value


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()
