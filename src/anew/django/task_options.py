"""What Anew adds to a task of Django's: when it runs again, how long it may run, how long its result is kept."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from anew.errors import InvalidInput
from anew.tasks.task import Options, read_options

F = TypeVar("F", bound=Callable[..., Any])

NAMES: Final = (
    "policy", "max_attempts", "timeout", "expires", "keep_result", "process", "downstream", "unique"
)  # fmt: skip

_ATTRIBUTE: Final = "__anew_options__"


def options(**given: Any) -> Callable[[F], F]:
    """Say for a task of Django's what `Anew.task` takes: a decorator below ``@task``.

    Args:
        given: ``policy``, ``max_attempts``, ``timeout``, ``expires``, ``keep_result``, ``process``, ``downstream``, ``unique``.

    Raises:
        InvalidInput: One is unknown, its value does not fit, or it stands above ``@task``.
    """
    check(given)

    def decorate(function: F) -> F:
        if not inspect.isroutine(function):
            raise InvalidInput(
                f"options: got what is of the type {type(function).__name__}; expected it below @task, next to the function",
                field="options",
            )
        setattr(function, _ATTRIBUTE, given)
        return function

    return decorate


def check(given: Mapping[str, Any]) -> None:
    """Refuse options that are unknown, or whose values do not fit.

    Raises:
        InvalidInput: See above.
    """
    for name in given:
        if name not in NAMES:
            raise InvalidInput(f"{name}: is no option; expected one of {', '.join(NAMES)}", field=name)
    read_options(Options(), **given)


def options_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Give what `options` has been told of a function."""
    found: Mapping[str, Any] = getattr(function, _ATTRIBUTE, {})
    return found
