"""How a job and an error record are shown: one definition of their members and their order, for every route and both formats.

The encoders of `formats` write these Structs; what is UNSET is left out. Two hot paths write JSON by hand: the answer to plain
new jobs, and taken jobs that bring no settings. Both stand here, beside what they must be equal to.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from anew.engine import Entry
from anew.engine.reads import Ties
from anew.http.embedded_json import Embedded, Float32
from anew.http.formats import JSON
from anew.jobs import ErrorRecord, IdText, Job, NewJob, State, initial_state
from anew.jobs.carried import carried_of, result_of
from anew.jobs.change import shown_decision
from anew.jobs.codec import DEFAULT_PRIORITY, U16, U32, U64, At, Backoff, PushedJob
from anew.jobs.decide import is_zizq_backoff
from anew.jobs.expiry import has_expired
from anew.jobs.key_limits import KeyStanding
from anew.jobs.unique import Scope
from anew.jobs.zizq_ties import NOTHING, Folding, UniqueWhile, said_of
from anew.store.protocol import TakenRow

T = TypeVar("T")

Status = Literal["scheduled", "ready", "in_flight", "completed", "dead"]

OwnState = Literal["scheduled", "retrying", "ready", "in_flight", "completed", "dead", "cancelled"]
"""The names of `State`."""

STATUS: dict[State, Status] = {
    State.SCHEDULED: "scheduled",
    State.RETRYING: "scheduled",
    State.READY: "ready",
    State.IN_FLIGHT: "in_flight",
    State.COMPLETED: "completed",
    State.DEAD: "dead",
    State.CANCELLED: "dead",
}
"""What the API calls each state; it knows five."""


class ShownUnique(Struct, kw_only=True):
    """A job's unique key.

    Attributes:
        scope: How long a job of the key holds it.
        held_by: The job that holds it now; null if none does.
        until: When that ends at the latest, epoch ms; null if no time ends it.
    """

    scope: str
    held_by: str | None
    until: At | None


class ShownTies(Struct, kw_only=True):
    """What a job is tied to; without what it is not tied to.

    Attributes:
        unique: Its unique key.
        batch: The batch that it belongs to, or whose callback it is.
        expires_at: It is not started later than this, epoch ms.
        limit: The key with whose jobs it is bounded.
        blocked: True while it is ready and may not start, as its key lets no more jobs start.
        folded: How many new jobs were folded into it.
    """

    unique: ShownUnique | UnsetType = UNSET
    batch: str | UnsetType = UNSET
    expires_at: At | UnsetType = UNSET
    limit: str | UnsetType = UNSET
    blocked: bool | UnsetType = UNSET
    folded: U64 | UnsetType = UNSET


class ShownJob(Struct, kw_only=True):
    """A job.

    Attributes:
        id: 25 characters, which sort by arrival.
        type: Its handler's name.
        queue: The queue that it waits in.
        priority: Low numbers run first.
        status: Where it stands in its life.
        payload: Any JSON value; shown by take, list and get only.
        ready_at: When it may run, epoch ms.
        attempts: Failures reported so far.
        retry_limit: Retries after the first run.
        backoff: Zizq's three numbers, if they were set for it.
        policy: The policy that was set for it, in Anew's form.
        dequeued_at: When it was last taken, epoch ms.
        failed_at: When it last failed, epoch ms.
        retention: How long it is kept after its end.
        purge_at: When it is removed, epoch ms.
        completed_at: When it was completed, epoch ms.
        unique_key: While it holds this key, a new job of the key is a duplicate of it.
        unique_while: How long it does.
        batch: How new jobs of its key are folded into it.
        jid: The id that its producer gave it, if it came by the Faktory Work Protocol; several jobs may have the same. Taken
            jobs are shown without it.
        expired: True if it ended because nobody started it in time.
        ties: What it is tied to, if to anything; shown by get only.
    """

    id: str
    type: str
    queue: str
    priority: U16
    status: Status
    payload: Any = UNSET
    ready_at: At
    attempts: U32
    retry_limit: U32 | UnsetType = UNSET
    backoff: Any = UNSET
    policy: Any = UNSET
    dequeued_at: At | UnsetType = UNSET
    failed_at: At | UnsetType = UNSET
    retention: Any = UNSET
    purge_at: At | UnsetType = UNSET
    completed_at: At | UnsetType = UNSET
    unique_key: str | UnsetType = UNSET
    unique_while: UniqueWhile | UnsetType = UNSET
    batch: Folding | UnsetType = UNSET
    jid: str | UnsetType = UNSET
    expired: bool | UnsetType = UNSET
    ties: ShownTies | UnsetType = UNSET


class StoredJob(ShownJob, kw_only=True):
    """A new job.

    Attributes:
        duplicate: It was there already.
        folded: It was merged into one that was there already.
    """

    duplicate: bool
    folded: bool


class ShownTemplate(Struct, kw_only=True):
    """The job of a cron entry: what it enqueues each time.

    Attributes:
        type: Its handler's name.
        queue: The queue that it waits in.
        priority: Low numbers run first.
        payload: Any JSON value.
        retry_limit: Retries after the first run.
        backoff: Zizq's three numbers, if they were set for it.
        retention: How long it is kept after its end.
        unique_key: While another job holds this key, none is enqueued.
        unique_while: How long a job of the key holds it.
        batch: How it is folded into a job of its key.
        policy: The policy that was set for it, in Anew's form.
    """

    type: str
    queue: str
    priority: U16
    payload: Any
    retry_limit: U32 | UnsetType = UNSET
    backoff: Any = UNSET
    retention: Any = UNSET
    unique_key: str | UnsetType = UNSET
    unique_while: UniqueWhile | UnsetType = UNSET
    batch: Folding | UnsetType = UNSET
    policy: Any = UNSET


class ShownLastError(Struct, kw_only=True):
    """A job's latest failure.

    Attributes:
        attempt: 1 for the first failure.
        message: What went wrong; at most 1,000 characters of it.
        error_type: The error's class.
        failed_at: When it failed, epoch ms.
    """

    attempt: U32
    message: str
    error_type: str | UnsetType = UNSET
    failed_at: At


class ListedJob(ShownJob, kw_only=True):
    """A job with its latest failure.

    Attributes:
        state: What `status` is by Anew's own names, which tell dead from cancelled and scheduled from retrying.
        last_error: Null if none is recorded.
        carried: Texts that travel with it, if there are any; once it has completed its result may be kept in their place.
    """

    state: OwnState
    last_error: ShownLastError | None
    carried: dict[str, str] | UnsetType = UNSET


class OwnJob(ListedJob, kw_only=True):
    """A job with its state by Anew's own name, its latest failure and its result.

    Attributes:
        result: The result of a completed job, if it is kept.
    """

    result: Any = UNSET


class ShownError(Struct, kw_only=True):
    """The record of one failed attempt.

    Attributes:
        attempt: 1 for the first failure.
        outcome: How the attempt ended: `error`, `timeout`, `interrupted`, `snoozed`, `rate_limited`, `held`, `unknown_task`,
            `cancelled` or `corrupt`.
        message: What went wrong.
        error_type: The error's class.
        backtrace: Where it happened.
        dequeued_at: When that run was taken, epoch ms.
        failed_at: When it failed, epoch ms.
        decision: What was decided then, and the arithmetic behind it.
        worker: Who ran it, as far as that is known.
    """

    attempt: U32
    outcome: str
    message: str
    error_type: str | UnsetType = UNSET
    backtrace: str | UnsetType = UNSET
    dequeued_at: At
    failed_at: At
    decision: Any = UNSET
    worker: str | UnsetType = UNSET


class ShownDropped(Struct, kw_only=True):
    """How many of a job's records of one kind were dropped, because it has too many.

    Attributes:
        outcome: How those attempts ended.
        error_type: The errors' class.
        attempts: How many.
    """

    outcome: str
    error_type: str | UnsetType = UNSET
    attempts: U32


_backoff = msgspec.json.Decoder(dict[str, Any])


def shown_job(ids: IdText, job: Job, *, payload: bool) -> ShownJob:
    """Give a stored job as an answer shows it; with `payload` it has been loaded with that."""
    shown = ShownJob(
        id=ids.write(job.key),
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        status=STATUS[job.state],
        payload=Embedded(b"null" if job.payload is None else job.payload) if payload else UNSET,
        ready_at=job.ready_at,
        attempts=job.attempts,
        # Written out: every failure is answered with this, and calls and `**` made it twice as slow.
        retry_limit=UNSET if job.retry_limit is None else job.retry_limit,
        dequeued_at=UNSET if job.dequeued_at is None else job.dequeued_at,
        failed_at=UNSET if job.failed_at is None else job.failed_at,
        retention=UNSET if job.retention is None else as_stored(job.retention),
        purge_at=UNSET if job.purge_at is None else job.purge_at,
        completed_at=UNSET if job.completed_at is None else job.completed_at,
        jid=UNSET if job.jid is None else job.jid,
        expired=True if job.hooks and has_expired(job) else UNSET,
    )
    for name, value in shown_policy(job.policy).items():
        setattr(shown, name, value)
    if job.meta is not None:
        for name, value in _shown_said(job.meta).items():
            setattr(shown, name, value)
    return shown


def shown_ties(ids: IdText, ties: Ties, now: int) -> ShownTies | UnsetType:
    """Give what a job is tied to; UNSET where nothing of it is shown."""
    job, lock, limited = ties
    shown = ShownTies(
        batch=UNSET if job.batch is None else ids.write_batch(job.batch),
        expires_at=or_unset(job.expires_at),
        folded=job.folded or UNSET,
    )
    if job.scope is not None and job.scope != Scope.OPEN:  # `batch` says what it is folded by
        if lock is not None and lock.ends_at is not None and lock.ends_at <= now:
            lock = None
        shown.unique = ShownUnique(
            scope=job.scope,
            held_by=None if lock is None else ids.write(lock.job_key),
            until=None if lock is None else lock.ends_at,
        )
    if limited is not None:
        shown.limit = limited.name
        shown.blocked = True if limited.standing is KeyStanding.BLOCKED else UNSET
    return UNSET if shown == ShownTies() else shown


def stored_job(ids: IdText, key: int, job: NewJob, now: int, entry: Entry = Entry.CREATED) -> StoredJob:
    """Give a new job, stored at `now` (epoch ms), as the answer to its enqueue shows it.

    With another `entry` it stands for the job that was there in its place, of which only the key is known by now.
    """
    meta = job.meta if isinstance(job, PushedJob) else None
    return StoredJob(
        id=ids.write(key),
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        status=STATUS[initial_state(job.ready_at, now)],
        ready_at=now if job.ready_at is None else job.ready_at,
        attempts=0,
        retry_limit=or_unset(job.retry_limit),
        **shown_policy(_policy_of(job)),
        retention=UNSET if job.retention is None else job.retention,
        **(_shown_said(meta) if meta else {}),
        duplicate=entry not in (Entry.CREATED, Entry.FOLDED),
        folded=entry is Entry.FOLDED,
    )


def _policy_of(job: NewJob) -> bytes | None:
    """Give a new job's own policy, in either form, as it is stored."""
    policy = _encode(job.backoff) if job.backoff is not None else job.policy
    return None if isinstance(policy, UnsetType) else bytes(policy)


