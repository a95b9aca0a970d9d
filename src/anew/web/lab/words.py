"""What the pictures show, in words and figures: computed from the same herds, so that nobody needs to see a curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from anew.lab.last_retry import is_endless
from anew.lab.rhythm import Rhythm
from anew.lab.simulation.outcome import Outcome
from anew.units import format_duration, format_duration_about, format_range
from anew.web.lab.herds import Herd, moments

Row: TypeAlias = tuple[str, str, list[str]]
"""A row of the table of figures: a name, what it means, and a cell for each policy."""


def between(low: int | None, high: int | None) -> str:
    """Write a range of durations; one that has no width as a single one."""
    if low is None or high is None:
        return "depends on a function"
    return format_range(low, high)


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
        else "under 0.1 %"
        if value < 0.05
        else f"{value:,.0f} %"
        if value >= 9.95 or value == int(value)
        else f"{value:.1f} %"
    )


def facts(herds: Sequence[Herd], *, every: bool = True) -> list[Row]:
    """Give what is true of each policy, whatever its jobs meet; ``every``: also the outage that every job outlives."""
    rows: list[Row] = [
        ("Retries", "", [_count(herd) for herd in herds]),
        ("First wait", "", [_first_wait(herd) for herd in herds]),
        ("Last retry", "after the first failure", [_window(herd) for herd in herds]),
    ]
    if every:
        rows.append(("Outage outlived", "by every job", [outlived(herd, 100) for herd in herds]))
    # Where no chance is in it, all jobs are as one.
    told = [herd.explained.window for herd in herds]
    if any(last is not None and last.earliest_ms != last.latest_ms for last in told):
        rows.append(("Outage outlived", "by 99 % of the jobs", [outlived(herd, 99) for herd in herds]))
    return rows


def _count(herd: Herd) -> str:
    rows, total = len(herd.explained.rows), herd.policy.retries
    if herd.explained.ended_by_deadline or total == rows:
        return f"{rows:,}"
    return f"{'no end' if total is None else f'{total:,}'}; {rows} shown"


def _first_wait(herd: Herd) -> str:
    rows = herd.explained.rows
    return between(rows[0].earliest_ms, rows[0].latest_ms) if rows else "no retry"


def _window(herd: Herd) -> str:
    """Give when the last retry comes, of all that the policy permits."""
    last = herd.explained.window
    if last is None:
        return _untold(herd, "no end")
    if not last.latest_ms:
        return "no retry" if last.retries == 0 else between(0, 0)
    return between(last.earliest_ms, last.latest_ms)


def outlived(herd: Herd, percent: float) -> str:
    """Give the longest outage that so many percent of the jobs outlive."""
    last = herd.explained.window
    if last is None:
        return _untold(herd, "every outage")
    if last.retries == 0:
        return "none"
    return format_duration(last.earliest_ms if percent == 100 else last.outlived_by(percent))


def _untold(herd: Herd, endless: str) -> str:
    if is_endless(herd.policy):
        return endless
    rows = herd.explained.rows
    return "depends on a function" if rows and rows[0].earliest_ms is None else "cannot be told"


def busiest(calls: int, jobs: int) -> str:
    """Write a peak's calls, and which share of the jobs they would be."""
    return f"{calls:,} ({percent(calls / jobs)})" if calls else "no call"


def quiet(calls: Rhythm | Outcome) -> str:
    """Write how much of the time passes without a call."""
    silence = calls.silence
    if silence is None:
        return "all calls in one moment" if calls.calls else "no call"
    if not silence.share:
        return f"a call in all {silence.unit}"
    return f"no call in {percent(silence.share)} of the {silence.unit}"


# ---- beside the pictures

HOW_HERD: Final = {
    "dots": "Each row is a job, each dot a retry.",
    "heat": "Each row is a retry of all jobs; the stronger its colour, the more of them call then.",
    "lines": "Each line is a retry of all jobs; the higher, the more of them call then.",
}


HOW_LOAD: Final = "Line: the fullest second of each step. Shade: its mean."
HOW_SERVED: Final = " Dotted: the calls that were answered in time."


def about_peak(calls: Rhythm | Outcome) -> str:
    """Say how many calls the fullest second has, and the fullest of those after an outage."""
    said = f"peak {calls.peak_second:,} a second"
    if isinstance(calls, Rhythm) or calls.peak_second_after is None:
        return said
    return f"{said}, {f'{calls.peak_second_after:,}' if calls.peak_second_after else 'none'} when it returns"


def about_waits(herd: Herd, retry: int) -> str:
    """Say how one retry's waits are spread."""
    if retry > herd.retries:
        return f"its last retry is {herd.retries}" if herd.retries else "no retry"
    waits = herd.waits(retry)
    if not len(waits):
        return f"its deadline comes before retry {retry}"
    mean, sd = moments(waits)
    if sd < 0.5:
        return f"always {format_duration_about(mean)}"
    return f"{format_duration_about(mean)} on average, ± {percent(sd / mean) if mean else '0 %'}"
