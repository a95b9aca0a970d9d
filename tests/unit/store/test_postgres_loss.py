"""A connection to PostgreSQL that is lost: nothing is lost with it, nothing is done twice, and nobody ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import msgspec
import psycopg
import pytest

from anew.engine import Call, Enqueue, ThreadCommit
from anew.engine.ops import Op
from anew.engine.staging import StagedInserts
from anew.engine.upkeep import wait_and_apply
from anew.errors import AnewError, ForkedStore, StoreBusy, StoreFailed
from anew.jobs import HoldKind, NewJob
from anew.store.postgres import link, open_postgres, opening
from anew.store.postgres.presence import GRACE_S, Grace
from anew.store.protocol import Store
from anew.store.selection import Filter
from anew.tasks.opening import open_engine
from tests.conformance.helpers import ALL, NOW, batch, new_job, put, stage, take, told
from tests.postgres import empty_database, socket_path, url_through
from tests.proxy import Proxy
from tests.waiting import until

LONG_S = 20.0


@pytest.fixture
def database() -> str:
    """The address of an empty database."""
    return empty_database()


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    """What connections may go through, to be lost there."""
    one = Proxy(socket_path())
    yield one
    one.close()


@pytest.fixture
def store(proxy: Proxy) -> Iterator[Store]:
    """A store behind the proxy."""
    one = open_postgres(url_through(proxy.port))
    yield one
    one.close()


@pytest.fixture
def program(proxy: Proxy) -> Iterator[ThreadCommit]:
    """An engine behind the proxy."""
    one = open_engine(url_through(proxy.port))
    yield one
    one.close()


@pytest.fixture
def other(database: str) -> Iterator[ThreadCommit]:
    """An engine that reaches the database directly."""
    one = open_engine(database)
    yield one
    one.close()


def begin(store: Store) -> bool:
    """Begin a transaction as soon as there is a connection."""
    while True:
        try:
            return store.begin(synced=True)
        except StoreBusy:
            assert store.turns.wait_until_free(LONG_S)


def enqueue(engine: ThreadCommit, n: int = 1) -> list[int]:
    """Enqueue some jobs."""
    return list(engine.enqueue([NewJob(type="t", queue="q", payload=msgspec.Raw(b"1"))] * n))


def stored(engine: ThreadCommit) -> list[int]:
    """Give the keys of all jobs there are."""
    reader = engine.engine.store.reader()
    try:
        assert reader.recount().counters == {}
        return reader.find(Filter(), ALL)
    finally:
        reader.close()


# -- outside of a transaction, and inside of one


def test_what_is_prepared_stays_so_when_a_transaction_is_undone(store: Store) -> None:
    put(store, new_job())
    store.begin(synced=False)
    store.rollback()
    reader = store.reader()
    with reader.snapshot():
        reader.find(Filter(), ALL)
    reader.version()
    for one in (store._link, reader._link):  # type: ignore[attr-defined]
        ((prepared,),) = one.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql"
        ).fetchall()
        assert prepared > 2
    reader.close()


def test_a_connection_that_is_lost_between_batches_is_made_again(
    store: Store, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, new_job())
    session = store.session
    proxy.cut()
    with pytest.raises(StoreBusy, match="the connection to the database was lost, and is being made again"):
        store.begin(synced=True)
    assert begin(store), "what is remembered of the rows may be wrong"
    store.rollback()
    assert store.session == session, "nobody has taken it for dead"
    assert told(store)
    assert [record.message for record in caplog.records] == [
        "the connection to the database was lost",
        "there is a connection to the database again",
    ]


def test_a_look_from_outside_of_a_batch_is_refused_and_the_next_ones_are_not(
    store: Store, proxy: Proxy
) -> None:
    put(store, new_job())
    proxy.cut()
    with pytest.raises(StoreBusy):
        store.load([1])
    assert store.turns.has_changed(), "so that a batch comes, which finds the new connection"
    assert str(store.turns.busy()).startswith("the connection to the database was lost")
    begin(store)
    store.rollback()
    assert [job.key for job in store.load([1])] == [1]
    assert not store.turns.has_changed()


def test_a_batch_that_had_not_come_to_its_commit_is_applied_again(
    program: ThreadCommit, proxy: Proxy
) -> None:
    times = []

    def verb(batch: object) -> str:
        times.append(1)
        if len(times) == 1:
            proxy.cut()
        return "done"

    assert program.apply(Call(verb, lambda result: None)) == "done"
    assert len(times) == 2
    assert len(enqueue(program, 3)) == 3
    assert len(stored(program)) == 3


def test_a_batch_is_undone_in_memory_when_its_connection_is_lost(program: ThreadCommit, proxy: Proxy) -> None:
    """Jobs that were taken in it are taken once, by the batch that lasts."""
    keys = enqueue(program, 5)
    proxy.cut_at(b"UPDATE turn", arrives=False)
    taken = program.take(["q"], 5)
    assert [row[0] for row in taken.rows] == keys
    assert program.succeed(keys, taken.token) == []
    assert stored(program) == []


@pytest.mark.parametrize("code", ["57P01", "57P02", "57P03", "25006", "25P03", "08006", "08P01"])
def test_codes_of_a_server_that_ends_or_only_reads_count_as_a_lost_connection(code: str) -> None:
    assert opening.is_lost(psycopg.errors.lookup(code)())


@pytest.mark.parametrize("code", ["23505", "53100", "55P03", "57014", "42601", "XX001", "25P02"])
def test_other_codes_do_not(code: str) -> None:
    assert not opening.is_lost(psycopg.errors.lookup(code)())


def test_a_server_that_only_reads_is_waited_for(store: Store) -> None:
    """As the old one is after a failover, or the new one for a moment."""
    store._link.connection.execute("SET default_transaction_read_only = on")  # type: ignore[attr-defined]
    with pytest.raises(StoreBusy, match="lost"):
        store.begin(synced=True)
    begin(store)
    store.rollback()
    put(store, new_job())


def test_a_transaction_that_the_server_has_ended_is_applied_again(
    program: ThreadCommit, database: str
) -> None:
    """As it ends one of a process that was stopped for too long."""
    times = []

    def verb(batch: object) -> str:
        times.append(1)
        if len(times) == 1:
            pid = program.engine.store._link.connection.info.backend_pid  # type: ignore[attr-defined]
            with psycopg.connect(database, autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        return "done"

    assert program.apply(Call(verb, lambda result: None)) == "done"
    assert len(times) == 2


# -- a COMMIT in doubt


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("others_write", [0, 1, 5])
def test_a_commit_in_doubt_is_found_out_about(
    program: ThreadCommit, other: ThreadCommit, proxy: Proxy, arrives: bool, others_write: int
) -> None:
    before = enqueue(program)
    mine: list[int] = []
    proxy.refuses = others_write > 0

    def others() -> None:
        mine.extend(key for _ in range(others_write) for key in enqueue(other))
        proxy.refuses = False

    proxy.cut_at(b"COMMIT", arrives=arrives, then=threading.Thread(target=others).start)
    came = enqueue(program, 2)
    assert len(came) == 2
    assert sorted(stored(other)) == sorted(before + mine + came), (
        "each is there once, whether or not the first COMMIT came"
    )
    assert len(mine) == others_write


def test_a_commit_in_doubt_is_known_by_its_writer_and_not_by_its_number(
    program: ThreadCommit, other: ThreadCommit, proxy: Proxy
) -> None:
    """The version that it would have written is there, but it is another's."""
    enqueue(other)
    enqueue(program)
    proxy.refuses = True

    def others() -> None:
        enqueue(other)  # the very next version
        proxy.refuses = False

    proxy.cut_at(b"COMMIT", arrives=False, then=threading.Thread(target=others).start)
    (key,) = enqueue(program)
    assert key in stored(other)
    assert len(stored(other)) == 4


