"""The waits of many jobs, decided one by one: for jitters of which no arithmetic on columns is known. Needs NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from anew.backoff.chance import Draws
from anew.backoff.decide import Exhausted, Previous, next_wait
from anew.backoff.policy import Policy
from anew.lab.vector.forms import Chance, Floats, Millis


class _Cells(Draws, frozen=True, kw_only=True):
    """One job's draws out of the columns of all."""

    cell: Callable[[str], float]

    def lifelong(self) -> float:
        """Give the number that this job keeps."""
        return self.cell("lifelong")

    def hashed(self, retry: int) -> float:
        """Give the number of this job and this retry."""
        return self.cell("hashed")


class _Columns:
    """Columns of chance, fetched when the first job asks."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._fresh: list[list[float]] = []
        self._others: dict[str, list[float]] = {}

    def of(self, index: int) -> _Cells:
        """Give the draws of one job."""
        drawn = iter(range(2**31))
        return _Cells(
            rng=lambda: self._fresh_column(next(drawn))[index], cell=lambda name: self._column(name)[index]
        )

    def _fresh_column(self, number: int) -> list[float]:
        while len(self._fresh) <= number:
            self._fresh.append(self._chance.fresh().tolist())
        return self._fresh[number]

    def _column(self, name: str) -> list[float]:
        if name not in self._others:
            column = self._chance.lifelong() if name == "lifelong" else self._chance.hashed()
            self._others[name] = column.tolist()
        return self._others[name]


def one_by_one(
    policy: Policy, retry: int, chance: Chance, carry: Floats | None
) -> tuple[Millis, Floats | None]:
    """Ask `next_wait` about each job; arguments and results as of `anew.lab.vector.waits.waits`."""
    endless = replace(policy, deadline_ms=None)
    columns = _Columns(chance)
    known = [math.nan] * len(chance) if carry is None else carry.tolist()
    given, kept = [], []
    for index, before in enumerate(known):
        previous = None if math.isnan(before) else Previous(before)
        wait = next_wait(endless, retry, columns.of(index), previous=previous, beyond_limit=True)
        assert not isinstance(wait, Exhausted)
        given.append(wait.wait_ms)
        kept.append(math.nan if wait.carry is None else wait.carry)
    return np.array(given, dtype=np.int64), np.array(kept) if not all(math.isnan(x) for x in kept) else None
