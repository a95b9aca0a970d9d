"""What a store has recorded, for those who only read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from anew.jobs import History
from anew.store.sqlite import SqliteArchive

_PAGE = 1_000
"""Jobs that are read of a store at a time."""


def recorded_failures(directory: Path) -> Iterator[History]:
    """Give the jobs of a data directory that have failed, the latest first; a server may go on beside it.

    Raises:
        NotFound: There is no store.
        NewerStore, StoreFailed: It cannot be read by this program.
    """
    archive = SqliteArchive(directory)
    try:
        before: int | None = None
        while page := archive.histories(before, _PAGE):
            yield from page
            before = page[-1].job.key
    finally:
        archive.close()
