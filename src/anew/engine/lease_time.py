"""The time by which leases end: the wall clock without its jumps.

Lease time is the wall clock less the sum of its jumps. The store keeps that sum, which all processes share, so that a jump moves no
row: the deadlines of holds are written and compared in lease time. All else follows the wall clock: due times, cron, retention.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from anew.clock import Clock
from anew.store.protocol import LeaseClock, Store

log = logging.getLogger("anew.engine")

JUMP_MS: Final = 2_000
"""From how much on a step of the wall clock counts as a jump. Less is time that passes: what NTP corrects, a leap second."""

NOTED_MS: Final = 30_000
"""How often lease time is written down. What a process that starts may go back by if the wall clock was set back while none ran."""


class LeaseTime:
    """Lease time as one engine knows it.

    While a process runs, the monotonic clock tells a jump from time that passes. Nothing does across a stop of all processes: there
    a wall clock that is ahead means that time has passed, and holds lapse; one that is behind what was written down last means that
    it was set back, and lease time goes on from there.

    A jump of a database's clock is left out only if it goes back. Forwards it cannot be told from a pause of this machine, which
    must lengthen nobody's leases.

    Args:
        store: Where the sum of jumps is written.
        clock: Of the engine.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._known: LeaseClock | None = None
        self._apart = 0  # the wall clock less the monotonic one, when they were last seen

    @property
    def jumped(self) -> int:
        """What the wall clock is ahead of lease time, ms."""
        return 0 if self._known is None else self._known.jumped

    def at(self, instant: int) -> int:
        """Give the lease time of an instant of the wall clock."""
        return instant - self.jumped

    def look(self, on_undo: list[Callable[[], None]]) -> int:
        """Look at the clocks, in a transaction that has just begun; give the wall clock.

        Args:
            on_undo: Gets what is to be called if the transaction does not last.
        """
        # In this order: a pause between them must not look like a wall clock that was set back, for then leases would end early.
        monotonic = self._clock.monotonic()
        now = self._clock.now()
        step = now - monotonic - self._apart
        known = self._known
        if known is None or abs(step) >= JUMP_MS or now - known.jumped >= known.noted + NOTED_MS:
            on_undo.append(partial(self._restore, known, self._apart))
            self._known = self._agree(now, step)
        self._apart += step
        return now

    def _restore(self, known: LeaseClock | None, apart: int) -> None:
        self._known, self._apart = known, apart

    def _agree(self, now: int, step: int) -> LeaseClock:
        """Bring what is known and what the store says together; write what is new."""
        stored = self._store.lease_clock()
        jumped = self._jumped(stored, now, step)
        lease_now = now - jumped
        if stored is not None and jumped == stored.jumped and lease_now < stored.noted + NOTED_MS:
            return stored
        agreed = LeaseClock(jumped, lease_now)
        self._store.note_lease_clock(agreed)
        return agreed

    def _jumped(self, stored: LeaseClock | None, now: int, step: int) -> int:
        """Give the sum of all jumps."""
        if stored is None:
            return 0
        if self._known is None:
            behind = stored.noted - (now - stored.jumped)
            return stored.jumped - max(behind, 0)
        if abs(step) < JUMP_MS:
            return stored.jumped
        left = step - (stored.jumped - self._known.jumped)  # others may have found the same jump
        if abs(left) < JUMP_MS or (self._store.remote and left > 0):
            return stored.jumped
        log.warning("the clock has jumped; leases go on as if it had not", extra={"jump_ms": left})
        return stored.jumped + left
