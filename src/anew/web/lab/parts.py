"""A policy taken apart into controls, piece by piece, and put together again from what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from anew.backoff import Policy
from anew.backoff.curves import CURVES
from anew.backoff.fields import One, Piece, Tagged, fields_of
from anew.backoff.kinds import Choice, Duration, Kind, ListOf
from anew.backoff.policy import JITTERS
from anew.web.lab.controls import Control, control

CURVE_STARTS: Final[dict[str, Any]] = {
    "constant": "5m",
    "linear": {"base": "15s", "step": "15s"},
    "power": {"base": "15s", "exponent": 4},
    "exponential": {"base": "15s"},
    "between": {"low": "5s", "high": "10m", "retries": 10},
    "table": ["10s", "1m", "10m"],
    "fibonacci": "10s",
    "sum": [{"constant": "3m"}, {"exponential": {"base": "2m"}}],
    "scale": {"by": 2, "curve": {"fibonacci": "10s"}},
    "stretch": {"by": 2, "curve": {"fibonacci": "10s"}},
}
"""What a curve begins with when it is chosen from a list."""

JITTER_STARTS: Final[dict[str, Any]] = {
    "none": {},
    "full": {},
    "equal": {},
    "above": 0.25,
    "below": 0.25,
    "around": 0.25,
    "add": "30s",
    "grow": "30s",
    "up_to": {"exponential": {"base": "1m", "factor": 4}},
    "window": {"low": {"times": 0.5}, "high": {"times": 1.5}},
    "decorrelated": 3,
    "slices": {},
    "even": {},
}
"""The same for a jitter."""

SELDOM: Final = frozenset(
    {
        "floor", "ceil", "deadline", "on_deadline", "on_exhausted", "override", "origin", "scale", "slope", "knee",
        "faces", "step", "source", "dither", "detune", "base", "cut", "redraw", "since",
    }
)  # fmt: skip
"""Fields of pieces that few policies need; `base` only where it is no duration."""


@dataclass(slots=True)
class Taken:
    """A policy in parts.

    Attributes:
        given: The query's texts by whole name; they win over the policy.
        controls: One for each value.
        tree: The policy's full JSON with what the controls hold.
        changed: A curve or a jitter of another kind was chosen, so there are other controls than before.
    """

    given: Mapping[str, str]
    controls: list[Control] = field(default_factory=list)
    tree: dict[str, Any] = field(default_factory=dict)
    changed: bool = False

    def piece(self, piece: Piece, path: str) -> dict[str, Any]:
        """Make controls for all fields of a piece, and give its JSON."""
        return {
            name: self._value(kind, getattr(piece, attribute), f"{path}.{name}")
            for name, (attribute, kind) in fields_of(type(piece)).items()
            # A policy has either a curve or phases.
            if attribute not in ("curve", "phases") or getattr(piece, attribute)
        }

    def _value(self, kind: Kind, value: Any, path: str) -> Any:
        if isinstance(kind, Tagged):
            return self._tagged(kind, value, path)
        if isinstance(kind, One):
            return self.piece(value, path)
        if isinstance(kind, ListOf) and isinstance(kind.kind, (Tagged, One)):
            return [self._value(kind.kind, inner, f"{path}.{n}") for n, inner in enumerate(value, start=1)]
        leaf, empty = path.rpartition(".")[2], "none" if getattr(kind, "optional", False) else ""
        seldom = leaf in SELDOM and not (leaf == "base" and isinstance(kind, Duration))
        return kind.write(self._add(kind, path, value, placeholder=empty, more=seldom))

    def _tagged(self, kind: Tagged, value: Any, path: str) -> Any:
        pieces, starts = (CURVES, CURVE_STARTS) if kind.noun == "a curve" else (JITTERS, JITTER_STARTS)
        chosen = self._add(Choice(*pieces), path, value.name)
        if chosen != value.name:
            value = kind.read({chosen: starts[chosen]}, path)
            self.changed = True
        made = self.controls[-1]
        made.text = chosen
        made.options = tuple((name, name.replace("_", " ")) for name in pieces)
        return {chosen: self.piece(value, path)}

    def _add(self, kind: Kind, path: str, value: Any, **rest: Any) -> Any:
        """Add a control, named after all but the policy's letter, and give what it holds."""
        label = " ".join(path.split(".")[1:]).replace("_", " ")
        made, found = control(kind, path, self.given.get(path), value, label=label, **rest)
        self.controls.append(made)
        return found


def take_apart(policy: Policy, prefix: str, given: Mapping[str, str]) -> Taken:
    """Make controls for everything that a policy says; their names in the query begin with the prefix, such as ``a``."""
    taken = Taken(given)
    taken.tree = taken.piece(policy, prefix)
    return taken
