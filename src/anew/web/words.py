"""What the pictures show, in words and figures: computed from the same herds, so that nobody needs to see a curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from anew.lab.last_retry import is_endless
from anew.lab.rhythm import Silence
from anew.units import SECOND_MS, counted, format_duration, format_range
from anew.web.herds import Herd, moments

_NO_SILENCE: Final = 0.01
_LITTLE_SILENCE: Final = 0.2
_RARE: Final = 1
"""Percent of the jobs whose last retry comes earlier, or later, than is said of the others."""

Row: TypeAlias = tuple[str, str, list[str]]
"""A row of the table of figures: a name, what it means, and a cell for each policy."""

_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}


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
        else f"{value:.0f} %"
        if value >= 9.95 or value == int(value)
        else f"{value:.1f} %"
    )


def facts(herds: Sequence[Herd]) -> list[Row]:
    """Give what is true of each policy, whatever its jobs meet."""
    rows: list[Row] = [
        ("Retries", "", [_count(herd) for herd in herds]),
        ("First wait", "", [_first_wait(herd) for herd in herds]),
        ("Whole window", "first failure to last retry", [_window(herd) for herd in herds]),
        ("Usual window", "of 98 jobs in 100", [_window(herd, _RARE, 100 - _RARE) for herd in herds]),
        ("Outage outlived", "by every job", [_outlived(herd, 100) for herd in herds]),
        ("Outage outlived", "by 99 % of the jobs", [_outlived(herd, 99) for herd in herds]),
    ]
    # Where no chance is in it, all jobs are as one.
    told = [herd.explained.window for herd in herds]
    if all(last is None or last.earliest_ms == last.latest_ms for last in told):
        del rows[5], rows[3]
    return rows


def herd_facts(herds: Sequence[Herd], jobs: int) -> list[Row]:
    """Give the figures of herds that fail together, and at every retry."""
    return [
        ("Peak second", "calls, % of the jobs", [busiest(one.rhythm.peak_second, jobs) for one in herds]),
        ("Peak minute", "calls, % of the jobs", [busiest(one.rhythm.peak_minute, jobs) for one in herds]),
        (
            "Silence",
            "between first and last call",
            [silent(one.rhythm.silence, one.rhythm.calls) for one in herds],
        ),
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


def _window(herd: Herd, low: float = 0, high: float = 100) -> str:
    """Give when the last retry comes, of all that the policy permits; without the jobs below and above two percentiles."""
    last = herd.explained.window
    if last is None:
        return _untold(herd, "no end")
    if not last.latest_ms:
        return "no retry" if last.retries == 0 else between(0, 0)
    if low == 0:
        return between(last.earliest_ms, last.latest_ms)
    return between(last.percentile(low), last.percentile(high))


def _outlived(herd: Herd, percent: float) -> str:
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


def silent(silence: Silence | None, calls: int) -> str:
    """Write how much of the time passes without a call."""
    if silence is None:
        return "all in one moment" if calls else "no call"
    return f"{percent(silence.share)} of the {silence.unit}"


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
    return [f"{herd.label}: {_waves(herd)}." for herd in herds if herd.rhythm.calls]


def _waves(herd: Herd) -> str:
    """Say of a herd with calls whether its waves meet, and how much is silence. Few calls leave silence, even if they do."""
    silence = herd.rhythm.silence
    if silence is None:
        return "all calls come in one moment"
    share, unit = percent(silence.share), silence.unit
    if herd.meeting is None:
        return f"{share} of the {unit} between the first call and the last pass without one"
    if herd.meeting:
        if silence.share < _NO_SILENCE:
            return "no silence; the waves of the herd meet, and somebody is always about to try"
        return f"the waves of the herd meet; {share} of the {unit} pass without a call where few are left to come"
    if silence.share < _NO_SILENCE:
        return f"hardly any of the {unit} passes without a call, but waves stand apart within them"
    if silence.share < _LITTLE_SILENCE:
        return f"little silence, {share} of the {unit}, but waves stand apart"
    return f"{share} of the {unit} pass without a call, and what should have been spread over them comes in waves"


def about_load(herds: Sequence[Herd], jobs: int) -> list[str]:
    """Say what the thing that is called gets to see."""
    return [f"{herd.label}: {_busy(herd, jobs)}." for herd in herds if herd.rhythm.calls]


def _busy(herd: Herd, jobs: int) -> str:
    """Hold the peak second against what is even: the jobs over their mean first wait, all calls over the whole time."""
    one, even = herd.rhythm, herd.rhythm.even_second
    first_ms = moments(herd.waits(1))[0]
    said = f"{counted(one.peak_second, 'call')} of {counted(jobs, 'job')} in the peak second"
    if even is None:
        return f"{said}, which is the only one"
    if first_ms >= SECOND_MS:
        said += (
            f"; the jobs over their mean first wait of {about(first_ms)} are {_rate(jobs * 1_000 / first_ms)}"
        )
    return f"{said}; all {one.calls:,} calls, spread evenly from the first to the last, are {_rate(even)}"


def _rate(per_second: float) -> str:
    """Write a rate by the unit that makes a number of it that can be read."""
    units = ((1, "a second"), (60, "a minute"), (3_600, "an hour"), (86_400, "a day"))
    seconds, unit = next((pair for pair in units if per_second * pair[0] >= 1), units[-1])
    rate = per_second * seconds
    return (f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}") + f" {unit}"


def about_columns(bins_ms: Sequence[int]) -> list[str]:
    """Say what the line and the shade of a load are.

    Args:
        bins_ms: How wide the bins are of whose fullest each step's line is.
    """
    widths = sorted(set(bins_ms))
    fullest = " or ".join(_bin(width) for width in widths[:1] + widths[1:][-1:])
    return [f"The line is the fullest {fullest} of each step, the shade its mean."]


def _bin(ms: int) -> str:
    count, _, unit = format_duration(ms).partition(" ")
    names = {"s": "second", "min": "minute", "h": "hour", "d": "day"}
    return names[unit] if count == "1" and unit in names else format_duration(ms)


def about_waits(herds: Sequence[Herd], retry: int) -> list[str]:
    """Say how one retry's waits are spread."""
    said = []
    for herd in herds:
        if retry > herd.retries:
            last = f"its last is {herd.retries}" if herd.retries else "there is none"
            said.append(f"{herd.label} has no retry {retry}; {last}.")
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
