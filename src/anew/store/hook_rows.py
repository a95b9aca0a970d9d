"""What jobs are tied to, as a store keeps it: locks of unique keys, batches, and records of progress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from anew.jobs.batches import BatchRow
from anew.jobs.hooks import Hook, Hooked
from anew.jobs.progress import Progress
from anew.jobs.state import State
from anew.jobs.unique import Lock


class BatchParts(NamedTuple):
    """What was given with a batch, which only its makers read.

    Attributes:
        meta: What its door must give back unchanged.
        on_complete, on_success: The jobs of its callbacks, as the engine writes them.
    """

    meta: bytes | None
    on_complete: bytes | None
    on_success: bytes | None


class TrackedProgress(NamedTuple):
    """A stored record of progress, and the key of the job that it is about; None if no job was known."""

    record: Progress
    key: int | None


class HookRows(Protocol):
    """The verbs on all that, inside the open transaction."""

    def among(self, keys: Sequence[int]) -> list[Hooked]:
        """Give those of some jobs that are tied to something."""

    def purgeable(self, now: int, limit: int) -> list[Hooked]:
        """Of the jobs that `reap` would remove with these arguments, give those that are tied to something."""

    def add(self, keys: Sequence[int], hook: Hook) -> None:
        """Set a bit in some jobs."""

    def drop_expiry(self, keys: Sequence[int]) -> None:
        """Have some jobs expire no more, and forget of those that have expired that they did."""

    def stored_once(self, jids: Sequence[str]) -> dict[str, int]:
        """Find jobs that were stored with the mark `once`, by their producers' ids; unknown ones are left out."""

    def locks(self, digests: Sequence[bytes]) -> list[tuple[Lock, State | None]]:
        """Give the locks of some keys, with the state of each one's holder; None if its record is gone."""

    def take_locks(self, locks: Sequence[Lock]) -> None:
        """Write locks, whoever had them; no two of one key."""

    def claim_locks(self, locks: Iterable[Lock], now: int) -> None:
        """Write locks without an end whose keys nobody holds."""

    def release_locks(self, keys: Sequence[int]) -> None:
        """Remove the locks that some jobs hold."""

    def reap_locks(self, now: int, limit: int) -> int:
        """Remove up to `limit` locks whose time is over; report how many."""

    def insert_batch(self, row: BatchRow, parts: BatchParts, purge_at: int | None) -> None:
        """Write a new batch."""

    def batches(self, keys: Sequence[int]) -> list[BatchRow]:
        """Read batches; unknown ones are left out."""

    def write_batches(self, rows: Iterable[tuple[BatchRow, int | None]]) -> None:
        """Write batches, and until when each is kept."""

    def batch_parts(self, key: int) -> BatchParts:
        """Read what was given with a batch that is there."""

    def purgeable_batches(self, now: int, limit: int) -> list[int]:
        """List batches whose time is over."""

    def delete_batches(self, keys: Sequence[int]) -> None:
        """Remove batches."""

    def progress(self, jids: Sequence[str]) -> dict[str, TrackedProgress]:
        """Read records by the ids of their jobs; unknown ones are left out."""

    def write_progress(self, records: Sequence[tuple[str, TrackedProgress]]) -> None:
        """Write records, one a job's id."""

    def reap_progress(self, until: int, limit: int) -> int:
        """Remove up to `limit` records whose last update was at or before an instant; report how many."""

    def extend_hold(self, key: int, token: int, deadline: int) -> None:
        """Let a reservation last until an instant, if that is later than it would."""
