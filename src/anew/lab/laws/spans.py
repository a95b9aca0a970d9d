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
    """Give the bounds of the first retries, as many as the deadline admits; the limit is left aside."""
    low, high = policy.floor_ms, policy.highest_ms
    end, clip = policy.deadline_ms, policy.on_deadline == "clip"
    before, told, clamped = 0.0, True, False
    window_earliest, window_latest = 0, 0.0
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
            shortest, longest = (float(min(max(wait, low), high)) for wait in reach[:2])
            reach = Reach(shortest, longest, shortest, longest)
        earliest, latest = int(reach.earliest), int(reach.latest)
        from_earliest, from_latest = window_earliest, window_latest
        window_earliest += int(reach.step_earliest)
        # Each wait is cut to whole milliseconds; where waits depend on each other, the sum is.
        window_latest += latest if reach.step_latest == reach.latest else reach.step_latest
        if end is not None:
            if from_earliest >= end if clip else window_earliest > end:
                return  # the deadline leaves no time for this retry
            if clip:
                earliest = min(earliest, max(1, end - int(from_latest)))
                window_earliest = min(window_earliest, end)
            latest = min(latest, end - from_earliest)
            window_latest = min(window_latest, float(end))
        row = Span(retry, int(nominal), earliest, latest, reach=bare)
        if told:
            row = row._replace(window_earliest_ms=window_earliest, window_latest_ms=int(window_latest))
        yield row