def test_a_commit_in_doubt_waits_for_its_turn(
    program: ThreadCommit, other: ThreadCommit, proxy: Proxy
) -> None:
    """Longer than one `begin` would."""
    began = threading.Event()

    def keep_turn() -> None:
        other.engine.store.begin(synced=True)
        began.set()
        threading.Event().wait(5 * link.TURN_MS / 1_000)
        other.engine.store.rollback()

    def others() -> None:
        threading.Thread(target=keep_turn).start()
        assert began.wait(LONG_S)

    proxy.cut_at(b"COMMIT", arrives=True, then=others)
    assert len(enqueue(program, 2)) == 2
    assert len(stored(program)) == 2


def test_a_database_that_stays_away_while_a_commit_is_in_doubt_is_a_failure_of_the_store(
    program: ThreadCommit, other: ThreadCommit, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "DOUBT_S", 0.3)

    def gone() -> None:
        proxy.refuses = True

    proxy.cut_at(b"COMMIT", arrives=True, then=gone)
    with pytest.raises(StoreFailed, match="lost while a batch was being committed, and has not come back"):
        enqueue(program)
    with pytest.raises(StoreFailed):
        enqueue(program)
    assert len(stored(other)) == 1, "it was stored, which nobody could know"


def test_who_closes_while_the_database_is_away_does_not_wait_for_it(proxy: Proxy) -> None:
    program = open_engine(url_through(proxy.port))
    proxy.refuses = True
    proxy.cut()
    program.close()
    assert program.engine.store._link.connection.closed  # type: ignore[attr-defined]


