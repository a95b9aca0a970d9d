"""What a running handler can ask about its own job: `ctx`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from anew.errors import Conflict
from anew.tasks.times import Wait, wait_ms
from anew.units import refused

if TYPE_CHECKING:
    from anew.tasks.backend import BatchCounts


class Context:
    """One run of one job.

    Attributes:
        job_id: The job's public id.
        task: The task's name.
        queue: The queue it came from.
        attempt: 1 for the first run. Snoozes and interruptions do not raise it.
        max_attempts: Runs that the policy allows; None: no limit, or one that the policy itself has.
    """

    __slots__ = (
        "_batch",
        "_now",
        "_progress",
        "_sleep",
        "attempt",
        "job_id",
        "max_attempts",
        "queue",
        "task",
    )

    def __init__(
        self,
        *,
        job_id: str,
        task: str,
        queue: str,
        attempt: int,
        max_attempts: int | None,
        now: Callable[[], int],
        progress: Callable[[int | None, str | None], None],
        batch: Callable[[], BatchCounts | None] = lambda: None,
        sleep: Callable[[float], bool] = lambda seconds: False,
    ) -> None:
        self.job_id = job_id
        self.task = task
        self.queue = queue
        self.attempt = attempt
        self.max_attempts = max_attempts
        self._now = now
        self._progress = progress
        self._batch = batch
        self._sleep = sleep

    @property
    def batch(self) -> BatchCounts | None:
        """How far the batch has come whose callback or member it is, as the store has it now; None: it belongs to none."""
        return self._batch()

    @property
    def errors(self) -> int:
        """Failures reported so far."""
        return self.attempt - 1

    # Django's callbacks ask for these names.
    @property
    def attempts(self) -> int:
        """Runs until now, this one included."""
        return self.attempt

    @property
    def is_last(self) -> bool:
        """Whether a failure of this run would be the last one."""
        return self.max_attempts is not None and self.attempt >= self.max_attempts

    @property
    def cancelled(self) -> bool:
        """Whether somebody has cancelled or deleted the job, or the run has lost it: what its handler comes to counts for nothing.

        An `async def` is cancelled then, and a process killed; a plain function has to look.
        """
        return self._sleep(0.0)

    def sleep(self, wait: Wait) -> bool:
        """Wait in a plain function, but no longer than until the run is `cancelled`; report whether it goes on.

        Args:
            wait: How long: text such as ``"10s"``, a timedelta, or seconds.
        """
        return not self._sleep(wait_ms(wait, "sleep") / 1_000)

    def now(self) -> int:
        """Give the time, milliseconds since the Unix epoch: a test's clock in a test."""
        return self._now()

    def progress(self, percent: int | None = None, text: str | None = None) -> None:
        """Say how far the job has come; `None` keeps what was said.

        Args:
            percent: 0 to 100.
            text: A line for people.

        Raises:
            InvalidInput: The percentage is no whole number, or the text is none.
        """
        if percent is not None and not isinstance(percent, int):
            raise refused("percent", percent, "a whole number from 0 to 100, or None")
        if text is not None and not isinstance(text, str):
            raise refused("text", text, "a text, or None")
        self._progress(percent, text)


current: ContextVar[Context] = ContextVar("anew.job")


class _Current:
    """Stands for the context of the job that runs here."""

    def __getattr__(self, name: str) -> Any:
        try:
            context = current.get()
        except LookupError:
            raise Conflict(
                f"ctx.{name}: no job runs here; a task that is called directly has no job"
            ) from None
        return getattr(context, name)


ctx: Context = _Current()  # type: ignore[assignment]
"""The running job's context, in whichever thread or task asks."""
