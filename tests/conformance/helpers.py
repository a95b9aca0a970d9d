"""Short hands for the cases: one transaction, one job, one picture of everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from anew.jobs import AttemptRecord, Change, HoldKind, Job, Move, NewJob, State
from anew.store.protocol import Hold, Position, Rewrite, Store, TakenRow
from anew.store.selection import Filter, Page

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
ALL = Page(limit=1_000_000)
BIG = 2_049
"""Bytes of the least payload that an engine may keep apart; what is read back must not show it."""


def new_job(queue: str = "mail", payload: bytes = b"{}", **members: Any) -> NewJob:
    """A job of type ``send``."""
    return NewJob(**{"type": "send", "queue": queue, "payload": msgspec.Raw(payload)} | members)


@contextmanager
def batch(store: Store, *, synced: bool = False) -> Iterator[Store]:
    """One transaction; nothing of it lasts if the body raises."""
    store.begin(synced=synced)
    try:
        yield store
    except BaseException:
        store.rollback()
        raise
    store.commit()


def insert(store: Store, first: int, jobs: Sequence[NewJob], now: int = NOW, **more: Any) -> None:
    """Store jobs under keys from the first on, in the open transaction."""
    store.insert(range(first, first + len(jobs)), jobs, now, **more)


def insert_plain(store: Store, first: int, jobs: Sequence[NewJob], now: int = NOW) -> None:
    """The same for plain ones."""
    store.insert_plain(range(first, first + len(jobs)), jobs, now)


def stage(store: Store, first: int, jobs: Sequence[NewJob], at: Position, max_bytes: int) -> Position | None:
    """Write payloads ahead of jobs with keys from the first on."""
    assert store.staging is not None
    return store.staging.stage(range(first, first + len(jobs)), jobs, at, max_bytes)


def ready_total(store: Store) -> int:
    """How many jobs are ready, over all queues."""
    return sum(states[State.READY] for states in store.queues.counts().values())


def put(store: Store, *jobs: NewJob, first_key: int = 1, now: int = NOW) -> list[int]:
    """Store jobs in a transaction of their own; gives their keys."""
    keys = range(first_key, first_key + len(jobs))
    with batch(store):
        store.insert(keys, jobs, now)
    return list(keys)


def hold(**overrides: Any) -> Hold:
    """An hour's hold of a stream of session 1."""
    fields = {"kind": HoldKind.STREAM, "token": 5, "owner": 1, "deadline": NOW + HOUR_MS, "now": NOW}
    return Hold(**fields | overrides)


def take(
    store: Store,
    queues: Sequence[str] | None = None,
    limit: int = 1_000,
    max_bytes: int = 1 << 30,
    **held: Any,
) -> list[TakenRow]:
    """Take in a transaction of its own."""
    with batch(store):
        rows, corrupt, _ = store.take(queues, limit, max_bytes, hold(**held))
    assert corrupt == {}
    return rows


def taken_keys(rows: list[TakenRow]) -> list[int]:
    """The keys of what was taken, in the order given."""
    return [row[0] for row in rows]


def one(store: Store, key: int) -> Job:
    """The job of a key, payload and all."""
    (job,) = store.load([key], payload=True)
    return job


def state_of(store: Store, key: int) -> State | None:
    """Where a job stands; None if it is gone."""
    jobs = store.load([key])
    return jobs[0].state if jobs else None


def change(key: int, state: State, **overrides: Any) -> Change:
    """What a first failure makes of a job in flight."""
    remove = overrides.pop("remove", False)
    number = overrides.get("attempts", 1)
    record = {
        "job_key": key,
        "attempt": number,
        "outcome": "error",
        "message": f"failed {number}",
        "error_type": "Oops",
        "backtrace": None,
        "dequeued_at": NOW,
        "failed_at": NOW + 10,
        "decision": b"{}",
    } | overrides.pop("record", {})
    fields: dict[str, Any] = {
        "ready_at": NOW + 1_000 if state is State.RETRYING else None,
        "attempts": number,
        "failed_at": NOW + 10,
        "first_failed_at": NOW + 10,
        "purge_at": NOW + HOUR_MS if state is State.DEAD else None,
        "phase": 0.5,
        "carry": None,
    }
    move = Move.DIE if state is State.DEAD else Move.RETRY
    return Change(
        key=key, move=move, state=state, remove=remove, attempt=AttemptRecord(**record), **fields | overrides
    )


def rewrite(before: Job, **changes: Any) -> Rewrite:
    """A patch of a job as it was read."""
    return Rewrite(msgspec.structs.replace(before, **changes), before.queue, before.state)


def counted(store: Store) -> dict[tuple[str, State], int]:
    """Jobs by queue and state, counted job by job."""
    jobs = store.load(store.find(Filter(), ALL))
    return dict(Counter((job.queue, job.state) for job in jobs))


def told(store: Store) -> dict[tuple[str, State], int]:
    """Jobs by queue and state, as the counters tell; without zeros."""
    return {
        (queue, state): n
        for queue, states in store.queues.counts().items()
        for state, n in states.items()
        if n != 0
    }


def check_counts(store: Store) -> None:
    """The counters must equal the rows, queue by queue and state by state."""
    assert told(store) == counted(store)
    queues = {queue for queue, _ in counted(store)}
    assert set(store.queues.counts()) == queues
    ready = {queue: told(store).get((queue, State.READY), 0) for queue in queues}
    assert {queue: store.queues.takeable(queue) for queue in queues} == ready
    assert store.queues.any_ready() == any(ready.values())
    every, some = store.queues.counts(), sorted(queues)[::2]
    assert store.queues.counts([*some, "nobody's"]) == {queue: every[queue] for queue in some}
    if not store.is_open():
        reader = store.reader()
        assert reader.counts() == every
        reader.close()


def fail_again(store: Store, key: int, times: int) -> None:
    """Fail a job so often, a second apart."""
    for number in range(1, times + 1):
        take(store)
        with batch(store):
            failed = change(
                key, State.RETRYING, attempts=number, failed_at=NOW + number, first_failed_at=NOW + 1
            )
            store.apply([failed])
            store.promote(NOW + HOUR_MS, 10)
