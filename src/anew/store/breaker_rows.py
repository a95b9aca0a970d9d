"""Circuit breakers, as a store keeps them; `anew.jobs.breaker` has the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from anew.jobs.breaker import BreakerRow


class BreakerRows(Protocol):
    """Circuit breakers of a store, read and written inside the open transaction."""

    def read(self, keys: Sequence[str] | None) -> list[BreakerRow]:
        """Read circuit breakers by key, or all of them, by key; those that have no row yet are left out."""

    def write(self, rows: Sequence[BreakerRow]) -> None:
        """Write circuit breakers, new ones and others."""
