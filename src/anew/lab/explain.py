"""What a policy will do, before anybody trusts it: every retry's wait with its law, the whole window, who outlives what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from anew.backoff import Policy
from anew.errors import InvalidInput, InvalidPolicy
from anew.lab.laws.outlive import Window, is_endless, window
from anew.lab.laws.shapes import Law
from anew.lab.laws.spans import Span, spans
from anew.lab.laws.wait import laws
from anew.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, format_duration, format_duration_about, shown

DEFAULT_ROWS: Final = 100
MAX_ROWS: Final = 10_000
PERCENTS: Final = (5.0, 50.0, 95.0)
"""The percentiles that are told unless others are asked for."""

MAX_PERCENTS: Final = 20
_OUTLIVED: Final = (99.0, 50.0, 1.0)
_DEAD: Final = (1.0, 50.0, 99.0, 100.0)
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

    Args:
        retry: 1 = the first.
        nominal_ms: The curve's wait, held to the cap.
        earliest_ms: The shortest wait.
        latest_ms: The least upper bound of the wait; a window's open end is never quite reached.
        window_earliest_ms: The earliest time of this retry after the first failure, runs taking no time.
        window_latest_ms: The least upper bound of that time.
        mean_ms: The expected wait. A deadline is in it only as far as it narrows the bounds.
        sd_ms: The standard deviation of the wait, a deadline left aside.
        percentiles_ms: Percent -> the wait that so many percent of the waits do not exceed.
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


class Explanation(msgspec.Struct, frozen=True):
    """A policy's retries, one by one, and what they come to.

    Args:
        policy: The policy.
        rows: The retries shown, the first first.
        total: Retries that the policy allows by limit and phases; None: no end.
        ended_by_deadline: True if the deadline ends the retries right after the last row.
        percents: The percentiles that are told.
        outages_ms: Lengths of outages whose survivors are told.
    """

    policy: Policy
    rows: tuple[Forecast, ...]
    total: int | None
    ended_by_deadline: bool = False
    percents: tuple[float, ...] = PERCENTS
    outages_ms: tuple[int, ...] = ()

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
    def window(self) -> Window | None:
        """When the last retry comes, over all permitted retries; None: never, or it cannot be told."""
        return window(self.policy)

    @property
    def jittered(self) -> bool:
        """Tell whether chance has a part in any row."""
        return any(row.earliest_ms != row.latest_ms for row in self.rows)

    def outlives(self) -> list[tuple[int, float | None]]:
        """Give each stated outage with the share of jobs that outlive it; None where it cannot be told."""
        found, endless = self.window, is_endless(self.policy)
        return [
            (outage, found.outlives(outage) if found else 1.0 if endless else None)
            for outage in self.outages_ms
        ]

    def to_json(self) -> dict[str, Any]:
        """Give the whole as JSON.

        Returns:
            ``policy``, ``limit`` and ``retries`` (a Forecast each); ``total_runs``; ``window`` (``earliest_ms``,
            ``latest_ms``, ``mean_ms``, ``sd_ms``, ``percentiles_ms``); ``outlives`` (``outage_ms`` and ``share`` of each
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
            "window": None
            if found is None
            else {
                "earliest_ms": found.earliest_ms,
                "latest_ms": found.latest_ms,
                "mean_ms": round(found.mean_ms, 3),
                "sd_ms": round(found.sd_ms, 3),
                "percentiles_ms": {f"{percent:g}": found.percentile(percent) for percent in self.percents},
            },
            "outlives": [{"outage_ms": outage, "share": share} for outage, share in self.outlives()],
            "outlived_ms": found and {f"{share:g}": found.outlived_by(share) for share in _OUTLIVED},
            "dead_by_ms": found and {f"{share:g}": found.percentile(share) for share in _DEAD},
        }

    def table(self, percents: Sequence[float] | None = None) -> list[list[str]]:
        """Give the rows for people, the heading first; ``-`` stands for what cannot be told.

        Args:
            percents: Percentiles that get a column each, out of those told; None: one column for the range between
                the lowest and the highest. Without jitter there is neither a mean nor a percentile to show.
        """
        told = [f"{percent:g}" for percent in (self.percents if percents is None else percents)]
        if percents is None and told:
            told = [f"{told[0]}-{told[-1]}"]
        drawn = self.jittered
        law = ["mean", *(f"{column} %" for column in told)] if drawn else []
        heading = ["retry", "nominal", "earliest", "latest", *law, "from start", "to"]
        return [heading] + [_cells(row, told if drawn else None) for row in self.rows]

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
            return [*self._window_words(found), *self._outage_words(found), self._dead_words(found)]
        if is_endless(self.policy):
            return ["There is no end: every job outlives every outage, and none is given up."]
        return ["When the last retry comes cannot be told beforehand."]

    def _window_words(self, found: Window) -> Iterator[str]:
        if self.total_runs is not None:
            most = "" if self.policy.deadline_ms is None else " at most"
            yield f"{self.total_runs} run{'s' if self.total_runs != 1 else ''} in all{most}."
        if found.latest_ms > found.earliest_ms:
            low, high = (format_duration_about(found.percentile(percent)) for percent in (5, 95))
            nine = "" if low == high else f", {low} to {high} for nine jobs in ten"
            yield f"Last retry: after {format_duration_about(found.mean_ms)} on average{nine}."

    def _outage_words(self, found: Window) -> Iterator[str]:
        for outage, share in self.outlives():
            yield f"An outage of {format_duration(outage)} from the first failure on: {_shared(share)}."
        if self.outages_ms or not found.latest_ms:
            return
        if found.earliest_ms == found.latest_ms:
            yield f"Every job outlives an outage of {format_duration(found.latest_ms)}, and none a longer one."
            return
        lengths = [format_duration_about(found.outlived_by(share)) for share in _OUTLIVED]
        yield "Outages outlived: by 99 % of the jobs {}, by 50 % {}, by 1 % {}.".format(*lengths)

    def _dead_words(self, found: Window) -> str:
        done = "Discarded" if self.policy.on_exhausted == "discard" else "Dead"
        if found.earliest_ms == found.latest_ms:
            at = f"after {format_duration(found.latest_ms)}" if found.latest_ms else "at the first failure"
            return f"{done} if every run fails: {at}."
        parts = [f"{share:g} % by {format_duration_about(found.percentile(share))}" for share in _DEAD[:-1]]
        end = format_duration_about(found.latest_ms)
        return f"{done} if every run fails: {', '.join(parts)}, all by {end}."


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


