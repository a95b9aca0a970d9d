"""The handle of an enqueued job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from anew.errors import AnewError, NotFound
from anew.jobs import ENDED, State
from anew.tasks.arguments import read_result
from anew.tasks.backend import JobInfo
from anew.tasks.times import Wait, wait_ms

if TYPE_CHECKING:
    from anew.tasks.app import Anew
    from anew.tasks.task import Task

T = TypeVar("T")

FIRST_LOOK_S, LONGEST_LOOK_S = 0.005, 0.25


class JobFailed(AnewError):
    """The job whose result was asked for has ended without one.

    Attributes:
        job: As it ended.
    """

    code = "job_failed"

    def __init__(self, job: JobInfo) -> None:
        last = job.errors[-1] if job.errors else None
        why = "" if last is None else f": {last.error_type or last.outcome}: {last.message}"
        super().__init__(f"job {job.id} ({job.task}) is {job.state}{why}")
        self.job = job


class JobHandle(Generic[T]):
    """A job that was enqueued, or found by its id.

    Attributes:
        id: Its public id.
        created: False: enqueueing it found a job of the same key, and this is that job.
        folded: True: the call was folded into this job, which waited (``debounce``, ``merge``).
    """

    __slots__ = ("_app", "_task", "created", "folded", "id")

    def __init__(
        self,
        app: Anew,
        job_id: str,
        task: Task[Any, Any, T] | None,
        *,
        created: bool = True,
        folded: bool = False,
    ) -> None:
        self._app = app
        self._task = task
        self.id = job_id
        self.created = created
        self.folded = folded

    def __repr__(self) -> str:
        return f"<job {self.id}{'' if self._task is None else f' of {self._task.name}'}>"

    def info(self) -> JobInfo | None:
        """Read the job; None once it is removed, as a job is that has succeeded and is not kept."""
        return self._app.backend.find(self.id)

    def status(self) -> str | None:
        """Give the job's state; None once it is removed."""
        info = self.info()
        return None if info is None else str(info.state)

    def result(self) -> T:
        """Give what the job has returned.

        Raises:
            NotFound: It has not ended, or its result is not kept: see ``keep_result``.
            JobFailed: It has ended without a result.
        """
        info = self.info()
        if info is None:
            raise NotFound(f"job {self.id} is removed; its task needs keep_result to keep what it returns")
        if info.state not in ENDED:
            raise NotFound(f"job {self.id} is {info.state}: there is no result yet")
        return self._result_of(info)

    def wait(self, timeout: Wait | None = None) -> T:
        """Wait until the job has ended, and give what it has returned; None if that is not kept.

        Args:
            timeout: How long at most; None: as long as it takes, which may be weeks of retries.

        Raises:
            TimeoutError: It has not ended by then.
            JobFailed: It has ended as dead or cancelled.
        """
        until = None if timeout is None else time.monotonic() + wait_ms(timeout, "timeout") / 1_000
        pause = FIRST_LOOK_S
        while True:
            info = self.info()
            if info is None:
                return None  # type: ignore[return-value]
            if info.state in ENDED:
                return self._result_of(info)
            left = pause if until is None else until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {self.id} is {info.state} after {timeout}{self._app.stands_still}")
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_LOOK_S)

    def cancel(self) -> None:
        """Call the job off. If it runs, its worker soon stops the run, as far as that can be; see `Context.cancelled`.

        Raises:
            NotFound: There is no such job.
            IllegalTransition: It has ended.
        """
        self._app.backend.cancel(self.id)

    def redrive(self) -> None:
        """Have the job run again, which is dead or cancelled.

        Raises:
            NotFound: There is no such job.
            IllegalTransition: It is neither.
        """
        self._app.backend.redrive(self.id)

    def delete(self) -> None:
        """Remove the job, whatever its state.

        Raises:
            NotFound: There is no such job.
        """
        self._app.backend.delete(self.id)

    def _result_of(self, info: JobInfo) -> T:
        if info.state is not State.COMPLETED:
            raise JobFailed(info)
        if info.result is None:
            return None  # type: ignore[return-value]
        kind = Any if self._task is None else self._task.result_kind()
        result: T = read_result(info.result, kind)
        return result
