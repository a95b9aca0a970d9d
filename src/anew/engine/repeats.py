"""What comes with a producer's own key is stored once: sent again within a day, it is found and not stored again.

The key is written in the transaction of what it came with, so that a repeat is right whatever became of the first answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from anew.engine.batch import Batch, Enqueued
from anew.engine.hooks import Entry
from anew.engine.ops import Done, Enqueue
from anew.errors import Conflict
from anew.jobs import NewJob
from anew.units import DAY_MS

REMEMBERED_MS: Final = DAY_MS
"""How long a key is remembered."""

JOBS: Final = ""
"""In the place of a topic, for the keys of jobs; no topic has this name."""

_numbers = msgspec.json.Decoder(list[int])


def repeated(batch: Batch, topic: str, key: str, digest: bytes) -> list[int] | None:
    """Give what was stored under a key, by its numbers, or None.

    Raises:
        Conflict: It came with something else.
    """
    known = batch.store.topics.publication(topic, key)
    if known is None:
        return None
    if known[0] != digest:
        raise Conflict(
            f"Idempotency-Key {key!r:.60} was used within 24 h for something else; send another key"
        )
    return _numbers.decode(known[1])


def remember(batch: Batch, topic: str, key: str, digest: bytes, numbers: Sequence[int]) -> None:
    """Write down what was stored under a key."""
    answer = msgspec.json.encode(list(numbers))
    batch.store.topics.write_publication(topic, key, digest, answer, batch.now + REMEMBERED_MS)


class KeyedEnqueue(Enqueue):
    """Store new jobs that came with a key, all or none and once.

    Result: `Enqueued`, for a repeat with the jobs that it repeats; Conflict where the key came with something else.

    Args:
        jobs, done: As for `Enqueue`.
        key: The producer's own.
        digest: Of what came with it.
    """

    __slots__ = ("digest", "key")
    keyed = True

    def __init__(self, jobs: Sequence[NewJob], done: Done, key: str, digest: bytes) -> None:
        super().__init__(jobs, done)
        self.key = key
        self.digest = digest

    def insert(self, batch: Batch, keys: Sequence[int] | None = None) -> Enqueued:
        """Store the jobs, unless they are there."""
        known = repeated(batch, JOBS, self.key, self.digest)
        if known is None:
            entered = super().insert(batch, keys)
            remember(batch, JOBS, self.key, self.digest, entered.keys)
            return entered
        if keys is not None:
            batch.store.staging.unstage(keys[0], keys[-1])
        existing = {at: Entry.NO_BATCH if one < 0 else Entry.REPEATED for at, one in enumerate(known)}
        return Enqueued(known, batch.now, existing)
