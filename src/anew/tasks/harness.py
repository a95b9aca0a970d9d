"""What `Anew.test` gives: the application on an engine in memory, with a clock that stands still until the test moves it.

Nothing is simulated: jobs are enqueued, taken, run and settled by the code that a worker uses, in the thread that asks for it, one
after the other. When the clock moves, it stops at each instant at which something is due, and what is ready then runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from anew.clock import ManualClock
from anew.engine import ThreadCommit
from anew.engine.batch import Batch
from anew.engine.upkeep import Upkeep
from anew.errors import AnewError, Conflict, InvalidInput
from anew.jobs import Interrupted, Job, State
from anew.store.selection import Filter, Page
from anew.tasks.arguments import write_result
from anew.tasks.backend import JobInfo, read_states
from anew.tasks.context import Context
from anew.tasks.embedded import EmbeddedBackend, V
from anew.tasks.events import Event, Events, Hook
from anew.tasks.handle import JobHandle
from anew.tasks.opening import open_engine
from anew.tasks.running import Run, Runner, timed_out
from anew.tasks.source import EmbeddedSource, Want
from anew.tasks.task import Task
from anew.tasks.times import Wait, instant_ms, wait_ms
from anew.tasks.worker import event_of, log_end, log_start, outcome_name
from anew.units import format_duration, refused

if TYPE_CHECKING:
    from anew.tasks.app import Anew

START: Final = datetime(2026, 1, 1, tzinfo=UTC)

MOST_RUNS: Final = 100_000
"""Runs at one instant: a job that enqueues itself would go on for ever."""

WAITING: Final = frozenset({State.READY, State.SCHEDULED, State.RETRYING})
PAGE: Final = 1_000


class DjangoTask(Protocol):
    """A task of Django's own, by what this kit reads of it."""

    @property
    def func(self) -> Callable[..., Any]:
        """Its function."""

    @property
    def module_path(self) -> str:
        """Where it stands, which names its jobs."""

    @property
    def takes_context(self) -> bool:
        """Whether a context is its function's first argument."""


