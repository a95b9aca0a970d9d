"""New jobs that are tied to something beside them: a unique key, a time to start by, a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct

from anew.errors import InvalidInput, InvalidJob, NotFound
from anew.http.formats import Format
from anew.http.jobrules import check_u64
from anew.http.long_lists import members_of
from anew.http.newjobs import placed, reading_one
from anew.http.service import NewRate, rate_of
from anew.jobs import IdText, NewJob
from anew.jobs.carried import MOST_BYTES, size_of, write_carried
from anew.jobs.codec import LAST_INSTANT, At, FoldRule, JobHooks, LimitKey, PushedJob, UniqueKey
from anew.jobs.fold import check_call
from anew.jobs.names import is_own_key
from anew.jobs.unique import TIMED
from anew.jq import MOST_TEXT
from anew.net.chunks import Work
from anew.units import MAX_DURATION_MS

MOST_WAIT_MS = 10 * MAX_DURATION_MS

BATCH = "b-"
"""What a batch's public id begins with."""


class NewUnique(Struct, frozen=True):
    """A unique key of a new job.

    Attributes:
        digest: 32 hexadecimal digits that stand for the key; equal keys have equal digests, over all queues and types.
        scope: How long a job of the key holds it: while it waits (`queued`), until it ends (`active`), as long as it is kept
            (`exists`); until it starts (`started`) or succeeds (`succeeded`), and then no longer than `ends_at`.
        ends_at: When that ends at the latest, epoch ms; for `started` and `succeeded` only, which need it.
    """

    digest: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    scope: Literal["queued", "active", "exists", "started", "succeeded"] = "active"
    ends_at: At | None = None


class NewKeyLimit(Struct, frozen=True):
    """The key of a new job's limit, with the bounds of all jobs of the key; one of the two, or both.

    Attributes:
        key: Jobs of the same key are bounded together, in whichever queues they are.
        concurrency: Jobs that run at one time.
        rate: Jobs that start over a period.
    """

    key: Annotated[str, Meta(min_length=1, max_length=255)]
    concurrency: Annotated[int, Meta(ge=1, le=1 << 31)] | None = None
    rate: NewRate | None = None


class NewFold(Struct, frozen=True):
    """How a new job is folded into the one of its key that waits and has not begun; if none does, it is stored.

    Attributes:
        digest: 32 hexadecimal digits that stand for the key; equal keys have equal digests, over all queues and types.
        debounce_ms: The job runs when no new one of the key has come for so long; null: at the earliest of their `ready_at`.
        max_wait_ms: It is put off for so long at most, from the first one on; needed with `debounce_ms`, not less than that.
        merge: An expression in jq's language over `$existing` and `$new`, the payload that the two become; null: the new one's
            takes the place.
    """

    digest: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    debounce_ms: Annotated[int, Meta(ge=1, le=MAX_DURATION_MS)] | None = None
    max_wait_ms: Annotated[int, Meta(ge=1, le=MOST_WAIT_MS)] | None = None
    merge: Annotated[str, Meta(max_length=MOST_TEXT)] | None = None


class NewTies(Struct, frozen=True):
    """What a new job is tied to.

    Attributes:
        unique: While another job holds this key, the new one is a duplicate of it.
        expires_at: It is not started later than this, epoch ms.
        batch: Id of the batch that it joins.
        limit: The key with whose jobs it is bounded; the bounds of the job that came last hold for all of them.
        fold: How it becomes one job with others of its key; not beside `unique` or `batch`. What is debounced has no `ready_at`.
    """

    unique: NewUnique | None = None
    expires_at: At | None = None
    batch: str | None = None
    limit: NewKeyLimit | None = None
    fold: NewFold | None = None


class NewTiedJob(NewJob):
    """A new job with what it is tied to.

    Attributes:
        ties: Null: to nothing.
        carried: Texts by name that travel with it beside its payload, such as `traceparent`; 8 KiB at most.
    """

    ties: NewTies | None = None
    carried: dict[str, str] | None = None


def reading_tied(ids: IdText, form: Format, max_bytes: int, piece: bytes, first: int) -> Work[list[NewJob]]:
    """Read some jobs of a list.

    Args:
        ids: Reads batches' ids.
        form: How they are written.
        max_bytes: Bytes that each payload may have.
        piece: An array.
        first: The place of its first member.

    Raises:
        InvalidInput, NotFound: One does not fit, which is named, or there is no such batch.
    """
    jobs: list[NewJob] = []
    for at, member in enumerate(members_of(piece, form), first):
        jobs.append((yield from reading_tied_job(ids, form, max_bytes, bytes(member), f"jobs[{at}]")))
        if not len(jobs) % 100:
            yield
    return jobs


