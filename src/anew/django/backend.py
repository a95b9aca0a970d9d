"""A backend for Django's tasks: its jobs are durable, and run again as a policy says."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import msgspec
from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections
from django.utils.module_loading import import_string
from django.utils.timezone import make_aware

from anew.django.application import project_app
from anew.django.task_options import check, options_of
from anew.errors import AnewError, InvalidJob
from anew.jobs import State
from anew.jobs.codec import DEFAULT_PRIORITY
from anew.tasks.app import Anew
from anew.tasks.backend import JobInfo
from anew.tasks.context import ctx
from anew.tasks.events import Event
from anew.tasks.task import Task as AnewTask

try:  # since 6.0
    from django.tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskError
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json
except ImportError:  # the package django-tasks, for 5.2
    from django_tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskError
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json

KEPT: Final = "1d"
"""How long a job and its result are kept after it has succeeded, unless OPTIONS or `options` say otherwise."""

STEP: Final = 100
"""Django's priorities are -100 to 100, high first; ours are 0 to 65535, low first."""

WORKER: Final = "anew"
"""Stands for whatever worker ran an attempt: Django counts the attempts by these."""

_STATUS: Final = {
    State.IN_FLIGHT: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
    State.DEAD: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}

log = logging.getLogger("anew.tasks")

K = TypeVar("K")
V = TypeVar("V")


class AnewBackend(BaseTaskBackend):  # type: ignore[misc]
    """Enqueues the tasks of a project as jobs of its application, `anew.django.app`.

    Its OPTIONS are those of `anew.django.options`, for all of its tasks.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._refused: AnewError | None = None
        self.options: dict[str, Any] = params.get("OPTIONS", {})
        try:
            check(self.options)
        except AnewError as error:  # told by `check`, and to whoever enqueues: Django can start, and name it
            self._refused, self.options = error, {}

    def validate_task(self, task: Any) -> None:
        """Refuse a task that Django refuses; note the others, so that a worker knows them."""
        super().validate_task(task)
        self._noted(task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue a call; when this returns, the job is on the disk, whatever becomes of an open transaction."""
        if self._refused is not None:
            raise ImproperlyConfigured(self._refusal())
        self.validate_task(task)
        changes: dict[str, Any] = {
            "queue": task.queue_name,
            "priority": DEFAULT_PRIORITY - STEP * task.priority,
        }
        if task.run_after is not None:
            aware = task.run_after.tzinfo is not None
            changes["at"] = task.run_after if aware else make_aware(task.run_after)
        given, named = normalize_json([*args]), normalize_json({**kwargs})
        handle = self._noted(task).using(**changes).enqueue(*given, **named)
        result = _result(
            task,
            self.alias,
            handle.id,
            TaskResultStatus.READY,
            given,
            named,
            enqueued_at=_created_at(handle.id),
        )
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Give what has become of a job.

        Raises:
            TaskResultDoesNotExist: There is none of that id, or it is kept no longer; see ``keep_result``.
        """
        info = project_app().job(str(result_id)).info()
        task = None if info is None else django_task(info.task)
        if info is None or task is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(task, self.alias, info, *_arguments(self._noted(task), info.payload))

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """Check OPTIONS, for ``manage.py check``."""
        yield from super().check(**kwargs)
        if self._refused is not None:
            yield checks.Error(self._refusal(), id="anew.E002")

    def _refusal(self) -> str:
        return f"TASKS[{self.alias!r}]['OPTIONS']: {self._refused}"

    def _noted(self, task: Any) -> AnewTask[Any, Any, Any]:
        app = project_app()
        name = task.module_path
        prepare(app)
        known: Any = dict.get(app.tasks, name)
        if known is None:
            given = {"keep_result": KEPT, **self.options, **options_of(task.func)}
            add: Any = app.task
            known = add(_handler(task, self.alias), name=name, queue=task.queue_name, **given)
        return known  # type: ignore[no-any-return]


class _Tasks(dict[K, V], Generic[K, V]):
    """An application's tasks; one of Django's that was not imported yet is found by its path, so they are never none."""

    def __bool__(self) -> bool:
        return True

    def get(self, name: Any, default: Any = None) -> Any:
        """Give a task by name."""
        found = super().get(name)
        if found is None and django_task(name) is not None:
            found = super().get(name)
        return default if found is None else found


def prepare(app: Anew) -> None:
    """Have an application find Django's tasks, and tell Django's signals of them; once is enough."""
    if not isinstance(app.tasks, _Tasks):
        app.tasks = _Tasks(app.tasks)
        app.on("started", "succeeded", "discarded", "cancelled")(_send)


def django_task(path: str) -> Any:
    """Give a task of Django's by its path, if this backend has it; importing it notes it.

    The path may be the type of any job, whoever made it: what its import raises leaves the task unknown, and the worker alone.
    """
    try:
        found = import_string(path)
    except ImportError:
        return None
    except (Exception, SystemExit):  # a module that fails; or a path such as ".x": TypeError or ValueError
        log.exception("what may be a task cannot be imported", extra={"task": path})
        return None
    own = isinstance(found, Task) and isinstance(task_backends[found.backend], AnewBackend)
    return found if own else None


def _handler(task: Any, alias: str) -> Callable[..., Any]:
    """Give what runs a job: the task's function, with its context if it takes that."""

    def context_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        if not task.takes_context:
            return ()
        status = TaskResultStatus.RUNNING
        result = _result(task, alias, ctx.job_id, status, args, kwargs, enqueued_at=_created_at(ctx.job_id))
        result.worker_ids.extend([WORKER] * ctx.attempt)
        return (TaskContext(task_result=result),)

    def run(*args: Any, **kwargs: Any) -> Any:
        return normalize_json(task.func(*context_of(args, kwargs), *args, **kwargs))

    async def arun(*args: Any, **kwargs: Any) -> Any:
        return normalize_json(await task.func(*context_of(args, kwargs), *args, **kwargs))

    handler = arun if inspect.iscoroutinefunction(task.func) else run
    handler.__module__, handler.__doc__ = task.func.__module__, task.func.__doc__
    return handler


