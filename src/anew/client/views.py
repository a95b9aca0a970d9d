"""What a client sends and reads: jobs, failures and pages as small frozen values."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from anew.client.parameters import Moment, Period, local_path, moment_or_delay, retention_ms
from anew.client.refusals import UNREADABLE, error_of_item
from anew.errors import AnewError, InvalidJob, Unreachable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as the server showed it. Instants are epoch ms; None means that the field was not sent.

    Attributes:
        status: ``scheduled`` (also while it waits for a retry), ``ready``, ``in_flight``, ``completed`` or ``dead`` (also
            after it was cancelled).
        state: The same by Anew's own names (``retrying`` and ``cancelled`` among them), where last failures were asked for.
        attempts: Failures reported so far.
        payload: The JSON bytes as they came; unset on the answers to enqueue, failure and patch.
        retry_limit, backoff, policy, retention, unique_key, unique_while, batch: Only if set on the job itself.
        jid: The id that its producer gave it, if it came by the Faktory Work Protocol; not on a take stream.
        duplicate, folded: Whether an enqueue stored nothing new, and this is the job that it met.
        last_error: Its latest failure, where it was asked for and there is one.
        expired: It ended because nobody started it in time.
        ties: What it is tied to, on the answer to get; None if to nothing.
        carried: Texts that travel with it, where last failures were asked for; None if there are none.
        document: The whole JSON object as the server sent it.
    """

    id: str
    type: str
    queue: str
    status: str
    priority: int
    ready_at: int
    attempts: int
    payload: Raw | UnsetType = UNSET
    retry_limit: int | None = None
    backoff: dict[str, Any] | None = None
    policy: Any = None
    retention: dict[str, Any] | None = None
    dequeued_at: int | None = None
    failed_at: int | None = None
    completed_at: int | None = None
    purge_at: int | None = None
    unique_key: str | None = None
    unique_while: str | None = None
    batch: dict[str, Any] | None = None
    jid: str | None = None
    duplicate: bool = False
    folded: bool = False
    state: str | None = None
    last_error: LastError | None = None
    expired: bool = False
    ties: Ties | None = None
    carried: dict[str, str] | None = None
    document: Raw = dataclasses.field(default_factory=Raw, repr=False)

    def payload_json(self) -> bytes:
        """The payload's JSON, byte for byte as the server sent it; ``b"null"`` if it sent none."""
        return b"null" if isinstance(self.payload, UnsetType) else bytes(self.payload)

    def data(self) -> Any:
        """The payload as Python values."""
        return msgspec.json.decode(self.payload_json())


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorView:
    """The record of one failed attempt. Instants are epoch ms.

    Attributes:
        attempt: 1 for the first failure.
        decision: The arithmetic behind what was decided then, if the server gives it: ``nominal_ms``,
            ``draw``, ``cap_ms``, ``wait_ms``, ``due_at``, ``reason``.
        worker: Who ran it, if the server knows.
        document: The whole JSON object as the server sent it.
    """

    attempt: int
    message: str
    dequeued_at: int
    failed_at: int
    error_type: str | None = None
    backtrace: str | None = None
    decision: dict[str, Any] | None = None
    worker: str | None = None
    document: Raw = dataclasses.field(default_factory=Raw, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastError:
    """The latest failure of a job, as a list shows it.

    Attributes:
        attempt: Its number, 1 for the first failure.
        message: At most 1,000 characters of it.
        failed_at: Epoch ms.
    """

    attempt: int
    message: str
    failed_at: int
    error_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueTie:
    """A job's unique key.

    Attributes:
        scope: How long a job of the key holds it: ``queued``, ``active``, ``exists``, ``started`` or ``succeeded``.
        held_by: Id of the job that holds it now; None if none does.
        until: When that ends at the latest, epoch ms; None if no time ends it.
    """

    scope: str
    held_by: str | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ties:
    """What a job is tied to.

    Attributes:
        unique: Its unique key.
        batch: Id of the batch that it belongs to, or whose callback it is.
        expires_at: It is not started later than this, epoch ms.
        limit: The key with whose jobs it is bounded.
        blocked: It is ready, and its key lets no more jobs start.
        folded: How many new jobs were folded into it.
    """

    unique: UniqueTie | None = None
    batch: str | None = None
    expires_at: int | None = None
    limit: str | None = None
    blocked: bool = False
    folded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """One page of a list of jobs; iterate it for its jobs.

    Attributes:
        jobs: In the order that was asked for.
        next_path, prev_path: Path of the neighbouring page, None if there is none.
        document: The whole JSON object as the server sent it.
    """

    jobs: tuple[JobView, ...]
    next_path: str | None
    prev_path: str | None
    document: Raw = dataclasses.field(default_factory=Raw, repr=False)

    def __iter__(self) -> Iterator[JobView]:
        """Give its jobs."""
        return iter(self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(JobPage):
    """A page of a `Client`.

    Attributes:
        fetch: Gives the document behind a path of the server's.
    """

    fetch: Callable[[str], bytes] = dataclasses.field(repr=False, compare=False)

    def next(self) -> Page | None:
        """Fetch the page that follows; None if this is the last one."""
        return self._neighbour(self.next_path)

    def prev(self) -> Page | None:
        """Fetch the page before, its jobs in the opposite order: the nearest first. None if this is the first one."""
        return self._neighbour(self.prev_path)

    def _neighbour(self, path: str | None) -> Page | None:
        return None if path is None else read_page(self.fetch(local_path(path)), self.fetch)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncPage(JobPage):
    """A page of an `AsyncClient`; see `Page`."""

    fetch: Callable[[str], Awaitable[bytes]] = dataclasses.field(repr=False, compare=False)

    async def next(self) -> AsyncPage | None:
        """Fetch the page that follows; None if this is the last one."""
        return await self._neighbour(self.next_path)

    async def prev(self) -> AsyncPage | None:
        """Fetch the page before, its jobs in the opposite order: the nearest first. None if this is the first one."""
        return await self._neighbour(self.prev_path)

    async def _neighbour(self, path: str | None) -> AsyncPage | None:
        return None if path is None else read_async_page(await self.fetch(local_path(path)), self.fetch)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateView:
    """A limit of a queue's starts: `count` each `per_ms` on average, and up to `burst` at once after a quiet time."""

    count: int
    per_ms: int
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitView:
    """The limit of a queue; a bound that is None does not hold.

    Attributes:
        concurrency: Most jobs that run at one time, over all workers.
        worker: The same for one worker.
        timeout_ms: How long after its start a job counts as running.
        rate: Starts over a period.
    """

    concurrency: int | None = None
    worker: int | None = None
    timeout_ms: int | None = None
    rate: RateView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """How many jobs of each status a queue holds, and what keeps it from handing them out.

    Attributes:
        paused: It hands out nothing.
        limit: None if it has none.
    """

    name: str
    ready: int
    scheduled: int
    in_flight: int
    completed: int
    dead: int
    paused: bool = False
    limit: LimitView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DueView:
    """How many jobs are due within some time, and not within the one before; `within_ms` is None for the last, which has no end."""

    within_ms: int | None
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What new times for jobs that wait for a retry came to, or would come to.

    Attributes:
        replanned: Jobs with a time of the new policy: `sooner`, `later`, or `unchanged`.
        kept: Jobs whose time stands: ``named`` by a worker or a person, or ``spent``: the policy has no retry left for them.
        due: When they were due, and are now.
        dry_run: Nothing was changed.
    """

    replanned: int
    sooner: int
    later: int
    unchanged: int
    kept: dict[str, int]
    due: tuple[DueView, ...]
    dry_run: bool
    document: Raw = dataclasses.field(default_factory=Raw, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronView:
    """A cron entry of the server.

    Attributes:
        group, name: Together they are different from those of all other entries.
        schedule: The cron expression as it was given.
        timezone: An IANA name; None is the server's own zone.
        paused: It, or its group, enqueues nothing.
        next_at: Its next slot, epoch ms; None if none comes any more.
        last_fired_at: When it last fired, epoch ms, also where its job was there already; None if it has not.
    """

    group: str
    name: str
    schedule: str
    timezone: str | None
    paused: bool
    next_at: int | None
    last_fired_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A job to be enqueued.

    Attributes:
        type: Its handler's name.
        queue: The queue that it waits in.
        payload: Any JSON value, or `msgspec.Raw` with JSON that is sent as it is.
        priority: 0 to 65535, low runs first; None means 32768.
        ready_at: When it may run: epoch ms or an aware datetime; None means now.
        delay: In place of `ready_at`: run it so much later, a timedelta or text such as ``"5m"``, counted from now on
            this machine's clock when the request is made.
        retry_limit: Retries allowed; None means the policy's or the server's.
        policy: A policy's JSON value (an object or a preset's name); None means the server's.
        backoff: Zizq's three numbers (``exponent``, ``base_ms``, ``jitter_ms``) in place of a policy.
        retention: ``completed_ms`` and ``dead_ms``, each optional: milliseconds, a timedelta or text; None means the server's.
        unique_key: While another job holds this key, nothing is stored, and the answer is that job.
        unique_while: How long a job holds its `unique_key`: ``queued``, ``active`` or ``exists``; None means ``queued``.
        batch: ``key``, ``when`` and ``fold``: it may be folded into the job of that key that waits, by two expressions of jq.
    """

    type: str
    queue: str
    payload: Any = None
    priority: int | None = None
    ready_at: Moment | None = None
    delay: Period | None = None
    retry_limit: int | None = None
    policy: Any = None
    backoff: Mapping[str, Any] | None = None
    retention: Mapping[str, int | Period | None] | None = None
    unique_key: str | None = None
    unique_while: str | None = None
    batch: Mapping[str, str] | None = None

    def fields(self) -> dict[str, Any]:
        """Its fields by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def body(self) -> dict[str, Any]:
        """The request body, without what is not set.

        Raises:
            InvalidJob: The payload is no JSON value.
            InvalidInput: A time is not valid.
        """
        body = self.fields() | {
            "ready_at": moment_or_delay(self.ready_at, self.delay, "ready_at"),
            "delay": None,
            "retention": None if self.retention is None else retention_ms(self.retention),
        }
        body = {name: value for name, value in body.items() if value is not None}
        body["payload"] = self.payload if isinstance(self.payload, Raw) else _as_json(self.payload)
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The report that a job in flight has failed.

    Attributes:
        id: The job.
        message: What went wrong.
        error_type: Its class, as a short name.
        backtrace: Where it went wrong.
        retry_at: Run again then, whatever curve and limit say: epoch ms or an aware datetime.
        delay: In place of `retry_at`: run again so much later, a timedelta or text such as ``"5m"``.
        kill: Do not run again.
    """

    id: str
    message: str
    error_type: str | None = None
    backtrace: str | None = None
    retry_at: Moment | None = None
    delay: Period | None = None
    kill: bool = False

    def body(self) -> dict[str, Any]:
        """The request body, without the id.

        Raises:
            InvalidInput: A time is not valid.
        """
        return {
            "message": self.message,
            "error_type": self.error_type,
            "backtrace": self.backtrace,
            "retry_at": moment_or_delay(self.retry_at, self.delay, "retry_at"),
            "kill": self.kill,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureResult:
    """What became of one report of several: the job after the decision, or why the report was refused.

    Attributes:
        id: The job's id as it was given; empty if that could not be read.
        job: ``scheduled`` with the next `ready_at`, or ``dead``; None if the report was refused.
        error: `NotFound` for one that is not in flight (any more); None if the report was taken.
    """

    id: str
    job: JobView | None = None
    error: AnewError | None = None


def _as_json(payload: Any) -> Raw:
    # The standard library's encoder, since it can refuse NaN; others write null in its place.
    try:
        text = json.dumps(payload, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        return Raw(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJob(f"payload: cannot be written as JSON: {error}", field="payload") from error


class _WirePages(msgspec.Struct):
    next: str | None = None
    prev: str | None = None


class _WireJobs(msgspec.Struct):
    jobs: list[Raw]


class _WirePage(_WireJobs):
    pages: _WirePages


class _WireErrors(msgspec.Struct):
    errors: list[Raw]
    pages: _WirePages


class _WireQueues(msgspec.Struct):
    queues: list[QueueCounts]


class _WireCrons(msgspec.Struct):
    crons: list[CronView]


class _WireFailureResult(msgspec.Struct):
    id: str | None = None
    job: Raw | UnsetType = UNSET
    error: str = ""
    code: str = ""


class _WireFailureResults(msgspec.Struct):
    results: list[_WireFailureResult]


_job = msgspec.json.Decoder(JobView)
_error = msgspec.json.Decoder(ErrorView)
_jobs = msgspec.json.Decoder(_WireJobs)
_page = msgspec.json.Decoder(_WirePage)
_errors = msgspec.json.Decoder(_WireErrors)
_queues = msgspec.json.Decoder(_WireQueues)
_crons = msgspec.json.Decoder(_WireCrons)
_plan = msgspec.json.Decoder(PlanView)
_failure_results = msgspec.json.Decoder(_WireFailureResults)
_object = msgspec.json.Decoder(dict[str, Any])


def _read(decoder: msgspec.json.Decoder[T], document: bytes | Raw) -> T:
    """Read an answer.

    Raises:
        Unreachable: It cannot be read: what answered is no Anew or Zizq server.
    """
    try:
        return decoder.decode(document)
    except UNREADABLE as error:
        reason = f"the answer cannot be read; is it an Anew server that listens there? ({error})"
        raise Unreachable(reason) from error


def read_job(document: bytes | Raw) -> JobView:
    """Read one job object."""
    return dataclasses.replace(_read(_job, document), document=Raw(bytes(document)))


def read_jobs(document: bytes) -> list[JobView]:
    """Read the jobs of a bulk."""
    return [read_job(job) for job in _read(_jobs, document).jobs]


def read_page(document: bytes, fetch: Callable[[str], bytes]) -> Page:
    """Read one page of a list of jobs; `fetch` gives what is behind the links of its neighbours."""
    return Page(**_page_fields(document), fetch=fetch)


def read_async_page(document: bytes, fetch: Callable[[str], Awaitable[bytes]]) -> AsyncPage:
    """Read one page, whose neighbours are awaited."""
    return AsyncPage(**_page_fields(document), fetch=fetch)


def _page_fields(document: bytes) -> dict[str, Any]:
    page = _read(_page, document)
    jobs = tuple(read_job(job) for job in page.jobs)
    links = page.pages
    return {"jobs": jobs, "next_path": links.next, "prev_path": links.prev, "document": Raw(document)}


def read_errors(document: bytes) -> tuple[list[ErrorView], str | None]:
    """Read one page of error records, and the path of the next one."""
    page = _read(_errors, document)
    records = [dataclasses.replace(_read(_error, item), document=Raw(bytes(item))) for item in page.errors]
    return records, page.pages.next


def read_failure_results(document: bytes) -> list[FailureResult]:
    """Read the answer to a list of failure reports."""
    return [
        FailureResult(id=item.id or "", error=error_of_item(item.error, item.code))
        if isinstance(item.job, UnsetType)
        else FailureResult(id=item.id or "", job=read_job(item.job))
        for item in _read(_failure_results, document).results
    ]


def read_queue_counts(document: bytes) -> list[QueueCounts]:
    """Read the queues with their counts."""
    return _read(_queues, document).queues


def read_plan(document: bytes) -> PlanView:
    """Read what new times came to."""
    return dataclasses.replace(_read(_plan, document), document=Raw(document))


def read_crons(document: bytes) -> list[CronView]:
    """Read the cron entries."""
    return _read(_crons, document).crons


def read_object(document: bytes) -> dict[str, Any]:
    """Read any other JSON object."""
    return _read(_object, document)


def number_reader(name: str) -> Callable[[bytes], int]:
    """Give what reads a number that stands under a name."""

    def read(document: bytes) -> int:
        value = read_object(document).get(name)
        if isinstance(value, int):
            return value
        raise Unreachable(f"the answer has no number {name!r}; is it an Anew server that listens there?")

    return read
