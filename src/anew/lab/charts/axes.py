"""Axes: where a value stands between the two ends of an axis, which ticks people can read, and the axes of each kind of picture."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from anew.lab.charts.pictures import Band, BandLine, Dots, Heat, Load, Panel, Picture
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
    fitting = (
        step for step in _STEPS_MS if math.floor(scale.high / step) - math.ceil(scale.low / step) < most
    )
    step = next(fitting, _nice(span / max(most - 1, 1)))
    first = math.ceil(scale.low / step)
    return [n * step for n in range(first, math.floor(scale.high / step * (1 + 1e-12)) + 1)]


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


def duration_labels(ticks: Sequence[int]) -> list[str]:
    """Write the ticks of one axis: ``0``, ``15 s``, ``1 min``, ``1.5 h``, ``20 d``; one unit each, halves allowed.

    All have the same unit where they stand at equal distances. But steps of half a unit change units without confusing
    anybody: ``30 min  1 h  1.5 h``.
    """
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 0
    even = all(after - before == step for before, after in itertools.pairwise(ticks))
    alike = step and even and not any(2 * step == unit_ms for unit_ms, _ in _UNITS)
    return [_in_unit(tick, step if alike else tick) for tick in ticks]


def _in_unit(ms: int, of_ms: int) -> str:
    """Write a duration in the largest unit of which another one is whole halves."""
    fitting = (item for item in _UNITS if of_ms >= item[0] and 2 * of_ms % item[0] == 0)
    unit_ms, unit = next(fitting, _UNITS[-1])
    return f"{ms / unit_ms:,.10g} {unit}" if ms else "0"


def exact_label(ms: int) -> str:
    """Write one instant in full, as a clock would: ``3 h 2 min``, ``3 h 30 s``; for an axis that begins far from 0."""
    parts = []
    for unit_ms, unit in _UNITS:
        count, ms = divmod(ms, unit_ms)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts) or "0"


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


# ---- the axes of each kind of picture, whatever draws it: their scales, names and ticks, and whether they count in powers


_LOG_FROM: Final = 300
"""A linear axis whose end is so many times its smallest value hides most of it."""


class Tick(NamedTuple):
    """A mark on an axis: its place in [0, 1] and its text."""

    place: float
    text: str


def time_ticks(scale: Scale, most: int, *, exact: bool = False) -> list[Tick]:
    """Give the marks of an axis of durations.

    Args:
        exact: It begins far from 0, and instants are written in full.
    """
    ticks = duration_ticks(scale, most)
    texts = [exact_label(tick) for tick in ticks] if exact else duration_labels(ticks)
    return [Tick(scale.at(tick), text) for tick, text in zip(ticks, texts, strict=True)]


def band_scale(band: Band, *, log: bool) -> Scale:
    """Give the axis of a band's waits."""
    ends = [ms for line in band.lines for point in line.points for ms in (point.earliest_ms, point.latest_ms)]
    middles = [ms for line in band.lines for ms in line.middles_ms]
    return time_scale([ms for ms in (*ends, *middles) if ms is not None], log=log)


def band_name(band: Band) -> str:
    """Name the axis of a band's waits, and what its lines are."""
    kinds = {line.line for line in band.lines}
    return "wait before the retry" + (f", line: the {kinds.pop()}" if len(kinds) == 1 else "")


def herd_scale(dots: Dots, *, log: bool) -> Scale:
    """Give the time axis of a herd; which panels that are to be compared share."""
    return time_scale([dots.begin_ms, dots.end_ms], log=log)


def load_scale(load: Load) -> Scale:
    """Give the time axis of a load; one of powers begins at 0 all the same, and is nearly linear within the first column."""
    shift = float(load.edges_ms[1]) if load.log else 0.0
    return Scale(float(load.edges_ms[0]), float(load.edges_ms[-1]), load.log, shift)


def retry_axis(band: Band, most: int) -> tuple[Scale, list[Tick]]:
    """Give the axis of a band's retries, and its ticks."""
    retries = max((len(line.points) for line in band.lines), default=1)
    scale = Scale(1.0, float(max(retries, 2)))
    return scale, [Tick(scale.at(n), str(n)) for n in retry_ticks(retries, most)]


def band_places(line: BandLine, across: Scale, up: Scale) -> list[tuple[float, ...]]:
    """Give of each retry that can be told its place across, and up those of its earliest, its latest and its middle wait."""
    return [
        (across.at(point.retry), *(up.at(ms) for ms in (point.earliest_ms, point.latest_ms, middle)))
        for point, middle in zip(line.points, line.middles_ms, strict=True)
        if point.earliest_ms is not None and point.latest_ms is not None and middle is not None
    ]


def apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Give falling heights from 0 on at least a gap from each other, as near to the wanted ones as it goes."""
    found: list[float] = []
    for height in wanted:
        found.append(min(height, found[-1] - gap) if found else height)
    floor = 0.0
    for place in range(len(found) - 1, -1, -1):
        found[place] = max(found[place], floor)
        floor = found[place] + gap
    return found


def log_of(picture: Picture) -> bool:
    """Tell whether a picture's axes of durations count in powers: as it says, or for all if any panel needs it."""
    return any(map(uses_log, picture.panels)) if picture.log is None else picture.log


def uses_log(panel: Panel) -> bool:
    """Tell which axis of durations shows more of a panel: one of powers where the last is hundreds of times the first."""
    match panel:
        case Band():
            waits = [point.latest_ms for line in panel.lines for point in line.points if point.latest_ms]
        case Dots():
            waits = [ms for row in panel.instants_ms for ms in (row[:1] + row[-1:]) if ms]
            return bool(waits) and sorted(waits)[-1] > _LOG_FROM * sorted(waits)[len(waits) // 4]
        case Heat() | Load():
            return panel.log
        case _:
            return False
    return bool(waits) and max(waits) > _LOG_FROM * min(waits)


# ---- the end of an outage on an axis of time: a moment that matters of itself, and so has a tick and a name there


def outage_mark(outage_ms: int | None, scale: Scale, arrow: str = " →") -> Tick | None:
    """Give where an outage ends on an axis, and what is written there.

    Args:
        outage_ms: When it ends; None or 0: there is none.

    Returns:
        Its place and its name; one that ends behind the axis has an arrow and stands at the axis' end. None where there
        is nothing to mark, or all of the axis comes later.
    """
    if not outage_ms or outage_ms <= scale.low:
        return None
    beyond = arrow if outage_ms > scale.high else ""
    return Tick(scale.at(outage_ms), f"outage {format_duration(outage_ms)}{beyond}")


def with_outage(
    ticks: Sequence[Tick], outage_ms: int | None, scale: Scale, letter: float = 0.0
) -> list[Tick]:
    """Give an axis' ticks with one where an outage ends; others that would touch it give way.

    Args:
        outage_ms: When it ends; None or 0: there is none.
        letter: The width of a letter, as a share of the axis; 0: only a tick at the same place gives way.
    """
    mark = outage_mark(outage_ms, scale)
    if mark is None or not outage_ms or outage_ms > scale.high:
        return list(ticks)
    own = Tick(mark.place, format_duration(outage_ms))

    def middle(tick: Tick) -> float:
        # A text at either end of the axis is moved inwards.
        half = len(tick.text) / 2 * letter
        return min(max(tick.place, half), 1 - half)

    def touch(tick: Tick) -> bool:
        return abs(middle(tick) - middle(own)) <= (len(own.text) + len(tick.text) + 2) / 2 * letter

    return sorted([*(tick for tick in ticks if tick.place != own.place and not touch(tick)), own])
