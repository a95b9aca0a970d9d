"""One run of one job: the handler is called, and what it does becomes an outcome."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from anew.errors import AnewError, InvalidJob
from anew.jobs import Cancelled, Failed, Interrupted, Outcome, Snoozed
from anew.jobs.progress import DESCRIPTION_BYTES
from anew.jobs.records import BACKTRACE_BYTES, MESSAGE_BYTES, cut_middle
from anew.jobs.terms import retention_and_note
from anew.tasks.arguments import write_result
from anew.tasks.around import Running, Surrounding
from anew.tasks.backend import BatchCounts
from anew.tasks.context import Context, current
from anew.tasks.downstream import MOST_LIMITED
from anew.tasks.retry_after import TOO_MANY, come_back
from anew.tasks.signals import Cancel, Discard, JobSignal, Retry, Snooze
from anew.tasks.task import Task

if TYPE_CHECKING:
    from anew.tasks.lanes import Lane

log = logging.getLogger("anew.tasks")

START_S: Final = 60.0
"""How long a process that runs handlers may take to start and to import its application: none of this is a handler's time."""

HELD: Final = "the service that it calls is failing"
RETRY: Final = "Retry"
DISCARD: Final = "Discard"
_OWN_FILES: Final = os.path.dirname(__file__) + os.sep
UNSAID: Final = "(the error's message cannot be read)"
NOTHING: Final[Mapping[str, str]] = {}
Stopped = Cancelled | Interrupted
"""Why a run was stopped: its job was cancelled, or taken away."""

CALLED_OFF: Final = Cancelled(reason="its job was cancelled or deleted")
TAKEN_AWAY: Final = Interrupted("worker gone", how="its job was given back, and may run elsewhere")
SIGNALS: Final = frozenset({RETRY, DISCARD})
"""The types of failures that a handler has decided itself; those of errors have a module's name, but for the builtin ones."""


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """A job that this worker holds.

    Attributes:
        key: The job's, in the store.
        token: Names this attempt.
        job_id: Its public id.
        attempts: Failures reported before.
        task: What it is a call of; None if this application has no such task.
        is_async: Its handler is an `async def`.
        ready_at: When it might run, epoch ms.
        carried: What its producer sent along; read only where something is around runs (`anew.tasks.around`).
        lane: What runs it.
        began_ns: When it began, by the performance counter; 0 before.
        outcome: How it has ended; None: well.
        result: What it has come to, as JSON, where that is kept.
        retention: The job's own, as JSON; None if it has none.
        held: Its handler was not called, as the breaker of the service that it calls had opened.
        stopped: Why it was stopped, as it no longer held its job: its outcome if its handler raises. None: it was not.
    """

    key: int
    token: int
    job_id: str
    name: str
    queue: str
    payload: bytes
    attempts: int
    max_attempts: int | None
    task: Task[Any, Any, Any] | None
    ready_at: int = 0
    carried: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    retention: bytes | None = None
    lane: Lane | None = None
    began_ns: int = 0
    ended_ns: int = 0
    outcome: Outcome | None = None
    result: bytes | None = None
    held: bool = False
    stopped: Stopped | None = None
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_async = self.task is not None and self.task.is_async

    @property
    def took_ms(self) -> float:
        """How long it ran, in milliseconds."""
        return (self.ended_ns - self.began_ns) / 1e6

    def end(self, outcome: Outcome | None) -> None:
        """Note how it has ended."""
        self.outcome = outcome
        self.ended_ns = time.perf_counter_ns()