def existing_job(ids: IdText, job: Job, entry: Entry) -> StoredJob:
    """Give the job that is there in place of a new one, as the answer to the enqueue shows it."""
    fields = msgspec.structs.asdict(shown_job(ids, job, payload=False))
    return StoredJob(**fields, duplicate=entry is not Entry.FOLDED, folded=entry is Entry.FOLDED)


def shown_template(job: NewJob) -> ShownTemplate:
    """Give the job of a cron entry as an answer shows it; ties that Zizq's API has no words for are left out."""
    said = said_of(job.meta) if isinstance(job, PushedJob) else NOTHING
    return ShownTemplate(
        type=job.type,
        queue=job.queue,
        priority=job.priority,
        payload=Embedded(bytes(job.payload)),
        retry_limit=or_unset(job.retry_limit),
        **shown_policy(_policy_of(job)),
        retention=or_unset(job.retention),
        unique_key=or_unset(job.unique_key),
        unique_while=cast(UniqueWhile | UnsetType, or_unset(job.unique_while)),
        batch=or_unset(said.batch),
    )


def unreadable_template(stored: bytes) -> ShownTemplate:
    """Give the job of a cron entry that a damaged file has made unreadable: under names that no job can have."""
    return ShownTemplate(type="", queue="", priority=DEFAULT_PRIORITY, payload=as_stored(stored))


