"""What a policy will do, before anybody trusts it: every retry's wait with its law, the whole window, who outlives what."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from anew.backoff import Policy
from anew.backoff.windows import Windowed
from anew.errors import InvalidPolicy
from anew.lab.last_retry import (
    DRAWN,
    LastRetry,
    all_laws,
    is_endless,
    last_retry,
    waits_that_come,
)
from anew.lab.laws.shapes import Drawn, Law
from anew.lab.laws.spans import Span, spans
from anew.lab.laws.wait import pieces_of
from anew.lab.waves import Wave
from anew.units import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    format_duration,
    format_duration_about,
    refused,
    refused_as,
)

DEFAULT_ROWS: Final = 100
MAX_ROWS: Final = 10_000
PERCENTS: Final = (5.0, 50.0, 95.0)
"""The percentiles that are told unless others are asked for."""

MAX_PERCENTS: Final = 20

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


class Forecast(msgspec.Struct, frozen=True, gc=False):
    """One retry as far as it can be told beforehand; None where a custom function decides.

    Its number and its bounds are those of its `Span`; then come the wait's mean and standard deviation.

    Args:
        percentiles_ms: Percent -> the wait that so many percent of the waits do not exceed.
        share: Where a deadline cuts: how many of the jobs that never succeed make this retry, 0 to 1, drawn; the figures above are
            those of their waits then. None: all of them do.
        nearly: Earliest and latest are those of the jobs that were drawn: a few of many more may pass them.
    """

    retry: int
    nominal_ms: int | None
    earliest_ms: int | None
    latest_ms: int | None
    window_earliest_ms: int | None
    window_latest_ms: int | None
    mean_ms: float | None = None
    sd_ms: float | None = None
    percentiles_ms: dict[str, int] | None = None
    share: float | None = None
    nearly: bool = False


class Explanation(msgspec.Struct, frozen=True):
    """A policy's retries, one by one, and what they come to.

    Args:
        policy: The policy.
        rows: The retries shown, the first first.
        total: Retries that the policy allows by limit and phases; None: no end.
        ended_by_deadline: True if the deadline ends the retries right after the last row.
        percents: The percentiles that are told.
        outages_ms: Lengths of outages whose survivors are told.
        drawn: Jobs whose lives are drawn for what has no formula; see `anew.lab.last_retry`.
    """

    policy: Policy
    rows: tuple[Forecast, ...]
    total: int | None
    ended_by_deadline: bool = False
    percents: tuple[float, ...] = PERCENTS
    outages_ms: tuple[int, ...] = ()
    drawn: int = DRAWN

    @property
    def complete(self) -> bool:
        """Tell whether the rows are all there will ever be."""
        return self.ended_by_deadline or self.total == len(self.rows)

    @property
    def total_runs(self) -> int | None:
        """Runs at most, the first one included; None: no end, or one that is not known."""
        if self.ended_by_deadline:
            return len(self.rows) + 1
        return None if self.total is None else self.total + 1

    @property
    def window(self) -> LastRetry | None:
        """When the last retry comes, over all permitted retries; None: never, or it cannot be told."""
        return last_retry(self.policy, self.drawn)

    def outlives(self) -> list[tuple[int, float | None]]:
        """Give each stated outage with the share of jobs that outlive it; None where it cannot be told."""
        found, endless = self.window, is_endless(self.policy)
        other = 1.0 if endless else None
        return [(outage, found.outlives(outage) if found else other) for outage in self.outages_ms]

    def to_json(self) -> dict[str, Any]:
        """Give the whole as JSON.

        Returns:
            ``policy``, ``limit`` and ``retries`` (a Forecast each); ``total_runs``; ``window`` (``earliest_ms``,
            ``latest_ms``, ``nearly``, ``mean_ms``, ``sd_ms``, ``percentiles_ms``, ``error``: how far a share may be off, 0 to 1, in
            95 of 100 policies); ``outlives`` (``outage_ms`` and ``share`` of each
            stated outage); ``outlived_ms``: percent -> the longest outage that so many percent of the jobs outlive;
            ``dead_by_ms``: percent -> when so many percent of the jobs that never succeed are dead. ``window`` and the
            last two are null where retries never end or a custom function decides.
        """
        found = self.window
        return {
            "policy": self.policy.to_json(),
            "limit": self.total,
            "retries": [msgspec.to_builtins(row) for row in self.rows],
            "total_runs": self.total_runs,
            "window": found
            and {
                "earliest_ms": found.earliest_ms,
                "latest_ms": found.latest_ms,
                "nearly": found.nearly,
                "error": round(found.error, 5),
                "mean_ms": round(found.mean_ms, 3),
                "sd_ms": round(found.sd_ms, 3),
                "percentiles_ms": {f"{percent:g}": found.percentile(percent) for percent in self.percents},
            },
            "outlives": [{"outage_ms": outage, "share": share} for outage, share in self.outlives()],
            "outlived_ms": found and {f"{share:g}": found.outlived_by(share) for share in OUTLIVED},
            "dead_by_ms": found and {f"{share:g}": found.percentile(share) for share in DEAD},
        }

    def table(self, percents: Sequence[float] | None = None) -> list[list[str]]:
        """Give the rows for people, the heading first; ``-`` stands for what cannot be told.

        Args:
            percents: Percentiles that get a column each, out of those told; None: one column for the range between
                the lowest and the highest. Without jitter there is neither a mean nor a percentile to show.
        """
        columns = [f"{percent:g}" for percent in (self.percents if percents is None else percents)]
        if percents is None and columns:
            columns = [f"{columns[0]}-{columns[-1]}"]
        drawn = any(row.earliest_ms != row.latest_ms for row in self.rows)
        law = ["mean", *(f"{column} %" for column in columns)] if drawn else []
        heading = ["retry", "nominal", "earliest", "latest", *law, "from start", "to"]
        return [heading] + [_cells(row, columns if drawn else None) for row in self.rows]

    def summary(self) -> str:
        """Say in one line how many retries there are, how many are shown, and how long they take."""
        count = "unlimited retries" if self.total is None else _counted(self.total)
        if self.ended_by_deadline:
            count += f", {len(self.rows)} before the deadline"
        elif self.rows and not self.complete:
            count += f", the first {len(self.rows)} shown"
        last = self.rows[-1] if self.rows else None
        if last is None or last.window_earliest_ms is None or last.window_latest_ms is None:
            return count
        span = format_duration(last.window_earliest_ms)
        if last.window_latest_ms != last.window_earliest_ms:
            span += f" to {format_duration(last.window_latest_ms)}"
        return f"{count}; retry {last.retry} comes {span} after the first failure"

    def words(self) -> list[str]:
        """Say in a few lines what the retries come to: runs, window, which outages are outlived, when jobs are dead."""
        found = self.window
        if found is not None:
            return [*_window_words(self, found), *_outage_words(self, found), _dead_words(self, found)]
        if is_endless(self.policy):
            return ["There is no end: every job outlives every outage, and none is given up."]
        return ["When the last retry comes cannot be told beforehand."]


def explain(
    policy: Policy | str | Mapping[str, Any],
    retries: int | None = None,
    *,
    percentiles: Sequence[float] = PERCENTS,
    outages_ms: Sequence[int] = (),
    drawn: int = DRAWN,
) -> Explanation:
    """Tell what a policy will do at each retry, and what that comes to.

    Args:
        policy: The policy, or the JSON value that one is read from.
        retries: Rows to show at most; None: all, but not more than 100.
        percentiles: Which percentiles to tell, 0 to 100 each, at most 20.
        outages_ms: Lengths of outages, from the first failure on, whose survivors are to be told.
        drawn: Jobs whose lives are drawn for what has no formula: the more, the smaller the error.

    Returns:
        One row per retry, as many as limit, phases and deadline allow and ``retries`` admits.

    Raises:
        InvalidPolicy: The value is no policy, or ``retries`` is not in 0 to 10,000.
        InvalidInput: A percentile is not in 0 to 100, there are too many, or an outage is negative.
    """
    policy = Policy.from_json(policy)
    if retries is not None and not 0 <= retries <= MAX_ROWS:
        expected = f"a whole number from 0 to {MAX_ROWS}, the rows to show"
        raise refused_as(InvalidPolicy, "retries", retries, expected)
    if len(percentiles) > MAX_PERCENTS:
        raise refused("percentiles", f"{len(percentiles)} of them", f"at most {MAX_PERCENTS} percentiles")
    for percent in percentiles:
        if not 0 <= percent <= 100:
            raise refused("percentiles", percent, "numbers from 0 to 100")
    percents = tuple(sorted({float(percent) for percent in percentiles}))
    for outage in outages_ms:
        if outage < 0:
            raise refused("outage", outage, "a length in milliseconds, 0 or more")
    rows = min(n for n in (policy.retries, DEFAULT_ROWS if retries is None else retries) if n is not None)
    found = [*spans(policy, rows)]
    return Explanation(
        policy,
        tuple(_forecasts(policy, found, percents, drawn)),
        policy.retries,
        ended_by_deadline=len(found) < rows,
        percents=percents,
        outages_ms=tuple(outages_ms),
        drawn=drawn,
    )


def _forecasts(
    policy: Policy, found: Sequence[Span], percents: Sequence[float], drawn: int
) -> Iterator[Forecast]:
    """Tell each retry: by its law, or by the waits that come where it has none or a deadline cuts some of them."""
    cut = _first_cut(policy, found)
    for span, own in zip(found, all_laws(policy, cut, drawn), strict=False):
        yield _by_law(span, own, percents)
    come = waits_that_come(policy, len(found), drawn) if cut < len(found) else []
    for index in range(cut, len(found)):
        before_ms = (found[index - 1].window_earliest_ms or 0) if index else 0
        yield _cut_short(policy, found[index], come[index], before_ms, percents)


def _first_cut(policy: Policy, found: Sequence[Span]) -> int:
    """Give the index of the first retry of which a deadline cuts some waits; as many as there are if it cuts none."""
    deadline = policy.deadline_ms
    if deadline is None or any(span.nominal_ms is None for span in found):
        return len(found)
    free = spans(dataclasses.replace(policy, deadline_ms=None), len(found))
    cut = (index for index, span in enumerate(free) if (span.window_latest_ms or 0) > deadline)
    return next(cut, len(found))


def _by_law(span: Span, law: Law | None, percents: Sequence[float]) -> Forecast:
    if law is None or span.earliest_ms is None or span.latest_ms is None:
        return Forecast(*span[:6])
    low, high = span.earliest_ms, span.latest_ms
    return Forecast(
        *span[:6],  # what the jitter alone would do is nothing to tell
        mean_ms=round(min(max(law.mean_ms, low), high), 3),
        sd_ms=round(law.sd_ms, 3),
        percentiles_ms={f"{percent:g}": min(max(law.percentile(percent), low), high) for percent in percents},
    )


def _cut_short(
    policy: Policy, span: Span, come: tuple[float, Wave], before_ms: int, percents: Sequence[float]
) -> Forecast:
    """Tell a retry of which a deadline cuts some waits by those that come."""
    share, waits = come
    bounds = _bounds(policy, span, before_ms)
    nearly = bounds is None and len(waits) > 0
    if bounds is None:
        bounds = (int(waits[0]), int(waits[-1])) if nearly else (span.earliest_ms or 0, span.latest_ms or 0)
    told = span._replace(earliest_ms=bounds[0], latest_ms=bounds[1])
    found = _by_law(told, Drawn(waits) if len(waits) else None, percents)
    return msgspec.structs.replace(found, share=round(share, 6), nearly=nearly)


def _bounds(policy: Policy, span: Span, before_ms: int) -> tuple[int, int] | None:
    """Give the shortest and the longest wait that comes before the deadline; None where waits depend on each other.

    At the earliest the retry before comes at ``before_ms``.
    """
    earliest, latest = span.earliest_ms or 0, span.latest_ms or 0
    jitter = policy.jitter
    depends = isinstance(jitter, Windowed) and jitter.source == "job"
    pieces = None if depends else pieces_of(policy, span.retry)
    if pieces is None:
        return None
    if policy.on_deadline == "clip":
        return earliest, latest
    left_ms = (policy.deadline_ms or 0) - before_ms
    # A die may have no face where the deadline is.
    within = (piece.highest_upto(left_ms) for piece in pieces if int(piece.low) <= left_ms)
    highest = max(within, default=latest)
    return earliest, min(latest, int(highest))


# ---- in words


def _cells(row: Forecast, percents: list[str] | None) -> list[str]:
    law: list[str] = []
    if percents is not None:
        known = row.percentiles_ms
        law = ["-" if row.mean_ms is None else format_duration_about(row.mean_ms)]
        law += ["-" if known is None else _percentiles(known, percent) for percent in percents]
    bounds = [_written(ms) for ms in (row.nominal_ms, row.earliest_ms, row.latest_ms)]
    return [str(row.retry), *bounds, *law, _written(row.window_earliest_ms), _written(row.window_latest_ms)]


def _percentiles(known: dict[str, int], percent: str) -> str:
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
        certain = not found.nearly or outage > (told.policy.deadline_ms or 0)
        said = _shared(share, found.error, certain=certain)
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
