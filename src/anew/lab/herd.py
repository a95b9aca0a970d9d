"""A herd: many jobs that fail together at zero and at every retry. Needs NumPy.

Jobs are numbered from 0 and draw their chance from seed, job and retry alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab import chance
from anew.lab.vector import Floats, HerdChance, Millis, Waits
from anew.lab.waves import ABSENT
from anew.units import refused

BLOCK: Final = 8_192
"""Jobs worked off at a time: a handful of columns of so many numbers stay in a core's own cache, and each is
small enough to come from the heap; from 128 KiB on the C library maps and clears fresh pages every time."""

MAX_INSTANTS: Final = 300_000_000
"""The most instants in one answer: 2.4 GB."""

_MAX_RETRIES: Final = 1_000_000


def instants(
    policy: Policy,
    jobs: int,
    *,
    retries: int | None = None,
    seed: int = 1,
    phase: chance.PhaseKind = "seq",
) -> Millis:
    """Give when each job of a herd runs again if all fail at 0 and every retry fails at once.

    Args:
        policy: The law; its limit and deadline do not count here.
        jobs: How many jobs, >= 1.
        retries: How many retries; None: as many as the policy has.
        seed: Any integer.
        phase: Where phases come from: ``seq``, ordinals in a row; ``hash``, as good as hashed ids.

    Returns:
        Milliseconds after the first failure, shape (retries, jobs).

    Raises:
        InvalidInput: A number is out of bounds, or the policy has no end and ``retries`` is None.
    """
    count = _checked(policy, jobs, retries)
    return courses(replace(policy, deadline_ms=None), jobs, count, seed, phase)


def courses(policy: Policy, jobs: int, retries: int, seed: int, phase: chance.PhaseKind) -> Millis:
    """Give the same as `instants`, held to the deadline: `ABSENT` stands where it allows no retry."""
    table = np.empty((retries, jobs), dtype=np.int64)
    waits, deadline_ms = Waits(policy), policy.deadline_ms
    for start in range(0, jobs, BLOCK):
        numbers = np.arange(start, min(start + BLOCK, jobs), dtype=np.uint64)
        block = table[:, start : start + BLOCK]
        at, over = np.zeros(len(numbers), dtype=np.int64), np.zeros(len(numbers), dtype=np.bool_)
        steps = range(1, retries + 1)
        for row, wait in zip(block, rows(waits, numbers, steps, seed, phase), strict=True):
            if deadline_ms is not None:
                over |= past_deadline(wait, deadline_ms - at, clip=policy.on_deadline == "clip")
            at += wait
            row[:] = at if deadline_ms is None else np.where(over, ABSENT, at)
    return table


def rows(
    waits: Waits,
    numbers: NDArray[np.uint64],
    retries: Iterable[int],
    seed: int,
    phase: chance.PhaseKind = "seq",
) -> Iterator[Millis]:
    """Give the waits of some jobs before one retry after the other, deadline left aside; they may be changed in place."""
    phases = chance.phases(phase, seed, numbers)
    carry: Floats | None = None
    for retry in retries:
        row, carry = waits.one(retry, HerdChance(seed, numbers, retry, phases=phases), carry)
        yield row


def past_deadline(waits: Millis, left_ms: Millis, *, clip: bool) -> NDArray[np.bool_]:
    """Hold one wait of many jobs to a deadline, as `anew.backoff.next_wait` does for one job.

    Args:
        waits: The wait of each job. With ``clip`` they are cut short in place.
        left_ms: What is left until the job's deadline when its wait begins.
        clip: Cut short the waits that would pass a deadline that is still ahead.

    Returns:
        Which jobs have no further retry.
    """
    late: NDArray[np.bool_] = waits > left_ms
    if clip:
        np.minimum(waits, left_ms, out=waits)
        late &= left_ms <= 0
    return late


def _checked(policy: Policy, jobs: int, retries: int | None) -> int:
    """Give the number of retries, all arguments being within bounds."""
    count = policy.retries if retries is None else retries
    if count is None:
        message = "retries: None, and the policy has no end; expected a number of retries"
        raise InvalidInput(message, field="retries")
    for name, value, low, high in (("jobs", jobs, 1, 2**40), ("retries", count, 0, _MAX_RETRIES)):
        if not low <= value <= high:
            raise refused(name, value, f"a whole number from {low} to {high}")
    if jobs * count > MAX_INSTANTS:
        message = f"jobs: {jobs} jobs with {count} retries are {jobs * count} instants; expected at most {MAX_INSTANTS}"
        raise InvalidInput(message, field="jobs", value=jobs)
    return count
