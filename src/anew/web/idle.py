"""Parameters of a preset that do nothing: those of its own jitter, once another one has been put in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from anew.backoff import Policy
from anew.backoff.kinds import Choice, Duration, Flag, Integer, Kind, Number
from anew.errors import InvalidInput

_FURTHER: Final = 7_000
"""Milliseconds: enough to show where waits are cut to whole seconds."""


def idle(
    form: Mapping[str, Any], policy: Policy, kinds: Mapping[str, Kind], values: Mapping[str, Any]
) -> set[str]:
    """Find the parameters that could be anything: the policy would be the same.

    Args:
        form: The preset's short JSON.
        policy: What it comes to.
        kinds: What each parameter may be.
        values: What each of them is, in its inner form.

    Returns:
        Their names. None where the preset has the jitter that it came with, as its parameters are there for something.
    """
    if "jitter" not in form:
        return set()
    return {name for name, kind in kinds.items() if _does_nothing(name, kind, values[name], form, policy)}


def _does_nothing(name: str, kind: Kind, value: Any, form: Mapping[str, Any], policy: Policy) -> bool:
    tried = 0
    for other in _others(kind, value):
        try:
            made = Policy.from_json({**form, name: kind.write(other)})
        except InvalidInput:
            continue
        if made != policy:
            return False
        tried += 1
    return tried > 0


def _others(kind: Kind, value: Any) -> Iterator[Any]:
    """Give a few other values, on both sides; none for a kind whose values are not known here."""
    if isinstance(kind, Duration):
        yield from ((value or 0) + _FURTHER, (value or 0) // 2)
    elif isinstance(kind, Integer):
        yield from ((value or 0) + 1, (value or 2) - 1)
    elif isinstance(kind, Number):
        yield from ((value or 0) * 1.5 + 0.125, (value or 1) / 2)
    elif isinstance(kind, Flag):
        yield not value
    elif isinstance(kind, Choice):
        yield from (word for word in kind.words if word != value)