AnyTask = Task[Any, Any, Any] | DjangoTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run that a test has seen.

    Attributes:
        job_id, task, queue: The job.
        attempt: 1 for the first run.
        outcome: ``succeeded``, ``failed`` (it is retrying), ``discarded`` (it is dead), ``snoozed``, ``cancelled``, ``interrupted``
            (its worker has crashed), or ``lost`` (it was deleted or called off meanwhile).
        error: What the handler raised; None if nothing.
        at: When it began.
        next_at: When the job runs again; None if it does not.
    """

    job_id: str
    task: str
    queue: str
    attempt: int
    outcome: str
    error: BaseException | None = field(default=None, compare=False)
    at: datetime
    next_at: datetime | None = None


class Report(list[Ran]):
    """What has run, in order."""

    @property
    def outcomes(self) -> dict[str, int]:
        """The number of runs by outcome."""
        return dict(Counter(ran.outcome for ran in self))

    def check(self) -> Report:
        """Raise what the first handler raised whose run has failed; give the report itself if none has."""
        for ran in self:
            if ran.outcome in ("failed", "discarded") and ran.error is not None:
                raise ran.error
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundJob(JobInfo):
    """A job as it is now, with its arguments.

    Attributes:
        arguments: By name, defaults among them; as JSON has them where this application has no such task.
    """

    arguments: Mapping[str, Any]

    @property
    def at(self) -> datetime:
        """When it may run."""
        return _moment(self.ready_at)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.task}({given})"


class AppClock:
    """The clock of a test."""

    def __init__(self, test: AppTest, clock: ManualClock) -> None:
        self._test = test
        self._clock = clock

    def now(self) -> datetime:
        """Give the time, in UTC."""
        return _moment(self._clock.now())

    def advance(self, wait: Wait, *, run: bool = True) -> Report:
        """Let time pass, and run what is ready now and whatever becomes ready meanwhile, each at its own instant.

        In a handler only the clock moves: the run takes so long.

        Args:
            wait: How long: text such as ``"3d"``, a timedelta, or seconds.
            run: False: no worker runs meanwhile.

        Returns:
            What has run.
        """
        return self._test._pass_time(self._clock.now() + wait_ms(wait, "advance"), run=run)

    def advance_to(self, moment: datetime, *, run: bool = True) -> Report:
        """Let time pass until a moment; see `advance`."""
        at = instant_ms(moment, "advance_to")
        if at < self._clock.now():
            raise refused("advance_to", moment, f"a time from {_shown(self._clock.now())} on")
        return self._test._pass_time(at, run=run)


class AppTest:
    """One test of an application; see `Anew.test`.

    Args:
        app: Its jobs are in memory until the end of the ``with`` block, and what it had before is not touched.
        now: The time at first; None: 2026-01-01, 00:00 UTC.
        seed: Where jitter comes from.

    Attributes:
        backend: Where the jobs are.
        clock: Moves the time.
        events: What has happened, in order; hooks are called here and now, in the same thread.
        ran: What has run, in order.
    """

    clock: AppClock
    events: list[Event]
    ran: Report

    def __init__(self, app: Anew, *, now: datetime | None = None, seed: int = 0) -> None:
        self.app = app
        self._start_at = instant_ms(START if now is None else now, "now")
        self._seed = seed
        self._running: Run | None = None
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> AppTest:
        app = self.app
        self._clock = ManualClock(self._start_at)
        self._commit = open_engine(None, clock=self._clock, seed=self._seed)
        self.backend = _Backend(self._commit, self._stop_if_lost)
        recorder = _Recorder(app.events)
        self.clock = AppClock(self, self._clock)
        self.events, self.ran = recorder.seen, Report()
        self._before = app.replace_store(self.backend, recorder)
        self._source = EmbeddedSource(app, self._commit)
        self._runner = _Runner(self._clock, self._source.now, self._source.progress, self._source.batch_of)
        self._loop = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._upkeep = Upkeep()
        self._crashes: Counter[str] = Counter()
        self._crons: dict[str, object] = {}
        try:
            self._put_crons()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.app.replace_store(*self._before)
        try:
            _beside_loops(self._loop.close)
        finally:
            self._commit.close()

    # -- running jobs

    def drain(self) -> Report:
        """Run every job that is ready, and those that become ready by it, until none is; the clock stands still.

        Returns:
            What has run.

        Raises:
            Conflict: A handler asks for it, or jobs go on enqueueing jobs for ever.
        """
        report = Report()
        while (ran := self.run_next()) is not None:
            report.append(ran)
            if len(report) >= MOST_RUNS:
                raise Conflict(f"drain: jobs are still ready after {MOST_RUNS} runs")
        return report

    def run_next(self) -> Ran | None:
        """Run the first job that is ready; None if none is. The clock stands still."""
        if self._running:
            raise Conflict("a handler runs; expected the test to run jobs, not a handler")
        self._put_crons()
        done = self._source.exchange((), (), [Want(None, 1)])
        while done.held or done.goes_on:  # behind jobs that may not start there may be others
            done = self._source.exchange((), (), [Want(None, 1)])
        (runs,) = done.taken
        if not runs:
            return None
        self._running = runs[0]
        try:
            ran = self._run(runs[0])
        finally:
            self._running = None
        self.ran.append(ran)
        return ran

    def crash(self, job: JobHandle[Any], times: int = 1) -> None:
        """Have the next runs of a job kill their worker: the handler is not called, and the job comes back.

        Args:
            job: Which.
            times: How many runs. After three in a row the job is dead.
        """
        self._crashes[job.id] += times

    def _run(self, run: Run) -> Ran:
        runner = self._runner
        runner.error = None
        at, began_ms = self._clock.now(), self._clock.monotonic()
        self._source.note_begun(1, run)
        log_start(run)
        self.app.events.emit(event_of("started", run, now=at))
        if self._crashes[run.job_id] > 0:
            self._crashes[run.job_id] -= 1
            run.end(Interrupted("worker gone"))
        else:
            _beside_loops(lambda: self._call(run))
        took_ms = self._clock.monotonic() - began_ms
        timeout_ms = None if run.task is None else run.task.options.timeout_ms
        if timeout_ms is not None and took_ms >= timeout_ms:
            run.end(timed_out(run, runner.context, timeout_ms))
        run.began_ns, run.ended_ns = 1, 1 + took_ms * 1_000_000  # as the test's clock says; 0: not begun
        error = runner.error
        if error is not None and _is_for_the_test(error):
            self._source.exchange((), [run], ())
            raise error
        return self._settle(run, at)

    def _call(self, run: Run) -> None:
        context = contextvars.copy_context()
        if run.is_async:
            self._loop.run(self._acall(run), context=context)
        else:
            context.run(self._runner.call, run)

    async def _acall(self, run: Run) -> None:
        self._task = asyncio.current_task()
        try:
            await self._runner.acall(run)
        finally:
            self._task = None

    def _stop_if_lost(self) -> None:
        """Called after each call of the application: where that has taken the run's job away, a worker would soon stop the run."""
        run, task = self._running, self._task
        if run is None or run.stopped is not None or not self._source.may_have_lost():
            return
        for why in self._source.lost([run]).values():
            self._runner.stop(run, why)
            if task is not None:
                task.get_loop().call_soon_threadsafe(task.cancel)

    def _settle(self, run: Run, at: int) -> Ran:
        done = self._source.exchange([run], (), ())
        while done.again:
            done = self._source.exchange([run], (), ())
        name, job = "lost", None
        if done.settled:
            job = done.settled[0][1]
            name = outcome_name(run, job)
            log_end(name, run, job)
            self.app.events.emit(event_of(name, run, job))
        waits = job is not None and job.state in WAITING
        return Ran(
            job_id=run.job_id,
            task=run.name,
            queue=run.queue,
            attempt=run.attempts + 1,
            outcome=name,
            error=self._runner.error,
            at=_moment(at),
            next_at=_moment(job.ready_at) if job is not None and waits else None,
        )

    # -- time

    def _pass_time(self, until: int, *, run: bool) -> Report:
        report = Report()
        self._put_crons()
        if run and not self._running:
            report += self._drain_and_tend()
            while (at := self._commit.engine.wake_at) is not None and at <= until:
                # What is due and cannot run now is looked at again a millisecond later.
                self._move_to(min(until, max(at, self._clock.now() + 1)))
                report += self._drain_and_tend()
                if self._clock.now() >= until:
                    break
        self._move_to(until)
        if not self._running:
            self._tend()
        return report

    def _drain_and_tend(self) -> Report:
        self._tend()
        return self.drain()

    def _move_to(self, at: int) -> None:
        self._clock.advance(max(0, at - self._clock.now()))

    def _tend(self) -> None:
        """Remove what is over by now, as every process does each second."""
        while self.backend.call(self._upkeep.run, durable=False):
            pass

    def _put_crons(self) -> None:
        if self._crons != self.app.crons:
            self.app.put_crons()
            self._crons = dict(self.app.crons)

    # -- looking

    def jobs(self, *states: str, task: AnyTask | None = None) -> list[FoundJob]:
        """Give jobs with their arguments, in the order in which they were enqueued.

        Args:
            states: Such as ``"ready"`` and ``"dead"``; none means all. A job that has succeeded is gone unless its task keeps
                results.
            task: Only of this one, which may be one of Django's.
        """
        wanted = frozenset(read_states(states)) or None
        types = None if task is None else frozenset({_name_of(task)})

        def verb(batch: Batch) -> list[tuple[Job, JobInfo]]:
            where = Filter(states=wanted, types=types, visible_at=batch.now)
            found: list[Job] = []
            after: int | None = None
            while keys := batch.store.find(where, Page(after=after, limit=PAGE)):
                found += batch.store.load(keys, payload=True)
                after = keys[-1]
            return [(job, self.backend.info(batch, job)) for job in found]

        pairs = self.backend.call(verb, durable=False)
        return [
            FoundJob(
                **{one.name: getattr(info, one.name) for one in fields(JobInfo)},
                arguments=self._arguments(job),
            )
            for job, info in pairs
        ]

    def _arguments(self, job: Job) -> Mapping[str, Any]:
        task, payload = self.app.tasks.get(job.type), job.payload or b"null"
        if task is not None:
            try:
                args, kwargs = task.arguments.read(payload)
                bound = inspect.signature(task.function).bind(*args, **kwargs)
                bound.apply_defaults()
                return bound.arguments
            except (AnewError, TypeError):  # written by hand, or for another version of the function
                pass
        value = msgspec.json.decode(payload)
        return value if isinstance(value, dict) else {"payload": value}

    # -- asserting

    def assert_enqueued(
        self,
        task: AnyTask,
        /,
        *args: Any,
        queue: str | None = None,
        at: datetime | None = None,
        delay: Wait | None = None,
        count: int | None = None,
        **kwargs: Any,
    ) -> list[FoundJob]:
        """Assert that a call of a task waits: it is ready, scheduled or retrying.

        Args:
            task: Which; it may be one of Django's.
            args, kwargs: Arguments that it has; those that are not given here may be anything.
            queue: The queue it waits in.
            at, delay: When it may run: that moment, or so long from now.
            count: How many such jobs there are; None: one or more.

        Returns:
            Those jobs.

        Raises:
            AssertionError: There is none, or not so many; it says what waits instead.
        """
        wanted = _Wanted(task, args, kwargs, queue, at, delay)
        found = self._matching(wanted)
        if found if count is None else len(found) == count:
            return found
        number = "a job" if count is None else f"{count} jobs" if count != 1 else "1 job"
        raise AssertionError(f"expected {number} {wanted}, found {len(found)}; {self._shown_waiting()}")

    def assert_not_enqueued(
        self, task: AnyTask, /, *args: Any, queue: str | None = None, **kwargs: Any
    ) -> None:
        """Assert that no such call of a task waits; see `assert_enqueued`."""
        wanted = _Wanted(task, args, kwargs, queue)
        found = self._matching(wanted)
        if found:
            raise AssertionError(f"expected no job {wanted}, found {len(found)}; {self._shown_waiting()}")

    def _matching(self, wanted: _Wanted) -> list[FoundJob]:
        given = wanted.arguments()
        ready_at = None if wanted.at is None else instant_ms(wanted.at, "at")
        if wanted.delay is not None:
            ready_at = self._clock.now() + wait_ms(wanted.delay, "delay")
        return [
            job
            for job in self.jobs(*WAITING, task=wanted.task)
            if wanted.queue in (None, job.queue)
            and ready_at in (None, job.ready_at)
            and _has(_arguments_of(wanted.task, job), given)
        ]

    def _shown_waiting(self) -> str:
        lines = [f"  {self._shown(job)}" for job in self.jobs(*WAITING)]
        lines += [f"  {ran.task} {ran.outcome} at {_shown(ran.at)}" for ran in self.ran]
        return "\n".join(["enqueued or run until now:", *lines]) if lines else "nothing was enqueued"

    def _shown(self, job: FoundJob) -> str:
        wait = job.ready_at - self._clock.now()
        when = f", due in {format_duration(wait)}" if wait > 0 else ""
        return f"{job}, {job.state}{when}, queue {job.queue!r}"


