"""What chance a wait may use: a generator, the job's phase, or a hash of its id.

Nothing here rolls a die of its own. A *phase* is one number in [0, 1) that a job keeps for life; a *draw* by
hash is one number per job and retry that anybody can compute again.

Source of the phase functions: golden-ratio (Kronecker) sequence on 64-bit integers; BLAKE2b, RFC 7693.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

import msgspec

# floor(2**64 / golden ratio), odd: its multiples modulo 2**64 spread as evenly as any sequence can.
_GOLDEN: Final = 11_400_714_819_323_198_485
_MASK: Final = 2**64 - 1
_UNIT: Final = 2.0**-53
_RETRY: Final = b"anew.retry"


class Draws(msgspec.Struct, frozen=True, gc=False):
    """What one job's wait may use.

    Args:
        rng: Gives a fresh number in [0, 1) at each call, such as ``Random(seed).random``.
        job_id: The job's public id; hashed where a policy wants reproducible numbers.
        phase: The job's number in [0, 1) for life; None: a hash of the id is taken instead.
        key: Secret of the store, at most 64 bytes, so that nobody can choose ids that collide.
    """

    rng: Callable[[], float]
    job_id: bytes = b""
    phase: float | None = None
    key: bytes = b""

    def lifelong(self) -> float:
        """Give the number that this job keeps: its phase, or the hash of its id where it has none."""
        phase = self.phase
        return phase if phase is not None and 0.0 <= phase < 1.0 else phase_of_id(self.job_id, self.key)

    def hashed(self, retry: int) -> float:
        """Give the number in [0, 1) that belongs to this job and this retry."""
        salt = retry.to_bytes(8, "big")
        digest = blake2b(self.job_id, digest_size=8, key=self.key, salt=salt, person=_RETRY).digest()
        return _fraction(int.from_bytes(digest, "big"))


def phase_of_ordinal(ordinal: int, offset: int = 0) -> float:
    """Give the phase of the n-th failure (or job): ``frac(n / golden ratio)``.

    Consecutive ordinals spread more evenly than chance can: n of them keep at least 0.44 / n apart.

    Args:
        ordinal: A dense counter, >= 0. Ids that merely grow with time are not dense: hash those.
        offset: Shifts a whole counter, so that two servers' counters do not coincide; see ``phase_offset``.

    Returns:
        A number in [0, 1), a multiple of 2**-53.
    """
    return ((ordinal * _GOLDEN + offset & _MASK) >> 11) * _UNIT


def phase_of_id(job_id: bytes, key: bytes = b"") -> float:
    """Give the phase of an id of any kind: keyed BLAKE2b, cut to 53 bits.

    Args:
        job_id: The id's bytes.
        key: A secret, at most 64 bytes; without it whoever chooses ids can put all jobs into one phase.

    Returns:
        A number in [0, 1), a multiple of 2**-53.
    """
    return _fraction(int.from_bytes(blake2b(job_id, digest_size=8, key=key).digest(), "big"))


def phase_offset(*names: bytes, key: bytes = b"") -> int:
    """Give an offset for ``phase_of_ordinal`` from the names of a counter's owners: store, queue, server."""
    digest = blake2b(digest_size=8, key=key)
    for name in names:
        digest.update(len(name).to_bytes(8, "big") + name)
    return int.from_bytes(digest.digest(), "big")


def _fraction(word: int) -> float:
    return (word >> 11) * _UNIT
