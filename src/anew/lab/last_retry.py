"""When a job's last retry comes: which outages it outlives, and when jobs that never succeed are dead.

The earliest and the latest time are exact where no deadline cuts the waits. All else is drawn: the lives of 100,000 jobs, or of
fewer where they are long or NumPy is missing, each number at its address (`anew.lab.chance`), so that the same policy always
gets the same answer. A share of n jobs is off by no more than ``100 / sqrt(n)`` points in 95 of 100 policies: 0.3 for 100,000.

Everything counts from the first failure, and runs take no time. A job *outlives* an outage that begins at its first
failure if its last retry comes at the outage's end or after it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from anew.backoff import Decorrelated, Even, NoJitter, Policy, Slices
from anew.backoff.windows import Windowed
from anew.lab.chance import has_numpy
from anew.lab.laws.shapes import Drawn, Law
from anew.lab.laws.spans import spans
from anew.lab.laws.wait import asks_custom, law, laws, phase_starts
from anew.lab.rhythm import in_order
from anew.lab.waves import Wave, decided, waits_between, waves

DRAWN: Final = 100_000
"""Jobs whose lives are drawn."""

_CALLS: Final = 10_000_000
"""Retries that are drawn at most: a third of a second."""

_PLAIN_CALLS: Final = 100_000
"""The same without NumPy."""

_PLAIN_DRAWN: Final = 4_000
_LEAST_DRAWN: Final = 200
MOST_STEPS: Final = 20_000
"""Retries that are drawn one by one."""

_MANY: Final = 400
"""More retries than these, and no deadline: some stand for their neighbours, of which a sum is as good as normal."""

_SEED: Final = 0x616E6577
"""The same for all policies: two that differ little then meet the same luck, and a search among them finds no noise."""


class LastRetry:
    """When the last retry comes.

    Args:
        policy: Whose it is.
        bounds: The earliest and the latest time that there is; None: those of the jobs that are drawn.
        plan, drawn: What is drawn, once it is asked for.
    """

    def __init__(self, policy: Policy, bounds: tuple[int, int] | None, plan: _Plan, drawn: int) -> None:
        self._policy, self._bounds, self._plan, self._drawn = policy, bounds, plan, drawn
        self.retries = policy.retries
        """Retries that the policy allows; None: as many as fit before the deadline."""

    @functools.cached_property
    def _lives(self) -> _Lives:
        return _lives(self._policy, self._plan, self._drawn)

    @property
    def times_ms(self) -> Wave:
        """When it comes for each of the jobs that were drawn, in order; of one, where chance has no part."""
        return self._lives.last_ms

    @property
    def is_whole(self) -> bool:
        """Whether every job's last retry was drawn."""
        return self._plan.whole or self._lives.all_ended

    @property
    def nearly(self) -> bool:
        """Whether the two ends are those of the jobs that were drawn: a few of many more may come earlier or later."""
        return self._bounds is None and not isinstance(self._policy.jitter, NoJitter)

    @functools.cached_property
    def earliest_ms(self) -> int:
        """The earliest time of the last retry after the first failure."""
        return int(self.times_ms[0]) if self._bounds is None else self._bounds[0]

    @functools.cached_property
    def latest_ms(self) -> int:
        """The least upper bound of that time."""
        return int(self.times_ms[-1]) if self._bounds is None else self._bounds[1]

    @functools.cached_property
    def _law(self) -> Drawn:
        return Drawn(self.times_ms)

    @property
    def mean_ms(self) -> float:
        """Its mean."""
        return min(max(self._law.mean_ms, self.earliest_ms), self.latest_ms)

    @property
    def sd_ms(self) -> float:
        """Its standard deviation."""
        return self._law.sd_ms

    @property
    def error(self) -> float:
        """How far a share may be off, 0 to 1: the half width of the 95 % interval where it is widest; 0 without chance."""
        return 0.0 if self.earliest_ms == self.latest_ms else 0.98 / math.sqrt(len(self.times_ms))

    def percentile(self, percent: float) -> int:
        """Give the time by which so many percent of the jobs that never succeed have made their last retry.

        At once the times by which they are dead: ``percentile(100)`` is the last one's.
        """
        if percent <= 0 or percent >= 100:
            return self.latest_ms if percent > 0 else self.earliest_ms
        return self._law.percentile(percent)

    def outlives(self, outage_ms: int) -> float:
        """Give the share of jobs, 0 to 1, that have a retry left at or after the end of an outage."""
        if outage_ms <= self.earliest_ms:
            return 1.0
        if outage_ms > self.latest_ms:
            return 0.0
        return 1 - bisect_left(self.times_ms, outage_ms) / len(self.times_ms)

    def outlived_by(self, percent: float) -> int:
        """Give the longest outage that at least so many percent of the jobs outlive."""
        if percent <= 0 or percent >= 100:
            return self.latest_ms if percent <= 0 else self.earliest_ms
        jobs = len(self.times_ms)
        return int(self.times_ms[jobs - math.ceil(jobs * percent / 100 - 1e-9)])


