"""The law of a sum of independent waits: value by value as long as that is to be had, then on a grid.

What takes single values is added value by value (`lattices`), and such a sum jumps where it ought to. What lies
anywhere is added on a grid of 1,024 cells (`grid`), beside the jumps of waits that may do both, as where a clamp piles
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
from anew.lab.laws.pieces import Mixture, Piece
from anew.lab.laws.shapes import Law
from anew.lab.laws.tabulated import Tabulated
from anew.lab.laws.wait import pieces_of
from anew.lab.sums.grid import normal
from anew.lab.sums.lattices import common_step
from anew.lab.sums.lumps import Lumps
from anew.lab.sums.mixed_sum import MixedSum, finest
from anew.lab.sums.moments import MANY, blocks, ends, moments
from anew.lab.sums.splits import Split, split

# Sums that span no more milliseconds are told by each of them, windows and all.
_SHORT: Final = 2_000
# A spread part with a smaller share is not moved: its mean is lost in the last bits of the whole.
_TINY: Final = 1e-6
# A grid never blurs more than that, unless its deviation is all rounding.
_BLURRED: Final = 0.5
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
    # Ever more coarsely: windows by their milliseconds, uneven dice by their faces, those taken as windows.
    ways = ((width <= _SHORT, True), (False, True), (False, False))
    plan = finest(
        [split(policy, retry, cut=cut, uneven=uneven) for retry in uncertain] for cut, uneven in ways
    )
    total = MixedSum(plan, start=certain, width=width)
    for wait in plan.waits:
        total.add(wait)
    spread = total.pieces()
    if not spread:
        return Lumps(total.single.items())
    return _fitted(spread, *moments(policy, retries), total.single.items())


def _is_certain(pieces: Sequence[Piece]) -> bool:
    return len(pieces) == 1 and pieces[0].top == pieces[0].low


def wide(pieces: Sequence[Piece]) -> float:
    """Give how far the values of a wait lie apart."""
    return max(piece.high for piece in pieces) - min(piece.low for piece in pieces)


def _fitted(spread: Sequence[Piece], mean: float, sd: float, lumps: Sequence[tuple[int, float]]) -> Law:
    """Give a law whose spread part is moved, and drawn together, so that mean and deviation are right.

    A grid blurs a little with every wait.

    Args:
        spread: What lies anywhere, in order, yet to be cut to milliseconds.
        mean: The mean of the whole, known exactly.
        sd: Its standard deviation.
        lumps: What are single values, in order.
    """
    part = math.fsum(piece.weight for piece in spread)
    total = part + math.fsum(share for _, share in lumps)
    if part > _TINY * total:
        table = Tabulated(spread)
        # What is missing in the lumps, the spread part has: about the mean of the whole, then about its own.
        by = -math.fsum(share * (value - mean) for value, share in lumps) / part
        squared = math.fsum(share * (value - mean) ** 2 for value, share in lumps)
        variance = (sd * sd * total - squared) / part - by * by
        scale = math.sqrt(max(variance, 0.0)) / table.sd_ms if table.sd_ms > 0 else 1.0
        scale = scale if _BLURRED < scale < 1 else 1.0
        # Means are those of cut milliseconds, the windows' middles lie half of one higher.
        centre, old = mean + by + 0.5, table.mean_ms + 0.5
        spread = [
            Piece(weight, centre + scale * (low - old), centre + scale * (high - old))
            for weight, low, high, _ in spread
        ]
    return Lumps(lumps, spread, cut=True) if lumps else Tabulated(spread)


def _normal(policy: Policy, retries: int) -> Law:
    """Give the law of very many waits, by the central limit theorem; on their lattice, if that is a coarse one."""
    mean, sd = moments(policy, retries)
    earliest, latest = ends(policy)
    smooth = Tabulated(normal(mean, sd, earliest, latest), cut=False)
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
