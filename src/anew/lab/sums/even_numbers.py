"""Numbers for jobs that are walked side by side, so few of them that chance would leave gaps.

Before every retry the jobs are put in order, by the time that has passed, and small groups of neighbours by what they
remember; along that order the numbers go on in golden steps. So any jobs that are alike get numbers that lie evenly in
[0, 1), and a thousand jobs tell what a hundred thousand drawn by chance would.

Source:
    P. L'Ecuyer, C. Lécot, B. Tuffin, "A Randomized Quasi-Monte Carlo Simulation Method for Markov Chains",
    Operations Research 56 (2008).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Final

from anew.lab.chance import WAIT, number

_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_SEED: Final = 20_260


def numbers(retry: int, count: int) -> Sequence[float]:
    """Give the numbers of a retry, in [0, 1), in the order of `ordered`.

    Args:
        retry: 1 = the first.
        count: How many jobs there are.
    """
    # Each retry begins elsewhere: were that told by a rule, it could keep step with the groups.
    shift = number(_SEED, WAIT, 0, retry)
    return [(shift + step) % 1.0 for step in _golden(count)]


@functools.lru_cache(maxsize=8)
def _golden(count: int) -> list[float]:
    return [index * _GOLDEN % 1.0 for index in range(count)]


def ordered(passed: Sequence[float], remembered: Sequence[float]) -> list[int]:
    """Give the order of jobs in which numbers are handed out.

    Args:
        passed: The time that has passed, of each job.
        remembered: What each remembers of the waits before.
    """
    order = sorted(range(len(passed)), key=passed.__getitem__)
    size = math.isqrt(len(order)) or 1
    found: list[int] = []
    for index in range(0, len(order), size):
        # There and back, so that neighbours in the order are alike where groups meet.
        found += sorted(
            order[index : index + size], key=remembered.__getitem__, reverse=bool(index // size % 2)
        )
    return found
