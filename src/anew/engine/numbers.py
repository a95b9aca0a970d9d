"""Numbers that must not repeat, also after a restart: the jobs' keys, and the phases of those that fail."""

from __future__ import annotations

from anew.backoff import phase_of_ordinal, phase_offset
from anew.jobs.ids import COUNTER_BITS
from anew.store.protocol import Store

KEYS_AHEAD = 60_000 << COUNTER_BITS
"""Keys promised at once: a minute's worth, so that the promise is written once a minute and not once a batch."""

FAILURES_AHEAD = 10_000


class Numbers:
    """Gives out numbers inside batches; the store keeps the promise that none below it comes again.

    Args:
        store: Where the promises are written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last_key = store.identity.last_key
        self._failures = store.identity.last_failure
        identity = store.identity
        # Without an offset the n-th failures of all stores would share one phase.
        self._offset = phase_offset(identity.tag.encode("ascii"), key=identity.secret)

    def next_keys(self, n: int, now: int) -> int:
        """Give the first of `n` consecutive keys: as late as the clock says, never at or before an earlier one."""
        first = max(self._last_key + 1, now << COUNTER_BITS)
        self._last_key = first + n - 1
        if self._last_key > self._store.identity.last_key:
            self._store.reserve_keys(self._last_key + KEYS_AHEAD)
        return first

    def next_phase(self) -> float:
        """Give the phase of one more job that fails for the first time, in [0, 1); see ``phase_of_ordinal``."""
        self._failures += 1
        if self._failures > self._store.identity.last_failure:
            self._store.reserve_failures(self._failures + FAILURES_AHEAD)
        return phase_of_ordinal(self._failures, self._offset)
