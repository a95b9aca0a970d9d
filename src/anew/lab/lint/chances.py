"""Chances that take two waits, or all the values of one: which is the shorter, and how many fall on one value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from anew.lab.laws.pieces import Mixture, Piece

_NODES: Final = 128
"""Values that stand for a window, or for a die with more faces: two windows are off by a ten-thousandth at most."""


def is_shorter(one: Mixture, other: Mixture) -> float:
    """Give the chance that a wait is shorter than another one, both in whole milliseconds, independent of each other.

    Args:
        one: The law of the wait that may be the shorter.
        other: The law of the one that it is held against.
    """
    return math.fsum(
        piece.weight * math.fsum(one.below(math.floor(value)) for value in values) / len(values)
        for piece in other.pieces
        for values in [_values(piece)]
    )


def _values(piece: Piece) -> list[float]:
    if 0 < piece.faces <= _NODES:
        return [piece.low + face * piece.step for face in range(piece.faces)]
    return [piece.low + (node + 0.5) / _NODES * (piece.high - piece.low) for node in range(_NODES)]


def few_values(pieces: Iterable[Piece]) -> tuple[int, float] | None:
    """Give how many values there are and the share of the likeliest; None if they are as many as milliseconds.

    Args:
        pieces: What a wait is made of.
    """
    found = [*pieces]
    # A die's values that are less than a millisecond apart fall together again where waits are cut.
    if any(piece.faces == 0 or (piece.faces > 1 and piece.step < 1) for piece in found):
        return None
    return sum(piece.faces for piece in found), max(piece.weight / piece.faces for piece in found)
