"""The wire's shapes of a job, shared by server and client.

`NewJob` is what a producer sends; it is handed from the wire to the store as it was decoded, because at hundreds of thousands
of jobs a second every further object per job shows.
"""

from __future__ import annotations

from typing import Annotated, TypeGuard

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

DEFAULT_PRIORITY = 32768
OWN_QUEUE = "$deliveries"
"""The queue of Anew's own jobs, the deliveries to webhooks. Whoever takes from all queues gets none of them."""
SUBSCRIPTION_KEY = "$subscription/"
CONFIRMATION_KEY = "$confirmation/"
"""What the keys begin with that bound the deliveries of one subscription, and the questions to its endpoint."""
U16 = Annotated[int, Meta(ge=0, le=65535)]
U32 = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
U64 = Annotated[int, Meta(ge=0)]
"""Up to `U64_MAX`, which the edge checks: msgspec bounds reach to 63 bits only."""

U64_MAX = 0xFFFF_FFFF_FFFF_FFFF
At = U64
"""An instant on the wire, epoch ms."""
LAST_INSTANT = (1 << 63) - 1
"""The last instant that a store can hold; the wire's later ones are stored as this one."""


class Backoff(Struct, frozen=True, gc=False):
    """Zizq's three numbers: ``attempts^exponent`` seconds, plus a base, plus jitter that grows with the attempts.

    Attributes:
        exponent: 32-bit float on the wire.
        base_ms: Milliseconds added to every wait.
        jitter_ms: Milliseconds; up to this times the attempts is added at random.
    """

    exponent: float
    base_ms: U32
    jitter_ms: U32


class Retention(Struct, frozen=True, gc=False, omit_defaults=True):
    """How long an ended job is kept, in milliseconds; a member that is not set means the server's default."""

    completed_ms: U64 | None = None
    dead_ms: U64 | None = None


class NewJob(Struct, gc=False):
    """A job as its producer sends it.

    Attributes:
        type: Its handler's name.
        queue: The queue that it waits in.
        payload: Any JSON value, kept as the bytes that came.
        priority: 0 to 65535, low first.
        ready_at: When it may run, epoch ms; None means now.
        retry_limit: Retries allowed; None means the policy's or the server's default.
        backoff: Zizq's three numbers; None means the server's default.
        retention: How long it is kept after its end.
        policy: Any policy in Anew's own form, as JSON; in place of `backoff`.
        unique_key, unique_while, batch: What it is tied to in Zizq's words; see `anew.jobs.zizq_ties`.
    """

    type: str
    queue: str
    payload: Raw
    priority: U16 = DEFAULT_PRIORITY
    ready_at: U64 | None = None
    retry_limit: U32 | None = None
    backoff: Backoff | None = None
    retention: Retention | None = None
    policy: Raw | UnsetType = UNSET
    unique_key: str | None = None
    unique_while: str | None = None
    batch: Raw | UnsetType = UNSET


class UniqueKey(Struct, frozen=True, gc=False):
    """A key that one job at most may hold; see `anew.jobs.unique`.

    Attributes:
        digest: What `text_digest` or `parts_digest` gives.
        scope: A `Scope`.
        ends_at: When a timed lock ends, as `lock_ends_at` decides, epoch ms; None for the other scopes.
    """

    digest: bytes
    scope: str
    ends_at: int | None = None


class LimitKey(Struct, frozen=True, gc=False, omit_defaults=True):
    """A key whose jobs are bounded together; see `anew.jobs.key_limits`.

    Attributes:
        name: The key.
        concurrency: Most of its jobs that run at one time; None: any number.
        rate: Starts over a period: the fields of `anew.jobs.limits.Rate`; None: any number.
    """

    name: str
    concurrency: int | None = None
    rate: tuple[int, int, int] | None = None


class FoldRule(Struct, frozen=True, gc=False, omit_defaults=True):
    """How a call is folded into the job of its key that waits; see `anew.jobs.fold`.

    Attributes:
        quiet_ms: The job runs when no call has come for so long; None: at the earliest time that a call has asked for.
        most_ms: It is put off for so long at most, from the first call on; not less than `quiet_ms`, which needs it.
        merge: Expression in jq's language over `$existing` and `$new`, the payload that two become; None: the latest call's holds.
    """

    quiet_ms: Annotated[int, Meta(ge=1)] | None = None
    most_ms: Annotated[int, Meta(ge=1)] | None = None
    merge: str | None = None


class JobHooks(Struct, frozen=True, gc=False, omit_defaults=True):
    """What ties a new job to something beside it; see `anew.jobs.hooks`.

    Attributes:
        unique: Its key.
        expires_at: It is not started later than this, epoch ms.
        batch: Key of the batch that it joins.
        tracked: A record of its state and progress is kept.
        callback: A `Callback`, where it is that of `batch` and not a member; the engine's own.
        once: It is not stored while a job is there that was stored with this mark under the same `jid`.
        limit: The key with whose jobs it is bounded.
        fold: Digest of the key whose jobs are folded together, see `anew.jobs.fold`; never beside `unique`.
        rule: How this one is folded; None: as the job that waits says.
    """

    unique: UniqueKey | None = None
    expires_at: int | None = None
    batch: int | None = None
    tracked: bool = False
    callback: str | None = None
    once: bool = False
    limit: LimitKey | None = None
    fold: bytes | None = None
    rule: FoldRule | None = None


class PushedJob(NewJob, gc=False):
    """A job that names itself, or that is tied to something beside it, as edges that know more than type and queue give it.

    Attributes:
        jid: Its producer's id; several jobs may have the same. Empty for none.
        meta: What its door must give back unchanged, in the door's own form.
        reserve_ms: How long a reservation of it lasts; None means `RESERVED_MS`.
        attempts: Failures that it has had elsewhere.
        hooks: What it is tied to.
    """

    jid: str = ""
    meta: bytes = b""
    reserve_ms: int | None = None
    attempts: int = 0
    hooks: JobHooks | None = None


def is_folded(job: NewJob) -> TypeGuard[PushedJob]:
    """Report whether a new job may be folded into another one."""
    return isinstance(job, PushedJob) and job.hooks is not None and job.hooks.fold is not None


def merge_of(job: NewJob) -> str | None:
    """Give the expression that a new job brings, to be merged with another one's payload; None if it brings none."""
    rule = job.hooks.rule if is_folded(job) and job.hooks is not None else None
    return None if rule is None else rule.merge


RESERVED_MS = 1_800_000
"""How long a reservation lasts whose job does not say it. Source: Faktory 1.10."""


class FailureReport(Struct, frozen=True):
    """What a worker says about a failed attempt.

    Attributes:
        message: What went wrong; 64 KiB of it are kept, the middle is cut out of a longer one.
        error_type: The error's class, as a short name; 1 KiB of it is kept.
        backtrace: Where it went wrong; 256 KiB of it are kept.
        retry_at: Run again then, epoch ms, whatever curve and limit say.
        kill: Do not run again.
    """

    message: str
    error_type: str | None = None
    backtrace: str | None = None
    retry_at: U64 | None = None
    kill: bool = False
