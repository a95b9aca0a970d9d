"""The options that describe a scenario: who fails, for how long, and what the thing that is called can bear."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from anew.units import parse_duration_with_unit

_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "jobs": {"type": int, "metavar": "N", "help": "Jobs that fail. [1000]"},
    "seed": {"type": int, "metavar": "N", "help": "All chance follows from it. [1]"},
    "over": {"metavar": "TIME", "help": "First failures are spread over this. [together]"},
    "outage": {"metavar": "TIME", "help": "Until then every call is refused. [none]"},
    "success": {"type": float, "metavar": "P", "help": "Probability that a later call succeeds. [1]"},
    "capacity": {"type": float, "metavar": "X", "help": "Calls a second that can be done. [any]"},
    "latency": {"metavar": "TIME", "help": "What each call takes besides. [0]"},
    "timeout": {"metavar": "TIME", "help": "Callers give up after this. [never]"},
    "workers": {"type": int, "metavar": "N", "help": "Calls at once at most. [any]"},
    "base_rate": {"type": float, "metavar": "X", "help": "Fresh calls a second beside the herd. [0]"},
    "phase": {"type": click.Choice(["seq", "hash"]), "help": "Where jobs' numbers for life come from. [seq]"},
    "horizon": {
        "metavar": "TIME",
        "help": "Calls that would start later are not made. "
        "[none; with --base-rate 10 min and twice --over and --outage]",
    },
}
"""Field of the scenario -> what click makes of its option; the defaults are the scenario's own."""


def scenario_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a scenario; it receives them as one `Scenario`, named ``scenario``."""

    @functools.wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        # Inside: the lab is not small, and --help does not need it.
        from anew.lab.simulation.scenario import Scenario

        given = {name: value for name in _OPTIONS if (value := options.pop(name)) is not None}
        for name, value in given.items():
            if _OPTIONS[name].get("metavar") == "TIME":
                parse_duration_with_unit(value, f"--{name}")
        return function(*args, scenario=Scenario.from_json(given), **options)

    for name, settings in reversed(_OPTIONS.items()):
        command = click.option(f"--{name.replace('_', '-')}", **settings)(command)
    return command
