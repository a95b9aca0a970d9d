"""Reads jobs in the orders that people look at: those in line, those in flight, those that wait.

No index has all ready jobs in order: each queue's line is one, and the lines are merged here, as far as is asked for.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from anew.jobs.key_limits import Place
from anew.store.protocol import FIRST_PLACE, UNSORTED, JobList
from anew.store.sql.statements import Run

FIRST_PIECE = 16
LAST_PIECE = 1_024
"""Places that are read of one line at a time: few at first, as there may be many lines, then twice as many each time."""


def next_places(run: Run, of: JobList, place: Place, limit: int, *, forward: bool) -> list[Place]:
    """Give the places of a list next to one, nearest first; see `Reader.places`."""
    if of is JobList.READY:
        return _merged(run, _firsts(run, place, limit, forward), limit, forward)
    rows = run(f"{of}_{_side(forward)}", (*place, limit, UNSORTED)).fetchall()
    return [(at, key) for at, key in rows]


def rank(run: Run, of: JobList, place: Place, most: int, *, forward: bool) -> int:
    """Count the jobs of a list before a place, or (not `forward`) behind it, up to `most`."""
    side = _side(not forward)
    if of is not JobList.READY:
        return _count(run, f"{of}_{side}", (*place, most, UNSORTED))
    n = 0
    for _, _, queue in run(f"lines_{side}", place).fetchall():
        if n >= most:
            break
        n += _count(run, f"ready_{side}", (*place, most - n, queue))
    return n


def _side(forward: bool) -> str:
    return "behind" if forward else "before"


def _count(run: Run, name: str, bound: tuple[Any, ...]) -> int:
    (n,) = run(f"count of {name}", bound).fetchone()
    return int(n)


def _firsts(run: Run, place: Place, limit: int, forward: bool) -> list[tuple[int, int, str]]:
    """Give the next place in each line, or in as many lines as can have one of the next `limit`."""
    if place == FIRST_PLACE and forward:
        heads = run("first_heads", (*place, limit)).fetchall()
        rows = heads + run("paused_lines").fetchall()
    else:
        rows = run(f"lines_{_side(forward)}", place).fetchall()
    return [row for row in rows if row[1] is not None]


def _merged(run: Run, firsts: list[tuple[int, int, str]], limit: int, forward: bool) -> list[Place]:
    """Merge lines whose next places are known."""
    sign = 1 if forward else -1
    heap = [(sign * priority, sign * key, queue) for priority, key, queue in firsts]
    heapq.heapify(heap)
    lines: dict[str, Iterator[Place]] = {}
    found: list[Place] = []
    while heap and len(found) < limit:
        priority, key, queue = heap[0]
        place = sign * priority, sign * key
        found.append(place)
        line = lines.get(queue)
        if line is None:
            line = lines[queue] = _line(run, queue, place, limit, forward)
        following = next(line, None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (sign * following[0], sign * following[1], queue))
    return found


def _line(run: Run, queue: str, place: Place, limit: int, forward: bool) -> Iterator[Place]:
    """Give the places of one line next to one, up to `limit`, read in pieces."""
    statement = f"ready_{_side(forward)}"
    piece = FIRST_PIECE
    while limit > 0:
        rows = run(statement, (*place, min(piece, limit), queue)).fetchall()
        yield from rows
        if len(rows) < piece:
            return
        place = rows[-1]
        limit -= len(rows)
        piece = min(2 * piece, LAST_PIECE)
