"""Axes: where a value stands between the two ends of an axis, and which ticks people can read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, format_duration

_STEPS_MS: Final = (
    *(n for power in (1, 10, 100) for n in (power, 2 * power, 5 * power)),
    *(n * SECOND_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_MS for n in (1, 2, 3, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 5, 10, 15, 30, 60, 120, 365, 730, 1_825, 3_650)),
)
"""Distances between ticks that people count in."""

_LANDMARKS_MS: Final = (
    1, 10, 100,
    *(n * SECOND_MS for n in (1, 10)), MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, DAY_MS, 7 * DAY_MS,
    30 * DAY_MS, 365 * DAY_MS, 3_650 * DAY_MS,
)  # fmt: skip
"""Durations that people know, for axes that count in powers."""

_BETWEEN_MS: Final = (
    2, 5, 20, 50, 200, 500,
    *(n * SECOND_MS for n in (2, 5, 15, 30)), *(n * MINUTE_MS for n in (2, 5, 15, 30)),
    *(n * HOUR_MS for n in (2, 3, 12)), *(n * DAY_MS for n in (2, 3, 14)),
)  # fmt: skip
"""More of them, for short axes."""


_UNITS: Final = ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"), (1, "ms"))


class Scale(msgspec.Struct, frozen=True):
    """One axis: from a value to its place in [0, 1].

    Args:
        low: The value at the start; above 0 where ``log`` and no ``shift``.
        high: The value at the end, above ``low``.
        log: Equal distances are equal factors.
        shift: Added to every value of which powers are made, so that such an axis may begin at 0: it is nearly
            linear below the shift, and counts in powers above it.
    """

    low: float
    high: float
    log: bool = False
    shift: float = 0.0

    def at(self, value: float) -> float:
        """Give the place of a value: 0 at the start, 1 at the end, held to both."""
        if self.log:
            low, high = self.low + self.shift, self.high + self.shift
            value = math.log((max(value, self.low) + self.shift) / low) / math.log(high / low)
        else:
            value = (value - self.low) / (self.high - self.low)
        return min(max(value, 0.0), 1.0)

    def value(self, place: float) -> float:
        """Give the value at a place in [0, 1]."""
        if self.log:
            low, high = self.low + self.shift, self.high + self.shift
            return low * math.exp(place * math.log(high / low)) - self.shift
        return self.low + place * (self.high - self.low)


def time_scale(values_ms: Iterable[float], *, log: bool) -> Scale:
    """Make an axis of durations that holds all values; a linear one begins at 0.

    Args:
        values_ms: What is to be shown; may be empty.
        log: Count in powers. Zeros are then held to the start of the axis, which is the least value above 0.
    """
    values = list(values_ms)
    high = max(values, default=0.0) or float(SECOND_MS)
    if not log:
        return Scale(0.0, float(high))
    low = min((value for value in values if value > 0), default=float(high) / 10)
    # A pinch of room: the first point is not on the frame.
    return Scale(low / 1.15, max(high * 1.1, low * 2), True)


def count_scale(values: Iterable[float]) -> Scale:
    """Make a linear axis of counts from 0 that holds all values."""
    return Scale(0.0, float(max(max(values, default=0.0), 1.0)))


def duration_ticks(scale: Scale, most: int) -> list[int]:
    """Give the durations to mark on an axis, in ms: round ones, ``most`` of them at most (but at least one)."""
    if scale.log:
        return _landmarks(scale, most)
    span = scale.high - scale.low
    fitting = (step for step in _STEPS_MS if _ticks_of(scale, step) <= most)
    step = next(fitting, _nice(span / max(most - 1, 1)))
    first = math.ceil(scale.low / step)
    return [n * step for n in range(first, math.floor(scale.high / step * (1 + 1e-12)) + 1)]


def _ticks_of(scale: Scale, step: int) -> int:
    return math.floor(scale.high / step) - math.ceil(scale.low / step) + 1


def _landmarks(scale: Scale, most: int) -> list[int]:
    if scale.low <= 0:
        # Where a shift lets powers begin at 0, what is below it is too near to that.
        return [0, *_landmarks(Scale(scale.shift, scale.high, True), max(most - 1, 1))]
    inside = [ms for ms in _LANDMARKS_MS if scale.low <= ms <= scale.high]
    more = sorted([*inside, *(ms for ms in _BETWEEN_MS if scale.low <= ms <= scale.high)])
    if len(more) <= most:
        return more or [round(scale.value(0.5))]
    skip = -(-len(inside) // max(most, 1))
    return inside[:: max(skip, 1)] or more[:1]


def count_ticks(scale: Scale, most: int) -> list[int]:
    """Give the counts to mark on an axis that begins at 0: whole, round, 0 among them, ``most`` (at least 2) at most."""
    step = 1
    while scale.high // step >= max(most, 2):
        step = _nice(step + 1)
    return [*range(0, int(scale.high) + 1, step)]


def retry_ticks(retries: int, most: int) -> list[int]:
    """Give the retry numbers to mark: the first, the last, and steps of 1, 2, 5, 10 ... between."""
    step = max(1, _nice((retries - 1) / max(most - 1, 1)))
    ticks = [1, *(n for n in range(step, retries + 1, step) if n > 1)]
    if step == 1:
        return ticks
    # The last one matters more than its round neighbour.
    while len(ticks) > 1 and retries - ticks[-1] < step * 0.6:
        ticks.pop()
    return [*ticks, retries]


def _nice(least: float) -> int:
    """Give the least of 1, 2, 5, 10, 20, 50 ... that is not below a number."""
    power = 10 ** max(0, math.floor(math.log10(least))) if least > 1 else 1
    return next(n for n in (power, 2 * power, 5 * power, 10 * power) if n >= least)


def duration_label(ms: float) -> str:
    """Write one duration on an axis: ``0``, ``15 s``, ``1 min``, ``1.5 h``, ``20 d``: in one unit, halves allowed."""
    whole = round(ms)
    return next(
        (_in_unit(whole, unit_ms, unit) for unit_ms, unit in _UNITS if whole and _fits(whole, unit_ms)), "0"
    )


def duration_labels(ticks: Sequence[int]) -> list[str]:
    """Write the ticks of one axis: all in one unit where they stand at equal distances, else each in its own.

    Steps of half a unit change units without confusing anybody: ``30 min  1 h  1.5 h``.
    """
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0
    even = all(after - before == step for before, after in itertools.pairwise(ticks))
    if not step or not even or any(2 * step == unit_ms for unit_ms, _ in _UNITS):
        return [duration_label(tick) for tick in ticks]
    unit_ms, unit = next(item for item in _UNITS if _fits(step, item[0]))
    return [_in_unit(tick, unit_ms, unit) if tick else "0" for tick in ticks]


def exact_label(ms: int) -> str:
    """Write one instant in full, as a clock would: ``3 h 2 min``, ``3 h 30 s``; for an axis that begins far from 0."""
    parts = []
    for unit_ms, unit in _UNITS:
        count, ms = divmod(ms, unit_ms)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts) or "0"


def _fits(ms: int, unit_ms: int) -> bool:
    return unit_ms == 1 or (ms >= unit_ms and 2 * ms % unit_ms == 0)


def _in_unit(ms: int, unit_ms: int, unit: str) -> str:
    return f"{ms / unit_ms:,.10g} {unit}"


def mean_label(ms: float) -> str:
    """Write a mean, no finer than anybody reads it: ``850 ms``, ``36.2 s``, ``2 min 21 s``."""
    step = 1 if ms < SECOND_MS else 100 if ms < MINUTE_MS else SECOND_MS
    return format_duration(round(ms / step) * step)


def count_label(count: float) -> str:
    """Write a count: ``0``, ``950``, ``12,000``, ``1.5 M``."""
    whole = round(count)
    if whole >= 1_000_000 and whole % 100_000 == 0:
        return f"{whole / 1_000_000:g} M"
    return f"{whole:,}"
