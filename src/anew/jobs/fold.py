"""Folding: a new job is merged into a waiting job of the same key instead of being stored.

A key has one open job at most; keys are global, over all queues. Who is open is remembered as the lock of a unique key of scope
OPEN is, so `anew.jobs.unique` says what closes an open job; nothing opens it again. What the expressions mean is their language's
business: here stands only when they are asked, and what follows.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from typing import Protocol

from anew.errors import InvalidExpression, MalformedRequest
from anew.jobs.payload_limits import judging
from anew.jobs.state import State
from anew.jobs.unique import DIGEST_BYTES


class Entry(StrEnum):
    """How a new job with a fold key comes in.

    APART: it is stored and never folded into. OPEN: it is stored and becomes the key's open job. ASK: the open job's own condition
    decides, with both payloads: true, the new job is folded into it; else OPEN, and the old one is sealed.
    """

    APART = "apart"
    OPEN = "open"
    ASK = "ask"


class Expressions(Protocol):
    """What evaluates the expressions."""

    @property
    def most_bytes(self) -> int:
        """Bytes of two payloads together, up to which they are folded."""

    def folded(self, when: str, fold: str, existing: bytes, new: bytes) -> bytes | None:
        """Give the payload that two become, as JSON in one line; None if the condition does not hold.

        Args:
            when: The open job's condition; one that fails, says nothing or takes too long does not hold.
            fold: The open job's expression for the payload.
            existing: The open job's payload.
            new: The new job's.

        Raises:
            InvalidInput: `fold` fails on these two, or gives none or several values.
            Overloaded: Nothing can be evaluated now.
        """

    def close(self) -> None:
        """Let go of what it takes; later calls raise Overloaded."""


def check_folded(payload: bytes, where: str = "fold") -> None:
    """Refuse what a fold gives if no producer could send it as a payload: it nests too deeply, or has a number out of range.

    Args:
        payload: JSON; nothing is no payload, and fits.
        where: What errors begin with.

    Raises:
        InvalidExpression: It is so.
    """
    try:
        for _ in judging(payload, "payload"):
            pass
    except MalformedRequest as error:
        raise InvalidExpression(f"{where}: {error}", field="fold") from None


def fold_digest(key: str) -> bytes:
    """Give the digest of a fold key; any text, the empty one too. It never meets the digest of a unique key."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES, person=b"fold").digest()


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
