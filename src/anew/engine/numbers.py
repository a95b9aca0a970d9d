"""Numbers that must not repeat, in whichever process: the jobs' keys, and the phases of those that fail."""

from __future__ import annotations

from anew.backoff import phase_of_ordinal, phase_offset
from anew.jobs.ids import COUNTER_BITS
from anew.store.protocol import Store


class Numbers:
    """Gives out numbers inside batches. The store writes them with its commits, and says where to go on.

    Args:
        store: What keeps them.
    """

    def __init__(self, store: Store) -> None:
        self._identity = store.identity
        # Without an offset the n-th failures of all stores would share one phase.
        self._offset = phase_offset(self._identity.tag.encode("ascii"), key=self._identity.secret)

    def next_keys(self, n: int, now: int) -> range:
        """Give `n` consecutive keys: from the clock, and above every earlier one."""
        first = max(self._identity.last_key + 1, now << COUNTER_BITS)
        self._identity.last_key = first + n - 1
        return range(first, first + n)

    def next_phase(self) -> float:
        """Give the phase of one more job that fails for the first time, in [0, 1); see ``phase_of_ordinal``."""
        self._identity.last_failure += 1
        return phase_of_ordinal(self._identity.last_failure, self._offset)
