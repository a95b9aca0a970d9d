"""Reads a long PUSH, PUSHB or FAIL in chunks, so that others have their turn in between.

A PUSHB is cut into pieces. Only the decoder knows where a job ends. But clients begin nearly all jobs of a bulk with the same
bytes, such as ``{"jid"``, so the text is cut before such bytes, and decoding proves the cut: text that was cut within a job is no
whole array. Where no such cut holds, other beginnings of objects are tried, and the one that holds is looked for from then on.

All of it is read before anything is stored, and each piece once more when its jobs are stored: a million jobs in memory would be
ten times their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from anew.errors import MalformedRequest
from anew.fwp.commands import (
    FAIL,
    PUSH,
    PUSHB,
    FailCommand,
    Push,
    bad_json,
    reading_fail,
    reading_jobs,
    reading_push,
)
from anew.fwp.jobs import SentJob
from anew.fwp.json_text import repairing
from anew.net.chunks import Work

PIECE: Final = 96 << 10
"""Bytes that are decoded in one go, some 3 ms, unless no cut is found in so many."""

TRIES: Final = 8
"""Cuts of each kind that are tried in one piece: jobs within the arguments of jobs begin alike too."""

TAIL: Final = 32 << 10
"""Bytes at the end of a piece in which other beginnings are looked for."""

_FIRST: Final = re.compile(rb'[ \t\r\n]*\[[ \t\r\n]*(\{[ \t\r\n]*(?:"[^"\\]{0,64}"|\})|null|)')
_SPACE: Final = b" \t\r\n"
_OTHER: Final = re.compile(rb',[ \t\r\n]*(\{[ \t\r\n]*(?:"[^"\\]{0,64}"|\})|null)')
_WIDEST_GAP: Final = 4_096
_TRUNCATED: Final = "Input data was truncated"
_PLACE: Final = re.compile(r"\$\[(\d+)\]")


class Cut(NamedTuple):
    """Whole jobs of a PUSHB: where they begin in its line, and where they end."""

    start: int
    end: int


def reading(line: bytes) -> Work[Push | FailCommand | list[Cut]]:
    """Read a line; of a PUSHB, give the pieces.

    Raises:
        MalformedRequest: As `anew.fwp.commands.parse` does; the message is the text of the error.
    """
    if line.startswith(PUSHB):
        return (yield from _cutting(line))
    line = yield from repairing(line)
    if line.startswith(PUSH):
        return (yield from reading_push(memoryview(line)[len(PUSH) :]))
    return (yield from reading_fail(memoryview(line)[len(FAIL) :]))


def jobs_of(line: bytes, piece: Cut) -> Work[list[SentJob]]:
    """Read the jobs of a piece that `reading` gave."""
    return (yield from reading_jobs((yield from repairing(b"[%b]" % line[piece.start : piece.end]))))


def _cutting(line: bytes) -> Work[list[Cut]]:
    pieces: list[Cut] = []
    jobs = 0
    try:
        first = _FIRST.match(line, len(PUSHB))
        if first is None:  # no array
            yield from reading_jobs((yield from repairing(line[len(PUSHB) :])))
            return pieces
        at, beginning, size = first.start(1), first[1], PIECE
        while at + size < len(line):
            for end, next_at, next_beginning in _cuts(line, beginning, at, at + size):
                yield
                count = yield from _counted(line[at:end])
                if count is not None:
                    jobs += count
                    pieces.append(Cut(at, end))
                    at, beginning, size = next_at, next_beginning, PIECE
                    break
            else:
                size *= 2
            yield
        yield from reading_jobs((yield from repairing(b"[" + line[at:])))
    except MalformedRequest as error:
        raise bad_json(_PLACE.sub(lambda found: f"$[{int(found[1]) + jobs}]", str(error), 1)) from None
    pieces.append(Cut(at, line.rindex(b"]")))
    return pieces


def _cuts(line: bytes, beginning: bytes, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """Give places of commas behind which a job seems to begin, the last ones of a part first.

    Returns:
        Each with that job's place and beginning.
    """
    tries = TRIES if end - start <= 8 * PIECE else 1
    at = end
    for _ in range(tries if beginning else 0):
        at = line.rfind(beginning, start + 1, at)
        if at < 0:
            break
        gap = line[max(at - _WIDEST_GAP, start) : at]
        before = gap.rstrip(_SPACE)
        if before.endswith(b","):
            yield at - len(gap) + len(before) - 1, at, beginning
    last: dict[bytes, tuple[int, int]] = {}
    for found in _OTHER.finditer(line, max(end - TAIL, start + 1), end):
        last.pop(found[1], None)
        last[found[1]] = found.start(), found.start(1)
    last.pop(beginning, None)
    for other in list(last)[: -tries - 1 : -1]:
        yield *last[other], other


def _counted(members: bytes) -> Work[int | None]:
    """Read some members of an array, and count them; None if the last one is not whole.

    Raises:
        MalformedRequest: They cannot be read, whatever follows.
    """
    try:
        return len((yield from reading_jobs((yield from repairing(b"[%b]" % members)))))
    except MalformedRequest as error:
        if str(error) == _TRUNCATED:
            return None
        raise
