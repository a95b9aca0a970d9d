"""Which jobs are meant, and which part of a list of them is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anew.jobs.state import State

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs are meant; members are ANDed, values inside one are ORed, None means any.

    Attributes:
        jids: Jobs under these ids of their producers.
        error_types: Jobs whose latest record has one of these.
        visible_at: Hide ended jobs whose retention is over at this instant; None hides nothing.
    """

    states: frozenset[State] | None = None
    queues: frozenset[str] | None = None
    types: frozenset[str] | None = None
    keys: frozenset[int] | None = None
    jids: frozenset[str] | None = None
    error_types: frozenset[str] | None = None
    priority: Range | None = None
    ready_at: Range | None = None
    attempts: Range | None = None
    visible_at: int | None = None

    def only_counts(self) -> bool:
        """Report whether the counters by queue and state can answer a count."""
        parts = (
            self.types,
            self.keys,
            self.jids,
            self.error_types,
            self.priority,
            self.ready_at,
            self.attempts,
        )
        return all(part is None for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a list is wanted.

    Attributes:
        after: Start behind this key (in the direction of `order`); None starts at the end that the order names.
        inclusive: Whether the key itself belongs to the page.
        limit: The most keys to give.
    """

    order: Literal["asc", "desc"] = "asc"
    after: int | None = None
    inclusive: bool = False
    limit: int = 50
