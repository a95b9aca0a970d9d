"""A comparison as a table: a line for each figure, a column for each policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from anew.lab.compare_side import Side, Spread
from anew.lab.rhythm import Silence
from anew.lab.simulation.outcome import Downstream, Outcome
from anew.units import SECOND_MS, format_duration, format_duration_about, format_range


def _first(side: Side) -> str:
    wait = side.first_wait
    if wait is None:
        return "-"
    between = format_range(wait.earliest_ms, wait.latest_ms)
    return format_duration(wait.nominal_ms) + ("" if wait.earliest_ms == wait.latest_ms else f" ({between})")


def _window(side: Side) -> str:
    if side.window is not None:
        return format_range(side.window.earliest_ms, side.window.latest_ms)
    return "no end" if side.limit is None else "-"


def _percent(share: float | None) -> str:
    """Write a share as a figure of a table: always to the tenth, so that columns compare, where `format_share` speaks."""
    return "-" if share is None else f"{share * 100:.1f} %"


def _took(side: Side, which: str) -> str:
    times = side.outcome.success_ms
    return "-" if times is None else format_duration_about(getattr(times, which))


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _silent(silence: Silence | None) -> str:
    if silence is None:
        return "-"
    unit = silence.unit if silence.unit_ms >= SECOND_MS else f"{silence.unit_ms} ms"
    return f"{_percent(silence.share)} of {unit}"


_WAITING: Final = "still waiting"
_ROWS: Final[tuple[tuple[str, Callable[[Side], str]], ...]] = (
    ("retries", lambda side: "no end" if side.limit is None else f"{side.limit:,}"),
    ("first wait", _first),
    ("window", _window),
    ("succeeded", lambda side: f"{side.outcome.succeeded:,}"),
    ("dead", lambda side: f"{side.outcome.dead:,}"),
    (_WAITING, lambda side: f"{side.outcome.waiting:,}"),
    ("middle success after", lambda side: _took(side, "p50")),
    ("last success after", lambda side: _took(side, "max")),
    ("calls a job", lambda side: f"{side.calls_a_job:.2f}"),
    ("calls wasted", lambda side: f"{side.outcome.wasted:,}"),
    ("peak second", lambda side: f"{side.outcome.peak_second:,}"),
    ("peak minute", lambda side: f"{side.outcome.peak_minute:,}"),
    ("silent", lambda side: _silent(side.outcome.silence)),
)

_AFTER: Final[tuple[tuple[str, Callable[[Outcome], int | None]], ...]] = (
    ("peak second after outage", lambda outcome: outcome.peak_second_after),
    ("peak minute after outage", lambda outcome: outcome.peak_minute_after),
    ("first minute after outage", lambda outcome: outcome.first_minute_after),
)
"""What meets the service when it returns, which the peaks of the whole herd do not tell."""

_DOWNSTREAM: Final[tuple[tuple[str, Callable[[Outcome], str]], ...]] = (
    ("longest queue", lambda outcome: _of(outcome.downstream, lambda found: found.most_backlog)),
    ("calls abandoned", lambda outcome: _of(outcome.downstream, lambda found: sum(found.abandoned))),
)
"""What a limited downstream goes through: calls that wait there, and work whose callers had given up."""


def _of(downstream: Downstream | None, figure: Callable[[Downstream], int]) -> str:
    return "-" if downstream is None else f"{figure(downstream):,}"


_SPREAD: Final[tuple[tuple[str, Callable[[Spread], str]], ...]] = (
    ("load error (cv16)", lambda spread: f"{spread.cv:.3f}"),
    ("peak (pk16)", lambda spread: f"{spread.peak:.2f}"),
    ("sd of a wait", lambda spread: _percent(spread.deviation)),
)


def table(sides: Sequence[Side], outage_ms: int) -> list[list[str]]:
    """Give the figures for people: a column for each policy, the heading first.

    Args:
        sides: The policies.
        outage_ms: The outage of the scenario; 0: none.
    """
    rows = [[name, *(say(side) for side in sides)] for name, say in _ROWS]
    if not any(side.outcome.waiting for side in sides):
        rows = [row for row in rows if row[0] != _WAITING]
    if outage_ms:
        outage = format_duration(outage_ms)
        rows.insert(3, [f"outlive {outage}", *(_percent(side.outlives) for side in sides)])
        after = [[name, *(_count(say(side.outcome)) for side in sides)] for name, say in _AFTER]
        rows[-1:-1] = after  # between the peaks of the whole herd and its silence
    if any(side.outcome.downstream for side in sides):
        rows += [[name, *(say(side.outcome) for side in sides)] for name, say in _DOWNSTREAM]
    if any(side.spread for side in sides):
        rows += [
            [name, *(say(side.spread) if side.spread else "-" for side in sides)] for name, say in _SPREAD
        ]
    return [["", *(side.label for side in sides)], *rows]
