"""Circuit breakers inside a batch's transaction: all processes that have the store open read and write the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anew.engine.batch import Batch
from anew.engine.ops import Verb
from anew.jobs import Job, Snoozed
from anew.jobs.breaker import BreakerRow, BreakerSettings, BreakerState, closed, held, may_start, ran
from anew.jobs.change import after
from anew.jobs.snoozing import decide_snooze


class RunReport(NamedTuple):
    """How a run has ended, as the breaker of its service sees it.

    Attributes:
        breaker: Its key.
        job: The job's key.
        ok, retry, until: See `anew.jobs.breaker.ran`.
    """

    breaker: str
    job: int
    ok: bool | None
    retry: bool
    until: int | None = None


class Asking(NamedTuple):
    """A job in flight that wants to start, or one that was kept from it.

    Attributes:
        breaker: The key of its service's breaker.
        job: Its own key.
        retry: It has failed before.
    """

    breaker: str
    job: int
    retry: bool


class Breaking:
    """Some breakers in one transaction: read when the first one is needed, written at its end.

    Args:
        batch: The transaction.
        settings: By key: what holds for each.
    """

    def __init__(self, batch: Batch, settings: Mapping[str, BreakerSettings]) -> None:
        self._batch = batch
        self._settings = settings
        self._before: dict[str, BreakerRow] = {}
        self._rows: dict[str, BreakerRow] = {}

    def ran(self, report: RunReport) -> None:
        """Note that a run has ended."""
        row, settings = self._row(report.breaker), self._settings[report.breaker]
        self._rows[row.key] = ran(
            row, settings, report.ok, self._batch.now, job=report.job, retry=report.retry, until=report.until
        )

    def hold_some(self, jobs: Sequence[Asking]) -> dict[int, Job]:
        """Let the jobs start that may, and hold the others; give those as they are now, by key."""
        until: dict[int, tuple[int, str]] = {}
        for key, job, retry in jobs:
            row, settings = self._row(key), self._settings[key]
            start = may_start(row, settings, self._batch.now, job=job, retry=retry)
            self._rows[key] = start.row
            if start.held_until is not None:
                until[job] = start.held_until, _reason(row)
        return self._snooze(until)

    def hold_all(self, jobs: Sequence[Asking]) -> dict[int, Job]:
        """Hold jobs that were let start before their breaker opened, and have not; give them as they are now, by key."""
        until: dict[int, tuple[int, str]] = {}
        for key, job, _ in jobs:
            row = self._row(key)
            start = held(row, self._settings[key], self._batch.now)
            self._rows[key] = start.row
            assert start.held_until is not None
            until[job] = start.held_until, f"{key} is failing"
        return self._snooze(until)

    def _snooze(self, until: Mapping[int, tuple[int, str]]) -> dict[int, Job]:
        if not until:
            return {}
        batch, now = self._batch, self._batch.now
        settled: dict[int, Job] = {}
        changes = []
        for job in batch.in_flight(until):
            ready_at, reason = until[job.key]
            snoozed = Snoozed(ready_at=ready_at, reason=reason, outcome="held")
            change = decide_snooze(job, snoozed, before=0, defaults=batch.defaults, now=now)
            changes.append(change)
            settled[job.key] = after(job, change)
        batch.settle(changes)
        return settled

    def write(self) -> list[tuple[BreakerState, BreakerRow]]:
        """Write what has changed; give the breakers that were needed, each with its state before."""
        changed = [row for key, row in self._rows.items() if row != self._before[key]]
        if changed:
            self._batch.store.breakers.write(changed)
        return [(self._before[key].state, row) for key, row in self._rows.items()]

    def _row(self, key: str) -> BreakerRow:
        if not self._rows:
            found = {row.key: row for row in self._batch.store.breakers.read(list(self._settings))}
            self._rows = {key: found.get(key) or BreakerRow(key=key) for key in self._settings}
            self._before = dict(self._rows)
        return self._rows[key]


def _reason(row: BreakerRow) -> str:
    if row.state is BreakerState.CLOSED:
        return f"too many retries of {row.key} fail"
    return f"{row.key} is failing"


def all_breakers(batch: Batch) -> list[BreakerRow]:
    """Give all breakers that have a row; for `Call`."""
    return batch.store.breakers.read(None)


def close_breaker(key: str) -> Verb:
    """Close a breaker and forget what it has counted. Held jobs keep their instants, and later ones come behind them.

    Returns:
        A verb that gives whether it was there and not closed.
    """

    def verb(batch: Batch) -> bool:
        rows = batch.store.breakers.read([key])
        batch.store.breakers.write([closed(row, batch.now) for row in rows])
        return any(row.state is not BreakerState.CLOSED for row in rows)

    return verb
