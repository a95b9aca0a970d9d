"""Chance that is none: one number whatever is asked, and one for life."""

from __future__ import annotations

from anew.backoff import Draws


class SameNumber(Draws, frozen=True):
    """Chance that gives one number at every draw, and one for life."""

    fresh: float = 0.5

    @classmethod
    def of(cls, fresh: float, lifelong: float) -> SameNumber:
        """Build it: the number that each draw gives, and the one for life."""
        return cls(rng=lambda: fresh, phase=lifelong, fresh=fresh)

    def hashed(self, retry: int) -> float:
        """Give the number of this retry."""
        return self.fresh
