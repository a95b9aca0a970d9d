"""Reads a long PUSHB some jobs at a time, so that others have their turn in between.

Only the decoder knows where a job ends. But clients begin all jobs of a bulk with the same bytes, such as ``{"jid"``, so the
text is cut before such bytes, and decoding proves the cut: text that was cut within a job is no whole array.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from anew.errors import MalformedRequest
from anew.fwp.commands import PUSHB, bad_json, jobs_in
from anew.fwp.jobs import SentJob
from anew.fwp.json_text import repaired
from anew.net.chunks import Work

PIECE: Final = 96 << 10
"""Bytes that are decoded in one go, some 3 ms, unless no cut is found in so many."""

TRIES: Final = 8
"""Cuts that are tried in one piece: jobs within the arguments of jobs begin alike too."""

_FIRST: Final = re.compile(rb'[ \t\r\n]*\[[ \t\r\n]*(\{[ \t\r\n]*"[^"\\]*"|null)')
_SPACE: Final = b" \t\r\n"
_WIDEST_GAP: Final = 32
_TRUNCATED: Final = "Input data was truncated"
_PLACE: Final = re.compile(r"\$\[(\d+)\]")


def reading(line: bytes) -> Work[list[SentJob]]:
    """Read the jobs of a line that begins with PUSHB.

    Raises:
        MalformedRequest: As `anew.fwp.commands.parse` does; the message is the text of the error.
    """
    jobs: list[SentJob] = []
    try:
        first = _FIRST.match(line, len(PUSHB))
        if first is None:  # no job comes first
            return jobs_in(repaired(line[len(PUSHB) :]))
        at, size = first.start(1), PIECE
        while at + size < len(line):
            for end in _cuts(line, first[1], at, at + size):
                yield
                some = _decoded(line[at:end])
                if some is not None:
                    jobs += some
                    at, size = line.index(first[1], end), PIECE
                    break
            else:
                size *= 2
            yield
        jobs += jobs_in(repaired(b"[" + line[at:]))
    except MalformedRequest as error:
        raise bad_json(_PLACE.sub(lambda found: f"$[{int(found[1]) + len(jobs)}]", str(error), 1)) from None
    return jobs


def _cuts(line: bytes, beginning: bytes, start: int, end: int) -> Iterator[int]:
    """Give places of commas behind which a job seems to begin, the last one of a part first."""
    for _ in range(TRIES if end - start <= 8 * PIECE else 1):
        end = line.rfind(beginning, start + 1, end)
        if end < 0:
            return
        gap = line[max(end - _WIDEST_GAP, 0) : end]
        before = gap.rstrip(_SPACE)
        if before.endswith(b","):
            yield end - len(gap) + len(before) - 1


def _decoded(members: bytes) -> list[SentJob] | None:
    """Read some members of an array; None if the last one is not whole.

    Raises:
        MalformedRequest: They cannot be read, whatever follows.
    """
    try:
        return jobs_in(repaired(b"[%b]" % members))
    except MalformedRequest as error:
        if str(error) == _TRUNCATED:
            return None
        raise