def test_operations_are_refused_in_time_while_the_database_is_away(
    program: ThreadCommit, proxy: Proxy
) -> None:
    impatient = ThreadCommit(program.engine, busy_s=0.2)
    proxy.refuses = True
    proxy.cut()
    with pytest.raises(
        StoreBusy,
        match=r"the connection to the database was lost, and is being made again: .* cannot be reached",
    ):
        enqueue(impatient)
    proxy.refuses = False
    assert enqueue(program) == stored(program), "what was refused is not there"


# -- a network that tells nothing


def test_an_answer_that_never_comes_is_a_lost_connection(
    program: ThreadCommit, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening.Connection, "answer_s", 0.3)
    enqueue(program)
    program.engine.store._link.connection.answer_s = 0.3  # type: ignore[attr-defined]
    proxy.swallows = True

    def heal() -> None:
        proxy.swallows = False
        proxy.cut()

    threading.Timer(0.5, heal).start()
    enqueue(program)
    assert len(stored(program)) == 2


# -- readers


def test_a_reader_makes_its_connection_again(store: Store, proxy: Proxy) -> None:
    put(store, new_job())
    reader = store.reader()
    proxy.cut()
    assert reader.find(Filter(), ALL) == [1]
    with reader.snapshot():
        assert reader.find(Filter(), ALL) == [1]
        proxy.cut()
        with pytest.raises(StoreBusy, match="the connection to the database was lost"):
            reader.find(Filter(), ALL)
    with reader.snapshot():
        assert reader.find(Filter(), ALL) == [1]
    proxy.refuses = True
    proxy.cut()
    with pytest.raises(StoreBusy):
        reader.find(Filter(), ALL)
    proxy.refuses = False
    assert reader.find(Filter(), ALL) == [1]
    reader.close()


# -- sessions


def test_a_lock_that_was_free_for_a_moment_is_no_death() -> None:
    now = 100.0
    grace = Grace(lambda: now)
    for after, locked, alive in (
        (0.0, True, True),
        (1.0, False, True),
        (GRACE_S - 0.1, False, True),
        (0.05, True, True),  # it is back
        (9.0, False, True),
        (GRACE_S, False, False),
        (1.0, False, False),
    ):
        now += after
        assert grace.is_alive(7, locked=locked) is alive