def outlives(policy: Policy, outage_ms: int) -> float | None:
    """Give the share of jobs that have a retry left at or after the end of an outage.

    Returns:
        0 to 1; 1 where retries never end; None where it cannot be told.
    """
    if is_endless(policy):
        return 1.0
    found = last_retry(policy)
    return None if found is None else found.outlives(outage_ms)


def is_endless(policy: Policy) -> bool:
    """Tell whether nothing ends the retries: neither limit nor phases nor deadline."""
    return policy.retries is None and policy.deadline_ms is None


@functools.lru_cache(maxsize=32)
def last_retry(policy: Policy, drawn: int = DRAWN) -> LastRetry | None:
    """Draw when the last retry comes.

    Args:
        policy: The policy.
        drawn: Jobs that are drawn, where their lives are not too long for so many.

    Returns:
        What was found; None where retries never end, where a custom function decides, or where they are too many to be
        drawn one by one and must be: before a deadline, or where each depends on the one before.
    """
    if is_endless(policy) or any(asks_custom(policy, start) for start in phase_starts(policy)):
        return None
    bounds = window(policy)
    law_of = policy if bounds is None else dataclasses.replace(policy, deadline_ms=None)
    found = LastRetry(law_of, bounds, _plan(law_of), drawn)
    return found if found.is_whole else None


def window(policy: Policy) -> tuple[int, int] | None:
    """Give the earliest and the latest time of the last retry; None where nothing but a deadline tells, or a custom function."""
    retries = policy.retries
    if retries is None or any(asks_custom(policy, start) for start in phase_starts(policy)):
        return None
    found = ends(dataclasses.replace(policy, deadline_ms=None)) if retries else (0, 0)
    return None if policy.deadline_ms is not None and found[1] > policy.deadline_ms else found


def shares_by_limit(policy: Policy, outage_ms: int, most: int) -> list[float]:
    """Give which share of the jobs would outlive an outage with a limit of 1, 2, ... so many retries, from one draw."""
    longer = dataclasses.replace(policy, limit=most)
    found = _lives(longer, _Plan(_singly(most), most), DRAWN, outage_ms)
    return [reached / len(found.last_ms) for reached in found.reached]


