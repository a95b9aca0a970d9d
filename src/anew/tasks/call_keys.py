"""Keys of calls, as users write them: a text with arguments in braces, such as ``"customer {id}"``, or a function of them."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from anew.units import refused

if TYPE_CHECKING:
    from anew.tasks.task import Task

CallKey = str | Callable[..., str]


def check_key(name: str, key: CallKey | None, task: Task[Any, Any, Any]) -> None:
    """Refuse a text that names what is no argument of a task, before a job is made.

    Args:
        name: The option that it is given with.
        key: None: there is no key, which fits.
        task: Whose calls it is for.

    Raises:
        InvalidInput: It does.
    """
    if not isinstance(key, str):
        return
    known = inspect.signature(task.function).parameters
    has = f"it has {', '.join(known)}" if known else "it has none"
    try:
        wrong = [field for field in _fields(key) if field not in known]
    except ValueError as error:
        raise refused(name, key, f"a text that names arguments of {task.name} in braces ({error})") from None
    if wrong:
        raise refused(name, key, f"a text that names arguments of {task.name} in braces; {has}")


def _fields(key: str) -> Iterator[str]:
    """Give the names in braces, those in formats of others too: ``a`` and ``b`` of ``{a.x:{b}}``."""
    for _, name, form, _ in string.Formatter().parse(key):
        if name is not None:
            yield name.partition(".")[0].partition("[")[0]
            yield from _fields(form or "")


def key_text(name: str, key: CallKey, task: Task[Any, Any, Any], payload: bytes) -> str:
    """Give the text of a key for a call; `name`: the option that it is given with."""
    args, kwargs = task.arguments.read(payload)
    if callable(key):
        return key(*args, **kwargs)
    bound = inspect.signature(task.function).bind(*args, **kwargs)
    bound.apply_defaults()
    try:
        return string.Formatter().vformat(key, (), bound.arguments)
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        raise refused(name, key, f"a text that names arguments of {task.name} in braces ({error})") from None