def locked(database: str) -> list[int]:
    """Give the sessions whose locks somebody has."""
    with psycopg.connect(database) as admin:
        rows = admin.execute(
            "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2"
        ).fetchall()
    return sorted(session for (session,) in rows)


def test_an_idle_process_has_its_lock_again_at_once(store: Store, proxy: Proxy, database: str) -> None:
    """It does nothing for hours, and still nobody takes it for dead."""
    assert locked(database) == [store.session]
    proxy.refuses = True
    proxy.cut()
    until(lambda: not locked(database))
    proxy.refuses = False
    until(lambda: locked(database) == [store.session])


def test_reliability_35_who_was_taken_for_dead_goes_on_under_another_session(
    store: Store, proxy: Proxy, database: str, other: ThreadCommit
) -> None:
    put(store, new_job(), new_job())
    session = store.session
    (row,) = take(store, limit=1, owner=session, kind=HoldKind.SESSION, deadline=None)
    with batch(other.engine.store):
        assert other.engine.store.release(
            other.engine.store.processes.held_by(session, 10), NOW, interrupted=True
        ) == [row[0]]
        other.engine.store.processes.drop(session)
    with pytest.raises(StoreBusy, match="taken for dead: it was cut off from the database for too long"):
        store.begin(synced=True)
    begin(store)
    assert store.session > session
    assert store.held_under([(row[0], 5)]) == set(), "its late results change nothing"
    store.rollback()
    until(lambda: locked(database) == sorted([store.session, other.engine.store.session]))


def test_parts_of_a_long_payload_that_were_removed_with_a_session_are_not_taken_for_there(
    store: Store, other: ThreadCommit
) -> None:
    long = new_job(payload=b'"' + b"x" * 600_000 + b'"')
    with batch(store):
        stage(store, 7, [long], (0, 0), 1)
    with batch(other.engine.store):
        other.engine.store.processes.drop(store.session)
        other.engine.store.staging.unstage_abandoned()
    begin(store)
    stage(store, 9, [long], (0, 0), 1)
    store.commit()
    with batch(other.engine.store):
        other.engine.store.staging.unstage_abandoned()
    with batch(store):
        assert stage(store, 9, [long], (0, 256 << 10), 1 << 30) is None
        store.insert([9], [long], NOW, staged=True)
    assert [job.payload for job in store.load([9], payload=True)] == [bytes(long.payload)]


def test_a_long_payload_whose_first_parts_went_with_a_session_is_refused(
    program: ThreadCommit, other: ThreadCommit
) -> None:
    ops: list[Op] = []
    results: list[object] = []
    staged = StagedInserts(ops.append, program.engine.store.staging)
    long = Enqueue([new_job(payload=b'"' + b"x" * 600_000 + b'"')], results.append)
    staged.add(long, 600_000)
    program.apply(Call(lambda batch: None, lambda result: None))
    program.engine.apply([ops.pop()])
    with batch(other.engine.store):
        other.engine.store.processes.drop(program.engine.store.session)
        other.engine.store.staging.unstage_abandoned()
    while ops and not results:
        wait_and_apply(program.engine, [ops.pop(0)])
    (refused,) = results
    assert isinstance(refused, StoreBusy)
    assert "cut off from the store while long payloads were written" in str(refused)
    assert stored(other) == []


def test_word_of_ready_jobs_comes_again_after_a_loss(store: Store, proxy: Proxy, other: ThreadCommit) -> None:
    wakes = store.processes.listen()
    assert wakes is not None
    proxy.cut()
    until(lambda: wakes in select_readable(wakes))
    store.processes.hear()

    def told_of_jobs() -> bool:
        enqueue(other)
        return wakes in select_readable(wakes)

    until(told_of_jobs)


def select_readable(fd: int) -> list[int]:
    """Give the descriptor if it can be read within a moment."""
    import select

    return select.select([fd], [], [], 0.1)[0]


# -- what a process had begun with


