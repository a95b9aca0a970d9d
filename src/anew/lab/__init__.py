"""See a retry policy before you trust it: explain, simulate, measure, compare, fit, lint, draw, replay.

Everything here is about policies and never about a running server; chance comes from a seed, so that the same
question gets the same answer.
"""

from typing import TYPE_CHECKING, Any

from anew.lab.compare import Comparison, compare
from anew.lab.explain import Explanation, Forecast, explain
from anew.lab.fit import Fit, fit
from anew.lab.lint import RULES, Finding, lint
from anew.lab.simulation.outcome import Outcome
from anew.lab.simulation.scenario import Scenario
from anew.lab.simulation.simulate import simulate

if TYPE_CHECKING:
    from anew.lab.herd import instants

__all__ = [
    "RULES",
    "Comparison",
    "Explanation",
    "Finding",
    "Fit",
    "Forecast",
    "Outcome",
    "Scenario",
    "compare",
    "explain",
    "fit",
    "instants",
    "lint",
    "simulate",
]


def __getattr__(name: str) -> Any:
    # Not imported above, because it needs NumPy, which is optional.
    if name == "instants":
        from anew.lab.herd import instants

        return instants
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
