"""The options that describe a scenario: who fails, for how long, and what the thing that is called can bear."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from anew.units import parse_duration_with_unit

if TYPE_CHECKING:
    from anew.lab.simulation.scenario import Scenario

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("jobs", {"type": int, "metavar": "N", "help": "Jobs that fail. [1000]"}),
    ("seed", {"type": int, "metavar": "N", "help": "All chance follows from it. [1]"}),
    ("over", {"metavar": "TIME", "help": "First failures are spread over this. [together]"}),
    ("outage", {"metavar": "TIME", "help": "Until then every call is refused. [none]"}),
    ("success", {"type": float, "metavar": "P", "help": "Probability that a later call succeeds. [1]"}),
    ("capacity", {"type": float, "metavar": "X", "help": "Calls a second that can be done. [any]"}),
    ("latency", {"metavar": "TIME", "help": "What each call takes besides. [0]"}),
    ("timeout", {"metavar": "TIME", "help": "Callers give up after this. [never]"}),
    ("workers", {"type": int, "metavar": "N", "help": "Calls at once at most. [any]"}),
    ("base-rate", {"type": float, "metavar": "X", "help": "Fresh calls a second beside the herd. [0]"}),
    (
        "phase",
        {"type": click.Choice(["seq", "hash"]), "help": "Where jobs' numbers for life come from. [seq]"},
    ),
    (
        "horizon",
        {
            "metavar": "TIME",
            "help": "Calls that would start later are not made. "
            "[none; with --base-rate 10 min and twice --over and --outage]",
        },
    ),
)
"""Name without dashes -> what click makes of it; the defaults are the scenario's own."""


def scenario_options(function: F) -> F:
    """Give a command the options of a scenario; it receives them as one `Scenario`, named ``scenario``."""

    @functools.wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        names = [name.replace("-", "_") for name, _ in _OPTIONS]
        given = {name: options.pop(name) for name in names}
        return function(*args, scenario=_scenario(given), **options)

    decorated: Any = command
    for name, settings in reversed(_OPTIONS):
        decorated = click.option(f"--{name}", **settings)(decorated)
    return decorated  # type: ignore[no-any-return]


def _scenario(given: dict[str, Any]) -> Scenario:
    # Inside: the lab is not small, and --help does not need it.
    from anew.lab.simulation.scenario import Scenario

    for name, settings in _OPTIONS:
        if settings.get("metavar") == "TIME" and given[name] is not None:
            parse_duration_with_unit(given[name], f"--{name}")
    return Scenario.from_json({name: value for name, value in given.items() if value is not None})
