"""What a policy will do, before anybody trusts it: every retry's nominal, earliest and latest wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from anew.backoff.curves import is_custom
from anew.backoff.even import Even
from anew.backoff.jitter import Reach
from anew.backoff.kinds import refused
from anew.backoff.policy import Policy
from anew.backoff.windows import UpTo
from anew.units import format_duration

DEFAULT_ROWS: Final = 100
MAX_ROWS: Final = 10_000


class Forecast(msgspec.Struct, frozen=True, gc=False):
    """One retry as far as it can be told beforehand; None where a custom function decides.

    Args:
        retry: 1 = the first.
        nominal_ms: The curve's wait, held to the cap.
        earliest_ms: The shortest wait.
        latest_ms: The least upper bound of the wait; a window's open end is never quite reached.
        window_earliest_ms: The earliest time of this retry after the first failure, runs taking no time.
        window_latest_ms: The least upper bound of that time.
    """

    retry: int
    nominal_ms: int | None
    earliest_ms: int | None
    latest_ms: int | None
    window_earliest_ms: int | None
    window_latest_ms: int | None


class Explanation(msgspec.Struct, frozen=True):
    """A policy's retries, one by one.

    Args:
        policy: The policy.
        rows: The retries shown, the first first.
        total: Retries that the policy allows by limit and phases; None: no end.
        ended_by_deadline: True if the deadline ends the retries right after the last row.
    """

    policy: Policy
    rows: tuple[Forecast, ...]
    total: int | None
    ended_by_deadline: bool = False

    @property
    def complete(self) -> bool:
        """Tell whether the rows are all there will ever be."""
        return self.ended_by_deadline or self.total == len(self.rows)

    def to_json(self) -> dict[str, Any]:
        """Give ``{"policy": ..., "limit": ..., "retries": [{"retry": 1, "nominal_ms": ..., ...}, ...]}``."""
        return {
            "policy": self.policy.to_json(),
            "limit": self.total,
            "retries": [msgspec.to_builtins(row) for row in self.rows],
        }

    def table(self) -> list[list[str]]:
        """Give the rows for people, the heading first; ``-`` stands for what cannot be told."""
        heading = ["retry", "nominal", "earliest", "latest", "from start: earliest", "latest"]
        return [heading] + [
            [str(row.retry)]
            + [
                "-" if ms is None else format_duration(ms)
                for ms in (
                    row.nominal_ms,
                    row.earliest_ms,
                    row.latest_ms,
                    row.window_earliest_ms,
                    row.window_latest_ms,
                )
            ]
            for row in self.rows
        ]

    def summary(self) -> str:
        """Say in one line how many retries there are, how many are shown, and how long they take."""
        count = "unlimited retries" if self.total is None else _counted(self.total)
        if self.ended_by_deadline:
            count += f", {len(self.rows)} before the deadline"
        elif not self.complete:
            count += f", the first {len(self.rows)} shown"
        last = self.rows[-1] if self.rows else None
        if last is None or last.window_earliest_ms is None or last.window_latest_ms is None:
            return count
        span = format_duration(last.window_earliest_ms)
        if last.window_latest_ms != last.window_earliest_ms:
            span += f" to {format_duration(last.window_latest_ms)}"
        return f"{count}; retry {last.retry} comes {span} after the first failure"


def _counted(total: int) -> str:
    return "no retry" if total == 0 else "1 retry" if total == 1 else f"{total} retries"


def explain(policy: Policy, retries: int | None = None) -> Explanation:
    """Tell what a policy will do at each retry.

    Args:
        policy: The policy.
        retries: Rows to show at most; None: all, but not more than 100.

    Returns:
        One row per retry, as many as limit, phases and deadline allow and ``retries`` admits.

    Raises:
        InvalidPolicy: ``retries`` is not in 0 to 10,000.
    """
    if retries is not None and not 0 <= retries <= MAX_ROWS:
        raise refused("retries", retries, f"a whole number from 0 to {MAX_ROWS}, the rows to show")
    rows = min(n for n in (policy.retries, DEFAULT_ROWS if retries is None else retries) if n is not None)
    forecasts = tuple(_forecasts(policy, rows))
    return Explanation(policy, forecasts, policy.retries, ended_by_deadline=len(forecasts) < rows)


def _forecasts(policy: Policy, rows: int) -> Iterator[Forecast]:
    low, high = policy.floor_ms, policy.highest_ms
    window = _Window(policy)
    before, told, clamped = 0.0, True, False
    for retry in range(1, rows + 1):
        nominal, reach = _reach(policy, retry, before)
        if nominal is None or reach is None:
            told = False
            yield Forecast(retry, None, None, None, None, None)
            continue
        # What was clamped no longer adds up along one draw: from there on the plain bounds do.
        clamped = clamped or reach.earliest < low or reach.latest > high
        if clamped:
            earliest, latest = (float(min(max(wait, low), high)) for wait in reach[:2])
            reach = Reach(earliest, latest, earliest, latest)
        before = reach.latest
        row = window.add(retry, int(nominal), reach)
        if row is None:
            return
        yield row if told else Forecast(retry, row.nominal_ms, row.earliest_ms, row.latest_ms, None, None)


def _reach(policy: Policy, retry: int, before: float) -> tuple[float | None, Reach | None]:
    """Give a retry's nominal wait and reach; None where a custom function takes part."""
    near = (retry - 1, retry, retry + 1) if isinstance(policy.jitter, Even) else (1, retry)
    curves = [policy.place(max(1, number))[0] for number in near]
    if isinstance(policy.jitter, UpTo):
        curves.append(policy.jitter.curve)
    if any(is_custom(curve) for curve in curves):
        return None, None
    nominal = policy.nominal(retry)
    return nominal, policy.jitter.reach(retry, policy.place(retry)[1], nominal, policy.nominal, before)


class _Window:
    """Adds up waits, and ends them at the policy's deadline."""

    def __init__(self, policy: Policy) -> None:
        self._deadline_ms = policy.deadline_ms
        self._clip = policy.on_deadline == "clip"
        self._earliest = 0
        self._latest = 0.0

    def add(self, retry: int, nominal_ms: int, reach: Reach) -> Forecast | None:
        """Give the next row; None if the deadline leaves no time for this retry."""
        earliest, latest = int(reach.earliest), int(reach.latest)
        from_earliest, from_latest = self._earliest, self._latest
        self._earliest += int(reach.step_earliest)
        # Each wait is cut to whole milliseconds; where waits depend on each other, the sum is.
        self._latest += latest if reach.step_latest == reach.latest else reach.step_latest
        end = self._deadline_ms
        if end is not None:
            if from_earliest >= end if self._clip else self._earliest > end:
                return None
            if self._clip:
                earliest = min(earliest, max(1, end - int(from_latest)))
                self._earliest = min(self._earliest, end)
            latest = min(latest, end - from_earliest)
            self._latest = min(self._latest, float(end))
        return Forecast(retry, nominal_ms, earliest, latest, self._earliest, int(self._latest))
