"""What a preset is, and how one is declared, found and misspelt."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

from anew.backoff.kinds import (
    MAX_WAITS,
    Duration,
    Flag,
    Integer,
    Kind,
    ListOf,
    Number,
    closest,
    invalid_policy,
)

Form = dict[str, Any]
"""A policy's JSON form."""

Build = TypeVar("Build", bound=Callable[..., Form])

WAIT: Final = Duration()
COUNT: Final = Integer(1, 1_000_000)
SOME: Final = Integer(0, 1_000_000)
FACTOR: Final = Number(0, 1e6, above=True)
SHARE: Final = Number(0, 1)
FLAG: Final = Flag()
WAITS: Final = ListOf(Duration(), 1, MAX_WAITS)


_SHORT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One named policy.

    Args:
        name: What people write.
        aliases: Other names of the same law, among them those that people search for.
        family: Where it comes from: ``seeds``, ``clouds``, ``queues`` ...
        summary: One line for lists.
        parameters: What may be given, and its kind.
        defaults: What each parameter is if it is not given, in its JSON form; None: it depends on the others.
        build: From parameters to the policy's JSON form.
        source: Where the law is published, or whose code was read.
        origin: What the system's own counter is at the first retry. Ours is k = 1 everywhere.
        counts: What the system's own limit counts, retries or runs, and its default.
        traps: What surprises people about it, a sentence each.
        names: What the system itself calls things -> the parameter or the field that it is here, where need be with a
            colon and how to convert: ``{"attempts": "limit: attempts - 1"}``.
    """

    name: str
    aliases: tuple[str, ...]
    family: str
    summary: str
    parameters: Mapping[str, Kind]
    defaults: Mapping[str, Any]
    build: Callable[..., Form]
    source: str
    origin: str
    counts: str
    traps: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)


PRESETS: Final[dict[str, Preset]] = {}
"""Every preset by its name."""

ALIASES: Final[dict[str, str]] = {}
"""Every alias -> the preset's name."""


class Family:
    """Declares the presets of one family; used as a decorator.

    Args:
        name: The family's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(
        self,
        name: str,
        *aliases: str,
        source: str,
        origin: str,
        counts: str,
        traps: tuple[str, ...] = (),
        takes: Mapping[str, Kind] = MappingProxyType({}),
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> Callable[[Build], Build]:
        """Declare the decorated builder's preset: its docstring's first line is the summary.

        Args:
            name: The preset's name.
            aliases: Its other names.
            source: See `Preset`.
            origin: See `Preset`.
            counts: See `Preset`.
            traps: See `Preset`.
            takes: The builder's parameters and their kinds.
            names: See `Preset`.
        """

        def register(build: Build) -> Build:
            preset = Preset(
                name=name,
                aliases=aliases,
                family=self.name,
                summary=(build.__doc__ or "").strip().splitlines()[0],
                parameters=takes,
                defaults=_defaults(build, takes),
                build=build,
                source=source,
                origin=origin,
                counts=counts,
                traps=traps,
                names=MappingProxyType(dict(names)),
            )
            for known in (name, *aliases):
                assert known not in PRESETS, known
                assert known not in ALIASES, known
            PRESETS[name] = preset
            ALIASES.update(dict.fromkeys(aliases, name))
            return build

        return register


def _defaults(build: Callable[..., Form], parameters: Mapping[str, Kind]) -> dict[str, Any]:
    signature = inspect.signature(build).parameters
    given = {name: signature[name].default for name in parameters}
    return {name: None if value is None else parameters[name].write(value) for name, value in given.items()}


def find_preset(given: object) -> Preset:
    """Give the preset of a name or an alias.

    Args:
        given: The name.

    Raises:
        InvalidPolicy: There is none; the message says which name may have been meant.
    """
    if isinstance(given, str):
        found = PRESETS.get(ALIASES.get(given, given))
        if found is not None:
            return found
    raise invalid_policy("preset", given, _expected(given))


def _expected(given: object) -> str:
    expected = "the name of a preset (anew policy list shows them all)"
    # Systems with short names that share two letters of three, SQS and SNS, are two systems.
    short = isinstance(given, str) and len(given) <= _SHORT
    close = closest(given, [*PRESETS, *ALIASES], 0.75 if short else 0.6)
    if close is None:
        return expected
    also = f", another name of {ALIASES[close]}" if close in ALIASES else ""
    return f'{expected}; did you mean "{close}"{also}?'