def result_of(task: Any, alias: str, info: JobInfo, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Give a job as Django shows it."""
    status = _STATUS.get(info.state, TaskResultStatus.READY)
    begun = [one.began_at for one in info.errors] + ([] if info.taken_at is None else [info.taken_at])
    ended = info.completed_at if status is TaskResultStatus.SUCCESSFUL else None
    if status is TaskResultStatus.FAILED and info.errors:
        ended = info.errors[-1].ended_at
    failures = [one for one in info.errors if one.outcome in ("error", "timeout")]
    result = _result(
        task, alias, info.id, status, args, kwargs,
        enqueued_at=_created_at(info.id),
        started_at=_moment(min(begun, default=None)),
        last_attempted_at=_moment(max(begun, default=None)),
        finished_at=_moment(ended),
        errors=[TaskError(exception_class_path=_path(one.error_type), traceback=one.backtrace or one.message) for one in failures],
    )  # fmt: skip
    runs = info.attempts + (status in (TaskResultStatus.RUNNING, TaskResultStatus.SUCCESSFUL))
    result.worker_ids.extend([WORKER] * runs)
    if info.result is not None:
        object.__setattr__(result, "_return_value", msgspec.json.decode(info.result))
    return result


def _result(
    task: Any,
    alias: str,
    job_id: str,
    status: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    **more: Any,
) -> Any:
    times = dict.fromkeys(("enqueued_at", "started_at", "last_attempted_at", "finished_at"))
    fields: dict[str, Any] = {"errors": [], "worker_ids": []} | times | more
    return TaskResult(
        task=task, id=job_id, status=status, args=[*args], kwargs={**kwargs}, backend=alias, **fields
    )


def _arguments(
    task: AnewTask[Any, Any, Any], payload: bytes | None
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    try:
        return task.arguments.read(payload or b"{}")
    except InvalidJob:  # written by hand
        return (), {}


def _created_at(job_id: str) -> datetime | None:
    return _moment(JobInfo.created_at_of(job_id))


def _moment(at: int | None) -> datetime | None:
    if at is None:
        return None
    moment = datetime.fromtimestamp(at / 1_000, UTC)
    return moment if settings.USE_TZ else moment.astimezone().replace(tzinfo=None)


def _path(error_type: str | None) -> str:
    name = error_type or "Exception"
    return name if "." in name else f"builtins.{name}"


def _send(event: Event) -> None:
    """Send Django's signal for an event of a job."""
    signal = task_started if event.name == "started" else task_finished
    task = django_task(event.task) if signal.has_listeners() else None
    if task is None:
        return
    backend = task.get_backend()
    try:
        signal.send(type(backend), task_result=backend.get_result(event.job_id))
    except TaskResultDoesNotExist:  # it is not kept
        return
    finally:
        close_old_connections()