class _Backend(EmbeddedBackend):
    """The jobs of a test: an application that closes itself in the middle of one has them again at its next call.

    Args:
        called: Called after each call.
    """

    def __init__(self, commit: ThreadCommit, called: Callable[[], None]) -> None:
        super().__init__(commit)
        self._called = called

    def call(self, verb: Callable[[Batch], V], *, durable: bool = True) -> V:
        result = super().call(verb, durable=durable)
        self._called()
        return result

    def close(self) -> None:
        """Do nothing; the test closes them."""


class _Runner(Runner):
    """Remembers what a handler raised, for the test's report; its waits move the test's clock."""

    error: BaseException | None = None

    def __init__(self, clock: ManualClock, *args: Any) -> None:
        super().__init__(*args)
        self._clock = clock

    def sleep(self, run: Run, seconds: float) -> bool:
        if run.stopped is None:
            self._clock.advance(round(seconds * 1_000))
        return run.stopped is not None

    def fail(self, run: Run, context: Context, error: BaseException) -> None:
        self.error = error
        super().fail(run, context, error)


class _Recorder(Events):
    """Keeps events, and calls the application's hooks here and now."""

    def __init__(self, events: Events) -> None:
        super().__init__()
        self._hooks: dict[str, list[Hook]] = events._hooks  # also what is added in the test
        self.seen: list[Event] = []

    def __bool__(self) -> bool:
        return True

    def emit(self, event: Event) -> None:
        self.seen.append(event)
        self.call(event)


