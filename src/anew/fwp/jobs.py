"""A job's form: as a producer sends it, what is stored of it, and how a worker and a MUTATE see it.

What of a job is no column is kept as `meta`, a JSON array without the members at its end that say nothing; an empty one is no
bytes at all::

    [created_at, reserve_for, custom, at, backtrace, enqueued_at, failure, retry]

Usually that is ``["2026-01-31T23:59:59.123456789Z"]``, and nothing if the producer sent no `created_at`, since the server's own is
the instant that the row has anyway. Texts stay as they came.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta as Bounds
from msgspec import Raw, Struct, field

from anew.errors import InvalidInput, InvalidJob
from anew.fwp import times
from anew.fwp.json_text import decode, keeping, kept
from anew.fwp.replies import quoted
from anew.net.chunks import Work

I64 = Annotated[int, Bounds(ge=-(2**63), le=2**63 - 1)]

DEFAULT_RETRY: Final = 25
DEFAULT_QUEUE: Final = "default"
LONGEST_NAME: Final = 512
"""Bytes of a queue's name, a type and a jid, as of names over HTTP: they are entered in indexes and kept in memory."""
MOST_BESIDE: Final = 256 << 10
"""Bytes that a job has beside its args: they are read whole wherever it is looked at, and checked in one go, 25 ms at most."""
LONGEST_RESERVATION: Final = 86_400
"""Seconds."""
FEWEST_JID_BYTES: Final = 8
MOST_UTF8: Final = 4
"""Bytes of a character."""
MOST_ATTEMPTS: Final = 1 << 31
"""What a failure from a producer may count up to: far more than happen, and less than a stored number may be."""

NO_JID: Final = "jobs must have a reasonable jid parameter"
NO_JOBTYPE: Final = "jobs must have a jobtype parameter"
NO_ARGS: Final = "jobs must have an args parameter"
LONG_RESERVATION: Final = "jobs cannot be reserved for more than one day"

_ABSENT: Final = Raw(b"")
_LINE_END: Final = "\x1e"
"""ASCII's record separator, which no backtrace has."""
_QUEUE: Final = re.compile(r"[a-zA-Z0-9._-]+")


class SentJob(Struct, gc=False):
    """A job as it came; what is absent or null is None or empty. Unknown members are passed over.

    Attributes:
        args, custom: Compact JSON, once `check_form` has seen them.
        failure: JSON; see `Failure`.
    """

    jid: str | None = None
    jobtype: str | None = None
    args: Raw = _ABSENT
    queue: str | None = None
    retry: I64 | None = None
    created_at: str | None = None
    at: str | None = None
    reserve_for: I64 | None = None
    backtrace: I64 | None = None
    enqueued_at: str | None = None
    custom: Raw = _ABSENT
    failure: Raw = _ABSENT