def taken_job(tag: str, row: TakenRow, now: int) -> ShownJob:
    """Give a taken job as its stream shows it."""
    key, queue, kind, priority, ready_at, attempts, failed_at, limit, policy, retention, _, meta, payload = (
        row
    )
    return ShownJob(
        id=f"{tag}{key:016x}",
        type=kind,
        queue=queue,
        priority=priority,
        status="in_flight",
        payload=Embedded(payload),
        ready_at=ready_at,
        attempts=attempts,
        retry_limit=or_unset(limit),
        **shown_policy(policy),
        dequeued_at=now,
        failed_at=or_unset(failed_at),
        retention=UNSET if retention is None else as_stored(retention),
        **(_shown_said(meta) if meta else {}),
    )


def shown_error(record: ErrorRecord) -> ShownError:
    """Give the record of a failed attempt as an answer shows it; ``decision`` is Anew's own."""
    decision = record.decision
    return ShownError(
        attempt=record.attempt,
        outcome=record.outcome,
        message=record.message,
        error_type=or_unset(record.error_type),
        backtrace=or_unset(record.backtrace),
        dequeued_at=record.dequeued_at,
        failed_at=record.failed_at,
        decision=UNSET if decision is None else as_stored(shown_decision(decision, record.attempt)),
        worker=or_unset(record.worker),
    )


