"""What the user's code does around enqueues and runs, in the very thread or coroutine in which they happen.

Hooks of events (`anew.tasks.events`) hear of what has happened, later and in a thread of their own. What must be set while a
handler runs, such as the current span of a trace, needs this. A hook is a generator with one ``yield``, or gives a context
manager; the part behind the ``yield`` runs whatever the enqueue or the run has come to, and its subject says what that is.
What a hook raises is logged and changes nothing: the job is stored, or its handler runs, and its outcome stands.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anew.jobs import NewJob
from anew.jobs.carried import MOST_BYTES, carrying, size_of

log = logging.getLogger("anew.tasks")

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Enqueuing:
    """Calls of one task that are enqueued together.

    Attributes:
        task, queue: Of the jobs.
        count: How many.
        carried: Texts by name that travel with the jobs: what is put here before the ``yield`` is in `Running.carried` of each of
            their runs. All together 8 KiB at most.
        job_ids: Once they are stored; empty where they go into an outbox, which says later.
        exception: Why they are not stored; None before, and if they are.
    """

    task: str
    queue: str
    count: int
    carried: dict[str, str] = field(default_factory=dict)
    job_ids: Sequence[str] = ()
    exception: BaseException | None = None


@dataclass(slots=True, kw_only=True)
class Running:
    """One run of a job.

    Attributes:
        job_id, task, queue: The job.
        attempt: 1 for the first run; snoozes and interruptions do not raise it.
        max_attempts: Runs that the policy allows; None: no limit, or one that the policy itself has.
        carried: What its producer sent along. In a run whose handler has a process of its own, what is put here before the
            ``yield`` is in the `carried` of the hooks there.
        process: The handler runs in a process of its own.
        in_child: This is that process; the worker surrounds the same run too, and its hooks see what comes of it if this one dies.
        outcome: None before the end, then ``succeeded``, ``error``, ``timeout``, ``snoozed``, ``rate_limited``, ``cancelled`` or
            ``interrupted`` (its process died). Whether a failed job runs again is decided later; see the events.
        exception: What the handler raised; None if nothing, or if it was raised in another process.
        error_type, error, backtrace: The same as texts, from wherever; None where it went well.
    """

    job_id: str
    task: str
    queue: str
    attempt: int
    max_attempts: int | None
    carried: dict[str, str]
    process: bool = False
    in_child: bool = False
    outcome: str | None = None
    exception: BaseException | None = None
    error_type: str | None = None
    error: str | None = None
    backtrace: str | None = None


Hook = Callable[[Any], AbstractContextManager[object]]


def hook_of(function: Callable[[Any], Iterator[None] | AbstractContextManager[object]]) -> Hook:
    """Give what makes a context manager of a subject: generator functions are made one."""
    made: Any = contextmanager(function) if inspect.isgeneratorfunction(function) else function
    return made  # type: ignore[no-any-return]


class Surrounding:
    """Hooks that have been entered; made before, and left after what they surround.

    Args:
        hooks: The first one is the outermost.
        subject: What they are about.
    """

    def __init__(self, hooks: Sequence[Hook], subject: Enqueuing | Running) -> None:
        self._task = subject.task
        self._entered: list[AbstractContextManager[object]] = []
        for hook in hooks:
            try:
                manager = hook(subject)
                manager.__enter__()
            except KeyboardInterrupt:
                raise
            except BaseException:  # also a SystemExit, which would end a worker's thread
                self._log()
            else:
                self._entered.append(manager)

    def leave(self) -> None:
        """Leave them in the opposite order."""
        for manager in reversed(self._entered):
            try:
                manager.__exit__(None, None, None)
            except KeyboardInterrupt:
                raise
            except BaseException:
                self._log()

    def _log(self) -> None:
        log.exception("what is around a job failed", extra={"task": self._task})


def enqueue_around(
    hooks: Sequence[Hook],
    task: str,
    jobs: Sequence[NewJob],
    store: Callable[[Sequence[NewJob]], T],
    ids: Callable[[T], Sequence[str]],
) -> T:
    """Store new jobs, with hooks around it and with what these have them carry.

    Args:
        hooks: There may be none.
        task: Whose jobs they are.
        jobs: At least one.
        store: Stores them; gets the same jobs where nothing is carried.
        ids: Gives the ids of what that has come to.
    """
    if not hooks:
        return store(jobs)
    subject = Enqueuing(task=task, queue=jobs[0].queue, count=len(jobs))
    around = Surrounding(hooks, subject)
    try:
        stored = store(carrying(jobs, fitting(subject.carried, task)))
        subject.job_ids = ids(stored)
    except BaseException as error:
        subject.exception = error
        raise
    finally:
        around.leave()
        del subject  # its exception knows this frame, and would keep itself alive
    return stored


def fitting(carried: Mapping[str, str], task: str) -> dict[str, str]:
    """Give what hooks want carried if it is texts and not too many, or else nothing, and log that."""
    try:
        size = size_of(carried)
    except (AttributeError, UnicodeEncodeError, TypeError):
        log.error("jobs carry nothing: expected texts by name", extra={"task": task})
        return {}
    if size > MOST_BYTES:
        log.error(
            "jobs carry nothing: it is too much", extra={"task": task, "bytes": size, "most": MOST_BYTES}
        )
        return {}
    return {**carried}
