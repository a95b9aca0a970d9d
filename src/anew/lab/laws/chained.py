"""The law of a sum of ``decorrelated`` waits: a chain whose state is the wait before, with the sum carried along.

Jobs are held as shares by wait before (cells of a geometric grid, and the ceiling) and by sum so far (marks). One
retry spreads every state evenly over the waits it may lead to, and moves each of these on by its own wait.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from anew.backoff import Decorrelated, Policy
from anew.lab.laws.chains import LEAST, Carried
from anew.lab.laws.shapes import Stretch

# States for each time that the ceiling is e times the shortest wait, and the fewest and most of them.
_PER_E: Final = 10
_FEWEST, _MOST = 16, 96
_MARKS: Final = 160
_LONG_TAIL: Final = 2_000
_NOTHING: Final = 1e-14

Row = list[float]


def chained(policy: Policy, after: Sequence[int], latest: float) -> list[list[Stretch]]:
    """Give the laws of the sums of the first so many waits.

    Args:
        policy: A policy with the jitter ``decorrelated``; its deadline is left aside.
        after: After how many waits, rising, each at least 1.
        latest: The highest of these sums in milliseconds.
    """
    jitter = policy.jitter
    assert isinstance(jitter, Decorrelated)
    chain = _Chain(policy, jitter.times, latest, max(after))
    laws = []
    for retry in range(1, max(after) + 1):
        chain.step(policy.nominal(retry))
        if retry in after:
            laws.append(chain.law())
    return laws


class _Chain:
    def __init__(self, policy: Policy, times: float, latest: float, retries: int) -> None:
        self._times, self._floor = times, policy.floor_ms
        start, ceil = policy.nominal(1), float(policy.highest_ms)
        # No wait can be longer than this, however high the ceiling.
        growth = math.log(ceil + 1) if times <= 1 else retries * math.log(times)
        reach = min(ceil, max(policy.nominal(retry) for retry in (1, retries)) * math.exp(min(growth, 30.0)))
        states = min(max(round(_PER_E * math.log(max(reach, 1.0) / max(start, 1.0) + 1)), _FEWEST), _MOST)
        grid = Carried(policy.nominal, times, max(reach, start, 1.0), states)
        self._edges, self._ceil = grid.edges, grid.ceil
        self._values = [*grid.middles, grid.ceil]
        self._before = min(start, self._ceil)
        waits = [min(max(value, policy.floor_ms), ceil) for value in self._values]
        self._first = max(min(start, ceil), policy.floor_ms, 1.0)
        self._marks = self._grid(max(latest, self._first + 1.0))
        self._even = len(self._marks) == _MARKS
        self._waits = waits
        self._maps = [] if self._even else [self._map(wait) for wait in waits]
        self._rows: list[Row | None] = []
        self._plan = functools.lru_cache(maxsize=1)(self._planned)

    def _grid(self, latest: float) -> Row:
        """Give the marks of the sums: evenly spaced, or geometric where the tail is long."""
        first = self._first
        if latest <= _LONG_TAIL * first:
            return [first + (latest - first) * index / (_MARKS - 1) for index in range(_MARKS)]
        count = 2 * _MARKS
        return [first * (latest / first) ** (index / (count - 1)) for index in range(count)]

    # -- from one wait to the next

    def _reach(self, before: float, nominal: float) -> tuple[int, float, list[tuple[int, float]]]:
        """Give what one wait before leads to: cells filled whole (how many, how densely), and other states' shares.

        The last cell is filled in part; its share is split with a neighbour, so that the mean stays right.
        """
        high = self._times * before
        if nominal >= self._ceil or high - nominal <= LEAST:
            return 0, 0.0, self._split(min(nominal, self._ceil), 1.0)
        cells, density = len(self._values) - 1, 1 / (high - nominal)
        first = self._edges[0]
        # Below the grid all is as good as its first cell.
        under = [(0, density * (min(high, first) - nominal))] if nominal < first else []
        if high <= first:
            return 0, 0.0, under
        if high >= self._ceil:
            return cells, density, [*under, (cells, (high - self._ceil) * density)]
        cell = min(max(bisect_left(self._edges, high) - 1, 0), cells - 1)
        low = max(self._edges[cell], nominal)
        return cell, density, [*under, *self._split((low + high) / 2, (high - low) * density)]

    def _split(self, value: float, weight: float) -> list[tuple[int, float]]:
        values = self._values
        index = min(max(bisect_right(values, value) - 1, 0), len(values) - 2)
        part = (value - values[index]) / (values[index + 1] - values[index])
        part = min(max(part, 0.0), 1.0)
        return [(index, weight * (1 - part)), (index + 1, weight * part)]

    def _width(self, cell: int, nominal: float) -> float:
        return max(self._edges[cell + 1] - max(self._edges[cell], nominal), 0.0)

    def _planned(self, nominal: float) -> list[tuple[int, float, list[tuple[int, float]]]]:
        return [self._reach(value, nominal) for value in self._values]

    def step(self, nominal: float) -> None:
        """Add one wait."""
        if not self._rows:
            self._begin(nominal)
            return
        cells = len(self._values) - 1
        into: list[Row | None] = [None] * (cells + 1)
        starts: list[Row | None] = [None] * cells
        for row, (filled, density, others) in zip(self._rows, self._plan(nominal), strict=True):
            if row is None:
                continue
            if filled:
                starts[filled - 1] = _plus(starts[filled - 1], row, density)
            for state, weight in others:
                if weight > 0:
                    into[state] = _plus(into[state], row, weight)
        run: Row | None = None
        for cell in range(cells - 1, -1, -1):
            if starts[cell] is not None:
                run = starts[cell] if run is None else _plus(run, starts[cell] or [], 1.0)
            if run is not None and (width := self._width(cell, nominal)) > 0:
                into[cell] = _plus(into[cell], run, width)
        self._rows = [None if row is None else self._moved(row, state) for state, row in enumerate(into)]

    def _begin(self, nominal: float) -> None:
        """Put the first wait, which is the first sum."""
        filled, density, others = self._reach(self._before, nominal)
        shares = [density * self._width(cell, nominal) for cell in range(filled)]
        shares += [0.0] * (len(self._values) - filled)
        for state, weight in others:
            shares[state] += weight
        self._rows = [
            self._at(wait, share) if share > 0 else None
            for wait, share in zip(self._waits, shares, strict=True)
        ]

    # -- sums

    def _at(self, value: float, share: float) -> Row:
        row = [0.0] * len(self._marks)
        index, part = self._place(value)
        row[index], row[index + 1] = share * (1 - part), share * part
        return row

    def _place(self, value: float) -> tuple[int, float]:
        """Give the mark below a sum, and how far it lies on the way to the next."""
        marks = self._marks
        index = min(max(bisect_right(marks, value) - 1, 0), len(marks) - 2)
        part = (value - marks[index]) / (marks[index + 1] - marks[index])
        return index, min(max(part, 0.0), 1.0)

    def _map(self, wait: float) -> list[tuple[int, float]]:
        return [self._place(mark + wait) for mark in self._marks]

    def _moved(self, row: Row, state: int) -> Row:
        """Give a row whose sums have grown by the state's own wait."""
        if self._even:
            by = self._waits[state] / (self._marks[1] - self._marks[0])
            whole = math.floor(by)
            part = by - whole
            line = [high * (1 - part) + low * part for low, high in zip([0.0, *row], row, strict=False)]
            kept = ([0.0] * whole + line)[: len(row)]
            kept[-1] += math.fsum(line[len(row) - whole :]) + row[-1] * part
            return kept
        moved = [0.0] * len(row)
        for share, (index, part) in zip(row, self._maps[state], strict=True):
            if share > _NOTHING:
                moved[index] += share * (1 - part)
                moved[index + 1] += share * part
        return moved

    def law(self) -> list[Stretch]:
        """Give the law of the sum: each mark's share reaches half-way to its neighbours."""
        rows = [row for row in self._rows if row is not None]
        sums = [math.fsum(column) for column in zip(*rows, strict=True)]
        marks = self._marks
        halves = [marks[0], *((a + b) / 2 for a, b in pairwise(marks)), marks[-1]]
        return [Stretch(a, b, share) for (a, b), share in zip(pairwise(halves), sums, strict=True)]


def _plus(total: Row | None, row: Row, weight: float) -> Row:
    if total is None:
        return [weight * share for share in row]
    return [old + weight * share for old, share in zip(total, row, strict=True)]
