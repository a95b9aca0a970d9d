"""Jitter: how one job's wait departs from the nominal one, and what to say about its reach beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from msgspec import Struct

from anew.backoff.chance import Draws
from anew.backoff.fields import Piece

Nominal = Callable[[int], float]
"""The nominal wait before a retry (counted through all phases), capped, finite, in milliseconds."""


class Drawn(Struct, frozen=True, gc=False):
    """A wait before it is clamped and cut to whole milliseconds."""

    wait: float
    draw: float | None
    carry: float | None = None


class Reach(NamedTuple):
    """How far a wait can go: its own bounds, and what it adds to the two ends of the whole window."""

    earliest: float
    latest: float
    step_earliest: float
    step_latest: float


class Jitter(Protocol):
    """How one job's wait departs from the nominal wait."""

    def draw(
        self, retry: int, k: int, nominal: float, curve: Nominal, draws: Draws, carry: float | None
    ) -> Drawn:
        """Draw the wait before a retry.

        Args:
            retry: The retry's number, 1 = first.
            k: The same, counted inside its phase.
            nominal: The nominal wait of this retry.
            curve: The nominal waits of all retries.
            draws: What chance may be used.
            carry: What the draw before this one asked to be kept; None if there is none.
        """

    def reach(self, retry: int, k: int, nominal: float, curve: Nominal, before: float) -> Reach:
        """Give the bounds of the wait; ``before`` is the latest wait of the retry before, 0 for the first."""

    def tuned_cap(self, cap_ms: int) -> int:
        """Give the cap that nominal waits are held to when the policy's cap is this."""


class JitterPiece(Piece):
    """Base of the jitters that leave the cap alone."""

    __slots__ = ()

    def tuned_cap(self, cap_ms: int) -> int:
        """Leave the cap as it is."""
        return cap_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class NoJitter(JitterPiece):
    """Every wait is exactly nominal, and no number is drawn."""

    name: ClassVar[str] = "none"

    def draw(
        self, retry: int, k: int, nominal: float, curve: Nominal, draws: Draws, carry: float | None
    ) -> Drawn:
        """Give the nominal wait."""
        return Drawn(nominal, None)

    def reach(self, retry: int, k: int, nominal: float, curve: Nominal, before: float) -> Reach:
        """Give the nominal wait four times."""
        return Reach(nominal, nominal, nominal, nominal)
