"""Pictures that people know, each made by one command and one link.

Sources: OpenStack Zaqar, "Support More Backoff Functions", and the Amazon SNS developer guide, "Message delivery retries";
Ananthakumaran, "Visualization of backoff functions".
"""

from __future__ import annotations

from typing import Any, Final

from anew.backoff import Policy
from anew.lab.charts.data import curve_band, dots, on_one_axis
from anew.lab.charts.link import link
from anew.lab.charts.pictures import Picture
from anew.lab.named import Named
from anew.lab.simulation.scenario import Scenario

_BETWEEN: Final[dict[str, Any]] = {"low": "5s", "high": "260s", "retries": 10}

_SHAPES: Final[dict[str, dict[str, Any]]] = {
    "linear": {"shape": "linear"},
    "arithmetic": {"shape": "arithmetic"},
    "geometric": {"shape": "geometric"},
    "exponential, base 2": {"shape": "exponential", "base": 2},
}

ZAQAR: Final[dict[str, dict[str, Any]]] = {
    label: {"curve": {"between": _BETWEEN | shape}, "limit": 10} for label, shape in _SHAPES.items()
}
"""The four functions that lead from one wait to another. Zaqar's exponential function is its geometric one under another name;
with base 2 it has one of its own."""

_FIVE_MINUTES: Final = {"constant": "5m"}
_EXPONENTIAL: Final = {"sum": [{"constant": "3m"}, {"exponential": {"base": "2m"}}]}
_CUBES: Final = tuple({"power": {"exponent": 3, "origin": origin}} for origin in (1, 3))

HERD: Final[dict[str, dict[str, Any]]] = {
    "constant": {"curve": _FIVE_MINUTES},
    "even on constant": {"curve": _FIVE_MINUTES, "jitter": "even"},
    "exponential": {"curve": _EXPONENTIAL},
    "even on exponential": {"curve": _EXPONENTIAL, "jitter": "even"},
    # n^4 + 15 + U(0,1) * 30 * (n + 1), n from 1.
    "sidekiq": {
        "curve": {"power": {"base": "15s", "exponent": 4, "origin": 1}},
        "jitter": {"window": {"low": {"times": 1}, "high": {"times": 1, "grow": "30s", "add": "30s"}}},
    },
    "even on sidekiq's mean": {
        "curve": {"power": {"base": "30s", "exponent": 4, "origin": 1, "slope": "15s"}},
        "jitter": "even",
    },
    # U(n^3, (n + 2)^3), n from 1.
    "buckets": {"curve": _CUBES[0], "jitter": {"up_to": _CUBES[1]}},
    "even on buckets' mean": {
        "curve": {"scale": {"by": 0.5, "curve": {"sum": [*_CUBES]}}},
        "jitter": "even",
    },
}
"""The four functions of "Visualization of backoff functions" as that text has them, each followed by `even` on the same
mean waits."""


def zaqar() -> Picture:
    """Give the four functions that lead from one wait to another."""
    lines = [Named(label, Policy.from_json(form)) for label, form in ZAQAR.items()]
    return Picture(
        title="Four functions from 5 s to 4 min 20 s in 10 retries",
        panels=(curve_band(lines, 10),),
        log=False,
        link=link([*ZAQAR.values()], chart="curve", scale="linear"),
        caption="Zaqar's exponential function is the geometric one under another name; with base 2 it has a curve of its own.",
    )


def herd(jobs: int = 100, retries: int = 5, seed: int = 1) -> Picture:
    """Give the dot charts of four functions, each with `even` on the same mean waits beside it."""
    scenario = Scenario(jobs=jobs, seed=seed, success=0)
    panels = [
        dots(Named(label, Policy.from_json(form | {"limit": retries})), scenario, retries)
        for label, form in HERD.items()
    ]
    pairs = [on_one_axis(panels[place : place + 2]) for place in range(0, len(panels), 2)]
    return Picture(
        title=f"{jobs:,} jobs fail together, and at each of {retries} retries",
        panels=tuple(panel for pair in pairs for panel in pair),
        columns=2,
        log=False,
        link=_herd_link(jobs, retries, seed),
        caption="A row for each job, a dot for each retry. Each function is followed by even on the same mean waits.",
    )


def _herd_link(jobs: int = 100, retries: int = 5, seed: int | None = None) -> str:
    """Give the page with the herds of Sidekiq: it has no room for all."""
    forms = [HERD[label] | {"limit": retries} for label in ("sidekiq", "even on sidekiq's mean")]
    return link(forms, chart="herd", jobs=jobs, seed=None if seed == 1 else seed, scale="linear")


LINKS: Final = {
    "zizq": (link(["zizq"], chart="curve"), "Zizq's waits, from the earliest to the latest"),
    "zaqar": (
        link([*ZAQAR.values()], chart="curve", scale="linear"),
        "the four functions between two waits, named by Zaqar and SNS",
    ),
    "herd": (_herd_link(), "100 jobs that fail together: Sidekiq's waits, and even on the same mean waits"),
}
"""Of each the state of the lab's page that shows it, and what is seen there."""