class Runner:
    """Calls handlers.

    Args:
        now: The time, epoch ms.
        progress: Writes a job's progress: its id, a percentage, a text.
        batch_of: Gives how far the batch of a job has come, by the job's id; None: it has none.
        in_child: This is a process that runs handlers for a worker.
    """

    def __init__(
        self,
        now: Callable[[], int],
        progress: Callable[[str, int | None, str | None], None],
        batch_of: Callable[[str], BatchCounts | None] = lambda job_id: None,
        *,
        in_child: bool = False,
    ) -> None:
        self._now = now
        self.progress = progress
        self.batch_of = batch_of
        self._in_child = in_child
        self._stopping = threading.Condition()

    def stop(self, run: Run, why: Stopped) -> None:
        """Have a run's handler see that it is to end."""
        with self._stopping:
            run.stopped = why
            self._stopping.notify_all()

    def sleep(self, run: Run, seconds: float) -> bool:
        """Wait so long, or until a run is stopped; report whether it was."""
        with self._stopping:
            return self._stopping.wait_for(lambda: run.stopped is not None, seconds)

    def call(self, run: Run) -> None:
        """Run a job whose handler is a plain function, here."""
        context = self.context(run)
        token = current.set(context)
        around = self._around(run)
        try:
            value = self._function(run)
            self.succeed(run, value)
        except BaseException as error:
            self.fail(run, context, error)
            if around is not None:
                around.raised(error)
        finally:
            if around is not None:
                around.leave(run)
            del around  # its exception knows this frame, and would keep itself alive
            current.reset(token)

    def call_elsewhere(self, run: Run, call: Callable[[Run], None]) -> None:
        """Have a job run in another process, and whatever is around runs around that.

        Args:
            run: What is put into its `carried` by then is for the other process.
            call: Notes how it has ended.
        """
        token = current.set(self.context(run))
        around = self._around(run)
        try:
            call(run)
        except Exception as error:  # no process can be started; the thread must go on
            run.end(failed_with(error))
        finally:
            if around is not None:
                around.leave(run)
            current.reset(token)

    def _around(self, run: Run) -> _Around | None:
        """Enter what is around a run; None where nothing is."""
        if run.task is None or not run.task.app.around_runs:
            return None
        return _Around(run, run.task, in_child=self._in_child)

    def _function(self, run: Run) -> Any:
        task = known(run)
        args, kwargs = task.arguments.read(run.payload)
        with _one_process():
            value = task.function(*args, **kwargs)
        if inspect.iscoroutine(value):
            value.close()
            raise TypeError(
                f"{task.name} is no async def and gave a coroutine, of which nothing has run; expected an async def"
            )
        return value

    async def acall(self, run: Run) -> None:
        """Run a job whose handler is an `async def`, in an asyncio task of its own, no longer than its time-out."""
        context = self.context(run)
        current.set(context)  # of this asyncio task alone
        timeout_ms = None if run.task is None else run.task.options.timeout_ms
        deadline: asyncio.Timeout | None = None
        around = self._around(run)
        try:
            if timeout_ms is None:
                value = await self._coroutine(run)
            else:
                async with asyncio.timeout(timeout_ms / 1_000) as deadline:
                    value = await self._coroutine(run)
            self.succeed(run, value)
        except asyncio.CancelledError as error:
            self.fail(run, context, RuntimeError("the handler was cancelled"))
            if around is not None:
                around.raised(error)
        except BaseException as error:
            if around is not None:
                around.raised(error)
            if isinstance(error, TimeoutError) and deadline is not None and deadline.expired():
                run.end(timed_out(run, lambda _: context, timeout_ms or 0))
            else:
                self.fail(run, context, error)
        finally:
            if around is not None:
                around.leave(run)
            del around  # as in `call`

    async def _coroutine(self, run: Run) -> Any:
        task = known(run)
        args, kwargs = task.arguments.read(run.payload)
        with _one_process():
            return await task.function(*args, **kwargs)

    def context(self, run: Run) -> Context:
        """Give what a run's handler may ask."""
        return Context(
            job_id=run.job_id,
            task=run.name,
            queue=run.queue,
            attempt=run.attempts + 1,
            max_attempts=run.max_attempts,
            now=self._now,
            progress=lambda percent, text: self.progress(
                run.job_id, percent, None if text is None else text_of(text, DESCRIPTION_BYTES)
            ),
            batch=lambda: self.batch_of(run.job_id),
            sleep=lambda seconds: self.sleep(run, seconds),
        )

    def succeed(self, run: Run, value: Any) -> None:
        """Note that a run has ended well.

        Raises:
            InvalidJob: Its task keeps results, and this one cannot be written.
        """
        if value is not None and run.task is not None:
            if run.task.options.keep_ms:
                run.result = write_result(value)
            elif run.retention is not None and retention_and_note(run.retention)[0].completed_ms:
                try:
                    run.result = write_result(value)
                except InvalidJob as error:  # whoever had the job kept may not have asked for the result
                    log.warning(
                        "%s %s: %s",
                        run.name,
                        run.job_id,
                        error,
                        extra={"job_id": run.job_id, "task": run.name},
                    )
        run.end(None)

    def fail(self, run: Run, context: Context, error: BaseException) -> None:
        """Note that a run has raised."""
        try:
            outcome = self._outcome(run, context, error)
        except Exception:  # without an outcome the run would stay open for ever, and its thread would be lost
            log.exception("what a run has raised cannot be described", extra={"task": run.name})
            outcome = Failed(message=UNSAID, error_type="Exception")
        run.end(outcome)

    def _outcome(self, run: Run, context: Context, error: BaseException) -> Outcome:
        if run.stopped is not None:  # whatever it raises, nothing has failed
            return run.stopped
        if isinstance(error, JobSignal):
            return outcome_of_signal(error, self._now())
        if isinstance(error, UnknownTask):  # perhaps of a newer version, in the middle of a deployment
            return Snoozed(ready_at=self._now(), reason=str(error), outcome="unknown_task")
        asked = come_back(error, self._now())
        if asked is not None and asked.status == TOO_MANY:
            downstream = None if run.task is None else run.task.options.downstream
            most = MOST_LIMITED if downstream is None else downstream.most
            return Snoozed(ready_at=asked.at, reason=text_of(error), outcome="rate_limited", most=most)
        failure = failed_with(error, retry_at=None if asked is None else asked.at)
        return _by_policy(run, failure, error, lambda _: context)


