"""The axes of each kind of picture, whatever draws it: their scales, names and ticks, and whether they count in powers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from anew.lab.charts.axes import Scale, duration_labels, duration_ticks, exact_label, time_scale
from anew.lab.charts.pictures import Band, Dots, Heat, Load, Panel, Picture
from anew.units import format_duration

_LOG_FROM: Final = 300
"""A linear axis whose end is so many times its smallest value hides most of it."""


class Tick(NamedTuple):
    """A mark on an axis: its place in [0, 1] and its text."""

    place: float
    text: str


def time_ticks(scale: Scale, most: int, *, exact: bool = False) -> list[Tick]:
    """Give the marks of an axis of durations.

    Args:
        scale: The axis.
        most: Marks at most.
        exact: It begins far from 0, and instants are written in full.
    """
    ticks = duration_ticks(scale, most)
    texts = [exact_label(tick) for tick in ticks] if exact else duration_labels(ticks)
    return [Tick(scale.at(tick), text) for tick, text in zip(ticks, texts, strict=True)]


def band_scale(band: Band, *, log: bool) -> Scale:
    """Give the axis of a band's waits."""
    points = [point for line in band.lines for point in line.points]
    waits = [wait for point in points for wait in (point.earliest_ms, point.latest_ms)]
    waits_between = [wait for line in band.lines for wait in line.middles_ms]
    return time_scale([wait for wait in (*waits, *waits_between) if wait is not None], log=log)


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
        scale: The axis of time.
        arrow: What says that it ends behind the axis.

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
        ticks: The ticks.
        outage_ms: When it ends; None or 0: there is none.
        scale: The axis of time.
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
