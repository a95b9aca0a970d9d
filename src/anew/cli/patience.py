"""``--patience``: commands that calculate keep to a bound of processor time and memory, unless more is asked for."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import click

from anew.errors import TooLarge
from anew.patience import CPU_S, LESS, MEMORY_BYTES, patience
from anew.units import SECOND_MS, parse_duration_with_unit, refused

F = TypeVar("F", bound=Callable[..., Any])

FIELD: Final = "--patience"


def patience_option(
    *, large: bool = False, each: bool = False, usual: str = "2s", less: str = LESS
) -> Callable[[F], F]:
    """Give a command ``--patience``, and hold it to that; without one, to what the lab's page may take.

    Args:
        large: Whether the command takes a number of jobs. A herd larger than the page's is large on purpose: then
            nothing but the bounds on its calls holds.
        each: Whether the time is that of each policy. Such a command gets the option's value as ``patience``, and holds
            its parts itself: `within`.
        usual: The time where none is given, in words.
        less: What would take less time, for the error.
    """
    what = "for each policy" if each else "that this may take"
    memory = "256 MiB of memory" + ("; above 100,000 jobs any" if large else "")

    def decorated(function: F) -> F:
        option = click.option(
            FIELD, metavar="TIME", help=f"Processor time {what}, such as 30s. [{usual}, and {memory}]"
        )
        return option(function if each else _held(function, less))

    return decorated


def _held(function: F, less: str) -> F:
    @functools.wraps(function)
    def command(*args: Any, patience: str | None, **options: Any) -> Any:
        if options.get("out"):
            from anew.lab.charts.figures import load_matplotlib

            load_matplotlib()
        with within(patience, jobs=_jobs(options), less=less):
            return function(*args, **options)

    return command  # type: ignore[return-value]


@contextlib.contextmanager
def within(given: str | None, *, jobs: int = 0, usual_s: float = CPU_S, less: str = LESS) -> Iterator[None]:
    """Hold what runs inside to the time that was given, or to the usual bounds.

    Args:
        given: The option's value.
        jobs: The size of the herd.
        usual_s: Seconds of processor time where nothing was given.
        less: What would take less, for the error.

    Raises:
        TooLarge: It was not enough.
        InvalidInput: It is no duration above 0.
    """
    # Inside: the lab is not small, and --help does not need it.
    from anew.lab.chance import has_numpy
    from anew.lab.simulation.scenario import PAGE_JOBS

    if has_numpy():
        import numpy as np  # noqa: F401 - the stacks of its threads are no part of what is asked

    cpu_s: float | None = usual_s
    memory: int | None = MEMORY_BYTES
    if given is not None:
        # No more memory is promised than time is: whoever waits longer takes what there is.
        cpu_s, memory = patience_s(given), None
    elif jobs > PAGE_JOBS:
        cpu_s = memory = None
    try:
        with patience(cpu_s, memory, less=less):
            yield
    except TooLarge as error:
        if error.field not in ("time", "memory"):
            raise
        more = f"{FIELD} 30s" if given is None else f"more {FIELD}"
        if jobs and not has_numpy():
            more += ", or NumPy, with which herds are far quicker (pip install 'anew[lab]')"
        raise TooLarge(f"{error}, or {more}", field=FIELD, value=given) from None
    except MemoryError:
        message = f"this needs more memory than there is; expected {less}"
        raise TooLarge(message, field="memory") from None


def patience_s(given: str | None) -> float | None:
    """Read the option's value: seconds; None if it was not given.

    Raises:
        InvalidInput: It is no duration above 0.
    """
    if given is None:
        return None
    cpu_s = parse_duration_with_unit(given, FIELD) / SECOND_MS
    if not cpu_s:
        raise refused(FIELD, given, "longer than nothing, such as 30s")
    return cpu_s


def _jobs(options: dict[str, Any]) -> int:
    """Report how many jobs a command was given: of a scenario, or of an option of its own."""
    scenario = options.get("scenario")
    found = options.get("jobs") or options.get("count") if scenario is None else scenario.jobs
    return found or 0
