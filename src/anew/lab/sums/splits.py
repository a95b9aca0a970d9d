"""One wait parted into what takes single values, in whole milliseconds, and what lies anywhere.

Dice, steps and cuts put waits on whole milliseconds that lie equally far apart, and so do the ends of a clamp.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from anew.backoff import Policy
from anew.backoff.windows import Windowed
from anew.lab.laws.pieces import Piece
from anew.lab.laws.wait import pieces_of, windowed

MANY_FACES: Final = 20_000
"""Faces from which on a die is taken as a window."""

# Of uneven dice, each face is asked for.
_ASKED: Final = 400
_ALIKE: Final = 1e-15
# Parts of a millisecond at most, and how near a number must be to be one.
_FINEST: Final = 10_000
_SAME: Final = 1e-12


class Run(NamedTuple):
    """Equally likely values equally far apart, in whole milliseconds.

    Args:
        share: The share of each of them.
        start: The lowest.
        step: How far they lie apart; 0 for a single one.
        faces: How many there are.
    """

    share: float
    start: int
    step: int = 0
    faces: int = 1

    @property
    def end(self) -> int:
        """Give the highest value."""
        return self.start + self.step * (self.faces - 1)


class Split(NamedTuple):
    """One wait: what of it takes single values, and what lies anywhere.

    Args:
        runs: Its single values.
        windows: The pieces that lie anywhere, or as good as.
        pieces: All of it as pieces.
    """

    runs: list[Run]
    windows: list[Piece]
    pieces: list[Piece]

    @property
    def step(self) -> int:
        """Give the step whose multiples all its values are; 0 where it lies anywhere, or takes no time."""
        if self.windows:
            return 0
        return math.gcd(*(run.start for run in self.runs), *(run.step for run in self.runs))

    @property
    def width(self) -> int:
        """Give how far its single values lie apart."""
        return max(run.end for run in self.runs) - min(run.start for run in self.runs)


def split(policy: Policy, retry: int, *, cut: bool = False, uneven: bool = True) -> Split:
    """Part a wait into single values and windows, both clamped.

    Args:
        policy: A policy whose waits need one fresh number each at most.
        retry: Which retry.
        cut: Whether windows, too, are told value by value: every whole millisecond in them.
        uneven: Whether dice are whose values are no whole milliseconds; else they count as lying anywhere.
    """
    pieces = pieces_of(policy, retry) or []
    if uneven and not all(piece.faces == 1 or _is_whole(piece) for piece in pieces):
        asked = _asked(policy, retry)
        if asked:
            return Split(asked, [], pieces)
    runs: list[Run] = []
    windows = []
    for piece in pieces:
        if piece.faces == 1 or piece.low == piece.high:
            runs.append(Run(piece.weight, math.floor(piece.low)))
        elif cut and not piece.faces:
            runs += _milliseconds(piece)
        elif piece.faces and piece.faces <= MANY_FACES and _is_whole(piece):
            runs.append(Run(piece.weight / piece.faces, int(piece.low), int(piece.step), piece.faces))
        else:
            windows.append(piece)
    return Split(runs, windows, pieces)


def _is_whole(piece: Piece) -> bool:
    return not piece.faces or (float(piece.low).is_integer() and piece.step.is_integer())


def units_of(waits: Iterable[Sequence[Piece]]) -> int:
    """Give the parts of a millisecond in which all values of some waits are whole; 0 where that is not to be had.

    A die of seven faces and an hour steps by sevenths of an hour: sums of it jump as sharply as those of whole seconds.
    """
    units = 1
    for piece in (piece for pieces in waits for piece in pieces):
        if not piece.faces:
            return 0
        for number in (piece.low, piece.step if piece.faces > 1 else 0.0):
            whole = Fraction(number).limit_denominator(_FINEST)
            units = math.lcm(units, whole.denominator)
            if abs(float(whole) - number) > _SAME * number or units > _FINEST:
                return 0
    return units


def in_units(pieces: Sequence[Piece], units: int) -> Split:
    """Give a wait of single values alone, not cut, in parts of a millisecond.

    Args:
        pieces: The wait.
        units: Parts of a millisecond, from `units_of`.
    """
    runs = [
        Run(
            piece.weight / piece.faces,
            round(piece.low * units),
            round(piece.step * units) if piece.faces > 1 else 0,
            piece.faces,
        )
        for piece in pieces
    ]
    scaled = [piece._replace(low=piece.low * units, high=piece.high * units) for piece in pieces]
    return Split(runs, [], scaled)


def _milliseconds(piece: Piece) -> Iterator[Run]:
    """Give the whole milliseconds that a window is cut to; the first and the last may be rarer."""
    weight, low, high, _ = piece
    each = weight / (high - low)
    first, last = math.floor(low), math.ceil(high) - 1
    if first >= last:
        yield Run(weight, first)
        return
    yield Run(each * (first + 1 - low), first)
    if last - first > 1:
        yield Run(each, first + 1, 1, last - first - 1)
    yield Run(each * (high - last), last)


def _asked(policy: Policy, retry: int) -> list[Run]:
    """Ask an uneven die for every face, for only so are they cut to the very milliseconds that jobs will wait.

    Returns:
        Its runs; none if there are many faces, which may as well be taken for a window.
    """
    jitter = policy.jitter
    assert isinstance(jitter, Windowed)
    low, high = jitter.ends(retry, policy.place(retry)[1], policy.nominal(retry))
    dice = windowed(jitter, low, high)
    if sum(piece.faces for piece in dice) > _ASKED:
        return []
    shares: dict[int, float] = {}
    number = 0.0
    for piece in dice:
        share = piece.weight / piece.faces
        for _ in range(piece.faces):
            wait = jitter.at(low, high, number + share / 2)
            ms = int(min(max(wait, policy.floor_ms), policy.highest_ms))
            shares[ms] = shares.get(ms, 0.0) + share
            number += share
    return list(_runs(sorted(shares.items())))


def _runs(values: Sequence[tuple[int, float]]) -> Iterator[Run]:
    """Gather values, in order, into runs."""
    index = 0
    while index < len(values):
        start, share = values[index]
        end = index + 1
        step = values[end][0] - start if end < len(values) else 0
        while (
            end < len(values)
            and values[end][0] - values[end - 1][0] == step
            and abs(values[end][1] - share) < _ALIKE
        ):
            end += 1
        yield Run(share, start, step if end - index > 1 else 0, end - index)
        index = end
