"""A sum of independent waits, held value by value where they take single values, and on a grid where they lie anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from anew.lab.laws.pieces import Piece
from anew.lab.sums.grid import CELLS, Grid
from anew.lab.sums.lattices import LatticeSum, affordable
from anew.lab.sums.splits import Split

# Single values that come up more rarely, taken together, are left out beside what lies anywhere.
_TRACE: Final = 1e-5


class Plan(NamedTuple):
    """How waits are to be added.

    Args:
        waits: The waits, split.
        told: How many of them can be told value by value, from the first on.
        step: The step of the lattice on which their sums lie, as `LatticeSum` takes it.
    """

    waits: list[Split]
    told: int
    step: int


def finest(ways: Iterable[list[Split]], most: float = math.inf) -> Plan:
    """Take the first way to split waits in which all can be told value by value; else the last way.

    Args:
        ways: The same waits, split more and more coarsely; at least one way.
        most: No sum is higher.
    """
    for waits in ways:
        told, step = affordable(waits, most)
        plan = Plan(waits, told, step)
        if told >= len(waits):
            break
    return plan


class MixedSum:
    """A sum to which waits are added.

    Args:
        plan: How.
        start: The sum to begin with.
        width: How far sums that lie anywhere can lie above the lowest.
        cells: Cells of the grid for them.
        most: Sums above this are dropped.
    """

    def __init__(
        self, plan: Plan, *, start: int = 0, width: float, cells: int = CELLS, most: float = math.inf
    ) -> None:
        self.single = LatticeSum(plan.step, start=start, most=most)
        self.anywhere = Grid(float(start), width, cells)
        self._told, self._most = plan.told, most
        self._added = 0

    @property
    def share(self) -> float:
        """Give the share of all sums that are held."""
        return self.single.share + self.anywhere.share

    def add(self, wait: Split) -> None:
        """Add one wait."""
        told = self._added < self._told
        self._added += 1
        # Beyond what can be told value by value, all of a wait goes to the grid.
        spread = wait.windows if told else wait.pieces
        items = self.single.items() if spread else []
        origin = self.anywhere.origin
        self.anywhere.add([piece.centred() for piece in wait.pieces])
        if items:
            self.anywhere.receive(items, origin, [piece.centred() for piece in spread])
        self.anywhere.keep(self._most)
        told = told and (not spread or self.single.share > _TRACE)
        self.single.add(wait.runs if told else [])

    def pieces(self) -> list[Piece]:
        """Give the sums that lie anywhere, each whole millisecond standing for what would be cut down to it."""
        if not self.anywhere.share:
            return []
        return [
            piece._replace(low=piece.low + 0.5, high=piece.high + 0.5) for piece in self.anywhere.pieces()
        ]
