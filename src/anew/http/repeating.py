"""``Idempotency-Key`` on new jobs: a request that is sent again with its key stores nothing a second time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from anew.engine.ops import Done
from anew.engine.repeats import KeyedEnqueue
from anew.http.long_lists import SCANNED
from anew.jobs import NewJob
from anew.net.chunks import Work
from anew.net.seam import Request
from anew.topics.asked import idempotency_key

T = TypeVar("T")


class RepeatKey:
    """The key of one request, and of what came with it.

    Args:
        text: The producer's own.
    """

    __slots__ = ("_hash", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._hash = hashlib.sha256()

    def reading(self, body: bytes, work: Work[T]) -> Work[T]:
        """Read a body by some work, and remember what it was."""
        whole = memoryview(body)
        for at in range(0, len(body), SCANNED):
            self._hash.update(whole[at : at + SCANNED])
            yield
        return (yield from work)

    def enqueue(self, jobs: Sequence[NewJob], done: Done) -> KeyedEnqueue:
        """Give what stores its jobs once."""
        return KeyedEnqueue(jobs, done, self._text, self._hash.digest())


def key_of(request: Request) -> RepeatKey | None:
    """Give the key of a request, or None.

    Raises:
        InvalidInput: It is empty or too long.
    """
    given = request.headers.get(b"idempotency-key")
    return None if given is None else RepeatKey(idempotency_key(given.decode("latin-1")))


def reading_with(key: RepeatKey | None, body: bytes, work: Work[T]) -> Work[T]:
    """Give the work that reads a body, with its key if there is one."""
    return work if key is None else key.reading(body, work)