def _beside_loops(call: Callable[[], None]) -> None:
    """Call a function in this thread, or in one beside it where an event loop runs: a handler may need one of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        call()
    else:
        with ThreadPoolExecutor(1, "anew-test") as pool:
            pool.submit(call).result()


def _is_for_the_test(error: BaseException) -> bool:
    """Report whether an error is meant for the test itself: Ctrl-C, `pytest.fail`, `pytest.skip`."""
    return not isinstance(error, Exception | SystemExit | asyncio.CancelledError)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A call that a test looks for."""

    task: AnyTask
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    queue: str | None = None
    at: datetime | None = None
    delay: Wait | None = None

    def arguments(self) -> Mapping[str, Any]:
        """Give its arguments by name, as far as they are there.

        Raises:
            InvalidInput: No job can have them.
        """
        try:
            return _bind(self.task, self.args, self.kwargs).arguments
        except TypeError as error:
            function = _function_of(self.task)
            name = self.task.name if isinstance(self.task, Task) else function.__qualname__
            signature = inspect.signature(function)
            raise InvalidInput(
                f"{name} cannot be called so: {error}; expected arguments of {name}{signature}"
            ) from None

    def __str__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        text = f"of {_name_of(self.task)}({', '.join(given) or '...'})"
        text += "" if self.queue is None else f" in queue {self.queue!r}"
        text += "" if self.at is None else f" at {_shown(self.at)}"
        return text + ("" if self.delay is None else f" due in {self.delay}")


