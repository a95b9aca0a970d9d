"""The law of a sum of waits that owe each other nothing: value by value as long as that is to be had, then on a grid.

What takes single values is added value by value (`lattices`), and such a sum jumps where it ought to. What lies
anywhere is added on a grid of 1,024 cells (`sums`), beside the jumps of waits that may do both, as where a clamp piles
some of them up.

Values are too many where a sum spans more than 20,000 steps of its lattice, or where a million of them would have to
be written in all and more than 3,600 for each wait. The first 25 retries of Sidekiq, Faktory and Celery are not; 400
throws of a coin are not either. From there on values are spread over the cells, and the whole is drawn together to its
exact deviation, for a grid blurs a little with every wait. What that is off by was measured against exact sums: with
oban's 19 retries 0.002 percentage points at most, with celery's 50, 100 and 400 0.03, with exq's 25 0.03. Only where a
few faces carry most of the weight at every scale, as with a coin for each power of three, is it 0.6.

Beyond 400 waits the sum is taken as normal, on its lattice where that is coarse: a thousand coins are 0.01 points off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from anew.backoff import Policy
from anew.lab.laws.lattices import Sum, affordable, common_step
from anew.lab.laws.lumps import Lumps
from anew.lab.laws.pieces import Mixture, Piece
from anew.lab.laws.shapes import Law, Stretch, Table
from anew.lab.laws.splits import Split, split
from anew.lab.laws.sums import Grid, normal
from anew.lab.laws.totals import MANY, blocks, ends, moments
from anew.lab.laws.wait import pieces_of

# Sums that span no more milliseconds are told by each of them, windows and all.
_SHORT: Final = 2_000
# A spread part with a smaller share is not moved: its mean is lost in the last bits of the whole.
_TINY: Final = 1e-6
# A grid never blurs more than that, unless its deviation is all rounding.
_BLURRED: Final = 0.5
TRACE: Final = 1e-5
"""Single values that come up more rarely, taken together, are left out beside what lies anywhere."""
# Steps in a standard deviation from which on a lattice need not be told from a line.
_FINE: Final = 200


def summed(policy: Policy, retries: int) -> Law:
    """Give the law of the sum of the first waits, any deadline left aside.

    Args:
        policy: A policy whose waits need one fresh number each at most.
        retries: How many waits.
    """
    if retries > MANY:
        return _normal(policy, retries)
    parts = [pieces_of(policy, retry) or [] for retry in range(1, retries + 1)]
    uncertain = [retry for retry, pieces in enumerate(parts, 1) if not _is_certain(pieces)]
    certain = sum(int(pieces[0].low) for pieces in parts if _is_certain(pieces))
    if len(uncertain) <= 1:
        moved = parts[uncertain[0] - 1] if uncertain else [Piece.atom(1.0, 0.0)]
        return Mixture(piece._replace(low=piece.low + certain, high=piece.high + certain) for piece in moved)
    width = sum(wide(parts[retry - 1]) for retry in uncertain)
    waits, (most, step) = _told(policy, uncertain, cut=width <= _SHORT)
    known, grid = Sum(step, start=certain), Grid(float(certain), width, share=0.0)
    lumps, spread = _added(waits, most, known, grid)
    if not spread:
        return Lumps(lumps)
    return fitted(spread, *moments(policy, retries), lumps)


def _told(policy: Policy, retries: Sequence[int], *, cut: bool) -> tuple[list[Split], tuple[int, int]]:
    """Part waits as finely as can be afforded; give also what `affordable` says of it."""
    for fine, uneven in ((cut, True), (False, True), (False, False)):
        waits = [split(policy, retry, cut=fine, uneven=uneven) for retry in retries]
        found = affordable(waits)
        if found[0] >= len(waits):
            break
    return waits, found


def _is_certain(pieces: Sequence[Piece]) -> bool:
    return len(pieces) == 1 and pieces[0].top == pieces[0].low


def wide(pieces: Sequence[Piece]) -> float:
    """Give how far the values of a wait lie apart."""
    return max(piece.high for piece in pieces) - min(piece.low for piece in pieces)


def _added(
    waits: Sequence[Split], most: int, known: Sum, grid: Grid
) -> tuple[list[tuple[int, float]], list[Stretch]]:
    """Add waits up; give the sums that are single values, and those that lie anywhere.

    Args:
        waits: The waits.
        most: How many of them may be told value by value.
        known: The sum to begin with, where it is a single value.
        grid: The sum to begin with, where it lies anywhere: nowhere, as yet.
    """
    for index, wait in enumerate(waits):
        # Beyond what can be told value by value, all of a wait goes to the grid.
        told = index < most
        spread = wait.windows if told else wait.pieces
        lumps = known.items() if spread else []
        origin = grid.origin
        grid.add(wait.pieces)
        if lumps:
            grid.receive(lumps, origin, spread)
        told = told and (not spread or known.share > TRACE)
        known.add(wait.runs if told else [])
    return known.items(), grid.stretches() if grid.shares[-1] > 0 else []


def fitted(
    spread: Sequence[Stretch], mean: float, sd: float | None = None, lumps: Sequence[tuple[int, float]] = ()
) -> Law:
    """Give a law whose spread part is moved, and drawn together, so that mean and deviation are right.

    A grid knows nothing of cut milliseconds, and blurs a little with every wait.

    Args:
        spread: What lies anywhere, in order.
        mean: The mean of the whole, known exactly.
        sd: Its standard deviation; None: left as it is.
        lumps: What are single values, in order.
    """
    part = math.fsum(stretch.weight for stretch in spread)
    total = part + math.fsum(share for _, share in lumps)
    if part > _TINY * total:
        table = Table(spread, cut=False)
        known = math.fsum(share * (value - mean) for value, share in lumps)
        # What is missing in the lumps, the spread part has: about the mean of the whole, then about its own.
        by = -known / part
        scale = 1.0
        if sd is not None and table.sd_ms > 0:
            squared = math.fsum(share * (value - mean) ** 2 for value, share in lumps)
            variance = (sd * sd * total - squared) / part - by * by
            scale = math.sqrt(max(variance, 0.0)) / table.sd_ms
        scale = scale if _BLURRED < scale < 1 else 1.0
        centre, old = mean + by, table.mean_ms
        spread = [
            Stretch(centre + scale * (low - old), centre + scale * (high - old), weight)
            for low, high, weight in spread
        ]
    return Lumps(lumps, spread) if lumps else Table(spread, cut=False)


def _normal(policy: Policy, retries: int) -> Law:
    """Give the law of very many waits, by the central limit theorem; on their lattice, if that is a coarse one."""
    mean, sd = moments(policy, retries)
    earliest, latest = ends(policy)
    smooth = Table(normal(mean, sd, earliest, latest), cut=False)
    first = split(policy, retries)
    if first.windows or sd > _FINE * common_step([first]):
        return smooth
    step = common_step(_different(policy, retries))
    if not step or sd > _FINE * step:
        return smooth
    low = earliest + max(math.floor((mean - 8 * sd - earliest) / step), 0) * step
    values = range(low, min(latest, math.ceil(mean + 8 * sd)) + 1, step)
    shares = [(1 + math.erf((value + step / 2 - mean) / sd / math.sqrt(2))) / 2 for value in values]
    return Lumps(zip(values, (b - a for a, b in pairwise([0.0, *shares])), strict=True))


def _different(policy: Policy, retries: int) -> Iterator[Split]:
    """Give the waits of blocks of retries, each law once."""
    before: list[Piece] | None = None
    for retry, _ in blocks(policy, retries):
        pieces = pieces_of(policy, retry)
        if pieces != before:
            yield split(policy, retry)
        before = pieces