class Failure(Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What went wrong with a job, as it is shown in it.

    Attributes:
        failed_at: Its first failure.
        next_at: When the last retry was to run; "" if there was none.
        backtrace: Lines.
        retry_count: Failures before the latest one.
        remaining: Retries left.
    """

    failed_at: str
    next_at: str = ""
    message: str = ""
    errtype: str = ""
    backtrace: list[str] = field(default_factory=list)
    retry_count: int
    remaining: int


class _GivenFailure(Struct):
    failed_at: str | None = None
    next_at: str | None = None
    message: str | None = None
    errtype: str | None = None
    backtrace: list[str | None] | None = None
    retry_count: I64 | None = None
    remaining: I64 | None = None


class Meta(Struct, array_like=True, frozen=True, gc=False):
    """What is kept of a job beside its columns; see the module's text.

    Attributes:
        created_at, at, enqueued_at: As they came; "" if absent.
        reserve_for: Seconds as they came, 0 if absent.
        custom: A compact JSON object; anything else if absent.
        failure: A failure that the producer sent, from which counting goes on.
        retry: As it came if it is negative, 0 otherwise: it has a column then.
    """

    created_at: str = ""
    reserve_for: int = 0
    custom: Raw = _ABSENT
    at: str = ""
    backtrace: int = 0
    enqueued_at: str = ""
    failure: Failure | None = None
    retry: int = 0


class CheckedJob(Struct, frozen=True, gc=False):
    """A job that may be stored.

    Attributes:
        args: A compact JSON array.
        retry: Retries before it is dead; 0 drops it at its first failure, a negative number means dead at once.
        at: When it may run, epoch ms; None means now.
        attempts: Failures that its producer says it has had.
        meta: See the module's text.
        custom: A compact JSON object; empty if absent.
        reserve_for: Seconds as they came, 0 if absent.
    """

    jid: str
    queue: str
    jobtype: str
    args: Raw
    retry: int
    at: int | None = None
    attempts: int = 0
    meta: bytes = b""
    custom: Raw = _ABSENT
    reserve_for: int = 0


class _ShownJob(Struct, omit_defaults=True, kw_only=True, gc=False):
    """A job as a worker gets it, in the order that it is written in."""

    retry: int
    failure: Failure | None = None
    custom: Raw | None = None
    jid: str
    queue: str
    jobtype: str
    created_at: str = ""
    enqueued_at: str = ""
    at: str = ""
    args: Raw
    reserve_for: int = 0
    backtrace: int = 0


_given_failure = msgspec.json.Decoder(_GivenFailure | None)
_failure = msgspec.json.Decoder(Failure)
_meta = msgspec.json.Decoder(Meta)
_encode = msgspec.json.Encoder().encode
_PLAIN: Final = Meta()


def check_form(job: SentJob) -> None:
    """Check the parts of a job that decoding has left as text, and make them compact.

    Parts that are too long are left as they came: `checked` refuses their job.

    Raises:
        MalformedRequest: One of them is not of its type; the message is the detail of an ``invalid JSON``.
    """
    job.args = _compact(job.args, kept(job.args, b"[", "args"))
    if job.custom is not _ABSENT or job.failure is not _ABSENT:
        _check_rare(job)


def checking_form(job: SentJob) -> Work[None]:
    """Do what `check_form` does, long args in chunks."""
    job.args = _compact(job.args, (yield from keeping(job.args, b"[", "args")))
    if job.custom is not _ABSENT or job.failure is not _ABSENT:
        _check_rare(job)


def _check_rare(job: SentJob) -> None:
    if len(job.custom) + len(job.failure) > MOST_BESIDE:
        return
    if job.custom is not _ABSENT:
        job.custom = _compact(job.custom, kept(job.custom, b"{", "custom"))
        if len(job.custom) == len(b"{}"):
            job.custom = _ABSENT
    if job.failure is not _ABSENT:
        given = decode(_given_failure, job.failure)
        job.failure = _ABSENT if given is None else Raw(_encode(_canonical(given)))


def _compact(value: Raw, text: bytes | None) -> Raw:
    if text is None:
        return _ABSENT
    return value if len(text) == len(value) else Raw(text)  # only space has gone


def _canonical(given: _GivenFailure) -> Failure:
    return Failure(
        failed_at=given.failed_at or "",
        next_at=given.next_at or "",
        message=given.message or "",
        errtype=given.errtype or "",
        backtrace=[line or "" for line in given.backtrace or ()],
        retry_count=given.retry_count or 0,
        remaining=given.remaining or 0,
    )


def checked(job: SentJob) -> CheckedJob:
    """Apply the defaults, and check a job as `check_form` left it.

    Raises:
        InvalidJob: The first rule that it breaks; the message is the text of the error.
    """
    jid, jobtype, queue = job.jid, job.jobtype, job.queue or DEFAULT_QUEUE
    if not jid or (len(jid) < FEWEST_JID_BYTES and len(jid.encode()) < FEWEST_JID_BYTES):
        raise InvalidJob(NO_JID, field="jid")
    if not jobtype:
        raise InvalidJob(NO_JOBTYPE, field="jobtype")
    if job.args is _ABSENT:
        raise InvalidJob(NO_ARGS, field="args")
    if job.reserve_for and job.reserve_for > LONGEST_RESERVATION:
        raise InvalidJob(LONG_RESERVATION, field="reserve_for")
    at = _at(job.at) if job.at else None
    if not _QUEUE.fullmatch(queue):
        raise InvalidJob(bad_queue(queue), field="queue")
    if len(queue) + len(jid) + len(jobtype) > LONGEST_NAME // MOST_UTF8:
        _check_lengths(jid=jid, jobtype=jobtype, queue=queue)
    meta = _meta_of(job)
    if len(meta) > MOST_BESIDE:
        raise InvalidJob(f"jobs have at most {MOST_BESIDE} bytes beside their args, not {len(meta)}")
    return CheckedJob(
        jid,
        queue,
        jobtype,
        job.args,
        DEFAULT_RETRY if job.retry is None else job.retry,
        at,
        0 if job.failure is _ABSENT else _attempts(_failure.decode(job.failure)),
        meta,
        job.custom,
        job.reserve_for or 0,
    )


def _check_lengths(**names: str) -> None:
    for field_name, name in names.items():
        if (size := len(name.encode())) > LONGEST_NAME:
            raise InvalidJob(
                f"a job's {field_name} has at most {LONGEST_NAME} bytes, not {size}", field=field_name
            )


def bad_queue(name: str) -> str:
    """Word the error about a queue's name."""
    return f"cannot get {quoted(name)} queue: queue names must match \\A[a-zA-Z0-9._-]+\\z"


def _at(text: str) -> int:
    try:
        return times.parse(text)
    except InvalidInput as error:
        raise InvalidJob(bad_time("at", text, error), field="at") from None


def bad_time(name: str, text: str, error: InvalidInput) -> str:
    """Word the error about a timestamp."""
    return f"invalid timestamp for '{name}': {quoted(text)}: {error}"


def _attempts(given: Failure) -> int:
    return min(max(given.retry_count + 1, 0), MOST_ATTEMPTS)


def _meta_of(job: SentJob) -> bytes:
    rare = job.custom is not _ABSENT or job.failure is not _ABSENT or (job.retry or 0) < 0
    if not (rare or job.reserve_for or job.at or job.backtrace or job.enqueued_at):
        return _encode((job.created_at,)) if job.created_at else b""
    values = [
        job.created_at or "",
        job.reserve_for or 0,
        job.custom if job.custom is not _ABSENT else None,
        job.at or "",
        job.backtrace or 0,
        job.enqueued_at or "",
        job.failure if job.failure is not _ABSENT else None,
        min(job.retry or 0, 0),
    ]
    while values and not values[-1]:
        values.pop()
    return _encode(values) if values else b""


def meta_of(data: bytes) -> Meta:
    """Read what `CheckedJob.meta` keeps."""
    return _meta.decode(data) if data else _PLAIN


def rendered(
    jid: str,
    queue: str,
    jobtype: str,
    args: bytes,
    retry: int,
    meta: Meta,
    created_at: int,
    enqueued_at: int | None,
    failure: Failure | None = None,
) -> bytes:
    """Write a job as a worker gets it, compact and in the protocol's order.

    Args:
        jid, queue, jobtype, args, retry: Its columns, as in `CheckedJob`.
        meta: What `meta_of` read.
        created_at: When it was stored, epoch ms; stands in where its producer sent none.
        enqueued_at: When it last became ready, epoch ms; None if it never did: then it shows what its producer sent, if anything.
        failure: What `failure_of` made; None shows what its producer sent, if anything.
    """
    return _encode(
        _ShownJob(
            retry=retry,
            failure=failure or meta.failure,
            custom=meta.custom if bytes(meta.custom)[:1] == b"{" else None,
            jid=jid,
            queue=queue,
            jobtype=jobtype,
            created_at=meta.created_at or times.write(created_at),
            enqueued_at=meta.enqueued_at if enqueued_at is None else times.write(enqueued_at),
            at=meta.at,
            args=Raw(args),
            reserve_for=meta.reserve_for,
            backtrace=meta.backtrace,
        )
    )


def failure_of(
    given: Failure | None,
    attempts: int,
    retry: int,
    first_failed_at: int,
    next_at: int | None,
    message: str,
    errtype: str,
    backtrace: list[str],
) -> Failure:
    """Say what went wrong with a job.

    Args:
        given: The failure that its producer sent, from which counting goes on.
        attempts: Failures, with those that `CheckedJob.attempts` began with; >= 1.
        retry: As in `CheckedJob`.
        first_failed_at: Epoch ms.
        next_at: When its last retry was to run, epoch ms; None if it has had none.
        message: Of the latest failure, as the next two.
        errtype: The error's class.
        backtrace: Its lines.
    """
    if given is None:
        failed_at, retried, left = times.write(first_failed_at), attempts - 1, retry
    else:
        failed_at, retried, left = given.failed_at, attempts - _attempts(given), given.remaining
    return Failure(
        failed_at=failed_at,
        next_at=times.write(next_at) if next_at is not None else given.next_at if given else "",
        message=message,
        errtype=errtype,
        backtrace=backtrace,
        retry_count=attempts - 1,
        remaining=max(left - retried, 0) if left > 0 else left,
    )


def text_of(lines: list[str]) -> str:
    """Write a backtrace as one text: its lines, or where one of them holds a line's end, each with `_LINE_END` behind it."""
    text = "\n".join(lines)
    if text.count("\n") < len(lines) and not text.endswith(_LINE_END):
        return text
    return "\n".join([line + _LINE_END for line in lines])


def lines_of(text: str) -> list[str]:
    """Give the lines of a backtrace from this protocol or from another."""
    return text[:-1].split(f"{_LINE_END}\n") if text.endswith(_LINE_END) else text.split("\n")
