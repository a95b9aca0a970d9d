"""``even``: one number per job for life, which slides the job along the curve. No die is rolled at a retry.

Let g be the piecewise-linear function through the nominal waits (g(0) = 0) and C its integral. A job with
the phase p makes its k-th retry exactly C(k + p) after its first failure. Retry k of a job with p close to 1
therefore meets retry k + 1 of a job with p = 0: the waves of a herd tile the time axis without gap or
overlap on any curve, and the load is as flat as it can be. The price is the least possible deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Final

from anew.backoff.chance import Draws
from anew.backoff.fields import of
from anew.backoff.jitter import Drawn, JitterPiece, Nominal, Reach
from anew.backoff.kinds import Number

# Slightly below the cap, so that a job at the cap does not return at the same minute of every hour, where a
# dependency may be down each time: with 1/18, 1 h becomes 56 min 40 s and none is stuck.
_DETUNE: Final = 1 / 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Even(JitterPiece):
    """The wait between two points of one smooth schedule.

    Args:
        spread: Share of the time axis that the waves cover: 1 leaves no gap, 0 gives everybody the middle.
        dither: Share by which a hash of id and retry shakes each wait, half up and half down; 0.01 parts
            jobs whose hashed phases nearly coincide.
        detune: Share by which the cap is lowered for the nominal waits; without a cap it does nothing.
    """

    name: ClassVar[str] = "even"
    spread: float = field(default=1.0, metadata=of(Number(0, 1)))
    dither: float = field(default=0.0, metadata=of(Number(0, 1)))
    detune: float = field(default=_DETUNE, metadata=of(Number(0, 0.999)))

    def tuned_cap(self, cap_ms: int) -> int:
        """Lower the cap by ``detune``, to the nearest whole millisecond."""
        return round(cap_ms * (1 - self.detune))

    def draw(
        self, retry: int, k: int, nominal: float, curve: Nominal, draws: Draws, carry: float | None
    ) -> Drawn:
        """Give the wait of this job's phase."""
        phase = draws.lifelong() if self.spread else None
        x = 0.5 if phase is None else 0.5 + self.spread * (phase - 0.5)
        before, after = curve(retry - 1) if retry > 1 else 0.0, curve(retry + 1)
        wait = slide(x, before, nominal, after, first=retry == 1)
        top = nominal + after / 2 if retry == 1 else (nominal + after) / 2
        if wait >= top and x < 1 and before <= nominal <= after and before < after:
            # The top belongs to the next wave; only rounding can have reached it.
            wait = math.nextafter(top, 0.0)
        if self.dither:
            wait += wait * self.dither * (draws.hashed(retry) - 0.5)
        return Drawn(wait, phase)

    def reach(self, retry: int, k: int, nominal: float, curve: Nominal, before: float) -> Reach:
        """Give the wait's bounds over all phases, and the two ends at the lowest and the highest phase."""
        low, high = 0.5 - self.spread / 2, 0.5 + self.spread / 2
        previous, after = curve(retry - 1) if retry > 1 else 0.0, curve(retry + 1)
        places = [low, high]
        fall, rise = previous - nominal, after - nominal
        if retry > 1 and fall + rise and low < fall / (fall + rise) < high:
            places.append(fall / (fall + rise))
        waits = [slide(x, previous, nominal, after, first=retry == 1) for x in places]
        half = self.dither / 2
        downs, ups = [wait - wait * half for wait in waits], [wait + wait * half for wait in waits]
        return Reach(min(downs), max(ups), downs[0], ups[1])


def slide(x: float, before: float, nominal: float, after: float, *, first: bool) -> float:
    """Give the wait at the place x in [0, 1] between the neighbouring nominal waits.

    ``(1-x)**2/2 * before + (1/2 + x - x**2) * nominal + x**2/2 * after``; the first wait, which has nothing
    before it, is ``(1/2 + x - x**2/2) * nominal + x**2/2 * after``. Both are written as steps from the
    nominal wait, so that a flat curve gives exactly its own wait; and squares as products, whose last bit is
    the same everywhere, as that of a power is not.
    """
    if first:
        return (0.5 + x) * nominal + 0.5 * x * x * (after - nominal)
    return nominal + 0.5 * ((1 - x) * (1 - x) * (before - nominal) + x * x * (after - nominal))
