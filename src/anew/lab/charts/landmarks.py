"""The end of an outage on an axis of time: a moment that matters of itself, and so has a tick and a name there."""

from __future__ import annotations

from collections.abc import Sequence

from anew.lab.charts.axes import Scale
from anew.lab.charts.scales import Tick
from anew.units import format_duration


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
