"""Tasks that are enqueued at times of their own; see `Anew.cron`."""

from __future__ import annotations

import inspect
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
    """

    task: Task[Any, Any, Any]
    expression: str
    timezone: str | None
    catch_up: bool

    def check(self) -> None:
        """Refuse what can never be enqueued.

        Raises:
            InvalidInput: The expression or the time zone is none, or the task needs arguments.
        """
        parse_cron(self.expression)
        offsets(self.timezone)
        parameters = inspect.signature(self.task.function).parameters.values()
        needed = [
            one.name
            for one in parameters
            if one.default is inspect.Parameter.empty
            and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        ]
        if needed:
            raise InvalidInput(
                f"cron: {self.task.name} needs {', '.join(needed)}; expected a task that can be called without arguments",
                field="cron",
            )

    def entry(self, name: str) -> NewCron:
        """Give the entry as the store keeps it."""
        from anew.engine.crontab import NewCron

        return NewCron(
            name=name,
            expression=self.expression,
            job=self.task.call().job(),
            timezone=self.timezone,
            **{"patience_ms": None} if self.catch_up else {},
        )