def waits_that_come(policy: Policy, rows: int, drawn: int = DRAWN) -> list[tuple[float, Wave]]:
    """Draw the waits of the first retries that a deadline lets happen.

    Returns:
        Of each retry the share, 0 to 1, of the jobs that make it, if they never succeed; and their waits before it, in order.
    """
    jobs = _jobs(policy, min(drawn, _CALLS // 4 // max(rows, 1)), rows)
    found = waves(policy, jobs, rows, _SEED)
    pairs = zip([None, *found], found, strict=False)
    come = [in_order([waits_between(wave, before)]) for before, wave in pairs]
    return [(len(waits) / jobs, waits) for waits in come]


def all_laws(policy: Policy, rows: int, drawn: int = DRAWN) -> list[Law | None]:
    """Give the laws of the first waits, deadline left aside, drawn where they depend on each other; None if a function decides."""
    found = [*laws(policy, rows)]
    if None in found and not any(asks_custom(policy, start) for start in phase_starts(policy)):
        come = waits_that_come(dataclasses.replace(policy, deadline_ms=None), rows, drawn)
        return [own or Drawn(waits) for own, (_, waits) in zip(found, come, strict=True)]
    return found


# -- which retries are drawn


def ends(policy: Policy) -> tuple[int, int]:
    """Give the earliest and the latest time of the last retry, no deadline."""
    retries = policy.retries or 0
    *_, last = spans(policy, min(retries, MOST_STEPS))
    earliest, latest = last.window_earliest_ms or 0, last.window_latest_ms or 0
    before = float(last.latest_ms or 0)
    for retry, count in blocks(policy, retries, start=MOST_STEPS + 1):
        nominal = policy.nominal(retry)
        reach = policy.jitter.reach(retry, policy.place(retry)[1], nominal, policy.nominal, before)
        low, high = (min(max(int(end), policy.floor_ms), policy.highest_ms) for end in reach[:2])
        earliest, latest = earliest + count * low, latest + count * high
    return earliest, latest


def blocks(policy: Policy, retries: int, start: int = 1) -> Iterator[tuple[int, int]]:
    """Give retries that stand for many: one by one at first, then in blocks that end where a phase does.

    Yields:
        A retry in the middle of its block, and how many it stands for.
    """
    over = [first - 1 for first in phase_starts(policy) if 1 < first <= retries]
    begun = 1
    for end in [*over, retries]:
        at = max(begun, start)
        while at <= end:
            # A hundredth of the way from the phase's beginning: no curve but an explosive one bends in that.
            size = min(max(1, (at - begun) // 200), end - at + 1)
            yield at + size // 2, size
            at += size
        begun = end + 1


class _Plan(NamedTuple):
    """The retries that are drawn.

    Attributes:
        steps: Each with how many it stands for.
        cost: How many of them a job makes, about.
        whole: They are all there are.
    """

    steps: Sequence[tuple[int, int]]
    cost: int
    whole: bool = True


def _plan(policy: Policy) -> _Plan:
    """Choose the retries that are drawn until the last one, or until the deadline."""
    retries = policy.retries
    if policy.deadline_ms is None and retries is not None:
        if retries > _MANY and not isinstance(policy.jitter, Decorrelated | Slices):
            found = list(blocks(policy, retries))
            return _Plan(found, len(found))
        return _Plan(_singly(min(retries, MOST_STEPS)), retries, retries <= MOST_STEPS)
    most = MOST_STEPS if retries is None else min(retries, MOST_STEPS)
    told = law(policy, 1)
    share = 1.0 if told is None or not policy.nominal(1) else told.mean_ms / policy.nominal(1)
    end, cost = float(policy.deadline_ms or 0), 0
    while cost < most and end > 0:
        cost += 1
        end -= max(share * min(policy.nominal(cost), policy.highest_ms), float(policy.floor_ms))
    return _Plan(_singly(most), cost + 1, most == retries)


def _singly(retries: int) -> list[tuple[int, int]]:
    return [(retry, 1) for retry in range(1, retries + 1)]


# -- the draw


def _jobs(policy: Policy, drawn: int, cost: int) -> int:
    """Give how many jobs are drawn: so many, or fewer where the life of each costs more; one where chance has no part."""
    if isinstance(policy.jitter, NoJitter):
        return 1
    quick = has_numpy()
    most = min(drawn, (_CALLS if quick else _PLAIN_CALLS) // max(cost, 1))
    jobs = max(most, _LEAST_DRAWN)
    return jobs if quick else min(jobs, _PLAIN_DRAWN)


class _Lives(NamedTuple):
    """What was drawn.

    Attributes:
        last_ms: When the last retry of each job comes, in order.
        reached: After each retry: how many jobs have reached the end of the outage.
        all_ended: Whether the deadline has ended every job's retries.
    """

    last_ms: Wave
    reached: list[int]
    all_ended: bool


def _lives(policy: Policy, plan: _Plan, drawn: int, outage_ms: int = 0) -> _Lives:
    draw = _in_arrays if has_numpy() else _in_plain_python
    return draw(policy, plan.steps, _jobs(policy, drawn, plan.cost), outage_ms)


def _in_arrays(policy: Policy, steps: Sequence[tuple[int, int]], jobs: int, outage_ms: int) -> _Lives:
    import numpy as np

    from anew.lab.herd import BLOCK, past_deadline, rows
    from anew.lab.vector import Waits

    waits, deadline, clip = Waits(policy), policy.deadline_ms, policy.on_deadline == "clip"
    means, all_ended = _means(policy, steps), True
    last: list[Any] = []
    reached = [0] * len(steps)
    for start in range(0, jobs, BLOCK):
        numbers = np.arange(start, min(start + BLOCK, jobs), dtype=np.uint64)
        at, alive = np.zeros(len(numbers), dtype=np.int64), np.ones(len(numbers), dtype=np.bool_)
        drawn = rows(waits, numbers, (retry for retry, _ in steps), _SEED)
        for index, (wait, (_, count)) in enumerate(zip(drawn, steps, strict=True)):
            row = wait if count == 1 else _of_many(wait, count, means[index])
            if deadline is not None:
                alive &= ~past_deadline(row, deadline - at, clip=clip)
                row[~alive] = 0
            at += row
            if outage_ms:
                reached[index] += int(np.count_nonzero(at >= outage_ms))
            elif not alive.any():
                break
        last.append(at)
        all_ended = all_ended and not alive.any()
    times: Any = np.sort(np.concatenate(last))
    return _Lives(times, reached, all_ended)


def _in_plain_python(policy: Policy, steps: Sequence[tuple[int, int]], jobs: int, outage_ms: int) -> _Lives:
    means, all_ended = _means(policy, steps), True
    retries, counts = [retry for retry, _ in steps], [count for _, count in steps]
    last: list[int] = []
    reaching = [0] * len(steps)
    for job in range(jobs):
        drawn = decided(policy, job, retries, _SEED)
        course = [*accumulate(int(_of_many(*one)) for one in zip(drawn, counts, means, strict=False))]
        last.append(course[-1] if course else 0)
        all_ended = all_ended and len(course) < len(steps)
        if (first := bisect_left(course, outage_ms)) < len(course):
            reaching[first] += 1
    return _Lives(sorted(last), [*accumulate(reaching)], all_ended)


def _of_many(wait: Any, count: int, mean: float | None) -> Any:
    """Give what many waits come to, from one that stands for them.

    Args:
        wait: That one, of a job or of many jobs.
        count: How many they are.
        mean: Their mean, where each is drawn anew: then their sum strays by the root of their number only. None: all are alike.
    """
    if mean is None:
        return wait * count
    total = count * mean + math.sqrt(count) * (wait - mean)
    return total.astype("int64") if hasattr(total, "astype") else total


def _means(policy: Policy, steps: Iterable[tuple[int, int]]) -> list[float | None]:
    """Give the mean wait of each retry that stands for many and is drawn anew each time."""
    jitter = policy.jitter
    is_fresh = not isinstance(jitter, Even | NoJitter) and not (
        isinstance(jitter, Windowed) and jitter.source == "job"
    )
    found: list[float | None] = []
    for retry, count in steps:
        told = law(policy, retry) if is_fresh and count > 1 else None
        found.append(None if told is None else told.mean_ms)
    return found