def test_notes_of_what_has_begun_outlive_the_process_and_go_with_its_session(
    store: Store, other: ThreadCommit, database: str
) -> None:
    theirs = other.engine.store
    assert theirs.processes.begun(store.session) is None
    store.processes.note_begun(0, 0)
    until(lambda: theirs.processes.begun(store.session) == frozenset())
    store.processes.note_begun(1, 11)
    store.processes.note_begun(2, 12)
    store.processes.note_begun(1, 13)
    until(lambda: theirs.processes.begun(store.session) == {12, 13})
    with batch(theirs):
        theirs.processes.drop(store.session)
    with psycopg.connect(database) as admin:
        assert admin.execute("SELECT count(*) FROM anew.begun").fetchall() == [(0,)]


def test_notes_are_made_again_after_a_loss_and_for_a_new_session(
    store: Store, other: ThreadCommit, proxy: Proxy
) -> None:
    theirs = other.engine.store
    store.processes.note_begun(1, 11)
    until(lambda: theirs.processes.begun(store.session) == {11})
    proxy.cut()

    def again() -> bool:
        store.processes.note_begun(2, 12)
        return theirs.processes.begun(store.session) == {11, 12}

    until(again)
    with batch(theirs):
        theirs.processes.drop(store.session)
    begin(store)
    store.rollback()
    until(lambda: theirs.processes.begun(store.session) == {11, 12})


def test_a_note_waits_for_nobody(store: Store, proxy: Proxy) -> None:
    """And libpq keeps no more of them than some."""
    store.processes.note_begun(0, 0)
    proxy.swallows = True
    for slot in range(3_000):
        store.processes.note_begun(slot, slot + 1)
    notes = store._link._notes  # type: ignore[attr-defined]
    assert notes._connection is None, "with so many without an answer it counts as lost"
    assert len(notes._slots) == 3_000, "all are noted for the next connection"
    proxy.swallows = False
    proxy.cut()


# -- forks


def test_a_forked_child_refuses_everything_and_leaves_the_parents_connections_alone(
    store: Store, database: str
) -> None:
    put(store, new_job())
    reader = store.reader()
    store.processes.note_begun(0, 0)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for refused in (
                lambda: store.begin(synced=True),
                lambda: store.load([1]),
                lambda: reader.find(Filter(), ALL),
            ):
                with pytest.raises(ForkedStore):
                    refused()
            store.close()
            mine = open_postgres(database)
            put(mine, new_job("child"), first_key=2)
            mine.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert reader.find(Filter(), ALL) == [1, 2]
    reader.close()
    with batch(store):
        assert sorted(told(store)) != []
    assert locked(database) == [store.session]


def test_a_forked_child_does_not_keep_its_parents_session_alive(database: str) -> None:
    ready, go = os.pipe(), os.pipe()
    parent = os.fork()
    if parent == 0:
        store = open_postgres(database)
        store.processes.note_begun(0, 0)
        child = os.fork()
        if child == 0:
            os.write(ready[1], b"%d" % store.session)
            os.read(go[0], 1)
        os._exit(0)
    session = int(os.read(ready[0], 20))
    os.waitpid(parent, 0)
    until(lambda: session not in locked(database))
    os.write(go[1], b"!")


def test_the_errors_are_told_in_our_words(store: Store) -> None:
    for error, ours in (
        (psycopg.errors.AdminShutdown("x"), StoreBusy),
        (psycopg.errors.LockNotAvailable("x"), StoreBusy),
        (psycopg.errors.DiskFull("x"), AnewError),
        (psycopg.errors.DeadlockDetected("x"), StoreBusy),
        (psycopg.errors.DataCorrupted("x"), StoreFailed),
        (psycopg.errors.IoError("x"), StoreFailed),
        (psycopg.errors.QueryCanceled("x"), type(None)),
        (psycopg.errors.OutOfMemory("x"), type(None)),
        (ValueError("x"), type(None)),
    ):
        assert isinstance(store.explain(error), ours)
