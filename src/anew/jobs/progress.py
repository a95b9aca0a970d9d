"""Progress: what a worker says about a job that runs, and in which word its state is shown.

A record belongs to a job's id and not to its row, for it outlives the job: a completed job is removed at once by default, and
whoever asks a minute later still reads that it succeeded.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from anew.jobs.records import cut_middle
from anew.jobs.state import State
from anew.units import MINUTE_MS

KEPT_MS = 30 * MINUTE_MS
"""How long a record is kept after its last update."""

DESCRIPTION_BYTES = 1 << 10
"""Most bytes that are kept of a description; the middle of a longer one is cut out."""


class Word(StrEnum):
    """A tracked job's state as it is shown. UNKNOWN: no such job, or nobody asked to track it."""

    UNKNOWN = "unknown"
    ENQUEUED = "enqueued"
    WORKING = "working"
    SUCCESS = "success"
    FAILED = "failed"
    DEAD = "dead"


_WORDS = {
    State.SCHEDULED: Word.ENQUEUED,
    State.READY: Word.ENQUEUED,
    State.IN_FLIGHT: Word.WORKING,
    State.COMPLETED: Word.SUCCESS,
    State.RETRYING: Word.FAILED,
    State.DEAD: Word.DEAD,
    State.CANCELLED: Word.DEAD,
}
"""A retry whose time has come is ENQUEUED again. A job that was cancelled, deleted or has expired shows DEAD: it will not run."""


class Progress(Struct, frozen=True, gc=False):
    """One record as stored.

    Attributes:
        word: The last state that it was told of; UNKNOWN while the job is not tracked.
        percent: 0 to 100; None if it was never set.
        description: A line of text; None if it was never set.
        updated_at: Epoch ms.
    """

    word: Word = Word.UNKNOWN
    percent: int | None = None
    description: str | None = None
    updated_at: int = 0


def word_of(state: State | None) -> Word:
    """Report which word shows a tracked job's state; None means that its record was deleted before it ended."""
    return Word.DEAD if state is None else _WORDS[state]


def followed(record: Progress | None, state: State | None, now: int) -> Progress:
    """Give the record of a tracked job after a move; None where there is none yet."""
    return replace(record or Progress(), word=word_of(state), updated_at=now)


def reported(record: Progress | None, percent: int | None, description: str | None, now: int) -> Progress:
    """Give the record after a worker's word. What it does not set keeps its value; the state does not change.

    Args:
        record: What is stored, or None: a job that is not tracked gets a record of state UNKNOWN.
        percent: Held to 0 to 100; None keeps.
        description: Cut to `DESCRIPTION_BYTES`; None keeps.
        now: Epoch ms.
    """
    old = record or Progress()
    return Progress(
        word=old.word,
        percent=old.percent if percent is None else min(max(percent, 0), 100),
        description=old.description if description is None else cut_middle(description, DESCRIPTION_BYTES),
        updated_at=now,
    )


def is_over(record: Progress, now: int) -> bool:
    """Report whether a record is gone for everybody but the reaper."""
    return now >= record.updated_at + KEPT_MS
