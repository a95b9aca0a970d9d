"""How processes on one database wake each other: after the commit, now and then, and never in the way of anybody's transaction."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
import pytest

from anew.engine import ThreadCommit
from anew.jobs import NewJob
from anew.store.postgres import open_postgres
from anew.store.postgres.presence import CHANNEL, TELL_S, TellPace
from anew.tasks.opening import open_engine
from tests.conformance.helpers import new_job, put
from tests.postgres import empty_database, no_standby_confirms, server, waiting_for_standby


@pytest.fixture
def database() -> str:
    """The address of an empty database."""
    return empty_database()


@contextmanager
def opened(database: str) -> Iterator[ThreadCommit]:
    """An engine on it."""
    one = open_engine(database)
    try:
        yield one
    finally:
        one.close()


def enqueue(engine: ThreadCommit) -> None:
    """Enqueue a job."""
    engine.enqueue([NewJob(type="t", queue="q", payload=msgspec.Raw(b"1"))])


@contextmanager
def lock_of_notify() -> Iterator[None]:
    """Have somebody's COMMIT keep the lock that a transaction with a NOTIFY takes, which the whole server has once."""
    with no_standby_confirms(), psycopg.connect(server().get_uri(), autocommit=True) as other:
        other.execute("SET synchronous_commit = on")
        other.execute("BEGIN; SELECT pg_logical_emit_message(true, 'test', ''); NOTIFY something")
        committing = threading.Thread(target=other.execute, args=("COMMIT",))
        committing.start()
        while other.info.backend_pid not in waiting_for_standby():
            pass
        yield
        with psycopg.connect(server().get_uri(), autocommit=True) as admin:
            admin.execute("SELECT pg_cancel_backend(%s)", (other.info.backend_pid,))
        committing.join()


def test_reliability_41_no_transaction_with_jobs_waits_for_the_lock_of_a_notify(database: str) -> None:
    """Neither the store's own, nor one in which somebody enqueues: as there is no NOTIFY in them."""
    store: Any = open_postgres(database, relaxed=True)  # its own COMMITs do not wait for the standby
    with lock_of_notify():
        put(store, new_job())
        with psycopg.connect(database) as shop:
            shop.execute("SET LOCAL synchronous_commit = off")
            shop.execute("SELECT anew.enqueue('pack')")
        assert store.turns.has_changed(), "the row is found without being told of it"
        before = store._link._presence._connection
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            put(store, new_job(), first_key=int(time.monotonic() * 1e6))
        assert store._link._presence._connection is before, (
            "and the process keeps the lock that shows that it lives"
        )
    store.close()


def test_word_of_ready_jobs_is_sent_once_for_many_commits() -> None:
    now = 100.0
    pace = TellPace(lambda: now)
    sent = asked = 0
    for _ in range(1_000):  # a second, with a commit each millisecond
        asked += pace.ask()
        sent += pace.is_due()
        now += 0.001
    assert sent == round(1 / TELL_S)
    assert asked <= sent + 1
    assert TELL_S >= 1 / 20


def test_the_first_word_is_sent_at_once_and_the_last_is_not_forgotten() -> None:
    now = 100.0
    pace = TellPace(lambda: now)
    assert pace.left_s(2.0) == 2.0
    assert pace.ask()
    assert pace.left_s(2.0) == 0.0
    assert pace.is_due()
    assert not pace.is_due()
    now += 0.25 * TELL_S
    assert pace.ask()
    assert not pace.ask(), "it is on its way"
    assert not pace.is_due()
    assert pace.left_s(2.0) == pytest.approx(0.75 * TELL_S)
    now += 0.75 * TELL_S
    assert pace.is_due()


def test_reliability_41_others_are_told_after_commits_and_few_times(database: str) -> None:
    with opened(database) as program, psycopg.connect(database, autocommit=True) as listening:
        listening.execute(f"LISTEN {CHANNEL}")
        began = time.monotonic()
        for _ in range(100):
            enqueue(program)
        told = [note.payload for note in listening.notifies(timeout=3 * TELL_S)]
        took = time.monotonic() - began
        assert set(told) == {str(program.engine.store.session)}
        assert len(told) <= took / TELL_S + 1


def test_who_waits_in_another_process_has_a_job_soon(database: str) -> None:
    """Here because it is told: its own look would come much later."""
    with opened(database) as program, opened(database) as other:
        wakes = other.engine.store.processes.listen()
        assert wakes is not None
        other.engine.store.processes.hear()
        enqueue(program)
        assert select.select([wakes], [], [], 20.0)[0]
        assert len(other.take(["q"], 1).rows) == 1
