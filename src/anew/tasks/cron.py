"""Tasks that are enqueued at times of their own; see `Anew.cron`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anew.errors import InvalidInput
from anew.jobs.cron import parse_cron
from anew.tasks.task import Task
from anew.zones import offsets

if TYPE_CHECKING:
    from anew.engine.crontab import NewCron


@dataclass(frozen=True, slots=True)
class CronTask:
    """A task and when it is enqueued.

    Attributes:
        expression, timezone: See `Anew.cron`.
        catch_up: Make up for the latest time that was missed.
        args, kwargs: What it is called with.

    Raises:
        InvalidInput: The expression or the time zone is none, or the task cannot be called with these arguments.
    """

    task: Task[Any, Any, Any]
    expression: str
    timezone: str | None
    catch_up: bool
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    def __post_init__(self) -> None:
        parse_cron(self.expression)
        offsets(self.timezone)
        signature = inspect.signature(self.task.function)
        try:
            # Their types are looked at later: they may be named before they exist.
            signature.bind(*self.args, **self.kwargs)
        except TypeError as error:
            raise InvalidInput(
                f"cron: {self.task.name}: {error}; expected args= and kwargs= for {self.task.name}{signature}",
                field="cron",
            ) from None

    def entry(self, name: str) -> NewCron:
        """Give the entry as the store keeps it.

        Raises:
            InvalidJob: An argument has not the type that the function names.
        """
        from anew.engine.crontab import NewCron

        return NewCron(
            name=name,
            expression=self.expression,
            job=self.task.call(*self.args, **self.kwargs).job(now=0),  # its times count from each firing
            timezone=self.timezone,
            **{"patience_ms": None} if self.catch_up else {},
        )
