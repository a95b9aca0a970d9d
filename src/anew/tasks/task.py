"""A task: a function whose calls can be enqueued as jobs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from msgspec import UNSET, Raw

from anew.backoff import Policy
from anew.errors import InvalidInput, InvalidPolicy
from anew.jobs import NewJob, Retention
from anew.jobs.codec import DEFAULT_PRIORITY, OWN_QUEUE, JobHooks, LimitKey, PushedJob, UniqueKey
from anew.jobs.limits import Rate
from anew.jobs.names import is_own_key
from anew.jobs.terms import policy_of, rule_of
from anew.jobs.unique import TIMED, Scope, lock_ends_at, parts_digest, text_digest
from anew.tasks.arguments import Arguments
from anew.tasks.call_keys import CallKey, check_key, key_text
from anew.tasks.debouncing import (
    Debounce,
    Merge,
    check_folding,
    digest_of,
    fold_rule,
    merged_names,
    read_debounce,
    read_merge,
)
from anew.tasks.downstream import Downstream, read_downstream
from anew.tasks.policies import NO_POLICY, Retries, read_retries
from anew.tasks.times import MOST_STARTS, Wait, instant_ms, parse_rate, wait_ms, whole
from anew.units import refused

if TYPE_CHECKING:
    from anew.tasks.app import Anew
    from anew.tasks.handle import JobHandle

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

OF_THE_WORKER: Final = frozenset({"timeout", "process", "downstream"})
"""Options that a worker reads from the task: nothing of them is stored with a job."""

MOST_PRIORITY: Final = 65_535
MOST_ATTEMPTS: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """While a job holds its key, enqueueing another one of the same key gives the first one's handle.

    Args:
        key: A text of which ``{name}`` is the argument of that name, or a function of the arguments. None: the task, its queue
            and all arguments.
        until: How long the key is held: ``"started"`` (while the job waits), ``"ended"`` (until it has succeeded, died or been
            cancelled), or ``"removed"`` (as long as it is kept).
        within: The key is held for this time from when the job may run, whatever becomes of it; it ends before that when the
            job has ``"started"``, or has succeeded (``"ended"``).
    """

    key: CallKey | None = None
    until: str = "ended"
    within: Wait | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Jobs of one key are bounded together, in all workers and processes. What is beyond it waits, and holds no worker.

    Args:
        key: A text of which ``{name}`` is the argument of that name, such as ``"customer {customer_id}"``, or a function of the
            arguments. Tasks whose keys are the same text share its bounds; those of the job that was enqueued last hold.
        concurrency: Jobs of the key that run at one time.
        rate: Jobs of the key that start over a period, such as ``"10/s"``, ``"100/m"`` or ``"5/30s"``.
        burst: Of these, how many may start at once after a quiet time. None: as many as the rate has.
    """

    key: CallKey = field(kw_only=False)
    concurrency: int | None = None
    rate: str | None = None
    burst: int | None = None


@dataclass(frozen=True, slots=True)
class JobBatch:
    """A batch that is open (see `Anew.batch`): jobs join it by ``task.using(batch=batch)``.

    Attributes:
        key: Names it in the store.
    """

    key: int


MOST_KEY_BYTES: Final = 255

