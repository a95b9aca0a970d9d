"""What is kept of a delivery's attempts, and of deliveries that have ended."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from anew.store.topics import AttemptRow, DeliveryRow, DeliveryStatus
from anew.topics.documents import stored_as
from anew.topics.exchange import Answer
from anew.topics.terms import TopicTerms

_ENDED: Final[dict[int, str]] = {
    DeliveryStatus.DELIVERED: "delivered",
    DeliveryStatus.DEAD: "dead",
    DeliveryStatus.CANCELLED: "cancelled",
}

UNREADABLE: Final = "unreadable"
"""What a damaged file has left of a status or an outcome."""


def ended_status(status: int) -> str:
    """Give the word for the stored status of a delivery that is not LIVE."""
    return _ENDED.get(status, UNREADABLE)


class Attempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of an attempt.

    Attributes:
        trigger: As in `DeliveryRow`.
        outcome: ``delivered``, ``retry``, ``dead`` or ``ours`` as `anew.topics.outcome` has it; ``lost``: its dispatcher died;
            ``interrupted``: its dispatcher was stopped.
        url: Where it went.
        dispatcher: The session of the process that made it.
        error: What went wrong, in a word or two.
        answer: What came; of a lost or interrupted one only how long it lasted.
        next_at: When the next attempt comes, epoch ms.
        cause: Why then: ``policy``, ``retry_after``, ``overload``, ``deferral`` or ``lost``.
        sent: The names of the headers that were sent.
        digest: SHA-256 of the body that was sent, in hexadecimal.
    """

    trigger: str
    outcome: str
    url: str = ""
    dispatcher: int = 0
    error: str | None = None
    answer: Answer | None = None
    next_at: int | None = None
    cause: str | None = None
    sent: tuple[str, ...] = ()
    digest: str = ""


def attempt_of(row: AttemptRow) -> Attempt | None:
    """Read what is kept of an attempt; None: nothing was heard of it. Raises CorruptRow."""
    return None if row.document is None else stored_as(Attempt, row.document, "attempt")


def attempt_row(delivery: int, number: int, started_at: int, attempt: Attempt) -> AttemptRow:
    """Give the row of an attempt that has ended."""
    return AttemptRow(delivery, number, started_at, msgspec.json.encode(attempt))


def unanswered(started_at: int, now: int) -> Answer:
    """Give what is kept of an attempt of which nothing was heard: how long it was waited for."""
    return Answer(duration_ms=max(now - started_at, 0))


def ended(
    row: DeliveryRow, status: DeliveryStatus, now: int, terms: TopicTerms, reason: str | None = None
) -> DeliveryRow:
    """Give a delivery that has ended, which is kept for a while."""
    return replace(row, status=status, dead_reason=reason, cause=None, purge_at=now + terms.delivery_kept_ms)
