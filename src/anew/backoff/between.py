"""The curve between two ends: it starts exactly at the one and arrives exactly at the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from anew.backoff.fields import Piece, of
from anew.backoff.kinds import Choice, Duration, Integer, Number, invalid_policy
from anew.units import format_duration_short

_MAX_RETRIES: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Between(Piece):
    """From exactly ``low`` to exactly ``high`` in ``retries`` retries, then ``high`` for ever.

    Shapes: ``linear``; ``arithmetic``, whose differences grow evenly; ``geometric``, whose ratio is constant;
    ``exponential``, which is geometric unless it is given a ``base``, and then steeper. A single retry waits
    ``high``.

    Source:
        OpenStack Zaqar, "Support more backoff functions"; its linear function divides by ``retries`` and
        misses ``high``, ours by ``retries - 1``.
    """

    name: ClassVar[str] = "between"
    low_ms: int = field(metadata=of(Duration()))
    high_ms: int = field(metadata=of(Duration()))
    retries: int = field(metadata=of(Integer(1, _MAX_RETRIES)))
    shape: str = field(
        default="linear", metadata=of(Choice("linear", "arithmetic", "geometric", "exponential"))
    )
    base: float = field(default=1.0, metadata=of(Number(1, 1e6)))

    def check(self) -> None:
        """Refuse ends that are the wrong way round, and a ratio to nothing."""
        if self.low_ms > self.high_ms:
            high, low = format_duration_short(self.high_ms), format_duration_short(self.low_ms)
            raise invalid_policy("high", high, f"at least low, which is {low}")
        if self._is_geometric() and self.low_ms == 0 < self.high_ms:
            raise invalid_policy("low", 0, f"more than 0, because shape {self.shape} multiplies it")
        if self.base != 1 and self.shape != "exponential":
            raise invalid_policy("base", self.base, "no base unless shape is exponential")

    def _is_geometric(self) -> bool:
        return self.shape == "geometric" or (self.shape == "exponential" and self.base == 1)

    def at(self, k: int) -> float:
        """Give the wait before retry k."""
        if k >= self.retries or self.low_ms == self.high_ms:
            return float(self.high_ms)
        step, last = k - 1, self.retries - 1
        rise = self.high_ms - self.low_ms
        if self.shape == "linear":
            return self.low_ms + rise * step / last
        if self.shape == "arithmetic":
            return self.low_ms + rise * (k * step) / (self.retries * last)
        if self._is_geometric():
            return float(self.low_ms * (self.high_ms / self.low_ms) ** (step / last))
        # (b**i - 1) / (b**M - 1), divided through by b**M so that nothing overflows.
        b = self.base
        return float(self.low_ms + rise * (b ** (step - last) - b**-last) / (1 - b**-last))
