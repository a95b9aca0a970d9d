"""What Zizq's producers tie a new job to: a unique key, or a key whose jobs are folded together; and what is given back of it.

Beside the tie itself the job keeps what its producer said, in the words of that API, since every answer about the job repeats it.
It stands in the job's `meta`, behind what the Faktory door keeps there, so that both doors can read it; a result that is kept
stands behind it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct, UnsetType

from anew.errors import InvalidJob
from anew.jobs.codec import JobHooks, NewJob, PushedJob, UniqueKey
from anew.jobs.fold import fold_digest
from anew.jobs.unique import Scope, text_digest

UniqueWhile = Literal["queued", "active", "exists"]


class Folding(Struct, frozen=True, gc=False):
    """Zizq's ``batch``: new jobs are merged into the waiting one of the same key.

    Attributes:
        key: Global, over all queues and types; any text, the empty one too.
        when: Expression in jq's language over `$existing` and `$new`: whether the two payloads may become one.
        fold: Expression over the same two: the payload that they become.
    """

    key: str
    when: str
    fold: str


class Said(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a producer said of a job's tie: a key with its scope, or a `Folding`.

    Attributes:
        unique_key: Any text, the empty one too.
        unique_while: How long a job of the key holds it.
        batch: How it is folded.
    """

    unique_key: str | None = None
    unique_while: UniqueWhile | None = None
    batch: Folding | None = None


NOTHING: Final = Said()
MOST_KEY: Final = 4_096
"""Bytes of a key: it stands in every answer about its job."""

_HEAD: Final = b' ["",0,null,"",0,"",null,0,'
"""No result begins with a space, see `anew.jobs.carried`; then the eight members that the Faktory door may have."""

_encode = msgspec.json.Encoder().encode
_said = msgspec.json.Decoder(Said)
_said_and_result = msgspec.json.Decoder(tuple[Said, Raw])
_folding = msgspec.json.Decoder(Folding)


def tied(job: NewJob, *, template: bool = False) -> NewJob:
    """Give a new job as the engine takes it: tied to what it says, if it says anything.

    Args:
        job: As it came.
        template: It is the job of a cron entry, where a scope without a key means nothing and is no error.

    Raises:
        InvalidJob: What it says does not fit together, or is none of the values that there are.
    """
    if job.unique_key is None and job.unique_while is None and isinstance(job.batch, UnsetType):
        return job
    if job.unique_while is not None and job.unique_key is None and not template:
        raise InvalidJob("unique_while requires unique_key", field="unique_while")
    if job.unique_key is not None and not isinstance(job.batch, UnsetType):
        raise InvalidJob("unique_key and batch cannot be combined", field="unique_key")
    scope = _scope(job.unique_while)
    if job.unique_key is None and isinstance(job.batch, UnsetType):
        return job
    said = _what(job, scope)
    fields = {name: getattr(job, name) for name in NewJob.__struct_fields__}
    return PushedJob(**fields, hooks=_hooks(said), meta=_HEAD + _encode(said) + b"]")


def said_of(meta: bytes | None) -> Said:
    """Give what a job's producer said of its tie, by the job's `meta`."""
    if meta is None or not meta.startswith(_HEAD):
        return NOTHING
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return _said.decode(meta[len(_HEAD) : -1])
    both = _with_result(meta)  # or somebody has damaged it: the job must be shown all the same
    return NOTHING if both is None else both[0]


def beside_said(meta: bytes | None, result: bytes) -> bytes:
    """Give the `meta` of a completed job: its result, as JSON, and before it what its producer said of its tie, if anything."""
    return result if meta is None or said_of(meta) is NOTHING else meta[:-1] + b"," + result + b"]"


def result_beside(meta: bytes) -> bytes | None:
    """Give the result that stands behind what a job's producer said; None if there is none."""
    both = _with_result(meta) if meta.startswith(_HEAD) else None
    return None if both is None else bytes(both[1])


def _with_result(meta: bytes) -> tuple[Said, Raw] | None:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return _said_and_result.decode(b"[" + meta[len(_HEAD) :])
    return None


def _scope(given: str | None) -> UniqueWhile:
    scope = "queued" if given is None else given
    if scope not in _SCOPES:
        expected = '(expected "queued", "active", or "exists")'
        raise InvalidJob(f'invalid unique_while: "{scope[:60]}" {expected}', field="unique_while")
    return _SCOPES[scope]


def _what(job: NewJob, scope: UniqueWhile) -> Said:
    if job.unique_key is not None:
        _check_key(job.unique_key, "unique_key")
        return Said(unique_key=job.unique_key, unique_while=scope)
    assert isinstance(job.batch, Raw)
    try:
        folding = _folding.decode(job.batch)
    except msgspec.ValidationError as error:
        expected = "expected key, when and fold, all of them texts"
        raise InvalidJob(f"batch: {error}; {expected}", field="batch") from None
    _check_key(folding.key, "batch.key")
    return Said(batch=folding)


def _check_key(key: str, field: str) -> None:
    size = len(key.encode("utf-8", "surrogatepass"))
    if size > MOST_KEY:
        raise InvalidJob(f"{field}: expected at most {MOST_KEY} bytes, got {size}", field=field)


_SCOPES: dict[str, UniqueWhile] = {"queued": "queued", "active": "active", "exists": "exists"}


def _hooks(said: Said) -> JobHooks:
    if said.batch is not None:
        return JobHooks(fold=fold_digest(said.batch.key))
    assert said.unique_key is not None
    return JobHooks(unique=UniqueKey(text_digest(said.unique_key), Scope(said.unique_while or "queued")))
