"""Anew: a durable job queue whose heart is a complete retry engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from anew.backoff import Policy
    from anew.tasks.app import Anew
    from anew.tasks.around import Enqueuing, Running
    from anew.tasks.context import ctx
    from anew.tasks.debouncing import Debounce, Merge
    from anew.tasks.downstream import Downstream
    from anew.tasks.events import Event
    from anew.tasks.handle import JobFailed, JobHandle
    from anew.tasks.signals import Cancel, Discard, Retry, Snooze
    from anew.tasks.task import Limit, Task, Unique
    from anew.tasks.topics import Message, Published, Subscription, Topic
    from anew.tasks.worker import Worker

__all__ = [
    "Anew",
    "Cancel",
    "Debounce",
    "Discard",
    "Downstream",
    "Enqueuing",
    "Event",
    "JobFailed",
    "JobHandle",
    "Limit",
    "Merge",
    "Message",
    "Policy",
    "Published",
    "Retry",
    "Running",
    "Snooze",
    "Subscription",
    "Task",
    "Topic",
    "Unique",
    "Worker",
    "__version__",
    "ctx",
]

_HOMES = {
    "Anew": "anew.tasks.app",
    "Cancel": "anew.tasks.signals",
    "Debounce": "anew.tasks.debouncing",
    "Discard": "anew.tasks.signals",
    "Downstream": "anew.tasks.downstream",
    "Enqueuing": "anew.tasks.around",
    "Event": "anew.tasks.events",
    "JobFailed": "anew.tasks.handle",
    "JobHandle": "anew.tasks.handle",
    "Limit": "anew.tasks.task",
    "Merge": "anew.tasks.debouncing",
    "Message": "anew.tasks.topics",
    "Policy": "anew.backoff",
    "Published": "anew.tasks.topics",
    "Retry": "anew.tasks.signals",
    "Running": "anew.tasks.around",
    "Snooze": "anew.tasks.signals",
    "Subscription": "anew.tasks.topics",
    "Task": "anew.tasks.task",
    "Topic": "anew.tasks.topics",
    "Unique": "anew.tasks.task",
    "Worker": "anew.tasks.worker",
    "ctx": "anew.tasks.context",
}
"""Where each public name is at home: imported when it is asked for, since the server and the commands need none of them."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
