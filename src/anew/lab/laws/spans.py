"""The bounds of every retry: its wait's least and most, and when it comes at the earliest and the latest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from anew.backoff import Policy
from anew.backoff.jitter import Reach
from anew.lab.laws.wait import asks_custom


class Span(NamedTuple):
    """The bounds of one retry in milliseconds; None where a custom function decides.

    Args:
        retry: 1 = the first.
        nominal_ms: The curve's wait, held to the cap.
        earliest_ms: The shortest wait.
        latest_ms: The least upper bound of the wait; a window's open end is never quite reached.
        window_earliest_ms: The earliest time of this retry after the first failure, runs taking no time.
        window_latest_ms: The least upper bound of that time.
        reach: How far the jitter alone would go, before floor, ceil and deadline hold it.
    """

    retry: int
    nominal_ms: int | None = None
    earliest_ms: int | None = None
    latest_ms: int | None = None
    window_earliest_ms: int | None = None
    window_latest_ms: int | None = None
    reach: Reach | None = None


def spans(policy: Policy, rows: int) -> Iterator[Span]:
    """Give the bounds of the first retries, as many as the deadline admits; the limit is left aside.

    Args:
        policy: The policy.
        rows: How many.
    """
    low, high = policy.floor_ms, policy.highest_ms
    window = _Window(policy)
    before, told, clamped = 0.0, True, False
    for retry in range(1, rows + 1):
        if asks_custom(policy, retry):
            told = False
            yield Span(retry)
            continue
        nominal = policy.nominal(retry)
        place = policy.place(retry)[1]
        bare = reach = policy.jitter.reach(retry, place, nominal, policy.nominal, before)
        # What decorrelated jitter remembers is held to the ceil, and not to the floor.
        before = min(reach.latest, float(high))
        # What was clamped no longer adds up along one draw: from there on the plain bounds do.
        clamped = clamped or reach.earliest < low or reach.latest > high
        if clamped:
            earliest, latest = (float(min(max(wait, low), high)) for wait in reach[:2])
            reach = Reach(earliest, latest, earliest, latest)
        row = window.add(retry, int(nominal), reach)
        if row is None:
            return
        row = row._replace(reach=bare)
        yield row if told else row._replace(window_earliest_ms=None, window_latest_ms=None)


class _Window:
    """Adds up waits, and ends them at the policy's deadline."""

    def __init__(self, policy: Policy) -> None:
        self._deadline_ms = policy.deadline_ms
        self._clip = policy.on_deadline == "clip"
        self._earliest = 0
        self._latest = 0.0

    def add(self, retry: int, nominal_ms: int, reach: Reach) -> Span | None:
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
        return Span(retry, nominal_ms, earliest, latest, self._earliest, int(self._latest))
