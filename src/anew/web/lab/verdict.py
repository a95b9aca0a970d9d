"""What becomes of each policy's jobs in three figures, each with a word: who dies, what meets the service, when all is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from anew.lab.last_retry import is_endless
from anew.units import format_duration, format_share
from anew.web.lab.herds import Drawn, Herd
from anew.web.lab.scenes import Scene
from anew.web.lab.words import outlived, percent

_NEAR: Final = 1.1
"""Figures closer than that are as good as each other."""

_ENDLESS_MS: Final = 2**62


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
    """What is judged, and each policy's cells by its letter."""

    headings: tuple[str, str, str]
    rows: Mapping[str, tuple[Cell, ...]]


def verdict(herds: Sequence[Herd], scenes: Sequence[Scene], calls: int | None) -> Verdict:
    """Judge each policy.

    Args:
        herds: Whose every retry fails; they are judged where nothing was played.
        scenes: What came of each, if anything was played.
        calls: How many calls a second may be when the service is back; None: nobody has said.
    """
    policies: Sequence[Drawn] = scenes or herds
    if scenes:
        returns = any(one.outcome.peak_second_after is not None for one in scenes)
        headings = (
            "Dead jobs",
            "Peak second when it returns" if returns else "Peak second",
            "Last success after the outage" if scenes[0].outage_ms else "Last success",
        )
        peaks, lasts = [_peak(one) for one in scenes], [_last_ms(one) for one in scenes]
        columns = ([_dead(one) for one in scenes], _peaks(peaks, calls), _lasts(lasts))
    else:
        headings = ("Outage that every job outlives", "Peak second", "Time without a call")
        seconds = [one.rhythm.peak_second if one.rhythm.calls else None for one in herds]
        columns = (_outlived(herds), _peaks(seconds, calls), _silences(herds))
    rows = zip(policies, zip(*columns, strict=True), strict=True)
    return Verdict(headings, {one.key: cells for one, cells in rows})


def _dead(one: Scene) -> Cell:
    dead = one.outcome.dead
    if dead:
        return Cell(f"{dead:,}", f"{format_share(dead / one.outcome.jobs)} die", "bad")
    waiting = one.outcome.waiting
    return Cell(f"{waiting:,} still try", "none has died yet") if waiting else Cell("0", "none dies", "good")


def _peak(one: Scene) -> int | None:
    after = one.outcome.peak_second_after
    return one.outcome.peak_second if after is None else after or None


def _peaks(peaks: Sequence[int | None], calls: int | None) -> list[Cell]:
    texts = ["–" if peak is None else "1 call" if peak == 1 else f"{peak:,} calls" for peak in peaks]
    if calls is None:
        return _ranked(texts, peaks, "fewest", "most")
    within, over = (f"within {calls:,}", "good"), (f"over {calls:,}", "bad")
    return [
        # Where all are dead, nobody calls.
        Cell(text) if peak is None else Cell(text, *(within if peak <= calls else over))
        for text, peak in zip(texts, peaks, strict=True)
    ]


def _last_ms(one: Scene) -> int | None:
    found = one.outcome.success_ms
    return None if found is None else max(found.max - one.outage_ms, 0)


def _lasts(lasts: Sequence[int | None]) -> list[Cell]:
    texts = ["–" if last is None else format_duration(last) for last in lasts]
    cells = _ranked(texts, lasts, "soonest", "latest")
    nobody = Cell("–", "nobody gets through", "bad")
    return [nobody if last is None else cell for cell, last in zip(cells, lasts, strict=True)]


def _outlived(herds: Sequence[Herd]) -> list[Cell]:
    spans: list[int | None] = []
    for one in herds:
        last, endless = one.explained.window, _ENDLESS_MS if is_endless(one.policy) else None
        spans.append(endless if last is None else last.earliest_ms)
    return _ranked([outlived(one, 100) for one in herds], spans, "shortest", "longest", more=True)


def _silences(herds: Sequence[Herd]) -> list[Cell]:
    silences = [one.rhythm.silence for one in herds]
    texts = ["–" if one is None else f"{percent(one.share)} of the {one.unit}" for one in silences]
    # In thousandths, where hardly any silence is as good as none.
    shares = [None if one is None else round(1_000 * one.share) + 10 for one in silences]
    return _ranked(texts, shares, "least", "most")


def _ranked(
    texts: Sequence[str], values: Sequence[int | None], least: str, most: str, *, more: bool = False
) -> list[Cell]:
    """Mark the least and the most, where they differ enough to matter; ``more`` is better, or less."""
    told = [value for value in values if value is not None]
    if len(told) < 2 or max(told) <= _NEAR * min(told):
        return [Cell(text) for text in texts]
    marks = ("worst", "best") if more else ("best", "worst")
    ends = {max(told): (most, marks[1]), min(told): (least, marks[0])}
    return [
        Cell(text, *ends.get(-1 if value is None else value, ()))
        for text, value in zip(texts, values, strict=True)
    ]
