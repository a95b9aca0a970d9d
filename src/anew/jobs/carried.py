"""What travels with a job beside its payload: texts by name, such as the ``traceparent`` of a trace.

They stand in the job's `meta`, as ``custom`` in the form that the Faktory door keeps there, so that each door reads what came
through the other. So they need no column, a job that carries nothing costs nothing, and retries leave them alone. When a job
that is kept has completed, its result takes their place: no result begins with a space, and this always does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from anew.jobs.codec import NewJob, PushedJob
from anew.jobs.job import Job
from anew.jobs.state import State
from anew.jobs.zizq_ties import result_beside

MOST_BYTES: Final = 8_192
"""Bytes of names and texts that a job may carry: as much as W3C's baggage, the longest that is usual."""

LONGEST: Final = 6 * MOST_BYTES + 1_024
"""Bytes of a `meta` that may have so much: JSON writes some characters as six."""

_HEAD: Final = b' ["",0,'
_CUSTOM: Final = 2
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[msgspec.Raw]).decode
_texts = msgspec.json.Decoder(dict[str, object]).decode


def size_of(carried: Mapping[str, str]) -> int:
    """Count the bytes of names and texts.

    Raises:
        UnicodeEncodeError: One cannot be written.
    """
    return sum(len(name.encode()) + len(text.encode()) for name, text in carried.items())


def write_carried(carried: Mapping[str, str]) -> bytes:
    """Give the `meta` of a job that carries these texts; nothing for none."""
    return _HEAD + _encode(carried) + b"]" if carried else b""


def read_carried(meta: bytes | None) -> dict[str, str]:
    """Give what a job carries by its `meta`; what is no text is left out, and all of it if it is much too long."""
    if not meta or len(meta) > LONGEST:
        return {}
    try:
        members = _decode(meta)
        found = _texts(members[_CUSTOM]) if len(members) > _CUSTOM else {}
    except (msgspec.DecodeError, UnicodeDecodeError):  # a result, or a `custom` that is absent
        return {}
    return {name: text for name, text in found.items() if isinstance(text, str)}


def carrying(jobs: Sequence[NewJob], carried: Mapping[str, str]) -> Sequence[NewJob]:
    """Give new jobs that carry these texts; the same ones where there are none."""
    if not carried:
        return jobs
    meta = write_carried(carried)
    return [_with_meta(job, meta) for job in jobs]


def _with_meta(job: NewJob, meta: bytes) -> PushedJob:
    if isinstance(job, PushedJob):
        return msgspec.structs.replace(job, meta=meta)
    return PushedJob(**{name: getattr(job, name) for name in NewJob.__struct_fields__}, meta=meta)


def is_carried(meta: bytes | None) -> bool:
    """Report whether the `meta` of a job without a `jid` is what it carries, and not its result."""
    return meta is not None and meta[:1] == _HEAD[:1]


def carried_of(job: Job) -> dict[str, str]:
    """Give what a job carries; nothing once its result has taken the place."""
    return read_carried(job.meta) if job.jid is not None or is_carried(job.meta) else {}


def result_of(job: Job) -> bytes | None:
    """Give a job's result, as JSON; None if it is not kept, or the job has not completed."""
    if job.state is not State.COMPLETED or job.jid is not None or job.meta is None:
        return None
    return result_beside(job.meta) if is_carried(job.meta) else job.meta
