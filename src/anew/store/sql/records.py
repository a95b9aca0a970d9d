"""The records of jobs' failed attempts: a bounded number of each job in full, the others counted; and what deleted jobs leave.

A job that is deleted with very many records, or with a very long payload, must not hold everybody up: what is too much for its
transaction is left over, and `sweep` removes it some at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anew.jobs.change import Change
from anew.jobs.job import ErrorRecord
from anew.store.selection import Page
from anew.store.sql.payloads import Payloads
from anew.store.sql.queues import tally
from anew.store.sql.rows import attempt_values, error_of
from anew.store.sql.statements import WIDTH, Run, in_lists, write_rows

INLINE_RECORDS = 1_000
"""Records that are deleted with their jobs in one statement; what is more is left to `sweep`."""

INLINE_BYTES_DELETED = 4 << 20
"""The same of the bytes of records and long payloads."""


class Records:
    """The table of attempts. What has no text here is said in `anew.store.record_rows.RecordRows`.

    Args:
        run: Runs a statement on the writer's connection.
        payloads: What else deleted jobs leave.
        first: Records of a job's first failures that are kept in full.
        last: Records of its last failures that are, one at least, which says why a job is dead; both 0 keeps all.
    """

    def __init__(self, run: Run, payloads: Payloads, first: int, last: int) -> None:
        self._run = run
        self._payloads = payloads
        self._first, self._last = first, max(last, 1) if first or last else 0

    def add(
        self,
        changes: Sequence[Change],
        counts: Iterable[tuple[int, int]],
        workers: Mapping[int, str | None],
    ) -> None:
        """Write the attempts of some changes; `counts` says how many records each of their jobs has then."""
        self.write([attempt_values(change, workers.get(change.key)) for change in changes])
        if self._last:
            self._drop_middle([key for key, n in counts if n > self._first + self._last])

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write records as they are."""
        write_rows(self._run, "insert_attempt", rows)

    def _drop_middle(self, keys: Sequence[int]) -> None:
        """Keep the first and the last records of jobs that have too many, and count those between."""
        for key in keys:
            found = self._run("middle_attempts", (key, self._first, self._last, WIDTH))
            rows = found.fetchall()
            if not rows:
                continue
            kinds = tally((key, outcome, error_type[:200]) for _, outcome, error_type, _ in rows)
            write_rows(self._run, "count_attempts", [(*kind, times) for kind, times in kinds.items()])
            self._run("drop_attempts", [row[0] for row in rows], len(rows))
            self._run("forget_records", (len(rows), sum(row[3] for row in rows), key))

    def delete(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Remove the records and long payloads of deleted jobs, or leave those that are too much to a later batch."""
        now: list[int] = []
        later: list[int] = []
        records = size = 0
        for key, _, _, more, more_bytes in rows:
            if not more and not more_bytes:
                continue
            records, size = records + more, size + more_bytes
            if records > INLINE_RECORDS or size > INLINE_BYTES_DELETED:
                later.append(key)
                records, size = records - more, size - more_bytes
            else:
                now.append(key)
        self._payloads.delete(now)
        for part in in_lists(now):
            self._run("delete_attempts", part, len(part))
            self._run("delete_attempt_counts", part, len(part))
        write_rows(self._run, "leave_over", [(key,) for key in later])

    def sweep(self, limit: int) -> bool:
        keys = [key for (key,) in self._run("leftovers", (limit,)).fetchall()]
        for key in keys:
            if limit > 0:
                limit -= self._sweep_one(key, limit)
        return bool(keys)

    def _sweep_one(self, key: int, limit: int) -> int:
        ids = [id_ for (id_,) in self._run("leftover_attempts", (key, limit)).fetchall()]
        for part in in_lists(ids):
            self._run("drop_attempts", part, len(part))
        parts = self._run("leftover_parts", (key, limit - len(ids))).fetchall()
        for (number,) in parts:
            self._run("drop_part", (key, number))
        swept = len(ids) + len(parts)
        if swept < limit:
            self._run("delete_attempt_counts", (key,), 1)
            self._run("drop_leftover", (key,))
        return swept + 1

    def errors(self, key: int, page: Page, max_bytes: int | None = None) -> list[ErrorRecord]:
        forward = page.order == "asc"
        start = page.after if page.after is not None else (0 if forward else 1 << 62)
        name = "errors" if forward else "errors_backwards"
        records: list[ErrorRecord] = []
        size = 0
        for row in self._run(name, (key, start, page.limit)):
            records.append(error_of(row))
            size += records[-1].size()
            if max_bytes is not None and size > max_bytes:
                break
        return records

    def last_errors(self, keys: Sequence[int]) -> dict[int, ErrorRecord]:
        found: dict[int, ErrorRecord] = {}
        for part in in_lists(keys):
            rows = self._run("last_errors", part, len(part))
            found.update((row[0], error_of(row[1:])) for row in rows)
        return found

    def last_decisions(self, keys: Sequence[int]) -> dict[int, tuple[int, int, bytes | None]]:
        found: dict[int, tuple[int, int, bytes | None]] = {}
        for part in in_lists(keys):
            rows = self._run("last_decisions", part, len(part))
            found.update((key, (record, attempt, decision)) for key, record, attempt, decision in rows)
        return found

    def redecide(self, decisions: Sequence[tuple[int, bytes]]) -> None:
        write_rows(self._run, "redecide", decisions)

    def dropped_errors(self, key: int) -> list[tuple[str, str, int]]:
        return list(self._run("counted_attempts", (key,)))

    def count_outcomes(self, key: int, outcome: str) -> int:
        ((count,),) = self._run("count_outcomes", (key, outcome, key, outcome)).fetchall()
        return int(count)

    def corrupt_among(self, keys: Sequence[int]) -> set[int]:
        found: set[int] = set()
        for part in in_lists(keys):
            found.update(key for (key,) in self._run("corrupt_among", part, len(part)))
        return found

    def leave_orphans(self, keys: Sequence[int]) -> None:
        """Leave the records and payloads of these keys to `sweep`, unless they have jobs or are about to."""
        write_rows(self._run, "leave_orphans", [(key,) for key in keys])

    def recount_records(self, keys: Sequence[int]) -> None:
        """Count the records of jobs anew."""
        for part in in_lists(keys):
            self._run("recount_records", part, len(part))
