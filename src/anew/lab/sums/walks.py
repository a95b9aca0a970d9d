"""Single jobs walked from their first failure to their last retry, where one wait tells of the next.

A job whose waits hang on one number for life is walked for that number. What else has no closed form is walked for a
thousand jobs side by side, whose numbers lie as evenly as can be.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from anew.backoff import Draws, Policy
from anew.lab.laws.same_number import SameNumber
from anew.lab.sums.even_numbers import numbers, ordered

MAX_STEPS: Final = 5_000
"""The most retries of one job that are walked one by one."""

_JOBS: Final = 1_024
_STEPS: Final = 150_000
_LONG: Final = 150
_MOST_PARTS: Final = 4
_LAST_NUMBER: Final = math.nextafter(1.0, 0.0)
_SCANNED: Final = 64


def last_instant(policy: Policy, retries: int, number: float) -> tuple[int, int]:
    """Walk one job whose waits hang on one number, until its retries or its time are spent.

    Args:
        policy: The policy; its jitter draws nothing but the number for life.
        retries: Retries at most.
        number: The number, in [0, 1).

    Returns:
        When its last retry comes after the first failure in milliseconds, and which that is.
    """
    draws, curve = SameNumber.of(number, number), _remembered(policy)
    draw, place = policy.jitter.draw, policy.place
    low, high = policy.floor_ms, policy.highest_ms
    deadline, clip = policy.deadline_ms, policy.on_deadline == "clip"
    at, carry = 0, None
    for retry in range(1, retries + 1):
        drawn = draw(retry, place(retry)[1], curve(retry), curve, draws, carry)
        wait, carry = drawn.wait, drawn.carry
        then = at + int(low if wait < low else high if wait > high else wait)
        if deadline is not None and then > deadline:
            return (deadline, retry) if clip and at < deadline else (at, retry - 1)
        at = then
    return at, retries


@functools.lru_cache(maxsize=4)
def _remembered(policy: Policy) -> Callable[[int], float]:
    """Give the nominal waits of a policy, each reckoned once."""
    return functools.lru_cache(maxsize=MAX_STEPS)(policy.nominal)


def _stepped(
    policy: Policy, retry: int, draws: Draws, at: int, carry: float | None
) -> tuple[int, float | None, bool]:
    """Do what `next_wait` does, without the words: give where the job is then, its carry, and whether it has ended."""
    curve, place = policy.nominal, policy.place(retry)[1]
    low, high = policy.floor_ms, policy.highest_ms
    drawn = policy.jitter.draw(retry, place, curve(retry), curve, draws, carry)
    wait, carry = drawn.wait, drawn.carry
    if carry is not None and carry > high:
        carry = float(high)
    then = at + int(low if wait < low else high if wait > high else wait)
    deadline = policy.deadline_ms
    if deadline is None or then <= deadline:
        return then, carry, False
    # Clipped, the last retry comes at the deadline; else it was the one before.
    return (deadline if policy.on_deadline == "clip" and at < deadline else at), carry, True


def one_wait(policy: Policy, retry: int, number: float) -> int:
    """Give one wait of a job whose waits hang on one number, the deadline left aside."""
    place, curve = policy.place(retry)[1], policy.nominal
    wait = policy.jitter.draw(retry, place, curve(retry), curve, SameNumber.of(number, number), None).wait
    return int(min(max(wait, policy.floor_ms), policy.highest_ms))


def monotone_parts(policy: Policy, retries: int, steps: int) -> list[tuple[float, float]] | None:
    """Give the stretches of the number for life on which the last instant never falls.

    A deadline parts them: jobs with a higher number may fit in a retry less. None if it falls inside a part, or if there
    are many parts.

    Args:
        policy: The policy.
        retries: Retries at most.
        steps: How many of them a job makes, for the time that this may take.
    """
    scanned = _SCANNED if steps <= _LONG else _SCANNED // 4
    marks = [index / scanned for index in range(scanned)] + [_LAST_NUMBER]
    walked = [last_instant(policy, retries, mark) for mark in marks]
    parts: list[tuple[float, float]] = []
    start = 0.0
    for (low, high), (before, after) in zip(pairwise(marks), pairwise(walked), strict=True):
        if before[1] - after[1] > 1 or len(parts) > _MOST_PARTS:
            return None
        if before[1] != after[1]:
            end, following = _change(policy, retries, low, high, before[1])
            parts.append((start, end))
            start = following
        elif after[0] < before[0]:
            return None
    return [*parts, (start, _LAST_NUMBER)]


def evenly(policy: Policy, retries: int, steps: int) -> list[int]:
    """Walk jobs whose numbers for life are evenly spaced; give their last instants, in order."""
    jobs = walkable(steps)
    return sorted(last_instant(policy, retries, (index + 0.5) / jobs)[0] for index in range(jobs))


def walkable(steps: int) -> int:
    """Give how many jobs of so many steps are walked: half a second's worth, at most a thousand."""
    return min(max(_STEPS // max(steps, 1), 64), _JOBS)


def _change(policy: Policy, retries: int, low: float, high: float, count: int) -> tuple[float, float]:
    """Give the last number with so many retries, and the next one, a thousand-millionth higher."""
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if last_instant(policy, retries, middle)[1] == count else (low, middle)
    return low, high


def side_by_side(policy: Policy, retries: int, steps: int) -> list[int]:
    """Walk jobs side by side, with `even_numbers`; give their last instants, in order.

    Args:
        policy: The policy; each of its waits needs one fresh number at most, and what is remembered.
        retries: Retries at most.
        steps: How many of them a job makes, for the time that this may take.
    """
    count = walkable(steps)
    jobs = [_Job(policy, (index + 0.5) / count) for index in range(count)]
    ended: list[int] = []
    for retry in range(1, retries + 1):
        order = ordered([job.at for job in jobs], [job.remembered for job in jobs])
        jobs = [jobs[index] for index in order]
        for job, fresh in zip(jobs, numbers(retry, len(jobs)), strict=True):
            job.step(retry, fresh)
        ended += [job.at for job in jobs if job.ended]
        jobs = [job for job in jobs if not job.ended]
        if not jobs:
            break
    return sorted([*ended, *(job.at for job in jobs)])


class _Job:
    """A job on its way, with its number for life."""

    __slots__ = ("_carry", "_lifelong", "_policy", "at", "ended")

    def __init__(self, policy: Policy, lifelong: float) -> None:
        self._policy, self._lifelong = policy, lifelong
        self._carry: float | None = None
        self.at, self.ended = 0, False

    @property
    def remembered(self) -> float:
        """Give what its next wait hangs on beside a fresh number."""
        return self._lifelong if self._carry is None else self._carry

    def step(self, retry: int, fresh: float) -> None:
        """Go on by one wait, or end before the deadline."""
        chance = SameNumber.of(fresh, self._lifelong)
        self.at, self._carry, self.ended = _stepped(self._policy, retry, chance, self.at, self._carry)
