"""A COMMIT that no standby has confirmed: it lasts on this server alone, and nobody is told that it is safe."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg
import pytest

from anew.engine import Call, Enqueue, ThreadCommit
from anew.errors import InDoubt
from anew.jobs import NewJob
from anew.jobs.codec import JobHooks, PushedJob, UniqueKey
from anew.jobs.unique import Scope, text_digest
from anew.store.postgres import link, open_postgres, opening
from anew.store.selection import Filter
from anew.tasks.opening import open_engine
from tests.conformance.helpers import ALL, batch, new_job, put
from tests.postgres import cancel_wait, empty_database, no_standby_confirms, waiting_for_standby

QUIET = "client_min_messages=error"
"""With this of a role's or a database's, PostgreSQL would send no warning."""


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


@pytest.fixture
def program(database: str) -> Iterator[ThreadCommit]:
    """One process."""
    with opened(database) as one:
        yield one


@pytest.fixture
def other(database: str) -> Iterator[ThreadCommit]:
    """Another one."""
    with opened(database) as one:
        yield one


def beside(call: Callable[[], Any]) -> Future[Any]:
    """Call something in a thread."""
    result: Future[Any] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result


def waits_for_standby(result: Future[Any]) -> int:
    """Wait until a COMMIT waits for a standby; give its backend."""
    while not result.done():
        for pid in waiting_for_standby():
            return pid
    raise AssertionError(f"it did not wait: {result}")


def enqueue(engine: ThreadCommit) -> list[int]:
    """Enqueue a job."""
    return list(engine.enqueue([NewJob(type="t", queue="q", payload=msgspec.Raw(b"1"))]))


def stored(engine: ThreadCommit) -> list[int]:
    """Give the keys of all jobs there are."""
    reader = engine.engine.store.reader()
    try:
        return reader.find(Filter(), ALL)
    finally:
        reader.close()


@pytest.mark.parametrize("quiet", [False, True])
def test_reliability_38_a_commit_with_a_warning_is_in_doubt_and_the_next_ones_go_on(
    database: str, quiet: bool
) -> None:
    with psycopg.connect(database, autocommit=True) as admin, opened(database) as program:
        if quiet:
            admin.execute(f"ALTER ROLE CURRENT_USER SET {QUIET}")
        try:
            with opened(database) as other, no_standby_confirms():
                answer = beside(lambda: enqueue(other))
                cancel_wait(waits_for_standby(answer))
                with pytest.raises(InDoubt, match="stored, but PostgreSQL has not confirmed"):
                    answer.result()
                (key,) = stored(program)
                later = beside(lambda: enqueue(other))
                waits_for_standby(later)
        finally:
            admin.execute("ALTER ROLE CURRENT_USER RESET client_min_messages")
        taken = program.take(["q"], 10)
        assert [row[0] for row in taken.rows] == [key, *later.result()]


def test_what_was_taken_in_a_batch_that_is_in_doubt_is_held_and_can_be_settled(program: ThreadCommit) -> None:
    keys = enqueue(program)
    token = program.take(["q"], 1).token
    with no_standby_confirms():
        answer = beside(lambda: program.apply(Call(lambda _: "made", lambda _: None, durable=False)))
        assert answer.result() == "made", "nothing was written"
        settled = beside(lambda: program.succeed(keys, token))
        cancel_wait(waits_for_standby(settled))
        with pytest.raises(InDoubt) as doubt:
            settled.result()
        assert doubt.value.result == [], "what a success would have given"
    assert stored(program) == []


def test_reliability_38_a_commit_whose_backend_was_ended_while_it_waited_is_not_taken_to_be_safe(
    program: ThreadCommit, other: ThreadCommit
) -> None:
    """The new connection finds it, but it may be on this server alone."""
    with no_standby_confirms():
        answer = beside(lambda: enqueue(program))
        ended = waits_for_standby(answer)
        cancel_wait(ended, "terminate")
        while (pid := waits_for_standby(answer)) == ended:
            pass
        assert len(stored(other)) == 1
        assert not answer.done()
    assert answer.result() == stored(other)
    with no_standby_confirms():
        answer = beside(lambda: enqueue(program))
        ended = waits_for_standby(answer)
        cancel_wait(ended, "terminate")
        while (pid := waits_for_standby(answer)) == ended:
            pass
        cancel_wait(pid)
        with pytest.raises(InDoubt):
            answer.result()
    assert len(stored(other)) == 2


def test_reliability_38_what_others_have_committed_in_doubt_is_no_ground_for_an_answer(
    database: str, program: ThreadCommit, other: ThreadCommit
) -> None:
    """Who repeats a request with its key at another node is told that the job is there: so it must be safe by then."""
    hooks = JobHooks(unique=UniqueKey(text_digest("k"), Scope.ACTIVE))
    tied = PushedJob(type="t", queue="q", payload=msgspec.Raw(b"1"), hooks=hooks)

    def push(engine: ThreadCommit) -> Any:
        return engine.apply(Enqueue([tied], lambda _: None))

    with no_standby_confirms():
        answer = beside(lambda: push(program))
        cancel_wait(waits_for_standby(answer))
        with pytest.raises(InDoubt):
            answer.result()
        repeated = beside(lambda: push(other))
        cancel_wait(waits_for_standby(repeated))
        with pytest.raises(InDoubt):
            repeated.result()
        repeated = beside(lambda: push(other))
        waits_for_standby(repeated)
    assert len(stored(program)) == 1
    assert list(repeated.result().existing) == [0]
    with psycopg.connect(database, autocommit=True) as admin:

        def written() -> object:
            return admin.execute("SELECT ctid FROM anew.turn").fetchall()

        before = written()
        assert list(push(other).existing) == [0]
        assert written() == before, "it is known to be safe, and nothing is written for it any more"


def test_a_standby_that_confirms_nothing_for_long_ends_no_process(
    program: ThreadCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client has given the connection up, and the COMMIT waits on, with the turn."""
    monkeypatch.setattr(link, "DOUBT_S", 0.2)
    monkeypatch.setattr(opening.Connection, "answer_s", 0.3)
    program.engine.store._link.connection.answer_s = 0.3  # type: ignore[attr-defined]
    with no_standby_confirms():
        answer = beside(lambda: enqueue(program))
        pid = waits_for_standby(answer)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                answer.result(0.4)
        assert waiting_for_standby() == [pid]
    assert answer.result() == stored(program)


