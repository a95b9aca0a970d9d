"""The two jitters that must remember something of the draw before: decorrelated, and Polly's slices.

What they remember is the ``carry`` of a wait. The caller stores it with the job and hands it back. When it
was lost (a changed policy, an imported job), the decorrelated wait starts from the beginning, and a slice
from the middle of the one before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Final

from anew.backoff.chance import Draws
from anew.backoff.fields import of
from anew.backoff.jitter import Drawn, JitterPiece, Nominal, Reach
from anew.backoff.kinds import CEILING_MS, Number

LAST_SLICE: Final = 1_000
"""Beyond this exponent every slice lies past the ceiling, and 2.0**1024 would overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decorrelated(JitterPiece):
    """``[c, times * previous wait)``, the previous wait being the first c at the start.

    The carry is the wait in milliseconds, uncut. Give the policy a ``ceil``: without one the mean grows by
    half at every retry until it meets 365 days. At the ceiling a good share of all waits coincide.

    Source:
        M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    name: ClassVar[str] = "decorrelated"
    inline: ClassVar[str] = "times"
    times: float = field(default=3.0, metadata=of(Number(1, 1_000)))

    def draw(
        self, retry: int, k: int, nominal: float, curve: Nominal, draws: Draws, carry: float | None
    ) -> Drawn:
        """Draw between the nominal wait and ``times`` the previous wait."""
        before = carry if carry is not None and 0 < carry <= CEILING_MS else curve(1)
        high = self.times * before
        if not high > nominal:
            return Drawn(nominal, None, nominal)
        number = draws.rng()
        wait = nominal + number * (high - nominal)
        wait = wait if wait < high else math.nextafter(high, nominal)
        return Drawn(wait, number, min(wait, CEILING_MS))

    def reach(self, retry: int, k: int, nominal: float, curve: Nominal, before: float) -> Reach:
        """Give the wait's bounds; the latest follows from the latest before."""
        latest = max(nominal, self.times * (before if retry > 1 else nominal))
        return Reach(nominal, latest, nominal, latest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices(JitterPiece):
    """Polly's DecorrelatedJitterBackoffV2: each retry's *instant* is drawn inside its own slice of time.

    With ``F(t) = 2**t * tanh(sqrt(4t))``, i = k - 1 and one number U per retry, the wait is
    ``(F(i + U) - F(i - 1 + U before)) * c(1) / 1.4``; the sum of the first k waits is one draw of F, so
    errors do not add up. The carry is U. The curve must be ``exponential`` with factor 2.

    Source:
        Polly 8 and Polly.Contrib.WaitAndRetry.
    """

    name: ClassVar[str] = "slices"

    def draw(
        self, retry: int, k: int, nominal: float, curve: Nominal, draws: Draws, carry: float | None
    ) -> Drawn:
        """Draw the instant of this retry and subtract the instant of the one before."""
        number = draws.rng()
        unit = slices_unit(curve(1))
        if k > LAST_SLICE:
            return Drawn(CEILING_MS if unit else 0.0, number, number)
        before = carry if carry is not None and 0 <= carry < 1 else 0.5
        start = front(k - 2 + before) if k > 1 else 0.0
        return Drawn(max(front(k - 1 + number) - start, 0.0) * unit, number, number)

    def reach(self, retry: int, k: int, nominal: float, curve: Nominal, before: float) -> Reach:
        """Give the wait's bounds; the two ends of the whole window telescope."""
        unit = slices_unit(curve(1))
        if k > LAST_SLICE:
            end = float(CEILING_MS) if unit else 0.0
            return Reach(0.0, end, end, end)
        low, middle, high = (front(t) for t in (max(0, k - 2), k - 1, k))
        return Reach(0.0, (high - low) * unit, (middle - low) * unit, (high - middle) * unit)


def front(t: float) -> float:
    """Give ``2**t * tanh(sqrt(4t))``, the instant of ``slices``; from `LAST_SLICE` on, past every ceiling, it stands still."""
    return math.tanh(math.sqrt(4 * t)) * math.pow(2, min(t, LAST_SLICE))


def slices_unit(first: float) -> float:
    """Give what ``slices`` multiplies its instants with, from the curve's first wait: Polly's median correction."""
    return first / 1.4
