"""The application: where jobs are, and the tasks that they are calls of."""

from __future__ import annotations

import atexit
import inspect
import logging
import os
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, overload

from anew.errors import Conflict, ForkedStore, InvalidConfig, InvalidInput
from anew.jobs import Job, NewJob
from anew.jobs.breaker import BreakerSettings
from anew.jobs.limits import Throttle
from anew.tasks.around import Enqueuing, Hook, Running, enqueue_around, hook_of
from anew.tasks.backend import Backend, Placed, read_states
from anew.tasks.cron import CronTask
from anew.tasks.debouncing import Debounce, Merge
from anew.tasks.downstream import Breaker, Downstream, breaker_of, read_key
from anew.tasks.events import Event, Events, interrupted, names_of
from anew.tasks.handle import JobHandle
from anew.tasks.policies import NO_POLICY, read_retries
from anew.tasks.task import (
    Call,
    JobBatch,
    Limit,
    Options,
    Task,
    Unique,
    read_batch,
    read_bounds,
    read_options,
    read_queue,
)
from anew.tasks.times import Wait, instant_ms, wait_ms
from anew.units import is_database, refused, without_password

if TYPE_CHECKING:
    import sqlite3

    from anew.tasks.database_outbox import DatabaseConnection
    from anew.tasks.embedded import EmbeddedBackend
    from anew.tasks.harness import AppTest
    from anew.tasks.outbox import Outbox
    from anew.tasks.topics import Subscription, Topic
    from anew.tasks.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C")
Around = Iterator[None] | AbstractContextManager[object]
AroundEnqueue = TypeVar("AroundEnqueue", bound=Callable[[Enqueuing], Around])
AroundRun = TypeVar("AroundRun", bound=Callable[[Running], Around])

log = logging.getLogger("anew.tasks")

MEMORY: Final = ":memory:"
SERVERS: Final = ("http://", "https://")
SHOWN_TO_SERVERS: Final = ("ANEW_TOKEN", "ANEW_CA", "ANEW_CERT", "ANEW_KEY")
"""Variables that say who is trusted, and who asks."""

FORMER_NAME: Final = "app"
"""What applications without a name were called before their modules named them: their cron entries may stand in this group."""

_apps: weakref.WeakSet[Anew] = weakref.WeakSet()

importing = False
"""A process that runs handlers for a worker is importing them."""


