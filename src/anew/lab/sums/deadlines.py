"""The law of the last retry before a deadline, where waits are independent.

Jobs are followed value by value as long as that is to be had, and on a grid besides, as in `independent`; with every wait
some find no room for it and end where they are. Where a deadline is very many waits of one law away, nothing is left of
the beginning, and the law is that of any renewal process.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from anew.backoff import Policy
from anew.lab.laws.pieces import Mixture, Piece
from anew.lab.laws.shapes import Law, mixed
from anew.lab.laws.wait import pieces_of
from anew.lab.sums.grid import CELLS, normal
from anew.lab.sums.independent import summed, wide
from anew.lab.sums.lumps import overlaid
from anew.lab.sums.mixed_sum import MixedSum, Plan, finest
from anew.lab.sums.moments import MANY, moments
from anew.lab.sums.splits import Split, in_units, split, units_of

# Waits until a deadline that are added one by one.
_LONGEST: Final = 1_500
# Waits before a deadline from which on the beginning may be forgotten, if the sums' deviation is so many waits by then.
_OFTEN: Final = 180
_WIDELY: Final = 4
# Shares that make no difference: of jobs still on their way, and of the last bits of a sum of shares.
_NOTHING_LEFT: Final = 1e-7
_TRIFLE: Final = 1e-12
_FAR: Final = 1_000_000
# Deviations from the mean beyond which nothing is met: of a normal law, one in 10**15.
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
    deadline = policy.deadline_ms or 0
    settled = pieces_of(policy, _LONGEST) or []
    late = Mixture(settled)
    waits = deadline / late.mean_ms if late.mean_ms else math.inf
    if waits > _OFTEN and settled == pieces_of(policy, _FAR):
        begun, rest = _begun(policy, settled)
        scatter = late.sd_ms * math.sqrt(max(rest, 0.0) / late.mean_ms) if late.mean_ms else 0.0
        # Only where sums have spread over more than a wait is nothing left of the beginning.
        if scatter > late.mean_ms * (1 if waits > _LONGEST / 2 else _WIDELY):
            return _after_very_many(policy, late)
        if retries > MANY and waits > _LONGEST / 2:
            few = policy.retries is not None and late.mean_ms * (retries - begun) < deadline
            return None if rest > 0 or few else _walked(policy, begun, late)
    return _walked(policy, retries)


def _begun(policy: Policy, settled: list[Piece]) -> tuple[int, float]:
    """Give how many waits there are before all have one law, and what of the deadline they leave, at the least."""
    waits = [pieces_of(policy, retry) or [] for retry in range(1, _LONGEST)]
    begun = max((retry for retry, pieces in enumerate(waits, 1) if pieces != settled), default=0)
    mean = variance = 0.0
    for pieces in waits[:begun]:
        near, sd = mixed((piece.weight, *piece.moments()) for piece in pieces)
        mean, variance = mean + near, variance + sd * sd
    return begun, (policy.deadline_ms or 0) - mean - _SURE * math.sqrt(variance)


def _walked(policy: Policy, retries: int, late: Mixture | None = None) -> Law | None:
    """Follow the jobs wait by wait.

    Args:
        policy: The policy.
        retries: How many waits at most.
        late: The law of all waits that follow on these; None where none do.
    """
    deadline, clip = policy.deadline_ms or 0, policy.on_deadline == "clip"
    plan, units = _planned(policy, retries)
    walk = _Walk(plan, (deadline + 1) * units - 1, clip=clip, cells=_cells(retries))
    for retry in range(1, min(retries, _LONGEST) + 1):
        walk.add(plan.waits[retry - 1] if retry <= len(plan.waits) else split(policy, retry))
        if walk.left < _NOTHING_LEFT:
            break
    else:
        if retries > _LONGEST:
            return None
        if late is not None and retries < (policy.retries or math.inf):
            return walk.law(units, renewed(policy, late))
    return walk.law(units)


def _planned(policy: Policy, retries: int) -> tuple[Plan, int]:
    """Split waits as finely as can be afforded; give also in which parts of a millisecond they are told."""
    deadline = policy.deadline_ms or 0
    waits = _until_all_have_ended(policy, retries)
    plan = finest([waits], deadline)
    if plan.told < len(waits) and (units := units_of(wait.pieces for wait in waits)) > 1:
        scaled = finest([[in_units(wait.pieces, units) for wait in waits]], (deadline + 1) * units)
        if scaled.told >= len(waits):
            return scaled, units
    if plan.told < len(waits):
        plan = finest([[split(policy, retry, uneven=False) for retry in range(1, len(waits) + 1)]], deadline)
    return (plan._replace(told=retries) if plan.told >= len(waits) else plan), 1


def _cells(retries: int) -> int:
    return CELLS if retries <= MANY else CELLS // 2


def _until_all_have_ended(policy: Policy, retries: int) -> list[Split]:
    """Give the waits until as good as all jobs have passed the deadline."""
    waits: list[Split] = []
    mean = variance = 0.0
    for retry in range(1, min(retries, _LONGEST) + 1):
        waits.append(split(policy, retry))
        near, sd = mixed((piece.weight, *piece.moments()) for piece in waits[-1].pieces)
        mean, variance = mean + near, variance + sd * sd
        if mean - _SURE * math.sqrt(variance) > (policy.deadline_ms or 0):
            break
    return waits


class _Walk:
    """Jobs on their way to a deadline, and where the others have ended.

    Args:
        plan: How waits are added.
        deadline: No instant is later.
        clip: True: those who would have passed the deadline make a last try exactly there.
        cells: Cells of the grid for jobs that lie anywhere.
    """

    def __init__(self, plan: Plan, deadline: int, *, clip: bool, cells: int) -> None:
        self._deadline, self._clip = deadline, clip
        # A die that is taken as a window reaches half a step below its lowest value, and so does the grid then.
        below = sum(
            max(piece.step / 2 if piece.faces else 0.5 for piece in wait.pieces) for wait in plan.waits
        )
        width = min(sum(wide(wait.pieces) for wait in plan.waits), deadline) + below
        self._alive = MixedSum(plan, width=width, cells=cells, most=deadline)
        self._ended: dict[int, float] = {}
        self._ended_anywhere: list[Piece] = []

    @property
    def left(self) -> float:
        """Give the share of jobs that still have time."""
        return self._alive.share

    def add(self, wait: Split) -> None:
        """Add one wait; jobs whose next instant would pass the deadline end where they are."""
        before, grid = self.left, self._alive.anywhere
        origin, shares = grid.origin, grid.shares
        lost = self._end_single(wait)
        self._alive.add(wait)
        lost = before - self.left - lost
        if shares[-1] > 0 and lost > _TRIFLE:
            self._end_anywhere(origin, shares, wait.pieces, lost)

    def _end_single(self, wait: Split) -> float:
        """End those that are at single values; give how many."""
        ended = self._alive.single.lost(wait.runs, self._deadline)
        if wait.windows:
            ended += [
                (value, share * _over(wait.windows, self._deadline - value))
                for value, share in self._alive.single.items()
            ]
        for value, share in ended:
            self._end(value, share)
        return math.fsum(share for _, share in ended)

    def _end(self, value: int, share: float) -> None:
        if share > 0:
            end = self._deadline if self._clip else value
            self._ended[end] = self._ended.get(end, 0.0) + share

    def _end_anywhere(self, origin: float, before: list[float], pieces: list[Piece], lost: float) -> None:
        """Let jobs end in the cells where they were, so many of them in each as the wait's law would have pass."""
        if self._clip:
            self._end(self._deadline, lost)
            return
        cell, last = self._alive.anywhere.cell, self._deadline - max(piece.top for piece in pieces)
        late = []
        for index in range(max(0, math.floor((last - origin) / cell) - 1), len(before) - 1):
            here, at = before[index + 1] - before[index], origin + index * cell + 0.5
            if here > 0 and (over := _over(pieces, self._deadline - at - cell / 2)) > 0:
                late.append(Piece(here * over, at, min(at + cell, self._deadline + 1.0)))
        if not late:
            late = [Piece(1.0, max(self._deadline - cell, 0.0), self._deadline + 1.0)]
        self._ended_anywhere += _shared(late, lost)

    def law(self, units: int, late: Sequence[Piece] = ()) -> Law:
        """Give the law of the last instants.

        Args:
            units: The parts of a millisecond in which single values have been told.
            late: The law by which those end who are left; none: where they are.
        """
        single, anywhere = [*self._ended.items()], [*self._ended_anywhere]
        if late:
            anywhere += _shared(late, self.left)
        elif self.left >= _NOTHING_LEFT:
            single += self._alive.single.items()
            anywhere += self._alive.pieces()
        return overlaid([*anywhere, *(Piece.atom(share, value // units) for value, share in single)])


def _shared(pieces: Sequence[Piece], share: float) -> list[Piece]:
    """Give pieces whose weights add up to a share."""
    total = math.fsum(piece.weight for piece in pieces)
    return [piece._replace(weight=piece.weight * share / total) for piece in pieces]


def _over(pieces: list[Piece], ms: float) -> float:
    """Give the share of pieces that, cut to whole milliseconds, are longer than so many."""
    return math.fsum(piece.weight * (1 - piece.below(math.floor(ms) + 1)) for piece in pieces)


# -- very many waits


def _after_very_many(policy: Policy, late: Mixture) -> Law:
    """Give the law of the last retry where a deadline is many waits of one law away."""
    deadline, ends = policy.deadline_ms or 0, renewed(policy, late)
    if policy.retries is None:
        return overlaid(ends)
    mean, sd = moments(policy, policy.retries)
    if mean - _SURE * sd > deadline:
        return overlaid(ends)
    if mean + _SURE * sd < deadline:
        return summed(dataclasses.replace(policy, deadline_ms=None), policy.retries)
    # Some have made all their retries before the deadline, at times of a normal law.
    early = [piece for piece in normal(mean, sd, 0.0, mean + _SURE * sd) if piece.high <= deadline]
    return overlaid([*early, *_shared(ends, 1 - math.fsum(piece.weight for piece in early))])


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


def renewed(policy: Policy, late: Law) -> list[Piece]:
    """Give the law of the last retry before a deadline that comes after very many waits of one law.

    By then nothing is left of the beginning: the time from the last retry to the deadline has the density
    ``P(wait > t) / mean wait``, as for any renewal process that has run for long.
    """
    deadline = policy.deadline_ms or 0
    if policy.on_deadline == "clip":
        return [Piece.atom(1.0, float(deadline))]
    step = _lattice(policy)
    if step:
        values = range(0, min(late.latest_ms + step, deadline) // step * step + 1, step)
        ends = (deadline // step * step - value for value in values)
        return [Piece.atom(1 - late.cdf(deadline - end), float(end)) for end in ends]
    longest = min(float(late.latest_ms + 1), float(deadline))
    marks = [longest * index / CELLS for index in range(CELLS + 1)]
    return [
        Piece((b - a) * (1 - late.below((a + b) / 2)), deadline - b, deadline - a) for a, b in pairwise(marks)
    ]
