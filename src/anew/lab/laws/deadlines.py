"""The law of the last retry before a deadline, where waits owe each other nothing.

Jobs are followed value by value as long as that is to be had, and on a grid besides, as in `independent`; with every wait
some find no room for it and end where they are. Where a deadline is very many waits of one law away, nothing is left of
the beginning, and the law is that of any renewal process.
"""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from typing import Final

from anew.backoff import Policy
from anew.lab.laws.independent import TRACE, summed, wide
from anew.lab.laws.lattices import Sum, affordable
from anew.lab.laws.lumps import Lumps, overlaid
from anew.lab.laws.pieces import Mixture, Piece
from anew.lab.laws.shapes import Law, Stretch, Table, mixed
from anew.lab.laws.splits import Split, split
from anew.lab.laws.sums import CELLS, Grid
from anew.lab.laws.totals import MANY, moments
from anew.lab.laws.wait import pieces_of

# Waits until a deadline that are added one by one.
_LONGEST: Final = 1_500
_NOTHING_LEFT: Final = 1e-7
_FAR: Final = 1_000_000
_SURE: Final = 8
# Steps in a wait from which on a lattice need not be told from a line.
_COARSE: Final = 2_000


def deadlined(policy: Policy, retries: int) -> Law | None:
    """Give the law of the last retry before the deadline.

    Args:
        policy: A policy with a deadline, whose waits need one fresh number each at most.
        retries: How many waits at most.

    Returns:
        The law; None where it would take too long.
    """
    settled = pieces_of(policy, _LONGEST) or []
    late = Mixture(settled)
    if late.mean_ms * _LONGEST / 2 < (policy.deadline_ms or 0) and settled == pieces_of(policy, _FAR):
        return _after_very_many(policy, late)
    for uneven in (True, False):
        waits = _until_all_have_ended(policy, retries, uneven=uneven)
        most, step = affordable(waits, policy.deadline_ms or 0)
        if most >= len(waits):
            most = retries
            break
    deadline = policy.deadline_ms or 0
    width = min(sum(wide(wait.pieces) for wait in waits), deadline)
    grid = Grid(0.0, width, CELLS if retries <= MANY else CELLS // 2, share=0.0)
    walk = _Walk(policy, Sum(step, most=deadline), grid)
    for retry in range(1, min(retries, _LONGEST) + 1):
        wait = waits[retry - 1] if retry <= len(waits) else split(policy, retry, uneven=uneven)
        walk.add(wait, told=retry <= most)
        if walk.left < _NOTHING_LEFT:
            break
    else:
        if retries > _LONGEST:
            return None
    return walk.law()


def _until_all_have_ended(policy: Policy, retries: int, *, uneven: bool) -> list[Split]:
    """Give the waits until as good as all jobs have passed the deadline."""
    waits: list[Split] = []
    mean = variance = 0.0
    for retry in range(1, min(retries, _LONGEST) + 1):
        waits.append(split(policy, retry, uneven=uneven))
        near, sd = mixed((piece.weight, *piece.moments()) for piece in waits[-1].pieces)
        mean, variance = mean + near, variance + sd * sd
        if mean - _SURE * math.sqrt(variance) > (policy.deadline_ms or 0):
            break
    return waits


class _Walk:
    """Jobs on their way to a deadline: those that are at single values, and those that lie anywhere.

    Args:
        policy: A policy with a deadline.
        known: The sum to begin with, where it is a single value.
        grid: The sum to begin with, where it lies anywhere: nowhere, as yet.
    """

    def __init__(self, policy: Policy, known: Sum, grid: Grid) -> None:
        self._deadline, self._clip = policy.deadline_ms or 0, policy.on_deadline == "clip"
        self._known, self._grid = known, grid
        self._ended: dict[int, float] = {}
        self._ended_anywhere: list[Piece] = []

    @property
    def left(self) -> float:
        """Give the share of jobs that still have time."""
        return self._known.share + self._grid.shares[-1]

    def add(self, wait: Split, *, told: bool) -> None:
        """Add one wait; jobs whose next instant would pass the deadline end where they are.

        Args:
            wait: The wait.
            told: Whether sums of its single values may be told value by value.
        """
        for value, lost in self._known.lost(wait.runs, self._deadline):
            self._end(value, lost)
        spread = wait.windows if told else wait.pieces
        lumps = self._known.items() if spread else []
        for value, share in lumps:
            self._end(value, share * _over(wait.windows, self._deadline - value))
        origin, before = self._grid.origin, self._grid.shares
        self._grid.add([piece.centred() for piece in wait.pieces])
        lost = before[-1] - self._grid.keep(self._deadline)
        if lost > 0:
            self._end_anywhere(origin, before, wait.pieces, lost)
        if lumps:
            self._grid.receive(lumps, origin, [piece.centred() for piece in spread])
            self._grid.keep(self._deadline)
        told = told and (not spread or self._known.share > TRACE)
        self._known.add(wait.runs if told else [])

    def _end(self, value: int, share: float) -> None:
        if share > 0:
            end = self._deadline if self._clip else value
            self._ended[end] = self._ended.get(end, 0.0) + share

    def _end_anywhere(self, origin: float, before: list[float], pieces: list[Piece], lost: float) -> None:
        """Let jobs end in the cells where they were, so many of them in each as the wait's law would have pass."""
        if self._clip:
            self._end(self._deadline, lost)
            return
        cell, last = self._grid.cell, self._deadline - max(piece.top for piece in pieces)
        late = []
        for index in range(max(0, math.floor((last - origin) / cell) - 1), len(before) - 1):
            here, at = before[index + 1] - before[index], origin + index * cell
            if here > 0 and (over := _over(pieces, self._deadline - at - cell / 2)) > 0:
                late.append(Piece(here * over, at, min(at + cell, self._deadline + 1.0)))
        total = math.fsum(piece.weight for piece in late)
        self._ended_anywhere += (piece._replace(weight=piece.weight * lost / total) for piece in late)

    def law(self) -> Law:
        """Give the law of the last instants."""
        left = [Piece(weight, low, high) for low, high, weight in self._grid.stretches()]
        # Their means are those of whole milliseconds, each of which stands for all that would be cut down to it.
        anywhere = (
            piece._replace(low=piece.low + 0.5, high=piece.high + 0.5)
            for piece in left + self._ended_anywhere
        )
        single = (Piece.atom(share, value) for value, share in [*self._known.items(), *self._ended.items()])
        return overlaid([*anywhere, *single])


def _over(pieces: list[Piece], ms: float) -> float:
    """Give the share of pieces that, cut to whole milliseconds, are longer than so many."""
    return math.fsum(piece.weight * (1 - piece.below(math.floor(ms) + 1)) for piece in pieces)


# -- very many waits


def _after_very_many(policy: Policy, late: Mixture) -> Law | None:
    """Give the law of the last retry where a deadline is many waits of one law away."""
    deadline = float(policy.deadline_ms or 0)
    if policy.retries is not None:
        mean, sd = moments(policy, policy.retries)
        if mean + _SURE * sd < deadline:
            return summed(dataclasses.replace(policy, deadline_ms=None), policy.retries)
        if mean - _SURE * sd < deadline:
            return None
    # Only where sums have spread over more than a wait is nothing left of the beginning.
    spread = late.sd_ms * math.sqrt(deadline / late.mean_ms) if late.mean_ms else 0.0
    return _renewed(policy, late) if spread > late.mean_ms else None


def _lattice(policy: Policy) -> int:
    """Give the step whose multiples all waits are, if it is so coarse that it shows; else 0."""
    settled = split(policy, _LONGEST)
    step = settled.step
    if step and settled.width <= _COARSE * step:
        for retry in range(1, _LONGEST):
            wait = split(policy, retry)
            if wait.pieces == settled.pieces:
                return step
            if wait.step % step or not wait.step:
                break
    return 0


def _renewed(policy: Policy, late: Mixture) -> Law:
    """Give the law of the last retry before a deadline that comes after very many waits of one law.

    By then nothing is left of the beginning: the time from the last retry to the deadline has the density
    ``P(wait > t) / mean wait``, as for any renewal process that has run for long.
    """
    deadline = float(policy.deadline_ms or 0)
    if policy.on_deadline == "clip":
        return Mixture([Piece.atom(1.0, deadline)])
    step = _lattice(policy)
    if step:
        values = range(0, min(late.latest_ms + step, int(deadline)) // step * step + 1, step)
        ends = [int(deadline) // step * step - value for value in reversed(values)]
        return Lumps((end, 1 - late.cdf(deadline - end)) for end in ends)
    longest = min(float(late.latest_ms + 1), deadline)
    marks = [longest * index / CELLS for index in range(CELLS + 1)]
    return Table(
        Stretch(deadline - b, deadline - a, (b - a) * (1 - late.below((a + b) / 2)))
        for a, b in reversed([*pairwise(marks)])
    )