_SCOPES: Final = {"started": Scope.QUEUED, "ended": Scope.ACTIVE, "removed": Scope.EXISTS}
_TIMED: Final = {"started": Scope.STARTED, "ended": Scope.SUCCEEDED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What holds for jobs of a task, or for those of one `Task.using`.

    Attributes:
        queue: Which they wait in.
        priority: 0 to 65535, low first.
        retries: When they run again.
        max_attempts: Runs, the first included; None: as the policy says.
        timeout_ms: How long one run may last; None: no limit.
        unique: Their key.
        expires_ms: They are not started later than this after they were enqueued.
        keep_ms: How long a job and its result are kept after it has succeeded; 0: not at all.
        process: They run in a process of their own.
        at, delay_ms: When they may run: epoch ms, or so long after they were enqueued.
        batch: What they belong to.
        downstream: The service that their handler calls.
        limit: The key with whose jobs they are bounded.
        debounce, merge: How calls of one key become one job.
    """

    queue: str = "default"
    priority: int = DEFAULT_PRIORITY
    retries: Retries = NO_POLICY
    max_attempts: int | None = None
    timeout_ms: int | None = None
    unique: Unique | None = None
    expires_ms: int | None = None
    keep_ms: int = 0
    process: bool = False
    at: int | None = None
    delay_ms: int | None = None
    batch: JobBatch | None = None
    downstream: Downstream | None = None
    limit: Limit | None = None
    debounce: Debounce | None = None
    merge: Merge | None = None

    @property
    def folds(self) -> bool:
        """Whether calls may become one job."""
        return self.debounce is not None or self.merge is not None

    def is_plain(self) -> bool:
        """Report whether their jobs say nothing beyond type, queue and payload."""
        return (
            self.priority == DEFAULT_PRIORITY
            and self.retries.policy is None
            and self.max_attempts is None
            and not self.keep_ms
            and not self.folds
            and (self.unique, self.expires_ms, self.at, self.delay_ms, self.batch, self.limit)
            == (None, None, None, None, None, None)
        )


def policies_of(options: Options, default: Policy) -> dict[str, Policy]:
    """Give the policies that decide when jobs of these options run again, each with the options' own limit.

    Args:
        options: A task's.
        default: Of jobs that have none of their own.

    Returns:
        By the name of the exception that a rule is for; "": of all others. What a function decides is not among them.
    """
    retries, most = options.retries, options.max_attempts
    limit = None if most is None else most - 1
    found: dict[str, Policy | None] = {}
    if retries.function is None:
        found[""] = policy_of(retries.policy, limit, default)
    for kind, rule in (retries.rules or {}).items():
        if rule is not None and rule != retries.policy:
            found[kind.__name__] = rule_of(rule, limit, default)
    return {name: policy for name, policy in found.items() if policy is not None}


def read_options(before: Options, **given: Any) -> Options:
    """Give options with some changed.

    Args:
        before: What holds otherwise.
        given: As people write them; see `_READERS`.

    Raises:
        InvalidInput: A value does not fit, or there is no such option; names it.
    """
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _READERS:
            raise _no_option(name)
        field, read = _READERS[name]
        changes[field] = read(value)
    if changes.get("at") is not None and changes.get("delay_ms") is not None:
        raise InvalidInput("at and delay: expected one of them, not both", field="at")
    return replace(before, **changes)


def _no_option(name: str) -> InvalidInput:
    import difflib

    close = difflib.get_close_matches(name, _READERS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return InvalidInput(f"{name}: is no option; expected some of {', '.join(_READERS)}{hint}", field=name)


def _priority(value: object) -> int:
    return whole("priority", value, 0, MOST_PRIORITY, f"a number from 0 to {MOST_PRIORITY}, low first")


def _runs(value: object) -> int:
    return whole("max_attempts", value, 1, MOST_ATTEMPTS, "a number of runs, 1 or more, the first included")


def read_queue(value: object) -> str:
    """Read the name of a queue, from whichever door its jobs come.

    Raises:
        InvalidInput: It is none, or that of the queue in which deliveries to webhooks wait.
    """
    if not isinstance(value, str) or not value:
        raise refused("queue", value, "the name of a queue")
    if value == OWN_QUEUE:
        raise refused("queue", value, "the name of another queue: this one holds deliveries to webhooks")
    return value


def _queue_of_task(value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value.encode("utf-8", "surrogatepass")) <= 255:
        raise refused("queue", value, "a name of 1 to 255 bytes")
    if any(character in value for character in ",*?[]{}\\") or not value.isprintable():
        raise refused("queue", value, "a name without , * ? [ ] { } \\ and control characters")
    return read_queue(value)


def _positive(value: Wait, name: str) -> int:
    ms = wait_ms(value, name)
    if ms == 0:
        raise refused(name, value, "a duration above 0, or None for no limit")
    return ms


def _unique(value: object) -> Unique | None:
    if value is None or value is False:
        return None
    unique = Unique() if value is True else Unique(key=value) if isinstance(value, str) else value
    if not isinstance(unique, Unique):
        raise refused("unique", value, 'True, a text such as "invoice {id}", or Unique(...)')
    known = _SCOPES if unique.within is None else _TIMED
    if unique.until not in known:
        raise refused("unique.until", unique.until, f"one of {', '.join(known)}")
    if unique.within is not None:
        _positive(unique.within, "unique.within")
    return unique


def _process(value: object) -> bool:
    if not isinstance(value, bool):
        raise refused("process", value, "True or False")
    return value


def read_batch(value: object, name: str = "batch") -> JobBatch:
    """Read the batch that an option of this name is given.

    Raises:
        InvalidInput: It is none.
    """
    if not isinstance(value, JobBatch):
        raise refused(name, value, "what app.batch() gives: with app.batch(...) as batch")
    return value


def _checked(limit: object) -> Limit:
    if not isinstance(limit, Limit):
        raise refused("limit", limit, 'Limit("customer {customer_id}", concurrency=2)')
    read_bounds(limit.key, limit.concurrency, limit.rate, limit.burst, least=1)
    return limit


def read_bounds(
    key: object, concurrency: int | None, rate: str | None, burst: int | None, *, least: int
) -> Rate | None:
    """Check what bounds the jobs of a key or of a queue; give its rate.

    Args:
        key: Whose jobs they are.
        concurrency, rate, burst: As for `Limit`.
        least: The smallest concurrency.

    Raises:
        InvalidInput: A value does not fit, or nothing is bounded.
    """
    if concurrency is None and rate is None:
        raise refused("limit", key, 'a concurrency, a rate, or both, such as rate="100/m"')
    if concurrency is not None:
        whole("limit.concurrency", concurrency, least, MOST_STARTS, f"a number of jobs, {least} or more")
    if rate is not None:
        return parse_rate(rate, burst)
    if burst is not None:
        raise refused("limit.burst", burst, "a rate with it")
    return None


def _unless_none(read: Callable[[Any], Any], otherwise: Any = None) -> Callable[[Any], Any]:
    return lambda value: otherwise if value is None else read(value)


_READERS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "queue": ("queue", _queue_of_task),
    "priority": ("priority", _priority),
    "policy": ("retries", read_retries),
    "max_attempts": ("max_attempts", _unless_none(_runs)),
    "timeout": ("timeout_ms", _unless_none(lambda value: _positive(value, "timeout"))),
    "unique": ("unique", _unique),
    "expires": ("expires_ms", _unless_none(lambda value: _positive(value, "expires"))),
    "keep_result": ("keep_ms", _unless_none(lambda value: wait_ms(value, "keep_result"), otherwise=0)),
    "process": ("process", _process),
    "at": ("at", _unless_none(lambda value: instant_ms(value, "at"))),
    "delay": ("delay_ms", _unless_none(lambda value: wait_ms(value, "delay"))),
    "batch": ("batch", _unless_none(read_batch)),
    "downstream": ("downstream", _unless_none(read_downstream)),
    "limit": ("limit", _unless_none(_checked)),
    "debounce": ("debounce", _unless_none(read_debounce)),
    "merge": ("merge", _unless_none(read_merge)),
}
"""Options as people write them: the field of `Options`, and what reads a value."""


class Task(Generic[P, R, T]):
    """A function whose calls can be enqueued. Calling it runs it here and now.

    Args:
        app: Whose task it is.
        function: The handler.
        name: Names it in every process, whatever its function is called.
        options: What holds for its jobs.

    Attributes:
        is_async: Its function is `async def`.
    """

    def __init__(self, app: Anew, function: Callable[P, R], name: str, options: Options) -> None:
        self.app = app
        self.function = function
        self.name = name
        self.options = options
        self.is_async = inspect.iscoroutinefunction(function)
        self.arguments = Arguments(function, name, packed=app.serializer == "msgpack")
        self._default = Submission(self, options)
        self.__name__ = getattr(function, "__name__", name)
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function; no job is made."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Give a call that somebody else enqueues, such as a batch when it has come so far."""
        return self._default.call(*args, **kwargs)

    def using(self, **changes: Any) -> Submission[P, T]:
        """Give the task with other options for the jobs that are enqueued through it.

        Args:
            changes: ``at`` (a datetime with its time zone), ``delay``, ``queue``, ``priority``, ``policy`` (one that JSON can say),
                ``max_attempts``, ``unique``, ``limit``, ``expires``, ``keep_result``, ``batch``, ``debounce``, ``merge``; see
                `Anew.task`.

        Raises:
            InvalidInput: A value does not fit, or is the worker's business, which asks the task.
        """
        for name in changes.keys() & OF_THE_WORKER:
            raise InvalidInput(f"{name}: holds for all jobs of a task; expected it in @app.task", field=name)
        options = read_options(self.options, **changes)
        retries = options.retries
        if "policy" in changes and (retries.rules is not None or retries.function is not None):
            raise InvalidPolicy(
                "policy: the worker asks rules by exception and functions of the task alone; expected them in @app.task, or here "
                "a policy that JSON can say",
                field="policy",
            )
        return Submission(self, options)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Enqueue a call; when this returns, the job is on the disk.

        Raises:
            InvalidJob: The arguments do not fit the function's signature, or cannot be written.
            StoreBusy, StoreFull: Nothing is enqueued.
            StoreFailed, Unreachable: It may be enqueued all the same, where the answer alone was lost.
            InDoubt: It is enqueued, and a failover of PostgreSQL may undo that.
        """
        return self._default.enqueue(*args, **kwargs)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Do the same in an event loop, which is not held up."""
        return await self._default.aenqueue(*args, **kwargs)

    def enqueue_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[JobHandle[T]]:
        """Enqueue many calls, all or none; see `Submission.enqueue_many`."""
        return self._default.enqueue_many(calls)

    def result_kind(self) -> Any:
        """Give the type that the function says it returns; Any if it says none."""
        try:
            return typing.get_type_hints(self.function).get("return", Any)
        except Exception:  # named for type checkers only
            return Any


class Submission(Generic[P, T]):
    """A task with options for the jobs that are enqueued through it."""

    def __init__(self, task: Task[P, Any, T], options: Options) -> None:
        self._task = task
        self._options = options
        self._plain = options.is_plain()
        if options.unique is not None:
            check_key("unique", options.unique.key, task)
        if options.limit is not None:
            check_key("limit", options.limit.key, task)
        if options.folds:
            check_folding(options, task)
        self._rule = fold_rule(options.debounce, options.merge) if options.folds else None
        merged = merged_names(options.merge)
        self._write = partial(task.arguments.write, always=merged) if merged else task.arguments.write

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Enqueue a call; see `Task.enqueue`."""
        job = self.job(self._write(args, kwargs))
        (handle,) = self._task.app.submit([job], self._task, plain=self._plain)
        return handle

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T]:
        """Enqueue a call without holding up the event loop."""
        job = self.job(self._write(args, kwargs))
        (handle,) = await self._task.app.asubmit([job], self._task, plain=self._plain)
        return handle

    def enqueue_many(self, calls: Iterable[Sequence[Any] | Mapping[str, Any]]) -> list[JobHandle[T]]:
        """Enqueue many calls in one transaction, all or none.

        Args:
            calls: Each a tuple or list of positional arguments, or a dict of named ones.
        """
        write = self._write
        jobs = [
            self.job(write((), call) if isinstance(call, Mapping) else write(_positional(call), {}))
            for call in calls
        ]
        return self._task.app.submit(jobs, self._task, plain=self._plain) if jobs else []

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> Call:
        """Give a call that somebody else enqueues; see `Task.call`."""
        return Call(self, self._write(args, kwargs))

    def job(self, payload: bytes, now: int | None = None) -> NewJob:
        """Give the job of a call, whose times count from an instant, epoch ms; None: from now."""
        task, options = self._task, self._options
        if self._plain:
            return NewJob(task.name, options.queue, Raw(payload))
        now = task.app.now() if now is None else now
        ready_at = options.at if options.delay_ms is None else now + options.delay_ms
        fields: dict[str, Any] = {
            "priority": options.priority,
            "ready_at": ready_at,
            "retry_limit": None if options.max_attempts is None else options.max_attempts - 1,
            "retention": Retention(completed_ms=options.keep_ms) if options.keep_ms else None,
            "policy": UNSET if options.retries.policy is None else Raw(options.retries.policy),
        }
        ties = (options.unique, options.expires_ms, options.batch, options.limit, self._rule)
        if ties == (None, None, None, None, None):
            return NewJob(task.name, options.queue, Raw(payload), **fields)
        unique = None
        if options.unique is not None:
            unique = _key(options.unique, task, options.queue, payload, ready_at, now)
        quiet_ms = 0 if self._rule is None else self._rule.quiet_ms or 0
        starts_at = max(now + quiet_ms, ready_at or 0)
        fold = None
        if self._rule is not None:
            fold = digest_of(options.debounce, options.merge, task, options.queue, payload)
        hooks = JobHooks(
            unique=unique,
            expires_at=None if options.expires_ms is None else starts_at + options.expires_ms,
            batch=None if options.batch is None else options.batch.key,
            limit=None if options.limit is None else _limit_key(options.limit, task, payload),
            fold=fold,
            rule=self._rule,
        )
        return PushedJob(task.name, options.queue, Raw(payload), **fields, hooks=hooks)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a task, with its arguments."""

    submission: Submission[Any, Any]
    payload: bytes

    def job(self, now: int | None = None) -> NewJob:
        """Give the job that it makes; see `Submission.job`."""
        return self.submission.job(self.payload, now)


def _positional(call: object) -> Sequence[Any]:
    if not isinstance(call, tuple | list):
        raise refused("calls", call, "for each call a tuple of positional arguments, or a dict of named ones")
    return call


def _key(
    unique: Unique, task: Task[Any, Any, Any], queue: str, payload: bytes, ready_at: int | None, now: int
) -> UniqueKey:
    if unique.key is None:
        digest = parts_digest(task.name, queue, payload)
    else:
        digest = text_digest(f"{task.name}\0{key_text('unique', unique.key, task, payload)}")
    if unique.within is None:
        return UniqueKey(digest, _SCOPES[unique.until])
    scope = _TIMED[unique.until]
    assert scope in TIMED
    return UniqueKey(digest, scope, lock_ends_at(wait_ms(unique.within, "within") / 1_000, ready_at, now))


def _limit_key(limit: Limit, task: Task[Any, Any, Any], payload: bytes) -> LimitKey:
    text = key_text("limit", limit.key, task, payload)
    if not isinstance(text, str) or not 1 <= len(text.encode("utf-8", "replace")) <= MOST_KEY_BYTES:
        raise refused("limit", text, f"a key of 1 to {MOST_KEY_BYTES} bytes")
    if is_own_key(text):
        raise refused("limit", text, "another key: this one bounds deliveries to webhooks")
    rate = None if limit.rate is None else parse_rate(limit.rate, limit.burst)
    return LimitKey(text, limit.concurrency, None if rate is None else (rate.count, rate.per_ms, rate.burst))
