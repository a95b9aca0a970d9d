"""What the pictures show, in words and figures: computed from the same herds, so that nobody needs to see a curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anew.lab.explain import Forecast
from anew.units import format_duration
from anew.web.herds import Busy, Herd, moments

_NO_SILENCE: Final = 0.01
_LITTLE_SILENCE: Final = 0.2
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}
_FLAT: Final = 1.15
"""A busiest second of so many even shares is still called that."""


def between(low: int | None, high: int | None) -> str:
    """Write a range of durations; one that has no width as a single one."""
    if low is None or high is None:
        return "depends on a function"
    a, b = format_duration(low), format_duration(high)
    return a if a == b else f"{a} to {b}"


def percent(share: float) -> str:
    """Write a share as people read it: whole percents, tenths where it is small; only the whole is 100 %.

    Unlike `anew.units.format_share`, because here small shares are compared: 0.4 % of the jobs a minute with 2.1 %.
    """
    value = share * 100
    return (
        "0 %"
        if value == 0
        else "over 99 %"
        if 99.5 <= value < 100
        else f"{value:.0f} %"
        if value >= 9.95 or value == int(value)
        else f"{value:.1f} %"
    )


def facts(herds: Sequence[Herd], jobs: int) -> list[tuple[str, str, list[str]]]:
    """Give the table of figures: a name, what it means, and a cell for each policy."""
    lasts = [herd.explained.rows[-1] if herd.explained.rows else None for herd in herds]
    return [
        ("Retries", "", [_count(herd) for herd in herds]),
        ("First wait", "", [_first_wait(herd) for herd in herds]),
        ("Whole window", "first failure to last retry", [_window(last) for last in lasts]),
        ("Outage outlived", "by every job", [_outlived(last) for last in lasts]),
        ("Busiest second", "calls, × the even share", [_second(herd.busy) for herd in herds]),
        ("Busiest minute", "calls, % of the jobs", [percent(herd.busy.minute / jobs) for herd in herds]),
        ("Silence", "between first and last call", [_silent(herd.busy) for herd in herds]),
    ]


def _count(herd: Herd) -> str:
    if herd.policy.retries is None and not herd.explained.ended_by_deadline:
        return f"no end; {herd.retries} shown"
    rows = len(herd.explained.rows)
    total = herd.policy.retries
    if total is not None and total > rows and not herd.explained.ended_by_deadline:
        return f"{total:,}; {rows} shown"
    return f"{rows:,}"


def _first_wait(herd: Herd) -> str:
    rows = herd.explained.rows
    return between(rows[0].earliest_ms, rows[0].latest_ms) if rows else "no retry"


def _window(last: Forecast | None) -> str:
    return "nothing" if last is None else between(last.window_earliest_ms, last.window_latest_ms)


def _outlived(last: Forecast | None) -> str:
    if last is None or last.window_earliest_ms is None:
        return "none" if last is None else "depends on a function"
    return format_duration(last.window_earliest_ms)


def _second(one: Busy) -> str:
    return f"{one.second:,} ({times(one.second / one.share)})"


def times(ratio: float) -> str:
    """Write a ratio."""
    return f"{ratio:.1f}×" if ratio < 10 else f"{ratio:,.0f}×"


def _silent(one: Busy) -> str:
    return f"{percent(one.silent)} of the {one.stretch}"


# ---- sentences


def about_curves(herds: Sequence[Herd]) -> list[str]:
    """Say how waits grow."""
    said = []
    for herd in herds:
        rows = herd.explained.rows
        if not rows:
            said.append(f"{herd.label}: the first failure is final; there is no retry.")
            continue
        first = between(rows[0].earliest_ms, rows[0].latest_ms)
        last = between(rows[-1].earliest_ms, rows[-1].latest_ms)
        sentence = f"{herd.label} waits {first} before the first retry"
        if len(rows) > 1:
            sentence += (
                f" and {last} before the {ordinal(len(rows))}" if last != first else ", and so each time"
            )
        said.append(sentence + ".")
    return said


def about_herds(herds: Sequence[Herd]) -> list[str]:
    """Say whether waves stand apart."""
    said = []
    for herd in herds:
        one = herd.busy
        if not herd.waves or one.second == 0:
            continue
        if one.silent < _NO_SILENCE:
            said.append(
                f"{herd.label}: no silence; the waves of the herd meet, and somebody is always about to try."
            )
        elif one.silent < _LITTLE_SILENCE:
            said.append(f"{herd.label}: hardly any silence, {percent(one.silent)} of the {one.stretch}.")
        else:
            said.append(
                f"{herd.label}: {percent(one.silent)} of the {one.stretch} pass without a call, and what should have "
                "been spread over them comes in waves."
            )
    return said


def about_load(herds: Sequence[Herd], jobs: int) -> list[str]:
    """Say what the thing that is called gets to see."""
    said = []
    for herd in herds:
        one = herd.busy
        if one.second == 0:
            continue
        ratio = one.second / one.share
        verdict = "about the even share" if ratio <= _FLAT else f"{times(ratio)} the even share"
        said.append(
            f"{herd.label}: {one.second:,} calls of {jobs:,} jobs in the busiest second, {verdict} "
            f"of {_per_second(one.share)} a second."
        )
    return said


def _per_second(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def about_waits(herds: Sequence[Herd], retry: int) -> list[str]:
    """Say how one retry's waits are spread."""
    said = []
    for herd in herds:
        if retry > herd.retries:
            said.append(f"{herd.label} has no retry {retry}.")
            continue
        waits = herd.waits(retry)
        if not len(waits):
            said.append(f"{herd.label}: the deadline comes before retry {retry}.")
            continue
        mean, sd = moments(waits)
        spread = "all the same" if sd < 0.5 else f"give or take {percent(sd / mean) if mean else '0 %'}"
        said.append(f"{herd.label}: retry {retry} waits {about(mean)} on average, {spread}.")
    return said


def about(ms: float) -> str:
    """Write a measured duration without digits that mean nothing."""
    step = 1_000 if ms >= 100_000 else 100 if ms >= 1_000 else 1
    return format_duration(round(ms / step) * step)


def ordinal(n: int) -> str:
    """Write ``1st``, ``22nd``, ``13th``."""
    if n % 100 in (11, 12, 13):
        return f"{n}th"
    return str(n) + _ENDINGS.get(n % 10, "th")
