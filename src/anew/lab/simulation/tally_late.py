"""Counts per tick where ticks with a call may lie far apart: exact, in some two bytes a call. Needs NumPy.

What makes it small: a tick is kept as its distance from the one before, in as few bytes as its neighbours need, and a
tick with one call has no count. What keeps it small when the counts are asked for: time is gone through in slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from anew.lab.rhythm import MINUTE_TICKS

Counts: TypeAlias = NDArray[np.int64]
Narrow: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""Whole numbers from 0 on, in as few bytes as the largest needs."""

_BLOCK: Final = 2**13
"""Ticks that are packed together; a place among them takes two bytes."""

_SLICE: Final = 2**20
"""Ticks with a call that are unpacked at a time, about: some 60 bytes each."""

_ROOM: Final = 2**26
"""Bytes that are asked for at once. What is not written to takes no memory."""

_ALIGNED: Final = 8


class _Block(NamedTuple):
    """Some ticks, each once, in order.

    Attributes:
        first: The first of them.
        last: The last.
        steps: From each to the next.
        busy: Places of those with more than one call.
        more: How many calls more, for each of these.
    """

    first: int
    last: int
    steps: Narrow
    busy: Narrow
    more: Narrow

    def unpacked(self, low: int, high: int) -> tuple[Counts, Counts, Counts]:
        """Give the ticks in [low, high); those of them with more than one call; and how many more."""
        ticks = np.empty(len(self.steps) + 1, dtype=np.int64)
        ticks[0] = self.first
        np.cumsum(self.steps, out=ticks[1:])
        ticks[1:] += self.first
        busy, more = ticks[self.busy], self.more.astype(np.int64)
        if low <= self.first and self.last < high:
            return ticks, busy, more
        inside = (busy >= low) & (busy < high)
        start, stop = np.searchsorted(ticks, (low, high))
        return ticks[start:stop], busy[inside], more[inside]


class _Memory:
    """Room for many small arrays that stay, apart from the large ones that come and go.

    Small ones among the large would split the room that these leave into pieces too small for the next.
    """

    def __init__(self) -> None:
        self._room = np.empty(0, dtype=np.uint8)

    def keep(self, values: Counts) -> Narrow:
        """Give a copy of some values that takes no more bytes than they need."""
        kind = np.min_scalar_type(int(values.max(initial=0)))
        size = len(values) * kind.itemsize
        aligned = -(-size // _ALIGNED) * _ALIGNED
        if aligned > len(self._room):
            self._room = np.empty(_ROOM, dtype=np.uint8)
        kept: Narrow = self._room[:size].view(kind)
        self._room = self._room[aligned:]
        kept[:] = values
        return kept


class LateCalls:
    """Calls per tick, added in any order."""

    def __init__(self) -> None:
        self._memory = _Memory()
        self._blocks: list[_Block] = []
        self._loose: list[tuple[Counts, Counts]] = []
        self._loose_ticks = 0

    def add(self, ticks: Counts, counts: Counts) -> None:
        """Add distinct ticks in order, and how many calls each has, at least one."""
        self._loose.append((ticks, counts))
        self._loose_ticks += len(ticks)
        # A few calls are not worth a block, and there may be a hundred thousand retries of a few jobs.
        if self._loose_ticks >= _BLOCK:
            self._pack()

    def pieces(self) -> Iterator[tuple[Counts, Counts]]:
        """Give the ticks with a call in order, each once, and how many each has; piece by piece."""
        self._pack()
        for low, high, blocks in _slices(self._blocks):
            ticks, counts = _together([block.unpacked(low, high) for block in blocks])
            if len(ticks):
                yield ticks, counts

    def _pack(self) -> None:
        if not self._loose:
            return
        ticks, counts = self._loose[0]
        if len(self._loose) > 1:
            ticks, counts = (np.concatenate(column) for column in zip(*self._loose, strict=True))
            order = np.argsort(ticks, kind="stable")
            ticks, counts = _merged(ticks[order], counts[order])
        for start in range(0, len(ticks), _BLOCK):
            self._blocks.append(self._packed(ticks[start : start + _BLOCK], counts[start : start + _BLOCK]))
        self._loose.clear()
        self._loose_ticks = 0

    def _packed(self, ticks: Counts, counts: Counts) -> _Block:
        keep = self._memory.keep
        busy = np.flatnonzero(counts > 1)
        return _Block(int(ticks[0]), int(ticks[-1]), keep(np.diff(ticks)), keep(busy), keep(counts[busy] - 1))


def _slices(blocks: Sequence[_Block]) -> Iterator[tuple[int, int, list[_Block]]]:
    """Cut time, at whole minutes, so that not too much falls into a slice; give each with the blocks that touch it."""
    ordered = sorted(blocks, key=lambda block: block.first)
    low, size = 0, 0
    touching: list[_Block] = []
    for block in ordered:
        high = block.first // MINUTE_TICKS * MINUTE_TICKS
        if size >= _SLICE and high > low:
            yield low, high, touching
            touching = [known for known in touching if known.last >= high]
            low, size = high, 0
        touching.append(block)
        size += len(block.steps) + 1
    if touching:
        yield low, max(block.last for block in touching) + 1, touching


def _together(parts: Sequence[tuple[Counts, Counts, Counts]]) -> tuple[Counts, Counts]:
    """Give the distinct ticks of some parts in order, and how many calls each has."""
    ticks, busy, more = (np.concatenate(column) for column in zip(*parts, strict=True))
    ticks.sort()
    starts = _starts(ticks)
    distinct = ticks[starts]
    counts = np.diff(starts, append=len(ticks))
    np.add.at(counts, np.searchsorted(distinct, busy), more)
    return distinct, counts


def _merged(keys: Counts, counts: Counts) -> tuple[Counts, Counts]:
    """Give the distinct of some sorted keys, and their counts added up."""
    starts = _starts(keys)
    return keys[starts], np.add.reduceat(counts, starts)


def _starts(ordered: Counts) -> NDArray[np.intp]:
    """Give the places where a value differs from the one before."""
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return np.flatnonzero(new)