class Anew:
    """An application.

    Args:
        store: Where its jobs are: a file (``"jobs.db"``; .sqlite and .sqlite3 do too), a server's data directory (any other name),
            each made if it is missing; ``"postgresql://user@host/database"``, for processes on any number of machines;
            ``"http://…"`` or ``"https://…"`` of a server, to enqueue and to look (its token in ANEW_TOKEN, files of certificates in
            ANEW_CA, ANEW_CERT and ANEW_KEY); or ``":memory:"``. None: the variable ANEW_URL, or else the file ``anew.db`` here.
        name: Names the application among others that share the store: the group of its cron entries. None: as the module that
            makes it.
        queue: Of tasks that name none.
        policy: Of tasks that name none, in any form of `Anew.task`. None: the preset `even`, 25 retries in about 20 days.
        serializer: ``"json"``, or ``"msgpack"``, for arguments that JSON cannot carry as they are.

    Attributes:
        tasks: By name.
        crons: What runs at times of its own, by name; see `Anew.cron`.
        events: What others do when something happens; see `Anew.on`.
        around_enqueues, around_runs: What others do around both; see `Anew.around`.
        serializer: See there.
        first_module: What a process imports that runs handlers, before their modules; "": nothing.
        downstreams: When the circuit breakers open of the services that its tasks call, by name.

    Raises:
        InvalidInput: A value does not fit.
        InvalidConfig: The store is an address of another kind.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        *,
        name: str | None = None,
        queue: str = "default",
        policy: object = None,
        serializer: str = "json",
    ) -> None:
        if serializer not in ("json", "msgpack"):
            raise refused("serializer", serializer, '"json" or "msgpack"')
        self.location = os.environ.get("ANEW_URL") or "anew.db" if store is None else os.fspath(store)
        self.name = name or _module_name(sys._getframe(1).f_globals)
        self._former_name = FORMER_NAME if name is None else None
        self.serializer = serializer
        self.tasks: dict[str, Task[Any, Any, Any]] = {}
        self.events = Events()
        self.around_enqueues: list[Hook] = []
        self.around_runs: list[Hook] = []
        self.downstreams: dict[str, BreakerSettings] = {}
        self.first_module = ""
        self._options = read_options(Options(), queue=queue)
        self._retries = read_retries(policy)
        is_known = self.location.startswith(SERVERS) or is_database(self.location)
        if "://" in self.location and not is_known:
            scheme = self.location.partition("://")[0]  # the rest may have a password
            raise InvalidConfig(
                f"store: {scheme}://… is not valid; expected a file, a directory, postgresql://…, http://… or {MEMORY}",
                field="store",
            )
        self._lock = threading.Lock()
        self._backend: Backend | None = None
        self._pid = 0
        self._replaced: Backend | None = None
        self._own: tuple[Backend | None, int] = (None, 0)
        self.crons: dict[str, CronTask] = {}
        self._limits: dict[str, Throttle | None] = {}
        _apps.add(self)

    def __repr__(self) -> str:
        location = without_password(self.location) if is_database(self.location) else self.location
        return f"Anew({location!r})"

    # -- tasks

    @overload
    def task(self, function: Callable[P, Awaitable[T]], /) -> Task[P, Awaitable[T], T]: ...
    @overload
    def task(self, function: Callable[P, T], /) -> Task[P, T, T]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        policy: object = None,
        max_attempts: int | None = None,
        timeout: Wait | None = None,
        unique: bool | str | Unique | None = None,
        expires: Wait | None = None,
        keep_result: Wait | None = None,
        process: bool = False,
        downstream: str | Downstream | None = None,
        limit: Limit | None = None,
        debounce: Wait | Debounce | None = None,
        merge: Mapping[str, str] | Merge | None = None,
    ) -> _Decorator: ...

    def task(self, function: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Make a function a task, as a decorator with or without options.

        Args:
            function: The handler: a plain function, which runs in a thread, or an `async def`, which runs in an event loop.
            name: Names it in every process. None: its module and name.
            options: ``queue``; ``priority`` (0 to 65535, low first); ``policy``: a preset's name, a policy's JSON form, a `Policy`,
                a list of waits, rules by exception, or a function (see docs/python.md); ``max_attempts``: runs, the first
                included; ``timeout`` of one run; ``unique``: True, a text such as ``"invoice {id}"``, or `Unique`; ``expires``:
                not started later than this after it was enqueued; ``keep_result``: how long a job and what it returned are
                kept after it has succeeded; ``process``: run in a process of its own; ``downstream``: the service that it calls,
                a name or `Downstream`, whose circuit breaker and retry budget hold (see docs/downstream.md); ``limit``: a
                `Limit` of the jobs of one key, such as a customer; ``debounce``: calls of one key become one job, which runs when
                there has been none for this time (or `Debounce`); ``merge``: they become one job, whose arguments are made of all
                of theirs, such as ``{"ids": "append"}`` (or `Merge`).

        Raises:
            InvalidInput: A value does not fit.
        """
        given = {key: value for key, value in options.items() if value is not None}
        known = read_options(self._options, **given)

        def decorate(function: Callable[..., Any]) -> Task[Any, Any, Any]:
            if not callable(function):
                raise refused("task", function, "a function")
            return self._add(function, name or name_of(function), known)

        return decorate if function is None else decorate(function)

    def _add(self, function: Callable[..., Any], name: str, options: Options) -> Task[Any, Any, Any]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise refused("task", name, "a function without yield: a call of a generator runs nothing of it")
        other = self.tasks.get(name)
        if other is not None and other.function is not function and not _reloaded(other.function, function):
            raise InvalidInput(
                f"task: there are two of the name {name!r}; expected name= for one of them", field="name"
            )
        if options.retries == NO_POLICY:
            options = replace(options, retries=self._retries)
        elif options.retries.policy is None:
            options = replace(options, retries=replace(options.retries, policy=self._retries.policy))
        if options.downstream is not None:
            self._add_downstream(options.downstream)
        task: Task[Any, Any, Any] = Task(self, function, name, options)
        self.tasks[name] = task
        return task

    def _add_downstream(self, given: Downstream) -> None:
        """Keep the settings of a service; a bare name says none."""
        known = self.downstreams.get(given.key)
        usual = Downstream(given.key).settings
        if known is None or known == usual:
            self.downstreams[given.key] = given.settings
        elif given.settings not in (known, usual):
            raise InvalidInput(
                f"downstream: there are two settings of {given.key!r}; expected them once, and the bare name elsewhere",
                field="downstream",
            )

    def cron(
        self,
        expression: str,
        *,
        tz: str | None = None,
        name: str | None = None,
        catch_up: bool = False,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Callable[[C], C]:
        """Have a task enqueued at the times of a cron expression; a decorator above `task`, or several, each of a name of its own.

        Each time makes one job at most, however many processes run. A time that a change of the clocks skips comes right after
        it, and one that comes twice counts once; see docs/python.md.

        Args:
            expression: Five or six fields (seconds first), or a name such as ``"@daily"``.
            tz: An IANA time zone such as ``"Europe/Berlin"``; None: the machine's own.
            name: Names the entry; None: the task's name.
            catch_up: Where no process ran at the time, enqueue the latest that was missed at the next start.
            args, kwargs: What the task is called with.

        Raises:
            InvalidInput: The expression or the time zone is none; the task cannot be called with these arguments.
        """

        def decorate(task: C) -> C:
            if not isinstance(task, Task):
                raise InvalidInput("cron: expected it above @app.task", field="cron")
            if isinstance(args, str) or not isinstance(args, Sequence):
                raise refused("args", args, "a tuple or a list of positional arguments")
            entry = CronTask(task, expression, tz, catch_up, tuple(args), dict(kwargs or {}))
            key = name or task.name
            if key in self.crons:
                raise InvalidInput(
                    f"cron: there are two entries of the name {key!r}; expected name= for one", field="name"
                )
            self.crons[key] = entry
            return task

        return decorate

    def put_crons(self) -> None:
        """Have the cron entries of this application, and no others of it, fire from now on; a worker does it when it starts.

        Where it has none, and had none before, nothing is written.
        """
        if not self.crons and not self.backend.has_crons(self.name):
            return
        entries = [entry.entry(name) for name, entry in self.crons.items()]
        removed = self.backend.put_crons(self.name, entries, takes_over=self._former_name)
        if removed:
            log.warning(
                "cron entries are removed that the application %s does not have: %s; if they are another application's, "
                "give each a name of its own: Anew(name=...)",
                self.name,
                ", ".join(removed),
                extra={"group": self.name, "removed": list(removed)},
            )

    @contextmanager
    def batch(
        self,
        *,
        on_success: Call | None = None,
        on_complete: Call | None = None,
        parent: JobBatch | None = None,
    ) -> Iterator[JobBatch]:
        """Group jobs: ``with app.batch(on_success=report.call(7)) as batch: work.using(batch=batch).enqueue(...)``.

        At the end of the block the batch is closed, and its callbacks may come: each is enqueued once, in the transaction in which
        it becomes due. If the block raises, the batch is left open, and no callback ever comes; jobs that were enqueued run. The
        `delay` and `expires` of a callback count from when the batch was opened.

        Args:
            on_success: Enqueued when every job has succeeded.
            on_complete: Enqueued when every job has run once, with whatever result; those that failed may still be retrying.
            parent: The batch whose callbacks wait for this one's.

        Raises:
            InvalidInput: There is no callback, or one is no call: ``on_success=report.call(7)``.
        """
        for name, call in (("on_success", on_success), ("on_complete", on_complete)):
            if call is not None and not isinstance(call, Call):
                raise refused(name, call, "a call of a task, such as report.call(7)")
        key = self.backend.open_batch(
            None if on_success is None else on_success.job(),
            None if on_complete is None else on_complete.job(),
            None if parent is None else read_batch(parent, "parent").key,
        )
        yield JobBatch(key)
        self.backend.close_batch(key)

    def on(self, *names: str) -> Callable[[F], F]:
        """Have a function called with each `Event` of these names, or of all; see `anew.tasks.events`.

        It is called in a thread of its own, after the change is on the disk. What it raises is logged, and changes nothing.

        Raises:
            InvalidInput: There is no such event.
        """
        checked = names_of(names)

        def decorate(hook: F) -> F:
            self.events.add(hook, checked)
            return hook

        return decorate

    @overload
    def around(self, what: Literal["enqueue"]) -> Callable[[AroundEnqueue], AroundEnqueue]: ...
    @overload
    def around(self, what: Literal["run"]) -> Callable[[AroundRun], AroundRun]: ...

    def around(self, what: str) -> Callable[[F], F]:
        """Have a generator with one ``yield``, or what gives a context manager, around each enqueue or each run.

        It is called in the thread or coroutine of the enqueue or the handler, with an `Enqueuing` or a `Running`. What it raises
        is logged, and changes nothing; see `anew.tasks.around`.

        Args:
            what: ``"enqueue"``, once for the jobs of one call, or ``"run"``.

        Raises:
            InvalidInput: It is neither.
        """
        if what not in ("enqueue", "run"):
            raise refused("around", what, '"enqueue" or "run"')
        hooks = self.around_enqueues if what == "enqueue" else self.around_runs

        def decorate(function: F) -> F:
            hooks.append(hook_of(function))
            return function

        return decorate

    # -- jobs

    def job(self, job_id: str) -> JobHandle[Any]:
        """Give the handle of a job by its id; it is not looked for.

        Raises:
            InvalidInput: It is no text.
        """
        if not isinstance(job_id, str):
            raise refused("job_id", job_id, "the id of a job, a text")
        return JobHandle(self, job_id, None)

    def counts(self, queue: str | None = None) -> dict[str, int]:
        """Count the jobs of a queue, or of all, by state."""
        return {str(state): count for state, count in self.backend.counts(queue).items()}

    def clear(
        self,
        *states: str,
        queue: str | None = None,
        older_than: Wait | None = None,
        before: datetime | None = None,
    ) -> int:
        """Remove jobs in some states; report how many.

        Args:
            states: Such as ``"completed"`` and ``"dead"``.
            queue: Only of this one.
            older_than: Only those that ended so long ago.
            before: Only those that ended before this time.

        Raises:
            InvalidInput: A value does not fit, or both times are given.
        """
        wanted = read_states(states)
        if older_than is not None and before is not None:
            raise InvalidInput("older_than and before: expected one of them, not both", field="before")
        cutoff = None if before is None else instant_ms(before, "before")
        if older_than is not None:
            cutoff = self.now() - wait_ms(older_than, "older_than")
        return self.backend.clear(wanted, queue, cutoff) if wanted else 0

    def pause(self, queue: str) -> None:
        """Have a queue hand out nothing, in every process, until `resume`; what runs goes on."""
        self.backend.pause(read_queue(queue), True)

    def resume(self, queue: str) -> None:
        """Have a paused queue hand out its jobs again."""
        self.backend.pause(read_queue(queue), False)

    def limit(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
    ) -> None:
        """Bound a queue's jobs in all workers and processes together. What is beyond it waits in the queue, and holds no worker.

        It may stand at the top level of a module: then each worker that imports it does so again when it starts.

        Args:
            queue: Its name. What was bounded before is replaced.
            concurrency: Jobs that run at one time; 0: none starts.
            rate: Jobs that start over a period, such as ``"10/s"``, ``"100/m"`` or ``"5/30s"``.
            burst: Of these, how many may start at once after a quiet time. None: as many as the rate has.

        Raises:
            InvalidInput: A value does not fit, or nothing is bounded; see `unlimit`.
            Conflict: The server's configuration limits this queue.
        """
        bounds = read_bounds(queue, concurrency, rate, burst, least=0)
        self._limit(queue, Throttle(concurrency=concurrency, rate=bounds))

    def unlimit(self, queue: str) -> None:
        """Bound a queue no longer."""
        self._limit(queue, None)

    def _limit(self, queue: str, throttle: Throttle | None) -> None:
        """Bound a queue now; where a worker or a process of it imports the module that says so, when the worker starts."""
        read_queue(queue)
        if importing:
            self._limits[queue] = throttle
        else:
            self.backend.limit(queue, throttle)

    def put_limits(self) -> None:
        """Bound the queues that the application's modules have named while they were imported; a worker does it when it starts."""
        for queue, throttle in self._limits.items():
            self.backend.limit(queue, throttle)

    def breakers(self) -> list[Breaker]:
        """Give the circuit breakers of the services that tasks have called, by name; see docs/downstream.md."""
        return [breaker_of(row) for row in self.backend.breakers()]

    def close_breaker(self, key: str) -> None:
        """Close a service's circuit breaker by hand; jobs start again, and those that are held keep their times."""
        if self.backend.close_breaker(read_key(key)) and self.events:
            self.events.emit(Event(name="breaker_closed", job_id="", task="", queue="", downstream=key))

    def submit(
        self, jobs: Sequence[NewJob], task: Task[Any, Any, T], *, plain: bool = False
    ) -> list[JobHandle[T]]:
        """Store jobs of a task, all or none; give their handles."""

        def store(given: Sequence[NewJob]) -> list[Placed]:
            return self.backend.enqueue(given, plain=plain and given is jobs)

        def ids(placed: Sequence[Placed]) -> list[str]:
            return [one.id for one in placed]

        placed = enqueue_around(self.around_enqueues, task.name, jobs, store, ids)
        self.events.enqueued(task.name, jobs, placed)
        return [JobHandle(self, one.id, task, created=one.created, folded=one.folded) for one in placed]

    async def asubmit(
        self, jobs: Sequence[NewJob], task: Task[Any, Any, T], *, plain: bool = False
    ) -> list[JobHandle[T]]:
        """Do the same beside an event loop."""
        import asyncio

        return await asyncio.to_thread(self.submit, jobs, task, plain=plain)

    def now(self) -> int:
        """Give the time, milliseconds since the Unix epoch."""
        return self.backend.now()

    # -- topics

    def topic(self, name: str) -> Topic:
        """Give a topic by its name: ``app.topic("orders").publish("order.paid", {"id": 42})``; see docs/webhooks.md."""
        from anew.tasks.topics import Topic

        return Topic(self, name)

    def subscribe(
        self,
        topic: str,
        url: str | None = None,
        *,
        queue: str | None = None,
        filter: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        name: str = "",
        secret: str | None = None,
        signing: Literal["hmac", "ed25519"] = "hmac",
        handshake: Literal["token", "cloudevents"] | None = None,
        ttl: Wait | None = None,
        dead_letter_queue: str | None = None,
    ) -> Subscription:
        """Have the messages of a topic delivered to a webhook, or enqueued as jobs whose type is the message's.

        The endpoint of a webhook is asked first whether it wants them. One that is subscribed already and has not
        answered yet is asked again. On a file, what ``ANEW_WEBHOOK_…`` and ``anew.toml`` say holds, as for `anew deliver`.

        Args:
            topic: Its name.
            url: Of a webhook.
            queue: In place of it.
            filter: Which messages: ``{"types": ["order.*"], "attributes": {"region": ["eu"]}}``; None: all.
            policy: Blocks of a delivery policy of its own.
            name: For people.
            secret: A secret of yours, ``whsec_…``; None: a new one.
            signing: What requests are signed with.
            handshake: How the endpoint is asked; None: by a token, and not at all where confirmation is optional.
            ttl: How long the subscription lasts; None: until it is removed.
            dead_letter_queue: A job is enqueued there for each delivery that dies.

        Raises:
            NotFound: There is no such topic.
            Conflict: The endpoint is subscribed already; or the topic locks policies.
            InvalidInput: A value does not fit; its `field` is a JSON pointer.
            InvalidConfig: On a file, the extra ``webhooks`` is not installed, which keys need.
        """
        from anew.tasks.topics import subscribe

        return subscribe(
            self,
            topic,
            url,
            queue=queue,
            ttl=ttl,
            filter=filter,
            delivery_policy=policy,
            name=name,
            secret=secret,
            signing=signing,
            handshake=handshake,
            dead_letter_queue=dead_letter_queue,
        )

    # -- jobs that are enqueued in a transaction of the user's own

    def create_outbox(self, connection: sqlite3.Connection | DatabaseConnection) -> None:
        """Make the outbox if it is missing: the table `anew_outbox` in the user's own file, or the store's own in its database."""
        self.outbox(connection).create()

    def outbox(self, connection: sqlite3.Connection | DatabaseConnection) -> Outbox:
        """Give the outbox of a connection: ``app.outbox(connection).enqueue(task, *args)`` commits or rolls back with it.

        Args:
            connection: Of Python's `sqlite3`, to a file of the user's own, which a worker with ``outboxes=[...]`` drains; or, where
                the store is a PostgreSQL database, one of psycopg, psycopg2 or Django to that database.

        Raises:
            InvalidInput: It is no such connection.
            Conflict: It has the queue's own file open.
        """
        from anew.tasks.database_outbox import DatabasePlace
        from anew.tasks.outbox import FilePlace, Outbox

        in_database = is_database(self.location) and type(connection).__module__ != "sqlite3"
        return Outbox(self, DatabasePlace(self, connection) if in_database else FilePlace(self, connection))

    def drain_outbox(self, path: str | os.PathLike[str]) -> int:
        """Move the committed rows of an outbox into the queue, as a worker with ``outboxes=[path]`` does; report how many.

        Each makes one job, also where this is killed on the way and done again within a day.

        Raises:
            NotFound: There is no such file, or no outbox in it.
            StoreBusy: Another program writes the file and does not let go.
        """
        from anew.tasks.outbox import drain

        return drain(self, path)

    # -- workers

    def worker(self, **options: Any) -> Worker:
        """Give a worker for this application's tasks; see `Worker`."""
        from anew.tasks.worker import Worker

        return Worker(self, **options)

    def run_worker(self, **options: Any) -> None:
        """Run jobs until SIGTERM or SIGINT; see `Worker`."""
        self.worker(**options).run()

    # -- tests

    def test(self, *, now: datetime | None = None, seed: int = 0) -> AppTest:
        """Test the application: ``with app.test() as test:`` its jobs are in memory, and its clock stands still until it is moved.

        Args:
            now: The time at first; None: 2026-01-01, 00:00 UTC.
            seed: Where jitter comes from.

        Raises:
            InvalidInput: ``now`` has no time zone.
        """
        from anew.tasks.harness import AppTest

        return AppTest(self, now=now, seed=seed)

    # -- where jobs are

    @property
    def backend(self) -> Backend:
        """The place of the jobs, opened at first use, and again in a forked child."""
        if importing:
            raise Conflict(
                "a module uses the application's jobs while a worker imports it; "
                'expected such calls below: if __name__ == "__main__":'
            )
        backend = self._backend
        if backend is not None and self._pid == os.getpid():
            return backend
        with self._lock:
            if self._backend is None or self._pid != os.getpid():
                if self._backend is not None and self.location == MEMORY:
                    raise ForkedStore("jobs in memory belong to the process that made them; expected a file")
                self._backend = self._open()
                self._pid = os.getpid()
            return self._backend

    def _open(self) -> Backend:
        if self._replaced is not None:
            return self._replaced
        if self.location.startswith(SERVERS):
            from anew.config import load_connect  # which reads a token as all commands do: @path too
            from anew.tasks.remote import RemoteBackend

            named = {name: os.environ.get(name, "") for name in SHOWN_TO_SERVERS}
            return RemoteBackend(self.location, load_connect({}, named, None))
        from anew.tasks.embedded import EmbeddedBackend
        from anew.tasks.opening import open_engine, webhook_key

        where = None if self.location == MEMORY else self.location
        backend = EmbeddedBackend(open_engine(where), None if where is None else webhook_key(where))
        backend.commit.on_interrupted = lambda jobs: self._interrupted(backend, jobs)
        return backend

    def _interrupted(self, backend: EmbeddedBackend, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.events.emit(interrupted(job, backend.commit.engine.ids.write(job.key)))

    @property
    def stands_still(self) -> str:
        """What to say to whoever waits in vain: in a test nothing runs by itself."""
        return "" if self._replaced is None else "; in a test jobs run at drain() and clock.advance() alone"

    def opened_here(self) -> bool:
        """Report whether this process has opened the place of the jobs, and not closed it."""
        return self._backend is not None and self._pid == os.getpid()

    def replace_store(self, backend: Backend | None, events: Events) -> tuple[Backend | None, Events]:
        """Have the jobs in another place until this is called again, as a test does; give what takes it back.

        Args:
            backend: The place, also for forked children and after `close`; None: what the application names.
            events: What hears of them.
        """
        with self._lock:
            before = self._replaced, self.events
            if self._replaced is None:
                self._own = self._backend, self._pid
            self._replaced, self.events = backend, events
            self._backend, self._pid = self._own if backend is None else (backend, os.getpid())
        return before

    def close(self) -> None:
        """Let go of the file or the connection, once the calls of other threads have ended; the next call opens it again."""
        with self._lock:
            backend, self._backend = self._backend, None
        self.events.close()
        if backend is not None and self._pid == os.getpid():
            backend.close()

    def __enter__(self) -> Anew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


if TYPE_CHECKING:
    from typing import Protocol

    class _Decorator(Protocol):
        """What `Anew.task` with options gives."""

        @overload
        def __call__(self, function: Callable[P, Awaitable[T]], /) -> Task[P, Awaitable[T], T]: ...
        @overload
        def __call__(self, function: Callable[P, T], /) -> Task[P, T, T]: ...


def name_of(function: Callable[..., Any]) -> str:
    """Name a function the same in the program that is started as a script and in a worker that imports it."""
    module = getattr(function, "__module__", "") or ""
    own = getattr(function, "__qualname__", None)
    if own is None:
        raise InvalidInput(f"task: {function!r} has no name of its own; expected name=", field="name")
    file = function.__code__.co_filename if module == "__anew__" else None
    return f"{_same_name(module, file)}.{own}"


def _module_name(names: Mapping[str, Any]) -> str:
    """Name a module, by its globals, the same in both."""
    module = str(names.get("__name__") or FORMER_NAME)
    return _same_name(module, names.get("__file__", module))


def _same_name(module: str, file: object) -> str:
    if module == "__anew__":  # a script in a worker's process
        return Path(str(file)).stem
    return (_main_name() if module == "__main__" else module).removesuffix(".__main__")


def _main_name() -> str:
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(str(file)).stem if file else "__main__"


def _reloaded(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Report whether two functions are one that was loaded twice, as a module is that runs as a script and is imported."""
    codes = [getattr(function, "__code__", None) for function in (old, new)]
    return None not in codes and len({(code.co_filename, code.co_firstlineno) for code in codes if code}) == 1


def apps() -> list[Anew]:
    """Give the applications of this process."""
    return list(_apps)


def _after_fork() -> None:
    """In a forked child: locks that some thread of the parent held are nobody's here."""
    for app in list(_apps):
        app._lock = threading.Lock()
        app.events.forget_thread()


def _at_exit() -> None:
    """Leave no sign of a process that has ended well: `anew doctor` would find it dead."""
    for app in list(_apps):
        if app.opened_here() and app._backend is not None and not app._backend.is_busy():
            with suppress(Exception):
                app.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