def _name_of(task: AnyTask) -> str:
    return task.name if isinstance(task, Task) else task.module_path


def _function_of(task: AnyTask) -> Callable[..., Any]:
    return task.function if isinstance(task, Task) else task.func


def _bind(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """Give arguments by name, as far as they are there; the context of a task of Django's is None."""
    first = () if isinstance(task, Task) or not task.takes_context else (None,)
    return inspect.signature(_function_of(task)).bind_partial(*first, *args, **kwargs)


def _arguments_of(task: AnyTask, job: FoundJob) -> Mapping[str, Any]:
    """Give a job's arguments by name; Django's jobs have them as they were passed."""
    if isinstance(task, Task):
        return job.arguments
    try:
        bound = _bind(task, job.arguments["args"], job.arguments["kwargs"])
    except (KeyError, TypeError):  # written by hand, or for another version of the function
        return {}
    bound.apply_defaults()
    return bound.arguments


def _has(arguments: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    return all(name in arguments and _is_same(arguments[name], value) for name, value in given.items())


def _is_same(stored: object, given: object) -> bool:
    """Compare an argument that a payload has carried with one that it has not: a tuple may have become a list."""
    if stored == given:
        return True
    try:
        return bool(msgspec.json.decode(write_result(stored)) == msgspec.json.decode(write_result(given)))
    except AnewError:
        return False


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1_000, UTC)


def _shown(at: int | datetime) -> str:
    return (_moment(at) if isinstance(at, int) else at).isoformat(sep=" ")
