"""How calls lie in time: peak second and minute, what an even load would be, how much is silence.

One meaning for the simulation, the comparison and the page. A peak is that of any 1 s or 60 s which begin on a tenth of a
second (`TICK_MS`), wherever the clock's seconds and minutes begin; silence is counted in units of the scenario's clock, which
begins at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from anew.lab.waves import ABSENT, Wave
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

TICK_MS: Final = 100
"""Calls are counted in tenths of a second: ticks, the first from 0 to 99 ms."""

SECOND_TICKS: Final = SECOND_MS // TICK_MS
MINUTE_TICKS: Final = MINUTE_MS // TICK_MS

_UNITS: Final = {
    DAY_MS: "days",
    HOUR_MS: "hours",
    MINUTE_MS: "minutes",
    SECOND_MS: "seconds",
    100: "tenths of a second",
    10: "hundredths of a second",
    1: "milliseconds",
}

ENOUGH: Final = 50
"""Silence is counted in the largest unit that fits so many times between the first call and the last."""

_EVERY: Final = 64
"""Of so many calls one is asked first, how many come within a peak's width from it."""

_AT_ONCE: Final = 2**16
"""Calls looked at together: what is calculated of so many fits the cache."""


class Silence(msgspec.Struct, frozen=True, gc=False):
    """How much of the time between the first call and the last passes without one.

    Args:
        unit_ms: What is counted: the largest of a day, an hour, a minute, a second, 100, 10 and 1 ms that fits 50 times
            between the first call and the last.
        share: Of these, from the first call's to the last call's, those without a call; in [0, 1).
    """

    unit_ms: int
    share: float

    @property
    def unit(self) -> str:
        """The unit in words: ``hours``, ``tenths of a second``."""
        return _UNITS[self.unit_ms]


class Rhythm(msgspec.Struct, frozen=True, gc=False):
    """How some calls lie in time: how many, when the first and the last came (0 without any), their peaks, their silence."""

    calls: int
    first_ms: int
    last_ms: int
    peak_second: int
    """Most calls in any ten tenths of a second in a row."""
    peak_minute: int
    """Most calls in any 60 s that begin on a tenth of a second."""
    silence: Silence | None
    """None if all came in the same millisecond, or none at all."""


def even_second(calls: int, first_ms: int, last_ms: int) -> float | None:
    """Give the calls of each second if as many were spread evenly over all seconds from the first call's to the last's.

    The peak second has never fewer: it is the fullest of more seconds than these. None where all calls lie in the same second:
    there is nothing to spread them over.
    """
    seconds = last_ms // SECOND_MS - first_ms // SECOND_MS + 1
    return calls / seconds if calls and seconds > 1 else None


def in_order(waves: Sequence[Wave]) -> Wave:
    """Give all instants of a herd, the first first, without those of retries that do not come."""
    if not waves or isinstance(waves[0], list):
        return sorted(int(ms) for ms in chain.from_iterable(waves) if ms != ABSENT)
    import numpy as np

    whole = np.concatenate([np.asarray(wave, dtype=np.int64) for wave in waves])
    whole.sort()
    return whole[whole.searchsorted(ABSENT, "right") :]  # it is less than all instants


def rhythm(ordered: Wave) -> Rhythm:
    """Tell how calls lie in time."""
    if not len(ordered):
        return Rhythm(0, 0, 0, 0, 0, None)
    first, last = int(ordered[0]), int(ordered[-1])
    return Rhythm(
        calls=len(ordered),
        first_ms=first,
        last_ms=last,
        peak_second=_most_within(ordered, SECOND_TICKS),
        peak_minute=_most_within(ordered, MINUTE_TICKS),
        silence=_silence(ordered, first, last),
    )


def _most_within(ordered: Wave, ticks: int) -> int:
    """Give the most calls in so many ticks in a row, wherever these begin; of at least one call."""
    if isinstance(ordered, list):
        return _plain_most([ms // TICK_MS for ms in ordered], ticks)
    import numpy as np

    def within(begins: Any) -> int:
        behind = (ordered[begins] // TICK_MS + ticks) * TICK_MS
        return int((ordered.searchsorted(behind) - begins).max(initial=0))

    # What begins at some of the calls is a bound from below, and few calls have more behind them than that.
    most = bound = within(np.arange(0, len(ordered), _EVERY))
    for start in range(0, len(ordered) - bound, _AT_ONCE):
        ahead = ordered[start + bound : start + bound + _AT_ONCE]
        begins = ordered[start : start + len(ahead)]
        more = np.flatnonzero(ahead < (begins // TICK_MS + ticks) * TICK_MS)
        most = max(most, within(more + start))
    return most


def _plain_most(ticks: Sequence[int], width: int) -> int:
    most = begin = 0
    for place, tick in enumerate(ticks):
        while ticks[begin] <= tick - width:
            begin += 1
        most = max(most, place - begin + 1)
    return most


def _silence(ordered: Wave, first: int, last: int) -> Silence | None:
    if first == last:
        return None
    unit = next((unit for unit in _UNITS if (last - first) // unit >= ENOUGH), 1)
    if isinstance(ordered, list):
        filled = len({ms // unit for ms in ordered})
    else:
        import numpy as np

        # Bins are few, calls may be many.
        edges = np.arange(first // unit, last // unit + 2) * unit
        filled = int(np.count_nonzero(np.diff(ordered.searchsorted(edges))))
    return Silence(unit, 1 - filled / (last // unit - first // unit + 1))
