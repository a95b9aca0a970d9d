"""A store with a past: an engine on a directory whose clock is moved by hand."""

from __future__ import annotations

from pathlib import Path

import msgspec

from anew.backoff import Policy
from anew.clock import ManualClock
from anew.engine import Engine, Enqueue, Fail, Succeed, Taker
from anew.jobs import Defaults, Failed, NewJob, Retention
from anew.store.sqlite import open_sqlite

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000


class Recording:
    """Jobs that wait a minute before each of two retries, and are kept an hour after success."""

    def __init__(self, directory: Path) -> None:
        self.store = open_sqlite(directory)
        self.clock = ManualClock(NOW)
        policy = Policy.from_json({"curve": {"constant": "1m"}, "limit": 2})
        self.engine = Engine(self.store, clock=self.clock, defaults=Defaults(policy=policy))
        self._taken: list[int] = []
        self._taker = Taker(None, 10, lambda rows, now: self._taken.extend(row[0] for row in rows))
        self.engine.dispatcher.add(self._taker)

    def enqueue(self, job_type: str, queue: str = "q") -> int:
        """Store one job and have it taken at once; gives its key."""
        kept = Retention(completed_ms=HOUR_MS)
        job = NewJob(type=job_type, queue=queue, payload=msgspec.Raw(b"{}"), retention=kept)
        self.engine.apply([Enqueue((job,), lambda result: None)])
        return self._taken[-1]

    def run(self, key: int, wait_ms: int, *, fails: bool, run_ms: int = 1_000) -> None:
        """Let time pass, so that what is due is taken, and then let the job run to its end."""
        self.clock.advance(wait_ms)
        self.engine.apply([])
        self.clock.advance(run_ms)
        failed = Fail(key, Failed(message="no"), lambda result: None)
        self.engine.apply([failed if fails else Succeed((key,), lambda result: None)])

    def close(self) -> None:
        """Close the store."""
        self.store.close()