def _shared(share: float | None) -> str:
    if share is None:
        return "who outlives it cannot be told"
    if share in (0.0, 1.0):
        return "every job outlives it" if share else "no job outlives it"
    percent = 100 * share
    if not 0.05 <= percent < 99.95:
        return f"{'fewer than 0.1' if percent < 1 else 'more than 99.9'} % of the jobs outlive it"
    return f"{percent:.1f} % of the jobs outlive it"


def _counted(total: int) -> str:
    return "no retry" if total == 0 else "1 retry" if total == 1 else f"{total} retries"


def explain(
    policy: Policy,
    retries: int | None = None,
    *,
    percentiles: Sequence[float] = PERCENTS,
    outages_ms: Sequence[int] = (),
) -> Explanation:
    """Tell what a policy will do at each retry, and what that comes to.

    Args:
        policy: The policy.
        retries: Rows to show at most; None: all, but not more than 100.
        percentiles: Which percentiles to tell, 0 to 100 each, at most 20.
        outages_ms: Lengths of outages, from the first failure on, whose survivors are to be told.

    Returns:
        One row per retry, as many as limit, phases and deadline allow and ``retries`` admits.

    Raises:
        InvalidPolicy: ``retries`` is not in 0 to 10,000.
        InvalidInput: A percentile is not in 0 to 100, there are too many, or an outage is negative.
    """
    if retries is not None and not 0 <= retries <= MAX_ROWS:
        expected = f"a whole number from 0 to {MAX_ROWS}, the rows to show"
        raise _invalid(InvalidPolicy, "retries", retries, expected)
    percents = _percents(percentiles)
    for outage in outages_ms:
        if outage < 0:
            raise _invalid(InvalidInput, "outage", outage, "a length in milliseconds, 0 or more")
    rows = min(n for n in (policy.retries, DEFAULT_ROWS if retries is None else retries) if n is not None)
    found = [*spans(policy, rows)]
    each = zip(found, laws(policy, len(found)), strict=True)
    return Explanation(
        policy,
        tuple(_forecast(span, law, percents) for span, law in each),
        policy.retries,
        ended_by_deadline=len(found) < rows,
        percents=percents,
        outages_ms=tuple(outages_ms),
    )


def _percents(percentiles: Sequence[float]) -> tuple[float, ...]:
    if len(percentiles) > MAX_PERCENTS:
        raise _invalid(
            InvalidInput, "percentiles", f"{len(percentiles)} of them", f"at most {MAX_PERCENTS} percentiles"
        )
    for percent in percentiles:
        if not 0 <= percent <= 100:
            raise _invalid(InvalidInput, "percentiles", percent, "numbers from 0 to 100")
    return tuple(sorted({float(percent) for percent in percentiles}))


def _forecast(span: Span, law: Law | None, percents: Sequence[float]) -> Forecast:
    if law is None or span.earliest_ms is None or span.latest_ms is None:
        return Forecast(*span)
    low, high = span.earliest_ms, span.latest_ms
    return Forecast(
        *span,
        mean_ms=round(min(max(law.mean_ms, low), high), 3),
        sd_ms=round(law.sd_ms, 3),
        percentiles_ms={f"{percent:g}": min(max(law.percentile(percent), low), high) for percent in percents},
    )


def _invalid(kind: type[InvalidInput], field: str, value: object, expected: str) -> InvalidInput:
    return kind(f"{field}: {shown(value)} is not valid; expected {expected}", field=field, value=value)
