"""Payloads too long for their job's row, kept apart in parts.

A change of state then rewrites none of them, and a very long one can be written over several transactions, ahead of its job,
so that no transaction is long. What is written ahead is on a list until its job comes; what is still on the list at the next start
is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from anew.jobs.codec import NewJob
from anew.store.protocol import Position
from anew.store.sql.rows import INLINE_BYTES
from anew.store.sql.statements import Run, in_lists

PART_BYTES = 256 << 10
"""One part is about a millisecond's work."""


class Payloads:
    """The table of payloads. What has no text here is said in `anew.store.protocol.Staging`.

    Args:
        run: Runs a statement on the writer's connection.
        session: Gives whose is what is written ahead.
    """

    def __init__(self, run: Run, session: Callable[[], int]) -> None:
        self._run, self._session = run, session

    def insert(self, key: int, payload: msgspec.Raw) -> None:
        """Store a payload with its job, in the same transaction."""
        data = memoryview(payload)
        for part, start in enumerate(range(0, len(data), PART_BYTES)):
            self._run("insert_payload", (key, part, data[start : start + PART_BYTES]))

    def stage(
        self, keys: Sequence[int], jobs: Sequence[NewJob], at: Position, max_bytes: int
    ) -> Position | None:
        index, offset = at
        while index < len(jobs):
            payload = memoryview(jobs[index].payload)
            if len(payload) > INLINE_BYTES:
                if max_bytes <= 0:
                    return index, offset
                if offset == 0:
                    self._run("stage", (keys[index], self._session()))
                part = payload[offset : offset + PART_BYTES]
                self._run("insert_payload", (keys[index], offset // PART_BYTES, part))
                max_bytes -= len(part)
                offset += len(part)
                if offset < len(payload):
                    continue
            index, offset = index + 1, 0
        return None

    def adopt(self, first_key: int, last_key: int) -> None:
        """Let what was staged for these keys belong to their jobs."""
        self._run("adopt", (first_key, last_key))

    def unstage(self, first_key: int, last_key: int) -> None:
        self._run("delete_staged", (first_key, last_key))
        self.adopt(first_key, last_key)

    def unstage_abandoned(self) -> None:
        for (key,) in self._run("staged_by_nobody").fetchall():
            self.unstage(key, key)

    def read(self, key: int) -> bytes | None:
        """Read what there is of a payload; None if there is nothing."""
        return read_payload(self._run, key)

    def delete(self, keys: Sequence[int]) -> None:
        """Remove the payloads of some jobs."""
        for part in in_lists(keys):
            self._run("delete_payloads", part, len(part))

    def delete_all(self) -> None:
        """Remove all payloads but what is staged: those jobs have yet to come, and must come whole."""
        staging = self._run("is_staging").fetchone()[0]
        self._run("delete_unstaged" if staging else "delete_all_payloads")


def read_payload(run: Run, key: int) -> bytes | None:
    """Read what there is of a payload that is kept apart, on any connection; None if there is nothing."""
    parts = run("payload", (key,)).fetchall()
    return b"".join([part for (part,) in parts]) if parts else None
