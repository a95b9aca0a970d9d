"""What people call a policy: in a table, in a picture, in a title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from anew.backoff import Policy

_LABEL: Final = 40
"""Characters of a name that tables and pictures have room for."""


class Named(NamedTuple):
    """A policy and what people call it."""

    label: str
    policy: Policy


def labels(forms: Sequence[Any], names: Sequence[str] = ()) -> list[str]:
    """Give each policy a short name of its own.

    Args:
        forms: Policies as people give them: the name of a preset, or an object of JSON.
        names: What they are called where they come from, in the same order; "" where they have no name.

    Returns:
        That name; else the preset's with what was given beside it; ``policy 2`` for the second where it has none. A
        number is added where two would be the same, and where not all that was given has room.
    """
    found: list[str] = []
    for number, form in enumerate(forms, 1):
        given = names[number - 1] if number <= len(names) else ""
        name = cut(given, _LABEL) or _label(form, number)
        found.append(name if name not in found else f"{name} ({number})")
    return found


def cut(text: str, width: int) -> str:
    """Give a text that is no longer than said; its tail gives way."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + ("…" if width else "")


def _label(form: Any, number: int) -> str:
    if isinstance(form, str):
        return form
    if not isinstance(form, Mapping) or not isinstance(form.get("preset"), str):
        return f"policy {number}"
    label: str = form["preset"]
    told = [_said(str(key), value) for key, value in form.items() if key != "preset"]
    for place, more in enumerate(told, 1):
        if len(label) + len(more) + 2 > (_LABEL if place == len(told) else _LABEL - len(f" ({number})")):
            return f"{label} ({number})"
        label += f", {more}"
    return label


def _said(key: str, value: Any) -> str:
    """Say one thing that was given beside a preset: ``limit 6``, ``no limit``, ``jitter add``."""
    if value is None or value is False:
        return f"no {key}"
    if isinstance(value, Mapping):
        # An object begins with what it is: {"add": {...}}.
        return " ".join([key, *(str(inner) for inner in value)][:2])
    return f"{key} {value}" if isinstance(value, str | float | int) and value is not True else key
