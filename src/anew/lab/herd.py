"""A herd: many jobs that fail together at zero and at every retry. Needs NumPy.

Jobs are numbered from 0 and draw their chance from seed, job and retry alone, so that a part of a herd (``first``)
does what it does in the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from anew.backoff import Policy
from anew.errors import InvalidInput
from anew.lab import chance
from anew.lab.vector import Floats, Millis, Waits

BLOCK: Final = 8_192
"""Jobs worked off at a time: a handful of columns of so many numbers stay in a core's own cache, and each is
small enough to come from the heap; from 128 KiB on the C library maps and clears fresh pages every time."""

MAX_INSTANTS: Final = 300_000_000
"""The most instants in one answer: 2.4 GB. ``blocks`` gives as many as one likes."""

_MAX_RETRIES: Final = 1_000_000


class HerdChance:
    """The chance of some jobs of a herd at one retry, by `anew.lab.chance`.

    Args:
        seed: The seed.
        jobs: The jobs' numbers.
        retry: The retry, the same for all.
        phases: The jobs' numbers for life, where they are known already.
        kind: Where phases come from.
    """

    def __init__(
        self,
        seed: int,
        jobs: NDArray[np.uint64],
        retry: int,
        *,
        phases: Floats | None = None,
        kind: chance.PhaseKind = "seq",
    ) -> None:
        self._seed = seed
        self._jobs = jobs
        self._retry = retry
        self._phases = phases
        self._kind = kind
        self._drawn = 0

    def __len__(self) -> int:
        """Give the number of jobs."""
        return len(self._jobs)

    def fresh(self) -> Floats:
        """Give a fresh number for each job."""
        self._drawn += 1
        return self.stream(chance.fresh_stream(self._drawn - 1))

    def hashed(self) -> Floats:
        """Give the number of each job and this retry."""
        return self.stream(chance.HASH)

    def lifelong(self) -> Floats:
        """Give each job's number for life."""
        if self._phases is None:
            self._phases = chance.phases(self._kind, self._seed, self._jobs)
        return self._phases

    def stream(self, stream: int) -> Floats:
        """Give the numbers of any stream at this retry."""
        return chance.numbers(self._seed, stream, self._jobs, self._retry)


def instants(
    policy: Policy,
    jobs: int,
    *,
    retries: int | None = None,
    seed: int = 1,
    phase: chance.PhaseKind = "seq",
    first: int = 0,
) -> Millis:
    """Give when each job of a herd runs again if all fail at 0 and every retry fails at once.

    Args:
        policy: The law; its limit and deadline do not count here.
        jobs: How many jobs, >= 1.
        retries: How many retries; None: as many as the policy has.
        seed: Any integer.
        phase: Where phases come from: ``seq``, ordinals in a row; ``hash``, as good as hashed ids.
        first: The number of the first job.

    Returns:
        Milliseconds after the first failure, shape (retries, jobs).

    Raises:
        InvalidInput: A number is out of bounds, or the policy has no end and ``retries`` is None.
    """
    count = _checked(policy, jobs, retries, first)
    if jobs * count > MAX_INSTANTS:
        raise InvalidInput(
            f"jobs: {jobs} jobs with {count} retries are {jobs * count} instants; expected at most {MAX_INSTANTS}",
            field="jobs",
            value=jobs,
        )
    table = np.empty((count, jobs), dtype=np.int64)
    for start, block in blocks(policy, jobs, retries=count, seed=seed, phase=phase, first=first):
        table[:, start - first : start - first + block.shape[1]] = block
    return table


def blocks(
    policy: Policy,
    jobs: int,
    *,
    retries: int | None = None,
    seed: int = 1,
    phase: chance.PhaseKind = "seq",
    first: int = 0,
    size: int = BLOCK,
) -> Iterator[tuple[int, Millis]]:
    """Give the same as `instants` for a herd of any size, block by block.

    Args:
        policy: As for `instants`, and so are the others.
        size: Jobs per block.

    Yields:
        The number of the block's first job, and its instants, shape (retries, jobs in this block).

    Raises:
        InvalidInput: As for `instants`.
    """
    count = _checked(policy, jobs, retries, first)
    waits = Waits(policy)
    for start in range(first, first + jobs, size):
        numbers = np.arange(start, min(start + size, first + jobs), dtype=np.uint64)
        phases = chance.phases(phase, seed, numbers)
        block = np.empty((count, len(numbers)), dtype=np.int64)
        carry: Floats | None = None
        for index in range(count):
            luck = HerdChance(seed, numbers, index + 1, phases=phases)
            row, carry = waits.one(index + 1, luck, carry)
            if index:
                row += block[index - 1]
            block[index] = row
        yield start, block


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


def _checked(policy: Policy, jobs: int, retries: int | None, first: int) -> int:
    """Give the number of retries, all arguments being within bounds."""
    count = policy.retries if retries is None else retries
    if count is None:
        raise InvalidInput(
            "retries: None, and the policy has no end; expected a number of retries", field="retries"
        )
    for name, value, low, high in (
        ("jobs", jobs, 1, 2**40),
        ("retries", count, 0, _MAX_RETRIES),
        ("first", first, 0, 2**40),
    ):
        if not low <= value <= high:
            raise InvalidInput(
                f"{name}: {value} is not valid; expected a whole number from {low} to {high}",
                field=name,
                value=value,
            )
    return count
