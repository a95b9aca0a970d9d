"""Which worker of this process was given which reservation, so that a report of an attempt that is over is known as late.

Some protocols name a job in their reports and no attempt. All in memory: what another process has given out, or one before this,
is not known here, and then the job's state alone decides.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

MOST: Final = 65_536
"""Reservations that are known; beyond these the oldest are forgotten."""


class Reservers:
    """Those of one engine.

    Args:
        gave: Tells whether a token is of a take of this process.
    """

    def __init__(self, gave: Callable[[int], bool]) -> None:
        self._gave = gave
        self._given: OrderedDict[int, tuple[int, str]] = OrderedDict()

    def note(self, reserved: Iterable[tuple[int, str, str]], token: int) -> None:
        """Workers have got jobs, all under one token: the key, the queue, and the worker, who is passed over without a name."""
        given = self._given
        for key, _, worker in reserved:
            if worker:
                given[key] = token, worker
        while len(given) > MOST:
            given.popitem(last=False)

    def last(self, key: int) -> tuple[int, str] | None:
        """Give the token and the worker of the last reservation of a job that this process has given out."""
        return self._given.get(key)

    def has(self, worker: str, key: int, token: int | None) -> bool:
        """Tell whether an attempt at a job is a worker's own, as far as is known; that of one without a name is nobody else's."""
        last = self._given.get(key)
        return last == (token, worker) if worker else last is None or last[0] != token

    def can_report(self, worker: str, key: int, token: int | None) -> bool:
        """Tell whether a worker's report can be of the attempt that a job is in now.

        It cannot if that attempt is known to be somebody else's, or if this process has begun it and gave the worker an earlier
        one. Of an attempt that another process has begun nothing is known: the same worker may have it by a connection there.
        A worker without a name may report on all.

        Args:
            worker: Its name.
            key: Of the job.
            token: That of the attempt; None if it is in none.
        """
        last = self._given.get(key)
        if last is None:
            return True
        if token is None:
            return False
        of_another = last[0] == token and last[1] != worker
        over = last[1] == worker and last[0] != token and self._gave(token)
        return not worker or not (of_another or over)

    def forget(self, key: int) -> None:
        """The attempt is over."""
        self._given.pop(key, None)
