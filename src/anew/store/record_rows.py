"""Records of failed attempts, as a store keeps them: so many of each job in full, the others counted; what deleted jobs leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from anew.jobs.job import ErrorRecord
from anew.store.selection import Page


class RecordRows(Protocol):
    """Records of failed attempts. Verbs that write are called inside the open transaction."""

    def errors(self, key: int, page: Page, max_bytes: int | None = None) -> list[ErrorRecord]:
        """Read the records of a job's failed attempts; `page.after` is an attempt's number.

        Ends with the record by which messages and backtraces have passed `max_bytes`. Records of one attempt number, which
        a redrive makes possible, come oldest first going up and newest first going down.
        """

    def dropped_errors(self, key: int) -> list[tuple[str, str, int]]:
        """Count the attempts of a job whose records were dropped: outcome, error type (or ""), how many."""

    def count_outcomes(self, key: int, outcome: str) -> int:
        """Count the recorded attempts of a job that ended in one way, those too whose records were dropped."""

    def last_errors(self, keys: Sequence[int]) -> dict[int, ErrorRecord]:
        """Read the latest record of each job that has one: at most 1,000 characters of its message, no backtrace, no decision."""

    def last_decisions(self, keys: Sequence[int]) -> dict[int, tuple[int, int, bytes | None]]:
        """Read of each job that has a record the latest one's own number, the attempt's, and the decision as JSON."""

    def redecide(self, decisions: Sequence[tuple[int, bytes]]) -> None:
        """Write other decisions into records, by their own numbers as `last_decisions` gives them."""

    def sweep(self, limit: int) -> bool:
        """Remove up to `limit` records, and parts of long payloads, of deleted jobs; report whether there were any."""