def test_reliability_38_ctrl_c_cancels_no_commit(database: str) -> None:
    store: Any = open_postgres(database)
    store.begin(synced=True)
    store.insert([1], [new_job()], 0)

    def interrupt() -> None:
        while not waiting_for_standby():
            pass
        os.kill(os.getpid(), signal.SIGINT)
        while store._link.connection.interruption is None:
            pass
        still.extend(waiting_for_standby())
        confirm.set()

    still: list[int] = []
    confirm = threading.Event()

    def standby() -> None:
        with no_standby_confirms():
            ready.set()
            confirm.wait()

    ready = threading.Event()
    threads = [threading.Thread(target=standby), threading.Thread(target=interrupt)]
    threads[0].start()
    ready.wait()
    threads[1].start()
    with pytest.raises(KeyboardInterrupt):
        store.commit()
    for thread in threads:
        thread.join()
    assert still == [store._link.connection.info.backend_pid], "it waited on"
    assert not store.is_open()
    store.sync()
    store.rollback()
    with batch(store):
        assert [job.key for job in store.load([1])] == [1]
    store.close()


def test_a_second_ctrl_c_waits_no_longer_and_nothing_is_done_twice(database: str) -> None:
    store: Any = open_postgres(database)
    store.begin(synced=True)
    store.insert([1], [new_job()], 0)

    def interrupt() -> None:
        while not waiting_for_standby():
            pass
        os.kill(os.getpid(), signal.SIGINT)
        while store._link.connection.interruption is None:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with no_standby_confirms():
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            store.commit()
        thread.join()
        store.rollback()
        with pytest.raises(link.StoreFailed, match="nothing more is written"):
            store.begin(synced=True)
    store.close()
    other: Any = open_postgres(database)
    put(other, new_job(), first_key=2)
    assert [job.key for job in other.load([1, 2])] == [1, 2]
    other.close()
