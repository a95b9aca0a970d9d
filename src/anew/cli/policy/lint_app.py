"""The policies of an application's tasks, for ``anew policy lint module:app``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from anew.errors import InvalidInput

if TYPE_CHECKING:
    from anew.lab.lint.documents import Document, Entry, Problem
    from anew.tasks.app import Anew
    from anew.tasks.task import Task

_APP: Final = re.compile(r"(?:[^\W\d][\w.]*|[^:]*\.py):[^\W\d][\w.]*")


def is_app(text: str) -> bool:
    """Report whether an argument means an application, and no file."""
    return _APP.fullmatch(text) is not None and not os.path.exists(text)


def read_app(text: str) -> tuple[Document, list[Problem]]:
    """Import an application and read its tasks' policies.

    One of a rule by exception is named after both: ``tasks.send[TimeoutError]``. A limit of the task
    (``max_attempts``) holds, as it does for its jobs.

    Returns:
        The policies that can be looked at, or why the application cannot be imported; and what decides in a task's stead
        and cannot be looked at: functions.
    """
    from anew.lab.lint.documents import Document, Problem
    from anew.tasks.finding import find_app, read_place

    try:
        app = find_app(read_place(text))
    except InvalidInput as error:
        message = str(error).removeprefix(text).removeprefix(":").lstrip()
        return Document(problems=(Problem(file=text, message=message),)), []
    tasks = [app.tasks[name] for name in sorted(app.tasks)]
    unchecked = []
    for task in tasks:
        if task.options.retries.function is not None:
            file, line = _place(task)
            message = "is not checked: a function decides when its jobs run again"
            unchecked.append(Problem(file=file, line=line, policy=task.name, message=message))
    return Document(entries=tuple(entry for task in tasks for entry in _entries(app, task))), unchecked


def _entries(app: Anew, task: Task[Any, Any, Any]) -> Iterator[Entry]:
    from anew.lab.lint.documents import Entry
    from anew.tasks.opening import DEFAULTS
    from anew.tasks.task import policies_of

    # A server that an application is a client of has a default of its own, which nobody knows here.
    is_unknown = task.options.retries.policy is None and "://" in app.location
    file, line = _place(task)
    for kind, policy in policies_of(task.options, DEFAULTS.policy).items():
        if is_unknown and not kind:
            continue
        name = f"{task.name}[{kind}]" if kind else task.name
        yield Entry(file=file, name=name, value=policy.to_json() | {"limit": policy.limit}, line=line)


def _place(task: Task[Any, Any, Any]) -> tuple[str, int | None]:
    """Give file and line of a task's function, decorators included."""
    code = getattr(task.function, "__code__", None)
    if code is None:
        return task.name.rpartition(".")[0], None
    path = os.path.relpath(code.co_filename)
    return (code.co_filename if path.startswith("..") else path), code.co_firstlineno