def with_last_error(shown: ShownJob, job: Job, record: ErrorRecord | None) -> ListedJob:
    """Give a shown job with its state by Anew's own name, its latest failure and what it carries."""
    own_state: Any = job.state.value
    last_error = None
    if record is not None:
        last_error = ShownLastError(
            attempt=record.attempt,
            message=record.message,
            error_type=or_unset(record.error_type),
            failed_at=record.failed_at,
        )
    fields = msgspec.structs.asdict(shown)
    return ListedJob(**fields, state=own_state, last_error=last_error, carried=carried_of(job) or UNSET)


def own_job(shown: ShownJob, job: Job, record: ErrorRecord | None) -> OwnJob:
    """Give a shown job with its state by Anew's own name, its latest failure, what it carries and its result."""
    kept = result_of(job)
    listed = msgspec.structs.asdict(with_last_error(shown, job, record))
    return OwnJob(**listed, result=as_stored(kept) if kept else UNSET)


@lru_cache(maxsize=1024)
def shown_policy(policy: bytes | None) -> Mapping[str, Any]:
    """Give a stored policy under the key that it is shown by.

    Args:
        policy: JSON as stored, or None.

    Returns:
        ``{"backoff": ...}`` for Zizq's three numbers, else ``{"policy": ...}``, or nothing; not to be changed.
    """
    if policy is None:
        return {}
    shown = as_stored(policy)
    if is_zizq_backoff(shown.json):
        members = _backoff.decode(policy)
        if members.keys() == set(Backoff.__struct_fields__):
            return {"backoff": members | {"exponent": Float32(float(members["exponent"]))}}
    return {"policy": shown}


def _shown_said(meta: bytes) -> dict[str, Any]:
    """Give what its producer said of a job's tie, by the job's `meta`."""
    said = said_of(meta)
    return (
        {}
        if said is NOTHING
        else {name: or_unset(value) for name, value in msgspec.structs.asdict(said).items()}
    )