class _one_process:
    """Around a handler: what it has forked and let come back here ends, as it would at the end of a script.

    Such a child is a copy of the worker: it would run the jobs that wait here once more, and report what its parent reports.
    """

    __slots__ = ("_pid",)

    def __enter__(self) -> None:
        self._pid = os.getpid()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() == self._pid:
            return
        code = 0
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            traceback.print_exception(error)
            code = 1
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


class _Around:
    """What is around one run."""

    def __init__(self, run: Run, task: Task[Any, Any, Any], *, in_child: bool) -> None:
        self._subject = Running(
            job_id=run.job_id,
            task=run.name,
            queue=run.queue,
            attempt=run.attempts + 1,
            max_attempts=run.max_attempts,
            carried={**run.carried},
            process=task.options.process,
            in_child=in_child,
        )
        run.carried = self._subject.carried
        self._surrounding = Surrounding(task.app.around_runs, self._subject)

    def raised(self, error: BaseException) -> None:
        """Note what the handler has raised."""
        self._subject.exception = error

    def leave(self, run: Run) -> None:
        """Say how the run has ended, and leave."""
        subject, outcome = self._subject, run.outcome
        match outcome:
            case None:
                subject.outcome = "succeeded"
            case Failed():
                subject.outcome = outcome.outcome
                subject.error_type, subject.error = outcome.error_type, outcome.message
                subject.backtrace = outcome.backtrace
            case Snoozed():
                subject.outcome, subject.error = outcome.outcome, outcome.reason
            case Cancelled():
                subject.outcome, subject.error = "cancelled", outcome.reason
            case Interrupted():
                subject.outcome, subject.error = "interrupted", outcome.cause
        self._surrounding.leave()


class UnknownTask(AnewError):
    """This application has no task of that name."""

    code = "unknown_task"


def known(run: Run) -> Task[Any, Any, Any]:
    """Give a run's task.

    Raises:
        UnknownTask: There is none here.
    """
    if run.task is None:
        raise UnknownTask(
            f"this application has no task {run.name!r}; expected it to be imported by the worker"
        )
    return run.task


def outcome_of_signal(signal: JobSignal, now: int) -> Outcome:
    """Give what a handler's signal is to the engine."""
    reason = text_of(signal.reason)
    match signal:
        case Snooze():
            return Snoozed(ready_at=now + signal.after_ms, reason=reason, most=signal.most)
        case Cancel():
            return Cancelled(reason=reason)
        case Discard():
            return Failed(message=reason, error_type=DISCARD, kill=True)
        case Retry() if signal.after_ms is not None:
            return Failed(message=reason, error_type=RETRY, retry_at=now + signal.after_ms, limited=True)
        case _:
            return Failed(message=reason, error_type=RETRY)


def failed_with(error: BaseException, *, retry_at: int | None = None) -> Failed:
    """Give the report of an error: its class, its message, where it was raised, and when it asks to be tried again."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return Failed(
        message=text_of(error),
        error_type=text_of(name),
        backtrace=text_of(_backtrace_of(error), BACKTRACE_BYTES),
        retry_at=retry_at,
        limited=retry_at is not None,
    )


def _backtrace_of(error: BaseException) -> str:
    """Write where an error was raised, from the handler on: how it was called is the same for all."""
    begin = error.__traceback__
    while begin is not None and begin.tb_frame.f_code.co_filename.startswith(_OWN_FILES):
        begin = begin.tb_next
    return "".join(traceback.format_exception(type(error), error, begin or error.__traceback__))


def text_of(said: object, most_bytes: int = MESSAGE_BYTES) -> str:
    """Give a text that a store can hold, whatever stands for it: lone surrogates, as in names of files, become escapes.

    It is cut to what a store keeps: more of it would only travel there.
    """
    try:
        text = str(said)
    except Exception:  # the `__str__` of somebody else's error
        return UNSAID
    return cut_middle(text.encode("utf-8", "backslashreplace").decode("utf-8"), most_bytes)


def timed_out(run: Run, context_of: Callable[[Run], Context], timeout_ms: int) -> Outcome:
    """Give the outcome of a run that was stopped because it ran longer than it may; rules for TimeoutError hold."""
    error = TimeoutError(f"it ran longer than {timeout_ms / 1_000:g} s")
    failure = Failed(message=str(error), error_type="TimeoutError", outcome="timeout")
    return _by_policy(run, failure, error, context_of)


def _by_policy(
    run: Run, failure: Failed, error: BaseException, context_of: Callable[[Run], Context]
) -> Failed:
    """Give a failure with what the rules and the function of its task say to it."""
    if run.task is None:
        return failure
    try:
        return run.task.options.retries.about(failure, error, context_of(run))
    except (Exception, SystemExit):
        log.exception("a policy's function failed; the default policy decides", extra={"task": run.name})
        return failure
