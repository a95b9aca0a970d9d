"""What becomes of each policy's jobs in three figures, each with a word: who dies, what meets the service, when all is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from anew.units import format_duration, format_share
from anew.web.scenes import Scene

HEADINGS: Final = ("Dead jobs", "Peak second when it returns", "Last success after the outage")
_NEAR: Final = 1.1
"""Figures closer than that are as good as each other."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure.

    Attributes:
        text: It.
        word: What it means; "" if it means nothing in particular.
        mark: ``good`` or ``bad``; ``best`` or ``worst`` of those that are shown; or "".
    """

    text: str
    word: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One policy's cells, under `HEADINGS`."""

    key: str
    label: str
    cells: tuple[Cell, ...]


def verdicts(scenes: Sequence[Scene], calls: int | None) -> list[Verdict]:
    """Judge each policy.

    Args:
        scenes: What came of each.
        calls: How many calls a second may be when the service is back; None: nobody has said.
    """
    peaks = [_peak(one) for one in scenes if one.outcome.success_ms]
    lasts = [_last_ms(one) for one in scenes]
    return [
        Verdict(one.key, one.label, (_dead(one), _peak_cell(one, peaks, calls), _last_cell(last, lasts)))
        for one, last in zip(scenes, lasts, strict=True)
    ]


def _dead(one: Scene) -> Cell:
    dead = one.outcome.dead
    if dead:
        return Cell(f"{dead:,}", f"{format_share(dead / one.outcome.jobs)} die", "bad")
    waiting = one.outcome.waiting
    return Cell(f"{waiting:,} still try", "none has died yet") if waiting else Cell("0", "none dies", "good")


def _peak(one: Scene) -> int:
    after = one.outcome.peak_second_after
    return one.outcome.peak_second if after is None else after


def _peak_cell(one: Scene, peaks: Sequence[int], calls: int | None) -> Cell:
    if one.outcome.success_ms is None:
        return Cell("–")  # where all are dead, nobody calls
    peak = _peak(one)
    text = f"{peak:,} calls" if peak != 1 else "1 call"
    if calls is not None:
        within = peak <= calls
        return Cell(text, f"{'within' if within else 'over'} {calls:,}", "good" if within else "bad")
    return _ranked(text, peak, peaks, "fewest", "most")


def _last_ms(one: Scene) -> int | None:
    found = one.outcome.success_ms
    return None if found is None else max(found.max - one.outage_ms, 0)


def _last_cell(last: int | None, lasts: Sequence[int | None]) -> Cell:
    if last is None:
        return Cell("–", "nobody gets through", "bad")
    return _ranked(
        format_duration(last), last, [other for other in lasts if other is not None], "soonest", "latest"
    )


def _ranked(text: str, value: int, values: Sequence[int], least: str, most: str) -> Cell:
    """Mark the least and the most, where they differ enough to matter."""
    if len(values) < 2 or max(values) <= _NEAR * min(values):
        return Cell(text)
    if value == min(values):
        return Cell(text, least, "best")
    return Cell(text, most, "worst") if value == max(values) else Cell(text)