def as_stored(stored: bytes) -> Embedded:
    """Give JSON as it is stored; what a damaged file has made of it as ``{"unreadable": text}``, so that the answer can be read."""
    try:
        msgspec.json.decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Embedded(_encode({"unreadable": stored.decode("utf-8", "replace")}))
    return Embedded(stored)


def or_unset(value: T | None) -> T | UnsetType:
    """Give a value as a member of an answer, which is absent where there is none."""
    return UNSET if value is None else value


# -- the two hot paths

_PLAIN_ANSWER = (
    b'{"id":"%b%016x","type":%b,"queue":%b,"priority":%d,"status":"ready","ready_at":%d,"attempts":0,'
    b'"duplicate":false,"folded":false}'
)
_NO_ID = b'{"id":"%016x' % 0
_TAKEN = (
    b'{"id":"%b%016x","type":%b,"queue":%b,"priority":%d,"status":"in_flight","payload":%b,"ready_at":%d,'
    b'"attempts":%d,"dequeued_at":%d%b}'
)

_encode = msgspec.json.Encoder().encode

_quoted: dict[str, bytes] = {}
"""Names as JSON texts; a bounded number."""


def quoted(name: str) -> bytes:
    """Give a name as a JSON text, remembered."""
    text = _quoted.get(name)
    if text is None:
        text = _encode(name)
        if len(_quoted) < 4_096:
            _quoted[name] = text
    return text


def plain_answer(tag: bytes, key: int, job: NewJob, now: int) -> bytes:
    """Write `stored_job` in JSON for a job that says nothing beyond type, queue and payload."""
    kind, queue = job.type, job.queue
    known = _quoted
    return _PLAIN_ANSWER % (
        tag,
        key,
        known[kind] if kind in known else quoted(kind),
        known[queue] if queue in known else quoted(queue),
        DEFAULT_PRIORITY,
        now,
    )


def plain_answers(tag: str, keys: Sequence[int], jobs: Sequence[NewJob], now: int) -> bytes:
    """Write the answer for many such jobs: what is the same for all of a type and queue is written once."""
    hexadecimal = struct.pack(f">{len(jobs)}Q", *keys).hex(" ", 8).split(" ")
    before = f'{{"id":"{tag}'
    after = _Endings(now)
    answers = [key + after[job.type, job.queue] for key, job in zip(hexadecimal, jobs, strict=True)]
    return f'{{"jobs":[{before}{("," + before).join(answers)}]}}'.encode()


class _Endings(dict[tuple[str, str], str]):
    """By type and queue: what follows the id in a plain answer."""

    def __init__(self, now: int) -> None:
        super().__init__()
        self._now = now

    def __missing__(self, names: tuple[str, str]) -> str:
        written = _PLAIN_ANSWER % (b"", 0, quoted(names[0]), quoted(names[1]), DEFAULT_PRIORITY, self._now)
        ending = self[names] = written[len(_NO_ID) :].decode()
        return ending


def taken_as_json(tag: bytes, rows: Sequence[TakenRow], now: int) -> list[bytes]:
    """Write `taken_job` in JSON for each row."""
    out: list[bytes] = []
    names: dict[str, bytes] = {}
    for row in rows:
        (
            key,
            queue,
            kind,
            priority,
            ready_at,
            attempts,
            failed_at,
            limit,
            policy,
            retention,
            _,
            meta,
            payload,
        ) = row
        if limit is not None or policy is not None or retention is not None or meta is not None:
            out.append(JSON.encode(taken_job(tag.decode(), row, now)))
            continue
        if kind not in names:
            names[kind] = quoted(kind)
        if queue not in names:
            names[queue] = quoted(queue)
        failed = b"" if failed_at is None else b',"failed_at":%d' % failed_at
        out.append(
            _TAKEN % (tag, key, names[kind], names[queue], priority, payload, ready_at, attempts, now, failed)
        )
    return out
