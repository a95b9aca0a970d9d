"""Folding: a new job is merged into a waiting job of the same key instead of being stored.

A key has one open job at most; keys are global, over all queues. What the expressions mean is their language's business: here
stands only when they are asked, and what follows.
"""

from __future__ import annotations

from enum import StrEnum

from anew.jobs.state import State
from anew.jobs.transitions import Move
from anew.jobs.unique import End


class Entry(StrEnum):
    """How a new job with a fold key comes in.

    APART: it is stored and never folded into. OPEN: it is stored and becomes the key's open job. ASK: the open job's own condition
    decides, with both payloads: true, the new job is folded into it; else OPEN, and the old one is sealed.
    """

    APART = "apart"
    OPEN = "open"
    ASK = "ask"


def entry_of(ready_at: int | None, holder: State | None, now: int) -> Entry:
    """Decide how a new job with a fold key comes in.

    Args:
        ready_at: When the new job may run, epoch ms; None means now. A scheduled job never takes part, its time come or not.
        holder: State of the key's open job; None if there is none, or its record is gone.
        now: Epoch ms.
    """
    if ready_at is not None and ready_at > now:
        return Entry.APART
    return Entry.ASK if holder is State.READY else Entry.OPEN


_CLOSING: frozenset[Move | End] = frozenset({Move.TAKE, Move.CANCEL, Move.KILL, *End})


def closes(event: Move | End) -> bool:
    """Report whether an event closes an open job. Nothing opens it again: a job that has been taken is not folded into."""
    return event in _CLOSING
