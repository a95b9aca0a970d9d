"""What a policy will do, before anybody trusts it: every retry's wait with its law, the whole window, who outlives what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from anew.backoff import Policy
from anew.errors import InvalidPolicy
from anew.lab import explain_words
from anew.lab.laws.shapes import Law
from anew.lab.laws.spans import Span, spans
from anew.lab.laws.wait import laws
from anew.lab.sums.outlive import LastRetry, is_endless, window
from anew.units import refused, refused_as

DEFAULT_ROWS: Final = 100
MAX_ROWS: Final = 10_000
PERCENTS: Final = (5.0, 50.0, 95.0)
"""The percentiles that are told unless others are asked for."""

MAX_PERCENTS: Final = 20


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
    def window(self) -> LastRetry | None:
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
            "outlived_ms": found
            and {f"{share:g}": found.outlived_by(share) for share in explain_words.OUTLIVED},
            "dead_by_ms": found and {f"{share:g}": found.percentile(share) for share in explain_words.DEAD},
        }

    def table(self, percents: Sequence[float] | None = None) -> list[list[str]]:
        """Give the rows for people, the heading first; ``-`` stands for what cannot be told.

        Args:
            percents: Percentiles that get a column each, out of those told; None: one column for the range between
                the lowest and the highest. Without jitter there is neither a mean nor a percentile to show.
        """
        return explain_words.table(self, percents)

    def summary(self) -> str:
        """Say in one line how many retries there are, how many are shown, and how long they take."""
        return explain_words.summary(self)

    def words(self) -> list[str]:
        """Say in a few lines what the retries come to: runs, window, which outages are outlived, when jobs are dead."""
        return explain_words.words(self)


def explain(
    policy: Policy | str | Mapping[str, Any],
    retries: int | None = None,
    *,
    percentiles: Sequence[float] = PERCENTS,
    outages_ms: Sequence[int] = (),
) -> Explanation:
    """Tell what a policy will do at each retry, and what that comes to.

    Args:
        policy: The policy, or the JSON value that one is read from.
        retries: Rows to show at most; None: all, but not more than 100.
        percentiles: Which percentiles to tell, 0 to 100 each, at most 20.
        outages_ms: Lengths of outages, from the first failure on, whose survivors are to be told.

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
    percents = _percents(percentiles)
    for outage in outages_ms:
        if outage < 0:
            raise refused("outage", outage, "a length in milliseconds, 0 or more")
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
        raise refused("percentiles", f"{len(percentiles)} of them", f"at most {MAX_PERCENTS} percentiles")
    for percent in percentiles:
        if not 0 <= percent <= 100:
            raise refused("percentiles", percent, "numbers from 0 to 100")
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
