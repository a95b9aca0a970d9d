"""An explanation in words: its rows as a table, and a few sentences on what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from anew.lab.last_retry import LastRetry, is_endless
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, format_duration, format_duration_about

if TYPE_CHECKING:
    from anew.lab.explain import Explanation, Forecast

OUTLIVED: Final = (99.0, 50.0, 1.0)
"""Percents of the jobs: which outages so many outlive is told."""

DEAD: Final = (1.0, 50.0, 99.0, 100.0)
"""Percents of the jobs that never succeed: when so many are dead is told."""

_RANGES: Final = (
    (2 * DAY_MS, DAY_MS, "d"),
    (2 * HOUR_MS, HOUR_MS, "h"),
    (2 * MINUTE_MS, MINUTE_MS, "min"),
    (SECOND_MS, SECOND_MS, "s"),
    (0, 1, "ms"),
)
"""From where on a range is written in which unit."""


def table(told: Explanation, percents: Sequence[float] | None) -> list[list[str]]:
    """Give the rows for people, the heading first; see `Explanation.table`."""
    columns = [f"{percent:g}" for percent in (told.percents if percents is None else percents)]
    if percents is None and columns:
        columns = [f"{columns[0]}-{columns[-1]}"]
    drawn = told.jittered
    law = ["mean", *(f"{column} %" for column in columns)] if drawn else []
    heading = ["retry", "nominal", "earliest", "latest", *law, "from start", "to"]
    return [heading] + [_cells(row, columns if drawn else None) for row in told.rows]


def _cells(row: Forecast, percents: list[str] | None) -> list[str]:
    law: list[str] = []
    if percents is not None:
        known = row.percentiles_ms
        law = ["-" if row.mean_ms is None else format_duration_about(row.mean_ms)]
        law += ["-" if known is None else _percentile(known, percent) for percent in percents]
    bounds = [_written(ms) for ms in (row.nominal_ms, row.earliest_ms, row.latest_ms)]
    return [str(row.retry), *bounds, *law, _written(row.window_earliest_ms), _written(row.window_latest_ms)]


def _percentile(known: dict[str, int], percent: str) -> str:
    if percent in known:
        return format_duration_about(known[percent])
    low, _, high = percent.partition("-")
    return _range(known[low], known[high])


def _range(low_ms: int, high_ms: int) -> str:
    """Write two durations in one unit, the higher to three digits: ``17.5-44.5 s``, ``1.67-3 min``."""
    unit_ms, unit = next((unit_ms, unit) for least, unit_ms, unit in _RANGES if high_ms >= least)
    places = 2 - len(str(high_ms // unit_ms)) + 1 if unit_ms > 1 else 0
    low, high = (f"{round(ms / unit_ms, max(places, 0)):g}" for ms in (low_ms, high_ms))
    return f"{high} {unit}" if low == high else f"{low}-{high} {unit}"


def _written(ms: int | None) -> str:
    return "-" if ms is None else format_duration(ms)


def summary(told: Explanation) -> str:
    """Say in one line how many retries there are, how many are shown, and how long they take."""
    count = "unlimited retries" if told.total is None else _counted(told.total)
    if told.ended_by_deadline:
        count += f", {len(told.rows)} before the deadline"
    elif told.rows and not told.complete:
        count += f", the first {len(told.rows)} shown"
    last = told.rows[-1] if told.rows else None
    if last is None or last.window_earliest_ms is None or last.window_latest_ms is None:
        return count
    span = format_duration(last.window_earliest_ms)
    if last.window_latest_ms != last.window_earliest_ms:
        span += f" to {format_duration(last.window_latest_ms)}"
    return f"{count}; retry {last.retry} comes {span} after the first failure"


def words(told: Explanation) -> list[str]:
    """Say in a few lines what the retries come to: runs, window, which outages are outlived, when jobs are dead."""
    found = told.window
    if found is not None:
        return [*_window_words(told, found), *_outage_words(told, found), _dead_words(told, found)]
    if is_endless(told.policy):
        return ["There is no end: every job outlives every outage, and none is given up."]
    return ["When the last retry comes cannot be told beforehand."]


def _window_words(told: Explanation, found: LastRetry) -> Iterator[str]:
    if told.total_runs is not None:
        most = "" if told.policy.deadline_ms is None else " at most"
        yield f"{told.total_runs} run{'s' if told.total_runs != 1 else ''} in all{most}."
    if found.latest_ms > found.earliest_ms:
        low, high = (format_duration_about(found.percentile(percent)) for percent in (5, 95))
        nine = "" if low == high else f", {low} to {high} for nine jobs in ten"
        yield f"Last retry: after {format_duration_about(found.mean_ms)} on average{nine}."


def _outage_words(told: Explanation, found: LastRetry) -> Iterator[str]:
    for outage, share in told.outlives():
        said = _shared(
            share, found.error, certain=not found.nearly or outage > (told.policy.deadline_ms or 0)
        )
        yield f"An outage of {format_duration(outage)} from the first failure on: {said}."
    if told.outages_ms or not found.latest_ms:
        return
    if found.earliest_ms == found.latest_ms:
        yield f"Every job outlives an outage of {format_duration(found.latest_ms)}, and none a longer one."
        return
    lengths = [format_duration_about(found.outlived_by(share)) for share in OUTLIVED]
    yield "Outages outlived: by 99 % of the jobs {}, by 50 % {}, by 1 % {}.".format(*lengths)


def _dead_words(told: Explanation, found: LastRetry) -> str:
    done = "Discarded" if told.policy.on_exhausted == "discard" else "Dead"
    if found.earliest_ms == found.latest_ms:
        at = f"after {format_duration(found.latest_ms)}" if found.latest_ms else "at the first failure"
        return f"{done} if all runs fail: {at}."
    parts = [f"{share:g} % by {format_duration_about(found.percentile(share))}" for share in DEAD[:-1]]
    end = format_duration_about(found.latest_ms)
    return f"{done} if all runs fail: {', '.join(parts)}, {'nearly ' if found.nearly else ''}all by {end}."


def _shared(share: float | None, error: float, *, certain: bool) -> str:
    """Say who outlives an outage; to the tenth, which `anew.units.format_share` does not give: one job in 1,000 may be many.

    Args:
        share: 0 to 1; None where it cannot be told.
        error: How far it may be off.
        certain: Whether 0 and 1 are meant of each job.
    """
    if share is None:
        return "who outlives it cannot be told"
    if certain and share in (0.0, 1.0):
        return "every job outlives it" if share else "no job outlives it"
    percent = 100 * share
    rare = "0.01" if error < 0.005 else "1"  # of 100,000 jobs none, or of fewer
    if not 0.05 <= percent < 99.95:
        few, most = ("0.1", "99.9") if 0 < share < 1 else (rare, f"{100 - float(rare):g}")
        return f"{'fewer than ' + few if percent < 1 else 'more than ' + most} % of the jobs outlive it"
    return f"{percent:.1f} % of the jobs outlive it (± {100 * error:.1g} points)"


def _counted(total: int) -> str:
    return "no retry" if total == 0 else "1 retry" if total == 1 else f"{total} retries"
