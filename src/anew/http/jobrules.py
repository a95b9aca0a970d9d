"""The rules that a new job must keep beyond its shape, but for its names: sizes, policies, and what is not supported."""

from __future__ import annotations

import math
import struct

import msgspec
from msgspec import UnsetType

from anew.backoff import policy_from_json
from anew.errors import InvalidJob, MalformedRequest, TooLarge
from anew.jobs import Backoff, NewJob, Retention
from anew.jobs.codec import U64_MAX
from anew.jobs.names import check_name
from anew.jobs.patch import RetentionPatch
from anew.jobs.payload_limits import MOST_DIGITS, judging, may_be_out_of_range
from anew.net.chunks import Work


def judging_job(job: NewJob, max_bytes: int) -> Work[None]:
    """Check names and payload, a long one window by window, and leave the payload in one line."""
    check_name(job.type, "type")
    check_name(job.queue, "queue")
    size = len(job.payload)
    if size > max_bytes:
        raise TooLarge(f"payload: expected at most {max_bytes} bytes, got {size}", field="payload")
    payload = bytes(job.payload)
    if len(payload) > MOST_DIGITS or may_be_out_of_range(payload):
        yield
        yield from judging(payload)
    if b"\n" in payload or b"\r" in payload:
        job.payload = msgspec.Raw(payload.translate(None, b"\r\n"))  # in JSON, always white space


def check_more(job: NewJob) -> None:
    """Check what a job says beyond type, queue and payload."""
    check_u64(job.ready_at, "ready_at")
    if job.backoff is not None:
        check_backoff(job.backoff)
    if job.retention is not None:
        check_retention(job.retention)
    if isinstance(job.batch, msgspec.Raw):
        _check_batch(job, job.batch)
    if isinstance(job.policy, UnsetType):
        return
    policy = bytes(job.policy)
    if policy == b"null":
        job.policy = msgspec.UNSET
        return
    if job.backoff is not None:
        raise InvalidJob("policy and backoff cannot be combined; give one of them", field="policy")
    if b"\n" in policy or b"\r" in policy:
        policy = policy.translate(None, b"\r\n")
        job.policy = msgspec.Raw(policy)
    policy_from_json(policy)  # raises in its own words


def _check_batch(job: NewJob, batch: msgspec.Raw) -> None:
    if bytes(batch) == b"null":
        job.batch = msgspec.UNSET
    elif not bytes(batch).startswith(b"{"):
        raise MalformedRequest("batch: expected object", field="batch")


def check_backoff(backoff: Backoff) -> None:
    """Refuse an exponent that is no finite 32-bit float; huge ones just mean the longest or the shortest wait there is."""
    try:
        struct.pack("<f", backoff.exponent)
        fits = math.isfinite(backoff.exponent)
    except OverflowError:
        fits = False
    if not fits:
        raise InvalidJob(
            f"backoff.exponent: expected a finite 32-bit float, got {backoff.exponent}",
            field="backoff.exponent",
        )


def check_retention(retention: Retention | RetentionPatch) -> None:
    """Refuse periods above 64 bits."""
    for name in ("completed_ms", "dead_ms"):
        check_u64(getattr(retention, name), f"retention.{name}")


def check_u64(value: int | UnsetType | None, field: str) -> None:
    """Refuse a number above 64 bits, where msgspec's own bounds end at 63."""
    if isinstance(value, int) and value > U64_MAX:
        raise InvalidJob(f"{field}: expected at most {U64_MAX}, got {value}", field=field)
