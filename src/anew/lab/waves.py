"""The retries of a herd, wave by wave, and how many fall into bins: with NumPy where it is, without it where not."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

from anew.backoff import Exhausted, Policy, Previous, next_wait
from anew.lab.chance import LabDraws, PhaseKind, has_numpy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Wave: TypeAlias = "list[int] | NDArray[np.int64]"
"""One retry's instants (or waits), one for each job."""

ABSENT: Final = -1
"""Stands for the instant of a retry that a deadline forbids."""


def as_wave(instants: Sequence[int] | NDArray[np.int64]) -> Wave:
    """Give instants as NumPy's array where NumPy is, else as a list."""
    if not has_numpy():
        return list(instants)
    import numpy as np

    return np.asarray(instants, dtype=np.int64)


def places(ordered: Wave, values: Sequence[int]) -> list[int]:
    """Give for each value how many of some ordered instants lie before it."""
    if isinstance(ordered, list):
        return [bisect_left(ordered, value) for value in values]
    found: list[int] = ordered.searchsorted(values).tolist()
    return found


def decided(
    policy: Policy, job: int, retries: Iterable[int], seed: int, phase: PhaseKind = "seq"
) -> Iterator[int]:
    """Give the waits of one job of a herd if every retry fails and runs take no time: the engine's own decisions."""
    now, carry = 0, None
    for retry in retries:
        draws = LabDraws.of(seed, job, retry, phase)
        wait = next_wait(policy, retry, draws, previous=Previous(carry), elapsed_ms=now)
        if isinstance(wait, Exhausted):
            return
        now, carry = now + wait.wait_ms, wait.carry
        yield wait.wait_ms


def instants(policy: Policy, job: int, retries: int, seed: int, phase: PhaseKind = "seq") -> tuple[int, ...]:
    """Give when that job retries, after its first failure."""
    return tuple(accumulate(decided(policy, job, range(1, retries + 1), seed, phase)))


def waves(policy: Policy, jobs: int, retries: int, seed: int, phase: PhaseKind = "seq") -> list[Wave]:
    """Give for each retry when it comes to each job, `ABSENT` where it does not: the deadline alone may forbid one."""
    if not has_numpy():
        rows = [instants(policy, job, retries, seed, phase) for job in range(jobs)]
        return [[row[k] if k < len(row) else ABSENT for row in rows] for k in range(retries)]
    from anew.lab.herd import courses

    return [*courses(policy, jobs, retries, seed, phase)]


def waits_between(wave: Wave, before: Wave | None) -> Wave:
    """Give the waits that lead from one wave to the next, without the jobs that have none."""
    if isinstance(wave, list):
        starts = [0] * len(wave) if before is None else list(before)
        return [end - start for start, end in zip(starts, wave, strict=True) if end != ABSENT]
    waits = wave if before is None else wave - before
    kept: NDArray[np.int64] = waits[wave != ABSENT]
    return kept


def tally(wave: Wave, edges: Sequence[float]) -> list[int]:
    """Count a wave into bins; what lies before the first or after the last bin counts to that bin.

    Args:
        wave: Instants or waits; `ABSENT` does not count.
        edges: Where the bins begin and the last one ends, growing.
    """
    bins = len(edges) - 1
    if isinstance(wave, list):
        counts = [0] * bins
        for ms in wave:
            if ms != ABSENT:
                counts[min(max(bisect_right(edges, ms) - 1, 0), bins - 1)] += 1
        return counts
    import numpy as np

    places = np.clip(np.searchsorted(np.asarray(edges), wave[wave != ABSENT], "right") - 1, 0, bins - 1)
    found: list[int] = np.bincount(places, minlength=bins).tolist()
    return found


def ends(found: Sequence[Wave]) -> tuple[int, int]:
    """Give where an axis for some waves begins and ends, in ms.

    It begins where all but a hundredth of the first wave lie behind, so that one early bird does not stretch an axis of
    powers; it is never below 1.
    """
    last = max((greatest(wave) for wave in found), default=0)
    begin = next((ms for wave in found if (ms := early(wave))), 0)
    return (begin, max(last, begin + 1)) if begin else (1, max(last, 2))


def greatest(wave: Wave) -> int:
    """Give the latest instant; `ABSENT` where there is none."""
    return max(wave, default=ABSENT) if isinstance(wave, list) else int(wave.max(initial=ABSENT))


def early(wave: Wave) -> int:
    """Give the first instant above 0 but for a hundredth of them; 0 where there is none."""
    if isinstance(wave, list):
        late = sorted(ms for ms in wave if ms > 0)
        return late[len(late) // 100] if late else 0
    import numpy as np

    there = wave[wave > 0]
    place = len(there) // 100
    return int(np.partition(there, place)[place]) if len(there) else 0
