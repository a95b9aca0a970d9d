"""What a rule is, what it looks at besides the policy, and what it finds."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from anew.backoff import DEFAULT_LIMIT
from anew.errors import InvalidInput
from anew.lab.lint.facts import Facts
from anew.units import format_duration_short, refused

DEFAULT_JOBS: Final = 1_000
"""Jobs that fail together when one dependency goes down, where nobody says otherwise."""

DEFAULT_DEATHS: Final = 0.001
"""Share of the jobs that may die in an outage, where nobody says otherwise."""

MAX_JOBS: Final = 1_000_000_000
MAX_OUTAGES: Final = 100


class Severity(enum.StrEnum):
    """How bad a finding is, the worst first."""

    ERROR = "error"
    """The policy does not do what it says, or not what was asked of it."""
    WARNING = "warning"
    """It does what it says, and that is seldom what somebody wants."""
    INFO = "info"
    """Worth knowing; nothing to mend."""

    def at_least(self, other: Severity) -> bool:
        """Tell whether this is as bad as another one, or worse."""
        order = list(Severity)
        return order.index(self) <= order.index(other)


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy will meet."""

    jobs: int = DEFAULT_JOBS
    """How many jobs may fail together."""
    outages_ms: tuple[int, ...] = ()
    """Outages that jobs have to outlive."""
    deaths: float = DEFAULT_DEATHS
    """The share of the jobs that may die in such an outage all the same, from 0 to less than 1."""
    dead_retention_ms: int | None = None
    """How long a dead job is kept; None: not known, nothing is said about it."""
    payload_retention_ms: int | None = None
    """How long what a payload points at (an upload, a signed link, a token) can be had; None: for ever."""
    default_limit: int | None = DEFAULT_LIMIT
    """Retries of a policy that names no limit; None: no limit."""

    def __post_init__(self) -> None:
        if not 1 <= self.jobs <= MAX_JOBS:
            raise refused("jobs", self.jobs, f"a whole number from 1 to {MAX_JOBS}")
        if (number := len(self.outages_ms)) > MAX_OUTAGES:
            message = f"outages: {number} are too many; expected at most {MAX_OUTAGES}"
            raise InvalidInput(message, field="outages")
        if not 0 <= self.deaths < 1:
            raise refused("deaths", self.deaths, "a share from 0 to less than 1")

    def words(self) -> list[str]:
        """Give the options of ``anew policy lint`` that state this, without those at their defaults."""
        words = [] if self.jobs == DEFAULT_JOBS else ["--jobs", str(self.jobs)]
        for outage in self.outages_ms:
            words += ["--outage", format_duration_short(outage)]
        words += [] if self.deaths == DEFAULT_DEATHS else ["--deaths", f"{self.deaths:g}"]
        for option, ms in (
            ("--dead-retention", self.dead_retention_ms),
            ("--payload-retention", self.payload_retention_ms),
        ):
            words += [] if ms is None else [option, format_duration_short(ms)]
        return words


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule, whose name never changes, says about one policy: a sentence with the policy's own numbers."""

    policy: str
    rule: str
    severity: Severity
    message: str


Look = Callable[[Facts, Context], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing to look at."""

    name: str
    severity: Severity
    reason: str
    """Why anybody should care, one sentence."""
    look: Look
    """Gives a message for each thing found."""
    example: Any
    """JSON form of a policy in which it finds something, if `context` is stated."""
    context: Context


RULES: Final[dict[str, Rule]] = {}
"""Every rule by its name."""


def rule(name: str, severity: Severity, example: Any, **stated: Any) -> Callable[[Look], Look]:
    """Make a function a rule; its docstring is the reason, and ``stated`` are fields of the example's `Context`."""

    def register(look: Look) -> Look:
        reason = " ".join((look.__doc__ or "").split())
        context = Context(**stated)
        RULES[name] = Rule(name, severity, reason, look, example, context)
        return look

    return register


def listed(numbers: Sequence[int]) -> str:
    """Give ``1 to 3`` for neighbours and ``1, 3 and 5`` for others, in order; one number as it is."""
    if len(numbers) == 1:
        return str(numbers[0])
    if [*numbers] == [*range(numbers[0], numbers[-1] + 1)] and len(numbers) > 2:
        return f"{numbers[0]} to {numbers[-1]}"
    if len(numbers) > 6:
        return f"{', '.join(map(str, numbers[:5]))} and {len(numbers) - 5} more"
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
