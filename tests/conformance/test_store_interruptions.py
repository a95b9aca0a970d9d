"""Interruptions that are written as changes: the count lasts, and no failure is made of them."""

from __future__ import annotations

from typing import Any

import pytest

from anew.jobs import State
from anew.store.protocol import Store
from anew.store.selection import Page

from .helpers import NOW, batch, change, check_counts, new_job, one, put, take, taken_keys

INTERRUPTED = {"outcome": "interrupted", "attempt": 1}
NO_FAILURE: dict[str, Any] = {"first_failed_at": None, "record": INTERRUPTED}


@pytest.mark.parametrize("state", [State.READY, State.RETRYING])
def test_the_count_is_kept_and_the_first_failure_still_to_come(store: Store, state: State) -> None:
    put(store, new_job(ready_at=NOW - 7))
    take(store)
    with batch(store):
        store.apply([change(1, state, attempts=0, phase=None, interruptions=3, **NO_FAILURE)])
    job = one(store, 1)
    assert (job.state, job.attempts, job.interruptions) == (state, 0, 3)
    assert (job.failed_at, job.first_failed_at, job.phase) == (NOW + 10, None, None)
    assert job.ready_at == (NOW - 7 if state is State.READY else NOW + 1_000)
    (record,) = store.records.errors(1, Page())
    assert (record.outcome, record.attempt) == ("interrupted", 1)
    check_counts(store)


def test_a_job_made_ready_again_keeps_its_place(store: Store) -> None:
    put(store, new_job(), new_job())
    take(store, limit=1)
    with batch(store):
        store.apply([change(1, State.READY, attempts=0, interruptions=1, **NO_FAILURE)])
    assert taken_keys(take(store)) == [1, 2]


def test_a_failure_after_it_is_the_first_and_ends_the_count(store: Store) -> None:
    put(store, new_job())
    take(store)
    with batch(store):
        store.apply([change(1, State.READY, attempts=0, interruptions=1, **NO_FAILURE)])
    take(store)
    with batch(store):
        store.apply([change(1, State.RETRYING, failed_at=NOW + 99, first_failed_at=NOW + 99)])
    assert (one(store, 1).interruptions, one(store, 1).first_failed_at) == (0, NOW + 99)
    take(store)
    with batch(store):
        store.promote(NOW + 1_000, 10)
    take(store)
    with batch(store):
        again = change(
            1, State.RETRYING, attempts=1, interruptions=1, first_failed_at=NOW + 99, record=INTERRUPTED
        )
        store.apply([again])
    assert (one(store, 1).interruptions, one(store, 1).first_failed_at) == (1, NOW + 99)
