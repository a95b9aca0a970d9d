"""The lab's chance: numbers that follow from seed, stream, job and retry, one by one or for many jobs at once.

Nothing is drawn in an order: every number has an address, so a herd can be worked off job by job, retry by retry, in
blocks or on two machines, and each job meets the same luck. Pure Python and NumPy give the same bits.

Source: SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014). Every
(seed, stream, retry) is a SplitMix64 sequence of its own that starts somewhere among 2**64 places; the job counts along it.
"""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from anew.backoff import Draws, phase_of_ordinal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WAIT: Final = 1
"""Stream: the fresh number of a wait; no jitter draws more than one."""
HASH: Final = 2
"""Stream: the number that belongs to a job and a retry, in place of a hash of the job's id."""
PHASE: Final = 3
"""Stream: a job's number for life (retry 0), and where a herd's ordinals start (job 0, retry 1)."""
SUCCESS: Final = 4
"""Stream: whether a call succeeds."""
ARRIVAL: Final = 5
"""Stream: when a job fails for the first time."""

PhaseKind: TypeAlias = Literal["seq", "hash"]
"""Where phases come from: ordinals in a row, which spread best, or as good as hashed ids."""

_MASK: Final = 2**64 - 1
# SplitMix64's step and the constant of `phase_of_ordinal` are the same number: 2**64 / golden ratio.
_GOLDEN: Final = 0x9E3779B97F4A7C15
_MIX_1: Final = 0xBF58476D1CE4E5B9
_MIX_2: Final = 0x94D049BB133111EB
_UNIT: Final = 2.0**-53


def has_numpy() -> bool:
    """Tell whether NumPy can be imported, without doing it."""
    return find_spec("numpy") is not None


def number(seed: int, stream: int, job: int, retry: int) -> float:
    """Give one number in [0, 1), a multiple of 2**-53.

    Args:
        seed: Any integer; only its lowest 64 bits count.
        stream: What the number is for: `WAIT`, `HASH` and so on, >= 0.
        job: The job's number in the herd, >= 0.
        retry: The retry, >= 0.
    """
    return (_mix((key(seed, stream, retry) + job * _GOLDEN) & _MASK) >> 11) * _UNIT


def numbers(seed: int, stream: int, jobs: NDArray[np.uint64], retry: int) -> NDArray[np.float64]:
    """Give `number` for many jobs at once. Needs NumPy."""
    import numpy as np

    words = jobs * np.uint64(_GOLDEN)
    words += np.uint64(key(seed, stream, retry))
    spare = words >> np.uint64(30)
    words ^= spare
    words *= np.uint64(_MIX_1)
    np.right_shift(words, np.uint64(27), out=spare)
    words ^= spare
    words *= np.uint64(_MIX_2)
    np.right_shift(words, np.uint64(31), out=spare)
    words ^= spare
    return _fractions(words)


def _fractions(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    import numpy as np

    words >>= np.uint64(11)
    # Below 2**53 the sign does not matter, and signed numbers turn into floats faster.
    values = words.view(np.int64).astype(np.float64)
    values *= _UNIT
    return values


@functools.lru_cache(maxsize=4_096)
def key(seed: int, stream: int, retry: int) -> int:
    """Give where the sequence of a seed, a stream and a retry starts: 64 bits."""
    word = _mix((seed + _GOLDEN) & _MASK)
    word = _mix((word + stream * _GOLDEN) & _MASK)
    return _mix((word + retry * _GOLDEN) & _MASK)


def phase(kind: PhaseKind, seed: int, job: int) -> float:
    """Give a job's number in [0, 1) for life.

    Args:
        kind: ``seq``: golden-ratio phases of the ordinals from a start drawn in [1, 2**31); ``hash``: independent.
    """
    if kind == "hash":
        return number(seed, PHASE, job, 0)
    return phase_of_ordinal(_start(seed) + job)


def phases(kind: PhaseKind, seed: int, jobs: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Give `phase` for many jobs at once. Needs NumPy."""
    import numpy as np

    if kind == "hash":
        return numbers(seed, PHASE, jobs, 0)
    return _fractions((jobs + np.uint64(_start(seed))) * np.uint64(_GOLDEN))


def _start(seed: int) -> int:
    return 1 + int(number(seed, PHASE, 0, 1) * (2**31 - 1))


def _mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * _MIX_1) & _MASK
    word = ((word ^ (word >> 27)) * _MIX_2) & _MASK
    return word ^ (word >> 31)


class LabDraws(Draws, frozen=True):
    """What one job's wait at one retry may use in the lab: the same numbers as the vectorised form draws."""

    seed: int = 1
    job: int = 0

    @classmethod
    def of(cls, seed: int, job: int, retry: int, kind: PhaseKind = "seq") -> LabDraws:
        """Build the draws of one job for one retry."""
        fresh = functools.partial(number, seed, WAIT, job, retry)
        return cls(rng=fresh, phase=phase(kind, seed, job), seed=seed, job=job)

    def hashed(self, retry: int) -> float:
        """Give the number in [0, 1) that belongs to this job and this retry."""
        return number(self.seed, HASH, self.job, retry)
