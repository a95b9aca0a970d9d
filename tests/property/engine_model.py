"""What the engine should do, as a dictionary of plain rows: no SQL, no batches, no memory of its own beside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from anew.jobs import State

WAITING = (State.SCHEDULED, State.RETRYING)
ENDED = (State.COMPLETED, State.DEAD, State.CANCELLED)

DEFAULT_WAIT_MS = 10_000
DEFAULT_LIMIT = 2
DEAD_MS = 60_000
LEASE_MS = 45_000


@dataclass
class Row:
    """One job.

    Attributes:
        wait_ms: What its own backoff comes to, the same for each retry; None means the default's.
        records: Failed attempts that are kept.
        holder: Number of the taker that has it.
    """

    key: int
    queue: str
    priority: int
    state: State
    ready_at: int
    limit: int | None = None
    wait_ms: int | None = None
    completed_ms: int | None = None
    dead_ms: int | None = None
    attempts: int = 0
    interruptions: int = 0
    purge_at: int | None = None
    records: int = 0
    holder: int | None = None
    deadline: int = 0


@dataclass
class Model:
    """All jobs by key.

    Attributes:
        completed_ms: Default retention of what has succeeded.
        gone: Keys that have been removed.
    """

    completed_ms: int
    rows: dict[int, Row] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Store a new job."""
        assert row.key not in self.rows
        self.rows[row.key] = row

    def remove(self, key: int) -> None:
        """Forget a job."""
        del self.rows[key]
        self.gone.append(key)

    def in_flight(self, key: int) -> Row | None:
        """The job, if it is in flight."""
        row = self.rows.get(key)
        return row if row is not None and row.state is State.IN_FLIGHT else None

    def end(self, row: Row, state: State, kept_ms: int, now: int) -> None:
        """Let a job end; what is kept for no time is gone."""
        row.state, row.holder = state, None
        if kept_ms == 0:
            self.remove(row.key)
        else:
            row.purge_at = now + kept_ms

    def succeed(self, keys: tuple[int, ...], now: int) -> list[int]:
        """Report successes; gives the keys that were not in flight."""
        missing = []
        for key in keys:
            row = self.in_flight(key)
            if row is None:
                missing.append(key)
                continue
            row.interruptions = 0
            self.end(
                row, State.COMPLETED, self.completed_ms if row.completed_ms is None else row.completed_ms, now
            )
        return missing

    def fail(self, key: int, now: int, *, kill: bool, retry_at: int | None) -> State | None:
        """Report a failure; gives the state it led to, None if the job was not in flight."""
        row = self.in_flight(key)
        if row is None:
            return None
        row.attempts += 1
        row.records += 1
        row.interruptions = 0
        row.holder = None
        limit = DEFAULT_LIMIT if row.limit is None else row.limit
        if kill or (retry_at is None and row.attempts > limit):
            self.end(row, State.DEAD, DEAD_MS if row.dead_ms is None else row.dead_ms, now)
            return State.DEAD
        wait = DEFAULT_WAIT_MS if row.wait_ms is None else row.wait_ms
        row.state = State.RETRYING
        row.ready_at = now + wait if retry_at is None else retry_at
        return State.RETRYING

    def give_back(self, row: Row, now: int, *, interrupted: bool) -> None:
        """Return a job to its old place, or to the later time that it has got meanwhile."""
        row.state, row.holder = State.READY, None
        row.interruptions += interrupted
        if row.ready_at > now:
            row.state = State.RETRYING if row.attempts else State.SCHEDULED

    def move(self, row: Row, ready_at: int | None, now: int) -> None:
        """Patch the time: None means now."""
        if row.state in WAITING:
            row.ready_at = now if ready_at is None else ready_at
            if row.ready_at <= now:
                row.state = State.READY
        elif ready_at is not None:
            row.ready_at = ready_at
            if row.state is State.READY and ready_at > now:
                row.state = State.RETRYING if row.attempts else State.SCHEDULED

    def promote(self, now: int) -> None:
        """Make ready what is due."""
        for row in self.rows.values():
            if row.state in WAITING and row.ready_at <= now:
                row.state = State.READY

    def lapse(self, now: int) -> int:
        """Return what was held for too long; gives the number."""
        lapsed = [row for row in self.rows.values() if row.state is State.IN_FLIGHT and row.deadline <= now]
        for row in lapsed:
            self.give_back(row, now, interrupted=True)
        return len(lapsed)

    def reap(self, now: int) -> int:
        """Remove what has been kept long enough; gives the number."""
        over = [row.key for row in self.rows.values() if row.purge_at is not None and row.purge_at <= now]
        for key in over:
            self.remove(key)
        return len(over)

    def line(self, queues: tuple[str, ...] | None) -> list[int]:
        """Ready jobs of some queues (None: all), first in line first."""
        ready = [
            (row.priority, row.key)
            for row in self.rows.values()
            if row.state is State.READY and (queues is None or row.queue in queues)
        ]
        return [key for _, key in sorted(ready)]

    def held(self) -> int:
        """How many jobs are in flight."""
        return sum(row.state is State.IN_FLIGHT for row in self.rows.values())

    def counts(self) -> dict[tuple[str, State], int]:
        """Jobs by queue and state."""
        return dict(Counter((row.queue, row.state) for row in self.rows.values()))

    def next_due(self) -> int | None:
        """The earliest time that a job waits for."""
        return min((row.ready_at for row in self.rows.values() if row.state in WAITING), default=None)