def reading_tied_job(ids: IdText, form: Format, max_bytes: int, body: bytes, where: str) -> Work[NewJob]:
    """Read one job; see `reading_tied`. `where` names it in errors."""
    try:
        job, _ = yield from reading_one(body, form, max_bytes, NewTiedJob)
        assert isinstance(job, NewTiedJob)
        _check_no_other_form(job)
        ties = None if job.ties is None else _hooks(ids, job.ties, job)
        meta = _meta(job.carried or {})
    except InvalidInput as error:
        raise placed(error, where) from None
    fields = {name: getattr(job, name) for name in NewJob.__struct_fields__}
    return PushedJob(**fields, hooks=ties, meta=meta) if ties is not None or meta else NewJob(**fields)


def _check_no_other_form(job: NewTiedJob) -> None:
    """Refuse Zizq's words for ties, which stand beside the job's type and not in `ties`."""
    for name in ("unique_key", "unique_while", "batch"):
        if getattr(job, name) not in (None, UNSET):
            instead = (
                "the body of POST /jobs has it" if name == "batch" else "expected `ties.unique` in its place"
            )
            raise InvalidJob(f"{name} is not for this body: {instead}", field=name)


def _meta(carried: Mapping[str, str]) -> bytes:
    size = size_of(carried)
    if size > MOST_BYTES:
        raise InvalidJob(f"carried: {size} bytes; expected at most {MOST_BYTES}", field="carried")
    return write_carried(carried)


def _hooks(ids: IdText, ties: NewTies, job: NewJob) -> JobHooks:
    unique = None
    if ties.unique is not None:
        ends_at = _instant(ties.unique.ends_at, "ties.unique.ends_at")
        if (ties.unique.scope in TIMED) != (ends_at is not None):
            expected = f"expected with the scopes {' and '.join(sorted(TIMED))}, and with no other"
            raise InvalidJob(f"ties.unique.ends_at: {expected}", field="ties.unique.ends_at")
        unique = UniqueKey(bytes.fromhex(ties.unique.digest), ties.unique.scope, ends_at)
    batch = None if ties.batch is None else batch_key(ids, ties.batch)
    limit = None if ties.limit is None else _limit(ties.limit)
    expires_at = _instant(ties.expires_at, "ties.expires_at")
    fold = rule = None
    if ties.fold is not None:
        fold, rule = bytes.fromhex(ties.fold.digest), _fold_rule(ties.fold, ties, job)
    return JobHooks(unique=unique, expires_at=expires_at, batch=batch, limit=limit, fold=fold, rule=rule)


def _fold_rule(fold: NewFold, ties: NewTies, job: NewJob) -> FoldRule:
    check_call(len(job.payload))
    for name in ("unique", "batch"):
        if getattr(ties, name) is not None:
            raise InvalidJob(f"ties.{name}: expected none beside ties.fold", field=f"ties.{name}")
    if fold.debounce_ms is not None and job.ready_at is not None:
        raise InvalidJob("ready_at: expected none beside ties.fold.debounce_ms", field="ready_at")
    if (fold.max_wait_ms or 0) < (fold.debounce_ms or 0) or (fold.debounce_ms is None) != (
        fold.max_wait_ms is None
    ):
        expected = "expected one of debounce_ms or more with it, and none without"
        raise InvalidJob(f"ties.fold.max_wait_ms: {expected}", field="ties.fold.max_wait_ms")
    return FoldRule(quiet_ms=fold.debounce_ms, most_ms=fold.max_wait_ms, merge=fold.merge)


def _instant(value: int | None, field: str) -> int | None:
    """Give an instant of up to 64 bits as the store can hold it: the last one has 63."""
    check_u64(value, field)
    return None if value is None else min(value, LAST_INSTANT)


def _limit(limit: NewKeyLimit) -> LimitKey:
    if limit.concurrency is None and limit.rate is None:
        raise InvalidJob("ties.limit: expected a concurrency, a rate, or both", field="ties.limit")
    if is_own_key(limit.key):
        raise InvalidJob(
            f"ties.limit.key must not be {limit.key!r}, which bounds deliveries to webhooks",
            field="ties.limit.key",
        )
    rate = rate_of(limit.rate)
    return LimitKey(
        limit.key, limit.concurrency, None if rate is None else (rate.count, rate.per_ms, rate.burst)
    )


def batch_key(ids: IdText, batch: str) -> int:
    """Give the key of a batch's public id.

    Raises:
        NotFound: It is no id of this store.
    """
    key = ids.read(batch.removeprefix(BATCH)) if batch.startswith(BATCH) else -1
    if key < 0:
        raise NotFound("no such batch")
    return key
